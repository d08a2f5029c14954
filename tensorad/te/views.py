"""Elements of a tensor in another arrangement: parts, transposes, other shapes, diagonals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tensorad.errors import DefinitionError, ShapeError
from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.expr import ZERO, Expr, Read, call
from tensorad.ir.tensor import (
    Compute,
    Dim,
    Placeholder,
    Shape,
    Tensor,
    dim_expr,
    format_shape,
    outputs,
)
from tensorad.ir.visit import substitute
from tensorad.te.items import is_all, part_name
from tensorad.te.selection import Gather, Point, Selection, Window, selection
from tensorad.te.tensors import compute

Indices = tuple[Expr, ...]


class Found(NamedTuple):
    """An element of a tensor in a view of it: where, and under which conditions it is there."""

    conditions: tuple[Expr, ...]
    at: Indices


Map = Callable[[Sequence[Expr]], Indices]
Inverse = Callable[[Sequence[Expr]], Found]


@dataclass(frozen=True, eq=False)
class View:
    """Elements of a tensor in another arrangement.

    Attributes:
        base: the tensor.
        shape: of the arrangement.
        indices: where in the base the element is that the view has at an index.
        inverse: the other way; None where index arrays decide.
        is_whole: whether it is the base as it is.
    """

    base: Tensor
    shape: Shape
    indices: Map
    inverse: Inverse | None
    is_whole: bool = False

    def of(self, base: Tensor) -> View:
        """The same view of another tensor of the same shape."""
        return replace(self, base=base)

    def get(self) -> Tensor:
        """The elements as a tensor."""
        if self.is_whole:
            return self.base
        made: Tensor = compute(
            self.shape, lambda *at: self.base(*self.indices(at)), part_name(self.base, "part")
        )
        return made

    def then(self, shape: Shape, indices: Map, inverse: Inverse | None) -> View:
        """A view of this view.

        Args:
            shape, indices, inverse: as if this view was the base.
        """
        outer = self.inverse
        both: Inverse | None = None
        if outer is not None and inverse is not None:
            first, second = outer, inverse

            def both(i: Sequence[Expr]) -> Found:
                found = first(i)
                inner = second(found.at)
                return Found((*found.conditions, *inner.conditions), inner.at)

        return View(self.base, shape, lambda at: self.indices(indices(at)), both)


def whole(x: Tensor) -> View:
    """The tensor itself."""
    return View(x, x.shape, tuple, lambda i: Found((), tuple(i)), is_whole=True)


def selected(view: View, chosen: Selection) -> View:
    """What an index selects of a view; an element may be there several times."""
    gathers = any(isinstance(p, Gather) for p in chosen.parts)

    def inverse(i: Sequence[Expr]) -> Found:
        at: list[Expr] = [ZERO] * len(chosen.shape)
        inside: list[Expr] = []
        windows = iter(chosen.axes)
        for part, k, n in zip(chosen.parts, i, view.shape, strict=True):
            if isinstance(part, Point):
                inside.append(call("eq", k, part.index))
            elif isinstance(part, Window):
                at[next(windows)] = _within(part, k, n, inside)
        return Found(tuple(inside), tuple(at))

    return view.then(chosen.shape, chosen.indices, None if gathers else inverse)


def _within(window: Window, k: Expr, n: Dim, inside: list[Expr]) -> Expr:
    """Which element of the window is at k; what has to hold there is added to `inside`."""
    by, count = abs(window.step), dim_expr(window.count)
    low = window.start if window.step > 0 else window.index(count - 1)
    if low is not ZERO:
        inside.append(call("ge", k, low))
    if by > 1:
        inside.append(call("eq", (k - low) % by, ZERO))
    nth = (k - low) // by
    if not (low is ZERO and by == 1 and same_dim(window.count, n)):
        inside.append(call("lt", nth, count))
    return nth if window.step > 0 else count - 1 - nth


def part(view: View, key: object) -> View:
    """The elements that an index selects, each once.

    Raises:
        DefinitionError: index arrays name an element several times, or only a run tells.
        UserError: as `selection` says.
    """
    x = _standing_for(view)
    chosen = selection(x, key)
    _check_distinct(x, chosen)
    return view if is_all(chosen, x) else selected(view, chosen)


def _standing_for(view: View) -> Tensor:
    """A tensor of the view's shape, for errors with the name of the base."""
    return outputs(Placeholder(view.base.name, view.shape, view.base.dtype))[0]


