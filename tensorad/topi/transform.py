"""Operators that move elements: reshape, transpose, joining, cutting, padding."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tensorad import te
from tensorad.errors import DefinitionError, ShapeError
from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.combiner import row_major_position
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Dim, Tensor, dim_expr, dim_of, format_shape
from tensorad.topi.arguments import (
    as_integer,
    as_integers,
    check_integers,
    check_new_shape,
    check_number,
    check_word,
    shown,
)
from tensorad.topi.checks import (
    check_tensor,
    check_tensors,
    normalize_axes,
    normalize_axis,
)
from tensorad.topi.definition import define


def divisor(n: Dim) -> Expr:
    """An extent to divide indices by; 1 for an empty axis, which has no index."""
    return dim_expr(1 if same_dim(n, 0) else n)


def product(extents: Sequence[Dim]) -> Dim:
    """The number of elements of a shape."""
    total = dim_expr(1)
    for n in extents:
        total = total * dim_expr(n)
    return dim_of(total)


def reshape(x: Tensor, shape: Sequence[Dim] | Dim) -> Tensor:
    """The elements of x in row-major order in another shape; one extent may be -1.

    Raises:
        ShapeError: the numbers of elements differ.
    """
    x = check_tensor("reshape", "x", x)
    new = _complete_shape(x, check_new_shape("reshape", shape))
    if not same_dim(product(new), product(x.shape)):
        raise ShapeError(
            f"reshape: {x.name} of shape {format_shape(x.shape)} has {product(x.shape)} "
            f"elements, the new shape {format_shape(new)} has {product(new)}.",
            hint="keep the number of elements; one extent may be -1.",
        )
    if same_dim(product(new), 0):
        return _nothing_of(x, new, "reshape")
    groups = _matching_groups(x.shape, new)

    def body(*i: Expr) -> Expr:
        index: list[Expr] = []
        for (a, b), (c, d) in groups:
            index += _digits(row_major_position(i[c:d], [*map(dim_expr, new[c:d])]), x.shape[a:b])
        return x[tuple(index)]

    return define(new, body, "reshape")


def _nothing_of(x: Tensor, shape: Sequence[Dim], name: str) -> Tensor:
    """A tensor without elements, still a function of x."""
    return define(shape, lambda *i: x[(0,) * x.ndim], name)


def _complete_shape(x: Tensor, shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    unknown = [d for d, n in enumerate(shape) if isinstance(n, int) and n == -1]
    if not unknown:
        return shape
    known = product([n for d, n in enumerate(shape) if d not in unknown])
    total = product(x.shape)
    missing: Dim | None = total if same_dim(known, 1) else None
    if isinstance(known, int) and isinstance(total, int) and known > 0 and total % known == 0:
        missing = total // known
    if len(unknown) > 1 or missing is None:
        raise ShapeError(
            f"reshape: cannot complete the shape {format_shape(shape)} for {x.name} of shape "
            f"{format_shape(x.shape)}.",
            hint="at most one extent may be -1, and the others must divide the element count.",
        )
    return tuple(missing if d in unknown else n for d, n in enumerate(shape))


Group = tuple[tuple[int, int], tuple[int, int]]


def _matching_groups(old: Sequence[Dim], new: Sequence[Dim]) -> list[Group]:
    """Runs of old and new axes with equal element counts, as short as possible."""
    groups: list[Group] = []
    a = c = 0
    while a < len(old) or c < len(new):
        b, d = min(a + 1, len(old)), min(c + 1, len(new))
        while not same_dim(product(old[a:b]), product(new[c:d])):
            left, right = product(old[a:b]), product(new[c:d])
            if not (isinstance(left, int) and isinstance(right, int)):
                b, d = len(old), len(new)
                break
            if (left < right and b < len(old)) or d == len(new):
                b += 1
            else:
                d += 1
        groups.append(((a, b), (c, d)))
        a, c = b, d
    return groups


def _digits(position: Expr, extents: Sequence[Dim]) -> list[Expr]:
    """The row-major index of a position; the leading digit needs no remainder."""
    digits: list[Expr] = []
    inner: Expr = dim_expr(1)
    for d in range(len(extents) - 1, -1, -1):
        digit = position if d == len(extents) - 1 else position // inner
        digits.append(digit % dim_expr(extents[d]) if d and len(extents) > 1 else digit)
        inner = inner * dim_expr(extents[d])
    return digits[::-1]


def flatten(x: Tensor) -> Tensor:
    """(n, a, b, ...) -> (n, a*b*...).

    Raises:
        ShapeError: x is 0-d.
    """
    x = check_tensor("flatten", "x", x)
    if not x.ndim:
        raise ShapeError(f"flatten: {x.name} is 0-d; it has no axis to keep.")
    rest = x.shape[1:]
    if same_dim(product(x.shape), 0):
        return _nothing_of(x, (x.shape[0], product(rest)), "flatten")

    shape = (x.shape[0], product(rest))
    return define(shape, lambda i, k: x[(i, *_digits(k, rest))], "flatten")


def transpose(x: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """out[i...] with axis d of out being axis axes[d] of x; None reverses the axes.

    Raises:
        DefinitionError: axes is no permutation.
    """
    x = check_tensor("transpose", "x", x)
    given = range(x.ndim)[::-1] if axes is None else check_integers("transpose", "axes", axes)
    order = [normalize_axis("transpose", a, x.ndim) for a in given]
    if sorted(order) != list(range(x.ndim)):
        raise DefinitionError(
            f"transpose: axes {tuple(given)} are no permutation of the {x.ndim} axes of {x.name}.",
            hint=f"name every axis once, e.g. {tuple(range(x.ndim))[::-1]}.",
        )

    shape = [x.shape[a] for a in order]
    return define(shape, lambda *i: x[tuple(i[order.index(d)] for d in range(x.ndim))], "transpose")


def expand_dims(x: Tensor, axis: int) -> Tensor:
    """A new axis of extent 1 before position `axis`."""
    x = check_tensor("expand_dims", "x", x)
    at = normalize_axis("expand_dims", axis, x.ndim + 1)
    shape = (*x.shape[:at], 1, *x.shape[at:])
    return define(shape, lambda *i: x[i[:at] + i[at + 1 :]], "expand_dims")


def squeeze(x: Tensor, axis: int | Sequence[int] | None = None) -> Tensor:
    """x without its axes of extent 1 (all of them, or the given ones).

    Raises:
        ShapeError: a given axis has another extent.
    """
    x = check_tensor("squeeze", "x", x)
    if axis is None:
        gone = [d for d, n in enumerate(x.shape) if same_dim(n, 1)]
    else:
        gone = list(normalize_axes("squeeze", axis, x.ndim))
    for d in gone:
        if not same_dim(x.shape[d], 1):
            raise ShapeError(
                f"squeeze: axis {d} of {x.name} has extent {x.shape[d]}, not 1.",
                hint="squeeze removes axes of extent 1; read one element with compute.",
            )
    kept = [d for d in range(x.ndim) if d not in gone]

    def body(*i: Expr) -> Expr:
        index: list[Expr | int] = [0] * x.ndim
        for d, k in zip(kept, i, strict=True):
            index[d] = k
        return x[tuple(index)]

    return define(tuple(x.shape[d] for d in kept), body, "squeeze")


def concatenate(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """The tensors one after the other along `axis`.

    Raises:
        ShapeError: their other extents differ.
        DefinitionError: there is no tensor.
    """
    tensors = check_tensors("concatenate", "tensors", tensors)
    if not tensors:
        raise DefinitionError(
            "concatenate: needs at least one tensor.",
            hint="give a list, e.g. concatenate([a, b], axis=0).",
        )
    first = tensors[0]
    along = normalize_axis("concatenate", axis, first.ndim)
    for n, t in enumerate(tensors):
        check_tensor("concatenate", f"tensors[{n}]", t, first.ndim)
        others = [d for d in range(first.ndim) if d != along]
        if not all(same_dim(t.shape[d], first.shape[d]) for d in others):
            raise ShapeError(
                f"concatenate: {t.name} {format_shape(t.shape)} and {first.name} "
                f"{format_shape(first.shape)} differ outside axis {along}.",
                hint="only the joined axis may differ.",
            )
    ends: list[Expr] = []
    total: Expr = dim_expr(0)
    for t in tensors:
        total = total + dim_expr(t.shape[along])
        ends.append(total)
    shape = (*first.shape[:along], dim_of(total), *first.shape[along + 1 :])

    def body(*i: Expr) -> Expr:
        def part(n: int) -> Expr:
            start = ends[n - 1] if n else dim_expr(0)
            return tensors[n][(*i[:along], i[along] - start, *i[along + 1 :])]

        result = part(len(tensors) - 1)
        for n in range(len(tensors) - 2, -1, -1):
            result = te.select(i[along] < ends[n], part(n), result)
        return result

    return define(shape, body, "concatenate")


def stack(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Tensors of one shape along a new axis."""
    listed = check_tensors("stack", "tensors", tensors)
    return concatenate([expand_dims(t, axis) for t in listed], axis)


