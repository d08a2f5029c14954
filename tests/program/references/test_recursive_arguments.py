"""References as arguments of functions that call themselves: which one is which is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tests.random.whole.plain import Plain
from tests.support.programs.beside_python import (
    Make,
    X,
    check_first_order,
    check_second_order,
)


def accumulated(k: Any) -> Any:
    def program(x: Any, n: Any) -> Any:
        total, count = k.ref(x, "total"), k.ref(0, "count")

        @k.function
        def f(r: Any, y: Any, n: Any) -> Any:
            def deeper() -> Any:
                r.set(k.sin(r.get()) * 1.1 + y)
                count.add(1)
                z = f(r, y * 0.9, n - 1)
                r.add(z * 0.1)
                return z + f(r, y, n - 2) * r.get()

            return k.cond(n > 0, deeper, lambda: y * r.get())

        first = f(total, x, n)
        total.mul(0.5)
        return first + f(total, x + 1.0, n) * total.get(), count.get()

    return program


def of_two(k: Any, same: bool) -> Any:
    """What is written by one name is read by the other, if both are one reference."""

    def program(x: Any, n: Any) -> Any:
        one, other, count = k.ref(x, "one"), k.ref(x * 2.0, "other"), k.ref(0, "count")

        @k.function
        def f(a: Any, b: Any, n: Any) -> Any:
            def deeper() -> Any:
                a.set(k.sin(a.get()) + b.get() * 0.3)
                count.add(1)
                z = f(a, b, n - 1)
                b.mul(0.9)
                return z + a.get()

            return k.cond(n > 0, deeper, lambda: a.get() * b.get() + a.get())

        return f(one, one if same else other, n) + one.get() * 3.0 + other.get(), count.get()

    return program


def distinct(k: Any) -> Any:
    return of_two(k, same=False)


def aliased(k: Any) -> Any:
    return of_two(k, same=True)


def exchanged(k: Any) -> Any:
    """Calls inside are given the same references at other places, and one at both."""

    def program(x: Any, n: Any) -> Any:
        one, other, count = k.ref(x, "one"), k.ref(x * 2.0, "other"), k.ref(0, "count")

        @k.function
        def f(a: Any, b: Any, n: Any) -> Any:
            def deeper() -> Any:
                a.set(k.sin(a.get()) + b.get() * 0.3)
                count.add(1)
                z = f(b, a, n - 1) + f(a, a, n - 2)
                b.mul(0.9)
                return z + a.get()

            return k.cond(n > 0, deeper, lambda: a.get() * b.get() + a.get())

        return f(one, other, n) + one.get() * 3.0 + other.get(), count.get()

    return program


def in_turn(k: Any) -> Any:
    """The one function is given a reference, the other one knows it."""

    def program(x: Any, n: Any) -> Any:
        r, count = k.ref(x, "r"), k.ref(0, "count")

        @k.function
        def one(a: Any, y: Any, n: Any) -> Any:
            def deeper() -> Any:
                a["r"].mul(y)
                return other(y + 0.1, n - 1) + through(a["r"], n - 2)

            return k.cond(n > 0, deeper, lambda: a["r"].get())

        @k.function
        def through(a: Any, n: Any) -> Any:
            count.add(1)
            return one({"r": a}, a.get(), n) * 0.5

        @k.function
        def other(y: Any, n: Any) -> Any:
            def deeper() -> Any:
                count.add(1)
                z = one({"r": r}, y, n - 1)
                r.add(z * y)
                return z + r.get()

            return k.cond(n > 0, deeper, lambda: y)

        return one({"r": r}, x, n) + r.get(), count.get()

    return program


def in_a_loop(k: Any) -> Any:
    """Loops are around calls and inside of them; what is given beside is a function."""

    def program(x: Any, n: Any) -> Any:
        r, scale, count = k.ref(x, "r"), k.ref(x + 0.5, "scale"), k.ref(0, "count")

        @k.function
        def f(a: Any, g: Any, n: Any) -> Any:
            def deeper() -> Any:
                a.set(g(a.get()))
                count.add(1)
                scale.mul(0.9)
                return k.for_loop(0, 2, lambda i, s: s + f(a, g, n - 1), a.get())

            return k.cond(n > 1, deeper, lambda: a.get())

        def scaled(y: Any) -> Any:
            return k.sin(y) * scale.get()

        def body(i: Any, s: Any) -> Any:
            return s + k.cond(s < 9.0, lambda: f(r, k.fn(scaled), n), lambda: s)

        return k.for_loop(0, 3, body, x) * r.get(), count.get()

    return program


def written_alone(k: Any) -> Any:
    """Calls have no result but what they write; a derivative is inside of them."""

    def program(x: Any, n: Any) -> Any:
        r, count = k.ref(x, "r"), k.ref(0, "count")

        @k.function
        def f(pair: Any, n: Any) -> None:
            def deeper() -> None:
                f(pair, n - 1)
                pair[0].set(k.sin(pair[0].get()) + x)
                pair[1].add(1)
                f(pair, n - 2)

            k.cond(n > 0, deeper, lambda: None)

        f((r, count), n)
        return r.get(), count.get()

    return program


def chosen(k: Any) -> Any:
    """Data choose which reference a call is given."""

    def program(x: Any, n: Any) -> Any:
        one, other, count = k.ref(x, "one"), k.ref(x + 1.0, "other"), k.ref(0, "count")

        @k.function
        def f(a: Any, b: Any, n: Any) -> Any:
            def deeper() -> Any:
                a.set(k.sin(a.get()) * 1.2)
                count.add(1)
                return f(k.cond(a.get() < b.get(), lambda: a, lambda: b), b, n - 1)

            return k.cond(n > 0, deeper, lambda: a.get())

        return f(one, other, n) + one.get() * other.get(), count.get()

    return program


def returned(k: Any) -> Any:
    """A call returns the reference that it was given."""

    def program(x: Any, n: Any) -> Any:
        r, count = k.ref(x, "r"), k.ref(0, "count")

        @k.function
        def f(a: Any, n: Any) -> Any:
            def deeper() -> Any:
                count.add(1)
                own = f(a, n - 1)
                own.mul(1.5)
                return own

            return k.cond(n > 0, deeper, lambda: a)

        return f(r, n).get() * x + r.get(), count.get()

    return program


def of_other_extents(k: Any) -> Any:
    """What calls are given beside the reference is shorter each time."""

    def program(x: Any, n: Any) -> Any:
        total, count = k.ref(x, "total"), k.ref(0, "count")
        row = np.linspace(0.1, 0.7, 7)

        @k.function
        def f(a: Any, y: Any, n: Any) -> Any:
            def deeper() -> Any:
                a.add(k.sin(a.get()) * y[0])
                count.add(1)
                return f(a, y[1:], n - 1) + y[0]

            return k.cond(n > 0, deeper, lambda: a.get() * 2.0)

        return f(total, row * x, n) + total.get(), count.get()

    return program


PROGRAMS: list[Make] = [
    accumulated, distinct, aliased, exchanged, in_turn, in_a_loop, written_alone, chosen, returned,
    of_other_extents,
]  # fmt: skip


@pytest.mark.parametrize("make", PROGRAMS)
def test_as_in_python(make: Make) -> None:
    check_first_order(make)


@pytest.mark.slow
@pytest.mark.parametrize("make", PROGRAMS)
def test_second_derivatives(make: Make) -> None:
    check_second_order(make)


def test_by_rows() -> None:
    """Each row goes as deep as it says."""
    own, plain = exchanged(ta), exchanged(Plain())
    rows, depths = np.linspace(0.1, 0.9, 5), np.arange(5)
    values = ta.vmap(lambda x, n: own(x, n)[0])(rows, depths)
    wanted = [plain(x, n)[0] for x, n in zip(rows, depths, strict=True)]
    np.testing.assert_allclose(values, wanted, rtol=1e-12)


def test_a_derivative_inside_of_a_call() -> None:
    """What is differentiated reads the reference, and the call writes what it found."""

    def program(x: Any, n: Any) -> Any:
        r = ta.ref(x, "r")

        @ta.function
        def f(a: Any, n: Any) -> Any:
            def deeper() -> Any:
                a.set(ta.grad(lambda y: ta.sin(y) * a.get())(a.get()))
                return f(a, n - 1)

            return ta.cond(n > 0, deeper, lambda: a.get())

        return f(r, n) + r.get()

    value = X
    for _ in range(3):
        value = np.cos(value) * value
    np.testing.assert_allclose(ta.function(program)(X, np.int64(3)), 2 * value, rtol=1e-12)


@ta.variant
class Row:
    class End:
        pass

    class More:
        head: float64  # noqa: F821  # a dtype
        rest: Row


def test_over_a_list() -> None:
    """The depth is that of a value of a data type."""

    def program(x: Any, row: Any) -> Any:
        total = ta.ref(x, "total")

        @ta.function
        def walk(a: Any, row: Any) -> Any:
            def more(head: Any, rest: Any) -> Any:
                a.set(ta.sin(a.get()) + head)
                return walk(a, rest) * a.get()

            return ta.match(row, {Row.End: lambda: a.get(), Row.More: more})

        return walk(total, row)

    def plain(x: float, heads: list[float]) -> float:
        held = [x]
        for head in heads:
            held.append(np.sin(held[-1]) + head)
        return float(held[-1] * held[-1] ** len(heads))

    heads = [0.2, 0.4, 0.1]
    row = Row.End()
    for head in heads[::-1]:
        row = Row.More(np.float64(head), row)
    np.testing.assert_allclose(ta.function(program)(X, row), plain(X, heads), rtol=1e-12)
    wanted = (plain(X + 1e-6, heads) - plain(X - 1e-6, heads)) / 2e-6
    np.testing.assert_allclose(ta.grad(program)(X, row), wanted, rtol=1e-6)
