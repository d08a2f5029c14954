"""Programs as HTML: their text, words and definitions marked."""

from __future__ import annotations

import re
from html import escape
from typing import Final

from tensorad.display.style import page
from tensorad.ir.text import program
from tensorad.ir.text.program import Program
from tensorad.ir.text.tokens import BETWEEN, RESERVED

_MOST_LINES: Final = 400
"""Lines shown; a note says how many more there are."""
_LONGEST: Final = 2_000
"""Characters of one line that are shown."""
_WORD: Final = re.compile(r"`([^`\\]|\\.)*`|[^\W\d]\w*(\.\w+)*")
_DEFINED: Final = re.compile(
    r"^ *((def|define|type|combiner|function) )?(`([^`\\]|\\.)*`|[^\W\d][\w.]*)"
)
_SIGNS: Final = frozenset((*RESERVED, *BETWEEN)) - {"inf", "nan", "True", "False"}


def program_html(p: Program) -> str:
    """The text of a program in a frame."""
    lines = str(p).rstrip("\n").split("\n")
    shown = [_line(text) for text in lines[:_MOST_LINES]]
    if len(lines) > _MOST_LINES:
        shown.append(f'<span class="dim">… and {len(lines) - _MOST_LINES} more lines</span>')
    body = "\n".join(shown)
    return page(f"<pre>{body}</pre>")


def _line(text: str) -> str:
    """One line: words of the language coloured, the first name that it defines in bold."""
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"
    found = _DEFINED.match(text)
    bold = found.start(3) if found is not None and found[3] not in RESERVED else -1
    parts, end = [], 0
    for m in _WORD.finditer(text):
        word = escape(m[0])
        if m.start() == bold:
            word = f"<b>{word}</b>"
        elif m[0] in _SIGNS:
            word = f'<span class="key">{word}</span>'
        parts += [escape(text[end : m.start()]), word]
        end = m.end()
    return "".join([*parts, escape(text[end:])])


program.program_html.fill(program_html)
