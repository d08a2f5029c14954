"""The derivative of every function is its slope, from both sides, wherever it has one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pytest

from tensorad import te, topi
from tensorad.autodiff import jvp, vjp
from tensorad.building import build
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Tensor
from tests.support.slopes.closed_forms import FORMS
from tests.support.smooth_cases import ELEMENTS, JOINT, LINEAR, PAIRS, WITHOUT, Case, Coordinate

CASES: Final = {**ELEMENTS, **PAIRS, **JOINT}
STEPS: Final = (2.0**-10, -(2.0**-10), 2.0**-11, -(2.0**-11))
DIFFERENCE: Final = np.array([-11 / 6, 3.0, -3 / 2, 1 / 3])
"""The slope at the first of four values one step apart, to third order."""

MIXES: Final = ("reverse over reverse", "reverse over forward", "forward over reverse")
Arrays = tuple[np.ndarray, ...]


class Derivatives:
    """A case's value (results weighted and added up) and derivatives in both modes, compiled."""

    def __init__(self, case: Case) -> None:
        shapes = [a.shape for a in case.points[0]]
        xs = [te.placeholder(s, "float64", name=f"x{n}") for n, s in enumerate(shapes)]
        ds = [te.placeholder(s, "float64", name=f"d{n}") for n, s in enumerate(shapes)]
        along: Any = dict(zip(xs, ds, strict=True))
        y = weighted(case.function(*xs))
        gradients, tangent = vjp(y, xs), jvp(y, along)
        products = [*vjp(gradients, xs, list(ds)), *vjp(tangent, xs)]
        products += [jvp(g, along) for g in gradients]
        self.count = len(xs)
        self.call = build([y, *gradients, tangent, *products, jvp(tangent, along)], [*xs, *ds])

    def at(self, x: Arrays, d: Arrays) -> tuple[np.ndarray, np.ndarray]:
        """The value and the gradient; and the slope along d, the Hessian times d by reverse mode
        over reverse, over forward, and by forward over reverse, d times that by forward mode."""
        results = [np.ravel(r) for r in self.call(*x, *d)]
        n = self.count + 1
        return np.concatenate(results[:n]), np.concatenate(results[n:])


def weighted(results: Tensor | list[Tensor] | tuple[Tensor, ...]) -> Tensor:
    """The sum over all elements of all results, each with a weight of its own."""
    total: Any = 0.0
    for n, r in enumerate([results] if isinstance(results, Tensor) else results):
        flat = topi.reshape(r, (-1,))
        weights: Any = topi.cast(topi.arange(flat.shape[0]), "float64")  # type: ignore[arg-type]  # a number
        total = topi.sum(flat * topi.cos(weights * 0.7 + n)) + total
    return total


def moved(x: Arrays, source: int, position: int, by: float) -> Arrays:
    """The point with one coordinate moved; other zeros keep their signs."""
    if not by:
        return x
    y = tuple([a.copy() for a in x])
    y[source].flat[position] += by
    return y


def slopes(f: Derivatives, x: Arrays, source: int, position: int) -> np.ndarray:
    """Slopes of the value and of the gradient along a coordinate: right and left, two steps."""
    nothing = tuple([np.zeros_like(a) for a in x])
    rows = []
    for h in STEPS:
        values = [f.at(moved(x, source, position, k * h), nothing)[0] for k in range(4)]
        rows.append(DIFFERENCE @ np.array(values) / h)
    return np.array(rows)


def agree(rows: np.ndarray, wanted: np.ndarray | None = None) -> bool:
    """Whether all rows are the wanted one (or the same)."""
    wanted = rows.mean(0) if wanted is None else wanted
    return bool(np.all(np.abs(rows - wanted) <= 1e-5 * (1 + np.abs(wanted))))


def compare(f: Derivatives, x: Arrays, source: int, position: int) -> int | None:
    """Which derivative along a coordinate does not exist (1 or 2; 0: both do).

    None where the function is infinite or undefined nearby.

    Raises:
        AssertionError: a derivative that exists is not the one computed, in either mode.
    """
    zeros = tuple([np.zeros_like(a) for a in x])
    (_, *gradient), (tangent, *product, curvature) = f.at(x, moved(zeros, source, position, 1.0))
    first, second = np.split(slopes(f, x, source, position), [1], axis=1)
    n = sum(a.size for a in x[:source]) + position
    if not np.isfinite(first).all():
        return None
    if not agree(first):
        return 1
    assert agree(np.array([gradient[n], tangent]), first[0]), "first derivative"
    if not agree(second):
        return 2
    for way, own in zip(MIXES, np.split(np.array(product), len(MIXES)), strict=True):
        assert agree(own, second[0]), f"second derivative, {way}"
    assert agree(curvature, second[0][n]), "second derivative, forward mode"
    return 0


