"""Operators that repeat, reverse, shift and sample positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorad import te
from tensorad.errors import DefinitionError, ShapeError
from tensorad.ir.dtypes import to_dtype
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Dim, Tensor, dim_expr, dim_of, format_shape
from tensorad.te.selection import selection
from tensorad.topi.arguments import (
    as_integer,
    as_integers,
    as_listed,
    check_flag,
    check_integer,
    check_scalar,
    check_word,
    shown,
)
from tensorad.topi.checks import check_tensor, normalize_axes, normalize_axis
from tensorad.topi.definition import define
from tensorad.topi.reduction import Axes
from tensorad.topi.transform import divisor


def tile(x: Tensor, repeats: Sequence[int] | int) -> Tensor:
    """x repeated `repeats[d]` times along axis d; missing leading axes count as in NumPy.

    Raises:
        DefinitionError: repeats are no integers >= 0.
    """
    x = check_tensor("tile", "x", x)
    given = as_integers(repeats)
    if given is None or min(given, default=0) < 0:
        raise DefinitionError(
            f"tile: repeats must be integers >= 0, got {shown(repeats)}.", hint="e.g. (2, 1)."
        )
    times = [1] * (x.ndim - len(given)) + list(given)
    lead = len(times) - x.ndim
    own: tuple[Dim, ...] = (*(1,) * lead, *x.shape)
    shape = tuple(dim_of(dim_expr(n) * t) for n, t in zip(own, times, strict=True))

    def body(*i: Expr) -> Expr:
        index = [k if t == 1 else k % divisor(n) for k, n, t in zip(i, own, times, strict=True)]
        return x[tuple(index[lead:])]

    return define(shape, body, "tile")


def repeat(x: Tensor, repeats: int, axis: int) -> Tensor:
    """Every element `repeats` times in a row along `axis`.

    Raises:
        DefinitionError: repeats is no positive integer.
    """
    x = check_tensor("repeat", "x", x)
    along = normalize_axis("repeat", axis, x.ndim)
    times = check_integer("repeat", "repeats", repeats, 1, "e.g. 2.")
    shape = (*x.shape[:along], dim_of(dim_expr(x.shape[along]) * times), *x.shape[along + 1 :])

    return define(shape, lambda *i: x[(*i[:along], i[along] // times, *i[along + 1 :])], "repeat")


def flip(x: Tensor, axis: Axes = None) -> Tensor:
    """x in reverse order along the axes (all: None)."""
    x = check_tensor("flip", "x", x)
    over = normalize_axes("flip", axis, x.ndim)

    def body(*i: Expr) -> Expr:
        return x[tuple(dim_expr(x.shape[d]) - 1 - k if d in over else k for d, k in enumerate(i))]

    return define(x.shape, body, "flip")


def roll(x: Tensor, shift: int, axis: int) -> Tensor:
    """Elements moved by `shift` positions along `axis`, around the end."""
    x = check_tensor("roll", "x", x)
    along = normalize_axis("roll", axis, x.ndim)
    by = check_integer("roll", "shift", shift, hint="e.g. -1.")
    extent = divisor(x.shape[along])

    return define(
        x.shape, lambda *i: x[(*i[:along], (i[along] - by) % extent, *i[along + 1 :])], "roll"
    )


def strided_slice(
    x: Tensor,
    begin: Sequence[Dim | None],
    end: Sequence[Dim | None],
    strides: Sequence[int] | None = None,
) -> Tensor:
    """x[begin[d]:end[d]:strides[d], ...] with Python's rules, one entry per leading axis.

    Slices of axes with a symbolic extent, or by sizes, have to lie inside (a call whose sizes say
    otherwise is refused); other slices are cut to the axis.

    Args:
        begin, end: integers, expressions of sizes, or None for the end of the axis; those below
            0 count from the end of it.
        strides: integers other than 0; 1 without them.
    Raises:
        DefinitionError: a stride is 0, or the lists differ in length.
    """
    x = check_tensor("strided_slice", "x", x)
    first, last = _positions(begin), _positions(end)
    steps: Sequence[Any] | None = (1,) * len(first or ())
    if strides is not None:
        steps = as_integers(strides)
    lists = [n for n in (first, last, steps) if n is not None and len(n) <= x.ndim]
    if len(lists) < 3 or len({len(n) for n in lists}) > 1 or 0 in lists[2]:
        raise DefinitionError(
            f"strided_slice: begin {shown(begin if first is None else first)}, "
            f"end {shown(end if last is None else last)} and "
            f"strides {shown(strides if steps is None else steps)} do not cut {x.name} "
            f"with {x.ndim} axes.",
            hint="give one begin, end and nonzero stride for each axis to be cut.",
        )
    cut = selection(x, tuple([slice(*bounds) for bounds in zip(*lists, strict=True)]))
    return define(cut.shape, lambda *i: x[cut.indices(i)], "strided_slice")


def _positions(given: object) -> tuple[Dim | None, ...] | None:
    """Ends of slices as a tuple: integers, sizes, or None for the end of an axis."""
    single = isinstance(given, Expr) or as_integer(given) is not None
    listed = (given,) if single else as_listed(given)
    if listed is None:
        return None
    bounds = [n if isinstance(n, Expr) else as_integer(n) for n in listed]
    if any(a is None and n is not None for a, n in zip(bounds, listed, strict=True)):
        return None
    return tuple(bounds)


def trilu(x: Tensor, k: Any = 0, upper: bool = True) -> Tensor:
    """The upper or lower triangle of the last two axes of x, 0 elsewhere, as ONNX Trilu.

    Args:
        k: the diagonal that the triangle ends with: 0 the main one, above it positive, below it
            negative; an integer, an expression of sizes, or a 0-d tensor of integers.
        upper: keep column - row >= k; otherwise column - row <= k.
    Raises:
        ShapeError: x has less than two axes.
        DefinitionError: k is no integer.
    """
    return _triangle("trilu", x, k, check_flag("trilu", "upper", upper))


def triu(x: Tensor, k: Any = 0) -> Tensor:
    """The upper triangle of the last two axes: `trilu` with upper=True."""
    return _triangle("triu", x, k, True)


def tril(x: Tensor, k: Any = 0) -> Tensor:
    """The lower triangle of the last two axes: `trilu` with upper=False."""
    return _triangle("tril", x, k, False)


def _triangle(operator: str, x: Tensor, k: object, upper: bool) -> Tensor:
    x = check_tensor(operator, "x", x)
    if x.ndim < 2:
        raise ShapeError(
            f"{operator}: {x.name} {format_shape(x.shape)} is no matrix.",
            hint="x has rows and columns as its last two axes.",
        )
    scalar = isinstance(k, (Expr, Tensor))
    diagonal = check_scalar(operator, "k", k) if scalar else check_integer(operator, "k", k)
    if isinstance(diagonal, Expr) and not diagonal.dtype.is_integer:
        raise DefinitionError(
            f"{operator}: k must be an integer, got {diagonal.dtype}.",
            hint="0 is the main diagonal.",
        )
    zero = te.const(0, x.dtype)

    def body(*i: Expr) -> Expr:
        row, column = i[-2:]
        kept = column - row >= diagonal if upper else column - row <= diagonal
        return te.select(kept, x[i], zero)  # type: ignore[no-any-return]  # an element

    return define(x.shape, body, operator)


def space_to_depth(x: Tensor, block: int) -> Tensor:
    """(n, c, h, w) -> (n, c*block^2, h/block, w/block); channel = (row, column, c) in the block.

    Raises:
        ShapeError: height or width is no multiple of the block.
    """
    x = check_tensor("space_to_depth", "x", x, 4)
    block = check_integer("space_to_depth", "block", block, 1)
    n, c, height, width = x.shape
    channels = divisor(c)
    rows, columns = (_quotient("space_to_depth", x, e, block) for e in (height, width))

    def body(n: Expr, k: Expr, y: Expr, x_: Expr) -> Expr:
        inner = k // channels
        return x[n, k % channels, y * block + inner // block, x_ * block + inner % block]

    deep = dim_of(dim_expr(c) * (block * block))
    return define((n, deep, rows, columns), body, "space_to_depth")


def depth_to_space(x: Tensor, block: int) -> Tensor:
    """(n, c*block^2, h, w) -> (n, c, h*block, w*block), the inverse of `space_to_depth`.

    Raises:
        ShapeError: the channels are no multiple of block^2.
    """
    x = check_tensor("depth_to_space", "x", x, 4)
    block = check_integer("depth_to_space", "block", block, 1)
    n, channels, height, width = x.shape
    c = _quotient("depth_to_space", x, channels, block * block)

    def body(n: Expr, k: Expr, y: Expr, x_: Expr) -> Expr:
        inner = (y % block) * block + x_ % block
        return x[n, inner * dim_expr(c) + k, y // block, x_ // block]

    tall, wide = (dim_of(dim_expr(e) * block) for e in (height, width))
    return define((n, c, tall, wide), body, "depth_to_space")


def _quotient(operator: str, x: Tensor, extent: Dim, parts: int) -> Dim:
    if not isinstance(extent, int) or extent % parts:
        raise ShapeError(
            f"{operator}: {x.name} {format_shape(x.shape)} does not divide into blocks of {parts}.",
            hint="extents must be numbers and multiples of the block.",
        )
    return extent // parts


def arange(start: int, stop: int | None = None, step: int = 1, dtype: object = "int64") -> Tensor:
    """The numbers start, start + step, ... before stop, as Python's range; shape (count,).

    Raises:
        DefinitionError: step is 0.
    """
    first = check_integer("arange", "start", start)
    by = check_integer("arange", "step", step)
    if by == 0:
        raise DefinitionError("arange: step must not be 0.", hint="e.g. step=1.")
    last = None if stop is None else check_integer("arange", "stop", stop)
    values = range(0, first, by) if last is None else range(first, last, by)
    count = max(0, -((values.start - values.stop) // by))  # len(values) has a limit
    wanted = to_dtype(dtype)
    return define((count,), lambda i: (i * values.step + values.start).astype(wanted), "arange")


def meshgrid(*tensors: Tensor, indexing: str = "xy") -> list[Tensor]:
    """Coordinate tensors of a grid, as NumPy's meshgrid.

    Raises:
        DefinitionError: indexing is neither "xy" nor "ij".
    """
    check_word("meshgrid", "indexing", indexing, ("xy", "ij"), "'ij' is matrix order.")
    rows = [check_tensor("meshgrid", f"tensor {n}", t, 1) for n, t in enumerate(tensors)]
    order = list(range(len(rows)))
    if indexing == "xy" and len(rows) > 1:
        order[:2] = [1, 0]
    shape = tuple(rows[d].shape[0] for d in order)

    def grid(n: int) -> Tensor:
        return define(shape, lambda *i: rows[n][i[order.index(n)]], "meshgrid")

    return [grid(n) for n in range(len(rows))]
