"""Inner loops with as many iterations as outer counters say, outer ones with as many as data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.lower import lower_program
from tests.program.checkpointing.test_functions import same_bits

Count = Callable[[Any, Any], Any]
INNER: dict[str, tuple[Count, Count]] = {
    "i": (lambda i, n: i, lambda i, n: i),
    "half": (lambda i, n: (i + 1) // 2, lambda i, n: (i + 1) // 2),
    "twice": (lambda i, n: i * 2 + 1, lambda i, n: i * 2 + 1),
    "remainder": (lambda i, n: i % 3, lambda i, n: i % 3),
    "square": (lambda i, n: i * i, lambda i, n: i * i),
    "falling": (lambda i, n: 5 - i, lambda i, n: max(5 - i, 0)),
    "late": (lambda i, n: i - 3, lambda i, n: max(i - 3, 0)),
    "of data": (lambda i, n: n - i, lambda i, n: n - i),
}
"""What a program says, and what that is."""
SOME = ("half", "late", "of data")
WAYS: list[tuple[Any, Any]] = [
    (None, None), (None, 2), (2, None), (1, 1), (3, 2), ("sqrt", None), ("sqrt", 3),
]  # fmt: skip
PAIRS = [(name, WAYS[(k + d) % len(WAYS)]) for k, name in enumerate(INNER) for d in (0, 3)]
"""Each way at least twice."""
COUNTS = (0, 1, 2, 5, 6)
X, SCALE = np.array([0.4, -0.7]), np.array([1.3, 0.8])
STEP = 1e-5


def nested(name: str, outer: Any = None, inner: Any = None) -> Any:
    """A function of a vector and a number of iterations."""
    times = INNER[name][0]

    def f(x: Any, n: Any) -> Any:
        def each(i: Any, v: Any) -> Any:
            w = ta.for_loop(
                0, times(i, n), lambda j, w: ta.sin(w * x * 1.5 + w[0]), v, checkpoint=inner
            )
            return w * 0.9 + v * 0.2

        return (ta.for_loop(0, n, each, x * SCALE, checkpoint=outer) * SCALE).sum()

    return f


def by_hand(name: str, x: np.ndarray, n: int) -> float:
    times, v = INNER[name][1], x * SCALE
    for i in range(n):
        w = v
        for _ in range(times(i, n)):
            w = np.sin(w * x * 1.5 + w[0])
        v = w * 0.9 + v * 0.2
    return float((v * SCALE).sum())


def differences(f: Callable[[np.ndarray], Any], x: np.ndarray, step: float = STEP) -> np.ndarray:
    """Along each axis of x."""
    return np.array([(f(x + h) - f(x - h)) / (2 * step) for h in np.eye(len(x)) * step])


def interpreted(f: Any, *given: Any) -> Any:
    """The first result, by the reference."""
    program = ta.function(f).trace(*given)
    return ta.interpret(program.results[0], dict(zip(program.parameters, given, strict=True)))


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("name", "way"), PAIRS, ids=str)
def test_values_and_gradients(name: str, way: tuple[Any, Any]) -> None:
    f = nested(name, *way)
    compiled, slope = ta.function(f), ta.grad(f)
    for n in COUNTS:
        count = np.int64(n)
        assert compiled(X, count) == pytest.approx(by_hand(name, X, n), rel=1e-13)
        found = slope(X, count)
        wanted = differences(lambda x, n=n: by_hand(name, x, n), X)
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-8)
    for n in (0, 5):
        given = X, np.int64(n)
        np.testing.assert_allclose(interpreted(slope, *given), slope(*given), rtol=1e-11)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", SOME)
def test_both_modes_and_second_order(name: str) -> None:
    n, v = np.int64(4), np.array([0.3, -1.1])
    f = nested(name, 2, 2)
    slope = ta.grad(f)
    _, tangent = ta.jvp(lambda x: f(x, n), (X,), (v,))
    assert tangent == pytest.approx(slope(X, n) @ v, rel=1e-11)
    over = ta.grad(lambda x, n: (slope(x, n) * v).sum())(X, n)
    along = ta.jvp(lambda x: slope(x, n), (X,), (v,))[1]
    wanted = differences(lambda x: slope(x, n) @ v, X)
    for found in (over, along):
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)
    twice = ta.grad(lambda x, n: (slope(x, n) * v).sum())
    np.testing.assert_allclose(interpreted(twice, X, n), over, rtol=1e-10)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("name", "way"), [*zip(SOME, WAYS[1:4], strict=True)], ids=str)
def test_rows(name: str, way: tuple[Any, Any]) -> None:
    """Each row has a number of iterations of its own."""
    slope = ta.grad(nested(name, *way))
    xs, counts = np.array([X, X * 0.5, -X, X + 1.0]), np.array([3, 0, 5, 1])
    found = ta.vmap(slope)(xs, counts)
    for row, x, n in zip(found, xs, counts, strict=True):
        np.testing.assert_allclose(row, slope(x, n), rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("checkpoint", [None, 2])
def test_the_same_bits_as_with_numbers(checkpoint: int | None) -> None:
    """Known numbers reserve what counters give at most; only memory differs."""
    f = nested("half", None, checkpoint)
    told, known = ta.grad(f)(X, np.int64(20)), ta.grad(lambda x: f(x, 20))(X)
    assert same_bits(told, known)


def points(x: np.ndarray, n: int, **how: Any) -> int:
    """The points of a gradient of n outer iterations."""
    program = ta.grad(nested("half", how.get("outer"), how.get("inner"))).trace(x, np.int64(n))
    lowered = lower_program(program.results, program.parameters)
    given = dict(zip(program.parameters, (x, np.int64(n)), strict=True))
    found, visits = interpret_loops(lowered, given)
    assert np.isfinite(found[0]).all()
    return visits


def test_work_is_that_of_the_iterations() -> None:
    """Storing all: so much for each of the inner iterations, and for each of the outer ones."""
    plain = [points(X, n) for n in (0, 8, 16, 24)]
    inner = [sum((i + 1) // 2 for i in range(n)) for n in (0, 8, 16, 24)]
    left = np.array([inner, [0, 8, 16, 24], [1, 1, 1, 1]]).T
    rates, rest, _, _ = np.linalg.lstsq(left, np.array(plain), rcond=None)
    assert rest < 1e-12 and np.allclose(rates, np.round(rates))
    again = [points(X, n, inner=4) for n in (0, 8, 16, 24)]
    assert all(a <= 2 * p for a, p in zip(again, plain, strict=True))


def parts(x: Any, n: Any, m: Any, **how: Any) -> Any:
    """Parts of a vector from a counter on, through loops that store them."""

    def each(i: Any, v: Any) -> Any:
        rest = ta.for_loop(0, m, lambda j, w: ta.sin(w * v), x[i:] * 1.1, **how)
        return v * 0.5 + rest.sum() * 0.1

    return ta.for_loop(0, n, each, 0.7)


@pytest.mark.parametrize("checkpoint", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_rows_of_parts_from_a_counter_on(checkpoint: int | None) -> None:
    """A row is as far from the next one as the part is long, which each outer iteration tells."""
    x = np.array([0.4, -0.3, 0.9, 0.2, 0.6])

    def plain(x: np.ndarray, n: int, m: int) -> float:
        v = 0.7
        for i in range(n):
            rest = x[i:] * 1.1
            for _ in range(m):
                rest = np.sin(rest * v)
            v = v * 0.5 + rest.sum() * 0.1
        return v

    known = ta.grad(lambda x, m: parts(x, 5, m, checkpoint=checkpoint))
    told = ta.grad(lambda x, n: parts(x, n, 12, checkpoint=checkpoint))
    for n, m, found in (
        (5, 0, known(x, np.int64(0))), (5, 7, known(x, np.int64(7))),
        (4, 12, told(x, np.int64(4))), (0, 12, told(x, np.int64(0))),
    ):  # fmt: skip
        wanted = differences(lambda x, n=n, m=m: plain(x, n, m), x)
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(
        interpreted(known, x, np.int64(7)), known(x, np.int64(7)), rtol=1e-12
    )


def test_parts_in_functions_that_call_themselves() -> None:
    x = np.array([0.3, 0.4, 0.5, 0.9, 1.2])

    @ta.function
    def f(x: Any, w: Any) -> Any:
        def again() -> Any:
            n = x.shape[0]

            def each(i: Any, a: Any) -> Any:
                v = ta.for_loop(0, i * 2 + 1, lambda j, b: ta.sin(b * 1.1), x[i:] * a)
                return a * 0.5 + v.sum()

            s = ta.for_loop(0, n, each, w)
            return f(x[1:], s * 0.5) + s

        return ta.cond(x.sum() > 0.9, again, lambda: (x * x).sum() * w)

    def plain(x: np.ndarray, w: float) -> float:
        if x.sum() <= 0.9:
            return (x * x).sum() * w
        s = w
        for i in range(len(x)):
            v = x[i:] * s
            for _ in range(i * 2 + 1):
                v = np.sin(v * 1.1)
            s = s * 0.5 + v.sum()
        return plain(x[1:], s * 0.5) + s

    w = np.float64(0.1)
    assert f(x, w) == pytest.approx(plain(x, w), rel=1e-12)
    wanted = differences(lambda x: plain(x, w), x)
    np.testing.assert_allclose(ta.grad(f)(x, w), wanted, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(interpreted(ta.grad(f), x, w), ta.grad(f)(x, w), rtol=1e-11)
