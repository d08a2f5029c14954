"""Functions that data choose, which return functions; results of recursion that are functions."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import DefinitionError
from tensorad.program import carries
from tests.random.whole.plain import Plain

X, H = 0.7, 1e-6


@ta.function
def returned(c: Any, x: Any) -> Any:
    """What is applied captures what the function that returned it captures."""

    def first() -> Any:
        t = ta.sin(x)
        return lambda: lambda v: v * t

    def second() -> Any:
        t = ta.cos(x)
        return lambda: lambda v: v + t

    made = ta.cond(c > 0, first, second)
    return made()(x)


@pytest.mark.parametrize("c", [1.0, -1.0])
def test_a_chosen_function_returns_a_function(c: float) -> None:
    def plain(x: float) -> float:
        return float(x * np.sin(x) if c > 0 else x + np.cos(x))

    at = np.float64(c), np.float64(X)
    assert [float(returned(*at)), float(ta.interpret(returned, *at))] == pytest.approx(
        [plain(X)] * 2
    )
    slope = (plain(X + H) - plain(X - H)) / (2 * H)
    assert float(ta.grad(returned, 1)(*at)) == pytest.approx(slope, rel=1e-6)
    pushed = ta.jvp(lambda x: returned(at[0], x), (at[1],), (1.0,))[1]
    assert float(pushed) == pytest.approx(slope, rel=1e-6)


@ta.function
def power(n: Any, x: Any) -> Any:
    def more() -> Any:
        v = power(n - 1, x)(x)
        return lambda u: u * v

    return ta.cond(n < 1, lambda: lambda u: u * x, more)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_what_a_recursion_returns_is_applied_inside(n: int) -> None:
    f = ta.function(lambda n, x: power(n, x)(x))
    at = n, np.float64(X)
    assert [float(f(*at)), float(ta.interpret(f, *at))] == pytest.approx([X ** (n + 2)] * 2)
    assert float(ta.grad(f, 1)(*at)) == pytest.approx((n + 2) * X ** (n + 1))


Act: Any = ta.variant("Act", Plain={}, Some={"f": ta.Fn, "k": "float64"})


def of_arguments(x: Any, n: Any) -> Any:
    """A function that is given, and the one that it gets, capture `y` of two calls."""

    @ta.function
    def rec(n: Any, f: Any, y: Any) -> Any:
        made = f(lambda t: t * y)
        return ta.cond(n < 1, lambda: made, lambda: rec(n - 1, ta.fn(lambda g: g(made) * y), made))

    return rec(n, ta.fn(lambda g: g(x) + 1.0), x * 2.0)


def plain_of_arguments(x: float, n: int) -> float:
    f, y = (lambda g: g(x) + 1.0), x * 2
    for _ in range(n):
        made = f(lambda t, y=y: t * y)
        f, y = (lambda g, made=made, y=y: g(made) * y), made
    return float(f(lambda t: t * y))


def of_references(x: Any, n: Any) -> Any:
    """What a reference holds is of this call where a function of another one reads it."""
    r, h = ta.ref(x), ta.ref(lambda t: t)

    @ta.function
    def rec(n: Any, f: Any, y: Any) -> Any:
        r.set(y)
        h.set(lambda t: t * y)
        made = f(y)
        again = ta.fn(lambda t: r.get() * y + h.get()(t + y))
        return ta.cond(n < 1, lambda: made, lambda: rec(n - 1, again, made * 0.5))

    return rec(n, ta.fn(lambda t: t + 1.0), x * 2.0)


def plain_of_references(x: float, n: int) -> float:
    f, y = (lambda t, now: t + 1.0), x * 2
    for _ in range(n):
        made = f(y, y)
        f, y = (lambda t, now, y=y: now * y + (t + y) * now), made * 0.5
    return float(f(y, y))


def of_values(x: Any, n: Any) -> Any:
    """The function is in a field of a value, which captures what is in another one."""

    @ta.function
    def rec(n: Any, a: Any, y: Any) -> Any:
        made = ta.match(a, lambda: y, lambda f, k: f(lambda t: t * y) * k)
        again = ta.fn(Act.Some(lambda g: g(made) + y, y))
        return ta.cond(n < 1, lambda: made, lambda: rec(n - 1, again, made))

    return rec(n, ta.fn(Act.Plain()), x * 2.0)


def plain_of_values(x: float, n: int) -> float:
    f, y = (lambda now: now), x * 2
    for _ in range(n):
        made = f(y)
        f, y = (lambda now, made=made, y=y: (made * now + y) * y), made
    return float(f(y))


CAPTURING: dict[str, tuple[Any, Any]] = {
    "arguments": (of_arguments, plain_of_arguments),
    "references": (of_references, plain_of_references),
    "values": (of_values, plain_of_values),
}


@pytest.mark.parametrize("name", list(CAPTURING))
def test_functions_of_several_calls_capture_what_each_had(name: str) -> None:
    f, plain = CAPTURING[name]
    whole = ta.function(f)
    for n in range(4):
        at = np.float64(X), np.int64(n)
        assert float(whole(*at)) == pytest.approx(plain(X, n))
        assert float(ta.interpret(whole, *at)) == pytest.approx(plain(X, n))
        slope = (plain(X + H, n) - plain(X - H, n)) / (2 * H)
        assert float(ta.grad(whole)(*at)) == pytest.approx(slope, rel=1e-6)


def states(count: int) -> Any:
    """The first of functions, each of other code, that give a number and the function after it."""
    lines = [f"def g{k}(x):\n    return x + {k}.0, g{min(k + 1, count - 1)}" for k in range(count)]
    made: dict[str, Any] = {}
    exec("\n".join(lines), made)
    return made["g0"]


@pytest.mark.parametrize("count", [5, pytest.param(70, marks=pytest.mark.slow)])
def test_a_machine_of_states_that_are_functions(count: int) -> None:
    """One more kind in each round, and a part of the program for each: not twice as many."""
    first, at = states(count), np.float64(X)

    @ta.function
    def run(g: Any, x: Any, n: Any) -> Any:
        def more() -> Any:
            y, after = g(x)
            return run(ta.fn(after), y, n - 1)

        return ta.cond(n > 0, more, lambda: x)

    def looped(x: Any, n: Any) -> Any:
        def step(i: Any, c: Any) -> Any:
            y, after = c[0](c[1])
            return ta.fn(after), y * x

        return ta.for_loop(0, n, step, (ta.fn(first), x))[1]

    recursive = ta.function(lambda x, n: run(ta.fn(first), x, n))
    for n in (0, 2, count + 3):
        wanted = at + sum([min(k, count - 1) for k in range(n)])
        assert recursive(at, n) == pytest.approx(wanted, rel=1e-14)
        y = at
        for k in range(n):
            y = (y + min(k, count - 1)) * at
        assert ta.function(looped)(at, n) == pytest.approx(y, rel=1e-12)
    found = ta.grad(looped)(at, count + 3)
    up, down = [ta.function(looped)(at + s * H, count + 3) for s in (1, -1)]
    assert found == pytest.approx((up - down) / (2 * H), rel=1e-6)


def _carried(t: Any, x: Any, n: Any) -> Any:
    def step(i: Any, c: Any) -> Any:
        u, f = c
        g = t.cond(u > 2.0, lambda: lambda v: f(v) + 1.0, lambda: lambda v: f(v) - x)
        return g(u) * 0.5 + 1.0, g

    return t.for_loop(0, n, step, (x, lambda v: v * x))[0]


def _held_by_a_reference(t: Any, x: Any, n: Any) -> Any:
    r = t.ref(lambda v: v * x)

    def step(i: Any, u: Any) -> Any:
        f = r.get()
        r.set(t.cond(u > 2.0, lambda: lambda v: f(v) + 1.0, lambda: lambda v: f(v) - x))
        return r.get()(u) * 0.5 + 1.0

    return t.for_loop(0, n, step, x)


def _in_values(t: Any, x: Any, n: Any) -> Any:
    act = t.variant("Act", Plain={}, Some={"f": t.Fn, "k": "float64"})

    def step(i: Any, c: Any) -> Any:
        u, a = c
        arms = {
            act.Plain: lambda: act.Some(lambda v: v * x, u),
            act.Some: lambda f, k: act.Some(lambda v: f(v) - x, k + 1.0),
        }
        b = t.match(a, arms)
        last = {act.Plain: lambda: u, act.Some: lambda f, k: f(u) * 0.5 + k}
        return t.match(b, last), b

    first = t.cond(x > 5.0, lambda: act.Some(lambda v: v, x), lambda: act.Plain())
    return t.for_loop(0, n, step, (x, first))[0]


@pytest.mark.parametrize("f", [_carried, _held_by_a_reference, _in_values])
def test_loops_apply_the_functions_that_they_compose(f: Any) -> None:
    """A call reaches the function of the round before, whatever rounds have added meanwhile."""
    both = ta.value_and_grad(lambda x, n: f(ta, x, n))
    for n in range(5):
        value, up, down = [f(Plain(), X + h, n) for h in (0.0, H, -H)]
        found = both(np.float64(X), np.int64(n))
        np.testing.assert_allclose(found, (value, (up - down) / (2 * H)), rtol=1e-6, atol=1e-9)


class Scaled:
    """A function with attributes that are set in one order or another."""

    def __init__(self, first: str, **own: Any) -> None:
        setattr(self, first, own[first])
        vars(self).update(own)

    def __call__(self, y: Any) -> Any:
        return self.a * y + self.b  # type: ignore[attr-defined]


def _of_both(y: Any, b: Any = 2.0, c: Any = 3.0) -> Any:
    return y * b + c


WAYS: dict[str, Any] = {
    "keywords": lambda a, b: (partial(_of_both, b=a), partial(_of_both, c=a)),
    "positions and keywords": lambda a, b: (partial(_of_both, a, b), partial(_of_both, a, c=b)),
    "attributes": lambda a, b: (Scaled("a", a=a, b=b), Scaled("b", a=a, b=b)),
}


@pytest.mark.parametrize("name", list(WAYS))
@pytest.mark.parametrize("number", [5.0, None], ids=["numbers", "tensors"])
def test_what_functions_are_made_of_is_told_apart_by_name(name: str, number: float | None) -> None:
    def program(t: Any, x: Any, n: Any) -> Any:
        def step(i: Any, total: Any) -> Any:
            a = x + total if number is None else number
            first, second = WAYS[name](a, a + 2.0)
            return total + t.cond(i % 2 > 0, lambda: first, lambda: second)(x)

        return t.for_loop(0, n, step, x)

    f = ta.function(lambda x, n: program(ta, x, n))
    for n in range(4):
        assert float(f(np.float64(X), np.int64(n))) == pytest.approx(program(Plain(), X, n))


def test_ever_new_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body that makes new code whenever it is written down has no end."""
    monkeypatch.setattr(carries, "MOST_CODES", 3)
    made: list[Any] = []

    def step(i: Any, f: Any) -> Any:
        made.append(eval(f"lambda f: lambda v: f(v) + {len(made)}"))
        return made[-1](f)

    program = ta.function(lambda x, n: ta.for_loop(0, n, step, lambda v: v)(x))
    with pytest.raises(DefinitionError, match="are of more kinds each time, without end"):
        program(np.float64(X), np.int64(3))
