"""Programs from their text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from tensorad.ir.arrays.constants import converted
from tensorad.ir.dtypes import INT64, DType
from tensorad.ir.expr import Const, Expr, LocalSize, Param, local_size, param, size_var
from tensorad.ir.functions import Function
from tensorad.ir.nominal import Combiner
from tensorad.ir.records import Definition, RecordType, Variant
from tensorad.ir.records import Field as RecordField
from tensorad.ir.tensor import Shape, Tensor
from tensorad.ir.text.blocks import Known, placeholder_tree, same_type, type_of, type_text
from tensorad.ir.text.branches import Branches
from tensorad.ir.text.operations import constant_tensor
from tensorad.ir.text.program import Program, ProgramFunction, Tree, forest_leaves
from tensorad.ir.text.tokens import Token
from tensorad.ir.text.trampoline import Steps, run


def parse_program(
    text: str,
    constants: Mapping[str, object] | None = None,
    foreign: Mapping[str, Callable[..., Any]] | None = None,
) -> Program:
    """The program that a text describes; its grammar is in `tensorad/ir/text/README.md`.

    Args:
        text: constants, combiners, scalar functions, functions of tensors.
        constants: arrays or constant tensors, by name, for constants without elements in the text.
        foreign: functions of Python, by name: from arrays to an array, or a tuple of several.
    Raises:
        ProgramTextError: the text is no program; the error has line and column, and what was
            expected there.
    """
    return run(_Parser(text, constants or {}, foreign or {}).program_text())


class Head(NamedTuple):
    """The first line of a function: its parameters, what is known behind them, where they end."""

    name: str
    params: list[tuple[str, Tree]]
    known: Known
    at: int
    definition: Definition | None = None
    sizes: tuple[LocalSize, ...] = ()


class _Parser(Branches):
    """Reads a whole program."""

    def __init__(
        self, text: str, given: Mapping[str, object], foreign: Mapping[str, Callable[..., Any]]
    ) -> None:
        super().__init__(text)
        self.given = given
        self.foreign = foreign
        self.constants: dict[str, Tensor] = {}
        self.partials: list[tuple[str, int, str]] = []
        self.heads: dict[str, Head] = {}

    def program_text(self) -> Steps[Program]:
        """All definitions, one below the other."""
        outermost = self.known
        for name in self.names_after("type", "=", "at"):
            self.types[name] = RecordType(name)
        yield self.read_heads()
        while self.next.kind != "end":
            token = self.next
            if self.accept("constant"):
                yield self.program_constant()
            elif self.accept("associative"):
                self.expect("combiner")
                yield self.combiner_text(associative=True)
            elif self.accept("combiner"):
                yield self.combiner_text(associative=False)
            elif self.accept("function"):
                yield self.function_text()
            elif token.text == "def" and self.accept("def"):
                yield self.function_of_tensors()
            elif self.accept("type"):
                yield self.type_text()
            elif self.sees("define"):
                self.take()
                yield self.function_of_tensors(self.heads[self.next.text])
            else:
                self.expected("'def', 'define', 'type', 'constant', 'combiner' or 'function'")
            self.known = outermost
        for name, at, value in self.partials:
            yield self.read_partials(self.functions[name], at, value)
        return Program(tuple(self.program.values()), self.constants)

    def program_constant(self) -> Steps[None]:
        """table : float32[2] = [0.5, 2.0]; without elements, one that is given."""
        token = self.next
        name = self.new_name(token, self.constants)
        self.expect(":")
        of = yield self.type()
        if isinstance(of, list):
            self.refuse(f"a constant is a tensor, not {type_text(of)}.", token)
        made = self.constant(name, of) if self.accept("=") else self.given_constant(name, of, token)
        self.end_of_line()
        self.constants[name] = made
        self.known.add(name, made)

    def given_constant(self, name: str, of: tuple[DType, Shape], token: Token) -> Tensor:
        """A constant that comes with the text."""
        if name not in self.given:
            self.refuse(
                f"the elements of {name} are not in the text.", token,
                hint=f'give them: ta.module(text, constants={{"{name}": array}}).',
            )  # fmt: skip
        value = self.given[name]
        dtype = of[0]
        if not isinstance(value, Tensor):
            value = constant_tensor(name, converted(np.asarray(value), dtype, name), dtype)
        if not value.is_constant or not same_type(of, type_of(value)):
            self.refuse(f"{name} is {type_text(of)}, but {value!r} is given.", token)
        return value

    def new_name(self, token: Token, known: Mapping[str, object]) -> str:
        """A name that is not defined yet."""
        name = self.name()
        if name in known:
            self.refuse(f"{name} is defined twice.", token, hint="give it another name.")
        return name

    def params(self, *ends: str) -> list[Param]:
        """x : float32, y : float32, up to one of these signs."""
        found: list[Param] = []
        while self.next.text not in ends:
            if found:
                self.expect(",")
            name = self.name("an operand")
            self.expect(":")
            found.append(param(name, self.dtype()))
            self.local[name] = found[-1]
        return found

    def combiner_text(self, associative: bool) -> Steps[None]:
        """f(x : float32; y : float32) from 0.0 = x + y."""
        name = self.new_name(self.next, self.combiners)
        self.local = {}
        self.expect("(")
        lhs = self.params(";", ")")
        self.expect(";")
        rhs = self.params(")")
        self.expect(")")
        dtypes = [e.dtype for e in lhs]
        self.expect("from")
        token = self.next
        start = yield self.several(dtypes)
        identity = [e for e in start if isinstance(e, Const)]
        if len(identity) != len(lhs) or not lhs:
            self.refuse("a combiner starts from a number for each left operand.", token)
        self.expect("=")
        yield self.parts()
        results = yield self.several(dtypes)
        self.end_of_line()
        self.local = {}
        made = Combiner(name, tuple(lhs), tuple(rhs), tuple(results), tuple(identity), associative)
        self.combiners[name] = made

    def function_text(self) -> Steps[None]:
        """f(x : float32) -> float32 = x*x partials y: 2.0*x."""
        name = self.new_name(self.next, self.functions)
        self.local = {}
        self.expect("(")
        params = tuple(self.params(")"))
        self.expect(")")
        self.expect("->")
        dtype = self.dtype()
        self.expect("=")
        yield self.parts()
        result = yield self.formula(dtype)
        self.local = {}
        self.expect("partials")
        value = self.name("a name for the value")
        self.expect(":")
        self.functions[name] = Function(name, params, result, _not_asked)
        self.partials.append((name, self.at, value))
        while self.next.kind != "line":
            self.take()
        self.end_of_line()

    def read_partials(self, f: Function, at: int, value: str) -> Steps[None]:
        """The partial derivatives of a function: they may use functions defined below it."""
        self.at = at
        own = param(value, f.result.dtype)
        self.local = {p.name: p for p in (*f.params, own)}
        found: list[Expr | None] = []
        for n, p in enumerate(f.params):
            if n:
                self.expect(",")
            if self.accept("none"):
                found.append(None)
            else:
                e = yield self.formula(p.dtype)
                found.append(e)
        self.end_of_line()
        self.local = {}
        f.asked.append((own, tuple(found)))

    def names_after(self, word: str, *signs: str) -> list[str]:
        """The names that lines of the program define by a word."""
        found: list[str] = []
        for n, token in enumerate(self.tokens[:-2]):
            begins = not n or self.tokens[n - 1].kind in ("line", "dedent")
            name, sign = self.tokens[n + 1 : n + 3]
            if begins and token.text == word and name.kind == "name" and sign.text in signs:
                found.append(name.text)
        return found

    def type_text(self) -> Steps[None]:
        """List = Nil | Cons(head : float64[], tail : List)."""
        made = self.types[self.name()]
        outermost, self.known = self.known, Known(self.known)
        yield self.sizes_given()
        self.expect("=")
        variants: list[Variant] = []
        while True:
            name = self.name("an alternative")
            fields: list[RecordField] = []
            while self.accept("," if fields else "("):
                if not fields and self.accept(")"):
                    break
                own = self.name("a field")
                self.expect(":")
                of = yield self.type()
                if isinstance(of, list):
                    self.refuse("a field is a tensor or a value of a data type.")
                fields.append(RecordField(own, of[1], of[0]))
            if fields:
                self.expect(")")
            variants.append(Variant(name, tuple(fields)))
            if not self.accept("|"):
                break
        self.end_of_line()
        self.known = outermost
        made.complete(variants)

    def read_heads(self) -> Steps[None]:
        """The first lines of all definitions: they may call those below them."""
        start, outermost = self.at, self.known
        for n, token in enumerate(self.tokens[:-1]):
            begins = not n or self.tokens[n - 1].kind in ("line", "dedent")
            if begins and token.text == "define" and self.tokens[n + 1].kind == "name":
                self.at = n + 1
                head = yield self.head(self.heads)
                self.expect("->")
                of = yield self.type()
                kinds = of if isinstance(of, list) else [of]
                own = [RecordField(f"{head.name}_{k}", s[1], s[0]) for k, s in enumerate(kinds)]
                params = forest_leaves([t for _, t in head.params])
                made = Definition(head.name, params, own, sizes=head.sizes)
                self.heads[head.name] = head._replace(definition=made)
                self.definitions[head.name] = made
                self.known = outermost
        self.at = start

    def head(self, taken: Mapping[str, object]) -> Steps[Head]:
        """f[k](x : float32[n])."""
        token = self.next
        name = self.new_name(token, taken)
        self.known, self.labels = Known(self.known), {}
        if self.accept("["):
            while not self.accept("]"):
                size = self.name("a size")
                self.known.sizes[size] = size_var(size)
                if not self.sees("]"):
                    self.expect(",")
        of_calls = yield self.sizes_given()
        self.expect("(")
        params: list[tuple[str, Tree]] = []
        self.declares = True
        while not self.accept(")"):
            if params:
                self.expect(",")
            own = self.new_name(self.next, dict(params))
            self.expect(":")
            of = yield self.type()
            params.append((own, placeholder_tree(own, of)))
        self.declares = False
        return Head(name, params, self.known, self.at, sizes=tuple(of_calls))

    def sizes_given(self) -> Steps[list[LocalSize]]:
        """at [x_0, t < n], or nothing: sizes that calls give, each one in the whole text."""
        found: list[LocalSize] = []
        declares, self.declares = self.declares, True
        while self.accept("," if found else "at"):
            if not found:
                self.expect("[")
            name = self.name("a size")
            token = self.next
            extent = None
            if self.accept("<"):
                e = yield self.expression()
                extent = self.fitted(e, INT64, token)
            if name not in self.of_calls:
                self.of_calls[name] = local_size(name, extent)
            self.known.sizes[name] = self.of_calls[name]
            found.append(self.of_calls[name])
        if found:
            self.expect("]")
        self.declares = declares
        return found

    def function_of_tensors(self, known: Head | None = None) -> Steps[None]:
        """f[k](x : float32[n]) -> float32[]: and its lines; `known`: what was read of it before."""
        head = known
        if head is None:
            head = yield self.head(self.program)
        name, params = head.name, head.params
        self.known, self.labels, self.at = head.known, {}, head.at
        result = self.skip_type() if self.accept("->") else None
        self.expect(":")
        for own, tree in params:
            self.known.add(own, tree)
        self.expect_kind("line", "the end of the line")
        self.expect_kind("indent", "an indented block")
        yield self.statements()
        self.expect("return")
        at = self.next
        names, tree = yield self.value()
        if result is not None:
            wanted = yield self.type_at(result)
            self.agree(wanted, tree, f"the result of {name}", at)
        self.end_of_line()
        self.expect_kind("dedent", "the end of the function")
        if head.definition is not None:
            head.definition.complete(forest_leaves([tree]))
        sizes = {size: label for label, size in self.known.sizes.items()} | self.labels
        self.program[name] = ProgramFunction(
            name, tuple(params), tree, self.known.scope([names]), sizes, head.definition
        )


def _not_asked(*_: object) -> tuple[Expr | None, ...]:
    raise AssertionError("partial derivatives are read with the text")
