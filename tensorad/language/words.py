"""Words of the text of programs: braces hold blocks, and ends of lines count inside of them."""

from __future__ import annotations

import re
from typing import Final, NamedTuple, NoReturn

from tensorad.errors import ProgramTextError

KEYWORDS: Final = frozenset(
    "def data fn if else match case loop carry while do in ref read inject True False inf "
    "nan".split()
)
GRAMMAR: Final = "the grammar is in tensorad/language/README.md."
_WORD: Final = re.compile(
    r"(?P<blank>[ \t\r]+|#[^\n]*)"
    r"|(?P<line>\n|;)"
    r"|(?P<number>\d+(\.\d+)?([eE][+-]?\d+)?)"
    r"|(?P<name>[^\W\d]\w*)"
    r"|(?P<string>\"[^\"\n]*\")"
    r"|(?P<sign>:=|\*\*|//|==|!=|<=|>=|->|[-+*/%@<>=()\[\]{}:,|])"
)
_CLOSES: Final = {")": "([", "]": "[", "}": "{"}
"""What a sign closes; ranges are half-open, [0, n)."""


class Word(NamedTuple):
    """A word; `kind`: name, keyword, number, string, sign, line or end."""

    kind: str
    text: str
    line: int
    start: int
    end: int


def refuse(text: str, at: Word, what: str, hint: str | None = None) -> NoReturn:
    """Say what is wrong at a word.

    Raises:
        ProgramTextError: always.
    """
    lines = text.split("\n")
    shown = lines[at.line - 1].strip() if at.line <= len(lines) else "the end of the text"
    raise ProgramTextError(what, where=f"line {at.line}: {shown}", hint=hint or GRAMMAR)


def words_of(text: str) -> list[Word]:
    """All words; inside of parentheses and brackets a line goes on.

    Raises:
        ProgramTextError: a character that no word begins with, or brackets that do not match.
    """
    found: list[Word] = []
    opened: list[Word] = []
    at, line = 0, 1
    while at < len(text):
        m = _WORD.match(text, at)
        if m is None:
            hint = "a field of a tuple is x[0]." if text[at] == "." else None
            word = Word("", text[at], line, at, at)
            refuse(text, word, f"{text[at]!r} stands for nothing here.", hint)
        kind, sign = str(m.lastgroup), m[0]
        made = Word(kind, sign, line, at, m.end())
        at = m.end()
        if kind == "line":
            line += sign == "\n"
            inside = opened[-1].text if opened else "{"
            if inside == "{" and found and found[-1].kind != "line":
                found.append(made)
            continue
        if kind == "blank":
            continue
        if kind == "sign" and sign in "([{":
            opened.append(made)
        elif sign in _CLOSES:
            if not opened or opened[-1].text not in _CLOSES[sign]:
                refuse(text, made, f"{sign!r} closes nothing here.")
            opened.pop()
        found.append(made._replace(kind="keyword") if sign in KEYWORDS else made)
    if opened:
        refuse(text, opened[-1], f"{opened[-1].text!r} is not closed.")
    end = Word("end", "the end of the text", line, at, at)
    return [*found, end]
