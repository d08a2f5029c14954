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


# -- state ----------------------------------------------------------------------------------------


def _bind(m: Function, f: Function) -> Function:
    def run(state: Any) -> Any:
        value, after = m(state)
        return f(value)(after)

    return run


@straight(lambda x, s: (x + s) * (x + s + s), X, S)
def state_monad(x: Any, s: Any) -> Any:
    def tick(state: Any) -> Any:
        return state + s, state + s

    both = _bind(tick, lambda a: _bind(tick, lambda b: lambda state: (a * b, state)))
    return both(x)[0]


@straight(lambda x: let(ta.sin(x), lambda s: (s * 2.0, x + s)), X)
def writer_monad(x: Any) -> Any:
    def told(value: Any, log: list[Any]) -> Function:
        def then(f: Function) -> Any:
            result, more = f(value)
            return result, [*log, *more]

        return then

    value, log = told(ta.sin(x), [x])(lambda v: (v * 2.0, [v]))
    return value, reduce(lambda a, b: a + b, log)


@straight(lambda x, y: ta.log(x * x + 1.0) + y, X, Y)
def maybe_monad(x: Any, y: Any) -> Any:
    def then(v: Any, f: Function) -> Any:
        return None if v is None else f(v)

    found = then(then(x, lambda v: v * v + 1.0), ta.log)
    return y if then(None, lambda v: x) is not None else found + y


@straight(lambda x, s: x + s + s + s, X, S)
def counter_in_a_closure(x: Any, s: Any) -> Any:
    total = x

    def add() -> None:
        nonlocal total
        total = total + s

    for _ in range(3):
        add()
    return total


@straight(lambda x: x * 2.0 + 1.0, X)
def reference_in_a_line(x: Any) -> Any:
    r = ta.ref(x)
    r.set(r.get() * 2.0)
    r.add(1.0)
    return r.get()


@straight(lambda x, y: x * y * y, X, Y)
def reference_with_two_names(x: Any, y: Any) -> Any:
    r = ta.ref(x)
    names = {"a": r, "b": (r, [r])}
    for own in (names["a"], names["b"][1][0]):
        own.mul(y)
    return r.get()


@straight(lambda x, y: (y, x), X, Y)
def references_that_are_swapped(x: Any, y: Any) -> Any:
    a, b = ta.ref(x), ta.ref(y)

    def swap() -> None:
        held = a.get()
        a.set(b.get())
        b.set(held)

    for _ in range(3):
        swap()
    return a.get(), b.get()


@straight(lambda x: x * x, X)
def reference_of_a_reference(x: Any) -> Any:
    inner, other = ta.ref(x), ta.ref(ta.exp(x))
    pointer = ta.ref(other)
    pointer.set(inner)
    pointer.get().mul(x)
    return inner.get()


@straight(lambda x, s: ta.tanh(x * s) * s, X, S)
def functions_in_a_reference(x: Any, s: Any) -> Any:
    f = ta.ref(lambda v: v * s)
    before = f.get()
    f.set(lambda v: before(ta.tanh(before(v))))
    return f.get()(x)


@straight(lambda x: x * 3.0, X)
def dead_references(x: Any) -> Any:
    unused, written = ta.ref(ta.exp(x)), ta.ref(x)
    unused.mul(x)
    for n in range(3):
        written.set(x * float(n + 1))
    return written.get()


@straight(lambda x: let(ta.sin(x), lambda s: s + s), X)
def memo_in_a_reference(x: Any) -> Any:
    memo = {"sine": ta.ref(x)}
    known: set[str] = set()

    def sine() -> Any:
        if "sine" not in known:
            known.add("sine")
            memo["sine"].set(ta.sin(x))
        return memo["sine"].get()

    return sine() + sine()


@straight(lambda x, y: (x + y, x * 0.0 + 2.0), X, Y)
def accumulators(x: Any, y: Any) -> Any:
    def accumulator(first: Any) -> tuple[Function, Function]:
        r = ta.ref(first)
        return r.add, r.get

    add, total = accumulator(x)
    count, counted = accumulator(x * 0.0)
    add(y)
    count(1.0)
    count(1.0)
    return total(), counted()


@straight(lambda x, y: let(x * 2.0, lambda a: (a * y) * a), X, Y)
def undone_by_hand(x: Any, y: Any) -> Any:
    r, log = ta.ref(x * 2.0), []
    log.append(r.get())
    r.mul(y)
    product = r.get() * log[-1]
    r.set(log.pop())
    return product


