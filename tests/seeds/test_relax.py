"""Demands of Relax's Gradient (S000): a program of bindings, tuples, calls; its adjoints."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import GradError
from tests.seeds.support.differences import check_adjoints, check_gradient
from tests.seeds.support.formulas import defined

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((5, 5)), RNG.standard_normal((5, 5))


def test_s000_06_calls_branches_and_loops_stand_between_the_statements() -> None:
    @ta.function
    def halved(a: Any) -> Any:
        return a * 0.5

    def f(x: Any, y: Any) -> Any:
        s = halved(x) + y
        s = ta.cond(s.sum() > 0, lambda: s * s, lambda: halved(s))
        s = ta.for_loop(0, 3, lambda t, c: c * 0.9 + x, s)
        return (s * y).sum()

    x = X[:2, :2]
    m = ta.module(ta.function(f).trace(x, x))
    check_gradient(f, x, -Y[:2, :2])
    check_adjoints(m, x, Y[:2, :2], name="f")


CONSTANTS = """\
def scaled(a : float64[3], b : float64[3]) -> float64[3]:
  r : float64[3] = [i] a[i]*b[i]
  return r

def main(x : float64[3]) -> float64[]:
  bound : float64[3] = [i] 2.0
  alias = bound
  pair = (alias, (x, bound))
  field = pair[0]
  argument : float64[3] = call scaled(x, alias)
  r : float64[] = sum over (i in [0, 3)) of argument[i]*field[i]*x[i]
  return r
"""


def test_s000_10_constants_have_no_adjoint() -> None:
    table = np.arange(25.0).reshape(5, 5)

    def f(x: Any) -> Any:
        return (x * table + 2.0 * x).sum()

    np.testing.assert_allclose(ta.grad(f)(X), table + 2)
    check_adjoints(CONSTANTS, X[0, :3])
    made = ta.gradient(ta.module(CONSTANTS), "main")["main_adjoint"].record.tensors
    adjoints = [n for n in made if "_adjoint" in n]
    assert adjoints == ["r_adjoint", "argument_adjoint", "x_adjoint"]


def test_s000_12_formulas_differentiate_without_a_rule() -> None:
    best = ta.comm_reducer(
        lambda a, b: (ta.select(b[0] > a[0], b[0], a[0]), ta.select(b[0] > a[0], b[1], a[1])),
        lambda value, place: (-np.inf, 0),
        name="best",
    )

    def f(x: Any, y: Any) -> Any:
        k = ta.reduce_axis(5, name="k")
        value, place = ta.compute((5,), lambda i: best((x[i, k] * y[k, i], k), axis=k), name="best")
        gathered = ta.compute((5,), lambda i: y[i, place[i]], name="gathered")
        spread = ta.scatter((3,), (5,), lambda i: (place[i] % 3, gathered[i]), name="spread")
        return (value * gathered * ta.scan(value, 0)).sum() + (spread * spread).sum()

    check_gradient(f, X, Y)


def test_s000_16_adjoints_are_derivatives() -> None:
    check_gradient(lambda x, y: (x + y).sum(), X, Y)
    check_gradient(lambda x, y: ((x - y) * (x + y)).sum(), X, Y)
    check_gradient(lambda x, y: (x + x + x).sum() * y[0, 0], X, Y)


def test_s000_17_the_targets_adjoint_is_one_of_its_dtype() -> None:
    for dtype in ("float32", "float64"):
        value, found = ta.value_and_grad(lambda x: x.sum())(X.astype(dtype))
        assert value.dtype == found.dtype == dtype and (found == 1).all()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shape", [(5, 5), (5,), (1, 5), (5, 1), ()])
def test_s000_20_what_was_broadcast_is_summed_back(shape: tuple[int, ...]) -> None:
    small = RNG.standard_normal(shape)
    for f in (lambda x, y: (x * y + y).sum(), lambda x, y: (y - x * y).sum()):
        (dx, dy) = ta.grad(f, argnums=(0, 1))(X, small)
        assert dx.shape == X.shape and dy.shape == shape
        check_gradient(f, X, small)
    np.testing.assert_allclose(ta.grad(lambda x: (x + x).sum())(X), np.full((5, 5), 2.0))


def test_s000_23_what_does_not_reach_the_target_is_not_computed() -> None:
    def f(x: Any, y: Any) -> Any:
        lost = ta.exp(x - y).sum()
        assert lost is not None
        return (x + y).sum()

    dx, dy = ta.grad(f, argnums=(0, 1))(X, Y)
    assert (dx == 1).all() and (dy == 1).all()
    assert "exp" not in str(ta.value_and_grad(f, argnums=(0, 1)).trace(X, Y))


def test_s000_24_a_parameter_that_nothing_reaches_has_zeros_or_an_error() -> None:
    assert (ta.grad(lambda x, y: x.sum(), argnums=1)(X, Y) == 0).all()
    x, y = ta.placeholder((5,), name="x"), ta.placeholder((5,), name="y")
    with pytest.raises(GradError, match="does not depend on y"):
        ta.vjp(x.sum(), [y], strict=True)

    def f(x: Any, y: Any) -> Any:
        return x.sum()

    m = ta.module(ta.function(f).trace(X, Y[0]))
    _, (dx, dy) = ta.gradient(m, "f")["f_adjoint"](X, Y[0])
    assert (dx == 1).all() and dy.shape == (5,) and not dy.any()
    with pytest.raises(GradError, match="does not depend on y"):
        ta.gradient(m, "f", strict=True)


ALIASES = """\
def main(x : float64[3]) -> float64[]:
  a = x
  b = a
  y : float64[3] = [i] a[i]*b[i] + x[i]
  c = y
  d = c
  target : float64[] = sum over (i in [0, 3)) of d[i]*c[i]
  e = target
  returned = e
  return returned
"""


def test_s000_25_aliases_pass_their_adjoints_on() -> None:
    """Of a parameter, of each other, of a value, of the target; returned."""
    x = X[0, :3]
    _, (dx,) = check_adjoints(ALIASES, x)
    np.testing.assert_allclose(dx, 2 * (x * x + x) * (2 * x + 1))
    made = ta.gradient(ta.module(ALIASES), "main")["main_adjoint"].record
    assert len(defined(made)) < len([n for n in made.tensors if n != "x"]), "aliases stay"


def test_s000_30_adjoints_of_tuples_have_their_structure() -> None:
    tree = ((X, Y), (X[0],), ())
    found = ta.grad(lambda t: (t[0][0] * t[0][1]).sum() + t[1][0].sum())(tree)
    assert isinstance(found, tuple) and found[2] == () and len(found[0]) == 2
    np.testing.assert_allclose(found[0][0], Y)
    np.testing.assert_allclose(found[1][0], np.ones(5))


def test_s000_32_tuples_are_parameters_results_of_branches_and_carries() -> None:
    def f(pair: Any) -> Any:
        alias = pair
        swapped = ta.cond(alias[0].sum() > 0, lambda: (alias[1], alias[0]), lambda: alias)
        a, b = ta.for_loop(0, 4, lambda t, c: (c[1], c[0] * 0.5 + c[1]), swapped)
        return (a * b).sum()

    for sign in (1.0, -1.0):
        check_gradient(lambda x, y: f((x, y)), np.abs(X) * sign, Y)


def test_s000_40_an_alias_and_its_origin_added_twice() -> None:
    def f(x: Any) -> Any:
        lv1 = x
        lv2 = lv1 + x
        lv3 = lv2 + lv1
        return lv3.sum()

    np.testing.assert_array_equal(ta.grad(f)(np.ones((3, 3))), np.full((3, 3), 3.0))
