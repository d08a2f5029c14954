"""Random programs of the language: closures, references, aliases, branches, loops, derivatives."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

PARAMS = "x : float64[], v : float64[3], n : int64[]"
"""What each program is given: n tells how often some loops run."""


@dataclass
class Names:
    """Names in reach, by what they are."""

    scalars: list[str] = field(default_factory=list)
    vectors: list[str] = field(default_factory=list)
    refs: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)

    def copy(self) -> Names:
        return Names(list(self.scalars), list(self.vectors), list(self.refs), list(self.functions))


class Generator:
    """Writes one program.

    Args:
        has_control: whether data choose branches and tell how often loops run.
    """

    def __init__(self, seed: int, has_control: bool = True) -> None:
        self.random = random.Random(seed)
        self.has_control = has_control
        self.count = 0

    def name(self, letter: str) -> str:
        self.count += 1
        return f"{letter}_{self.count}"

    def program(self, size: int = 10) -> str:
        names = Names(["x"], ["v"])
        lines = self.lines(names, size, 3)
        total = " + ".join([*self.random.sample(names.scalars, min(3, len(names.scalars)))])
        held = [f"read({r})" for r in names.refs[:2]]
        lines.append(f"  out = {total}" + "".join([f" + {h}" for h in held]))
        lines.append(f"  (out, {self.random.choice(names.vectors)})")
        return f"def f({PARAMS}) {{\n" + "\n".join(lines) + "\n}\n"

    def lines(self, names: Names, size: int, depth: int) -> list[str]:
        """Statements, which add names."""
        found: list[str] = []
        for _ in range(size):
            make = self.random.choice(self.kinds(names, depth))
            found += [f"  {line}" for line in make(names, depth).split("\n")]
        return found

    def kinds(self, names: Names, depth: int) -> list[Callable[[Names, int], str]]:
        found = [self.scalar, self.scalar, self.vector, self.formula, self.new, self.parts]
        if names.refs:
            found += [self.write, self.write, self.read, self.alias]
        if names.functions:
            found += [self.call, self.call]
        if depth:
            found += [self.function, self.derivative, self.known_loop, self.tagged]
            if self.has_control:
                found += [self.branch, self.branch, self.loop, self.ending_loop]
        return found

    def some(self, names: Names) -> str:
        """A scalar: of the last ones more often."""
        return self.random.choice(names.scalars[-4:] + names.scalars)

    def scalar(self, names: Names, depth: int) -> str:
        a, b = self.some(names), self.some(names)
        text = self.random.choice(
            [f"sin({a})", f"tanh({a} * {b})", f"{a} + {b}", f"{a} * 0.5 - 0.25", f"cos({a}) * {b}"]
        )
        new = self.name("s")
        names.scalars.append(new)
        return f"{new} = {text}"

    def vector(self, names: Names, depth: int) -> str:
        a, s = self.random.choice(names.vectors), self.some(names)
        text = self.random.choice([f"tanh({a} * {s})", f"{a} + {s}", f"sin({a})"])
        new = self.name("v")
        names.vectors.append(new)
        return f"{new} = {text}"

    def formula(self, names: Names, depth: int) -> str:
        a, s = self.random.choice(names.vectors), self.some(names)
        if self.random.random() < 0.5:
            new = self.name("w")
            names.vectors.append(new)
            return f"{new} : float64[3] = [i] tanh({a}[i]*{s} + {a}[2 - i])"
        new = self.name("s")
        names.scalars.append(new)
        return f"{new} : float64[] = tanh(sum over (i in [0, 3)) of {a}[i]*{s})"

    def parts(self, names: Names, depth: int) -> str:
        p, s = self.name("p"), self.name("s")
        line = f"{p} = ({self.some(names)}, ({self.random.choice(names.vectors)},))"
        names.scalars.append(s)
        return f"{line}\n{s} = {p}[0]"

    def new(self, names: Names, depth: int) -> str:
        r = self.name("r")
        names.refs.append(r)
        return f"{r} = ref({self.some(names)})"

    def alias(self, names: Names, depth: int) -> str:
        r = self.name("q")
        line = f"{r} = {self.random.choice(names.refs)}"
        names.refs.append(r)
        return line

    def write(self, names: Names, depth: int) -> str:
        return f"{self.random.choice(names.refs)} := {self.some(names)}"

    def read(self, names: Names, depth: int) -> str:
        s = self.name("s")
        line = f"{s} = read({self.random.choice(names.refs)})"
        names.scalars.append(s)
        return line

    def call(self, names: Names, depth: int) -> str:
        s = self.name("s")
        line = f"{s} = {self.random.choice(names.functions)}({self.some(names)})"
        names.scalars.append(s)
        return line

    def body(self, names: Names, depth: int, params: list[str]) -> str:
        """The lines of a block that results in a scalar."""
        own = names.copy()
        own.scalars += params
        lines = self.lines(own, self.random.randint(0, 3), depth - 1)
        return "\n".join([*lines, f"  tanh({self.some(own)} + {self.some(own)})"])

    def function(self, names: Names, depth: int) -> str:
        g, a = self.name("g"), self.name("a")
        text = self.body(names, depth, [a])
        names.functions.append(g)
        return f"{g} = fn ({a}) {{\n{text}\n}}"

    def derivative(self, names: Names, depth: int) -> str:
        s, g, a = self.name("s"), self.name("d"), self.name("a")
        text = f"{g} = fn ({a}) {{\n{self.body(names, depth, [a])}\n}}\n"
        at = self.some(names)
        names.scalars.append(s)
        if self.random.random() < 0.3:
            return f"{text}{s} = tanh(jvp({g})({at}, {at})[1])"
        return f"{text}{s} = tanh(grad({g})({at}))"

    def known_loop(self, names: Names, depth: int) -> str:
        s, a, i = self.name("s"), self.name("a"), self.name("i")
        start, count = self.some(names), self.random.randint(0, 3)
        text = self.body(names, depth, [a])
        names.scalars.append(s)
        return f"{s} = loop {i} in [0, {count}) carry ({a} = {start}) {{\n{text}\n}}"

    def loop(self, names: Names, depth: int) -> str:
        s, a, i = self.name("s"), self.name("a"), self.name("i")
        start = self.some(names)
        text = self.body(names, depth, [a])
        names.scalars.append(s)
        return f"{s} = loop {i} in [0, n) carry ({a} = {start}) {{\n{text}\n}}"

    def ending_loop(self, names: Names, depth: int) -> str:
        s, a, k = self.name("s"), self.name("a"), self.name("k")
        start = self.some(names)
        text = self.body(names, depth, [a]).split("\n")
        inner = self.name("z")
        text[-1] = f"  {inner} = {text[-1].strip()}\n  ({inner}, {k} + 1)"
        names.scalars.append(s)
        head = f"{s} = (loop carry ({a} = {start}, {k} = 0) while {{ {k} < n }} do {{"
        return head + "\n" + "\n".join(text) + "\n})[0]"

    def branch(self, names: Names, depth: int) -> str:
        s, c = self.name("s"), self.some(names)
        then, orelse = self.body(names, depth, []), self.body(names, depth, [])
        names.scalars.append(s)
        return f"{s} = if {c} > 0.1 {{\n{then}\n}} else {{\n{orelse}\n}}"

    def tagged(self, names: Names, depth: int) -> str:
        s, a = self.name("s"), self.name("a")
        made = self.random.choice(["inject none", f"inject one({self.some(names)})"])
        text = self.body(names, depth, [a])
        names.scalars.append(s)
        cases = f"  case none {{ 0.5 * x }}\n  case one({a}) {{\n{text}\n  }}"
        return f"{s} = match {made} {{\n{cases}\n}}"


def random_program(seed: int, has_control: bool = True, size: int = 10) -> str:
    """The text of a program with a function f of `PARAMS`; all its values are bounded."""
    return "data maybe = none | one(float64[])\n\n" + Generator(seed, has_control).program(size)
