"""Programs as statements with blocks in them, which print as Python."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

INDENT = "    "


@dataclass
class Define:
    """A function inside of a statement: decorators and its first line, and a block."""

    head: tuple[str, ...]
    block: Block

    def lines(self) -> list[str]:
        return [*self.head, *[INDENT + line for line in self.block.lines()]]


@dataclass
class Statement:
    """Lines and functions in order.

    Attributes:
        made: the names that it gives a value.
    """

    parts: list[str | Define]
    made: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        found: list[str] = []
        for part in self.parts:
            found += [part] if isinstance(part, str) else part.lines()
        return found

    def blocks(self) -> list[Block]:
        return [part.block for part in self.parts if isinstance(part, Define)]


@dataclass
class Block:
    """Statements in order and what is returned after them, "" for nothing."""

    statements: list[Statement] = field(default_factory=list)
    result: str = ""

    def lines(self) -> list[str]:
        found = [line for s in self.statements for line in s.lines()]
        if self.result:
            found.append(f"return {self.result}")
        return found or ["pass"]

    def inside(self) -> Iterator[Block]:
        """The block and all blocks in it."""
        yield self
        for s in self.statements:
            for block in s.blocks():
                yield from block.inside()


PRELUDE = """\
List = ta.variant("List", Nil={}, Cons={"head": "float64", "tail": "List"})
Tree = ta.variant(
    "Tree", Leaf={"value": "float64[3]"}, Node={"left": "Tree", "scale": "float64", "right": "Tree"}
)
Maybe = ta.variant(
    "Maybe", Missing={}, Some={"value": "float64"}, Both={"a": "float64", "b": "Maybe"}
)
Act = ta.variant("Act", Plain={}, Scaled={"f": ta.Fn, "k": "float64"})


def pushed(f, x, dx):
    with ta.dual_level():
        value, tangent = ta.unpack_dual(f(ta.make_dual(x, dx)))
    return 0.0 * value if tangent is None else tangent
"""
"""Data types, and a derivative by a level: what programs stand on."""


@dataclass
class Program:
    """A function `program(x, v, n)` of a number, a vector of 3 and a count.

    Attributes:
        seed: what it was made from.
        features: what is in it.
    """

    seed: int
    block: Block
    features: frozenset[str]

    def __str__(self) -> str:
        """A file of Python."""
        return f"# seed {self.seed}\nimport numpy as np\nimport tensorad as ta\n\n{self.code}"

    @property
    def code(self) -> str:
        """What needs the names `ta` and `np`."""
        head = f"{PRELUDE}\n\ndef program(x, v, n):"
        return "\n".join([head, *[INDENT + line for line in self.block.lines()], ""])
