"""The same for programs with state: references, closures that change, branches and loops."""

from __future__ import annotations

from functools import reduce
from typing import Any, Final

import numpy as np

import tensorad as ta
from tests.support.programs.straight import STRAIGHT, Function, N, S, X, Y, let, straight

WITH_STATE: Final = STRAIGHT
"""All of them, those with state entered."""


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
