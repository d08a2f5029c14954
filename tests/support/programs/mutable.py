"""Random programs that change references, run by Python on arrays and written down by tensorad."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import tensorad as ta

SIZE = 3
ALIASES = (0, 1, 0, 2)
"""Which of three cells each name means."""
CELLS = len(ALIASES)


class Write(NamedTuple):
    """A name, a part of its vector, set or add, and a formula of two names."""

    name: int
    part: str
    method: str
    formula: str
    operands: tuple[int, int]


class If(NamedTuple):
    name: int
    then: tuple[Any, ...]
    orelse: tuple[Any, ...]


class Repeat(NamedTuple):
    """A loop: "for", "while" or "scan"."""

    kind: str
    times: int
    body: tuple[Any, ...]


class Call(NamedTuple):
    """A block called as a closure, as a `ta.function`, or as one that is differentiated."""

    kind: str
    body: tuple[Any, ...]


PARTS: dict[str, Callable[[Any], Any]] = {
    "all": lambda v: v[...],
    "first": lambda v: v[0],
    "rest": lambda v: v[1:],
    "reversed": lambda v: v[::-1],
    "odd": lambda v: v[::2],
}
FORMULAS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "product": lambda sin, a, b: sin(a * b),
    "sine": lambda sin, a, b: sin(a) + sin(b * 0.4),
    "mean": lambda sin, a, b: sin(a * 0.5 + b * 0.3 + 0.1),
    "sum": lambda sin, a, b: sin(a.sum()) * sin(b),
}
"""Bounded: what grows has no digits left."""


class Maker:
    """Programs by seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def block(self, depth: int, fewest: int = 1) -> tuple[Any, ...]:
        return tuple([self.statement(depth) for _ in range(self.random.randrange(fewest, 4))])

    def statement(self, depth: int) -> Any:
        r = self.random
        kind = r.choice(["write"] * 4 + ["if", "if", "repeat", "call"]) if depth else "write"
        if kind == "write":
            names = (r.randrange(CELLS), r.randrange(CELLS))
            part, method = r.choice(list(PARTS)), r.choice(["set", "add"])
            return Write(r.randrange(CELLS), part, method, r.choice(list(FORMULAS)), names)
        if kind == "if":
            return If(r.randrange(CELLS), self.block(depth - 1), self.block(depth - 1, 0))
        if kind == "repeat":
            what = r.choice(["for", "while", "scan"])
            return Repeat(what, r.randrange(0, 4), self.block(depth - 1))
        return Call(r.choice(["closure", "function", "grad", "jvp"]), self.block(depth - 1))


def run(block: Sequence[Any], cells: list[np.ndarray], count: list[int]) -> None:
    """The block, on arrays in place; `count[0]` counts its writes."""
    for s in block:
        match s:
            case Write():
                part = PARTS[s.part]
                a, b = (cells[ALIASES[n]].copy() for n in s.operands)
                value = part(FORMULAS[s.formula](np.sin, a, b))
                target = cells[ALIASES[s.name]]
                index = part(np.arange(SIZE))
                target[index] = value if s.method == "set" else target[index] + value
                count[0] += 1
            case If():
                taken = cells[ALIASES[s.name]].sum() > 0.2
                run(s.then if taken else s.orelse, cells, count)
            case Repeat():
                for _ in range(s.times):
                    run(s.body, cells, count)
            case Call(kind="grad" | "jvp"):
                y = cells[1].copy()
                run(s.body, cells, count)
                cells[1][...] = 2.0 * np.sin(y) * np.cos(y)
            case Call():
                run(s.body, cells, count)


class Traced:
    """References for the names, and a count."""

    def __init__(self, vectors: Sequence[Any]) -> None:
        own = [ta.ref(v, f"cell{n}") for n, v in enumerate(vectors)]
        self.refs = [own[n] for n in ALIASES]
        self.count = ta.ref(0, "count")

    def run(self, block: Sequence[Any]) -> None:
        """Write the block down."""
        for s in block:
            match s:
                case Write():
                    self.write(s)
                case If():
                    ta.cond(
                        self.refs[s.name].get().sum() > 0.2,
                        lambda s=s: self.run(s.then),
                        lambda s=s: self.run(s.orelse),
                    )
                case Repeat():
                    self.repeat(s)
                case Call():
                    self.call(s)

    def write(self, s: Write) -> None:
        part = PARTS[s.part]
        a, b = (self.refs[n].get() for n in s.operands)
        value = part(FORMULAS[s.formula](ta.topi.sin, a, b))
        view = part(self.refs[s.name].at)
        if s.method == "set":
            view.set(value)
        else:
            view.add(value)
        self.count.add(1)

    def repeat(self, s: Repeat) -> None:
        def step(carry: Any, *_: Any) -> Any:
            self.run(s.body)
            return carry

        if s.kind == "for":
            ta.for_loop(0, s.times, lambda i, c: step(c), None)
        elif s.kind == "while":
            ta.while_loop(lambda n: n < s.times, lambda n: step(n) + 1, 0)
        else:
            ta.scan(lambda c, x: (step(c), None), None, length=s.times)

    def call(self, s: Call) -> None:
        if s.kind == "closure":
            (lambda: self.run(s.body))()
        elif s.kind == "function":
            given = (self.refs, {"count": self.count})
            ta.function(lambda pair: self.run(s.body))(given)
        else:

            def inner(y: Any) -> Any:
                self.run(s.body)
                return (ta.topi.sin(y) ** 2).sum()

            y = self.refs[1].get()
            if s.kind == "grad":
                slope = ta.grad(inner)(y)
            else:
                (slope,) = ta.vjp(inner, y)[1](1.0)
            self.refs[1].set(slope)


def program(block: Sequence[Any]) -> Callable[..., Any]:
    """(x, y) -> (the sum of what all cells hold at the end, how many writes ran)."""

    def f(x: Any, y: Any) -> Any:
        cells = Traced([x, y, x * y])
        cells.run(block)
        first, second, _, third = [r.get() for r in cells.refs]
        total = (first * 0.5 + second - third * first * 0.1).sum()
        return total, cells.count.get()

    return f


def expected(block: Sequence[Any], x: np.ndarray, y: np.ndarray) -> tuple[float, int]:
    """What the program gives, by Python."""
    cells, count = [x.copy(), y.copy(), x * y], [0]
    run(block, cells, count)
    first, second, third = cells
    return float((first * 0.5 + second - third * first * 0.1).sum()), count[0]