def _check_distinct(x: Tensor, chosen: Selection) -> None:
    gathers = [p for p in chosen.parts if isinstance(p, Gather)]
    if not gathers:
        return
    where = f"{x.name} with shape {format_shape(x.shape)}"
    if not all(g.positions.is_constant for g in gathers):
        raise DefinitionError(
            f"the index of a view of {x.name} is a tensor: it may name an element several times.",
            where=where,
            hint=f"a view shows each element once: index with numbers; or write all of it, "
            f"{x.name}.set({x.name}.get().at[index].set(value)).",
        )
    arrays = np.broadcast_arrays(*[g.positions.op.array for g in gathers])  # type: ignore[union-attr]  # constants
    places = np.stack([a.reshape(-1) for a in arrays], axis=1)
    found, counts = np.unique(places, axis=0, return_counts=True)
    if found.shape[0] < places.shape[0]:
        first = found[counts > 1][0]
        shown = ", ".join([str(k) for k in first])
        raise DefinitionError(
            f"the index of a view of {x.name} names {shown} several times.",
            where=where,
            hint="a view shows each element once: leave out what is repeated; where values are to "
            f"be added up, {x.name}.set({x.name}.get().at[index].add(values)).",
        )


def transposed(view: View, axes: Sequence[int] | None = None) -> View:
    """The axes in another order; None: in reverse order.

    Raises:
        DefinitionError: it is no permutation.
    """
    x = _standing_for(view)
    back: Sequence[int] | None = None
    there = x.transpose(*axes) if axes else x.T
    if axes:
        order = [a % len(axes) for a in axes]
        back = [order.index(d) for d in range(len(order))]
    other = outputs(Placeholder(x.name, there.shape, x.dtype))[0]
    return _by_formulas(view, there, other.transpose(*back) if back else other.T)


def reshaped(view: View, shape: Sequence[Dim]) -> View:
    """The elements in row-major order in another shape; one extent may be -1.

    Raises:
        ShapeError: the numbers of elements differ.
    """
    x = _standing_for(view)
    there = x.reshape(tuple(shape))
    other = outputs(Placeholder(x.name, there.shape, x.dtype))[0]
    return _by_formulas(view, there, other.reshape(x.shape))


def _by_formulas(view: View, there: Tensor, back: Tensor) -> View:
    """A view that a tensor formula makes, and one that undoes it."""
    forward, backward = _reads(there), _reads(back)
    return view.then(there.shape, forward, lambda i: Found((), backward(i)))


def _reads(t: Tensor) -> Map:
    """Where a tensor reads the only one that it reads."""
    op = t.op
    assert isinstance(op, Compute), "transposes and shapes are formulas"
    body = op.bodies[0]
    assert isinstance(body, Read), "they read one element"

    def indices(at: Sequence[Expr]) -> Indices:
        known: dict[Expr, Expr] = dict(zip(op.axes, at, strict=True))
        return tuple([substitute(i, known) for i in body.indices])

    return indices


def diagonal(view: View, offset: int = 0, axis1: int = 0, axis2: int = 1) -> View:
    """The elements at i, i + offset of two axes, along a last axis.

    Raises:
        ShapeError: there are no two such axes, or their extents are different sizes.
    """
    name, ndim = view.base.name, len(view.shape)
    first, second = [a + ndim if a < 0 else a for a in (axis1, axis2)]
    if first == second or not (0 <= first < ndim and 0 <= second < ndim):
        raise ShapeError(
            f"diagonal: {name} has no two axes {axis1} and {axis2}.",
            where=f"{name} with shape {format_shape(view.shape)}",
            hint="name two axes.",
        )
    n, m = view.shape[first], view.shape[second]
    start = max(0, -offset)
    if isinstance(n, int) and isinstance(m, int):
        count: Dim = max(0, min(n - start, m - max(0, offset)))
    elif same_dim(n, m) and not offset:
        count = n
    else:
        raise ShapeError(
            f"diagonal: how long diagonal {offset} of {name} is depends on sizes.",
            where=f"{name} with shape {format_shape(view.shape)}",
            hint="both axes have one extent, and the offset is 0, where extents are sizes.",
        )
    rest = [d for d in range(ndim) if d not in (first, second)]

    def indices(at: Sequence[Expr]) -> Indices:
        known = dict(zip(rest, at, strict=False))
        known[first], known[second] = at[-1] + start, at[-1] + (start + offset)
        return tuple([known[d] for d in range(ndim)])

    def inverse(i: Sequence[Expr]) -> Found:
        return Found(
            (call("eq", i[second], i[first] + offset),), (*[i[d] for d in rest], i[first] - start)
        )

    return view.then((*[view.shape[d] for d in rest], count), indices, inverse)
