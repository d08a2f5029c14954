"""Demands of Relax's Gradient (S000) on functions of modules: adjoints, binding by binding."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import DefinitionError, DTypeError, GradError, ShapeError
from tensorad.ir.text.program import Run
from tensorad.ir.visit import op_inputs
from tests.seeds.support.differences import check_adjoints
from tests.seeds.support.formulas import additions, defined
from tests.seeds.support.goldens import GOLDENS, SUM, TWICE, UNUSED, check_golden
from tests.seeds.support.normal_form import check_normal_form

RNG = np.random.default_rng(0)
THREE = np.zeros(3)
CUBES = """\
def cubes(x : float64[3]) -> float64[]:
  y : float64[] = sum over (i in [0, 3)) of x[i]*x[i]*x[i]
  return y
"""
LAYER = """\
def main(x : float64[4, 5], w : float64[5, 6], b : float64[6]) -> float64[]:
  lv0 : float64[4, 6] = [i, j] sum over (k in [0, 5)) of x[i, k]*w[k, j]
  lv1 : float64[4, 6] = [i, j] lv0[i, j] + b[j]
  gv0 : float64[] = sum over (i in [0, 4), j in [0, 6)) of lv1[i, j]*lv1[i, j]
  return gv0
"""
LAYER_ARGUMENTS = [RNG.standard_normal(shape) for shape in ((4, 5), (5, 6), (6,))]


def error(kind: type[Exception], call: Any) -> str:
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


def test_s000_01_the_result_is_a_new_module_and_the_old_functions_stay() -> None:
    m = ta.module(SUM.before, CUBES)
    text = str(m)
    more = ta.gradient(m, "main")
    assert list(m) == ["main", "cubes"] and str(m) == text
    assert list(more) == ["main", "cubes", "main_adjoint"]
    for name in m:
        assert more[name] is m[name] and more.program[name] is m.program[name]
    assert str(more).startswith(text)


def test_s000_01_functions_that_are_called_stay_too() -> None:
    @ta.function
    def inner(x: Any = THREE) -> Any:
        return ta.tanh(ta.sin(x))

    @ta.function
    def outer(x: Any = THREE) -> Any:
        return (inner(x) * x).sum()

    m = ta.module(inner, outer)
    more = ta.gradient(m, "outer")
    assert more["inner"] is m["inner"] and more["outer"] is m["outer"]
    assert more.program.functions[:2] == m.program.functions
    check_adjoints(m, RNG.standard_normal(3), name="outer")


def test_s000_01_the_adjoint_is_differentiated_again_and_never_overwritten() -> None:
    once = ta.gradient(ta.module(CUBES), "cubes")
    assert error(DefinitionError, lambda: ta.gradient(once, "cubes")) == (
        "the module has a function cubes_adjoint already.\n"
        "  in: gradient of cubes\n"
        "  hint: take the gradient of a module without it; the derivative of cubes_adjoint is "
        "called cubes_adjoint_adjoint."
    )
    twice = ta.gradient(once, "cubes_adjoint", cotangent="head")
    assert list(twice) == ["cubes", "cubes_adjoint", "cubes_adjoint_adjoint"]
    assert twice["cubes_adjoint"] is once["cubes_adjoint"]
    x, v = np.array([1.0, 2.0, 3.0]), np.array([1.0, -1.0, 0.5])
    found = twice["cubes_adjoint_adjoint"](x, (0.0, (v,)))
    (value, (dx,)), (ddx,) = found
    assert value == 36.0
    np.testing.assert_allclose(dx, 3 * x * x)
    np.testing.assert_allclose(ddx, 6 * x * v)


def test_s000_02_types_tell_the_result_and_an_adjoint_for_each_parameter() -> None:
    text = """\
def main(x : float32[2, 3], w : (float64[3], (float32[],)), n : int64[]) -> float64[]:
  a = w[0]
  w_1 = w[1]
  b = w_1[0]
  gv0 : float64[] = (sum over (i in [0, 2), j in [0, 3)) of float64(x[i, j])*a[j]) + float64(b*b)
  return gv0
