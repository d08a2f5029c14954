"""Functions of Python that are first-order in effect, beside what they do without closures,
references and levels, written by hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial, reduce
from typing import Any, Final, NamedTuple

import numpy as np

import tensorad as ta
from tensorad import topi

X: Final = np.array([0.5, -1.25, 2.0])
Y: Final = np.array([0.25, 0.75, -0.5])
S: Final = np.float64(0.75)
N: Final = np.int64(3)
W: Final = np.array([[0.5, -0.25, 1.0], [0.75, 0.125, -0.5], [0.25, 1.5, -1.0]])
Function = Callable[..., Any]


class Pair(NamedTuple):
    """A function, the same as straight lines, and arguments."""

    function: Function
    twin: Function
    args: tuple[Any, ...]


STRAIGHT: Final[dict[str, Pair]] = {}


def let(value: Any, body: Function) -> Any:
    """What the body does with a value that is computed once."""
    return body(value)


def straight(twin: Function, *args: Any) -> Callable[[Function], Function]:
    """Enter a function beside its twin."""

    def entered(f: Function) -> Function:
        assert f.__name__ not in STRAIGHT
        STRAIGHT[f.__name__] = Pair(f, twin, args)
        return f

    return entered


# -- functions of functions -----------------------------------------------------------------------


@straight(lambda x, s: ta.sin(x * s) * s, X, S)
def closures_in_a_tuple(x: Any, s: Any) -> Any:
    first, second = (lambda v: v * s), ta.sin
    pair = (first, second)
    return pair[0](pair[1](pair[0](x)))


@straight(lambda x, s: (x + s) * (x * s), X, S)
def closures_in_a_dict(x: Any, s: Any) -> Any:
    table = {"add": lambda v: v + s, "mul": lambda v: v * s}
    return reduce(lambda a, b: a * b, [table[k](x) for k in sorted(table)])


@straight(lambda x, s: x * s + x, X, S)
def closure_that_is_returned(x: Any, s: Any) -> Any:
    def line(a: Any) -> Function:
        return lambda v: a * s + v

    return line(x)(x)


@straight(lambda x, y, s: x * y + s, X, Y, S)
def currying(x: Any, y: Any, s: Any) -> Any:
    return (lambda a: lambda b: lambda c: a * b + c)(x)(y)(s)


@straight(lambda x, y: ta.tanh(x * y) - y, X, Y)
def uncurrying(x: Any, y: Any) -> Any:
    def uncurried(f: Function) -> Function:
        return lambda pair: f(pair[0])(pair[1])

    return uncurried(lambda a: lambda b: ta.tanh(a * b) - b)((x, y))


@straight(lambda x: ta.exp(ta.sin(x) * 2.0), X)
def composition_of_a_list(x: Any) -> Any:
    def compose(f: Function, g: Function) -> Function:
        return lambda v: g(f(v))

    return reduce(compose, [ta.sin, lambda v: v * 2.0, ta.exp], lambda v: v)(x)


@straight(lambda x, y: y - x * y, X, Y)
def flipped(x: Any, y: Any) -> Any:
    def flip(f: Function) -> Function:
        return lambda a, b: f(b, a)

    return flip(lambda a, b: a - b * a)(x, y)


@straight(lambda x, s: ta.cos(x * s), X, S)
def applied_in_part(x: Any, s: Any) -> Any:
    return partial(lambda a, b, v: b(a * v), s, ta.cos)(x)


@straight(lambda x: ta.sin(ta.sin(ta.sin(ta.sin(x)))), X)
def functions_that_double_functions(x: Any) -> Any:
    def twice(f: Any) -> Any:
        return lambda v: f(f(v))

    return twice(twice)(ta.sin)(x)


@straight(lambda x: x + 1.0 + 1.0 + 1.0 + 1.0 + 1.0 + 1.0, X)
def church_numerals(x: Any) -> Any:
    def two(f: Function) -> Function:
        return lambda v: f(f(v))

    def three(f: Function) -> Function:
        return lambda v: f(f(f(v)))

    def times(m: Function, n: Function) -> Function:
        return lambda f: m(n(f))

    return times(two, three)(lambda v: v + 1.0)(x)


@straight(lambda x, y: (x + y) * x, X, Y)
def church_pairs(x: Any, y: Any) -> Any:
    def pair(a: Any, b: Any) -> Function:
        return lambda choose: choose(a, b)

    p = pair(x, y)
    first, second = p(lambda a, b: a), p(lambda a, b: b)
    return (first + second) * p(lambda a, b: a)


@straight(lambda x: x * (x * (x * 1.5)), X)
def y_combinator(x: Any) -> Any:
    def fix(f: Function) -> Function:
        return (lambda u: f(lambda n: u(u)(n)))(lambda u: f(lambda n: u(u)(n)))

    return fix(lambda own: lambda n: 1.5 if n == 0 else x * own(n - 1))(3)


@straight(lambda x, y: x + y, X, Y)
def s_and_k(x: Any, y: Any) -> Any:
    def k(a: Any) -> Function:
        return lambda b: a

    def s(f: Function) -> Function:
        return lambda g: lambda v: f(v)(g(v))

    identity = s(k)(k)
    return identity(x) + k(y)(x)


@straight(lambda x: ta.sin(ta.cos(ta.sin(ta.cos(x)))), X)
def functions_that_call_each_other(x: Any) -> Any:
    def even(n: int, v: Any) -> Any:
        return v if n == 0 else ta.sin(odd(n - 1, v))

    def odd(n: int, v: Any) -> Any:
        return ta.cos(even(n - 1, v))

    return even(4, x)


@straight(lambda x: 2.0 * (2.0 * x + 1.0) + 1.0, X)
def continuation_passing(x: Any) -> Any:
    def line(v: Any, then: Function) -> Any:
        return then(2.0 * v + 1.0)

    return line(x, lambda v: line(v, lambda u: u))


@straight(lambda x: x * 0.5 + 1.0, X)
def continuation_that_is_left(x: Any) -> Any:
    def search(vs: list[Any], found: Function, missed: Function) -> Any:
        for n, v in enumerate(vs):
            if n == 1:
                return found(v)
        return missed()

    return search([x, x * 0.5, ta.exp(x)], lambda v: v + 1.0, lambda: x)


@straight(lambda x: (x + 1.0) * 2.0 * 2.0, X)
def trampoline(x: Any) -> Any:
    def step(n: int, v: Any) -> tuple[Function | None, Any]:
        return (None, v) if n == 0 else ((lambda: step(n - 1, v * 2.0)), None)

    more, found = step(2, x + 1.0)
    while more is not None:
        more, found = more()
    return found


# -- sequences ------------------------------------------------------------------------------------


@straight(lambda x, y, s: ta.sin(x) + ta.sin(y) + ta.sin(x * s), X, Y, S)
def map_and_fold(x: Any, y: Any, s: Any) -> Any:
    return reduce(lambda a, b: a + b, map(ta.sin, [x, y, x * s]))


@straight(lambda x, y: x - (y - (x - y)), X, Y)
def fold_from_the_right(x: Any, y: Any) -> Any:
    def foldr(f: Function, vs: list[Any]) -> Any:
        return vs[0] if len(vs) == 1 else f(vs[0], foldr(f, vs[1:]))

    return foldr(lambda a, b: a - b, [x, y, x, y])


@straight(lambda x, y: let(x * y, lambda a: let(a + x, lambda b: (a, b, b + y))), X, Y)
def running_sums(x: Any, y: Any) -> Any:
    found, total = [], x * y
    for v in (x, y, None):
        found.append(total)
        total = total if v is None else total + v
    return tuple(found)


@straight(lambda x, y: x * x + y * y, X, Y)
def generator(x: Any, y: Any) -> Any:
    def squares() -> Any:
        for v in (x, y):
            yield v * v

    first, second = squares()
    return first + second


@straight(lambda x: ((1.0 * x + 2.0) * x + 3.0) * x + 4.0, X)
def horner(x: Any) -> Any:
    return reduce(lambda total, c: total * x + c, [2.0, 3.0, 4.0], 1.0)


@straight(lambda x, y: {"b": x + y, "a": x * 2.0}, X, Y)
def trees_of_results(x: Any, y: Any) -> Any:
    functions = {"b": lambda v: v + y, "a": lambda v: v * 2.0}
    return {name: f(x) for name, f in functions.items()}


@straight(lambda x, y: x * y + 2.0, X, Y)
def objects_with_methods(x: Any, y: Any) -> Any:
    class Line:
        def __init__(self, slope: Any) -> None:
            self.slope = slope

        def __call__(self, v: Any) -> Any:
            return self.slope * v + self.shift

        shift = 2.0

    return Line(x)(y)


@straight(lambda x: let(ta.sin(x), lambda s: s * s), X)
def memoised_function(x: Any) -> Any:
    made = cache(lambda n: ta.sin(x) if n == 1 else made(1) * made(1))
    return made(2)


@straight(lambda x: let(ta.exp(x), lambda e: e + e * 3.0), X)
def delayed_and_forced_once(x: Any) -> Any:
    kept: list[Any] = []

    def force() -> Any:
        if not kept:
            kept.append(ta.exp(x))
        return kept[0]

    return force() + force() * 3.0


# -- views ----------------------------------------------------------------------------------------


@straight(lambda x: x.at[1].mul(2.0), X)
def element_through_a_lens(x: Any) -> Any:
    r = ta.ref(x)
    r.at[1].mul(2.0)
    return r.get()


@straight(lambda x, y: (x * y, y), X, Y)
def field_through_a_lens(x: Any, y: Any) -> Any:
    r = ta.ref({"a": x, "b": y})
    r.at["a"].mul(r.at["b"].get())
    return r.get()["a"], r.get()["b"]


@straight(lambda w, x: w.at[1].set(x), W, X)
def row_of_a_transpose(w: Any, x: Any) -> Any:
    r = ta.ref(w)
    r.at[:].T[:, 1].set(x)
    return r.get()


# -- other forms of the language ------------------------------------------------------------------


@straight(lambda x: ta.sin(x) * x, X)
def function_that_is_called(x: Any) -> Any:
    return ta.function(lambda v, f=ta.sin: f(v) * v)(x)


@straight(lambda x: ta.sin(ta.sin(x * 3.0)), X)
def function_of_statics(x: Any) -> Any:
    def iterated(v: Any, n: int) -> Any:
        return ta.sin(own(v, n - 1)) if n else v * 3.0

    own = ta.function(iterated, static_argnames=("n",))
    return own(x, 2)


@straight(lambda x: ta.sin(x) * x, X)
def everything_is_stored(x: Any) -> Any:
    return ta.checkpoint(lambda v: ta.sin(v) * v, policy="all")(x)


@straight(lambda x, y: x * y + ta.sin(y), X, Y)
def pointwise_vmap(x: Any, y: Any) -> Any:
    return ta.vmap(lambda a, b: a * b + ta.sin(b))(x, y)


@straight(lambda x, s: x * s + s, X, S)
def vmap_of_a_closure(x: Any, s: Any) -> Any:
    return ta.vmap(lambda a: a * s + s)(x)


@straight(lambda w, x: w * x + w, W, X)
def vmap_in_vmap(w: Any, x: Any) -> Any:
    return ta.vmap(lambda row: ta.vmap(lambda a, b: a * b + a)(row, x))(w)


@straight(lambda x, y: (ta.sin(x), y * ta.cos(x)), X, Y)
def level(x: Any, y: Any) -> Any:
    with ta.dual_level():
        return tuple(ta.unpack_dual(ta.sin(ta.make_dual(x, y))))


@straight(lambda x: ta.sin(x * 2.0), X)
def rule_that_says_the_same(x: Any) -> Any:
    double = ta.custom_rule(jvp=lambda primals, tangents: tangents[0] * 2.0)(lambda v: v * 2.0)
    return ta.sin(double(x))


@straight(lambda x, s: x * s * s, X, S)
def known_when_it_is_written(x: Any, s: Any) -> Any:
    def power(v: Any, n: Any) -> Any:
        return ta.for_loop(0, n, lambda i, c: c * s, v)

    return ta.partial_eval(power, static={"n": 2})(x)


@straight(lambda x: x * 2.0, S)
def gradient_of_a_closure(x: Any) -> Any:
    return ta.grad(lambda v: v * v)(x)


@straight(lambda x: ta.cos(x), S)
def pullback_that_is_kept(x: Any) -> Any:
    _, pull = ta.vjp(ta.sin, x)
    return {"pull": pull}["pull"](1.0)[0]


@straight(lambda x, y: y * ta.cos(x), X, Y)
def tangent_map_in_a_reference(x: Any, y: Any) -> Any:
    r = ta.ref(ta.linearize(ta.sin, x)[1])
    return r.get()(y)


@straight(lambda w, x: ta.tanh(topi.matmul(w, ta.tanh(topi.matmul(w, x)))), W, X)
def layers_in_a_list(w: Any, x: Any) -> Any:
    def layer(own: Any) -> Function:
        return lambda v: ta.tanh(topi.matmul(own, v))

    return reduce(lambda v, f: f(v), [layer(w), layer(w)], x)


@straight(lambda w, x: topi.matmul(w, x) + x, W, X)
def residual_connection(w: Any, x: Any) -> Any:
    def residual(f: Function) -> Function:
        return lambda v: f(v) + v

    return residual(lambda v: topi.matmul(w, v))(x)


@straight(lambda x: topi.sum(x * x), X)
def sum_of_a_closure(x: Any) -> Any:
    return (lambda f: topi.sum(f(x)))(lambda v: v * v)
