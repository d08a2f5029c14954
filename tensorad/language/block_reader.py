"""Terms with blocks in the text of programs: functions, branches, matches, loops."""

from __future__ import annotations

from typing import Any

from tensorad.language.operators import OPERATORS
from tensorad.language.reader import Lines
from tensorad.language.terms import Atom, Block, Case, If, Loop, Match, Program, Term
from tensorad.language.words import Word
from tensorad.process import deep_calls


def parse(text: str) -> Program:
    """The program that a text describes; its grammar is in `tensorad/language/README.md`.

    Raises:
        ProgramTextError: the text is no program; the error has the line.
    """
    with deep_calls.changed():
        return _Reader(text, OPERATORS).program()


class _Reader(Lines):
    """Reads a whole program."""

    def with_blocks(self, name: str | None) -> Term:
        """A function, a branch, a match or a loop."""
        at = self.next
        if self.accept("fn"):
            label = self.new_name() if name is None else name
            return self.function(label, at, is_own=True)
        if self.accept("if"):
            return self.branch()
        if self.accept("match"):
            return self.match()
        if self.accept("loop"):
            return self.loop()
        self.expected("a value")

    def branch(self) -> If:
        """c { ... } else { ... }."""
        condition = self.value()
        then = self.block()
        self.expect("else")
        if not self.sees("if"):
            return If(condition, then, self.block())
        outer, self.bindings = self.bindings, []
        self.scopes.append(set())
        at = self.take()
        result = self.bind(self.branch(), at)
        orelse = Block(tuple(self.bindings), result)
        self.scopes.pop()
        self.bindings = outer
        return If(condition, then, orelse)

    def match(self) -> Match:
        """xs { case nil { ... } case cons(x, rest) { ... } }."""
        of = self.value()
        self.expect("{")
        self.lines()
        cases: list[Case] = []
        while not self.accept("}"):
            self.expect("case")
            at = self.next
            tag = self.name("a tag")
            if tag in [c.tag for c in cases]:
                self.refuse(f"there are two cases {tag}.", at)
            fields: list[tuple[str, Word]] = []
            if self.accept("("):
                while not self.accept(")"):
                    if fields:
                        self.expect(",")
                    fields.append((self.next.text, self.next))
                    self.name("a name for the field")
            cases.append(Case(tag, tuple([n for n, _ in fields]), self.block(fields)))
            self.lines()
        return Match(of, tuple(cases))

    def loop(self) -> Loop:
        """i in [0, n) carry (s = a) { ... }, or carry (s = a) while { ... } do { ... }."""
        own: list[tuple[str, Word]] = []
        counter: str | None = None
        trips: Atom | None = None
        if not self.sees("carry"):
            own.append((self.next.text, self.next))
            counter = self.name("the counter, or 'carry'")
            self.expect("in")
            trips = self.range_end()
        self.expect("carry")
        self.expect("(")
        carries: list[tuple[str, Atom]] = []
        while not self.accept(")"):
            if carries:
                self.expect(",")
            at = self.next
            name = self.name("a carry")
            own.append((name, at))
            self.expect("=")
            carries.append((name, self.value()))
        test = None
        if counter is None:
            self.expect("while")
            test = self.block(own)
            self.expect("do")
        return Loop(tuple(carries), self.block(own), counter, trips, test)

    def range_end(self) -> Atom:
        """[0, n): the n."""
        self.expect("[")
        zero = self.take()
        if zero.text != "0":
            self.refuse("a counter begins at 0.", zero)
        self.expect(",")
        trips: Any = self.value()
        self.expect(")")
        return trips  # type: ignore[no-any-return]  # an atom