"""
    m = ta.gradient(ta.module(text), "main")
    assert str(m["main_adjoint"]).split("\n")[0] == (
        "def main_adjoint(x : float32[2, 3], w : (float64[3], (float32[],)), n : int64[]) -> "
        "(float64[], (float32[2, 3], (float64[3], (float32[],)), ())):"
    )
    x, a, b = np.float32(RNG.standard_normal((2, 3))), RNG.standard_normal(3), np.float32(1.5)
    value, (dx, (da, (db,)), dn) = m["main_adjoint"](x, (a, (b,)), 7)
    assert value.shape == () and value.dtype == "float64" and dn is None
    np.testing.assert_allclose(value, (x * a).sum() + 2.25, rtol=1e-6)
    for found, wanted in ((dx, np.float32([a, a])), (da, x.sum(0)), (db, np.float32(3.0))):
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert [d.dtype for d in (dx, da, db)] == ["float32", "float64", "float32"]


def test_s000_03_the_sum_of_a_sum_is_printed_binding_by_binding() -> None:
    check_golden("sum")


def test_s000_03_the_sums_adjoints_are_one() -> None:
    x, y = RNG.standard_normal((2, 5, 5))
    for g in (SUM, UNUSED):
        f = ta.gradient(ta.module(g.before), "main")["main_adjoint"]
        value, (dx, dy) = f(np.float32(x), np.float32(y))
        np.testing.assert_allclose(value, (x + y).sum(), rtol=1e-5)
        assert (dx == 1).all() and (dy == 1).all() and dx.dtype == dy.dtype == "float32"


def test_s000_04_adjoints_come_in_the_order_asked() -> None:
    m = ta.module(LAYER)
    _, every = ta.gradient(m, "main")["main_adjoint"](*LAYER_ARGUMENTS)
    by = dict(zip("xwb", every, strict=True))
    for k in (1, 2, 3):
        for names in permutations("xwb", k):
            f = ta.gradient(m, "main", require_grads=names)["main_adjoint"]
            _, found = f(*LAYER_ARGUMENTS)
            assert len(found) == k
            for n, d in zip(names, found, strict=True):
                np.testing.assert_array_equal(d, by[n])
            assert all((f"{n}_adjoint :" in str(f)) == (n in names) for n in by)


def test_s000_04_what_only_the_others_need_is_not_computed() -> None:
    """Each matrix costs a product of 4 x 5 x 6 iterations, where it is asked for."""
    m = ta.module(LAYER)

    def iterations(names: str) -> int:
        f = ta.gradient(m, "main", require_grads=list(names))["main_adjoint"]
        return int(ta.work(f.results).iterations)

    b = iterations("b")
    forward = int(ta.work(m["main"].results).iterations)
    assert b == forward + 1 + 24 + 24, "the seed, that of lv1, its sum over rows"
    assert iterations("xb") == iterations("wb") == b + 120 + 24, "and that of lv0"
    assert iterations("xwb") == b + 2 * 120 + 24
    found = ta.gradient(m, "main", require_grads="b")["main_adjoint"]
    assert "lv0_adjoint" not in str(found) and "x_adjoint" not in str(found)


def test_s000_05_what_is_asked_for_must_be_there_once_and_be_a_float() -> None:
    m = ta.module(LAYER.replace("b : float64[6])", "b : float64[6], n : int64[])"), CUBES)

    def refused(kind: type[Exception], wanted: Any) -> str:
        return error(kind, lambda: ta.gradient(m, "main", require_grads=wanted))

    assert refused(GradError, ["x", "y"]) == (
        "main has no parameter or other value called y.\n"
        "  in: gradient of main, require_grads=['x', 'y']\n"
        "  hint: its parameters are x, w, b, n; values inside of branches and loops have no "
        "adjoints of their own."
    )
    assert refused(GradError, ["x", "w", "x"]) == (
        "x stands twice in require_grads.\n"
        "  in: gradient of main, require_grads=['x', 'w', 'x']\n"
        "  hint: name each once."
    )
    assert refused(DTypeError, "n") == (
        "cannot differentiate main by n of type int64[]: integers and booleans have no "
        "derivative.\n"
        "  in: gradient of main, require_grads='n'\n"
        "  hint: leave it out of require_grads."
    )
    assert refused(GradError, []) == (
        "require_grads is empty.\n"
        "  in: gradient of main, require_grads=[]\n"
        "  hint: name at least one value."
    )


def test_s000_05_values_between_have_adjoints() -> None:
    f = ta.gradient(ta.module(LAYER), "main", require_grads=["lv1", "x", "lv0"])["main_adjoint"]
    x, w, b = LAYER_ARGUMENTS
    _, (lv1, dx, lv0) = f(x, w, b)
    np.testing.assert_allclose(lv1, 2 * (x @ w + b))
    np.testing.assert_array_equal(lv0, lv1)
    np.testing.assert_allclose(dx, lv0 @ w.T)


SQUARE = """\
def square(x : float64[3]) -> float64[3]:
  y : float64[3] = [i] x[i]*x[i]
  return y

