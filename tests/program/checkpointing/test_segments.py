"""Loops that store some states alone: how many, how often iterations run again, the same bits."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.lower import lower_program
from tensorad.ir.arrays.snapshots import first_stored
from tests.ir.arrays.test_snapshots import fewest
from tests.program.checkpointing.test_functions import leaves, same_bits
from tests.random.generators import campaign

RNG = np.random.default_rng(1)
N, ROWS = 3, 11
X = RNG.normal(size=N)
W = RNG.normal(size=(N, N)) / 2
XS = RNG.normal(size=(ROWS, N))
STATE = 8 * N
WAYS: list[dict[str, Any]] = [
    {"checkpoint": 1}, {"checkpoint": 4}, {"checkpoint": 100}, {"checkpoint": "sqrt"},
    {"memory": 4 * STATE}, {"memory": 2 * STATE + 16}, {"memory": 50 * STATE},
]  # fmt: skip


def collecting(way: dict[str, Any], reverse: bool = False) -> Any:
    def f(x: Any, w: Any, xs: Any) -> Any:
        def step(h: Any, r: Any) -> Any:
            h = ta.tanh(w @ h + r)
            return h, {"h": h, "s": (h * r).sum()}

        h, ys = ta.scan(step, x, xs, reverse=reverse, **way)
        return (h * ys["h"][3]).sum() + (ys["s"] * ys["s"]).sum()

    return f


def counting(way: dict[str, Any]) -> Any:
    def f(x: Any, w: Any, xs: Any) -> Any:
        def step(i: Any, h: Any) -> Any:
            return ta.cond(h[0] > 0, lambda h: ta.sin(w @ h), lambda h: h * xs[i, 1] + 0.1, h)

        return (ta.for_loop(1, ROWS - 1, step, x, **way) * x).sum()

    return f


def by_data(way: dict[str, Any]) -> Any:
    def f(x: Any, w: Any, xs: Any) -> Any:
        def step(state: Any) -> Any:
            return {"n": state["n"] + 1, "h": ta.tanh(w @ state["h"]) * 0.9}

        def goes_on(state: Any) -> Any:
            return (state["h"] * state["h"]).sum() > 1e-3

        more = {"memory": way["memory"] + 16} if "memory" in way else way
        end = ta.while_loop(goes_on, step, {"n": 0, "h": x + xs[0]}, **more)
        return (end["h"] * end["h"]).sum()

    return f


def counted_by_run(way: dict[str, Any]) -> Any:
    def f(x: Any, w: Any, xs: Any) -> Any:
        n = ta.topi.floor(abs(xs[0, 0]) * 10.0).astype("int64") + 7
        return (ta.for_loop(0, n, lambda i, h: ta.sin(w @ h) + i * 0.01, x, **way) * x).sum()

    return f


PROGRAMS: dict[str, Callable[..., Any]] = {
    "scan": collecting,
    "backwards": lambda way: collecting(way, reverse=True),
    "for_loop": counting,
    "while_loop": by_data,
    "counted": counted_by_run,
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_have_the_bits_of_the_loop_that_stores_all(name: str) -> None:
    check_bits(name, [WAYS[3], WAYS[4]])


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_bits_of_all_ways(name: str) -> None:
    check_bits(name, WAYS)


def check_bits(name: str, ways: list[dict[str, Any]]) -> None:
    plain = ta.function(ta.value_and_grad(PROGRAMS[name]({}), (0, 1, 2)))(X, W, XS)
    made = [ta.function(ta.value_and_grad(PROGRAMS[name](way), (0, 1, 2))) for way in ways]
    for way, f in zip(ways, made, strict=True):
        assert same_bits(f(X, W, XS), plain), way
    reference = ta.interpret(made[ways.index(WAYS[4])], X, W, XS)
    for a, b in zip(leaves(reference), leaves(plain), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("way", [WAYS[3], WAYS[4]], ids=["sqrt", "memory"])
def test_forward_mode_second_order_and_jacobians(way: dict[str, Any]) -> None:
    for make in (collecting, by_data):
        plain, f = make({}), make(way)
        ways: list[Callable[[Any], Any]] = [
            lambda f: lambda x: ta.jvp(lambda x: f(x, W, XS), (x,), (XS[1],)),
            lambda f: ta.hessian(lambda x: f(x, W, XS)),
            lambda f: ta.grad(lambda x: (ta.grad(f)(x, W, XS) * XS[1]).sum()),
        ]
        for derive in ways:
            one, two = [ta.function(derive(g))(X) for g in (plain, f)]
            for a, b in zip(leaves(one), leaves(two), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-13)

    def last(x: Any, **way: Any) -> Any:
        return ta.for_loop(0, 9, lambda i, h: ta.sin(W @ h), x, **way)

    one, two = ta.jacrev(lambda x: last(x, **way))(X), ta.jacrev(last)(X)
    np.testing.assert_allclose(one, two, rtol=1e-12)


@pytest.mark.slow
def test_second_order_in_short() -> None:
    def last(way: dict[str, Any]) -> Any:
        return lambda x: ta.for_loop(0, 5, lambda i, h: ta.sin(W @ h), x, **way).sum()

    plain = ta.function(ta.hessian(last({})))(X)
    for way in (WAYS[3], WAYS[4]):
        np.testing.assert_allclose(ta.function(ta.hessian(last(way)))(X), plain, rtol=1e-12)


@pytest.mark.slow
def test_sizes_that_later_calls_bring() -> None:
    for way in WAYS[1:5]:
        f, plain = [ta.function(ta.grad(collecting(w), (0, 2))) for w in (way, {})]
        for rows in (11, 6, 19, 4):
            assert same_bits(
                f(X, W, np.resize(XS, (rows, N))), plain(X, W, np.resize(XS, (rows, N)))
            )


def test_loops_in_loops() -> None:
    def f(way: dict[str, Any]) -> Any:
        def g(x: Any) -> Any:
            def outer(i: Any, h: Any) -> Any:
                return ta.for_loop(0, 4, lambda j, g: ta.sin(W @ g), h, **way) + h * 0.5

            return ta.for_loop(0, 5, outer, x, **way).sum()

        return ta.function(ta.value_and_grad(g))

    plain = f({})(X)
    for way in (WAYS[3], WAYS[4]):
        assert same_bits(f(way)(X), plain)


def test_no_iterations() -> None:
    plain = ta.function(lambda x, n: (by_count(x, n, {}) * x).sum())
    for way in (WAYS[3], WAYS[4]):
        f = ta.function(ta.value_and_grad(lambda x, n: (by_count(x, n, way) * x).sum()))
        for n in (0, 1, 2):
            value, _ = f(X, n)
            assert same_bits(value, plain(X, n))
        none = ta.for_loop(3, 3, lambda i, h: h * 2.0, ta.const(X), **way)
        assert same_bits(ta.evaluate(none, {}), X)


def by_count(x: Any, n: Any, way: dict[str, Any]) -> Any:
    return ta.for_loop(0, n, lambda i, h: ta.sin(h), x, **way)


# memory


@pytest.mark.parametrize("states", [2, 40])
def test_memory_is_kept(states: int) -> None:
    n = 1000

    def f(x: Any) -> Any:
        return ta.for_loop(0, 100, lambda t, h: ta.sin(h), x, memory=states * n * 8).sum()

    used = ta.function(ta.grad(f)).memory(np.ones(n))
    beside = 8 * n * 8  # what an iteration and its reverse compute, whatever is stored
    assert used.temporaries <= states * n * 8 + beside


# how often iterations run


def evaluations(steps: int, way: dict[str, Any], data: bool = False) -> int:
    """How often iterations run in a gradient, those that it needs in any case included."""

    def step(h: Any) -> Any:
        k = ta.reduce_axis(ta.size("inner"), name="k")
        s = ta.compute((), lambda: ta.sum(ta.sin(h() + k * 1e-3), axis=k), name="s")
        return h + s * 1e-3

    x, n = ta.placeholder((), "float64", name="x"), ta.placeholder((), "int64", name="n")
    if data:
        y = ta.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, step(c[1])), (0, x), **way)[1]
    else:
        y = ta.for_loop(0, steps, lambda t, h: step(h), x, **way)
    program = lower_program(ta.vjp(ta.sin(y), [x]), [x, n], schedule=False)
    values = {x: np.array(0.3), n: np.array(steps)}
    points = [interpret_loops(program, values, {"inner": inner})[1] for inner in (1, 3)]
    runs, rest = divmod(points[1] - points[0], 2)
    assert rest == 0
    return int(runs)


@cache
def of_all_stored(steps: int) -> int:
    return evaluations(steps, {"memory": 8 * (steps + 1)})


def again_by_binomial(steps: int, rows: int) -> None:
    least = of_all_stored(steps)
    again = evaluations(steps, {"memory": 8 * (rows + 1)}) - least
    assert again == fewest(steps, rows) - first_stored(steps, rows)[-1]


@pytest.mark.parametrize(("steps", "rows"), [(5, 1), (11, 3)])
def test_the_binomial_number_of_iterations_runs_again(steps: int, rows: int) -> None:
    again_by_binomial(steps, rows)


@pytest.mark.slow
def test_the_binomial_number_for_many_numbers() -> None:
    for steps in range(2, 40, 3):
        for rows in (1, 2, 3, 5, 8):
            again_by_binomial(steps, rows)


def test_segments_run_again_once() -> None:
    for steps, k in ((13, 5), (4, 1)):
        once = evaluations(steps, {"checkpoint": k}) - evaluations(steps, {})
        assert once == steps - -(-steps // k), "but the last of each: its result is there"


def within_twice(steps: int, rows: int) -> None:
    known = evaluations(steps, {"memory": 8 * (rows + 1)})
    assert evaluations(steps, {"memory": 16 * (rows + 1)}, data=True) <= 2 * known


def test_while_loops_are_within_twice_of_loops_whose_length_is_known() -> None:
    within_twice(9, 3)


@pytest.mark.slow
def test_while_loops_of_many_lengths() -> None:
    for steps in (1, 5, 20, 37):
        for rows in (1, 2, 4, 9):
            within_twice(steps, rows)
        known = evaluations(steps, {"checkpoint": "sqrt"})
        assert evaluations(steps, {"checkpoint": "sqrt"}, data=True) <= 2 * known


def test_segments_of_a_while_loop_grow() -> None:
    """Segment j has j + 1 iterations: as many are stored as run again at once, for any number."""

    def f(x: Any, n: Any) -> Any:
        def step(c: Any) -> Any:
            return c[0] + 1, ta.sin(c[1])

        return ta.while_loop(lambda c: c[0] < n, step, (0, x), checkpoint="sqrt")[1].sum()

    text = str(ta.function(ta.grad(f)).trace(X, 5))
    assert "left : bool[] = t < `segment" in text and "recompute dsegment_of(" in text
    ends = [j * (j + 1) // 2 for j in range(6)]
    assert [b - a for a, b in pairwise(ends)] == [1, 2, 3, 4, 5]


def test_explain_names_what_is_stored() -> None:
    text = str(ta.explain(ta.grad(collecting(WAYS[4])), X, W, XS))
    assert "h: from the 3 values of it that are stored" in text
    text = str(ta.explain(ta.grad(collecting(WAYS[1])), X, W, XS))
    assert "checkpoint of " in text and "tanh: it is not kept" in text


@pytest.mark.slow
def test_random_loops_of_all_kinds() -> None:
    """A third of them in machine code, the others by the interpreter."""
    for seed in campaign(range(60), 30):
        rng = np.random.default_rng(seed)
        steps, n = int(rng.integers(1, 40)), int(rng.integers(1, 5))
        rows = int(rng.integers(1, 12))
        a, b = rng.normal(size=(n, n)) / 2, rng.normal(size=n)
        kind = rng.integers(0, 3)

        def f(
            x: Any, w: Any, way: dict[str, Any],
            steps: int = steps, b: Any = b, kind: int = int(kind),
        ) -> Any:  # fmt: skip
            def step(t: Any, h: Any) -> Any:
                if kind == 0:
                    return ta.sin(w @ h) + b
                if kind == 1:
                    return ta.cond(h[0] > 0.2, lambda h: ta.tanh(w @ h), lambda h: h + b, h)
                return ta.while_loop(lambda h: h[0] > 0.5, lambda h: h * 0.7, ta.sin(w @ h) + b)

            return (ta.for_loop(0, steps, step, x, **way) * x).sum()

        def run(way: dict[str, Any], native: bool = seed % 3 == 0) -> Any:
            derived = ta.value_and_grad(lambda x, w: f(x, w, way), (0, 1))
            return ta.function(derived)(b, a) if native else ta.interpret(derived, b, a)

        ways: list[dict[str, Any]] = [
            {"checkpoint": int(rng.integers(1, 12))}, {"checkpoint": "sqrt"},
            {"memory": 8 * n * (rows + 1)},
        ]  # fmt: skip
        plain = run({})
        for way in ways:
            assert same_bits(run(way), plain), (seed, way)


@pytest.mark.parametrize("way", [{"checkpoint": "sqrt"}, {"checkpoint": 3}])
def test_counts_that_only_the_run_knows_are_reached(way: dict[str, Any]) -> None:
    def last(way: dict[str, Any]) -> Any:
        step = lambda i, c: ta.sin(c) * 1.1 + 0.2  # noqa: E731  # short
        return ta.function(lambda x, n: ta.for_loop(0, n, step, x, **way))

    plain, segmented = last({}), last(way)
    for n in range(12):
        assert segmented(0.5, n) == plain(0.5, n)