def split(x: Tensor, sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """x cut along `axis` into equal parts, or at the given positions.

    Raises:
        ShapeError: the extent is no multiple of the number of parts, or positions do not
            increase within it.
    """
    x = check_tensor("split", "x", x)
    along = normalize_axis("split", axis, x.ndim)
    extent = x.shape[along]
    if not isinstance(extent, int):
        raise ShapeError(
            f"split: axis {along} of {x.name} has the symbolic extent {extent}.",
            hint="cut it with compute, e.g. compute((n,), lambda i: X[i + start]).",
        )
    cuts = _cuts(x, along, extent, sections)

    def piece(start: int, stop: int) -> Tensor:
        shape = (*x.shape[:along], stop - start, *x.shape[along + 1 :])

        return define(shape, lambda *i: x[(*i[:along], i[along] + start, *i[along + 1 :])], "split")

    return [piece(a, b) for a, b in pairwise(cuts)]


def _cuts(x: Tensor, along: int, extent: int, sections: object) -> list[int]:
    """Where the pieces of a split begin, and the extent."""
    count = as_integer(sections)
    if count is None:
        positions = check_integers("split", "sections", sections)
        cuts = [0, *positions, extent]
        if any(a > b for a, b in pairwise(cuts)):
            raise ShapeError(
                f"split: positions {positions} do not increase within the extent {extent}.",
                hint="list the positions of the cuts in order.",
            )
        return cuts
    if count < 1 or extent % count:
        raise ShapeError(
            f"split: axis {along} of {x.name} has extent {extent}, which does not divide "
            f"into {count} equal parts.",
            hint="give the positions of the cuts instead, e.g. [1].",
        )
    return [extent // count * n for n in range(count + 1)]


def pad(
    x: Tensor,
    before: int | Sequence[int],
    after: int | Sequence[int] | None = None,
    value: float = 0.0,
    mode: str = "constant",
) -> Tensor:
    """x surrounded by before[d] and after[d] elements on axis d.

    An integer stands for every axis; without `after` both sides get the same.

    Args:
        value: what mode "constant" pads with.
        mode: "constant", "edge" (the nearest element), "reflect" (mirrored at the edge element)
            or "wrap" (from the other end).
    Raises:
        ShapeError: not one non-negative integer per axis, or a mirrored side is not shorter, or
            a wrapped one longer, than the axis.
        DefinitionError: another mode.
    """
    x = check_tensor("pad", "x", x)
    start = _widths(x, "before", before)
    end = start if after is None else _widths(x, "after", after)
    filler = te.const(check_number("pad", "value", value), x.dtype)
    _check_pad_mode(x, mode, start, end)
    shape = tuple(dim_of(dim_expr(n) + b + a) for n, b, a in zip(x.shape, start, end, strict=True))

    def body(*i: Expr) -> Expr:
        if mode != "constant":
            sides = zip(i, x.shape, start, end, strict=True)
            return x[tuple(_padded(mode, k, dim_expr(n), b, a) for k, n, b, a in sides)]
        inside = []
        for d, k in enumerate(i):
            if start[d]:
                inside.append(k >= start[d])
            if end[d]:
                inside.append(k < dim_expr(x.shape[d]) + start[d])
        element = x[tuple(k - b for k, b in zip(i, start, strict=True))]
        chosen: Expr = te.select(te.all_of(*inside), element, filler)
        return chosen

    return define(shape, body, "pad")


def _widths(x: Tensor, name: str, given: object) -> tuple[int, ...]:
    """How many elements of padding each axis gets on one side."""
    single, widths = as_integer(given), as_integers(given)
    if single is not None:
        widths = (single,) * x.ndim
    if widths is None or len(widths) != x.ndim or min(widths, default=0) < 0:
        raise ShapeError(
            f"pad: {name} must hold {x.ndim} integers >= 0, one per axis of {x.name}, "
            f"got {shown(given)}.",
            hint=f"e.g. {(0,) + (1,) * (x.ndim - 1)} pads all axes but the first.",
        )
    return widths


def _check_pad_mode(x: Tensor, mode: object, before: Sequence[int], after: Sequence[int]) -> None:
    mode = check_word("pad", "mode", mode, ("constant", "edge", "reflect", "wrap"),
                      "write another rule with compute.")  # fmt: skip
    needed = {"constant": 0, "edge": 1, "reflect": 1, "wrap": 0}[mode]
    for d, (n, b, a) in enumerate(zip(x.shape, before, after, strict=True)):
        width = max(b, a)
        reach = width + 1 if mode == "reflect" and width else width if mode == "wrap" else 0
        least = max(reach, needed if width else 0)
        if isinstance(n, int) and n < least:
            raise ShapeError(
                f"pad: axis {d} of {x.name} with extent {n} is too short to {mode} by {width}.",
                hint=f"it needs {least} elements.",
            )


def _padded(mode: str, k: Expr, n: Expr, before: int, after: int) -> Expr:
    """The element of [0, n) that stands at padded position k."""
    i = k - before
    if mode == "wrap":
        return i % n if before or after else i
    if mode == "edge":
        low = te.maximum(i, 0) if before else i
        return te.minimum(low, n - 1) if after else low
    mirrored = te.select(i < 0, -i, i) if before else i
    return te.select(mirrored >= n, 2 * (n - 1) - mirrored, mirrored) if after else mirrored
