"""Custom folds for the random programs: scalars and tuples, with and without associativity.

Each fold says what it reduces, given a source, an exact key (an element of an input) and a
bound on the points, and what each component of the result is bounded by. Reductions, scans and
scatters use the same reducers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tensorad import te
from tensorad.ir.expr import Axis, Expr, call, const, select
from tensorad.te.reducers import Reducer

Valued = tuple[Expr, float]
"""An expression and a bound of its magnitude."""
State = tuple[Expr, ...]


def damp(value: Valued, limit: float) -> Valued:
    """The value scaled into [-limit, limit] when its bound exceeds the limit."""
    e, mag = value
    if mag <= limit or not e.dtype.is_float:
        return value
    return call("tanh", e * const(limit / mag, e.dtype)) * const(limit, e.dtype), limit


def at_least(e: Expr, limit: float) -> Expr:
    """Replaces the infinite result of an empty fold."""
    return call("maximum", e, const(limit, e.dtype))


def at_most(e: Expr, limit: float) -> Expr:
    """Replaces the infinite result of an empty fold."""
    return call("minimum", e, const(limit, e.dtype))


@dataclass(frozen=True)
class Fold:
    """A reducer with its sources and the bounds of its results."""

    reducer: Reducer
    sources: Callable[[Valued, Expr], State]
    """From a value and a key."""
    magnitudes: Callable[[float, int], tuple[float, ...]]
    """From the magnitude of the value and the number of points."""
    finish: Callable[[int, Expr], Expr] = lambda n, e: e
    """What makes component n finite when there is no point."""
    selects: bool = False
    """Whether its results jump when the values change."""

    @property
    def name(self) -> str:
        return self.reducer.name

    def over(
        self, x: Valued, key: Expr, axes: Sequence[Axis], where: Expr | None, points: int
    ) -> list[Valued]:
        """Every component of the fold with its magnitude."""
        sources = self.sources(x, key)
        if len(sources) == 1:
            made = (self.reducer(sources[0], axis=axes, where=where),)
        else:
            made = self.reducer(sources, axis=axes, where=where)
        mags = self.magnitudes(x[1], max(points, 1))
        return [(self.finish(n, e), m) for n, (e, m) in enumerate(zip(made, mags, strict=True))]


def _reducer(
    name: str, combine: Callable[..., object], *identity: float, associative: bool = True
) -> Reducer:
    start = identity[0] if len(identity) == 1 else identity
    if len(identity) == 1:
        made = te.comm_reducer(combine, lambda t: start, name, associative=associative)
    else:
        made = te.comm_reducer(combine, lambda *t: start, name, associative=associative)
    assert isinstance(made, Reducer)
    return made


def _welford(a: State, b: State) -> State:
    count = a[2] + b[2]
    safe = call("maximum", count, const(1, count.dtype))
    delta = b[0] - a[0]
    mean = a[0] + delta * b[2] / safe
    return mean, a[1] + b[1] + delta * delta * a[2] * b[2] / safe, count


def _online(a: State, b: State) -> State:
    top = call("maximum", a[0], b[0])
    return top, a[1] * call("exp", a[0] - top) + b[1] * call("exp", b[0] - top)


def _least(a: State, b: State) -> State:
    take = b[0] < a[0]
    return select(take, b[0], a[0]), select(take, b[1], a[1])


def _largest_two(a: State, b: State) -> State:
    low = call("minimum", a[0], b[0])
    return call("maximum", a[0], b[0]), call("maximum", low, call("maximum", a[1], b[1]))


def _matrix(a: State, b: State) -> State:
    return (
        a[0] * b[0] + a[1] * b[2],
        a[0] * b[1] + a[1] * b[3],
        a[2] * b[0] + a[3] * b[2],
        a[2] * b[1] + a[3] * b[3],
    )


def _one(e: Expr) -> Expr:
    return const(1, e.dtype)


def _half(x: Valued, key: Expr) -> State:
    return damp(x, 0.9)[0], damp((key, 1.8), 0.6)[0]


DAMPED_SINE = Fold(
    _reducer("damped_sine", lambda a, b: call("sin", a) * b + a, 0.7, associative=False),
    lambda x, key: (x[0],),
    lambda m, n: (0.7 + n * m,),
)
"""Neither associative nor commutative."""
HORNER = Fold(
    _reducer("horner", lambda a, b: a * 0.5 + b, 0.0, associative=False),
    lambda x, key: (x[0],),
    lambda m, n: (2 * m,),
)
"""A polynomial's value: linear, not associative."""
LOGSUMEXP = Fold(
    _reducer("logsumexp", lambda a, b: call("log", call("exp", a) + call("exp", b)), -float("inf")),
    lambda x, key: (x[0],),
    lambda m, n: (9.0 + m,),
    lambda n, e: at_least(e, -9.0),
)
HYPOT = Fold(
    _reducer("hypot", lambda a, b: call("sqrt", a * a + b * b), 0.0),
    lambda x, key: (x[0] * x[0] + 0.5,),
    lambda m, n: (n * (m * m + 0.5),),
)
JOINED = Fold(
    _reducer("joined", lambda a, b: a + b + a * b, 0.0),
    lambda x, key: (damp(x, 0.5)[0],),
    lambda m, n: (1.5 ** min(n, 64),),
)
"""The product of (1 + s), less 1."""
VELOCITY = Fold(
    _reducer("velocity", lambda a, b: (a + b) / (a * b + 1.0), 0.0),
    lambda x, key: (damp(x, 0.5)[0],),
    lambda m, n: (1.0,),
)
"""Relativistic addition."""
COMPLEX_PRODUCT = Fold(
    _reducer(
        "complex_product",
        lambda a, b: (a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]),
        1.0,
        0.0,
    ),
    _half,
    lambda m, n: (1.1 ** min(n, 64),) * 2,
)
MATRIX_PRODUCT = Fold(
    _reducer("matrix_product", _matrix, 1.0, 0.0, 0.0, 1.0),
    lambda x, key: (*_half(x, key), -_half(x, key)[1], _one(key) * 0.3),
    lambda m, n: (1.5 ** min(n, 64),) * 4,
)
RECURRENCE = Fold(
    _reducer("recurrence", lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), 1.0, 0.0),
    lambda x, key: _half(x, key)[::-1],
    lambda m, n: (1.0, 3.0),
)
"""Composition of affine maps: a linear recurrence."""
WELFORD = Fold(
    _reducer("welford", _welford, 0.0, 0.0, 0.0),
    lambda x, key: (x[0], const(0, key.dtype), _one(key)),
    lambda m, n: (m, 4 * m * m * n, float(n)),
)
"""(mean, sum of squared deviations, count), merged pairwise."""
ONLINE_LOGSUMEXP = Fold(
    _reducer("online_logsumexp", _online, -float("inf"), 0.0),
    lambda x, key: (x[0], _one(key)),
    lambda m, n: (4.0 + m, float(n)),
    lambda n, e: at_least(e, -4.0) if n == 0 else e,
)
"""(maximum, sum of exponentials relative to it)."""
PICK_BY_KEY = Fold(
    _reducer("pick_by_key", _least, float("inf"), 0.0),
    lambda x, key: (key, x[0]),
    lambda m, n: (4.0, m),
    lambda n, e: at_most(e, 4.0) if n == 0 else e,
    selects=True,
)
"""An argmin that carries a value."""
LARGEST_TWO = Fold(
    _reducer("largest_two", _largest_two, -float("inf"), -float("inf")),
    lambda x, key: (x[0], const(-float("inf"), x[0].dtype)),
    lambda m, n: (4.0 + m, 4.0 + m),
    lambda n, e: at_least(e, -4.0),
)
CUSTOM: tuple[Fold, ...] = (
    DAMPED_SINE,
    HORNER,
    LOGSUMEXP,
    HYPOT,
    JOINED,
    VELOCITY,
    COMPLEX_PRODUCT,
    MATRIX_PRODUCT,
    RECURRENCE,
    WELFORD,
    ONLINE_LOGSUMEXP,
    PICK_BY_KEY,
    LARGEST_TWO,
)
