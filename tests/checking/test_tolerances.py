"""What counts as wrong: distances, scales, kinks, and the tolerance itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tensorad import te
from tensorad.checking import gradcheck
from tensorad.checking.engine import Engine
from tensorad.checking.inputs import choose_inputs
from tensorad.checking.slopes import Slopes, exactly, slopes
from tensorad.checking.tally import Tally, distance
from tensorad.errors import DefinitionError, GradError
from tensorad.ir.tensor import Tensor

INF, NAN = float("inf"), float("nan")
EPS = 1e-6


def errors(found: list[float], s: Slopes) -> list[float]:
    return list(s.errors(np.array(found)).tolist())


def test_errors_are_relative_to_the_largest_slope_and_at_least_to_1() -> None:
    assert errors([0.5], exactly(np.array([0.25]))) == [0.25]
    assert errors([8.5, 1.0], exactly(np.array([8.0, 0.0]))) == [0.0625, 0.125]
    kinks = np.array([True, False])
    central = np.array([1e9, 2.0])
    bent = Slopes(central, kinks, central, central)
    assert errors([1e9, 3.0], bent) == [0.0, 0.5]


def test_numbers_that_are_none_agree_with_themselves_alone() -> None:
    assert errors([NAN, NAN, 1.0, INF, -INF], exactly(np.array([NAN, 1.0, NAN, INF, INF]))) == [
        0.0, INF, INF, 0.0, INF,
    ]  # fmt: skip
    assert [distance(NAN, 1.0), distance(NAN, NAN), distance(INF, INF)] == [INF, 0.0, 0.0]


def test_at_a_kink_what_lies_between_the_slopes_agrees() -> None:
    one = np.array([0.0])
    bent = Slopes(one, np.array([True]), one - 1, one + 1)
    assert [errors([v], bent)[0] for v in (-1.5, -1.0, 0.3, 1.0, 1.25)] == [0.5, 0, 0, 0, 0.25]


@pytest.mark.parametrize(
    ("value", "slope", "kink"),
    [
        (lambda x: 3 * x, 3.0, False),
        (lambda x: 3 * x + 200 * x * x, 3.0, False),
        (lambda x: x + 1e-3 * abs(x), 1.0, True),
        (lambda x: abs(x), 0.0, True),
        (lambda x: INF, 0.0, False),
    ],
)
def test_slopes_and_kinks(value: Callable[[float], float], slope: float, kink: bool) -> None:
    found = slopes(lambda x: np.array([value(x)]), np.array([value(0.0)]), EPS)
    np.testing.assert_allclose(found.central, [slope], atol=1e-8)
    assert found.kinks.tolist() == [kink]


@pytest.mark.parametrize("times", [0.5, 2.0])
def test_the_tolerance_is_as_wide_as_it_says(times: float) -> None:
    tally = Tally("y by x", "reverse", 1e-4)
    tally.add("x", np.array([5.0, 5.0 + times * 5e-4, 0.0]), exactly(np.array([5.0, 5.0, 1.0])))
    assert tally.bad is not None and tally.bad[0] == ("x[2]" if times < 1 else "x[1]")
    one = Tally("y by x", "reverse", 1e-4)
    one.add_one("x", 5.0 + times * 5e-4, 5.0, 5.0)
    assert (one.bad is None) == (times < 1)


@pytest.mark.parametrize(("factor", "right"), [(1 + 3e-8, True), (1 + 1e-4, False)])
def test_the_default_tolerance(factor: float, right: bool) -> None:
    x = te.placeholder((3,), "float64", name="x")
    y = te.compute((3,), lambda i: x[i] * 2.0, name="y")

    def rule(*args: Tensor) -> list[Tensor]:
        head = args[-1]
        return [te.compute(head.shape, lambda *i: head[i] * (2.0 * factor))]

    override = {y: ([x], rule)}
    if right:
        assert gradcheck(y, [x], override=override, modes="reverse")
    else:
        with pytest.raises(GradError):
            gradcheck(y, [x], override=override, modes="reverse")


def chosen(y: Tensor, xs: list[Tensor], seed: int = 0) -> dict[Tensor, np.ndarray]:
    return choose_inputs([y], xs, {}, Engine({}, False), np.random.default_rng(seed))


def test_values_have_either_sign_where_results_are_numbers() -> None:
    x = te.placeholder((40,), "float64", name="x")
    squared = chosen(te.compute((40,), lambda i: x[i] * x[i]), [x])[x]
    assert squared.min() < 0 < squared.max()
    rooted = chosen(te.compute((40,), lambda i: te.sqrt(x[i])), [x])[x]
    assert 0.3 <= rooted.min() and rooted.max() <= 1.7


def test_indices_are_inside() -> None:
    x, p = te.placeholder((3,), "float64", name="x"), te.placeholder((40,), "int64", name="p")
    found = chosen(te.compute((40,), lambda i: x[p[i]]), [x])[p]
    assert sorted(set(found.tolist())) == [0, 1, 2]
    far = chosen(te.compute((40,), lambda i: x[p[i] * 2]), [x])[p]
    assert far.max() * 2 < 3


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"tol": INF}, "tol must be a positive number, got inf"),
        ({"eps": 0.0}, "eps must be a positive number, got 0.0"),
        ({"directions": True}, "directions must be an integer, got True"),
        ({"order": 0}, "order must be at least 1, got 0"),
    ],
)
def test_numbers_of_a_check(given: dict[str, float], text: str) -> None:
    x = te.placeholder((3,), "float64", name="x")
    with pytest.raises(DefinitionError, match=text):
        gradcheck(te.compute((3,), lambda i: x[i] * 2.0), [x], **given)  # type: ignore[call-overload]


def test_the_worst_of_all_is_told() -> None:
    tally = Tally("y by x", "reverse", 1e-4)
    for found in (0.25, 0.75, 0.5):
        tally.add_one(f"at {found}", found, 0.0, 1.0)
    assert (tally.error, tally.place) == (0.75, "at 0.75")
    assert tally.bad == ("at 0.25", 0.25, 0.0)


def test_inputs_at_kinks_are_drawn_again() -> None:
    """Of 12 seeds some begin within a step of the kink."""
    x = te.placeholder((4,), "float64", name="x")
    y = te.compute((4,), lambda i: abs(x[i] - 1.0), name="y")
    reports = [gradcheck(y, [x], eps=0.02, seed=n, report=True) for n in range(12)]
    assert [r.wrong for r in reports] == [None] * 12
    assert sum(row.kinks for r in reports for row in r.rows) == 0
