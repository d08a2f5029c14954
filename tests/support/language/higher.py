"""Random programs whose functions, tags and depths of recursion only data tell."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import tensorad as ta
from tensorad.errors import DefinitionError
from tensorad.language import Program, check, interpret, parse, without_dead_code
from tests.support.language.checks import V, X
from tests.support.language.generator import PARAMS, Generator, Names

DATA = """data maybe = none | one(float64[])
data list = nil | cons((float64[], float64[3]), list)

def total(xs) {
  match xs {
    case nil { 0.0 }
    case cons(h, t) { tanh(h[0] + sum(h[1])) + 0.5 * total(t) }
  }
}

def map(g, xs) {
  match xs {
    case nil { inject nil }
    case cons(h, t) { inject cons((g(h[0]), h[1]), map(g, t)) }
  }
}

"""


class Higher(Generator):
    """Writes one program, in which data choose functions and tags."""

    def kinds(self, names: Names, depth: int) -> list[Callable[[Names, int], str]]:
        found = super().kinds(names, depth)
        if depth:
            found += [self.chosen, self.chosen, self.held, self.recursion, self.recursion]
            found += [self.composed, self.chosen_tag, self.listed]
        return found

    def fn(self, names: Names, depth: int) -> str:
        a = self.name("a")
        return f"fn ({a}) {{\n{self.body(names, depth, [a])}\n}}"

    def chosen(self, names: Names, depth: int) -> str:
        """A function that data choose."""
        g, c = self.name("g"), self.some(names)
        then, orelse = self.fn(names, depth), self.fn(names, depth)
        names.functions.append(g)
        return f"{g} = if {c} > 0.1 {{ {then} }} else {{ {orelse} }}"

    def held(self, names: Names, depth: int) -> str:
        """A function in a reference that is written if data say so."""
        r, g, c = self.name("h"), self.name("g"), self.some(names)
        first, then = self.fn(names, depth), self.fn(names, depth)
        names.functions.append(g)
        write = f"if {c} > 0.1 {{ {r} := {then} }} else {{ () }}"
        return f"{r} = ref({first})\n{write}\n{g} = read({r})"

    def recursion(self, names: Names, depth: int) -> str:
        """A function that calls itself as often as data say."""
        f, k, a, s = self.name("f"), self.name("k"), self.name("a"), self.name("s")
        start, count = self.some(names), self.random.choice(["n", "n", "n + 1", "2"])
        text = self.body(names, depth, [a]).split("\n")
        end = self.some(names)
        text[-1] = f"  {f}({k} - 1, {text[-1].strip()})"
        if self.random.random() < 0.3:
            text[-1] = f"  tanh({text[-1].strip()} + {a})"
        names.scalars.append(s)
        body = "\n".join(text)
        head = f"{f} = fn ({k}, {a}) {{ if {k} > 0 {{\n{body}\n}} else {{ {a} + {end} }} }}"
        return f"{head}\n{s} = tanh({f}({count}, {start}))"

    def composed(self, names: Names, depth: int) -> str:
        """A function that becomes another one in each iteration."""
        g, h, b, i = self.name("g"), self.name("h"), self.name("b"), self.name("i")
        first = self.fn(names, depth)
        step = self.some(names)
        names.functions.append(g)
        return (
            f"{g} = loop {i} in [0, n) carry ({h} = {first}) {{\n"
            f"  fn ({b}) {{ tanh({h}({b}) * {step}) }}\n}}"
        )

    def chosen_tag(self, names: Names, depth: int) -> str:
        m, s, a, c = self.name("m"), self.name("s"), self.name("a"), self.some(names)
        one = self.some(names)
        text = self.body(names, depth, [a])
        names.scalars.append(s)
        cases = f"  case none {{ 0.5 * x }}\n  case one({a}) {{\n{text}\n  }}"
        made = f"{m} = if {c} > 0.1 {{ inject one({one}) }} else {{ inject none }}"
        return f"{made}\n{s} = match {m} {{\n{cases}\n}}"

    def listed(self, names: Names, depth: int) -> str:
        """A list as long as data say."""
        s, xs, i = self.name("s"), self.name("l"), self.name("i")
        a, v = self.some(names), self.random.choice(names.vectors)
        made = f"inject cons((tanh({a} + 0.1), {v}), {xs})"
        line = f"{xs} = loop {i} in [0, n) carry ({xs} = inject nil) {{ {made} }}"
        if names.functions:
            line += f"\n{xs}_m = map({self.random.choice(names.functions)}, {xs})"
            xs = f"{xs}_m"
        names.scalars.append(s)
        return f"{line}\n{s} = tanh(total({xs}) + {a})"


def higher_program(seed: int, size: int = 6) -> str:
    """The text of a program with functions f, and d: its derivative by x."""
    text = DATA + Higher(seed).program(size)
    return f"{text}\ndef d({PARAMS}) {{ grad(fn (a) {{ f(a, v, n)[0] }})(x) }}\n"


def _is_refused(program: Program) -> bool:
    """Whether a recursion goes through functions that data choose and that use references."""
    try:
        program["d"].trace(X, V, np.int64(3))
    except DefinitionError as e:
        if "through functions that data choose" in str(e):
            return True
        raise
    return False


def check_higher(seed: int) -> None:
    """Interpreted, evaluated and compiled, without dead code; both modes: the same values."""
    text = higher_program(seed)
    program = parse(text)
    assert str(parse(str(program))) == str(program), text
    check(program)
    short = without_dead_code(program)
    if _is_refused(program):
        return
    value, slope = ta.function(program["f"]), ta.function(program["d"])
    for n in (0, 3):
        args = (X, V, np.int64(n))
        wanted, effects = interpret(program, "f", *args)
        found, fewer = interpret(short, "f", *args)
        for a, b, c in zip(wanted, value(*args), found, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10, err_msg=text)
            np.testing.assert_array_equal(a, c, err_msg=text)
        assert fewer.writes <= effects.writes
        along = interpret(program, "d", *args).result
        np.testing.assert_allclose(along, slope(*args), rtol=1e-7, atol=1e-9, err_msg=text)
