"""Rotary position embedding."""

from __future__ import annotations

from collections.abc import Callable

from tensorad import te
from tensorad.errors import ShapeError
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor, format_shape
from tensorad.topi import transform
from tensorad.topi.arguments import check_flag, check_integer
from tensorad.topi.checks import check_equal, check_indices, check_same, check_tensor
from tensorad.topi.definition import define

_NAME = "rotary_embedding"


def rotary_embedding(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    positions: Tensor | None = None,
    interleaved: bool = False,
    heads: int = 0,
    dimension: int = 0,
) -> Tensor:
    """Pairs (a, b) of the elements of each head turned to (a*cos - b*sin, b*cos + a*sin).

    Source: Su et al., RoFormer (2021), section 3.2.2; ONNX RotaryEmbedding (opset 23).

    Args:
        x: shape (batch, heads, sequence, size), or (batch, sequence, heads * size).
        cos, sin: shape (batch, sequence, dimension / 2); with positions (longest, dimension / 2),
            the rows that they name.
        positions: integers, shape (batch, sequence), checked in the call.
        interleaved: pairs are neighbours (2i, 2i + 1); otherwise (i, i + dimension / 2).
        heads: their number, for x of three axes.
        dimension: how many elements of a head, the first ones, are turned; 0: all of them.
    Raises:
        DTypeError: positions are no integers.
        ShapeError: x has another number of axes, its heads no constant size, or the dimension is
            odd or exceeds it; cos, sin or positions do not fit.
    """
    x = check_tensor(_NAME, "x", x)
    split = check_flag(_NAME, "interleaved", interleaved)
    heads = check_integer(_NAME, "heads", heads, 0)
    if x.ndim not in (3, 4):
        raise ShapeError(
            f"{_NAME}: {x.name} must have 3 or 4 axes, but has shape {format_shape(x.shape)}.",
            hint="shape (batch, heads, sequence, size) or (batch, sequence, heads * size).",
        )
    flat, given = x.ndim == 3, x
    if flat:
        x = _with_heads(x, heads)
    half = _half(given, x, check_integer(_NAME, "dimension", dimension, 0))
    sequence = 1 if flat else 2
    angles = _angles(x, sequence, half, cos, sin, positions)

    def body(*i: Expr) -> Expr:
        return _turned(x, i, half, split, lambda n: angles(i[0], i[sequence], n))

    y = define(x.shape, body, _NAME)
    return transform.reshape(y, given.shape) if flat else y


Angles = Callable[[Expr], tuple[Expr, Expr]]
"""Cosine and sine for the n-th pair."""


def _turned(x: Tensor, i: tuple[Expr, ...], half: int, interleaved: bool, angles: Angles) -> Expr:
    """One element; its partner is that many elements away in the head."""
    *rest, d = i
    away = 1 if interleaved else half
    cos, sin = angles(d // 2 if interleaved else d)
    first = x[i] * cos - x[(*rest, d + away)] * sin
    cos, sin = angles(d // 2 if interleaved else d - half)
    second = x[i] * cos + x[(*rest, d - away)] * sin
    turned: Expr = te.select(d % 2 == 0 if interleaved else d < half, first, second)
    return turned if x.shape[-1] == 2 * half else te.select(d < 2 * half, turned, x[i])


def _with_heads(x: Tensor, heads: int) -> Tensor:
    hidden = x.shape[2]
    if not heads or not isinstance(hidden, int) or hidden % heads:
        raise ShapeError(
            f"{_NAME}: {x.name} {format_shape(x.shape)} does not divide into {heads} heads.",
            hint="give heads=, which divides the last extent of x.",
        )
    return transform.reshape(x, (*x.shape[:2], heads, hidden // heads))


def _half(given: Tensor, x: Tensor, dimension: int) -> int:
    """How many pairs of a head are turned."""
    size = x.shape[-1]
    wanted = dimension or size
    if not isinstance(size, int) or not isinstance(wanted, int) or wanted > size or wanted % 2:
        raise ShapeError(
            f"{_NAME}: {wanted} of the {size} elements of a head of {given.name} cannot be turned "
            "in pairs.",
            hint="dimension is even and at most the size of a head, which is a number.",
        )
    return wanted // 2


def _angles(
    x: Tensor, sequence: int, half: int, cos: Tensor, sin: Tensor, positions: Tensor | None
) -> Callable[[Expr, Expr, Expr], tuple[Expr, Expr]]:
    """Cosine and sine for a batch, a place in the sequence and a pair."""
    rank = 3 if positions is None else 2
    cos, sin = (check_tensor(_NAME, n, t, rank) for n, t in (("cos", cos), ("sin", sin)))
    for t in (cos, sin):
        check_equal(_NAME, f"half the turned elements and axis {rank - 1} of {t.name}",
                    half, t.shape[-1])  # fmt: skip
    if positions is None:
        for t in (cos, sin):
            check_same(_NAME, x, 0, t, 0)
            check_same(_NAME, x, sequence, t, 1)
        return lambda b, s, n: (cos[b, s, n], sin[b, s, n])
    rows = check_indices(_NAME, "positions", positions, 2)
    check_same(_NAME, x, 0, rows, 0)
    check_same(_NAME, x, sequence, rows, 1)
    check_same(_NAME, cos, 0, sin, 0)
    return lambda b, s, n: (cos[rows[b, s], n], sin[rows[b, s], n])
