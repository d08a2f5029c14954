"""Programs from their text."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tensorad.ir.arrays.constants import converted
from tensorad.ir.dtypes import DType
from tensorad.ir.expr import Const, Expr, Param, param, size_var
from tensorad.ir.functions import Function
from tensorad.ir.nominal import Combiner
from tensorad.ir.tensor import Shape, Tensor
from tensorad.ir.text.blocks import Known, placeholder_tree, same_type, type_of, type_text
from tensorad.ir.text.branches import Branches
from tensorad.ir.text.operations import constant_tensor
from tensorad.ir.text.program import Program, ProgramFunction, Tree
from tensorad.ir.text.tokens import Token
from tensorad.ir.text.trampoline import Steps, run


def parse_program(text: str, constants: Mapping[str, object] | None = None) -> Program:
    """The program that a text describes; its grammar is in `tensorad/ir/text/README.md`.

    Args:
        text: constants, combiners, scalar functions, functions of tensors.
        constants: arrays or constant tensors, by name, for constants without elements in the text.
    Raises:
        ProgramTextError: the text is no program; the error has line and column, and what was
            expected there.
    """
    return run(_Parser(text, constants or {}).program_text())


class _Parser(Branches):
    """Reads a whole program."""

    def __init__(self, text: str, given: Mapping[str, object]) -> None:
        super().__init__(text)
        self.given = given
        self.constants: dict[str, Tensor] = {}
        self.partials: list[tuple[str, int, str]] = []

    def program_text(self) -> Steps[Program]:
        """All definitions, one below the other."""
        outermost = self.known
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
            else:
                self.expected("'def', 'constant', 'combiner' or 'function'")
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

    def function_of_tensors(self) -> Steps[None]:
        """f[k](x : float32[n]) -> float32[]: and its lines."""
        token = self.next
        name = self.new_name(token, self.program)
        self.known, self.labels = Known(self.known), {}
        if self.accept("["):
            while not self.accept("]"):
                size = self.name("a size")
                self.known.sizes[size] = size_var(size)
                if not self.sees("]"):
                    self.expect(",")
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
        sizes = {size: label for label, size in self.known.sizes.items()} | self.labels
        self.program[name] = ProgramFunction(
            name, tuple(params), tree, self.known.scope([names]), sizes
        )


def _not_asked(*_: object) -> tuple[Expr | None, ...]:
    raise AssertionError("partial derivatives are read with the text")
