"""References that data choose: reading and writing one is a branch over those it may be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tests.support.programs.with_references import check_same

X = np.array([0.3, -0.7, 1.2, 0.5])


def test_returned_by_a_branch() -> None:
    @ta.function
    def with_refs(x: Any) -> Any:
        a, b = ta.ref(x, "a"), ta.ref(x * 2.0, "b")
        r = ta.cond(x[0] > 0, lambda: a, lambda: b)
        r.set(r.get() * x)
        r.at[1].add(3.0)
        return (a.get() * ta.topi.sin(b.get()) * r.get()).sum()

    @ta.function
    def without(x: Any) -> Any:
        def changed(v: Any) -> Any:
            return (v * x).at[1].add(3.0)

        a, b = ta.cond(x[0] > 0, lambda: (changed(x), x * 2.0), lambda: (x, changed(x * 2.0)))
        r = ta.cond(x[0] > 0, lambda: a, lambda: b)
        return (a * ta.topi.sin(b) * r).sum()

    for sign in (1, -1):
        check_same(with_refs, without, sign * X, second=sign > 0)


def test_one_of_those_that_were_chosen_before() -> None:
    def with_refs(x: Any) -> Any:
        a, b, c = (ta.ref(x * k, "abc"[k]) for k in range(3))
        r = ta.cond(x[1] > 0, lambda: b, lambda: c)
        s = ta.cond(x[0] > 0, lambda: a, lambda: r)
        s.add(1.0)
        return (a.get() + b.get() * 10.0 + c.get() * 100.0).sum()

    whole = ta.function(with_refs)
    for one in (1, -1):
        for other in (1, -1):
            x = np.array([one * 0.5, other * 0.25])
            which = 0 if one > 0 else 1 if other > 0 else 2
            wanted = (x * 10 + x * 200 + 10.0**which).sum()
            np.testing.assert_allclose(whole(x), wanted, rtol=1e-12)


def test_held_by_a_reference_that_a_branch_and_a_loop_write() -> None:
    """What a loop leaves is a carry: the number of the one that is held."""

    def program(x: Any, n: Any) -> Any:
        a, b, c = (ta.ref(x + k, "abc"[k]) for k in range(3))
        p = ta.ref(a, "p")
        ta.cond(n > 2, lambda: p.set(b), lambda: None)

        def body(i: Any, s: Any) -> Any:
            p.get().mul(1.5)
            ta.cond(i % 2 > 0, lambda: p.set(c), lambda: p.set(a))
            return s + p.get().get()

        total = ta.for_loop(0, n, body, x)
        return total + a.get() * 10.0 + b.get() * 100.0 + c.get() * 1000.0

    def plain(x: float, n: int) -> float:
        held = [x, x + 1, x + 2]
        at, total = 1 if n > 2 else 0, x
        for i in range(n):
            held[at] *= 1.5
            at = 2 if i % 2 > 0 else 0
            total += held[at]
        return total + held[0] * 10 + held[1] * 100 + held[2] * 1000

    f, grad = ta.function(program), ta.grad(program)
    for n in range(5):
        np.testing.assert_allclose(f(np.float64(0.3), np.int64(n)), plain(0.3, n), rtol=1e-12)
        slope = (plain(0.4, n) - plain(0.2, n)) / 0.2
        np.testing.assert_allclose(grad(np.float64(0.3), np.int64(n)), slope, rtol=1e-10)


def test_the_same_reference_is_no_choice() -> None:
    def f(x: Any) -> Any:
        a = ta.ref(x, "a")
        return ta.cond(x[0] > 0, lambda: a, lambda: a).get()

    text = str(ta.function(f).trace(X))
    assert "branch" not in text


@pytest.mark.parametrize("is_alone", [True, False])
def test_made_inside_of_an_arm_and_returned(is_alone: bool) -> None:
    """Also where the other arm returns one of outside, which stays as it is."""

    @ta.function
    def with_refs(x: Any) -> Any:
        a = ta.ref(x * 2.0, "a")
        other = (lambda: a) if is_alone else (lambda: ta.ref(a.get(), "b"))
        r = ta.cond(x[0] > 0, lambda: ta.ref(ta.topi.sin(x), "made"), other)
        r.mul(x)
        r.at[1].add(3.0)
        return (r.get() * a.get()).sum()

    @ta.function
    def without(x: Any) -> Any:
        def changed(v: Any) -> Any:
            return (v * x).at[1].add(3.0)

        twice = x * 2.0
        r, a = ta.cond(
            x[0] > 0,
            lambda: (changed(ta.topi.sin(x)), twice),
            lambda: (changed(twice), changed(twice) if is_alone else twice),
        )
        return (r * a).sum()

    for sign in (1, -1):
        check_same(with_refs, without, sign * X, second=sign > 0)


def test_made_inside_and_left_in_another_one() -> None:
    """What holds it, and one that an inner branch chose of it and of others."""

    def with_refs(x: Any) -> Any:
        a = ta.ref(x, "a")
        p = ta.ref(a, "p")

        def arm() -> Any:
            own = ta.ref(x * x, "own")
            p.set(own)
            return {"r": ta.cond(x[1] > 0, lambda: ta.ref(x + 1.0, "inner"), lambda: own)}

        found = ta.cond(x[0] > 0, arm, lambda: {"r": a})
        found["r"].mul(x)
        p.get().add(x)
        return (found["r"].get() * p.get().get() + a.get()).sum()

    def plain(x: Any) -> Any:
        if x[0] <= 0:
            a = x * x + x
            return (a * a + a).sum()
        if x[1] > 0:
            return ((x + 1.0) * x * (x * x + x) + x).sum()
        own = x * x * x + x
        return (own * own + x).sum()

    f, grad = ta.function(with_refs), ta.grad(with_refs)
    for one in (1, -1):
        for other in (1, -1):
            x = np.array([one * 0.5, other * 0.25])
            np.testing.assert_allclose(f(x), plain(x), rtol=1e-12)
            np.testing.assert_allclose(ta.interpret(f, x), plain(x), rtol=1e-12)
            slopes = [(plain(x + h) - plain(x - h)) / 2e-6 for h in 1e-6 * np.eye(2)]
            np.testing.assert_allclose(grad(x), slopes, rtol=1e-7)


def test_made_inside_with_functions_in_it() -> None:
    """What the function captures is computed by the arm alone."""

    def f(x: Any, n: Any) -> Any:
        @ta.function
        def fell(k: Any) -> Any:
            def arm() -> Any:
                y = fell(k - 1)
                return ta.ref(lambda v: v * y, "made")

            r = ta.cond(k > 0, arm, lambda: ta.ref(lambda v: v + x, "last"))
            return r.get()(x)

        return fell(n)

    both = ta.value_and_grad(f)
    for n in range(4):
        value, slope = both(np.float64(0.5), np.int64(n))
        np.testing.assert_allclose(value, 2 * 0.5 ** (n + 1), rtol=1e-12)
        np.testing.assert_allclose(slope, 2 * (n + 1) * 0.5**n, rtol=1e-12)
