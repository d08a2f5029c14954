"""Operators that repeat, reverse, shift and sample positions."""

from __future__ import annotations

from collections.abc import Sequence

from tensorad import te
from tensorad.errors import DefinitionError, ShapeError
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Dim, Tensor, dim_expr, dim_of, format_shape
from tensorad.topi.checks import check_tensor, normalize_axes, normalize_axis
from tensorad.topi.reduction import Axes


def tile(x: Tensor, repeats: Sequence[int] | int) -> Tensor:
    """x repeated `repeats[d]` times along axis d; missing leading axes count as in NumPy.

    Raises:
        DefinitionError: repeats are no integers >= 0.
    """
    check_tensor("tile", "x", x)
    times = [repeats] if isinstance(repeats, int) else list(repeats)
    if not all(isinstance(n, int) and n >= 0 for n in times):
        raise DefinitionError(
            f"tile: repeats must be integers >= 0, got {repeats!r}.", hint="e.g. (2, 1)."
        )
    times = [1] * (x.ndim - len(times)) + times
    lead = len(times) - x.ndim
    own: tuple[Dim, ...] = (*(1,) * lead, *x.shape)
    shape = tuple(dim_of(dim_expr(n) * t) for n, t in zip(own, times, strict=True))

    def body(*i: Expr) -> Expr:
        index = [k if t == 1 else k % dim_expr(n) for k, n, t in zip(i, own, times, strict=True)]
        return x[tuple(index[lead:])]

    made: Tensor = te.compute(shape, body, name="tile")
    return made


