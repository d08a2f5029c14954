"""Words one after the other, and types among them."""

from __future__ import annotations

from typing import NoReturn

from tensorad.language.types import (
    FunctionText,
    NamedText,
    RefText,
    TensorText,
    TupleText,
    TypeText,
)
from tensorad.language.words import Word, refuse, words_of


class TypeReader:
    """A place in the words of a text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = words_of(text)
        self.at = 0

    @property
    def next(self) -> Word:
        """The word here."""
        return self.words[self.at]

    def ahead(self, n: int) -> Word:
        """The word that is n further on."""
        return self.words[min(self.at + n, len(self.words) - 1)]

    def sees(self, text: str) -> bool:
        """Whether this sign or keyword is here."""
        return self.next.text == text and self.next.kind in ("sign", "keyword")

    def accept(self, text: str) -> bool:
        """Go on if this sign or keyword is here."""
        found = self.sees(text)
        self.at += found
        return found

    def take(self) -> Word:
        """The word here; go on to the next."""
        self.at += 1
        return self.words[self.at - 1]

    def expect(self, text: str) -> Word:
        """Go on behind this sign or keyword."""
        if not self.sees(text):
            self.expected(f"{text!r}")
        return self.take()

    def name(self, what: str = "a name") -> str:
        """Go on behind a name."""
        if self.next.kind != "name":
            self.expected(what)
        return self.take().text

    def expected(self, what: str) -> NoReturn:
        """Say that something else was to come."""
        shown = "the end of the line" if self.next.kind == "line" else repr(self.next.text)
        hint = None
        if self.next.kind == "keyword":
            hint = f"{self.next.text} is a word of the language: take another name."
        self.refuse(f"expected {what}, found {shown}.", hint=hint)

    def refuse(self, what: str, at: Word | None = None, hint: str | None = None) -> NoReturn:
        """Say what is wrong at a word, or here."""
        refuse(self.text, at or self.next, what, hint)

    def lines(self) -> None:
        """Go on behind ends of lines."""
        while self.next.kind == "line":
            self.at += 1

    def type(self) -> TypeText:
        """float32[5, n], (a, b), fn (a) -> b, ref(a), or a name."""
        if self.accept("("):
            return TupleText(self.types_up_to(")"))
        if self.accept("fn"):
            self.expect("(")
            params = self.types_up_to(")")
            self.expect("->")
            return FunctionText(params, self.type())
        if self.accept("ref"):
            self.expect("(")
            content = self.type()
            self.expect(")")
            return RefText(content)
        name = self.name("a type")
        if not self.accept("["):
            return NamedText(name)
        extents: list[int | str] = []
        while not self.accept("]"):
            if extents:
                self.expect(",")
            star = "*" if self.accept("*") else ""
            word = self.take()
            if word.kind == "number" and not star and word.text.isdigit():
                extents.append(int(word.text))
            elif word.kind == "name":
                extents.append(star + word.text)
            else:
                self.refuse("an extent is a whole number or a name; *s stands for several.", word)
        return TensorText(name, tuple(extents))

    def types_up_to(self, end: str) -> tuple[TypeText, ...]:
        """Types with commas between them, and the sign behind them."""
        found: list[TypeText] = []
        while not self.accept(end):
            if found:
                self.expect(",")
                if self.accept(end):
                    break
            found.append(self.type())
        return tuple(found)
