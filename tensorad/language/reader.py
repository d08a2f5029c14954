"""Programs from their text: lines become bindings, longer ones several."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from tensorad.language.terms import (
    UNIT,
    Alias,
    Alternative,
    Apply,
    Atom,
    Binding,
    Block,
    Derive,
    Field,
    Formula,
    Function,
    Inject,
    Literal,
    Name,
    NewRef,
    Operator,
    Program,
    Read,
    Term,
    Tuple,
    Write,
)
from tensorad.language.type_reader import TypeReader
from tensorad.language.types import DTYPE_NAMES, TypeText
from tensorad.language.words import Word
from tensorad.process import deep_calls

DERIVATIVES: Final = ("grad", "value_and_grad", "jvp")
BINARY: Final = {
    "<": 1, "<=": 1, ">": 1, ">=": 1, "==": 1, "!=": 1, "+": 2, "-": 2,
    "*": 3, "/": 3, "//": 3, "%": 3, "@": 3, "**": 5,
}  # fmt: skip
_NEGATION: Final = 4
_WORDS: Final = {"True": True, "False": False, "inf": float("inf"), "nan": float("nan")}


def _names_inside(words: Sequence[Word]) -> set[str]:
    """Names of axes and of parts that a formula has itself."""
    found: set[str] = set()
    if words and words[0].text == "[":
        end = next(n for n, w in enumerate(words) if w.text == "]")
        found.update([w.text for w in words[:end] if w.kind == "name"])
    for w, following in pairwise(words):
        if w.kind == "name" and following.text in ("in", "="):
            found.add(w.text)
    return found


class Lines(TypeReader, ABC):
    """Reads blocks line by line; what terms with blocks look like is read by a file above.

    Attributes:
        scopes: names that are defined, a set of them for each block around.
        bindings: of the block that is being read.
        functions: names of all functions of the program, and of operators.
    """

    def __init__(self, text: str, is_operator: Iterable[str]) -> None:
        super().__init__(text)
        self.operators = frozenset(is_operator)
        self.taken = {w.text for w in self.words if w.kind == "name"}
        self.functions = self.names_behind("def")
        self.scopes: list[set[str]] = []
        self.bindings: list[Binding] = []
        self.fresh = 0

    def names_behind(self, keyword: str) -> set[str]:
        """The names that follow a keyword anywhere."""
        pairs = zip(self.words, self.words[1:], strict=False)
        return {b.text for a, b in pairs if a.kind == "keyword" and a.text == keyword}

    def new_name(self) -> str:
        """A name that the text does not have."""
        while f"t{self.fresh}" in self.taken:
            self.fresh += 1
        self.fresh += 1
        return f"t{self.fresh - 1}"

    def define(self, name: str, at: Word) -> None:
        """A name from here on."""
        if name in self.scopes[-1]:
            self.refuse(f"{name} is defined twice.", at, hint="give it another name.")
        self.scopes[-1].add(name)

    def bind(self, term: Term, at: Word) -> Atom:
        """A part of a line, under a name of its own."""
        if isinstance(term, Alias):
            return term.of
        name = self.new_name()
        self.bindings.append(Binding((name,), term, at.line, is_named=False))
        return Name(name)

    def block(self, params: Sequence[tuple[str, Word]] = ()) -> Block:
        """{ lines, the last one a value }."""
        self.expect("{")
        outer, self.bindings = self.bindings, []
        self.scopes.append(set())
        for name, at in params:
            self.define(name, at)
        result: Atom | None = UNIT
        self.lines()
        while not self.sees("}"):
            result = self.line()
            if self.next.kind == "line":
                self.lines()
            elif not self.sees("}"):
                self.expected("the end of the line")
        if result is None:
            self.refuse("a block ends with a value.", hint="write the name of what it results in.")
        self.expect("}")
        made = Block(tuple(self.bindings), result)
        self.bindings = outer
        self.scopes.pop()
        return made

    def line(self) -> Atom | None:
        """A binding (no value), a write, or a value."""
        at = self.next
        if at.kind == "name" and self.ahead(1).text == "=":
            self.at += 2
            term = self.term(at.text)
            self.define(at.text, at)
            self.bindings.append(Binding((at.text,), term, at.line))
            return None
        if at.kind == "name" and self.ahead(1).text in (":", ","):
            self.formula()
            return None
        term = self.term(None)
        if self.accept(":="):
            ref = self.bind(term, at)
            content = self.value()
            self.bindings.append(Binding((), Write(ref, content), at.line))
            return UNIT
        if self.next.kind == "line" and not self.ends_block():  # run for what it does
            self.bindings.append(Binding((), term, at.line))
            return UNIT
        return self.bind(term, at)

    def ends_block(self) -> bool:
        """Whether only ends of lines are left of the block."""
        n = 0
        while self.ahead(n).kind == "line":
            n += 1
        return self.ahead(n).text == "}"

    def formula(self) -> None:
        """y : float32[n] = [i] x[i]*2.0, up to the end of the line."""
        at = self.next
        names: list[Word] = []
        while not self.sees("="):
            if names:
                self.expect(",")
            names.append(self.next)
            self.name()
            self.expect(":")
            self.type()
        own = self.at
        depth = 0
        while depth > 0 or not (self.next.kind in ("line", "end") or self.sees("}")):
            depth += (self.next.text in "([{") - (self.next.text in ")]}")
            self.at += 1
        used = self.words[own + 1 : self.at]
        known = set().union(*self.scopes) - _names_inside(used)
        reads = tuple(dict.fromkeys([w.text for w in used if w.text in known]))
        text = " ".join(self.text[at.start : self.words[self.at - 1].end].split())
        for name in names:
            self.define(name.text, name)
        labels = tuple([n.text for n in names])
        self.bindings.append(Binding(labels, Formula(text, reads), at.line))

    def value(self) -> Atom:
        """A whole term, as an operand."""
        at = self.next
        return self.bind(self.term(None), at)

    def term(self, name: str | None, least: int = 0) -> Term:
        """A term whose operators bind at least so strongly; `name`: what it is bound to."""
        at = self.next
        left: Term
        if self.accept("-"):
            if self.next.kind == "number" and self.ahead(1).text != "**":
                left = Alias(Literal(-self.number()))
            else:
                left = Operator("-", (self.bind(self.term(None, _NEGATION), at),))
        else:
            left = self.postfix(name)
        while self.next.kind == "sign" and BINARY.get(self.next.text, -1) >= max(least, 1):
            op = self.take().text
            first = self.bind(left, at)
            second = self.bind(self.term(None, BINARY[op] + 1), self.next)
            left = Operator(op, (first, second))
        return left

    def number(self) -> int | float:
        """A number without a sign."""
        text = self.take().text
        return int(text) if text.isdigit() else float(text)

    def postfix(self, name: str | None) -> Term:
        """f(x)(y)[0]."""
        at = self.next
        made = self.primary(name)
        while self.sees("(") or self.sees("["):
            of = self.bind(made, at)
            if self.accept("("):
                made = Apply(of, self.values_up_to(")"))
                continue
            self.expect("[")
            word = self.take()
            if word.kind != "number" or not word.text.isdigit():
                self.refuse(
                    "the number of a field stands in brackets.", word,
                    hint="elements of tensors are read in formulas, y : float32[] = x[i].",
                )  # fmt: skip
            self.expect("]")
            made = Field(of, int(word.text))
        return made

    def values_up_to(self, end: str) -> tuple[Atom, ...]:
        """Values with commas between them, and the sign behind them."""
        found: list[Atom] = []
        while not self.accept(end):
            if found:
                self.expect(",")
                if self.accept(end):
                    break
            found.append(self.value())
        return tuple(found)

    def primary(self, name: str | None) -> Term:
        """A number, a name, a tuple, or a term that begins with a word."""
        at = self.next
        if at.kind == "number":
            return Alias(Literal(self.number()))
        if at.kind == "keyword" and at.text in _WORDS:
            self.take()
            return Alias(Literal(_WORDS[at.text]))
        if self.accept("("):
            return self.parenthesised()
        if self.accept("ref"):
            return NewRef(*self.one())
        if self.accept("read"):
            return Read(*self.one())
        if self.accept("inject"):
            tag = self.name("a tag")
            return Inject(tag, self.values_up_to(")") if self.accept("(") else ())
        if at.kind == "keyword":
            return self.with_blocks(name)
        label = self.name("a value")
        if any(label in s for s in self.scopes) or label in self.functions:
            return Alias(Name(label))
        if label in DERIVATIVES and self.sees("("):
            return self.derivative(label)
        if label in self.operators and self.accept("("):
            return self.operator(label)
        known = [n for s in self.scopes for n in s][-8:]
        self.refuse(
            f"undefined name {label}.", at,
            hint=f"names here are {', '.join(sorted(known))}." if known else None,
        )  # fmt: skip

    def one(self) -> tuple[Atom]:
        """(x)."""
        self.expect("(")
        made = self.value()
        self.expect(")")
        return (made,)

    def derivative(self, kind: str) -> Derive:
        """grad(f)."""
        return Derive(kind, *self.one())

    def parenthesised(self) -> Term:
        """A tuple, or one term."""
        if self.accept(")"):
            return Tuple(())
        at = self.next
        first = self.term(None)
        if self.accept(")"):
            return first
        parts = [self.bind(first, at)]
        self.expect(",")
        return Tuple((*parts, *self.values_up_to(")")))

    def operator(self, name: str) -> Operator:
        """sum(x, axis=0), behind the parenthesis."""
        args: list[Atom] = []
        options: list[tuple[str, object]] = []
        while not self.accept(")"):
            if args or options:
                self.expect(",")
                if self.accept(")"):
                    break
            if self.next.kind == "name" and self.ahead(1).text == "=":
                label = self.name()
                self.expect("=")
                options.append((label, self.option()))
            else:
                args.append(self.value())
        return Operator(name, tuple(args), tuple(options))

    def option(self) -> object:
        """A number, True, False, a string, or a tuple of them: a part of the program."""
        word = self.next
        if self.accept("("):
            parts: list[object] = []
            while not self.accept(")"):
                if parts:
                    self.expect(",")
                    if self.accept(")"):
                        break
                parts.append(self.option())
            return tuple(parts)
        sign = -1 if self.accept("-") else 1
        if self.next.kind == "number":
            return sign * self.number()
        self.take()
        if word.kind == "string":
            return word.text[1:-1]
        if word.text in ("True", "False"):
            return word.text == "True"
        self.refuse("an option is a number, True, False, a string or a tuple of them.", word)

    def params(self) -> list[tuple[str, TypeText | None, Word]]:
        """(x : float32[n], f)."""
        self.expect("(")
        found: list[tuple[str, TypeText | None, Word]] = []
        while not self.accept(")"):
            if found:
                self.expect(",")
                if self.accept(")"):
                    break
            at = self.next
            name = self.name("a parameter")
            found.append((name, self.type() if self.accept(":") else None, at))
        return found

    def function(self, name: str, at: Word, is_own: bool) -> Function:
        """(params) -> type { ... }; `is_own`: it may mention itself."""
        params = self.params()
        result = self.type() if self.accept("->") else None
        given = [(n, word) for n, _, word in params]
        block = self.block([(name, at), *given] if is_own else given)
        return Function(tuple([(n, t) for n, t, _ in params]), result, block, name, at.line)

    @abstractmethod
    def with_blocks(self, name: str | None) -> Term:
        """A term that begins with a keyword, and has blocks.

        Abstract: a file above reads them.
        """

    def alternatives(self) -> tuple[Alternative, ...]:
        """nil | cons(float32[], list)."""
        found: list[Alternative] = []
        while not found or self.accept("|"):
            tag = self.name("a tag")
            found.append(Alternative(tag, self.types_up_to(")") if self.accept("(") else ()))
        return tuple(found)

    def program(self) -> Program:
        """All definitions, one below the other."""
        functions: dict[str, Function] = {}
        sums: dict[str, tuple[Alternative, ...]] = {}
        self.lines()
        while self.next.kind != "end":
            is_sum = self.accept("data")
            if not is_sum:
                self.expect("def")
            at = self.next
            name = self.name()
            if name in functions or name in sums:
                self.refuse(f"{name} is defined twice.", at, hint="give it another name.")
            if is_sum:
                self.expect("=")
                sums[name] = self.alternatives()
            else:
                if name in DTYPE_NAMES or name in DERIVATIVES:
                    self.refuse(f"{name} means something else.", at, hint="take another name.")
                functions[name] = self.function(name, at, is_own=False)
            if self.next.kind not in ("line", "end"):
                self.expected("the end of the line")
            self.lines()
        with deep_calls.changed():
            return Program(functions, sums)
