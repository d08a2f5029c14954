"""Words of the text of programs: names, numbers and signs, lines and how far they are indented."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from tensorad.errors import ProgramTextError

RESERVED: Final = frozenset(
    "and or not True False inf nan none def call branch case loop do yield save return scatter "
    "scan constant checkpoint recompute".split()
)
"""Words that are no names, unless they stand in backquotes."""
BETWEEN: Final = frozenset(
    "over of where in as step while carry fixed times reverse at from for cell exclusive giving "
    "combiner associative function partials keep type define make tag fields recur replay "
    "foreign".split()
)
"""Words that stand only where no name can: they may be names elsewhere."""
GRAMMAR: Final = "the grammar of programs is in tensorad/ir/text/README.md."
_PLAIN: Final = re.compile(r"[^\W\d]\w*(\.\w+)*")
_TOKEN: Final = re.compile(
    r"(?P<blank>[ \t\r]+|#[^\n]*)"
    r"|(?P<line>\n)"
    r"|(?P<number>\d+(\.\d*)?([eE][+-]?\d+)?)"
    r"|(?P<name>[^\W\d]\w*(\.\w+)*)"
    r"|(?P<quoted>`([^`\\\n]|\\.)*`)"
    r"|(?P<sign>\*\*|//|==|!=|<=|>=|->|[-+*/%<>=()\[\]{}:,;|])"
)
_ESCAPED: Final = {"\\": "\\\\", "`": "\\`", "\n": "\\n"}
_MEANT: Final = {"n": "\n"}


class Token(NamedTuple):
    """A word at its place; `kind`: name, number, sign, word (a reserved one), line, indent, dedent
    or end."""

    kind: str
    text: str
    line: int
    column: int


def quoted(name: str) -> str:
    """The name as a text has it: in backquotes if it is no plain one."""
    if _PLAIN.fullmatch(name) and name not in RESERVED:
        return name
    return f"`{''.join([_ESCAPED.get(c, c) for c in name])}`"


def _meant(text: str) -> str:
    return re.sub(r"\\(.)", lambda m: _MEANT.get(m[1], m[1]), text[1:-1])


def text_error(
    what: str, lines: list[str], token: Token, hint: str | None = None
) -> ProgramTextError:
    """An error at a token, with its line."""
    shown = lines[token.line - 1].strip() if token.line <= len(lines) else "the end of the text"
    where = f"line {token.line}, column {token.column}: {shown}"
    return ProgramTextError(what, where=where, hint=hint or GRAMMAR)


def tokens_of(text: str) -> list[Token]:
    """All words; lines inside of brackets go on, empty ones are left out.

    Raises:
        ProgramTextError: a character that no word begins with, or a line indented as none before.
    """
    lines = text.split("\n")
    found: list[Token] = []
    indents = [0]
    depth, at, line, start = 0, 0, 1, 0
    fresh = True
    while at < len(text):
        m = _TOKEN.match(text, at)
        token = Token("", text[at], line, at - start + 1)
        if m is None:
            raise text_error(
                f"{text[at]!r} stands for nothing here.", lines, token,
                hint="a name with such characters is written in backquotes, `a b`.",
            )  # fmt: skip
        kind, at = str(m.lastgroup), m.end()
        if kind == "line":
            if not depth and not fresh:
                found.append(token._replace(kind="line", text="the end of the line"))
            fresh = fresh or not depth
            line, start = line + 1, at
        elif kind != "blank":
            if fresh:
                _indent(token, indents, found, lines)
            fresh = False
            depth += (m[0] in "([{") - (m[0] in ")]}") if kind == "sign" else 0
            found.append(_word(kind, m[0], token))
    end = Token("end", "the end of the text", len(lines), len(lines[-1]) + 1)
    if not fresh:
        found.append(end._replace(kind="line", text="the end of the line"))
    found.extend([end._replace(kind="dedent")] * (len(indents) - 1))
    return [*found, end]


def _word(kind: str, text: str, at: Token) -> Token:
    if kind == "quoted":
        return at._replace(kind="name", text=_meant(text))
    return at._replace(kind="word" if text in RESERVED else kind, text=text)


def _indent(token: Token, indents: list[int], found: list[Token], lines: list[str]) -> None:
    """Words that say that the lines from here are indented more, or less."""
    own = token.column - 1
    if own > indents[-1]:
        indents.append(own)
        found.append(token._replace(kind="indent", text="an indented line"))
    while own < indents[-1]:
        indents.pop()
        found.append(token._replace(kind="dedent", text="the end of the block"))
    if own != indents[-1]:
        raise text_error(
            "this line is indented as no block around it.", lines, token,
            hint="give all lines of a block the same blanks.",
        )  # fmt: skip
