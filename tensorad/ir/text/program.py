"""Programs as records: functions in A-normal form, every value by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tensorad.errors import DefinitionError, functions_hint
from tensorad.ir.dtypes import DType
from tensorad.ir.expr import Size
from tensorad.ir.hooks import Hook
from tensorad.ir.records import Definition
from tensorad.ir.tensor import Control, Tensor

Leaf = TypeVar("Leaf")
Tree = Tensor | tuple["Tree", ...]
"""A value: a tensor, or a tuple of values."""
NameTree = str | tuple["NameTree", ...]
"""A value by the names of its parts."""


@dataclass(frozen=True, eq=False)
class Define:
    """Tensors of one operation on elements, which its formula defines."""

    names: tuple[str, ...]
    tensors: tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class Bind:
    """`c = (a, b)`, or `b = a`: a value that is there, under a name of its own."""

    name: str
    value: NameTree
    tree: Tree


@dataclass(frozen=True, eq=False)
class Field:
    """`d = c[1]`: a part of a tuple."""

    name: str
    of: str
    index: int
    tree: Tree


@dataclass(frozen=True, eq=False)
class Operand:
    """What a block gets: `value` from outside, as `params` inside.

    `name` is None where the params are the values themselves, under their own name.
    """

    name: str | None
    value: NameTree
    params: Tree


@dataclass(frozen=True, eq=False)
class Scope:
    """The bindings of a block, and what it results in.

    Attributes:
        names: of all tensors that formulas of the block read, constants apart.
    """

    bindings: tuple[Binding, ...]
    results: tuple[NameTree, ...]
    names: Mapping[Tensor, str]


@dataclass(frozen=True, eq=False)
class Replayed:
    """The block of a loop's replay.

    Attributes:
        operands: the number of an iteration, how many, and states, by their names; what is fixed.
    """

    operands: tuple[Operand, ...]
    scope: Scope


@dataclass(frozen=True, eq=False)
class Run:
    """A call, a branch or a loop: names of its outputs, then of what it saves.

    Attributes:
        given: the name of a branch's index, or of a loop's number of iterations.
        operands: of a call, all; of a branch, those of its blocks; of a loop, all.
        saves: names inside of each block.
        function: the function that is called, or the definition.
        scopes: of a branch, one for each block; of a loop, its block and its test.
        replay: of a loop whose reverse computes carries again.
    """

    names: tuple[str, ...]
    trees: tuple[Tree, ...]
    control: Control
    operands: tuple[Operand, ...]
    saves: tuple[tuple[str, ...], ...]
    scopes: tuple[Scope, ...] = ()
    given: str | None = None
    function: str | None = None
    replay: Replayed | None = None

    @property
    def every_scope(self) -> tuple[Scope, ...]:
        """The scopes, that of the replay too."""
        return self.scopes if self.replay is None else (*self.scopes, self.replay.scope)


Binding = Define | Bind | Field | Run


@dataclass(frozen=True, eq=False)
class ProgramFunction:
    """A function of tensors and of tuples of them.

    Attributes:
        params: names, and placeholders.
        results: the tensors that it returns.
        sizes: symbolic sizes, with their names in the text.
        definition: what it defines, if it may call itself.
    """

    name: str
    params: tuple[tuple[str, Tree], ...]
    results: Tree
    scope: Scope
    sizes: Mapping[Size, str]
    definition: Definition | None = None

    @property
    def tensors(self) -> dict[str, Tree]:
        """What the names of the function's own bindings and parameters mean."""
        found = dict(self.params)
        for b in self.scope.bindings:
            match b:
                case Define():
                    found.update(zip(b.names, b.tensors, strict=True))
                case Run():
                    found.update(zip(b.names, b.trees, strict=True))
                case _:
                    found[b.name] = b.tree
        return found

    def __str__(self) -> str:
        return format_program.call(Program((self,), {}))


@dataclass(frozen=True, eq=False)
class Program:
    """Functions, each after those that it calls, and the constants that they read, by name."""

    functions: tuple[ProgramFunction, ...]
    constants: Mapping[str, Tensor] = field(default_factory=dict)

    def __getitem__(self, name: str) -> ProgramFunction:
        for f in self.functions:
            if f.name == name:
                return f
        raise DefinitionError(
            f"the program has no function {name}.",
            hint=functions_hint(f.name for f in self.functions),
        )

    def __str__(self) -> str:
        return format_program.call(self)

    def _repr_html_(self) -> str:
        return program_html.call(self)


format_program: Hook[[Program], str] = Hook("tensorad.ir.text.statements")
program_html: Hook[[Program], str] = Hook("tensorad.display.program")


def tree_leaves(tree: Leaf | tuple[object, ...]) -> list[Leaf]:
    """The parts that are no tuples, from left to right."""
    found: list[Leaf] = []
    stack: list[object] = [tree]
    while stack:
        part = stack.pop()
        if isinstance(part, tuple):
            stack.extend(reversed(part))
        else:
            found.append(part)  # type: ignore[arg-type]  # trees are tuples or leaves
    return found


def forest_leaves(trees: Sequence[Tree]) -> tuple[Tensor, ...]:
    """The tensors of several values."""
    return tuple(tree_leaves(tuple(trees)))


def format_type(
    tree: Tree, extents: Callable[[Tensor], str], records: Mapping[DType, str] | None = None
) -> str:
    """float32[5, n], or (float32[5, n], bool[]) of a tuple, or List of a value of a data type.

    Args:
        extents: writes those of a tensor.
        records: names of data types.
    """
    if isinstance(tree, Tensor):
        name = records.get(tree.dtype, tree.dtype) if records else tree.dtype
        is_value = tree.dtype.kind == "record" and not tree.shape
        return str(name) if is_value else f"{name}[{extents(tree)}]"
    parts = [format_type(t, extents, records) for t in tree]
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def shaped(tree: Tree, names: Iterator[NameTree]) -> NameTree:
    """The tree with names in the place of tensors, from left to right."""
    stack: list[Tree | None] = [tree]
    done: list[NameTree] = []
    counts: list[int] = []
    while stack:
        part = stack.pop()
        if part is None:
            n = counts.pop()
            done, inner = done[: len(done) - n], tuple(done[len(done) - n :])
            done.append(inner)
        elif isinstance(part, Tensor):
            done.append(next(names))
        else:
            counts.append(len(part))
            stack.append(None)
            stack.extend(reversed(part))
    return done[0]
