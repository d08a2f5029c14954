"""Calls that are given references: how often they are written down, and what is left of that."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import LimitError
from tensorad.program.calling import in_place
from tests.program.references.test_recursion import recursions

X = np.float64(0.3)


def test_outside_of_functions() -> None:
    """What the call wrote before it was known to be a recursion is undone there, too."""
    x, n = ta.placeholder((), "float64", "x"), ta.placeholder((), "int64", "n")
    r = ta.ref(x, "r")

    @ta.function
    def f(a: Any, n: Any) -> Any:
        a.add(1.0)
        return ta.cond(n > 0, lambda: f(a, n - 1), lambda: a.get())

    y = f(r, n)
    found = ta.evaluate([y, r.get()], {x: X, n: np.int64(4)})
    np.testing.assert_allclose(found, [X + 5.0] * 2, rtol=1e-12)


def test_which_reference_is_which_makes_definitions() -> None:
    """One that both calls of a kind are given is one of the definition; others make another."""

    def program(x: Any, n: Any) -> Any:
        one, other = ta.ref(x, "one"), ta.ref(x, "other")

        @ta.function
        def f(a: Any, n: Any) -> Any:
            def deeper() -> Any:
                a.mul(2.0)
                return f(a, n - 1)

            return ta.cond(n > 0, deeper, lambda: a.get())

        return f(one, n) + f(other, n + 1)

    f = ta.function(program)
    calls = recursions(f, X, np.int64(3))
    names = sorted([[t.name for t in c.definition.types] for c in calls])
    assert names == [["f", "one"], ["f", "other"]]
    np.testing.assert_allclose(f(X, np.int64(3)), 24 * X, rtol=1e-12)


def test_calls_that_do_nothing() -> None:
    """They have no result and write nothing, and are none of the program."""

    def program(x: Any, n: Any) -> Any:
        r = ta.ref(x, "r")

        @ta.function
        def f(a: Any, n: Any) -> None:
            ta.cond(n > 0, lambda: (a.get(), f(a, n - 1))[1], lambda: None)

        f(r, n)
        return r.get()

    f = ta.function(program)
    assert recursions(f, X, np.int64(3)) == [] and f(X, np.int64(3)) == X


def times_written(depth: int, recursive: bool) -> int:
    """How often functions are written down of which each one makes the next one inside."""
    count = [0]

    def level(r: Any, n: Any, depth: int) -> Any:
        @ta.function
        def f(a: Any, n: Any) -> Any:
            count[0] += 1
            a.add(1.0)
            inner = level(a, n, depth - 1) if depth else a.get()
            return ta.cond(n > 0, lambda: f(a, n - 1), lambda: inner) if recursive else inner

        return f(r, n)

    ta.function(lambda x, n: level(ta.ref(x, "r"), n, depth)).trace(X, np.int64(2))
    return count[0]


def test_functions_are_written_down_once() -> None:
    """One that calls itself once more for each round until its types are known."""
    assert [times_written(d, recursive=False) for d in (0, 3, 7)] == [1, 4, 8]
    assert times_written(0, recursive=True) == 4


def exchanging(n_references: int) -> Any:
    def program(x: Any, n: Any) -> Any:
        given = [ta.ref(x * float(i), f"r{i}") for i in range(n_references)]

        @ta.function
        def f(n: Any, *some: Any) -> Any:
            def deeper() -> Any:
                some[0].add(1.0)
                return f(n - 1, *some[1:], some[0]) + f(n - 2, some[1], some[0], *some[2:])

            return ta.cond(n > 0, deeper, lambda: some[0].get())

        return f(n, *given)

    return program


def test_too_many_ways_to_give_references(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_place, "_MOST_INSIDE", 20)
    with pytest.raises(LimitError) as caught:
        ta.function(exchanging(4)).trace(X, np.int64(2))
    text = str(caught.value)
    assert text.startswith(
        "f calls itself with other and other references among its arguments: it is written down "
        "for each way to give them, 20 times so far.\n  in: the reference r"
    )
    assert text.endswith(
        "\n  hint: let calls inside be given the same references at the same places; or let the "
        "function use those around it, and give it a number that tells which is meant."
    )


def test_references_are_not_kept() -> None:
    alive: list[weakref.ref[Any]] = []

    @ta.function
    def f(a: Any, n: Any) -> Any:
        return ta.cond(n > 0, lambda: (a.add(1.0), f(a, n - 1))[1], lambda: a.get())

    def program(x: Any, n: Any) -> Any:
        r = ta.ref(x, "r")
        alive.append(weakref.ref(r))
        return f(r, n)

    np.testing.assert_allclose(ta.function(program)(X, np.int64(3)), X + 3.0, rtol=1e-12)
    gc.collect()
    assert [r() for r in alive] == [None]


def test_a_deep_recursion() -> None:
    def program(x: Any, n: Any) -> Any:
        @ta.function
        def f(a: Any, n: Any) -> Any:
            return ta.cond(n > 0, lambda: (a.mul(0.9999), f(a, n - 1))[1], lambda: a.get())

        return f(ta.ref(x, "r"), n)

    depth = np.int64(100_000)
    np.testing.assert_allclose(ta.function(program)(X, depth), X * 0.9999**100_000, rtol=1e-9)
    np.testing.assert_allclose(ta.grad(program)(X, depth), 0.9999**100_000, rtol=1e-9)
