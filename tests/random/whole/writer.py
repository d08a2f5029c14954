"""What writes the statements of a program: the names in reach, and choices among them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields

from tests.random.whole.texts import Block, Define, Statement


@dataclass
class Names:
    """Names in reach, by what they are.

    Attributes:
        functions: of a number, with a number as result.
        places: references by what they hold: "s", "v", "t" (a dict of both), "m" (an option) or
            "f" (a function); names of the last begin with c.
        touching: functions that use references or counters of outside.
        looking: functions that call what references hold; none of these is put into one.
        local: whether references and counters of loops of outside are out of reach, so that
            writes are not counted.
        depth: how many blocks may be inside.
    """

    numbers: list[str] = field(default_factory=list)
    vectors: list[str] = field(default_factory=list)
    counts: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    lists: list[str] = field(default_factory=list)
    trees: list[str] = field(default_factory=list)
    options: list[str] = field(default_factory=list)
    places: list[tuple[str, str]] = field(default_factory=list)
    touching: set[str] = field(default_factory=set)
    looking: set[str] = field(default_factory=set)
    local: bool = False
    depth: int = 3

    def inner(self, local: bool = False) -> Names:
        """What a block inside sees; without references of outside and what touches them."""
        made = {f.name: getattr(self, f.name) for f in fields(self)}
        made = {k: v.copy() if isinstance(v, (list, set)) else v for k, v in made.items()}
        own = Names(**made)
        own.depth -= 1
        if local:
            own.local, own.places = True, []
            own.functions = [f for f in own.functions if f not in own.touching]
            own.counts = [k for k in own.counts if not k.startswith("i_")]
        return own

    def places_of(self, kind: str) -> list[str]:
        return [name for k, name in self.places if k == kind]


OUTER = re.compile(r"\b(?:[rc]_\d+|i_\d+|writes)\b")
Make = Callable[["Writer", Names], "Statement | None"]


class Writer:
    """Choices, fresh names, expressions and blocks.

    Attributes:
        fill: writes so many statements into a block.
        features: what was written.
    """

    def __init__(self, rng: random.Random, kinds: Sequence[tuple[float, bool, Make]]) -> None:
        self.rng = rng
        self.kinds = kinds
        self.features: set[str] = set()
        self._count = 0

    def name(self, letter: str) -> str:
        self._count += 1
        return f"{letter}_{self._count}"

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def number(self, names: Names) -> str:
        """A name, rather a late one."""
        return self.rng.choice(names.numbers[-3:] * 2 + names.numbers)

    def vector(self, names: Names) -> str:
        return self.rng.choice(names.vectors[-3:] + names.vectors)

    def times(self, names: Names) -> str:
        """How often: a number, or a count that the run knows."""
        return self.rng.choice([*map(str, range(4)), *names.counts * 3])

    def bounded(self, names: Names) -> str:
        """An expression of a number within [-2, 2]."""
        a, b, v = self.number(names), self.number(names), self.vector(names)
        k = self.rng.choice([*names.counts, "1"])
        return self.rng.choice(
            [
                f"ta.tanh({a} + {b})", f"ta.sin({a} * 1.5)", f"ta.tanh({a} * {b})",
                f"ta.cos({a}) * ta.tanh({b})", f"{a} / (1.0 + {a} * {a})",
                f"ta.exp(-{a} * {a})", f"ta.tanh({v}.sum())", f"ta.sin({v} @ {self.vector(names)})",
                f"ta.tanh({v}[{k} % 3] - {a})",
            ]
        )  # fmt: skip

    def row(self, names: Names) -> str:
        """An expression of a vector within [-2, 2]."""
        v, w, a = self.vector(names), self.vector(names), self.number(names)
        return self.rng.choice(
            [
                f"ta.tanh({v} * {a})", f"ta.sin({v} + {a})", f"ta.tanh({v}[::-1] * {w})",
                f"ta.compute((3,), lambda i: ta.tanh({v}[i] + {w}[2 - i] * 0.5))",
                f"ta.exp(-{v} * {w} * ta.tanh({v} * {w}))",
            ]
        )  # fmt: skip

    def test(self, names: Names) -> str:
        """A condition."""
        a = self.number(names)
        return self.rng.choice([f"{a} > 0.1", f"{a} < 0.6", f"{self.vector(names)}[1] > {a}"])

    def fill(self, names: Names, size: int) -> list[Statement]:
        """So many statements, which add names."""
        found: list[Statement] = []
        while len(found) < size:
            some = [(w, m) for w, has_blocks, m in self.kinds if names.depth > 0 or not has_blocks]
            (make,) = self.rng.choices([m for _, m in some], [w for w, _ in some])
            made = make(self, names)
            if made is not None:
                found.append(made)
                self.features.add(make.__name__)
                if names.local:
                    self.features.add(f"{make.__name__} in a closed block")
        return found

    def block(self, own: Names, result: Callable[[Names], str] | None, most: int = 3) -> Block:
        """Some statements, and a result of what is in reach after them."""
        made = self.fill(own, self.rng.randint(0, most))
        return Block(made, result(own) if result else "")

    def define(
        self, name: str, params: Sequence[str], own: Names, result: Callable[[Names], str] | None,
        decorators: Sequence[str] = (), most: int = 3,
    ) -> Define:  # fmt: skip
        head = (*decorators, f"def {name}({', '.join(params)}):")
        return Define(head, self.block(own, result, most))

    def note(self, names: Names, function: str, *defined: Define) -> None:
        """A function is in reach; see what of references it uses that it did not make."""
        text = "\n".join([line for d in defined for line in d.block.lines()])
        made = re.findall(r"^\s*([rc]_\d+) = ", text, re.M) + re.findall(r"\((i_\d+)", text)
        used = dict.fromkeys(OUTER.findall(text))
        words = set(re.findall(r"\w+_\d+", text))
        if any(u not in made for u in used) or words & names.touching:
            names.touching.add(function)
        if any(u.startswith("c_") for u in used) or words & names.looking:
            names.looking.add(function)
        names.functions.append(function)
