"""Demands of PyTorch's forward mode (S002) about views and writes, with duals and plain values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import GradError
from tensorad.levels import DualView, PrimalView, TangentView

RNG = np.random.default_rng(0)
N = 6
X, V = RNG.standard_normal((2, N))
M, T = RNG.standard_normal((2, 3, 4))


@pytest.fixture
def level() -> Iterator[Any]:
    with ta.dual_level() as made:
        yield made


def parts(dual: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Value and tangent as arrays."""
    value, tangent = ta.unpack_dual(dual)
    return np.asarray(value), None if tangent is None else np.asarray(tangent)


def check(dual: Any, value: Any, tangent: Any) -> None:
    found = parts(dual)
    np.testing.assert_allclose(found[0], value, rtol=1e-14)
    if tangent is None:
        assert found[1] is None
    else:
        np.testing.assert_allclose(found[1], tangent, rtol=1e-14, atol=1e-15)


def with_at(array: Any, index: Any, value: Any) -> np.ndarray:
    made = np.array(array)
    made[index] = value
    return made


def test_s002_16_each_mode_reaches_its_own_base() -> None:
    def f(x: Any, v: Any) -> Any:
        base, tangents = ta.ref(x, "base"), ta.ref(v, "tangents")
        before = base.at[1:3]
        with ta.dual_level():
            dual = DualView(base, tangents)
            after = dual[1:3]
            before.mul(x[0])  # plain: the value alone
            after.mul(x[3:5])  # the value and the tangent, with plain factors
            after[0].add(ta.make_dual(x[5], v[5]))
        return base.get(), tangents.get()

    value, tangent = ta.function(f)(X, V)
    expected, along = X.copy(), V.copy()
    expected[1:3] *= X[0] * X[3:5]
    expected[1] += X[5]
    along[1:3] *= X[3:5]
    along[1] += V[5]
    np.testing.assert_allclose(value, expected)
    np.testing.assert_allclose(tangent, along)
    # adjoints of the primals' base come from values, those of the tangents' base from tangents
    slopes = ta.grad(lambda x, v: f(x, v)[0].sum(), (0, 1))(X, V)
    wanted = np.ones(N)
    wanted[1:3] = X[0] * X[3:5]
    wanted[0] += (X[1:3] * X[3:5]).sum()
    wanted[3:5] += X[1:3] * X[0]
    wanted[5] += 1
    np.testing.assert_allclose(slopes[0], wanted)
    np.testing.assert_allclose(slopes[1], np.zeros(N))
    slopes = ta.grad(lambda x, v: f(x, v)[1].sum(), (0, 1))(X, V)
    np.testing.assert_allclose(slopes[0], [0, 0, 0, V[1], V[2], 0])
    np.testing.assert_allclose(slopes[1], [1, X[3], X[4], 1, 1, 2])


@pytest.mark.usefixtures("level")
def test_s002_17_a_view_of_a_dual_shows_the_tangents_view() -> None:
    r = ta.ref(ta.make_dual(M, T))
    view = r.at.T[1:3].reshape(-1)
    check(view.get(), M.T[1:3].reshape(-1), T.T[1:3].reshape(-1))
    view.set(ta.make_dual(np.arange(6.0), np.arange(6.0) + 10))
    value, tangent = M.copy(), T.copy()
    value.T[1:3], tangent.T[1:3] = np.arange(6.0).reshape(2, 3), np.arange(6.0).reshape(2, 3) + 10
    check(r.get(), value, tangent)


CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "set": lambda a, b: b,
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.usefixtures("level")
def test_s002_18_a_change_in_place_changes_the_tangent(name: str) -> None:
    r = ta.ref(ta.make_dual(X, V))
    p, d = np.array([2.0, 3.0]), np.array([0.5, -1.0])
    getattr(r.at[::-1][:2], name)(ta.make_dual(p, d))
    index = [5, 4]
    tangents = {"set": d, "add": V[index] + d, "mul": V[index] * p + X[index] * d}
    value = with_at(X, index, CHANGES[name](X[index], p))
    check(r.get(), value, with_at(V, index, tangents[name]))


@pytest.mark.usefixtures("level")
def test_s002_19_what_is_plain_becomes_dual_by_a_write_through_a_view() -> None:
    r = ta.ref(X)
    view = r.at.reshape(2, 3)[1]
    check(r.get(), X, None)
    view[:2].set(ta.make_dual(np.array([7.0, 8.0]), np.array([1.0, 2.0])))
    check(r.get(), with_at(X, [3, 4], [7.0, 8.0]), with_at(np.zeros(N), [3, 4], [1.0, 2.0]))


