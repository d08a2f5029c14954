"""Demands of PyTorch's forward mode (S002), and of Relay (S004): costs, memory, checks, kinks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import tensorad as ta
from tensorad import topi
from tensorad.errors import DTypeError, GradError
from tensorad.ir.reference.unroll import iteration_sizes
from tensorad.ir.tensor import Tensor
from tests.support.programs.differentiated import PROGRAMS, squares
from tests.support.smooth_cases import ELEMENTS, JOINT, LINEAR, PAIRS, WITHOUT
from tests.topi.test_smooth import weighted

NEEDS_MORE: Final = ("forward_algorithm", "rows_from_rows_before")
"""A logarithm of a sum of exponentials, whose tangent divides; rows beside those that change."""


def tangent(y: Tensor, wrt: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """(the derivative of y along directions, the directions)"""
    along = [ta.placeholder(x.shape, x.dtype, name=f"d{x.name}") for x in wrt]
    return ta.jvp(y, dict(zip(wrt, along, strict=True))), along


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", [n for n in PROGRAMS if n not in NEEDS_MORE])
def test_s002_01_forward_mode_costs_a_few_times_the_function(name: str) -> None:
    y, wrt = PROGRAMS[name](6)
    found = [y, tangent(y, wrt)[0]]
    sizes = {str(s): 5 for s in iteration_sizes(found).values()}
    own, whole = ta.work(y, sizes).iterations, ta.work(found, sizes).iterations
    assert int(whole) <= 4 * int(own)


def test_s002_01_the_cost_does_not_depend_on_the_number_of_inputs() -> None:
    def share(count: int) -> float:
        xs = [ta.placeholder((8,), "float64", name=f"x{k}") for k in range(count)]
        y = squares(*[ta.for_loop(0, 6, lambda t, c, x=x: topi.sin(c) + x, x) for x in xs])
        return int(ta.work([y, tangent(y, xs)[0]]).iterations) / int(ta.work(y).iterations)

    assert share(16) <= 1.05 * share(1)


@pytest.mark.parametrize("steps", [100, 10_000])
def test_s002_02_memory_does_not_grow_with_the_depth(steps: int) -> None:
    x, w = (ta.placeholder(s, "float64", name=n) for s, n in (((64,), "x"), ((64, 64), "w")))
    last = ta.for_loop(0, steps, lambda t, h: topi.tanh(w @ h), x)
    moved, along = tangent(last, [x, w])
    forward = ta.build(last, [x, w]).memory.temporaries
    both = ta.build([last, moved], [x, w, *along]).memory.temporaries
    assert both <= 2 * forward + 3 * 64 * 8
    assert both < 64 * 8 * 10


def test_s002_02_nor_in_a_chain_of_layers() -> None:
    def peak(layers: int) -> int:
        x, w = (ta.placeholder(s, "float64", name=n) for s, n in (((64,), "x"), ((64, 64), "w")))
        y = x
        for _ in range(layers):
            y = topi.tanh(w @ y)
        moved, along = tangent(y, [x])
        return ta.build([y, moved], [x, w, *along]).memory.temporaries

    assert peak(100) <= peak(10)


INVENTORY: Final = {**ELEMENTS, **PAIRS, **JOINT}


@pytest.mark.sampled(15)
@pytest.mark.parametrize("name", [*INVENTORY, *LINEAR])
def test_s002_13_every_operator_has_forward_mode(name: str) -> None:
    """Equal to reverse mode; `tests/topi/test_smooth.py` holds both to slopes."""
    rng = np.random.default_rng(0)
    if name in LINEAR:
        function, points = LINEAR[name], [(rng.standard_normal((1, 4, 2, 2)),)]
    else:
        function, points = INVENTORY[name].function, list(INVENTORY[name].points)
    xs = [ta.placeholder(a.shape, "float64", name=f"x{n}") for n, a in enumerate(points[0])]
    y = weighted(function(*xs))
    moved, along = tangent(y, xs)
    f = ta.build([moved, *ta.vjp(y, xs)], [*xs, *along])
    for point in points:
        directions = [rng.standard_normal(a.shape) for a in point]
        forward, *gradients = f(*point, *directions)
        terms = [g * d for g, d in zip(gradients, directions, strict=True)]
        wanted = sum(float(np.sum(t)) for t in terms)
        scale = 1 + sum(float(np.abs(t).sum()) for t in terms)
        if not np.isfinite(wanted):
            assert not np.isfinite(forward)
            continue
        assert abs(float(forward) - wanted) <= 1e-9 * scale


def test_s002_13_no_operator_is_left_out() -> None:
    operators = {*topi.__all__, *topi.nn.__all__} - {"nn"}
    assert operators - {*INVENTORY, *LINEAR} == {n for names in WITHOUT.values() for n in names}


@ta.scalar_function(partials=lambda y, a: 2.0 * a * a)
def cube(a: Any) -> Any:
    """With a wrong partial: 3 a^2 is right."""
    return a * a * a


def cubes(x: Any) -> Any:
    def step(t: Any, s: Any) -> Any:
        return ta.compute((3,), lambda i: cube(s[i]) * 0.5, name="cubed")

    return ta.for_loop(0, 2, step, x)


X: Final = np.array([0.5, -1.0, 1.5])


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("fast", [False, True])
def test_s002_21_and_s002_22_wrong_rules_are_named(mode: str, fast: bool) -> None:
    with pytest.raises(GradError, match=f"{mode} mode disagrees") as caught:
        ta.gradcheck(cubes, X, modes=(mode,), fast=fast)
    assert "the partials given for cube are wrong" in str(caught.value)


@pytest.mark.parametrize("name", ["recurrent_cell", "newton_by_while", "rows_set_one_by_one"])
def test_s002_21_both_modes_against_differences(name: str) -> None:
    y, wrt = PROGRAMS[name](4)
    for mode in ("forward", "reverse"):
        report = ta.gradcheck(y, wrt, modes=(mode,), report=True)
        assert report
        assert f"{mode} mode only" in str(report)


@pytest.mark.parametrize("name", ["recurrent_cell", "newton_by_while", "rows_set_one_by_one"])
def test_s002_22_one_direction_instead_of_all(name: str) -> None:
    y, wrt = PROGRAMS[name](4)
    assert "along random directions only" in str(ta.gradcheck(y, wrt, fast=True, report=True))


def test_s002_24_what_cannot_be_checked_is_said() -> None:
    with pytest.raises(DTypeError, match="nothing to differentiate by"):
        ta.gradcheck(lambda n: n * 2, 3)
    with pytest.raises(GradError, match="nothing to check"):
        ta.gradcheck(lambda x: x > 0, X)
    kink = ta.gradcheck(lambda x: abs(x).sum(), np.array([0.0, 1.0]), report=True)
    assert "kink" in str(kink)


Point = tuple[Callable[[Any], Any], float]
KINKS: Final[dict[str, Point]] = {
    "sqrt": (ta.sqrt, 0.0), "rsqrt": (topi.rsqrt, 0.0), "cbrt": (topi.cbrt, 0.0),
    "log": (ta.log, 0.0), "log1p": (topi.log1p, -1.0), "log2": (topi.log2, 0.0),
    "log10": (topi.log10, 0.0), "reciprocal": (lambda x: 1.0 / x, 0.0),
    "abs": (abs, 0.0), "sign": (ta.sign, 0.0), "floor": (ta.floor, 1.0),
    "ceil": (ta.ceil, 1.0), "round": (ta.round, 0.5), "trunc": (ta.trunc, 1.0),
    "relu": (topi.nn.relu, 0.0), "relu6 below": (topi.nn.relu6, 0.0),
    "relu6 above": (topi.nn.relu6, 6.0), "leaky_relu": (topi.nn.leaky_relu, 0.0),
    "elu": (topi.nn.elu, 0.0), "selu": (topi.nn.selu, 0.0),
    "hard_sigmoid below": (topi.nn.hard_sigmoid, -3.0),
    "hard_sigmoid above": (topi.nn.hard_sigmoid, 3.0),
    "maximum": (lambda x: topi.maximum(x, 0.0), 0.0),
    "minimum": (lambda x: topi.minimum(x, 0.0), 0.0),
    "maximum of itself": (lambda x: topi.maximum(x, x), 1.0),
    "clip below": (lambda x: topi.clip(x, 0.0, 1.0), 0.0),
    "clip above": (lambda x: topi.clip(x, 0.0, 1.0), 1.0),
    "square": (lambda x: x**2, 0.0), "power": (lambda x: x**0.5, 0.0),
    "power of a number": (lambda x: topi.power(0.0, x), 1.0),
    "guarded log": (lambda x: ta.select(x > 0, ta.log(x), 0.0), 0.0),
    "guarded root": (lambda x: ta.select(x > 0, ta.sqrt(x), x), 0.0),
    "guarded quotient": (lambda x: ta.select(x > 0, 1.0 / x, 0.0), 0.0),
    "where": (lambda x: topi.where(x > 0, ta.log(x), 0.0 * x), 0.0),
    "max": (lambda x: topi.max(x, axis=0) + 0.0 * x, 0.0),
    "min": (lambda x: topi.min(x, axis=0) + 0.0 * x, 0.0),
    "product": (lambda x: topi.prod(x, axis=0) + 0.0 * x, 0.0),
    "cummax": (lambda x: topi.cummax(x, axis=0), 0.0),
    "norm": (lambda x: ta.sqrt((x * x).sum()) + 0.0 * x, 0.0),
    "asin": (topi.asin, 1.0), "acosh": (topi.acosh, 1.0), "atanh": (topi.atanh, 1.0),
    "loop": (lambda x: ta.for_loop(0, 3, lambda t, c: topi.maximum(c * c, x), x), 0.0),
    "branch": (lambda x: ta.cond(x.sum() > 0, lambda: ta.log(x), lambda: x), 0.0),
    "guarded call": (lambda x: ta.select(x > 0, ta.function(ta.sqrt)(x), 0.0), 0.0),
    "guarded branch": (
        lambda x: ta.select(x > 0, ta.cond(x.sum() < 1, ta.log, ta.sqrt, x), x), 0.0,
    ),
    "guarded loop": (
        lambda x: ta.select(x > 0, ta.for_loop(0, 2, lambda t, c: ta.sqrt(c), x), 0.0), 0.0,
    ),
    "guarded scan": (
        lambda x: ta.select(x > 0, ta.scan(lambda c, r: (c, 1.0 / r), 1.0, x)[1], x), 0.0,
    ),
    "guarded while": (
        lambda x: ta.select(
            x > 0, ta.while_loop(lambda c: c[0] < 1.0, lambda c: ta.sqrt(c) + 1.0, x), x
        ),
        0.0,
    ),
    "guarded loop after a root": (
        lambda x: ta.select(x > 0, ta.for_loop(0, 2, lambda t, c: c * c, ta.sqrt(x)), x), 0.0,
    ),
}  # fmt: skip


def both_modes(name: str) -> tuple[np.ndarray, np.ndarray]:
    own, at = KINKS[name]
    f, x = ta.function(own), np.full(3, at)
    columns = [ta.jvp(f, (x,), (e,))[1] for e in np.eye(3)]
    _, pullback = ta.vjp(f, x)
    rows = [pullback(e) for e in np.eye(3)]
    rows = [r[0] if isinstance(r, tuple) else r for r in rows]
    return np.stack(columns, 1), np.stack(rows)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", KINKS)
def test_s002_33_and_t_12_both_modes_agree_at_kinks_and_poles(name: str) -> None:
    assert len(KINKS) >= 40
    forward, reverse = both_modes(name)
    np.testing.assert_array_equal(forward, reverse)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", KINKS)
def test_t_12_compiled_or_not(name: str) -> None:
    f, at = KINKS[name]
    x = np.full(3, at)
    gradient = ta.grad(lambda x: f(x).sum())
    np.testing.assert_allclose(gradient(x), ta.interpret(gradient, x), rtol=1e-12)


FIVE, FIVES = np.zeros(5), np.zeros((5, 5))


def test_s004_02_what_differentiation_makes_is_a_program_as_others() -> None:
    def f(x: Any = FIVE, w: Any = FIVES) -> Any:
        return squares(ta.for_loop(0, 4, lambda t, h: topi.tanh(w @ h), x))

    made = ta.gradient(ta.module(f), "f")
    read = ta.module(str(made))
    assert str(read) == str(made)
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal(5), rng.standard_normal((5, 5))
    counts = [ta.work(m["f_adjoint"], x, w) for m in (made, read)]
    assert counts[0].iterations == counts[1].iterations
    assert counts[0].multiplications == counts[1].multiplications
