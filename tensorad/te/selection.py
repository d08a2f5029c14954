"""What an index of an array selects, by NumPy's rules: parts of its axes, and where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import EllipsisType

import numpy as np

from tensorad.errors import BoundsError, DefinitionError, DTypeError, ShapeError
from tensorad.ir.arrays.constants import constant
from tensorad.ir.arrays.elementwise import broadcast_shapes, difference
from tensorad.ir.arrays.indexing import from_the_end
from tensorad.ir.arrays.tracing import stand_ins
from tensorad.ir.dtypes import BOOL, INT64
from tensorad.ir.expr import TRUE, Expr, as_expr, int_const, read
from tensorad.ir.order import READ, REDUCE, axes_in, occurs
from tensorad.ir.references import Read
from tensorad.ir.tensor import Compute, Dim, Shape, Tensor, dim_expr, dim_of, format_shape
from tensorad.ir.visit import rewrite, substitute
from tensorad.simplify.bounds.in_range import Query
from tensorad.simplify.index.intervals import interval


@dataclass(frozen=True, eq=False)
class Point:
    """One element of an axis."""

    index: Expr


@dataclass(frozen=True, eq=False)
class Window:
    """`count` elements of an axis: start, start + step, ..."""

    start: Expr
    step: int
    count: Dim

    def index(self, n: Expr) -> Expr:
        """The n-th of them."""
        if self.step < 0:
            return self.start - n * -self.step
        return n * self.step + self.start


@dataclass(frozen=True, eq=False)
class Gather:
    """The elements of an axis at positions that are a tensor."""

    positions: Tensor
    extent: Dim

    def index(self, axes: Sequence[Expr]) -> Expr:
        """The position at an index of the shape that all positions are broadcast to."""
        own = axes[len(axes) - self.positions.ndim :]
        at = broadcast_indices(self.positions.shape, own)
        return from_start(_written_out(read(self.positions, at)).astype("int64"), self.extent)


Part = Point | Window | Gather


@dataclass(frozen=True, eq=False)
class Selection:
    """A part of each axis of a tensor, and the shape of what they select.

    Windows are axes of that shape; what is gathered shares those of `block`; points have none.
    """

    parts: tuple[Part, ...]
    shape: Shape
    axes: tuple[int, ...]
    """Of the windows in their order."""
    block: slice

    def indices(self, at: Sequence[Expr]) -> tuple[Expr, ...]:
        """Where in the tensor the element is that is selected as the one at `at`."""
        axes = iter(self.axes)
        found: list[Expr] = []
        for part in self.parts:
            if isinstance(part, Point):
                found.append(part.index)
            elif isinstance(part, Window):
                found.append(part.index(at[next(axes)]))
            else:
                found.append(part.index(at[self.block]))
        return tuple(found)


def broadcast_indices(shape: Shape, at: Sequence[Expr]) -> tuple[Expr, ...]:
    """Where a tensor of this shape is read that is stretched along axes of extent 1."""
    stretched = [isinstance(n, int) and n == 1 for n in shape]
    return tuple([int_const(0) if s else i for s, i in zip(stretched, at, strict=True)])


def from_start(e: Expr, extent: Dim) -> Expr:
    """A position, where negative ones count from the end; as it is if it is none of them."""
    n, known = dim_expr(extent), interval(e)
    if known.lo is not None and known.lo >= 0:
        return e
    if known.hi is not None and known.hi < 0:
        return n + e
    if not occurs(READ, e) and Query(axes_in(e), TRUE, e, n).verdict().kind == "in":
        return e
    return from_the_end(e, n)


def _written_out(e: Expr) -> Expr:
    """An index from a tensor that is a formula of its own indices alone: that formula."""

    def formula(part: Expr) -> Expr | None:
        if not isinstance(part, Read) or not isinstance(part.tensor.op, Compute):
            return None
        if part.tensor in stand_ins():
            return None
        op = part.tensor.op
        body = op.bodies[part.tensor.index]
        if occurs(REDUCE, body):
            return None
        return rewrite(substitute(body, dict(zip(op.axes, part.indices, strict=True))), formula)

    written = rewrite(e, formula)
    return e if occurs(READ, written) else written


def selection(x: Tensor, key: object) -> Selection:
    """What x[key] is: integers, sizes, slices, `...`, None, integer arrays and tensors.

    Slices of axes with a symbolic extent, or by sizes, have to lie inside; other slices are cut
    to the axis. Numbers below 0 count from the end.

    Raises:
        BoundsError: a number is outside of the axis.
        DefinitionError: it is a boolean mask, or a slice whose extent depends on data.
        DTypeError: an index is no integer.
        ShapeError: there are more than axes, or arrays do not broadcast.
    """
    items = _expanded(x, key if isinstance(key, tuple) else (key,))
    parts: list[Part | EllipsisType | None] = []
    d = 0
    for item in items:
        marker = item is None or item is ...
        parts.append(item if marker else _part(x, d, item))  # type: ignore[arg-type]  # a marker is one of both
        d += not marker
    return _laid_out(parts)


def _laid_out(parts: Sequence[Part | EllipsisType | None]) -> Selection:
    gathered = [p.positions.shape for p in parts if isinstance(p, Gather)]
    together = broadcast_shapes("index", *gathered)
    special = [n for n, p in enumerate(parts) if gathered and isinstance(p, (Point, Gather))]
    apart = any(b > a + 1 for a, b in pairwise(special))
    shape: list[Dim] = [*together] if apart else []
    first, axes = 0, []
    for n, part in enumerate(parts):
        if special and n == special[0] and not apart:
            first = len(shape)
            shape += together
        if part is None:
            shape.append(1)
        if isinstance(part, Window):
            axes.append(len(shape))
            shape.append(part.count)
    own = tuple([p for p in parts if isinstance(p, Part)])
    return Selection(own, tuple(shape), tuple(axes), slice(first, first + len(together)))


def _expanded(x: Tensor, key: tuple[object, ...]) -> list[object]:
    """The key with a slice for each axis that it does not name."""
    dots = [n for n, item in enumerate(key) if item is ...]
    given = len(key) - len(dots) - sum(item is None for item in key)
    where = f"{x.name} with shape {format_shape(x.shape)}"
    if len(dots) > 1:
        raise DefinitionError(
            f"the index of {x.name} has {len(dots)} ellipses.",
            where=where,
            hint="`...` stands for all axes that are not named: write it once.",
        )
    if given > x.ndim:
        raise ShapeError(
            f"{x.name} has {x.ndim} {'axis' if x.ndim == 1 else 'axes'}, but {given} indices "
            "were given.",
            where=where,
            hint="give at most one index per axis; None makes a new axis.",
        )
    rest = [slice(None)] * (x.ndim - given)
    if not dots:
        return [*key, *rest]
    return [*key[: dots[0]], ..., *rest, *key[dots[0] + 1 :]]


def _part(x: Tensor, d: int, item: object) -> Part:
    """The part of axis d that one index selects."""
    if isinstance(item, slice):
        return _window(x, d, item)
    if isinstance(item, (list, tuple, range)):
        item = _array(x, d, item)
    dtype = item.dtype if isinstance(item, (np.generic, np.ndarray, Expr, Tensor)) else None
    if isinstance(item, bool) or dtype is BOOL or dtype == np.bool_:
        raise DefinitionError(
            f"index {d} of {x.name} is a boolean mask: how many elements it selects depends on "
            "its values.",
            where=f"{x.name} with shape {format_shape(x.shape)}",
            hint="choose elements with ta.select(mask, x, other), which keeps the shape, or "
            "give the positions: np.nonzero(mask) of an array.",
        )
    if isinstance(item, Tensor) and not item.ndim:
        item = item.as_scalar()
    if isinstance(item, np.ndarray) and not item.ndim:
        item = item[()]
    if isinstance(item, (int, np.integer)):
        return Point(from_start(int_const(_number(x, d, int(item))), x.shape[d]))
    whole = item.dtype.is_integer if isinstance(item, (Expr, Tensor)) else False
    if isinstance(item, np.ndarray) and item.dtype.kind in "iu":
        return _at_numbers(x, d, item)
    if isinstance(item, Expr) and whole:
        return Point(from_start(_written_out(item.astype("int64")), x.shape[d]))
    if isinstance(item, Tensor) and whole:
        known = item.op.array if item.is_constant else None  # type: ignore[union-attr]  # a Constant
        return Gather(item, x.shape[d]) if known is None else _at_numbers(x, d, known)
    raise _no_integer(x, d, item)


def _array(x: Tensor, d: int, item: object) -> np.ndarray:
    """A list of numbers as an array."""
    try:
        array = np.asarray(item)
    except ValueError:  # NumPy's own text speaks of "an inhomogeneous shape"
        raise ShapeError(
            f"index {d} of {x.name}: the nested lists do not form an array.",
            hint="give every row the same length.",
        ) from None
    return array if array.size else array.astype(np.int64)


def _at_numbers(x: Tensor, d: int, array: np.ndarray) -> Gather:
    for k in (array.min(), array.max()) if array.size else ():
        _number(x, d, int(k))
    n = x.shape[d]
    places = np.where(array < 0, array + n, array) if isinstance(n, int) else array
    return Gather(constant(places, INT64), n)


def _number(x: Tensor, d: int, k: int) -> int:
    """A position given as a number; negative only where the extent is no number."""
    n = x.shape[d]
    if not isinstance(n, int):
        return k
    if -n <= k < n:
        return k % n
    raise BoundsError(
        f"index {k} is outside of axis {d} of {x.name}, whose extent is {n}.",
        where=f"{x.name} with shape {format_shape(x.shape)}",
        hint=f"use an index from {-n} to {n - 1}." if n else "an empty axis has no element.",
    )


def _no_integer(x: Tensor, d: int, item: object) -> DTypeError:
    kind = item.dtype if isinstance(item, (Expr, Tensor, np.ndarray)) else type(item).__name__
    return DTypeError(
        f"index {d} of {x.name} must be an integer, a slice or integers, got {kind}.",
        where=f"{x.name} with shape {format_shape(x.shape)}",
        hint="use // for integer division, or .astype('int64').",
    )


def _window(x: Tensor, d: int, given: slice) -> Window:
    n = x.shape[d]
    start, stop, step = [_bound(x, d, b) for b in (given.start, given.stop, given.step)]
    if isinstance(step, Expr) or step == 0:
        raise DefinitionError(
            f"the step of the slice at index {d} of {x.name} is {step}.",
            where=f"{x.name} with shape {format_shape(x.shape)}",
            hint="a step is a number other than 0; gather at other distances: "
            "x[start + n * topi.arange(count)].",
        )
    by = 1 if step is None else step
    if isinstance(n, int) and not isinstance(start, Expr) and not isinstance(stop, Expr):
        r = range(n)[start:stop:by]
        return Window(int_const(r.start), by, len(r))
    low, high = (0, n) if by > 0 else (difference(n, 1), -1)
    first = low if start is None else _inside(start, n)
    end = high if stop is None else _inside(stop, n)
    length = difference(end, first) if by > 0 else difference(first, end)
    if isinstance(length, int):
        return Window(dim_expr(first), by, max(0, -(-length // abs(by))))
    return Window(dim_expr(first), by, dim_of((length + (abs(by) - 1)) // abs(by)))


def _inside(bound: Dim, n: Dim) -> Dim:
    """A bound of a slice, counted from the start."""
    e = dim_expr(bound)
    known = interval(e).hi
    if known is not None and known < 0:
        return dim_of(dim_expr(n) + e)
    return min(bound, n) if isinstance(bound, int) and isinstance(n, int) else dim_of(e)


def _bound(x: Tensor, d: int, b: object) -> Dim | None:
    """A bound or the step of a slice: a number, an expression of sizes, or None."""
    if b is None:
        return None
    if isinstance(b, (int, np.integer)) and not isinstance(b, bool):
        return int(b)
    data = isinstance(b, Tensor) or (isinstance(b, Expr) and occurs(READ, b))
    if isinstance(b, Expr) and b.dtype.is_integer and not data and not axes_in(b):
        return dim_of(as_expr(b).astype("int64"))
    kind = "depends on data" if data else f"is {b!r}"
    raise DefinitionError(
        f"a bound of the slice at index {d} of {x.name} {kind}.",
        where=f"{x.name} with shape {format_shape(x.shape)}",
        hint="bounds are integers and sizes, counters included; from a place that is data, a "
        "fixed number of elements is x[place + topi.arange(count)].",
    )