@pytest.mark.usefixtures("level")
def test_s002_20_a_view_that_was_made_before_asks_its_base() -> None:
    r = ta.ref(X)
    view, other = r.at[2], r.at[3]
    check(view.get(), X[2], None)
    r.set(ta.make_dual(r.get(), V))
    check(view.get(), X[2], V[2])
    other.set(1.0)
    check(other.get(), 1.0, 0.0)


def _pairs() -> tuple[Any, Any, DualView]:
    primal, tangent = ta.ref(M, "primal"), ta.ref(T, "tangent")
    return primal, tangent, DualView(primal, tangent)


VIEWS: dict[str, Callable[[Any], Any]] = {
    "row": lambda v: v[1],
    "part": lambda v: v[:, ::2],
    "backwards": lambda v: v[::-1],
    "transpose": lambda v: v.T[1:],
    "reshape": lambda v: v.reshape(2, 6)[:, 1],
    "diagonal": lambda v: v.diagonal(1),
    "points": lambda v: v[[2, 0]],
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.usefixtures("level")
def test_s002_26_the_pair_lens_keeps_the_laws(name: str) -> None:
    primal, tangent, pair = _pairs()
    view = VIEWS[name](pair.at)
    shape = np.shape(parts(view.get())[0])
    p, d, p2, d2 = RNG.standard_normal((4, *shape))
    view.set(view.get())
    np.testing.assert_array_equal(primal.get(), M)  # put(get(s), s) = s
    np.testing.assert_array_equal(tangent.get(), T)
    view.set(ta.make_dual(p2, d2))
    check(view.get(), p2, d2)  # get(put(t, s)) = t
    direct = np.asarray(primal.get()), np.asarray(tangent.get())
    primal.set(M)
    tangent.set(T)
    view.set(ta.make_dual(p, d))
    view.set(ta.make_dual(p2, d2))  # put(t2, put(t, s)) = put(t2, s)
    np.testing.assert_array_equal(primal.get(), direct[0])
    np.testing.assert_array_equal(tangent.get(), direct[1])


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.usefixtures("level")
def test_s002_26_views_of_references_that_hold_duals(name: str) -> None:
    r = ta.ref(ta.make_dual(M, T))
    view = VIEWS[name](r.at)
    view.set(view.get())
    check(r.get(), M, T)
    new = ta.make_dual(*RNG.standard_normal((2, *view.shape)))
    view.set(new)
    check(view.get(), *parts(new))


@pytest.mark.usefixtures("level")
def test_s002_27_make_dual_primal_and_tangent_as_lenses() -> None:
    primal, tangent, dual = _pairs()
    check(dual.get(), M, T)  # get of make_dual
    dual.set(ta.make_dual(2 * M, 3 * T))  # put of make_dual
    check(primal.get(), 2 * M, None)
    check(tangent.get(), 3 * T, None)
    r = ta.ref(ta.make_dual(M, T))
    values, slopes = PrimalView(r), TangentView(r)
    check(values.get(), M, None)  # get of primal
    check(slopes.get(), T, None)  # get of tangent
    values.set(2 * M)  # put of primal
    check(r.get(), 2 * M, T)
    slopes.set(3 * T)  # put of tangent
    check(r.get(), 2 * M, 3 * T)
    values.set(values.get())
    slopes.set(slopes.get())
    check(r.get(), 2 * M, 3 * T)
    values[0].mul(2.0)
    slopes[0].add(1.0)
    check(r.get(), with_at(2 * M, 0, 4 * M[0]), with_at(3 * T, 0, 3 * T[0] + 1))


@pytest.mark.usefixtures("level")
def test_s002_28_make_dual_of_what_is_dual_is_refused() -> None:
    r = ta.ref(ta.make_dual(X, V))
    with pytest.raises(GradError, match="has a tangent at level 0 already"):
        DualView(r, ta.ref(V)).get()


@pytest.mark.usefixtures("level")
def test_s002_29_what_is_missing_is_zero_and_tangents_of_both_targets_are_kept() -> None:
    primal, tangent, dual = _pairs()
    dual.set(M * 2.0)
    check(primal.get(), 2 * M, None)
    check(tangent.get(), np.zeros_like(T), None)
    one, other = ta.ref(ta.make_dual(X, V)), ta.ref(ta.make_dual(V, X))
    DualView(one, other).set(ta.make_dual(3 * X, 4 * V))
    check(one.get(), 3 * X, V)
    check(other.get(), 4 * V, X)


@pytest.mark.usefixtures("level")
def test_s002_30_put_into_a_primal_keeps_the_tangent() -> None:
    r = ta.ref(ta.make_dual(X, V))
    primal = PrimalView(r)
    check(primal.get(), X, None)
    primal.set(primal.get())
    check(r.get(), X, V)  # a put that lost it would not be stable
    primal.set(ta.make_dual(2 * X, 5 * V))
    check(r.get(), 2 * X, V)


@pytest.mark.usefixtures("level")
def test_s002_31_an_element_becomes_dual_in_four_cases() -> None:
    out = ta.ref(np.zeros(100), "out")
    unit = with_at(np.zeros(100), 2, 1.0)
    out.at[2].set(3.0)
    check(out.get(), 3 * unit, None)  # neither
    out.at[2].set(ta.make_dual(np.float64(4), np.float64(5)))
    check(out.get(), 4 * unit, 5 * unit)  # the value alone
    before = RNG.standard_normal(100)
    both = ta.ref(ta.make_dual(np.ones(100), before), "both")
    both.at[2].set(ta.make_dual(np.float64(4), np.float64(5)))
    check(both.get(), with_at(np.ones(100), 2, 4), with_at(before, 2, 5))  # both
    both.at[2].set(6.0)
    check(both.get(), with_at(np.ones(100), 2, 6), with_at(before, 2, 0))  # the array alone


@pytest.mark.usefixtures("level")
def test_s002_32_two_perturbations_of_one_memory() -> None:
    x = ta.ref(np.zeros(100), "x")
    x2 = x.at[2]
    t_y, t_z = ta.ref(np.float64(1.5), "t_y"), ta.ref(np.float64(-2.5), "t_z")
    y, z = DualView(x2, t_y), DualView(x2, t_z)
    y.add(ta.make_dual(np.float64(3), np.float64(10)))
    check(y.get(), 3, 11.5)
    check(z.get(), 3, -2.5)
    check(x2.get(), 3, None)
    check(x.get(), with_at(np.zeros(100), 2, 3), None)
    check(t_y.get(), 11.5, None)


def test_s002_32_the_four_steps_by_hand() -> None:
    def f(t_y: Any, t_z: Any, p: Any, t: Any) -> Any:
        x = ta.ref(np.zeros(100), "x")
        ty = ta.ref(t_y, "t_y")
        with ta.dual_level():
            y_new = ta.make_dual(x.at[2].get(), ty.get()) + ta.make_dual(p, t)
            x2_new, t_y_new = ta.unpack_dual(y_new)  # put of make_dual
            ty.set(t_y_new)
            x.at[2].set(x2_new)  # put of the index
            z_new = ta.unpack_dual(ta.make_dual(x.at[2].get(), t_z))  # get of make_dual
        return x.get()[2], ty.get(), z_new

    found = ta.function(f)(*np.array([1.5, -2.5, 3.0, 10.0]))
    assert [float(found[0]), float(found[1]), *map(float, found[2])] == [3.0, 11.5, 3.0, -2.5]


@pytest.mark.parametrize("compiled", [False, True])
def test_s002_17_and_s002_18_writes_of_duals_in_loops_and_branches(compiled: bool) -> None:
    def f(x: Any, v: Any) -> Any:
        r = ta.ref(x * 0.0, "r")
        with ta.dual_level():
            dual = ta.make_dual(x, v)

            def step(t: Any, c: Any) -> Any:
                ta.cond(
                    dual[t] > 0, lambda: r.at[t].set(dual[t] ** 2), lambda: r.at[::-1][t].add(1.0)
                )
                return c

            ta.for_loop(0, N, step, None)
            return ta.unpack_dual(r.get())

    value, tangent = (ta.function(f) if compiled else f)(X, V)
    expected, along = np.zeros(N), np.zeros(N)
    for t in range(N):
        if X[t] > 0:
            expected[t], along[t] = X[t] ** 2, 2 * X[t] * V[t]
        else:
            expected[N - 1 - t] += 1
    np.testing.assert_allclose(np.asarray(value), expected)
    np.testing.assert_allclose(np.asarray(tangent), along)