def both(x : float64[3], y : float64[3]) -> (float64[3], float64[3]):
  z : float64[3] = [i] x[i]*y[i]
  return (z, x)

def total(x : float64[3]) -> float64[]:
  s : float64[] = sum over (i in [0, 3)) of x[i]
  return s

"""


@pytest.mark.parametrize("typed", ["", " : float64[]"])
def test_s000_07_nested_calls_in_texts_are_normalised(typed: str) -> None:
    nested = (
        "def main(x : float64[3], y : float64[3]) -> float64[]:\n"
        f"  r{typed} = total(square(square(x)))\n"
        "  return r\n"
    )
    m = ta.module(SQUARE + nested)
    assert [type(b) for b in m.program["main"].scope.bindings] == [Run, Run, Run]
    more = ta.gradient(m, "main")
    for p in (m.program, more.program):
        check_normal_form(p)
    x, y = RNG.standard_normal((2, 3))
    _, (dx, _) = check_adjoints(m, x, y)
    np.testing.assert_allclose(dx, 4 * x**3)


def test_s000_07_tuples_of_calls_are_normalised() -> None:
    nested = (
        "def main(x : float64[3], y : float64[3]) -> float64[]:\n"
        "  c = (both(square(x), square(y)), (total(x), x))\n"
        "  d : float64[3] = c[0][0]\n"
        "  r : float64[] = (sum over (i in [0, 3)) of d[i]*c[0][1][i])*c[1][0]\n"
        "  return r\n"
    )
    m = ta.module(SQUARE + nested)
    check_normal_form(ta.gradient(m, "main").program)
    check_adjoints(m, *RNG.standard_normal((2, 3)))


def test_s000_07_nested_calls_in_python_are_normalised() -> None:
    @ta.function
    def square(x: Any) -> Any:
        return x * x

    @ta.function
    def main(x: Any = THREE, y: Any = THREE) -> Any:
        return (square(square(x + y) * y) + ta.exp(square(x))).sum()

    m = ta.module(main)
    calls = [b for b in m.program["main"].scope.bindings if isinstance(b, Run)]
    assert len(calls) == 3
    for p in (m.program, ta.gradient(m, "main").program):
        check_normal_form(p)
    check_adjoints(m, *RNG.standard_normal((2, 3)))


PAIR = """\
def main(x : float64[3], n : int64[]) -> (float64[3], (float64[], int64[]), float64[]):
  a : float64[3] = [i] x[i]*x[i]
  b : float64[] = sum over (i in [0, 3)) of a[i]
  c : float64[] = b*x[0]
  k : int64[] = n + 1
  p = (b, k)
  return (a, p, c)
