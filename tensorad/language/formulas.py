"""Formulas of programs, read at the tensors that their names stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorad.ir.dtypes import DType
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor, dim_expr
from tensorad.ir.text.blocks import Known
from tensorad.ir.text.operations import Operations, Target
from tensorad.ir.text.program import Define
from tensorad.ir.text.tokens import Token
from tensorad.ir.text.trampoline import Steps, run
from tensorad.ir.text.values import Value
from tensorad.language.terms import Formula
from tensorad.language.types import Meaning
from tensorad.simplify.bounds.reads import check_op


def tensors_of(
    formula: Formula, values: Mapping[str, Tensor], names: Mapping[str, Meaning], line: int
) -> tuple[Tensor, ...]:
    """The tensors that a formula defines.

    Args:
        values: what it reads, by name.
        names: what names in types stand for.
        line: where it stands.
    Raises:
        ProgramTextError: it is none for these tensors.
        BoundsError: it reads outside of one.
    """
    reader = _Reader(formula.text, values, names, line)
    targets: list[Target] = []
    while not targets or reader.accept(","):
        token = reader.expect_kind("name", "a name")
        reader.expect(":")
        targets.append(Target(token, reader.skip_type()))
    reader.expect("=")
    run(reader.define(targets))
    reader.expect_kind("line", "the end of the line")
    (made,) = [b for b in reader.known.bindings if isinstance(b, Define)]
    check_op(made.tensors[0].op)
    return made.tensors


class _Reader(Operations):
    """Reads one statement, whose names are known."""

    def __init__(
        self, text: str, values: Mapping[str, Tensor], names: Mapping[str, Meaning], line: int
    ) -> None:
        super().__init__(text)
        self.lines = [*[""] * (line - 1), text]
        self.extents: dict[str, Expr] = {}
        self.tokens = self.meant(names, line)
        self.known = Known(None, dict(values))

    def meant(self, names: Mapping[str, Meaning], line: int) -> list[Token]:
        """The words, with what they stand for in the place of names of dtypes and shapes."""
        found: list[Token] = []
        for token in self.tokens:
            here = token._replace(line=line)
            value = names.get(token.text) if token.kind == "name" else None
            if isinstance(value, DType):
                found.append(here._replace(text=str(value)))
            elif isinstance(value, tuple) and found and found[-1].text == "*":
                found.pop()
                found += self.extents_of(token.text, value, here)
            elif isinstance(value, (int, Expr)):
                found.append(self.extent(token.text, value, here))
            else:
                found.append(here)
        return found

    def extent(self, label: str, value: object, here: Token) -> Token:
        """A number, or a name that stands for an extent."""
        if isinstance(value, int):
            return here._replace(kind="number", text=str(value))
        self.extents[label] = dim_expr(value)  # type: ignore[arg-type]  # an extent
        return here._replace(text=label)

    def extents_of(self, label: str, shape: Sequence[object], here: Token) -> list[Token]:
        """The extents of a shape, with commas between them."""
        found: list[Token] = []
        for n, extent in enumerate(shape):
            found += [here._replace(kind="sign", text=",")] if n else []
            found.append(self.extent(f"{label}_{n}", extent, here))
        return found

    def meaning(self, token: Token) -> Expr | Tensor:
        """An extent, a size of a tensor that is read, or a tensor."""
        if token.text in self.extents:
            self.take()
            return self.extents[token.text]
        return super().meaning(token)

    def nested_call(self) -> Steps[Value]:
        """Calls are bindings of their own.

        Raises:
            ProgramTextError: a formula has one inside.
        """
        self.expected("the name of a tensor (bind what is called before)")
