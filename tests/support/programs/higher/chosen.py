"""Functions that data choose: returned, passed, stored, composed."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.support.programs.higher.kit import F64, I64, Cases, Kit

CHOSEN = Cases()
X = F64(1.25)


def compose(g: Any, f: Any) -> Any:
    return lambda y: g(f(y))


@CHOSEN.run((X, F64(1.0)), (X, F64(-1.0)))
def of_a_branch(k: Kit) -> Any:
    def program(x: Any, p: Any) -> Any:
        def scaled() -> Any:
            a = x * 5
            return lambda y: y * a

        def shifted() -> Any:
            b = x - 7
            return lambda y: y + b

        f = k.cond(p > 0, scaled, shifted)
        return f(x) - f(f(3.0 + x))

    return program


@CHOSEN.run((X, I64(0)), (X, I64(2)), (X, I64(9)))
def of_a_switch(k: Kit) -> Any:
    def square(y: Any) -> Any:
        return y * y

    return lambda x, n: k.switch(n, [lambda: square, lambda: abs, lambda: lambda y: y * x])(-x)


@CHOSEN.run((X, F64(1.0)), (X, F64(-1.0)))
def in_containers(k: Kit) -> Any:
    def program(x: Any, p: Any) -> Any:
        first = lambda: (lambda y: y + x, {"g": lambda a, b: a * b, "n": 1.0})  # noqa: E731
        other = lambda: (lambda y: y - x, {"g": lambda a, b: a / b, "n": 2.0})  # noqa: E731
        f, rest = k.cond(p > 0, first, other)
        return {"y": rest["g"](f(x), 3.0 * x), "n": rest["n"]}

    return program


class Layer:
    """A scale with two methods."""

    def __init__(self, w: Any) -> None:
        self.w = w

    def times(self, y: Any) -> Any:
        return y * self.w

    def minus(self, y: Any) -> Any:
        return y - self.w


@CHOSEN.run((X, F64(1.0)), (X, F64(-1.0)))
def methods(k: Kit) -> Any:
    def program(x: Any, p: Any) -> Any:
        layer = Layer(x * 3)
        return k.cond(p > 0, lambda: layer.times, lambda: layer.minus)(x)

    return program


@CHOSEN.run((X, I64(0)), (X, I64(4)))
def composed_in_a_loop(k: Kit) -> Any:
    def program(x: Any, n: Any) -> Any:
        step = lambda y: y * x + 1  # noqa: E731
        return k.for_loop(0, n, lambda i, f: compose(step, f), lambda y: y)(x)

    return program


@CHOSEN.run((X, I64(4)))
def with_the_counter(k: Kit) -> Any:
    def program(x: Any, n: Any) -> Any:
        return k.for_loop(0, n, lambda i, f: lambda y: f(y) * i + x, lambda y: y + 1.0)(x)

    return program


@CHOSEN.run((X, I64(4)))
def used_while_composed(k: Kit) -> Any:
    def program(x: Any, n: Any) -> Any:
        def step(i: Any, c: Any) -> Any:
            f, s = c
            return (lambda y: f(y) + s * y), s + f(s) / 10

        f, s = k.for_loop(0, n, step, (lambda y: y * 1.0, x))
        return f(s), s

    return program


@CHOSEN.run((X, I64(4)))
def with_partial(k: Kit) -> Any:
    def program(x: Any, n: Any) -> Any:
        def scaled(f: Any, a: Any, y: Any) -> Any:
            return f(y) * a

        return k.for_loop(0, n, lambda i, f: partial(scaled, f, x), lambda y: y + x)(x)

    return program


@CHOSEN.run((X,))
def in_a_while(k: Kit) -> Any:
    def program(x: Any) -> Any:
        def step(c: Any) -> Any:
            return compose(c[0], lambda y: y * x), c[0](c[1])

        return k.while_loop(lambda c: c[1] < 20.0, step, (lambda y: y * 1.5 + 1, x))[0](x)

    return program


@CHOSEN.run((X, I64(5)))
def replaced_or_kept(k: Kit) -> Any:
    def program(x: Any, n: Any) -> Any:
        def step(i: Any, f: Any) -> Any:
            return k.cond(x > i, lambda: f, lambda: lambda y: f(y) + i)

        return k.for_loop(0, n, step, lambda y: y * 1.0)(x)

    return program


@CHOSEN.run((X, I64(3)))
def iterate(k: Kit) -> Any:
    @k.function
    def f(g: Any, n: Any, y: Any) -> Any:
        return k.cond(n > 0, lambda: f(g, n - 1, g(y)), lambda: y)

    return lambda x, n: f(lambda y: y * x + 1, n, x)


@CHOSEN.run((X, I64(3)))
def doubled(k: Kit) -> Any:
    @k.function
    def f(g: Any, n: Any) -> Any:
        return k.cond(n > 0, lambda: f(compose(g, g), n - 1), lambda: g)

    return lambda x, n: f(k.fn(lambda y: y * x), n)(x)


@CHOSEN.run((X, I64(4)))
def continuations(k: Kit) -> Any:
    @k.function
    def f(n: Any, x: Any, then: Any) -> Any:
        def deeper() -> Any:
            return f(n - 1, x, lambda r: then(r * x + n))

        return k.cond(n < 1, lambda: then(k.number(1.0)), deeper)

    return lambda x, n: f(n, x, k.fn(lambda r: r * x))


@CHOSEN.run((X, I64(0)), (X, I64(3)))
def made_by_recursion(k: Kit) -> Any:
    @k.function
    def f(n: Any, a: Any) -> Any:
        return k.cond(n > 0, lambda: compose(lambda y: y * a, f(n - 1, a)), lambda: lambda y: y + a)

    return lambda x, n: f(n, x)(x)


@CHOSEN.run((X,))
def returned_by_functions(k: Kit) -> Any:
    @k.function
    def adder(a: Any) -> Any:
        b = a * 2
        return lambda y: y + b

    return lambda x: adder(x)(1.0) * adder(x + 1)(2.0)


@CHOSEN.run((X, F64(1.0)), (X, F64(-1.0)))
def curried(k: Kit) -> Any:
    def program(x: Any, p: Any) -> Any:
        first = lambda: lambda y: lambda z: y * z + x  # noqa: E731
        other = lambda: lambda y: lambda z: y + z  # noqa: E731
        return k.cond(p > 0, first, other)(x)(3.0 * x)

    return program


@CHOSEN.run((X, F64(1.0)), (X, F64(-1.0)))
def passed_to_functions(k: Kit) -> Any:
    @k.function
    def twice(f: Any, y: Any) -> Any:
        return f(f(y))

    def program(x: Any, p: Any) -> Any:
        f = k.cond(p > 0, lambda: lambda y: y * x, lambda: lambda y: y - x)
        return twice(f, x) + twice(lambda y: y + x, x)

    return program


@CHOSEN.run((X, F64(1.0)), (X, F64(-1.0)))
def chosen_twice(k: Kit) -> Any:
    def program(x: Any, p: Any) -> Any:
        f = k.cond(p > 0, lambda: lambda y: y * x, lambda: lambda y: y - x)
        g = k.cond(x > 2, lambda: f, lambda: compose(f, f))
        h = k.cond(p < 0, lambda: g, lambda: f)
        return h(x)

    return program