def repeat(x: Tensor, repeats: int, axis: int) -> Tensor:
    """Every element `repeats` times in a row along `axis`.

    Raises:
        DefinitionError: repeats is no positive integer.
    """
    check_tensor("repeat", "x", x)
    along = normalize_axis("repeat", axis, x.ndim)
    if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1:
        raise DefinitionError(
            f"repeat: repeats must be a positive integer, got {repeats!r}.", hint="e.g. 2."
        )
    shape = (*x.shape[:along], dim_of(dim_expr(x.shape[along]) * repeats), *x.shape[along + 1 :])

    def body(*i: Expr) -> Expr:
        return x[(*i[:along], i[along] // repeats, *i[along + 1 :])]

    made: Tensor = te.compute(shape, body, name="repeat")
    return made


def flip(x: Tensor, axis: Axes = None) -> Tensor:
    """x in reverse order along the axes (all: None)."""
    over = normalize_axes("flip", axis, check_tensor("flip", "x", x).ndim)

    def body(*i: Expr) -> Expr:
        return x[tuple(dim_expr(x.shape[d]) - 1 - k if d in over else k for d, k in enumerate(i))]

    made: Tensor = te.compute(x.shape, body, name="flip")
    return made


def roll(x: Tensor, shift: int, axis: int) -> Tensor:
    """Elements moved by `shift` positions along `axis`, around the end."""
    check_tensor("roll", "x", x)
    along = normalize_axis("roll", axis, x.ndim)
    if isinstance(shift, bool) or not isinstance(shift, int):
        raise DefinitionError(f"roll: shift must be an integer, got {shift!r}.", hint="e.g. -1.")

    def body(*i: Expr) -> Expr:
        return x[(*i[:along], (i[along] - shift) % dim_expr(x.shape[along]), *i[along + 1 :])]

    made: Tensor = te.compute(x.shape, body, name="roll")
    return made


def strided_slice(
    x: Tensor,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Tensor:
    """x[begin[d]:end[d]:strides[d], ...] with Python's rules, one entry per leading axis.

    Raises:
        ShapeError: the extent of a cut axis is symbolic.
        DefinitionError: a stride is 0, or the lists differ in length.
    """
    check_tensor("strided_slice", "x", x)
    steps = [1] * len(begin) if strides is None else list(strides)
    if not len(begin) == len(end) == len(steps) <= x.ndim or 0 in steps:
        raise DefinitionError(
            f"strided_slice: begin {tuple(begin)}, end {tuple(end)} and strides {tuple(steps)} "
            f"do not cut {x.name} with {x.ndim} axes.",
            hint="give one begin, end and nonzero stride for each axis to be cut.",
        )
    ranges: list[range] = []
    for d, cut in enumerate(zip(begin, end, steps, strict=True)):
        n = x.shape[d]
        if not isinstance(n, int):
            raise ShapeError(
                f"strided_slice: axis {d} of {x.name} has the symbolic extent {n}.",
                hint="cut it with compute, e.g. compute((n,), lambda i: X[i + start]).",
            )
        ranges.append(range(n)[slice(*cut)])
    shape = (*[len(r) for r in ranges], *x.shape[len(ranges) :])

    def body(*i: Expr) -> Expr:
        index = [k * r.step + r.start for k, r in zip(i, ranges, strict=False)]
        return x[(*index, *i[len(ranges) :])]

    made: Tensor = te.compute(shape, body, name="strided_slice")
    return made


def space_to_depth(x: Tensor, block: int) -> Tensor:
    """(n, c, h, w) -> (n, c*block^2, h/block, w/block); channel = (row, column, c) in the block.

    Raises:
        ShapeError: height or width is no multiple of the block.
    """
    check_tensor("space_to_depth", "x", x, 4)
    n, c, height, width = x.shape
    rows, columns = (_quotient("space_to_depth", x, e, block) for e in (height, width))

    def body(n: Expr, k: Expr, y: Expr, x_: Expr) -> Expr:
        inner = k // dim_expr(c)
        return x[n, k % dim_expr(c), y * block + inner // block, x_ * block + inner % block]

    channels = dim_of(dim_expr(c) * (block * block))
    made: Tensor = te.compute((n, channels, rows, columns), body, name="space_to_depth")
    return made


def depth_to_space(x: Tensor, block: int) -> Tensor:
    """(n, c*block^2, h, w) -> (n, c, h*block, w*block), the inverse of `space_to_depth`.

    Raises:
        ShapeError: the channels are no multiple of block^2.
    """
    check_tensor("depth_to_space", "x", x, 4)
    n, channels, height, width = x.shape
    c = _quotient("depth_to_space", x, channels, block * block)

    def body(n: Expr, k: Expr, y: Expr, x_: Expr) -> Expr:
        inner = (y % block) * block + x_ % block
        return x[n, inner * dim_expr(c) + k, y // block, x_ // block]

    tall, wide = (dim_of(dim_expr(e) * block) for e in (height, width))
    made: Tensor = te.compute((n, c, tall, wide), body, name="depth_to_space")
    return made


def _quotient(operator: str, x: Tensor, extent: Dim, divisor: int) -> Dim:
    if divisor < 1 or not isinstance(extent, int) or extent % divisor:
        raise ShapeError(
            f"{operator}: {x.name} {format_shape(x.shape)} does not divide into blocks of "
            f"{divisor}.",
            hint="extents must be numbers and multiples of the block.",
        )
    return extent // divisor


def arange(start: int, stop: int | None = None, step: int = 1, dtype: object = "int64") -> Tensor:
    """The numbers start, start + step, ... before stop, as Python's range; shape (count,).

    Raises:
        DefinitionError: step is 0.
    """
    if step == 0:
        raise DefinitionError("arange: step must not be 0.", hint="e.g. step=1.")
    values = range(start) if stop is None else range(start, stop, step)
    made: Tensor = te.compute(
        (len(values),),
        lambda i: (i * values.step + values.start).astype(dtype),
        name="arange",
    )
    return made


def meshgrid(*tensors: Tensor, indexing: str = "xy") -> list[Tensor]:
    """Coordinate tensors of a grid, as NumPy's meshgrid.

    Raises:
        DefinitionError: indexing is neither "xy" nor "ij".
    """
    if indexing not in ("xy", "ij"):
        raise DefinitionError(
            f"meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}.",
            hint="'ij' is matrix order.",
        )
    for n, t in enumerate(tensors):
        check_tensor("meshgrid", f"tensor {n}", t, 1)
    order = list(range(len(tensors)))
    if indexing == "xy" and len(tensors) > 1:
        order[:2] = [1, 0]
    shape = tuple(tensors[d].shape[0] for d in order)

    def grid(n: int) -> Tensor:
        made: Tensor = te.compute(shape, lambda *i: tensors[n][i[order.index(n)]], name="meshgrid")
        return made

    return [grid(n) for n in range(len(tensors))]
