"""Printed loops as HTML: keywords, loop indices and comments set apart."""

from __future__ import annotations

import re
from html import escape
from typing import Final

from tensorad.display.style import COLOURS, page

_LOOP: Final = re.compile(r"^\s*for (\w+) in ")
_TOKEN: Final = re.compile(r"#.*|[A-Za-z_][\w.]*|\S|\s+")
_KEYWORDS: Final = frozenset(
    "for in if else not and or step parallel vector pass visit check".split()
)
_MOST_LINES: Final = 2_000
"""Lines shown; a note says how many more there are."""


def loops_html(text: str) -> str:
    """The text of a loop program; an index has one colour throughout its kernel."""
    kernels: list[str] = []
    lines = text.split("\n")
    for block in re.split(r"(?m)^(?=#)", "\n".join(lines[:_MOST_LINES])):
        if block.strip():
            kernels.append(f'<div class="op"><pre>{_kernel(block.rstrip())}</pre></div>')
    if len(lines) > _MOST_LINES:
        more = len(lines) - _MOST_LINES
        kernels.append(f'<div class="op dim">… and {more} more lines: print the loops</div>')
    return page("".join(kernels))


def _kernel(block: str) -> str:
    colours: dict[str, int] = {}
    lines: list[str] = []
    for line in block.split("\n"):
        loop = _LOOP.match(line)
        if loop:
            colours.setdefault(loop.group(1), len(colours) % COLOURS)
        lines.append("".join([_token(t, colours) for t in _TOKEN.findall(line)]))
    return "\n".join(lines)


def _token(token: str, colours: dict[str, int]) -> str:
    if token.startswith("#"):
        return f'<span class="dim">{escape(token)}</span>'
    if token in colours:
        return f'<span class="ax a{colours[token]}">{token}</span>'
    if token in _KEYWORDS:
        return f'<span class="key">{token}</span>'
    return escape(token)
