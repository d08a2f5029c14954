"""Types and values in the text of programs: names, tuples, fields, calls inside of calls."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import NoReturn

from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import Expr, Size, size_var
from tensorad.ir.records import RecordType
from tensorad.ir.tensor import Dim, Tensor, dim_of
from tensorad.ir.text.blocks import (
    Known,
    TypeTree,
    another,
    same_type,
    type_of,
    type_text,
    value_text,
)
from tensorad.ir.text.expressions import Expressions
from tensorad.ir.text.names import Names
from tensorad.ir.text.program import Field, NameTree, ProgramFunction, Tree
from tensorad.ir.text.tokens import Token
from tensorad.ir.text.trampoline import Steps

Value = tuple[NameTree, Tree]
"""A value by its names, and as tensors."""


class Values(Expressions):
    """Reads types and values.

    Attributes:
        known: what the block here has.
        program: the functions that are complete.
        types: data types by name.
        declares: whether an unknown name in a type is a new size.
        labels: the sizes of the loops of this function, by what they are called.
        fresh: names that the text does not have.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.known = Known(None)
        self.program: dict[str, ProgramFunction] = {}
        self.types: dict[str, RecordType] = {}
        self.declares = False
        self.labels: dict[Size, str] = {}
        self.fresh = Names([t.text for t in self.tokens if t.kind == "name"])

    def source(self, token: Token) -> str:
        """Where a statement is."""
        return f"line {token.line}"

    def meaning(self, token: Token) -> Expr | Tensor:
        """A size, a tensor, or a field of a tuple that is a tensor."""
        self.take()
        found = self.known.find(token.text)
        if isinstance(found, Size):
            return found
        if found is None and self.declares:
            return self.known.sizes.setdefault(token.text, size_var(token.text))
        if found is None:
            self.undefined(token)
        _, tree = self.field(token, token.text, found)
        if not isinstance(tree, Tensor):
            self.refuse(
                f"{token.text} is a tuple, {value_text(tree)}.", token,
                hint=f"take a field, {token.text}[0].",
            )  # fmt: skip
        return tree

    def undefined(self, token: Token) -> NoReturn:
        """Say that a name means nothing here."""
        if self.known.is_outside(token.text):
            self.refuse(
                f"{token.text} is defined outside of this block.", token,
                hint="give it to the block: fixed (...) of a loop, branch n (...).",
            )  # fmt: skip
        names = [*self.known.values][-8:]
        self.refuse(
            f"undefined name {token.text}.", token,
            hint=f"names here are {', '.join(names)}." if names else "nothing is defined here.",
        )  # fmt: skip

    def field(self, token: Token, name: str, tree: Tree, last: str = "") -> tuple[str, Tree]:
        """c[1][0] of a tuple c: a binding for each step, called `last` if it ends the line."""
        while isinstance(tree, tuple) and self.sees("[") and self.ahead(1).kind == "number":
            self.take()
            at = self.expect_kind("number", "the number of a field")
            self.expect("]")
            index = int(at.text) if at.text.isdigit() else -1
            if not 0 <= index < len(tree):
                self.refuse(
                    f"{name} has {len(tree)} fields, not a field {at.text}.", token,
                    hint="fields are counted from 0.",
                )  # fmt: skip
            is_last = bool(last) and self.next.kind == "line"
            new = last if is_last else self.fresh.unique(f"{name}_{index}")
            part = another(new, tree[index], self.source(token))
            self.known.bindings.append(Field(new, name, index, part))
            if not is_last:  # what it stands for is checked first
                self.known.add(new, part)
            name, tree = new, part
        return name, tree

    def value(self) -> Steps[Value]:
        """A name, a field, a tuple, or a call."""
        token = self.next
        if self.accept("("):
            parts: list[Value] = []
            is_tuple = self.sees(")")
            while not self.accept(")"):
                part = yield self.value()
                parts.append(part)
                is_tuple = self.accept(",") or is_tuple or len(parts) > 1
                if not self.sees(")") and not is_tuple:
                    self.expected("',' or ')'")
            if not is_tuple:
                (only,) = parts
                return only
            return tuple([n for n, _ in parts]), tuple([t for _, t in parts])
        if self.sees("call") or (token.kind == "name" and self.ahead(1).text == "("):
            called: Value = yield self.nested_call()
            return called
        return self.named_value()

    def named_value(self, last: str = "") -> tuple[str, Tree]:
        """A name, or a field, see `field`."""
        token = self.expect_kind("name", "a name, a tuple or a call")
        tree = self.known.find(token.text)
        if tree is None:
            self.undefined(token)
        if isinstance(tree, Expr):
            self.refuse(
                f"{token.text} is a size, not a tensor.", token,
                hint=f"define a tensor, x : int64[] = {token.text}.",
            )  # fmt: skip
        return self.field(token, token.text, tree, last)

    def values(self, end: str) -> Steps[list[Value]]:
        """Values with commas between them, and the sign behind them."""
        found: list[Value] = []
        while not self.accept(end):
            if found:
                self.expect(",")
            value = yield self.value()
            found.append(value)
        return found

    @abstractmethod
    def nested_call(self) -> Steps[Value]:
        """A call inside of a value: a binding of its own.

        Abstract: statements read calls.
        """

    def type(self) -> Steps[TypeTree]:
        """float32[5, n], or (float32[5, n], bool[])."""
        if self.accept("("):
            parts: list[TypeTree] = []
            while not self.accept(")"):
                part = yield self.type()
                parts.append(part)
                if not self.sees(")"):
                    self.expect(",")
            return parts
        record = self.types.get(self.next.text) if self.next.kind == "name" else None
        if record is not None:
            self.take()
            if not self.sees("["):
                return record, ()
        dtype = self.dtype() if record is None else record
        self.expect("[")
        token = self.next
        extents: Sequence[Expr] = yield self.listed("]", INT64)
        shape: list[Dim] = [dim_of(e) for e in extents]
        for n in shape:
            if isinstance(n, int) and n < 0:
                self.refuse(f"an extent is negative: {n}.", token)
        return dtype, tuple(shape)

    def skip_type(self) -> int:
        """Go on behind a type; where it began."""
        start, depth = self.at, 0
        while self.next.kind not in ("line", "end"):
            text = self.next.text if self.next.kind == "sign" else ""
            if not depth and text in (",", "=", ":"):
                break
            depth += (text in ("(", "[")) - (text in (")", "]"))
            self.take()
        return start

    def type_at(self, start: int) -> Steps[TypeTree]:
        """The type that begins at a place before."""
        here, self.at = self.at, start
        found: TypeTree = yield self.type()
        self.at = here
        return found

    def agree(self, wanted: TypeTree, tree: Tree, what: str, token: Token) -> None:
        """Refuse a value of another type."""
        if not same_type(wanted, type_of(tree)):
            self.refuse(
                f"{what} is {type_text(wanted)}, but gets {value_text(tree)}.", token,
                hint="shapes, dtypes and tuples have to agree; nothing is converted.",
            )  # fmt: skip