@pytest.mark.sampled(15)
@pytest.mark.parametrize("name", CASES)
def test_derivatives_are_slopes(name: str) -> None:
    case = CASES[name]
    f = Derivatives(case)
    found: dict[int | None, set[Coordinate]] = {n: set() for n in (None, 0, 1, 2)}
    wrong = []
    for p, x in enumerate(case.points):
        for source, array in enumerate(x):
            for position in range(array.size):
                try:
                    found[compare(f, x, source, position)].add((p, source, position))
                except AssertionError as e:
                    wrong.append(f"{str(e).splitlines()[0]} at {array.flat[position]} of {x}")
    assert wrong == []
    assert found[0] | found[2], "some point has a derivative"
    for order in (1, 2):
        listed = {c for r in case.rough if r.order == order for c in r.where}
        assert found[order] == listed, f"where derivative {order} does not exist"


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", LINEAR)
def test_derivatives_of_linear_operators_are_themselves(name: str) -> None:
    x, d = (te.placeholder((1, 4, 2, 2), "float64", name=n) for n in "xd")
    y = weighted(LINEAR[name](x))
    (gradient,) = vjp(y, [x])
    move = np.cos(np.arange(16.0)).reshape(1, 4, 2, 2)
    outputs = [weighted(LINEAR[name](d)), jvp(y, {x: d}), gradient]
    step, tangent, slope = [interpret(t, {x: np.zeros((1, 4, 2, 2)), d: move}) for t in outputs]
    assert tangent == pytest.approx(step)
    assert np.sum(slope * move) == pytest.approx(float(step))


def test_every_operator_is_listed() -> None:
    operators = {*topi.__all__, *topi.nn.__all__} - {"nn"}
    listed = {n for names in WITHOUT.values() for n in names}
    assert operators - {*CASES, *LINEAR} == listed


def test_every_scalar_function_and_reducer_is_listed() -> None:
    scalars = {n for n in vars(te.scalars) if n in te.__all__ if n.lower() == n}
    others = {"isfinite", "isnan", "elementary_function"}
    assert scalars - {*ELEMENTS, *PAIRS, "select"} == others  # select: "where"
    modules = {n: getattr(getattr(te, n), "__module__", "") for n in te.__all__}
    folds = {n for n, module in modules.items() if module == te.reducers.__name__}
    listed = {"any_of", "all_of", "argmax", "argmin", "comm_reducer", "Reducer"}
    assert {n for n in folds if f"{n} by index" not in JOINT} == listed


FAR: Final = {
    "float32": (1e3, 1e6, 1e10, 1e15, 1e19, 1e30, 1e37),
    "float64": (1e3, 1e10, 1e19, 1e30, 1e77, 1e160, 1e300),
}


@pytest.mark.sampled(7)
@pytest.mark.parametrize("dtype", FAR)
@pytest.mark.parametrize("name", ELEMENTS)
def test_derivatives_are_numbers_far_from_zero(name: str, dtype: str) -> None:
    """What overflows on the way to a value that does not leaves no trace in its slope."""
    at = np.array([s * v for v in FAR[dtype] for s in (1, -1)], dtype)
    x = te.placeholder(at.shape, dtype, name="x")
    y = ELEMENTS[name].function(x)
    (first,) = vjp(y, [x], 1.0)
    second = jvp(first, {x: 1.0})
    value, *slopes = build([y, first, second], [x])(at)
    for slope in slopes:
        assert np.isfinite(slope[np.isfinite(value)]).all(), (at, value, slope)


AT: Final = (0.0, 40.0, -40.0, 700.0, -700.0)
DOMAINS: Final[dict[str, Sequence[float]]] = {
    **dict.fromkeys(("asin", "acos", "atanh", "erfinv"), (0.0,)),
    **dict.fromkeys(("log", "log2", "log10", "sqrt", "rsqrt", "acosh", "power 2.5"), (40.0, 700.0)),
    **dict.fromkeys(("lgamma", "digamma", "trigamma"), (40.0, 700.0)),
    **dict.fromkeys(("cbrt", "power -1", "power -2.0"), AT[1:]),
    "log1p": (0.0, 40.0, 700.0),
}
"""Points of `AT` where a function has derivatives, if not at all."""
BY_VALUE: Final = (
    "tanh", "sigmoid", "silu", "softplus", "log_sigmoid", "mish", "softplus, beta 2",
)  # fmt: skip
"""What is differentiated by the value, as y * (1 - y): next to 1, to the precision of 1."""


