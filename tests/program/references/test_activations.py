"""References that each call of a recursive function makes anew, and functions that use them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import DefinitionError
from tensorad.language import check, interpret, parse
from tests.program.references.test_recursion import Python

Make = Callable[[Any], Callable[[Any, Any], Any]]
X, H = 0.7, 1e-6
DEPTHS = (0, 1, 2, 4)
Pair: Any = ta.variant("Pair", Two={"a": "float64", "b": "float64"})


# what a call made is read and written after the inner call; depth by data or known


def read_after(k: Any) -> Any:
    @k.function
    def f(n: Any, x: Any) -> Any:
        r = k.ref(x * n)

        def inner() -> Any:
            return f(n - 1, x) * x + r.get()

        return k.cond(n < 1, lambda: x * 1.0, inner)

    return f


def written_before_and_after(k: Any) -> Any:
    @k.function
    def f(n: Any, x: Any) -> Any:
        r = k.ref(x * n)
        r.set(r.get() * k.sin(x))

        def inner() -> Any:
            r.add(x)
            v = f(n - 1, x)
            r.mul(v)
            return r.get() + v

        return k.cond(n < 1, lambda: r.get() + x, inner)

    return f


def two_references(k: Any) -> Any:
    @k.function
    def f(n: Any, x: Any) -> Any:
        a, b = k.ref(x * n), k.ref(x + n)

        def inner() -> Any:
            a.set(b.get() * x)
            v = f(n - 1, a.get())
            b.add(v * a.get())
            return a.get() + b.get()

        return k.cond(n < 1, lambda: a.get() + b.get(), inner)

    return f


def functions_of_this_call(k: Any) -> Any:
    """Data choose one of two functions over references made on one line."""

    def reading(r: Any) -> Any:
        return lambda: r.get()

    @k.function
    def f(n: Any, x: Any) -> Any:
        a, b = [k.ref(x * s) for s in (1.0, 2.0)]
        g = k.cond(x * n > 1.0, lambda: reading(a), lambda: reading(b))
        a.set(x * 5.0 + n)
        b.set(x * 9.0 - n)

        def inner() -> Any:
            v = f(n - 1, x)
            b.add(v)
            return v + g()

        return k.cond(n < 1, lambda: g() * 1.0, inner)

    return f


def mutual(k: Any) -> Any:
    @k.function
    def even(n: Any, x: Any) -> Any:
        r = k.ref(x * n)

        def inner() -> Any:
            v = odd(n - 1, x)
            r.add(v)
            return r.get() * x

        return k.cond(n < 1, lambda: x * 1.0, inner)

    @k.function
    def odd(n: Any, x: Any) -> Any:
        r = k.ref(x + n)

        def inner() -> Any:
            v = even(n - 1, r.get())
            return r.get() + v

        return k.cond(n < 1, lambda: r.get() * 2.0, inner)

    return even


def a_value_in_a_reference(k: Any) -> Any:
    @k.function
    def f(n: Any, x: Any) -> Any:
        r = k.ref(k.pair(x * n, x))

        def inner() -> Any:
            v = f(n - 1, x)
            a, b = k.parts(r.get())
            r.set(k.pair(b * v, a))
            a, b = k.parts(r.get())
            return a + b

        return k.cond(n < 1, lambda: x * 2.0, inner)

    return f


# functions over references of one call, given to calls inside: which depth has to be known


def read_inside(k: Any) -> Any:
    @k.function
    def f(n: Any, g: Any, x: Any) -> Any:
        r = k.ref(x * n)

        def inner() -> Any:
            return f(n - 1, k.fn(lambda: r.get()), x) + g()

        return k.cond(n < 1, lambda: g() * 1.0, inner)

    return lambda n, x: f(n, k.fn(lambda: x * 7.0), x)


def written_inside(k: Any) -> Any:
    @k.function
    def f(n: Any, g: Any, x: Any) -> Any:
        r = k.ref(x * n)

        def inner() -> Any:
            def w(v: Any) -> Any:
                r.add(v * x)
                return v

            return f(n - 1, k.fn(w), x) + r.get()

        g(x * n + 1.0)
        return k.cond(n < 1, lambda: x * 1.0, inner)

    return lambda n, x: f(n, k.fn(lambda v: v), x)


def written_first(k: Any) -> Any:
    @k.function
    def f(n: Any, g: Any, x: Any) -> Any:
        r = k.ref(x * 1.0)
        r.set(g(x) * n)

        def inner() -> Any:
            h = k.fn(lambda v: v * r.get())
            r.set(r.get() + n)
            return f(n - 1, h, x)

        return k.cond(n < 1, lambda: g(x) + r.get(), inner)

    return lambda n, x: f(n, k.fn(lambda v: v), x)


def written_later(k: Any) -> Any:
    @k.function
    def f(n: Any, g: Any, x: Any) -> Any:
        r = k.ref(x * n)

        def inner() -> Any:
            h = k.fn(lambda v: v * r.get())
            r.set(f(n - 1, h, x))
            return h(x) + r.get()

        return k.cond(n < 1, lambda: g(x) * 1.0, inner)

    return lambda n, x: f(n, k.fn(lambda v: v), x)


def by_another_function(k: Any) -> Any:
    @k.function
    def f(n: Any, g: Any, x: Any) -> Any:
        r = k.ref(x * n)
        return k.cond(n < 1, lambda: g() * x, lambda: h(n - 1, k.fn(lambda: r.get()), x) + r.get())

    @k.function
    def h(n: Any, g: Any, x: Any) -> Any:
        return k.cond(n < 1, lambda: g() + x, lambda: f(n - 1, g, x) * g())

    return lambda n, x: f(n, k.fn(lambda: x), x)


def returned(k: Any) -> Any:
    @k.function
    def f(n: Any, x: Any) -> Any:
        r = k.ref(x * n)

        def inner() -> Any:
            r.set(r.get() + f(n - 1, x)())
            return k.fn(lambda: r.get())

        return k.cond(n < 1, lambda: k.fn(lambda: r.get()), inner)

    return lambda n, x: f(n, x)()


OWN: list[Make] = [
    read_after, written_before_and_after, two_references, functions_of_this_call, mutual,
    a_value_in_a_reference,
]  # fmt: skip
GIVEN: list[Make] = [
    read_inside, written_inside, written_first, written_later, by_another_function, returned
]  # fmt: skip


class Plain(Python):
    def pair(self, a: Any, b: Any) -> Any:
        return (a, b)

    def parts(self, pair: Any) -> Any:
        return pair


class Traced:
    ref, fn, cond = staticmethod(ta.ref), staticmethod(ta.fn), staticmethod(ta.cond)
    sin, function = staticmethod(ta.sin), staticmethod(ta.function)

    def pair(self, a: Any, b: Any) -> Any:
        return Pair.Two(a, b)

    def parts(self, pair: Any) -> Any:
        return ta.match(pair, lambda a, b: (a, b))


def differences(f: Callable[[float], float]) -> float:
    return (f(X + H) - f(X - H)) / (2 * H)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("make", OWN)
def test_data_tell_the_depth(make: Make) -> None:
    plain = make(Plain())
    f = ta.function(make(Traced()))
    along = ta.function(lambda n, x: ta.jvp(lambda x: f(n, x), (x,), (1.0,))[1])
    for n in DEPTHS:
        at = n, np.float64(X)
        found = float(f(*at)), float(ta.interpret(f, *at))
        assert found == pytest.approx([plain(n, X)] * 2)
        slope = differences(lambda x, n=n: plain(n, x))
        found = float(ta.grad(f, 1)(*at)), float(along(*at))
        assert found == pytest.approx([slope] * 2, rel=1e-5)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("make", OWN + GIVEN)
def test_a_known_depth(make: Make) -> None:
    plain = make(Plain())
    f = ta.function(make(Traced()))
    for n in DEPTHS:
        known = ta.partial_eval(f, static={"n": n})
        x = np.float64(X)
        assert "recur" not in str(known.steps(x).result)
        assert float(known(x)) == pytest.approx(plain(n, X))
        slope = differences(lambda x, n=n: plain(n, x))
        pushed = ta.jvp(known, (x,), (1.0,))[1]
        assert [float(ta.grad(known)(x)), float(pushed)] == pytest.approx([slope] * 2, rel=1e-5)


@pytest.mark.parametrize("make", GIVEN)
def test_which_call_is_meant_is_not_known(make: Make) -> None:
    """A trace has one reference for all calls: a function of it in another call is refused."""
    with pytest.raises(DefinitionError, match="each call makes the reference ref made at"):
        ta.function(make(Traced()))(2, np.float64(X))


TEXTS = {
    "read inside": """def go(n, k, x) {
  r = ref(x * n)
  if n > 0.0 { g = fn () { read(r) }
    v = go(n - 1.0, g, x)
    v + k() } else { k() }
}
def f(n, x) { go(n, fn () { x * 7.0 }, x) }""",
    "written inside": """def go(n, k, x) {
  r = ref(x * n)
  d = k(x * n + 1.0)
  if n > 0.0 { w = fn (v) { r := read(r) + v * x
      v }
    v = go(n - 1.0, w, x)
    v + read(r) } else { x }
}
def f(n, x) { go(n, fn (v) { v }, x) }""",
    "written first": """def go(n, k, x) {
  r = ref(x)
  r := k(x) * n
  if n > 0.0 { g = fn (v) { v * read(r) }
    r := read(r) + n
    go(n - 1.0, g, x) } else { k(x) + read(r) }
}
def f(n, x) { go(n, fn (v) { v }, x) }""",
    "written later": """def go(n, k, x) {
  r = ref(x * n)
  if n > 0.0 { g = fn (v) { v * read(r) }
    v = go(n - 1.0, g, x)
    r := v
    g(x) + read(r) } else { k(x) }
}
def f(n, x) { go(n, fn (v) { v }, x) }""",
    "a reference is given": """def go(n, r, x) {
  q = ref(x * n)
  if n > 0.0 { v = go(n - 1.0, q, x)
    r := read(r) + v
    v + read(q) + read(r) } else { r := read(r) * x
    read(r) }
}
def f(n, x) { r = ref(x)
  y = go(n, r, x)
  y + read(r) }""",
}
CHOSEN = """def go(n, k, x) {
  r = ref(x * n)
  h = if n > 2.5 { fn (v) { v + read(r) } } else { k }
  if n > 0.0 { v = go(n - 1.0, h, x)
    v + h(x) } else { k(x) }
}
def f(n, x) { go(n, fn (v) { v }, x) }"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", TEXTS)
def test_texts(name: str) -> None:
    program = parse(TEXTS[name])
    check(program)
    f = program["f"]

    def interpreted(n: int, x: float) -> float:
        return float(interpret(program, "f", np.float64(n), np.float64(x)).result)

    for n in DEPTHS:
        at = np.float64(n), np.float64(X)
        assert float(f(*at)) == pytest.approx(interpreted(n, X))
        slope = differences(lambda x, n=n: interpreted(n, x))
        assert float(ta.grad(f, 1)(*at)) == pytest.approx(slope, rel=1e-5)


def test_texts_whose_data_choose_which_call() -> None:
    with pytest.raises(DefinitionError, match="each call makes the reference r made at line 2"):
        parse(CHOSEN)["f"](np.float64(3.0), np.float64(X))


def test_functions_over_references_of_one_line_differ() -> None:
    @ta.function
    def f(c: Any, x: Any) -> Any:
        def body(i: Any, s: Any) -> Any:
            a, b = [ta.ref(s * k) for k in (1.0, 2.0)]
            g = ta.cond(c > 0, lambda: lambda: a.get(), lambda: lambda: b.get())
            h = ta.cond(c > 0, lambda: reading(a), lambda: reading(b))
            a.set(s * 5.0)
            b.set(s * 9.0)
            return g() + h()

        return ta.for_loop(0, 2, body, x)

    def reading(r: Any) -> Any:
        return lambda: r.get()

    for c, want in ((1.0, 100.0), (-1.0, 324.0)):
        assert float(f(np.float64(c), np.float64(1.0))) == want
        assert float(ta.grad(f, 1)(np.float64(c), np.float64(1.0))) == want
