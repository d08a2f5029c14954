"""A head that a guard has switched off meets a pole in, behind or before a call, branch or loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import tensorad as ta
from tensorad.autodiff.control.heads import Seed, read_among, seed_adjoints, switch_like
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.lower import lower_program
from tensorad.ir.expr import TRUE
from tensorad.ir.tensor import Control, outputs
from tensorad.ir.visit import topological_ops

Function = Callable[[Any], Any]
root = ta.function(lambda x: ta.sqrt(x))
scaled = ta.function(lambda x: x * 1.5)
twice = ta.function(lambda x: root(x) * 2.0)


def _guarded(f: Function) -> Function:
    return lambda x: ta.select(x > 0, f(x), 0.0)


def _elsewhere(f: Function) -> Function:
    """Guarded by what f returns."""

    def g(x: Any) -> Any:
        y = f(x)
        return ta.select(y > 0, y, 1.0)

    return g


def _rows(x: Any) -> Any:
    return ta.scan(lambda c, r: (c + 1.0, ta.sqrt(r) * c), x[1] * 0.0 + 1.0, x)[1]


def _rows_outside(x: Any) -> Any:
    y = ta.sqrt(x)
    return ta.for_loop(0, 3, lambda t, c: c + ta.select(x[t] > 0, y[t], 0.0), x[0] * 0.0)


def _second_carry(x: Any) -> Any:
    """At the last iteration nothing has read the carry yet."""

    def body(t: Any, c: Any) -> Any:
        total, d = c
        return total + ta.select(d > 0, d, 0.0), ta.sqrt(d)

    return ta.for_loop(0, 2, body, (x, x))[0]


def _elements(x: Any) -> Any:
    """Each arm reads one element."""
    return ta.cond(x[0] > 0, lambda y: y[0], lambda y: y[1] + 1.0, ta.sqrt(x + 0.0))


IN: Final[dict[str, Function]] = {
    "call": _guarded(root),
    "call in a call": _guarded(twice),
    "logarithm": _guarded(ta.function(lambda x: ta.log(x))),
    "quotient": _guarded(ta.function(lambda x: 1.0 / x)),
    "norm": _elsewhere(ta.function(lambda x: ta.sqrt((x * x * 0.0).sum() + x * x))),
    "cond": _guarded(lambda x: ta.cond(x[1] > 0.5, ta.sqrt, lambda x: ta.log(x + 1.0), x)),
    "switch": _guarded(lambda x: ta.switch(1, [lambda x: x, ta.sqrt, ta.log], x)),
    "for": _guarded(lambda x: ta.for_loop(0, 2, lambda t, c: ta.sqrt(c) * 2.0, x)),
    "while": _guarded(lambda x: ta.while_loop(lambda c: c.sum() > 3.2, lambda c: ta.sqrt(c), x)),
    "scan": _guarded(_rows),
    "scan by its rows": _elsewhere(_rows),
    "fixed in a loop": _guarded(
        lambda x: ta.for_loop(0, 2, lambda t, c: c + ta.sqrt(x), x * 1.0)
    ),
    "second carry": _second_carry,
    "branch in a loop": _guarded(
        lambda x: ta.for_loop(0, 2, lambda t, c: ta.cond(c[1] > 0, ta.sqrt, scaled, c), x)
    ),
    "loop in a loop": _guarded(
        lambda x: ta.for_loop(
            0, 2, lambda t, c: ta.for_loop(0, 2, lambda s, d: ta.sqrt(d), c) * 2.0, x
        )
    ),
    "loop in a call": _guarded(
        ta.function(lambda x: ta.for_loop(0, 2, lambda t, c: root(c), x))
    ),
}  # fmt: skip
BEFORE: Final[dict[str, Function]] = {
    "call": _guarded(lambda x: scaled(ta.sqrt(x))),
    "branch": lambda x: ta.cond(
        x[0] > 0, lambda y: x * 1.0, lambda y: ta.select(x > 0, y, 0.0), ta.sqrt(x)
    ),
    "elements": _elements,
    "for": _guarded(lambda x: ta.for_loop(0, 2, lambda t, c: c * 1.5, ta.sqrt(x))),
    "rows": _rows_outside,
    "scan": _guarded(lambda x: ta.scan(lambda c, r: (c, r * 2.0), x[1] * 1.0, ta.sqrt(x))[1]),
    "no iteration": lambda x: ta.while_loop(
        lambda c: c.sum() < 0.0, lambda c: c + ta.sqrt(x), x * 2.0
    ),
    "call and loop": _guarded(
        lambda x: ta.for_loop(0, 2, lambda t, c: root(c) + c, scaled(ta.sqrt(x)))
    ),
}  # fmt: skip
PLACES: Final = {"in": IN, "before": BEFORE}
CASES: Final = {f"{at}: {n}": f for at, found in PLACES.items() for n, f in found.items()}
POINTS: Final = [np.array([0.0, 1.0, 4.0]), np.array([4.0, 0.0, 0.25])]


def _columns(f: Function, x: np.ndarray) -> np.ndarray:
    whole = ta.function(f)
    return np.stack([ta.jvp(whole, (x,), (e,))[1] for e in np.eye(3)], -1)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", CASES)
def test_both_modes_are_finite_and_equal(name: str) -> None:
    f = CASES[name]
    gradient = ta.grad(lambda x: f(x).sum())
    for x in POINTS:
        forward = _columns(f, x)
        assert np.isfinite(forward).all()
        expected = forward.reshape(-1, 3).sum(0)
        np.testing.assert_allclose(gradient(x), expected, rtol=1e-12)
        np.testing.assert_allclose(ta.interpret(gradient, x), expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["in: call", "in: cond", "in: for", "in: scan", "before: for"])
def test_so_are_rows_of_jacobians(name: str) -> None:
    f = CASES[name]
    found = ta.jacrev(f)(POINTS[0])
    np.testing.assert_allclose(found, _columns(f, POINTS[0]), rtol=1e-12)


@pytest.mark.parametrize("name", ["in: call", "in: switch", "in: for", "in: while", "before: call"])
def test_second_derivatives_are_finite_and_equal(name: str) -> None:
    f = CASES[name]
    gradient = ta.grad(lambda x: f(x).sum())
    second = ta.grad(lambda x: gradient(x).sum())
    for x in POINTS:
        forward = _columns(gradient, x)
        assert np.isfinite(forward).all()
        np.testing.assert_allclose(second(x), forward.sum(0), rtol=1e-12)


@pytest.mark.parametrize("name", ["in: call", "in: for", "in: cond", "before: rows"])
def test_the_text_of_a_gradient_is_read_back(name: str) -> None:
    f = CASES[name]

    def loss(x: Any = POINTS[0]) -> Any:
        return f(x).sum()

    made = ta.gradient(ta.module(loss), "loss")
    read = ta.module(str(made))
    assert str(read) == str(made)
    wanted = ta.grad(loss)(POINTS[0])
    for m in (made, read):
        _, (found,) = m["loss_adjoint"](POINTS[0])
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_poles_that_are_on_stay() -> None:
    f = lambda x: ta.for_loop(0, 2, lambda t, c: ta.select(x >= 0, root(c), 0.0), x)  # noqa: E731
    found = ta.grad(lambda x: f(x).sum())(np.array([0.0, 1.0, np.inf]))
    np.testing.assert_array_equal(found, [np.inf, 0.25, 0.0])


def _switches(f: Function) -> list[str]:
    """Switches that the operations of a gradient are given, then those that they give."""
    x = ta.placeholder((3,), "float64", name="x")
    ops = topological_ops([ta.grad(lambda x: f(x).sum())(x)])
    control = [op for op in ops if isinstance(op, Control)]
    given = [p for op in control for b in op.blocks for p in b.params]
    made = [t for op in control for t in outputs(op)]
    return [t.name for t in (*given, *made) if t.name.endswith(".on")]


@pytest.mark.parametrize(
    "f",
    [
        _guarded(scaled),
        _guarded(ta.function(lambda x: ta.exp(x) / (ta.exp(x) + 1.0))),
        _guarded(lambda x: ta.for_loop(0, 2, lambda t, c: ta.tanh(c) * x, x)),
        root,
        lambda x: ta.for_loop(0, 2, lambda t, c: ta.sqrt(c) * 2.0, x),
        lambda x: ta.for_loop(0, 3, lambda t, c: ta.select(c > 0, ta.sqrt(c), c), ta.log(x)),
        lambda x: ta.cond(x[0] > 0, ta.sqrt, lambda x: x, x),
    ],
)
def test_no_switch_where_no_pole_is_or_no_head_is_off(f: Function) -> None:
    assert _switches(f) == []


def test_switches_are_params_of_blocks_carries_of_loops_and_results() -> None:
    assert _switches(IN["call"]) == ["dsqrt.on"]
    assert _switches(IN["for"]) == ["dc.on", "dc.on"]
    assert _switches(BEFORE["call"]) == ["dmul.on", "dsqrt.on"]


@pytest.mark.parametrize("count", [False, True])
def test_rows_that_are_switched_off_make_a_gradient_of_linear_work(count: bool) -> None:
    def f(x: Any, n: Any) -> Any:
        y = ta.sqrt(x)
        upto = n if count else x.shape[0]
        return ta.for_loop(0, upto, lambda t, c: c + ta.select(x[t] > 0, y[t], 0.0), 0.0 * x[0])

    def points(size: int) -> int:
        x, n = ta.placeholder((size,), "float64", name="x"), ta.placeholder((), "int64", name="n")
        program = lower_program([ta.grad(f)(x, n)], [x, n], schedule=False)
        (found,), visits = interpret_loops(program, {x: np.arange(float(size)), n: np.array(size)})
        np.testing.assert_allclose(found[1:], 0.5 / np.sqrt(np.arange(1.0, size)))
        assert found[0] == 0
        return visits

    assert points(64) <= 2.1 * points(32)


def test_a_seed_remembers_that_it_was_asked() -> None:
    y, dy = (ta.placeholder((2,), "float64", name=n) for n in ("y", "dy"))
    seed = Seed(y, dy, switch_like(y, ()))
    (adjoint,) = seed_adjoints([seed], ()).values()
    assert adjoint.sum_of is not None and not seed.is_asked
    (c,) = adjoint.sum_of.contributions
    assert c.switch(()) is not TRUE and seed.is_asked
    assert seed.on is not None
    assert list(read_among([seed.on], [dy, seed.on])) == [seed.on]
