"""Functions that call themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support.programs.higher.kit import F64, I64, Cases, Kit

RECURSIVE = Cases()
X = F64(1.25)


@RECURSIVE.run((X, I64(0)), (X, I64(7)))
def power(k: Kit) -> Any:
    @k.function
    def f(x: Any, n: Any) -> Any:
        return k.cond(n > 0, lambda: x * f(x, n - 1), lambda: 1.0)

    return f


@RECURSIVE.run((X, I64(1)), (X, I64(13)))
def power_by_halves(k: Kit) -> Any:
    @k.function
    def f(x: Any, n: Any) -> Any:
        return k.cond(n < 1, lambda: 1.0, lambda: half(f(x, n // 2), x, n))

    def half(root: Any, x: Any, n: Any) -> Any:
        return k.cond(n % 2 > 0, lambda: root * root * x, lambda: root * root)

    return f


@RECURSIVE.run((I64(0),), (I64(11),))
def fibonacci(k: Kit) -> Any:
    @k.function
    def f(n: Any) -> Any:
        return k.cond(n < 2, lambda: n, lambda: f(n - 1) + f(n - 2))

    return f


@RECURSIVE.run((I64(9),), (I64(8),))
def even_and_odd(k: Kit) -> Any:
    @k.function
    def even(n: Any) -> Any:
        return k.cond(n < 1, lambda: True, lambda: odd(n - 1))

    @k.function
    def odd(n: Any) -> Any:
        return k.cond(n < 1, lambda: False, lambda: even(n - 1))

    return lambda n: (even(n), odd(n))


@RECURSIVE.run((X, I64(9)))
def three_in_turn(k: Kit) -> Any:
    @k.function
    def a(x: Any, n: Any) -> Any:
        return k.cond(n > 0, lambda: b(x * 1.5, n - 1) + c(x, n - 2), lambda: x)

    @k.function
    def b(x: Any, n: Any) -> Any:
        return k.cond(n > 0, lambda: c(x + 1, n - 1), lambda: -x)

    @k.function
    def c(x: Any, n: Any) -> Any:
        return k.cond(n > 0, lambda: a(x / 2, n - 1), lambda: x * x)

    return a


@RECURSIVE.run((I64(2), I64(3)))
def ackermann(k: Kit) -> Any:
    @k.function
    def f(m: Any, n: Any) -> Any:
        def deeper() -> Any:
            return k.cond(n < 1, lambda: f(m - 1, 1), lambda: f(m - 1, f(m, n - 1)))

        return k.cond(m < 1, lambda: n + 1, deeper)

    return f


@RECURSIVE.run((I64(27),))
def collatz(k: Kit) -> Any:
    @k.function
    def f(n: Any, steps: Any) -> Any:
        def once() -> Any:
            return k.cond(n % 2 > 0, lambda: f(3 * n + 1, steps + 1), lambda: f(n // 2, steps + 1))

        return k.cond(n < 2, lambda: steps, once)

    return lambda n: f(n, 0)


@RECURSIVE.run((I64(84), I64(36)))
def gcd(k: Kit) -> Any:
    @k.function
    def f(a: Any, b: Any) -> Any:
        return k.cond(b < 1, lambda: a, lambda: f(b, a % b))

    return f


@RECURSIVE.run((X, I64(4)))
def trees_of_results(k: Kit) -> Any:
    @k.function
    def f(p: Any, n: Any) -> Any:
        def go() -> Any:
            rest = f({"a": p["a"] * 2, "b": (p["b"][0] + 1,)}, n - 1)
            return {"sum": rest["sum"] + p["a"], "n": rest["n"] + 1}

        return k.cond(n > 0, go, lambda: {"sum": p["b"][0], "n": 0})

    return lambda x, n: f({"a": x, "b": (x,)}, n)


@RECURSIVE.run((np.array([[1.0, 0.5], [0.25, 2.0]]), np.array([1.0, -1.0]), I64(5)))
def captured_tensors(k: Kit) -> Any:
    def program(w: Any, x: Any, n: Any) -> Any:
        scale = w.sum()

        @k.function
        def f(y: Any, n: Any) -> Any:
            return k.cond(n > 0, lambda: f(w @ y / scale, n - 1), lambda: y + x)

        return f(x, n)

    return program


@RECURSIVE.run((X, I64(3)))
def nested_definitions(k: Kit) -> Any:
    def program(x: Any, n: Any) -> Any:
        @k.function
        def outer(y: Any, n: Any) -> Any:
            @k.function
            def inner(z: Any, m: Any) -> Any:
                return k.cond(m > 0, lambda: inner(z * y + x, m - 1), lambda: z)

            return k.cond(n > 0, lambda: outer(inner(y, n), n - 1), lambda: y)

        return outer(x, n)

    return program


@RECURSIVE.run((X, I64(4)))
def in_a_loop(k: Kit) -> Any:
    power_of = power(k)
    return lambda x, n: k.for_loop(0, n, lambda i, s: s + power_of(x, i), 0.0)


@RECURSIVE.run((X, I64(3)))
def loops_inside(k: Kit) -> Any:
    @k.function
    def f(x: Any, n: Any) -> Any:
        def go() -> Any:
            return k.for_loop(0, n, lambda i, s: s + f(x + i, n - 1), 0.0)

        return k.cond(n > 0, go, lambda: x)

    return f


@RECURSIVE.run((X, I64(12)))
def until_it_is_large(k: Kit) -> Any:
    @k.function
    def f(x: Any, n: Any) -> Any:
        end = k.while_loop(lambda c: c < n, lambda c: c * 2, x)
        return k.cond(n > 1, lambda: f(end / 3, n - 4), lambda: end)

    return f


@RECURSIVE.run((X, I64(5)))
def static_arguments(k: Kit) -> Any:
    @k.function(static_argnames="depth")
    def f(x: Any, n: Any, depth: int) -> Any:
        if not depth:
            return x
        return k.cond(n > 0, lambda: f(x * depth, n - 1, depth), lambda: f(x + 1, 3, depth - 1))

    return lambda x, n: f(x, n, 2)


@RECURSIVE.run((X, I64(6)))
def declared_type(k: Kit) -> Any:
    @k.function(returns=lambda x, n: x)
    def f(x: Any, n: Any) -> Any:
        return k.cond(n > 0, lambda: f(x / 2, n - 1) + f(x, 0), lambda: x)

    return f


@RECURSIVE.run((I64(4),))
def hanoi(k: Kit) -> Any:
    @k.function
    def f(n: Any, source: Any, target: Any) -> Any:
        def go() -> Any:
            other = 3 - source - target
            before = f(n - 1, source, other)
            return before * 3 + f(n - 1, other, target) + source

        return k.cond(n < 1, lambda: 0, go)

    return lambda n: f(n, 0, 2)


@RECURSIVE.run((X, I64(20)))
def switch_of_three(k: Kit) -> Any:
    @k.function
    def f(x: Any, n: Any) -> Any:
        sides = [lambda: f(x * 2, n - 1), lambda: f(x - 1, n - 2), lambda: f(x / 3, n - 1)]
        return k.cond(n < 1, lambda: x, lambda: k.switch(n % 3, sides))

    return f


@RECURSIVE.run((I64(6), I64(3)))
def binomial(k: Kit) -> Any:
    @k.function
    def f(n: Any, m: Any) -> Any:
        def both() -> Any:
            return f(n - 1, m - 1) + f(n - 1, m)

        return k.cond(m < 1, lambda: 1, lambda: k.cond(n <= m, lambda: 1, both))

    return f
