"""Modules: functions by name, their text, their calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import BindError, DefinitionError, ShapeError
from tensorad.ir.text.parser import parse_program
from tests.support.programs.higher.data import Cons, listed
from tests.support.programs.higher.kit import same

HALF = """\
def half(x : float64[3]) -> float64[3]:
  y : float64[3] = [i] x[i]*0.5
  return y
"""


THREE = np.zeros(3)
PARAMS = {"w": THREE, "b": 0.0}
PAIR = ta.placeholder((2,), "float64")


@ta.function
def total(x: Any = THREE) -> Any:
    return (x * x).sum()


@ta.function
def loss(params: Any = PARAMS, x: Any = THREE) -> Any:
    return {"loss": total(params["w"] * x) + params["b"], "x": x}


def test_functions_texts_and_modules_are_put_together() -> None:
    first = ta.module(loss, total)
    m = ta.module(first, HALF)
    assert list(m) == ["total", "loss", "half"] and len(m) == 3 and "half" in m
    assert m["loss"] is first["loss"] and str(m["half"]) == HALF
    assert str(ta.module(str(m))) == str(m) == str(ta.module(parse_program(str(m))))
    assert repr(m) == "<Module total, loss, half>"
    assert repr(m["loss"]) == "<ModuleFunction loss(params, x)>"
    assert "<b>total</b>" in m._repr_html_()


def test_large_constants_come_beside_the_text() -> None:
    table = np.arange(40.0)
    m = ta.module(ta.function(lambda x: x @ table).trace(table))
    (name,) = m.program.constants
    again = ta.module(str(m), constants={name: table})
    assert str(again) == str(m) and again["<lambda>"](table) == table @ table


def test_functions_are_called_with_trees() -> None:
    m = ta.module(loss)
    x, w = np.array([1.0, 2.0, 3.0]), np.array([1.0, 0.0, 2.0])
    found = m["loss"]({"w": w, "b": 0.5}, x)
    assert found["loss"] == 37.5 and (found["x"] == x).all()
    again = ta.module(str(m))["loss"]((np.float64(0.5), w), x)
    assert again[0] == 37.5 and (again[1] == x).all()


def test_functions_are_parts_of_other_programs() -> None:
    f = ta.module(total)["total"]
    x = np.array([1.0, 2.0, 3.0])
    assert ta.grad(lambda x: f(x) * 3.0)(x).tolist() == [6.0, 12.0, 18.0]
    assert ta.grad(f)(x).tolist() == [2.0, 4.0, 6.0]


def test_examples_are_arrays_placeholders_or_traces() -> None:
    def product(x: Any = PAIR, y: Any = 2) -> Any:
        return x * y

    m = ta.module(product, total.trace(np.zeros(2)))
    assert str(m["product"]).startswith("def product(x : float64[2], y : int64[]) -> float64[2]:")
    assert m["total"](np.ones(2)) == 2.0
    assert m["product"](np.ones(2), 3).tolist() == [3.0, 3.0]


def test_a_module_never_changes() -> None:
    m = ta.module(HALF)
    with pytest.raises(AttributeError):
        m.program = None  # type: ignore[misc]
    with pytest.raises(TypeError):
        m.functions["other"] = m["half"]  # type: ignore[index]


def error(kind: type[Exception], call: Any) -> str:
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


def test_functions_without_examples_are_refused() -> None:
    assert error(DefinitionError, lambda: ta.module(lambda x: x)) == (
        "parameter x of <lambda> has no default that tells its shape and dtype.\n"
        "  in: <lambda>(x)\n"
        "  hint: write x=ta.placeholder((5, 5)), an example array, or pass <lambda>.trace(...) to "
        "ta.module."
    )


def test_names_that_stand_for_two_things_are_refused() -> None:
    assert error(DefinitionError, lambda: ta.module(HALF, HALF)) == (
        "there are two functions called half.\n  hint: give one of them another name."
    )
    text = "constant c : float64[] = {}\ndef {}() -> float64[]:\n  return c\n"
    both = [text.format(n, f"f{n}") for n in (1, 2)]
    assert error(DefinitionError, lambda: ta.module(*both)) == (
        "there are two constants called c.\n  hint: give one of them another name."
    )
    assert error(DefinitionError, lambda: ta.module(HALF)["third"]) == (
        "the module has no function third.\n  hint: its functions are half."
    )


def test_arguments_that_do_not_fit_are_refused() -> None:
    m = ta.module(loss, total)
    assert error(BindError, m["total"]) == (
        "total takes 1 argument, got 0.\n"
        "  in: total(x)\n"
        "  hint: call it with a value for each parameter, by position."
    )
    assert error(DefinitionError, lambda: m["loss"]({"w": np.zeros(3)}, np.zeros(3))) == (
        "argument params of loss has another structure at params['b'].\n"
        "  in:              wanted        given\n"
        "      params['b']  float64 ()    -\n"
        "      params['w']  float64 (3,)  float64 (3,)\n"
        "  hint: an argument is a tree like its parameter."
    )
    assert error(ShapeError, lambda: m["total"](ta.placeholder((4,), "float64", name="x"))) == (
        "x of total is float64 (3,), but gets float64 (4,).\n"
        "  in: a call of total with tensors\n"
        "  hint: functions of modules have the shapes that they were made with."
    )


def test_a_cotangent_is_a_tree_like_the_result() -> None:
    def f(x: Any = THREE, n: Any = 2) -> Any:
        return {"square": x * x, "n": n + 1, "cube": (x * x * x,)}

    m = ta.gradient(ta.module(f), "f", cotangent="head")
    x, one = np.array([1.0, 2.0, 3.0]), np.ones(3)
    value, (dx, dn) = m["f_adjoint"](x, 2, {"square": one, "n": None, "cube": (2 * one,)})
    assert value["n"] == 3 and value["cube"][0].tolist() == [1.0, 8.0, 27.0]
    assert dx.tolist() == (2 * x + 6 * x * x).tolist() and dn is None


@ta.function
def _total(xs: Any, w: Any) -> Any:
    return ta.match(xs, lambda: 0.0, lambda h, t: ta.sin(h * w) + _total(t, w))


@pytest.mark.slow
def test_adjoints_of_values_of_data_types() -> None:
    """They are values like them, and so is a cotangent."""
    xs, w = listed(0.5, -1.0), np.float64(2.0)
    m = ta.gradient(ta.module(_total.trace(xs, w)), "_total")
    value, (by_xs, by_w) = m["_total_adjoint"](xs, w)
    same((value, by_xs, by_w), (_total(xs, w), *ta.grad(_total, (0, 1))(xs, w)))
    assert "recur gradient_List(xs" in str(m)

    def grown(xs: Any, w: Any) -> Any:
        return Cons(w * w, xs)

    made = ta.module(ta.function(grown).trace(xs, w))
    given = listed(1.0, 2.0, 3.0)
    for adjoint in (
        ta.gradient(made, "grown", cotangent="c")["grown_adjoint"](xs, w, given),
        ta.gradient(made, "grown", cotangent=given)["grown_adjoint"](xs, w),
    ):
        same(adjoint, (listed(4.0, 0.5, -1.0), (listed(2.0, 3.0), 4.0)))
    (none,) = ta.gradient(made, "grown", "xs", cotangent=given)["grown_adjoint"](xs, w)[1]
    same(none, listed(2.0, 3.0))
