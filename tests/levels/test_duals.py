"""Tensors with tangents: what they may be, where they may be made, what is unpacked."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import topi
from tensorad.errors import GradError
from tensorad.ir.tensor import Tensor
from tensorad.levels import PrimalView

X, V = np.linspace(0.2, 1.1, 4), np.linspace(1.0, -1.0, 4)


def test_functions_of_python_without_a_rule_are_refused() -> None:
    sort = ta.foreign(np.sort, lambda x: x)
    with ta.dual_level():
        x = ta.make_dual(X, V)
        with pytest.raises(GradError, match="1 foreign function that derivatives flow through"):
            ta.unpack_dual(sort(x) * x)
        _, tangent = ta.unpack_dual(ta.stop_gradient(sort(x)) * x)
    assert np.allclose(tangent, np.sort(X) * V)


def test_trees_with_integers() -> None:
    def f(p: Any) -> Any:
        return {"y": p["w"] * p["b"][0], "n": p["n"] + 1}

    @ta.function
    def both(p: Any, v: Any) -> Any:
        with ta.dual_level():
            return ta.unpack_dual(f(ta.make_dual(p, v)))

    p = {"w": X, "b": (np.float64(2), X), "n": np.arange(3)}
    v = {"w": V, "b": (np.float64(3), V), "n": None}
    value, tangent = both(p, v)
    np.testing.assert_allclose(value["y"], 2 * X)
    np.testing.assert_array_equal(value["n"], [1, 2, 3])
    np.testing.assert_allclose(tangent["y"], 2 * V + 3 * X)
    assert tangent["n"] is None


def test_numbers_take_the_dtype_beside_them() -> None:
    with ta.dual_level():
        pairs = [(2.0, 1.0), (2.0, np.float64(1)), (np.float64(2), 1.0), (np.float32(2), 1)]
        duals = [ta.make_dual(x, v) for x, v in pairs]
        assert [str(d.dtype) for d in duals] == ["float32", "float64", "float64", "float32"]
        for d in duals:
            value, tangent = ta.unpack_dual(d * d)
            assert (float(value), float(tangent)) == (4.0, 4.0)
            assert tangent.dtype is d.dtype


def test_what_does_not_move_has_no_tangent() -> None:
    with ta.dual_level():
        d = ta.make_dual(X, V)
        y = ta.placeholder((4,), "float64", name="y")
        for other in (y, y * 2.0, ta.const(X), X, 3.0, d > 0, topi.argmax(d, 0)):
            assert ta.unpack_dual(other)[1] is None
        assert ta.unpack_dual(topi.floor(d))[1] is None
        zero = ta.unpack_dual(d * 0.0)[1]
        assert zero is None or not np.asarray(zero).any()


def test_float32_and_matrices() -> None:
    w = np.arange(6, dtype="float32").reshape(2, 3)
    with ta.dual_level():
        d = ta.make_dual(w, w + 1)
        value, tangent = ta.unpack_dual(d @ d.T)
    np.testing.assert_allclose(tangent, (w + 1) @ w.T + w @ (w + 1).T)
    assert np.asarray(value).dtype == np.float32


@pytest.mark.parametrize("taken", [True, False])
def test_a_dual_that_one_branch_makes(taken: bool) -> None:
    @ta.function
    def f(x: Any, v: Any, c: Any) -> Any:
        with ta.dual_level():
            y = ta.cond(c, lambda: ta.make_dual(x, v) * 2.0, lambda: x)
            return ta.unpack_dual(y * y)

    value, tangent = f(X, V, taken)
    np.testing.assert_allclose(value, 4 * X * X if taken else X * X)
    np.testing.assert_allclose(tangent, 8 * X * V if taken else 0 * X)


def test_a_dual_that_a_loop_makes() -> None:
    def f(x: Any, v: Any) -> Any:
        def body(t: Any, c: Any) -> Any:
            scaled = x * 2.0
            return c * ta.make_dual(scaled, v * v)

        with ta.dual_level():
            return ta.unpack_dual(ta.for_loop(0, 2, body, topi.full_like(x, 1.0)))

    value, tangent = ta.function(f)(X, V)
    np.testing.assert_allclose(value, 4 * X * X)
    np.testing.assert_allclose(tangent, 4 * X * V * V)
    by_v = ta.grad(lambda v: f(X, v)[1].sum())(V)
    np.testing.assert_allclose(by_v, 8 * X * V)


def test_duals_and_what_is_unpacked_inside_of_blocks() -> None:
    def body(t: Any, c: Any) -> Any:
        with ta.dual_level():
            value, tangent = ta.unpack_dual(topi.sin(ta.make_dual(c, c)))
        return value + 0.1 * tangent

    @ta.function
    def f(x: Any, v: Any) -> Any:
        with ta.dual_level():
            d = ta.make_dual(x, v)
            y = ta.for_loop(0, 3, body, d)
            z = ta.cond(x[0] > 0, lambda: ta.unpack_dual(d * d)[1], lambda: x)
            return ta.unpack_dual(y)[1], z

    def plain(x: Any) -> Any:
        for _ in range(3):
            x = topi.sin(x) + 0.1 * topi.cos(x) * x
        return x

    found, inside = f(X, V)
    np.testing.assert_allclose(found, ta.jvp(plain, (X,), (V,))[1], rtol=1e-13)
    np.testing.assert_allclose(inside, 2 * X * V)


def test_a_carry_cannot_be_given_a_tangent_of_a_level_around() -> None:
    with ta.dual_level(), pytest.raises(GradError, match="whether c has a tangent at level 0"):
        ta.for_loop(0, 2, lambda t, c: ta.make_dual(c, X), ta.const(X))

    def again(t: Any, c: Any) -> Any:
        return ta.make_dual(ta.unpack_dual(c)[0], V) * 2.0

    with ta.dual_level():
        y = ta.for_loop(0, 2, again, ta.const(X))
        np.testing.assert_allclose(ta.unpack_dual(y)[1], 2 * V)


def test_tangents_of_carries_are_asked_for_inside() -> None:
    """They go round beside them."""

    def f(x: Any, v: Any) -> Any:
        def body(t: Any, c: Any) -> Any:
            a, total = c
            return topi.sin(a) * d, total + ta.unpack_dual(a * d)[1]

        with ta.dual_level():
            d = ta.make_dual(x, v)
            (last, total) = ta.for_loop(0, 3, body, (d, topi.full_like(x, 0.0)))
            assert ta.unpack_dual(total)[1] is None
            return total, ta.unpack_dual(last)[1]

    a, da, wanted = X, V, 0 * X
    for _ in range(3):
        wanted = wanted + da * X + a * V
        a, da = np.sin(a) * X, np.cos(a) * da * X + np.sin(a) * V
    total, tangent = ta.function(f)(X, V)
    np.testing.assert_allclose(total, wanted, rtol=1e-13)
    np.testing.assert_allclose(tangent, da, rtol=1e-13)
    assert ta.gradcheck(lambda x: f(x, V)[0].sum(), X)


def test_tangents_of_rows_and_in_conditions() -> None:
    def f(x: Any, v: Any) -> Any:
        with ta.dual_level():
            d = ta.make_dual(x, v)
            ys = ta.scan(lambda c, r: (c * r, ta.unpack_dual(c * r)[1]), np.float64(2), d)[1]
            end = ta.while_loop(
                lambda c: ta.unpack_dual(c)[1].sum() < 10.0, lambda c: c * 2.0 + d, d * 1.0
            )
            return ys, end

    ys, end = ta.function(f)(X, V + 2)
    c, dc, wanted = 2.0, 0.0, []
    for r, dr in zip(X, V + 2, strict=True):
        c, dc = c * r, dc * r + c * dr
        wanted.append(dc)
    np.testing.assert_allclose(ys, wanted)
    y, dy = X, V + 2
    while dy.sum() < 10:
        y, dy = y * 2 + X, dy * 2 + V + 2
    np.testing.assert_allclose(end, y)


def test_tangents_of_carries_at_two_levels() -> None:
    @ta.function
    def f(x: Any) -> Any:
        with ta.dual_level(), ta.dual_level():
            d = ta.make_dual(ta.make_dual(x, 1.0, level=0), 1.0, level=1)

            def body(t: Any, c: Any) -> Any:
                y, total = c
                one = ta.unpack_dual(ta.unpack_dual(y * d, level=1)[1], level=0)[1]
                other = ta.unpack_dual(ta.unpack_dual(y, level=0)[1], level=1)[1]
                return y * d, total + one + other

            return ta.for_loop(0, 3, body, (d, np.float64(0)))[1]

    x = 1.5
    wanted = 2 + (6 * x + 2) + (12 * x**2 + 6 * x)
    np.testing.assert_allclose(f(np.float64(x)), wanted, rtol=1e-14)


def test_functions_move_with_their_arguments_and_with_what_they_read() -> None:
    @ta.function
    def square(x: Any) -> Any:
        return x * x

    with ta.dual_level():
        d = ta.make_dual(X, V)
        times = ta.function(lambda y: d * y)
        for y, wanted in ((square(d), 2 * X * V), (times(X), X * V), (ta.grad(loss)(d), V)):
            np.testing.assert_allclose(ta.unpack_dual(y)[1], wanted)
    np.testing.assert_array_equal(square(X), X * X)
    np.testing.assert_allclose(times(X), X * X)


def loss(x: Any) -> Any:
    return (x * x).sum() / 2


def test_a_function_is_traced_once_whatever_level_it_is_called_in() -> None:
    calls: list[int] = []

    @ta.function
    def slope(x: Any) -> Any:
        calls.append(1)
        with ta.dual_level() as level:
            assert level.number == 0
            return ta.unpack_dual(topi.sin(ta.make_dual(x, topi.full_like(x, 1.0))))[1]

    first = slope(X)
    second = slope(X)
    np.testing.assert_array_equal(first, second)
    assert len(calls) == 1
    found = []
    for _ in range(2):
        with ta.dual_level():
            found.append(np.asarray(ta.unpack_dual(slope(ta.make_dual(X, V)))[1]))
    assert len(calls) == 2
    for t in found:
        np.testing.assert_allclose(t, -np.sin(X) * V)


def test_interpreted_and_explained() -> None:
    x, v = (ta.placeholder((4,), "float64", name=n) for n in "xv")
    with ta.dual_level():
        value, tangent = ta.unpack_dual(topi.sin(ta.make_dual(x, v)) * x)
    found = ta.interpret([value, tangent], {x: X, v: V})
    np.testing.assert_allclose(found[1], np.cos(X) * V * X)
    assert "the derivative of mul along directions of x" in str(ta.explain(tangent))
    pushed = ta.jvp(topi.sin(x) * x, {x: v})
    one, other = (int(ta.work([t]).iterations) for t in (tangent, pushed))
    assert one <= other


def test_steps_outside_of_functions_keep_nothing() -> None:
    def step(k: int) -> Tensor:
        with ta.dual_level():
            d = ta.make_dual(X * k, V)
            return ta.unpack_dual(topi.sin(d) * d)[1]

    counts = []
    for k in range(60):
        step(k)
        if k in (20, 59):
            gc.collect()
            counts.append(len(gc.get_objects()))
    assert counts[1] <= counts[0] + 100


@pytest.mark.parametrize("order", [1, 2])
def test_nothing_is_left_of_levels_in_what_runs(order: int) -> None:
    """As many kernels as by `jvp`, and the same bits."""

    def f(x: Any) -> Any:
        return topi.nn.softmax(topi.sin(x) * x, axis=0)

    def by_levels(x: Any, n: int = order) -> Any:
        if not n:
            return f(x)
        with ta.dual_level():
            return ta.unpack_dual(by_levels(ta.make_dual(x, V), n - 1))[1]

    def by_jvp(x: Any, n: int = order) -> Any:
        return f(x) if not n else ta.jvp(lambda x: by_jvp(x, n - 1), (x,), (V,))[1]

    one, other = ta.function(lambda x: by_levels(x)), ta.function(lambda x: by_jvp(x))
    np.testing.assert_array_equal(one(X), other(X))
    kernels = [len(g.lower(X).program.kernels) for g in (one, other)]
    assert kernels[0] == kernels[1]


def test_values_are_written_where_some_parts_have_no_tangent() -> None:
    with ta.dual_level():
        r = ta.ref({"a": X, "b": X})
        r.set({"a": ta.make_dual(X, V), "b": X})
        PrimalView(r).set({"a": 2 * X, "b": 3 * X})
        values, tangents = ta.unpack_dual(r.get())
        np.testing.assert_array_equal(values["a"], 2 * X)
        np.testing.assert_array_equal(values["b"], 3 * X)
        np.testing.assert_array_equal(tangents["a"], V)