@straight(lambda x: let(x * 2.0, lambda a: (a, x + a)), X)
def ring_in_a_reference(x: Any) -> Any:
    ring = ta.ref((x, x * 2.0))

    def turn() -> Any:
        first, second = ring.get()
        ring.set((second, first))
        return first

    _, second, third = turn(), turn(), turn()
    return second, third + second


@straight(lambda x, s: x * s + -s, X, S)
def observers(x: Any, s: Any) -> Any:
    seen = ta.ref(x)
    calls = [seen.mul, lambda v: seen.add(-v)]
    for call in calls:
        call(s)
    return seen.get()


# -- branches and loops ---------------------------------------------------------------------------


@straight(lambda x: x * 2.0, X)
def branch_known_to_the_trace(x: Any) -> Any:
    r = ta.ref(x)
    (r.mul if len(x.shape) == 1 else r.add)(2.0)
    return r.get()


@straight(lambda x, s: ta.cond(s > 0.0, lambda: x * s, lambda: ta.sin(x)), S, S)
def write_under_a_branch(x: Any, s: Any) -> Any:
    r = ta.ref(x)
    ta.cond(s > 0.0, lambda: r.mul(s), lambda: r.set(ta.sin(r.get())))
    return r.get()


@straight(lambda x, s: ta.cond(s > 0.0, lambda: (x * s, s), lambda: (x, x)), S, S)
def two_references_under_a_branch(x: Any, s: Any) -> Any:
    a, b = ta.ref(x), ta.ref(x)

    def first() -> None:
        a.mul(s)
        b.set(s)

    ta.cond(s > 0.0, first, lambda: None)
    return a.get(), b.get()


@straight(lambda x, s: ta.cond(s > 0.0, lambda: ta.sin(x), lambda: x * s), S, S)
def closures_in_both_arms(x: Any, s: Any) -> Any:
    def arm(f: Function) -> Function:
        return lambda: f(x)

    return ta.cond(s > 0.0, arm(ta.sin), arm(lambda v: v * s))


@straight(lambda x, k: ta.switch(k, [lambda: x, lambda: x * x, lambda: ta.exp(x)]), S, np.int64(1))
def reference_in_a_switch(x: Any, k: Any) -> Any:
    r = ta.ref(x)
    ta.switch(k, [lambda: None, lambda: r.mul(x), lambda: r.set(ta.exp(r.get()))])
    return r.get()


@straight(lambda x, n: ta.for_loop(0, n, lambda i, c: c * x + 1.0, x), S, N)
def reference_in_a_loop(x: Any, n: Any) -> Any:
    r = ta.ref(x)
    ta.for_loop(0, n, lambda i, c: (r.set(r.get() * x + 1.0), c)[1], None)
    return r.get()


@straight(lambda x: ta.while_loop(lambda c: c < 10.0, lambda c: c * 2.0 + x, x), S)
def reference_in_a_condition(x: Any) -> Any:
    r = ta.ref(x)
    ta.while_loop(lambda _: r.get() < 10.0, lambda c: (r.set(r.get() * 2.0 + x), c)[1], ())
    return r.get()


@straight(lambda xs, s: ta.scan(lambda c, v: (c * s + v, c), s, xs)[1], X, S)
def reference_in_a_scan(xs: Any, s: Any) -> Any:
    r = ta.ref(s)

    def step(c: Any, v: Any) -> Any:
        held = r.get()
        r.set(held * s + v)
        return c, held

    return ta.scan(step, None, xs)[1]


@straight(
    lambda x, n: ta.for_loop(
        0, n, lambda i, c: ta.cond(c > 1.0, lambda: c * 0.5, lambda: c + x), x
    ),
    S, N,
)  # fmt: skip
def branch_in_a_loop(x: Any, n: Any) -> Any:
    r = ta.ref(x)

    def step(i: Any, c: Any) -> Any:
        ta.cond(r.get() > 1.0, lambda: r.mul(0.5), lambda: r.add(x))
        return c

    ta.for_loop(0, n, step, None)
    return r.get()


@straight(lambda x, n: ta.for_loop(0, n, lambda i, c: ta.sin(c * x) * x, x), S, N)
def closure_in_a_loop(x: Any, n: Any) -> Any:
    def scaled(f: Function) -> Function:
        return lambda v: f(v * x) * x

    return ta.for_loop(0, n, lambda i, c: scaled(ta.sin)(c), x)


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
