"""Alternatives with functions in them in loops of all kinds, references, texts; what is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import DefinitionError
from tensorad.ir.text.parser import parse_program

F64 = np.float64
H = 1e-6
Act: Any = ta.variant("Act", Plain={}, Scaled={"f": ta.Fn, "k": "float64"})
Chain: Any = ta.variant("Chain", End={}, Link={"rest": "Chain", "f": ta.Fn})
Plain = Callable[[float, float], float]
Known = tuple[Callable[[float], float], float] | None
"""An `Act` of plain Python; None for `Plain`."""


def shallow(a: Any, x: Any) -> Any:
    return ta.match(a, lambda: x * x, lambda f, k: f(x) * k)


def plainly(a: Known, x: float) -> float:
    return x * x if a is None else a[0](x) * a[1]


def scaled(s: float, x: float) -> Known:
    return lambda t: t * s + x, s


def in_while(x: Any, n: Any) -> Any:
    def body(c: Any) -> Any:
        a, k = c
        s = shallow(a, x)
        made = ta.cond(k > 1.0, lambda: Act.Scaled(lambda t: t * s + x, s), lambda: Act.Plain())
        return made, k + 1.0

    return shallow(ta.while_loop(lambda c: c[1] < n * 3.0, body, (Act.Plain(), 0.0))[0], x)


def plain_in_while(x: float, n: float) -> float:
    a: Known = None
    k = 0.0
    while k < n * 3:
        a = scaled(plainly(a, x), x) if k > 1 else None
        k += 1
    return plainly(a, x)


def in_scan(x: Any, n: Any) -> Any:
    def step(a: Any, e: Any) -> Any:
        s = shallow(a, x) * e
        made = ta.cond(s > n, lambda: Act.Scaled(lambda t: t * s + x, s), lambda: Act.Plain())
        return made, s

    a, ys = ta.scan(step, Act.Plain(), ta.topi.stack([x, x * 2.0, x + 1.0, x * 3.0]))
    return shallow(a, x) + ys.sum()


def plain_in_scan(x: float, n: float) -> float:
    a: Known = None
    total = 0.0
    for e in (x, x * 2, x + 1, x * 3):
        s = plainly(a, x) * e
        a = scaled(s, x) if s > n else None
        total += s
    return total + plainly(a, x)


def recomputed(checkpoint: Any) -> Callable[[Any, Any], Any]:
    def f(x: Any, n: Any) -> Any:
        def step(i: Any, a: Any) -> Any:
            s = shallow(a, x)
            return ta.cond(s > n, lambda: Act.Scaled(lambda t: t * s + x, s), lambda: Act.Plain())

        return shallow(ta.for_loop(0, 5, step, Act.Plain(), checkpoint=checkpoint), x)

    return f


def plain_recomputed(x: float, n: float) -> float:
    a: Known = None
    for _ in range(5):
        s = plainly(a, x)
        a = scaled(s, x) if s > n else None
    return plainly(a, x)


@ta.checkpoint
def checkpointed(a: Any, x: Any) -> Any:
    return shallow(a, x)


def in_a_checkpoint(x: Any, n: Any) -> Any:
    a = ta.cond(n > 0.5, lambda: Act.Scaled(lambda t: t * x, x), lambda: Act.Plain())
    return checkpointed(a, x)


def composed(x: Any, n: Any) -> Any:
    """What is carried is made of a function in a field of what was carried before."""

    def step(i: Any, a: Any) -> Any:
        def more(f: Any, k: Any) -> Any:
            return Act.Scaled(lambda t: f(t * k) + k, k * x)

        return ta.match(a, lambda: Act.Scaled(lambda t: t * x, x), more)

    return shallow(ta.for_loop(0, (n * 3.0).astype("int64"), step, Act.Plain()), x)


def plain_composed(x: float, n: float) -> float:
    a: Known = None
    for _ in range(int(n * 3)):
        if a is None:
            a = (lambda t: t * x), x
        else:
            f, k = a
            a = (lambda t, f=f, k=k: f(t * k) + k), k * x
    return plainly(a, x)


def composed_of_chosen(x: Any, n: Any) -> Any:
    """The same of a value that data chose before, and an arm gives another alternative."""
    start = ta.cond(n > 0.5, lambda: Act.Scaled(ta.sin, x), lambda: Act.Plain())

    def step(i: Any, a: Any) -> Any:
        def more(f: Any, k: Any) -> Any:
            return Act.Scaled(lambda t: f(t * k) + k, k * x)

        return ta.match(a, lambda: Act.Plain(), more)

    return shallow(ta.for_loop(0, (n * 3.0).astype("int64"), step, start), x)


def plain_composed_of_chosen(x: float, n: float) -> float:
    a: Known = ((lambda t: float(np.sin(t))), x) if n > 0.5 else None
    for _ in range(int(n * 3)):
        if a is not None:
            f, k = a
            a = (lambda t, f=f, k=k: f(t * k) + k), k * x
    return plainly(a, x)


@ta.function
def run(a: Any, x: Any) -> Any:
    return ta.match(a, lambda: x * x, lambda rest, f: f(run(rest, x)))


@ta.function
def reverse(a: Any, done: Any) -> Any:
    def more(rest: Any, f: Any) -> Any:
        return reverse(rest, ta.fn(Chain.Link(done, f)))

    return ta.match(a, lambda: done, more)


def reversed_chain(x: Any, n: Any) -> Any:
    """A recursion puts functions out of fields into other values."""

    def step(i: Any, a: Any) -> Any:
        s = x * (i + 1.0)
        return Chain.Link(a, lambda t: t * s + s)

    made = ta.for_loop(0, (n * 3.0).astype("int64"), step, Chain.End())
    return run(reverse(made, ta.fn(Chain.End())), x)


def plain_reversed_chain(x: float, n: float) -> float:
    y = x * x
    for i in reversed(range(int(n * 3))):
        y = y * x * (i + 1) + x * (i + 1)
    return y


def written(x: Any, n: Any) -> Any:
    """A reference holds any alternative, set by data or not."""
    r = ta.ref(Act.Plain())
    y = shallow(r.get(), x)
    r.set(Act.Scaled(lambda t: t * x, x))
    y = y + shallow(r.get(), x)
    ta.cond(n > 0.5, lambda: r.set(Act.Plain()), lambda: None)
    y = y * 2.0 + shallow(r.get(), x)
    r.set(Act.Scaled(ta.sin, 2.0))
    y = y * 2.0 + shallow(r.get(), x)
    r.set(Act.Plain())
    return y * 2.0 + shallow(r.get(), x)


def plain_written(x: float, n: float) -> float:
    y = x * x + x**3
    y = y * 2 + (x * x if n > 0.5 else x**3)
    y = y * 2 + float(np.sin(x)) * 2
    return y * 2 + x * x


CASES: dict[str, tuple[Any, Plain]] = {
    "while": (in_while, plain_in_while),
    "scan": (in_scan, plain_in_scan),
    "sqrt": (recomputed("sqrt"), plain_recomputed),
    "every other one": (recomputed(2), plain_recomputed),
    "checkpoint": (in_a_checkpoint, lambda x, n: x**3 if n > 0.5 else x * x),
    "composed": (composed, plain_composed),
    "composed of chosen": (composed_of_chosen, plain_composed_of_chosen),
    "reversed": (reversed_chain, plain_reversed_chain),
    "written": (written, plain_written),
}
AT = [(0.7, 0.3), (0.7, 0.7), (0.8, 1.4)]


@pytest.mark.slow
@pytest.mark.parametrize("name", list(CASES))
def test_values_and_derivatives(name: str) -> None:
    f, plain = CASES[name]
    whole = ta.function(f)
    for x, n in AT:
        given = F64(x), F64(n)
        assert float(whole(*given)) == pytest.approx(plain(x, n))
        assert float(ta.interpret(whole, *given)) == pytest.approx(plain(x, n))
        slope = (plain(x + H, n) - plain(x - H, n)) / (2 * H)
        assert float(ta.grad(whole)(*given)) == pytest.approx(slope, rel=1e-6)
        assert float(ta.jvp(whole, given, (1.0, 0.0))[1]) == pytest.approx(slope, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(CASES))
def test_second_derivatives_and_many_examples(name: str) -> None:
    f, plain = CASES[name]
    first = ta.grad(f)
    for x, n in AT:
        ahead, behind = (float(first(F64(x + h), F64(n))) for h in (1e-5, -1e-5))
        twice = float(ta.grad(first)(F64(x), F64(n)))
        assert twice == pytest.approx((ahead - behind) / 2e-5, rel=1e-6, abs=1e-8)
    rows = ta.vmap(ta.function(f))(*np.array(AT).T)
    assert np.allclose(rows, [plain(*one) for one in AT])


@pytest.mark.parametrize("name", ["checkpoint", "composed"])
def test_texts_and_what_is_known(name: str) -> None:
    f, plain = CASES[name]
    text = str(ta.function(f).trace(F64(0.7), F64(1.0)))
    assert str(parse_program(text)) == text
    known = ta.partial_eval(ta.function(f), static={"n": F64(0.7)})
    assert float(known(F64(0.7))) == pytest.approx(plain(0.7, 0.7))
    assert "branch" not in str(known.trace(F64(0.7)))


def test_a_reference_outside_of_programs_holds_any_alternative() -> None:
    r = ta.ref(Act.Plain())
    r.set(Act.Scaled(ta.sin, F64(2.0)))
    held = r.get()
    assert isinstance(held, Act.Scaled) and float(held.k) == 2.0
    r.set(Act.Plain())
    assert isinstance(r.get(), Act.Plain)
    with pytest.raises(DefinitionError, match="is written with another structure"):
        r.set(Chain.End())


def test_what_runs_is_what_the_value_is() -> None:
    """Each function counts its calls when the compiled program runs."""
    calls: Counter[str] = Counter()

    def counting(name: str) -> Any:
        def sine(a: Any) -> Any:
            calls[name] += 1
            return np.sin(a)

        rule = ta.custom_rule(vjp=lambda out, h, a: [h * ta.cos(a)])
        return ta.foreign(sine, lambda a: a, rule)

    one, two, plain = (counting(name) for name in ("one", "two", "plain"))

    def f(x: Any, n: Any) -> Any:
        def step(i: Any, c: Any) -> Any:
            a, s = c
            s = ta.match(a, lambda: plain(s), lambda f, k: f(s) * k)
            ways = [lambda: Act.Plain(), lambda: Act.Scaled(one, x), lambda: Act.Scaled(two, s)]
            return ta.switch((i + n) % 3, ways), s

        return ta.for_loop(0, 7, step, (Act.Plain(), x))[1]

    whole = ta.function(f)
    whole(F64(0.7), np.int64(0))
    calls.clear()
    whole(F64(0.7), np.int64(0))  # plain, then what 0, 1, 2, 0, 1, 2 chose
    assert calls == {"plain": 3, "one": 2, "two": 2}
    calls.clear()
    whole(F64(0.7), np.int64(1))
    assert calls == {"plain": 3, "one": 2, "two": 2} and sum(calls.values()) == 7


def test_a_value_that_is_taken_apart_and_grows_without_end_is_refused() -> None:
    def f(x: Any) -> Any:
        def step(i: Any, a: Any) -> Any:
            def more(rest: Any, g: Any) -> Any:
                return Chain.Link(Chain.Link(rest, g), lambda t: g(t) + x)

            return ta.match(a, lambda: Chain.Link(Chain.End(), ta.sin), more)

        return run(ta.fn(ta.for_loop(0, 3, step, Chain.End())), x)

    with pytest.raises(DefinitionError, match="are of more kinds each time, without end"):
        ta.function(f)(F64(0.7))