"""


def test_s000_08_a_field_of_the_result_is_the_target() -> None:
    m, x = ta.module(PAIR), np.array([1.0, 2.0, 3.0])
    _, (dx, _) = ta.gradient(m, "main", target_index=2)["main_adjoint"](x, 1)
    np.testing.assert_allclose(dx, 2 * x * x[0] + np.array([14.0, 0.0, 0.0]))
    f = ta.gradient(m, "main", target_index=1, cotangent=(3.0, None))["main_adjoint"]
    np.testing.assert_allclose(f(x, 1)[1][0], 6 * x)


def test_s000_08_a_cotangent_has_the_structure_of_the_result() -> None:
    m, x = ta.module(PAIR), np.array([1.0, 2.0, 3.0])
    v = np.array([0.5, -1.0, 2.0])
    wanted = 2 * x * v + 3 * 2 * x + 4 * (2 * x * x[0] + np.array([14.0, 0.0, 0.0]))
    tree = (v, (3.0, None), 4.0)
    _, (dx, _) = ta.gradient(m, "main", cotangent=tree)["main_adjoint"](x, 1)
    np.testing.assert_allclose(dx, wanted)
    f = ta.gradient(m, "main", cotangent="head")["main_adjoint"]
    np.testing.assert_allclose(f(x, 1, tree)[1][0], wanted)
    assert (
        str(f)
        .split("\n")[0]
        .startswith(
            "def main_adjoint(x : float64[3], n : int64[], head : (float64[3], (float64[], ()), "
            "float64[])) -> "
        )
    )


def test_s000_08_nothing_is_seeded_silently() -> None:
    m = ta.module(PAIR)
    assert error(ShapeError, lambda: ta.gradient(m, "main")) == (
        "main returns (float64[3], (float64[], int64[]), float64[]), which is no float without "
        "axes.\n"
        "  in: gradient of main\n"
        "  hint: choose a field that is one with target_index, or give a cotangent: a tree of "
        "arrays like it, or the name of a parameter for it; or let the function return its sum."
    )
    assert error(GradError, lambda: ta.gradient(m, "main", target_index=3)) == (
        "main returns 3 fields, there is no field 3.\n"
        "  in: gradient of main, target_index=3\n"
        "  hint: fields are counted from 0."
    )
    assert error(DefinitionError, lambda: ta.gradient(m, "main", cotangent=(1.0, 2.0))) == (
        "the cotangent of gradient of main has another structure at cotangent[1][0].\n"
        "  in:                  wanted        given\n"
        "      cotangent[0]     float64 (3,)  number 1.0\n"
        "      cotangent[1][0]  float64 ()    -\n"
        "      cotangent[1][1]  int64 ()      -\n"
        "      cotangent[2]     float64 ()    -\n"
        "      cotangent[1]     -             number 2.0\n"
        "  hint: a cotangent is a tree like the one it belongs to; None stands for integers."
    )


def arrays(tree: Any) -> Any:
    """Random arrays like a tree of placeholders, n being 3."""
    if isinstance(tree, tuple):
        return tuple([arrays(t) for t in tree])
    return RNG.standard_normal([n if isinstance(n, int) else 3 for n in tree.shape])


@pytest.mark.parametrize("name", [n for n, g in GOLDENS.items() if not g.options])
def test_s000_16_printed_adjoints_are_derivatives(name: str) -> None:
    m = ta.module(GOLDENS[name].before.replace("float32", "float64"))
    check_adjoints(m, *[arrays(tree) for _, tree in m.program["main"].params])


def test_s000_23_what_does_not_reach_the_target_is_not_printed() -> None:
    check_golden("unused")
    assert UNUSED.adjoint == SUM.adjoint


def test_s000_40_each_adjoint_is_bound_once_and_read_by_name() -> None:
    check_golden("twice")
    f = ta.gradient(ta.module(TWICE.before), "main")["main_adjoint"]
    assert (f(np.ones((3, 3)))[1][0] == 3).all()
    made = defined(f.record)
    assert sum(len(additions(t)) for n, t in made.items() if n.endswith("_adjoint")) == 2
    readers = [n for n, t in made.items() if made["lv3_adjoint"] in op_inputs(t.op)]
    assert readers == ["lv2_adjoint", "lv1_adjoint"]
