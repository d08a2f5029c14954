"""Custom folds for the random programs: scalar, tuple, with and without associativity.

Each takes a source with its magnitude, an exact key (an element of an input), the reduce axes,
a condition and a bound on the points, and gives every component with its magnitude.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorad import te
from tensorad.ir.expr import Axis, Expr, call, const, select

Valued = tuple[Expr, float]
"""An expression and a bound of its magnitude."""


def damp(value: Valued, limit: float) -> Valued:
    """The value scaled into [-limit, limit] when its bound exceeds the limit."""
    e, mag = value
    if mag <= limit or not e.dtype.is_float:
        return value
    return call("tanh", e * const(limit / mag, e.dtype)) * const(limit, e.dtype), limit


def _floor_at(e: Expr, limit: float) -> Expr:
    """Replaces the infinite result of an empty fold."""
    return call("maximum", e, const(limit, e.dtype))


def damped_sine(
    x: Valued, key: Expr, axes: Sequence[Axis], where: Expr | None, points: int
) -> list[Valued]:
    """sin(a) * b + a from 0.7: not associative, not commutative."""
    fold = te.comm_reducer(lambda a, b: call("sin", a) * b + a, lambda t: 0.7, "damped_sine")
    return [(fold(x[0], axis=axes, where=where), 0.7 + points * x[1])]


def logsumexp(
    x: Valued, key: Expr, axes: Sequence[Axis], where: Expr | None, points: int
) -> list[Valued]:
    """log(exp(a) + exp(b)) from -inf."""
    fold = te.comm_reducer(
        lambda a, b: call("log", call("exp", a) + call("exp", b)),
        lambda t: float("-inf"),
        "logsumexp",
        associative=True,
    )
    return [(_floor_at(fold(x[0], axis=axes, where=where), -9.0), 9.0 + x[1])]


def complex_product(
    x: Valued, key: Expr, axes: Sequence[Axis], where: Expr | None, points: int
) -> list[Valued]:
    """(re, im) of a product of complex numbers."""
    fold = te.comm_reducer(
        lambda a, b: (a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]),
        lambda s, t: (1.0, 0.0),
        "complex_product",
        associative=True,
    )
    re, im = damp(x, 0.9)[0], damp((key, 1.8), 0.6)[0]
    return [(e, 1.1 ** max(points, 1)) for e in fold((re, im), axis=axes, where=where)]


def welford(
    x: Valued, key: Expr, axes: Sequence[Axis], where: Expr | None, points: int
) -> list[Valued]:
    """(mean, sum of squared deviations, count), merged pairwise."""

    def merge(a: tuple[Expr, ...], b: tuple[Expr, ...]) -> tuple[Expr, ...]:
        count = a[2] + b[2]
        safe = call("maximum", count, const(1, count.dtype))
        delta = b[0] - a[0]
        mean = a[0] + delta * b[2] / safe
        return mean, a[1] + b[1] + delta * delta * a[2] * b[2] / safe, count

    fold = te.comm_reducer(merge, lambda *t: (0.0, 0.0, 0.0), "welford", associative=True)
    zero, one = const(0, x[0].dtype), const(1, x[0].dtype)
    parts = fold((x[0], zero, one), axis=axes, where=where)
    mags = (x[1], 4 * x[1] ** 2 * max(points, 1), float(max(points, 1)))
    return list(zip(parts, mags, strict=True))


def online_logsumexp(
    x: Valued, key: Expr, axes: Sequence[Axis], where: Expr | None, points: int
) -> list[Valued]:
    """(maximum, sum of exponentials relative to it)."""

    def merge(a: tuple[Expr, ...], b: tuple[Expr, ...]) -> tuple[Expr, ...]:
        top = call("maximum", a[0], b[0])
        return top, a[1] * call("exp", a[0] - top) + b[1] * call("exp", b[0] - top)

    fold = te.comm_reducer(
        merge, lambda *t: (float("-inf"), 0.0), "online_logsumexp", associative=True
    )
    top, total = fold((x[0], const(1, x[0].dtype)), axis=axes, where=where)
    return [(_floor_at(top, -4.0), 4.0 + x[1]), (total, float(max(points, 1)))]


def pick_by_key(
    x: Valued, key: Expr, axes: Sequence[Axis], where: Expr | None, points: int
) -> list[Valued]:
    """(smallest key, the source beside it): an argmin that carries a value."""

    def merge(a: tuple[Expr, ...], b: tuple[Expr, ...]) -> tuple[Expr, ...]:
        take = b[0] < a[0]
        return select(take, b[0], a[0]), select(take, b[1], a[1])

    fold = te.comm_reducer(merge, lambda *t: (float("inf"), 0.0), "pick_by_key", associative=True)
    least, beside = fold((key, x[0]), axis=axes, where=where)
    return [(call("minimum", least, const(4, least.dtype)), 4.0), (beside, x[1])]


Fold = Callable[[Valued, Expr, Sequence[Axis], Expr | None, int], list[Valued]]
CUSTOM: tuple[Fold, ...] = (
    damped_sine,
    logsumexp,
    complex_product,
    welford,
    online_logsumexp,
    pick_by_key,
)
