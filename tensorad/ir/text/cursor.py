"""Reading the words of a text one after the other."""

from __future__ import annotations

from typing import NoReturn

from tensorad.ir.text.tokens import BETWEEN, Token, text_error, tokens_of


class Cursor:
    """A place in the words of a text."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.tokens = tokens_of(text)
        self.at = 0

    @property
    def next(self) -> Token:
        """The word here."""
        return self.tokens[self.at]

    def ahead(self, n: int) -> Token:
        """The word that is n further on."""
        return self.tokens[min(self.at + n, len(self.tokens) - 1)]

    def take(self) -> Token:
        """The word here; go on to the next."""
        token = self.tokens[self.at]
        self.at += 1
        return token

    def sees(self, text: str) -> bool:
        """Whether this sign or reserved word is here."""
        return self.is_word(self.tokens[self.at], text)

    def is_word(self, token: Token, text: str) -> bool:
        """Whether the token is this sign or word, no name that looks like it."""
        return token.text == text and (token.kind in ("sign", "word") or text in BETWEEN)

    def accept(self, text: str) -> bool:
        """Go on if this sign or reserved word is here."""
        found = self.sees(text)
        self.at += found
        return found

    def expect(self, text: str) -> Token:
        """Go on behind this sign or reserved word.

        Raises:
            ProgramTextError: something else is here.
        """
        if not self.sees(text):
            self.expected(f"{text!r}")
        return self.take()

    def expect_kind(self, kind: str, what: str) -> Token:
        """Go on behind a word of a kind.

        Raises:
            ProgramTextError: something else is here.
        """
        if self.next.kind != kind:
            self.expected(what)
        return self.take()

    def name(self, what: str = "a name") -> str:
        """Go on behind a name."""
        return self.expect_kind("name", what).text

    def expected(self, what: str) -> NoReturn:
        """Say that something else was to come."""
        token = self.next
        shown = token.text if token.kind in ("line", "indent", "dedent", "end") else (
            f"{token.text!r}")  # fmt: skip
        hint = f"a name that is a word of the language stands in backquotes, `{token.text}`."
        is_name = token.kind == "word" and token.text not in ("return", "yield")
        self.refuse(f"expected {what}, found {shown}.", token, hint if is_name else None)

    def refuse(self, what: str, token: Token | None = None, hint: str | None = None) -> NoReturn:
        """Say what is wrong at a word, or here."""
        raise text_error(what, self.lines, token or self.next, hint)
