"""Statements with values that hold functions, which data choose."""

from __future__ import annotations

from tests.random.whole.forms import name_of
from tests.random.whole.texts import Statement
from tests.random.whole.writer import Names, Writer


def acted(w: Writer, names: Names) -> Statement:
    """What a value does that a branch returns, a loop carries or a reference holds."""
    a, s = w.name("act"), w.name("s")
    way = w.rng.choice(["", "", "loop", "composed", "held"])
    functions = [f for f in names.functions if not way or f not in names.touching | names.looking]

    def closure(own: Names, of: str = "y") -> str:
        inner = own.inner()
        inner.numbers += [of] * 4
        return f"lambda y: {w.bounded(inner)}"

    def result(own: Names) -> str:
        if w.chance(0.3):
            return "Act.Plain()"
        f = w.rng.choice(functions) if functions and w.chance(0.4) else closure(own)
        return f"Act.Scaled({f}, {w.number(own)})"

    def shown(of: str) -> str:
        arms = f"Act.Plain: lambda: {w.number(names)}"
        arms += f", Act.Scaled: lambda f, k: ta.tanh(f({w.number(names)}) * k)"
        return f"ta.match({of}, {{{arms}}})"

    arms = [w.define(w.name("arm"), [], names.inner(), result) for _ in range(2)]
    lines = [f"{a} = ta.cond({w.test(names)}, {', '.join(map(name_of, arms))})"]
    if way == "loop":
        made = f"lambda: Act.Scaled({closure(names)}, {shown('b')})"
        body = f"lambda i, b: ta.cond({shown('b')} > 0.1, {made}, lambda: b)"
        lines.append(f"{a} = ta.for_loop(0, {w.times(names)}, {body}, {a})")
    elif way == "composed":
        made = f"lambda f, k: Act.Scaled(lambda y: ta.sin(f(y) + k), {w.number(names)})"
        body = (
            f"lambda i, b: ta.match(b, {{Act.Plain: lambda: {result(names)}, Act.Scaled: {made}}})"
        )
        lines.append(f"{a} = ta.for_loop(0, {w.times(names)}, {body}, {a})")
    elif way == "held":
        p = w.name("r")
        lines += [
            f'{p} = ta.ref({result(names)}, "local")',
            f"ta.cond({w.test(names)}, lambda: {p}.set({a}), lambda: None)",
            f"{a} = {p}.get()",
        ]
    lines.append(f"{s} = {shown(a)}")
    names.numbers.append(s)
    return Statement([*arms, *lines], (a, s))