def smooth(name: str, order: int, points: np.ndarray) -> np.ndarray:
    """Where that derivative exists, of points of `AT`."""
    (line,) = ELEMENTS[name].points[0]
    rough = [r for r in ELEMENTS[name].rough if r.order <= order]
    kinks = {line[position] for r in rough for _, _, position in r.where}
    return (points != 0.0) | (0.0 not in kinks)


@pytest.mark.sampled(15)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ELEMENTS)
def test_derivatives_are_those_of_closed_forms(name: str, dtype: str) -> None:
    """At zero and where exponentials overflow, in both modes and all mixes of two."""
    at = np.resize(DOMAINS.get(name, AT), 14).astype(dtype)
    x = te.placeholder(at.shape, dtype, name="x")
    y = ELEMENTS[name].function(x)
    (gradient,), tangent = vjp(y, [x], 1.0), jvp(y, {x: 1.0})
    second = [*vjp(gradient, [x], 1.0), *vjp(tangent, [x], 1.0)]
    second += [jvp(gradient, {x: 1.0}), jvp(tangent, {x: 1.0})]
    found = build([gradient, tangent, *second], [x])(at)
    with np.errstate(over="ignore", under="ignore"):
        exact = [f(at.astype(np.longdouble)).astype(dtype) for f in FORMS[name]]
    rtol, atol = (1e-12, 1e-300) if dtype == "float64" else (2e-5, 1e-37)
    atol = 4 * np.finfo(dtype).eps if name in BY_VALUE else atol
    for n, own in enumerate(found):
        order = 1 + (n > 1)
        here = smooth(name, order, at)
        wanted = exact[order - 1][here]
        np.testing.assert_allclose(own[here], wanted, rtol, atol, err_msg=f"{n}: {at[here]}")


@pytest.mark.parametrize("gamma", [0.5, 1.5, 2.0, 2.5])
def test_a_focal_loss_of_certainty_is_flat(gamma: float) -> None:
    x = te.placeholder((4,), "float64", name="x")
    at, target = np.array([50.0, 800.0, -50.0, -800.0]), te.const(np.array([1.0, 1.0, 0.0, 0.0]))
    (first,) = vjp(topi.focal_loss(x, target, gamma=gamma), [x])
    (second,) = vjp(first, [x], np.ones(4))
    for t in (first, second):
        np.testing.assert_allclose(interpret(t, {x: at}), np.zeros(4), atol=1e-20)


@pytest.mark.parametrize(
    ("function", "ends"),
    [
        (topi.relu, [0.0]),
        (topi.relu6, [0.0, 6.0]),
        (topi.hard_sigmoid, [-3.0, 3.0]),
        (lambda x: topi.clip(x, -1.0, 2.0), [-1.0, 2.0]),
    ],
)
def test_bounds_win_ties(function: Any, ends: list[float]) -> None:
    x = te.placeholder((len(ends),), "float64", name="x")
    (slope,) = vjp(function(x), [x], np.ones(len(ends)))
    assert interpret(slope, {x: np.array(ends)}).tolist() == [0.0] * len(ends)


@pytest.mark.parametrize(
    ("function", "slopes"),
    [
        (topi.softplus, lambda x: (x > 0, np.exp(-np.abs(x)))),
        (topi.log_sigmoid, lambda x: (x < 0, -np.exp(-np.abs(x)))),
    ],
)
def test_far_from_zero(function: Any, slopes: Any) -> None:
    """Finite, and the limit: where exp of x is not."""
    x = te.placeholder((4,), "float64", name="x")
    at = np.array([-1e4, -800.0, 800.0, 1e4])
    y = function(x)
    (first,) = vjp(y, [x], np.ones(4))
    second = jvp(first, {x: np.ones(4)})
    expected = slopes(at)
    for t, value in zip((first, second), expected, strict=True):
        np.testing.assert_allclose(interpret(t, {x: at}), value, atol=1e-300)
