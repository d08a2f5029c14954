"""Loops that carry references: those of outside, in turn or chosen by data, and ones they make.

Each program runs with `ta` and with plain Python, where references are objects.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tests.random.whole.plain import Plain

Program = Callable[[Any, Any, Any], Any]
"""(ta, or what stands for it; x, n) -> a number"""
PROGRAMS: list[Program] = []
CHECKPOINTS: list[dict[str, Any]] = [{"checkpoint": 2}, {"checkpoint": "sqrt"}]


def program(f: Program) -> Program:
    PROGRAMS.append(f)
    return f


@program
def in_turn(t: Any, x: Any, n: Any) -> Any:
    a, b = t.ref(x, "a"), t.ref(x * 2.0, "b")

    def body(i: Any, c: Any) -> Any:
        r, q = c
        r.mul(x)
        q.add(r.get())
        return q, r

    r, q = t.for_loop(0, n, body, (a, b))
    r.add(1.0)
    return a.get() * 10.0 + b.get() * t.sin(r.get()) + q.get()


@program
def steps_among_four(t: Any, x: Any, n: Any) -> Any:
    every = [t.ref(x * k, "v") for k in range(4)]

    def body(i: Any, c: Any) -> Any:
        r, s = c
        r.mul(1.5)
        by_count = t.cond(i % 2 > 0, lambda: every[1], lambda: every[2])
        return t.cond(r.get() > x, lambda: every[3], lambda: by_count), s + r.get()

    r, s = t.for_loop(0, n, body, (every[0], x))
    return s + r.get() * 100.0 + sum([v.get() * 10.0**k for k, v in enumerate(every)])


@program
def the_smaller_one(t: Any, x: Any, n: Any) -> Any:
    a, b = t.ref(x, "a"), t.ref(0.5 * t.sin(x), "b")

    def body(i: Any, r: Any) -> Any:
        r.mul(1.3)
        r.add(0.5)
        return t.cond(a.get() < b.get(), lambda: a, lambda: b)

    r = t.for_loop(0, n, body, t.cond(x > 0.5, lambda: b, lambda: a))
    return r.get() * a.get() + b.get()


@program
def a_list(t: Any, x: Any, n: Any) -> Any:
    last = t.ref({"value": x, "next": t.ref(x, "none")}, "last")
    last.set({"value": x, "next": last})
    first = last
    for k in range(3):
        first = t.ref({"value": x * k, "next": first}, f"node_{k}")

    def body(i: Any, c: Any) -> Any:
        r, s = c
        held = r.get()
        r.at["value"].mul(2.0)
        return held["next"], s * x + held["value"]

    r, s = t.for_loop(0, n, body, (first, 0.0))
    return s + r.get()["value"] * 10.0 + first.get()["value"] * 100.0


@program
def asked_by_a_condition(t: Any, x: Any, n: Any) -> Any:
    a, b = t.ref(x, "a"), t.ref(x * 2.0, "b")

    def body(c: Any) -> Any:
        r, q, k = c
        r.add(0.4 + x)
        return q, t.ref(r.get() * 1.1, "made"), k + 1

    def test(c: Any) -> Any:
        return (c[0].get() + c[1].get() < 3.0) & (c[2] < n)

    r, q, _ = t.while_loop(test, body, (a, b, 0))
    return r.get() * a.get() + b.get() * q.get()


@program
def made(t: Any, x: Any, n: Any) -> Any:
    a = t.ref(x, "a")
    r = t.for_loop(0, n, lambda i, r: t.ref(t.sin(r.get()) * x, "made"), a)
    r.mul(3.0)
    return r.get() + a.get() * 10.0


@program
def made_or_the_same(t: Any, x: Any, n: Any) -> Any:
    a = t.ref(x, "a")

    def body(i: Any, r: Any) -> Any:
        r.add(0.25)
        return t.cond(i % 2 > 0, lambda: t.ref(r.get() * x, "made"), lambda: r)

    r = t.for_loop(0, n, body, a)
    r.mul(3.0)
    return r.get() + a.get() * 10.0


@program
def one_of_two_made(t: Any, x: Any, n: Any) -> Any:
    a = t.ref(x, "a")

    def body(i: Any, r: Any) -> Any:
        one, other = t.ref(r.get() + 1.0, "one"), t.ref(r.get() * x, "other")
        found = t.cond(r.get() > 0.5, lambda: one, lambda: other)
        found.add(0.1)
        one.mul(0.5)
        return t.cond(i > 1, lambda: found, lambda: a)

    r = t.for_loop(0, n, body, a)
    r.add(1.0)
    return a.get() * 10.0 + r.get()


@program
def made_and_the_one_before(t: Any, x: Any, n: Any) -> Any:
    """The one before is another one, whatever is made after it."""
    a, b = t.ref(x, "a"), t.ref(x * 2.0, "b")

    def body(i: Any, c: Any) -> Any:
        r, q = c
        q.add(r.get())
        r.mul(1.1)
        return t.ref(r.get() + q.get() * 0.5, "made"), r

    r, q = t.for_loop(0, n, body, (a, b))
    r.add(1.0)
    q.mul(2.0)
    return a.get() * 10.0 + b.get() * 100.0 + r.get() * 1000.0 + q.get()


@program
def made_and_in_turn(t: Any, x: Any, n: Any) -> Any:
    a, b = t.ref(x, "a"), t.ref(x * 2.0, "b")

    def body(i: Any, c: Any) -> Any:
        r, q = c
        r.add(0.3)
        return q, t.ref(r.get() * t.sin(q.get()), "made")

    r, q = t.for_loop(0, n, body, (a, b))
    r.add(1.0)
    q.mul(2.0)
    return a.get() * 10.0 + b.get() * 100.0 + r.get() * 1000.0 + q.get()


@program
def made_and_twice_in_the_carry(t: Any, x: Any, n: Any) -> Any:
    """What is written by one name is read by the other, in the body and after the loop."""
    a, b = t.ref(x, "a"), t.ref(x * 2.0, "b")

    def body(i: Any, c: Any) -> Any:
        r, q = c["r"], c["q"]
        q.add(0.5)
        r.mul(1.1)
        found = t.ref(r.get() + q.get() * 0.5, "made")
        return {"r": found, "q": t.cond(q.get() > 2.0, lambda: found, lambda: b)}

    last = t.for_loop(0, n, body, {"r": a, "q": b})
    last["r"].add(1.0)
    last["q"].mul(2.0)
    return a.get() * 10.0 + b.get() * 100.0 + last["r"].get() * 1000.0 + last["q"].get()


@program
def made_by_a_loop_in_a_loop(t: Any, x: Any, n: Any) -> Any:
    a = t.ref(x, "a")

    def body(i: Any, r: Any) -> Any:
        def inner(j: Any, q: Any) -> Any:
            q.add(0.1)
            return t.ref(q.get() * x + 0.2, "inner")

        return t.for_loop(0, n, inner, r)

    r = t.for_loop(0, n, body, a)
    r.add(1.0)
    return a.get() * 10.0 + r.get()


@program
def made_by_a_recursive_function(t: Any, x: Any, n: Any) -> Any:
    @t.function
    def f(y: Any, k: Any) -> Any:
        a = t.ref(y, "a")

        def deeper() -> Any:
            r = t.for_loop(0, k, lambda i, r: t.ref(r.get() * 0.5 + f(r.get(), k - 1), "made"), a)
            r.add(1.0)
            return r.get() + a.get()

        return t.cond(k > 0, deeper, lambda: t.sin(y))

    return f(x, n - 1)


def with_library(f: Program) -> Any:
    return lambda x, n: f(ta, x, n)


def wanted(f: Program, x: float, counts: list[int]) -> tuple[list[float], list[float]]:
    """Values and slopes of plain Python."""

    def plain(x: float, n: int) -> float:
        return float(f(Plain(), np.float64(x), n))

    slopes = [(plain(x + 1e-6, n) - plain(x - 1e-6, n)) / 2e-6 for n in counts]
    return [plain(x, n) for n in counts], slopes


def checked(f: Program, x: float, counts: list[int]) -> None:
    """Compiled = interpreted = plain Python; both modes = differences."""
    whole = with_library(f)

    @ta.function
    def forward(x: Any, n: Any) -> Any:
        return ta.jvp(lambda x: whole(x, n), (x,), (1.0,))

    compiled, both = ta.function(whole), ta.value_and_grad(whole)
    for n, value, slope in zip(counts, *wanted(f, x, counts), strict=True):
        at = np.float64(x), np.int64(n)
        np.testing.assert_allclose(compiled(*at), value, rtol=1e-12)
        np.testing.assert_allclose(ta.interpret(compiled, *at), value, rtol=1e-12)
        found = both(*at)
        np.testing.assert_allclose(found, (value, slope), rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(forward(*at), found, rtol=1e-12, atol=1e-14)


def start(f: Program) -> float:
    return -0.4 if f is the_smaller_one else 0.7


@pytest.mark.parametrize("f", PROGRAMS, ids=[f.__name__ for f in PROGRAMS])
def test_programs(f: Program) -> None:
    checked(f, start(f), [0, 1, 2, 4])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("f", PROGRAMS, ids=[f.__name__ for f in PROGRAMS])
def test_in_rows_and_with_a_known_count(f: Program) -> None:
    """Each row has a count of its own."""
    x, counts, whole = start(f), [0, 1, 2, 4], with_library(f)
    values, slopes = wanted(f, x, counts)
    evaluated = ta.partial_eval(whole, {"n": counts[-1]})
    np.testing.assert_allclose(evaluated(np.float64(x)), values[-1], rtol=1e-12)
    rows = ta.vmap(ta.value_and_grad(whole))(np.full(len(counts), x), np.array(counts))
    np.testing.assert_allclose(rows, (values, slopes), rtol=1e-6, atol=1e-7)


def test_all_names_of_one_that_a_body_makes() -> None:
    def f(t: Any, x: Any, n: Any) -> Any:
        def body(i: Any, c: Any) -> Any:
            found = t.ref(c[0].get() + c[1].get(), "made")
            c[0].add(7.0)
            return found, found

        a, b = t.ref(x, "a"), t.ref(x * x, "b")
        r, q = t.for_loop(0, n, body, (a, b))
        r.mul(x)
        q.add(1.0)
        return r.get() * 10.0 + q.get() + a.get() * 100.0

    checked(f, 0.7, [0, 1, 2, 3])


@pytest.mark.slow
def test_second_derivatives_of_arrays() -> None:
    def with_refs(x: Any) -> Any:
        a, b = ta.ref(x, "a"), ta.ref(x * 2.0, "b")

        def body(i: Any, c: Any) -> Any:
            r, q = c
            r.at[i].mul(x[0])
            made = ta.ref(ta.topi.sin(q.get()) * r.get(), "made")
            return q, ta.cond(x[i] > 0, lambda: made, lambda: r)

        r, q = ta.for_loop(0, 3, body, (a, b))
        r.at[::2].add(x[:2])
        return (a.get() + b.get() * r.get() * q.get()).sum()

    f, x = ta.function(with_refs), np.array([0.3, -0.7, 1.2])
    hessian, grad = ta.hessian(with_refs)(x), ta.grad(with_refs)
    for k, h in enumerate(1e-5 * np.eye(3)):
        slopes = [grad(x + s * h) for s in (1, -1)]
        np.testing.assert_allclose(hessian[k], (slopes[0] - slopes[1]) / 2e-5, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(hessian, hessian.T, rtol=1e-12)
    np.testing.assert_allclose(ta.interpret(f, x), f(x), rtol=1e-12)


@pytest.mark.parametrize("options", [*CHECKPOINTS, {"memory": 400}], ids=str)
def test_less_is_stored(options: dict[str, Any]) -> None:
    """References of outside; also ones that are made, but where memory is a number."""

    def f(x: Any, **own: Any) -> Any:
        a, b = ta.ref(x, "a"), ta.ref(x * 2.0, "b")

        def body(i: Any, c: Any) -> Any:
            r, q, s = c
            s = ta.sin(s * r.get()) + q.get()
            if "memory" in options:
                return ta.cond(s > 0.4, lambda: q, lambda: r), r, s
            return ta.cond(s > 0.4, lambda: a, lambda: b), ta.ref(s * x, "made"), s

        r, q, s = ta.for_loop(0, 9, body, (a, b, x), **own)
        return r.get() * 3.0 + q.get() * s

    x = np.float64(0.6)
    whole, parts = ta.value_and_grad(f)(x), ta.value_and_grad(lambda x: f(x, **options))(x)
    np.testing.assert_array_equal(whole, parts)
    slope = (ta.function(f)(x + 1e-6) - ta.function(f)(x - 1e-6)) / 2e-6
    np.testing.assert_allclose(whole[1], slope, rtol=1e-6)


def test_a_checkpoint_returns_one_that_it_made() -> None:
    def f(x: Any) -> Any:
        r = ta.checkpoint(lambda: ta.ref(ta.sin(x) * x, "made"))()
        r.mul(x)
        return r.get()

    value, slope = ta.value_and_grad(f)(np.float64(0.6))
    np.testing.assert_allclose(value, np.sin(0.6) * 0.36, rtol=1e-12)
    np.testing.assert_allclose(slope, np.cos(0.6) * 0.36 + np.sin(0.6) * 1.2, rtol=1e-12)


def test_numbers_in_one_that_is_made_take_the_dtype_of_what_they_meet() -> None:
    def f(x: Any, n: Any) -> Any:
        return ta.for_loop(0, n, lambda i, r: ta.ref(r.get() + x, "made"), ta.ref(0, "a")).get()

    whole = ta.function(f)
    for n in range(3):
        found = whole(np.float64(0.5), np.int64(n))
        assert found.dtype == np.float64
        assert found == 0.5 * n


def test_functions_in_one_that_is_made() -> None:
    def f(x: Any, n: Any) -> Any:
        def body(i: Any, r: Any) -> Any:
            before = r.get()
            return ta.ref(lambda v: before(v) * x + i, "made")

        return ta.for_loop(0, n, body, ta.ref(lambda v: v, "a")).get()(x)

    def plain(x: float, n: int) -> float:
        value = x
        for i in range(n):
            value = value * x + i
        return value

    both = ta.value_and_grad(f)
    for n in range(4):
        value, slope = both(np.float64(0.7), np.int64(n))
        np.testing.assert_allclose(value, plain(0.7, n), rtol=1e-12)
        change = (plain(0.7 + 1e-6, n) - plain(0.7 - 1e-6, n)) / 2e-6
        np.testing.assert_allclose(slope, change, rtol=1e-6)


def test_each_iteration_collects_the_same_one() -> None:
    def f(x: Any) -> Any:
        a, b = ta.ref(x, "a"), ta.ref(x * 2.0, "b")
        (r, _), y = ta.scan(lambda c, xi: ((c[1], c[0]), {"r": a, "v": c[0].get()}), (a, b), x)
        y["r"].add(1.0)
        return r.get(), y["v"], a.get()

    x = np.arange(3.0)
    r, v, a = ta.function(f)(x)
    np.testing.assert_array_equal(r, x * 2.0)
    np.testing.assert_array_equal(v, [x, x * 2.0, x])
    np.testing.assert_array_equal(a, x + 1.0)


@pytest.mark.parametrize("is_held", [True, False])
def test_along_a_long_list(is_held: bool) -> None:
    """Each round of writing the loop down finds one node more, in a reference or in the carry."""

    def f(x: Any, n: Any) -> Any:
        node = ta.ref({"value": x, "next": ta.ref(x, "none")}, "last")
        node.set({"value": x, "next": node})
        for k in range(16):
            node = ta.ref({"value": x * k, "next": node}, f"node_{k}")
        p = ta.ref(node, "p")

        def body(i: Any, c: Any) -> Any:
            r, s = c
            held = (p.get() if is_held else r).get()
            if is_held:
                p.set(held["next"])
            return None if is_held else held["next"], s + held["value"]

        return ta.for_loop(0, n, body, (None if is_held else node, 0.0))[1]

    assert ta.function(f)(np.float64(1), np.int64(5)) == 15 + 14 + 13 + 12 + 11


def test_segments_keep_what_references_hold_of_a_few_states() -> None:
    steps, width = 2_500, 64

    def last(x: Any, **kept: Any) -> Any:
        def body(i: Any, r: Any) -> Any:
            return ta.ref(ta.sin(r.get()) * 1.0001, "v")

        return ta.for_loop(0, steps, body, ta.ref(x, "v"), **kept).get().sum()

    x = np.linspace(0.1, 1.0, width)
    all_stored = ta.function(ta.grad(last))
    in_segments = ta.function(ta.grad(lambda x: last(x, checkpoint="sqrt")))
    assert all_stored.memory(x).temporaries >= steps * x.nbytes
    assert in_segments.memory(x).temporaries <= 3 * 50 * x.nbytes
    np.testing.assert_array_equal(in_segments(x), all_stored(x))
