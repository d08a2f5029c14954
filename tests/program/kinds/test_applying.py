"""Functions that data choose: interpreted, compiled, as in Python."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import DefinitionError
from tensorad.ir.tensor import Branch
from tests.random.whole.plain import Plain
from tests.support.programs.higher.chosen import CHOSEN
from tests.support.programs.higher.data import listed
from tests.support.programs.higher.kit import check


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CHOSEN)
def test_chosen_functions(name: str) -> None:
    check(CHOSEN[name])


def test_a_function_that_all_branches_return_is_no_value() -> None:
    f = ta.function(lambda x, p: ta.cond(p > 0, lambda: (ta.exp, x), lambda: (ta.exp, -x)))
    got = f.trace(np.float64(1.0), np.float64(1.0))
    assert len(got.results) == 1 and isinstance(got.results[0].op, Branch)


def test_a_method_that_is_read_again_is_the_same_function() -> None:
    class Model:
        def scale(self, y: Any) -> Any:
            return y * 2

    model = Model()

    def program(x: Any, n: Any) -> Any:
        f, y = ta.for_loop(0, n, lambda i, c: (model.scale, c[0](c[1])), (model.scale, x))
        return f(y)

    assert ta.function(program)(np.float64(1.0), np.int64(3)) == 16.0
    assert "type" not in str(ta.function(program).trace(np.float64(1.0), np.int64(3)))


def test_what_a_branch_computes_stays_inside_of_it() -> None:
    def program(xs: Any, p: Any) -> Any:
        f = ta.match(xs, lambda: lambda y: y, lambda h, t: lambda y: y * h)
        return f(p)

    f = ta.function(program)
    assert f(listed(), np.float64(2.0)) == 2.0 and f(listed(3.0), np.float64(2.0)) == 6.0


def test_what_is_in_reach_everywhere_is_no_field() -> None:
    def program(w: Any, p: Any) -> Any:
        f = ta.cond(p > 0, lambda: lambda y: y @ w, lambda: lambda y: y + p)
        return f(w[0])

    text = str(ta.function(program).trace(np.ones((3, 3)), np.float64(1.0)))
    assert "type cond = " in text and "(w :" not in text.splitlines()[0]


def test_functions_may_be_in_data_of_a_loop_beside_numbers() -> None:
    def program(x: Any, n: Any) -> Any:
        def step(i: Any, c: Any) -> Any:
            return {"f": lambda y: c["f"](y) + c["x"], "x": c["x"] * 2}

        end = ta.for_loop(0, n, step, {"f": lambda y: y, "x": x})
        return end["f"](0 * x) + 0 * end["x"]

    assert ta.function(program)(np.float64(1.0), np.int64(4)) == 15.0


@pytest.mark.slow
def test_a_chosen_function_reads_at_the_counter_of_the_loop_that_made_it() -> None:
    def program(x: Any) -> Any:
        f = ta.for_loop(0, 3, lambda i, f: lambda y: f(y) * 2 + x[i], lambda y: y)
        return f(x[0])

    x = np.array([1.0, 10.0, 100.0])
    assert ta.function(program)(x) == 132.0
    assert ta.grad(program)(x).tolist() == [12.0, 2.0, 1.0]


def test_functions_that_capture_formulas_of_indices_are_of_one_kind_with_values_of_each() -> None:
    def part(places: Any) -> Any:
        return lambda y: y[places].sum()

    def program(x: Any, p: Any) -> Any:
        first = ta.topi.arange(2)
        return ta.cond(p > 0, lambda: part(first + 0), lambda: part(first + 1))(x)

    f = ta.function(program)
    x = np.array([1.0, 10.0, 100.0])
    assert (f(x, np.float64(1.0)), f(x, np.float64(-1.0))) == (11.0, 110.0)


@pytest.mark.slow
def test_what_one_function_captures_is_not_known_of_others_in_its_place() -> None:
    def scaled(n: Any) -> Any:
        return lambda y: ta.cond(n > 2, lambda: y * 10, lambda: y)

    def program(x: Any, p: Any) -> Any:
        def made(value: float) -> Any:
            return scaled(ta.compute((), lambda: value))

        return ta.cond(p > 0, lambda: made(3.0), lambda: made(1.0))(x)

    f = ta.partial_eval(program)
    assert (f(np.float64(1.0), np.int64(1)), f(np.float64(1.0), np.int64(-1))) == (10.0, 1.0)


def test_fn_is_the_function_outside_of_programs() -> None:
    assert ta.fn(abs) is abs


def test_functions_that_differ_in_their_defaults_are_two() -> None:
    def arm(factor: float) -> Any:
        return lambda: lambda y, k=factor: y * k

    f = ta.function(lambda p, x: ta.cond(p, arm(2.0), arm(5.0))(x))
    assert (f(True, 1.0), f(False, 1.0)) == (2.0, 5.0)


def test_functions_of_one_text_in_two_modules_are_two() -> None:
    code = compile("def scaled(x):\n    return x * factor\n", "<text>", "exec")
    made = []
    for factor in (2.0, 5.0):
        names: dict[str, Any] = {"factor": factor}
        exec(code, names)
        made.append(names["scaled"])
    f = ta.function(lambda p, x: ta.cond(p, lambda: made[0], lambda: made[1])(x))
    assert (f(True, 1.0), f(False, 1.0)) == (2.0, 5.0)


def _read(v: Any, y: Any, where: Any) -> Any:
    return v[where] - y


def _by_name(v: Any, i: Any) -> Any:
    def f(y: Any, *, where: Any = i) -> Any:
        return v[where] - y

    return f


def _in_a_tuple(v: Any, i: Any) -> Any:
    places = 0, (i, 1)
    return lambda y: v[places[1][0]] - y


def _by_another(v: Any, i: Any) -> Any:
    def where() -> Any:
        return i

    return lambda y: v[where()] - y


COUNTERS: dict[str, Callable[[Any, Any], Any]] = {
    "captured": lambda v, i: lambda y: v[i] - y,
    "by default": lambda v, i: lambda y, where=i: v[where] - y,
    "by default, by name": _by_name,
    "bound": lambda v, i: partial(lambda where, y: v[where] - y, i),
    "bound by name": lambda v, i: partial(_read, v, where=i),
    "in a tuple": _in_a_tuple,
    "by another function": _by_another,
}


@pytest.mark.parametrize("name", list(COUNTERS))
def test_functions_that_data_choose_capture_counters(name: str) -> None:
    """Each iteration's own; where values hold the functions, others of an inner loop join."""
    make = COUNTERS[name]

    def program(t: Any, x: Any, v: Any) -> Any:
        act = t.variant("Act", Plain={}, Scaled={"f": t.Fn, "k": "float64"})

        def more(j: Any, a: Any) -> Any:
            arms = {
                act.Plain: lambda: act.Scaled(lambda y: y * 2.0, x),
                act.Scaled: lambda g, k: act.Scaled(lambda y: g(y) + k, x),
            }
            return t.match(a, arms)

        def body(i: Any, total: Any) -> Any:
            f = t.cond(x < 0.6, lambda: lambda y: y, lambda: make(v, i))
            a = t.cond(x < 0.6, lambda: act.Plain(), lambda: act.Scaled(make(v, i), x))
            a = t.for_loop(0, 2, more, a)
            last = {act.Plain: lambda: x, act.Scaled: lambda g, k: g(x) * k}
            return total + f(x) + t.match(a, last)

        return t.for_loop(0, 3, body, 0.0)

    def plain(x: float) -> Any:
        return program(Plain(), x, v)

    v, f = np.array([1.0, 10.0, 100.0]), ta.value_and_grad(partial(program, ta))
    for x in (0.5, 0.7):
        slope = (plain(x + 1e-6) - plain(x - 1e-6)) / 2e-6
        np.testing.assert_allclose(f(np.float64(x), v), (plain(x), slope), rtol=1e-7)


def test_counters_in_what_may_change_are_refused() -> None:
    def program(x: Any) -> Any:
        def body(i: Any, total: Any) -> Any:
            places = [i]
            f = ta.cond(total > 1.0, lambda: lambda y: x[places[0]] * y, lambda: lambda y: y)
            return total + f(x[0])

        return ta.for_loop(0, 3, body, 0.0)

    with pytest.raises(DefinitionError, match="formula that belongs to a place of the program"):
        ta.function(program)(np.ones(3))
