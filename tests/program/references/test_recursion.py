"""Functions that call themselves and touch references of outside: given to and by each call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.ir.analysis.blocks import inner_ops, ops_between
from tensorad.ir.records import Recursion
from tests.support.programs.beside_python import (
    Make,
    X,
    check_first_order,
    check_second_order,
)


def read_and_written(k: Any) -> Any:
    def program(x: Any, n: Any) -> Any:
        r, count, scale = k.ref(x, "r"), k.ref(0, "count"), k.ref(x * 2.0, "scale")

        @k.function
        def f(y: Any, n: Any) -> Any:
            def deeper() -> Any:
                r.set(r.get() * y + k.sin(r.get() * scale.get()))
                count.add(1)
                z = f(y * 0.9, n - 1)
                r.add(z * 0.1)
                return z + f(y * 0.5, n - 2) * r.get()

            return k.cond(n > 0, deeper, lambda: y * r.get())

        first = f(x, n)
        scale.add(1.0)
        r.mul(0.5)
        return first + f(x + 1.0, n) * r.get(), count.get()

    return program


def written_alone(k: Any) -> Any:
    """Calls have no result but what they write."""

    def program(x: Any, n: Any) -> Any:
        r, count = k.ref(x, "r"), k.ref(0, "count")

        @k.function
        def f(n: Any) -> None:
            def deeper() -> None:
                f(n - 1)
                r.set(k.sin(r.get()) + x)
                count.add(1)
                f(n - 2)

            k.cond(n > 0, deeper, lambda: None)

        f(n)
        return r.get(), count.get()

    return program


def in_turn(k: Any) -> Any:
    def program(x: Any, n: Any) -> Any:
        r, count = k.ref(x, "r"), k.ref(0, "count")

        @k.function
        def one(y: Any, n: Any) -> Any:
            def deeper() -> Any:
                r.mul(y)
                return other(y + 0.1, n - 1)

            return k.cond(n > 0, deeper, lambda: r.get())

        @k.function
        def other(y: Any, n: Any) -> Any:
            def deeper() -> Any:
                count.add(1)
                z = one(y, n - 1)
                r.add(z * y)
                return z + r.get()

            return k.cond(n > 0, deeper, lambda: y)

        return one(x, n), count.get()

    return program


def in_a_loop(k: Any) -> Any:
    """The loop carries what calls inside leave."""

    def program(x: Any, n: Any) -> Any:
        r, count = k.ref({"a": x, "b": 1.0}, "r"), k.ref(0, "count")

        @k.function
        def f(n: Any) -> Any:
            def deeper() -> Any:
                held = r.get()
                r.set({"a": held["a"] * held["b"], "b": k.sin(held["b"] + x)})
                count.add(1)
                return f(n - 1)

            return k.cond(n > 0, deeper, lambda: r.get()["a"])

        total = k.for_loop(0, 3, lambda i, s: s + f(n), x)
        return total * r.get()["b"], count.get()

    return program


def a_number_there_and_back(k: Any) -> Any:
    """Calls meet a tensor where the function finds a number and leaves one."""

    def program(x: Any, n: Any) -> Any:
        r, count = k.ref(0.1, "r"), k.ref(0, "count")

        @k.function
        def f(y: Any, n: Any) -> Any:
            def deeper() -> Any:
                before = r.get()
                r.set(y)
                z = f(y * 0.9, n - 1)
                r.set(0.1)
                count.add(1)
                return z + before * y

            return k.cond(n > 0, deeper, lambda: y * r.get())

        return f(x, n), count.get()

    return program


def functions(k: Any) -> Any:
    """What is in the reference is a function, which calls replace."""

    def program(x: Any, n: Any) -> Any:
        g, count = k.ref(lambda y: y, "g"), k.ref(0, "count")

        @k.function
        def f(y: Any, n: Any) -> Any:
            def deeper() -> Any:
                before = g.get()
                g.set(lambda v: k.sin(before(v) * y) + x)
                count.add(1)
                z = f(y * 1.5, n - 1)
                return z + g.get()(y)

            return k.cond(n > 0, deeper, lambda: g.get()(y))

        first = f(x, n)
        g.set(lambda v: v * v)
        return first + f(x, n) * g.get()(x), count.get()

    return program


def functions_in_a_loop(k: Any) -> Any:
    """Calls and iterations replace what is in the reference."""

    def program(x: Any, n: Any) -> Any:
        g, count = k.ref(k.sin, "g"), k.ref(0, "count")

        def body(i: Any, s: Any) -> Any:
            @k.function
            def f(n: Any) -> Any:
                def deeper() -> Any:
                    before = g.get()
                    g.set(lambda y: before(y * 0.5 + s) * 0.9)
                    count.add(1)
                    return f(n - 1)

                return k.cond(n > 0, deeper, lambda: s)

            return f(n) + g.get()(s)

        return k.for_loop(0, 3, body, x) * g.get()(x), count.get()

    return program


PROGRAMS: list[Make] = [
    read_and_written, written_alone, in_turn, in_a_loop, functions, functions_in_a_loop,
    a_number_there_and_back,
]  # fmt: skip


@pytest.mark.parametrize("make", PROGRAMS)
def test_as_in_python(make: Make) -> None:
    check_first_order(make)


@pytest.mark.slow
@pytest.mark.parametrize("make", PROGRAMS)
def test_second_derivatives(make: Make) -> None:
    check_second_order(make)


def recursions(f: Any, *args: Any) -> list[Recursion]:
    """Calls in a program, those inside of branches too."""
    ops = ops_between(f.trace(*args).results, {})
    return [op for op in (*ops, *inner_ops(ops)) if isinstance(op, Recursion)]


def test_a_call_is_given_what_it_writes_and_no_more() -> None:
    """What is read alone is captured; what nobody touches is no operand."""

    def program(x: Any, n: Any) -> Any:
        written, read, other = ta.ref(x, "written"), ta.ref(x * 2.0, "read"), ta.ref(x, "other")

        @ta.function
        def f(n: Any) -> Any:
            def deeper() -> Any:
                written.mul(read.get())
                return f(n - 1)

            return ta.cond(n > 0, deeper, lambda: x)

        return f(n) + written.get() + other.get()

    (call,) = recursions(ta.function(program), X, np.int64(3))
    assert [t.name for t in call.definition.types] == ["f", "written"]
    assert len(call.operands) == 4  # n; what is written; x and what is read, captured


def test_a_function_that_leaves_a_reference_as_it_is_has_one_result() -> None:
    def program(x: Any, n: Any) -> Any:
        r = ta.ref(x, "r")

        @ta.function
        def f(n: Any) -> Any:
            return ta.cond(n > 0, lambda: f(n - 1) * r.get(), lambda: x)

        before = f(n)
        r.add(1.0)
        return before + f(n)

    calls = recursions(ta.function(program), X, np.int64(3))
    assert [len(c.definition.types) for c in calls] == [1, 1]
    wanted = X * X**3 + X * (X + 1.0) ** 3
    np.testing.assert_allclose(ta.function(program)(X, np.int64(3)), wanted, rtol=1e-12)


def test_a_deep_recursion_writes() -> None:
    def program(x: Any, n: Any) -> Any:
        r = ta.ref(x, "r")

        @ta.function
        def f(n: Any) -> Any:
            return ta.cond(n > 0, lambda: (r.mul(0.9999), f(n - 1))[1], lambda: r.get())

        return f(n)

    depth = np.int64(100_000)
    np.testing.assert_allclose(ta.function(program)(X, depth), X * 0.9999**100_000, rtol=1e-9)
    np.testing.assert_allclose(ta.grad(program)(X, depth), 0.9999**100_000, rtol=1e-9)
