"""The look of displayed formulas: one style sheet, light and dark."""

from __future__ import annotations

from typing import Final

COLOURS: Final = 8
"""Distinct index colours; later indices start over."""

_LIGHT: Final = "#0b57d0 #b3261e #146c2e #8430ce #a55200 #00677f #b0005f #5c6000".split()
_DARK: Final = "#8ab4f8 #f28b82 #81c995 #d7aefb #fcad70 #78d9ec #ff8bcb #d5d66b".split()


def _variables(dark: bool) -> str:
    names = ["bg", "fg", "dim", "line", "key"]
    plain = (
        "#1b1c1f #e6e6e6 #a3a8ae #3c4043 #c58af9".split()
        if dark
        else "#ffffff #1f1f1f #5f6368 #dadce0 #7627bb".split()
    )
    pairs = list(zip(names, plain, strict=True))
    pairs.extend((f"c{n}", c) for n, c in enumerate(_DARK if dark else _LIGHT))
    return " ".join([f"--ta-{name}: {value};" for name, value in pairs])


def _sheet() -> str:
    dark = _variables(dark=True)
    told = ", ".join(
        [
            f"{theme} .tensorad"
            for theme in (
                'body[data-jp-theme-light="false"]',
                "body.vscode-dark",
                'html[data-theme="dark"]',
            )
        ]
    )
    unknown = 'body:not([data-jp-theme-light]):not([class*="vscode"])'
    colours = [f".tensorad .a{n} {{ color: var(--ta-c{n}); }}" for n in range(COLOURS)]
    hover = [
        f".tensorad .op:has(.a{n}:hover) .a{n} {{ text-decoration: underline 2px; }}"
        for n in range(COLOURS)
    ]
    return "\n".join(
        [
            f".tensorad {{ {_variables(dark=False)} }}",
            f"@media (prefers-color-scheme: dark) {{ {unknown} .tensorad {{ {dark} }} }}",
            f"{told} {{ {dark} }}",
            _LAYOUT,
            *colours,
            *hover,
        ]
    )


_LAYOUT: Final = """\
.tensorad { background: var(--ta-bg); color: var(--ta-fg); border: 1px solid var(--ta-line);
  border-radius: 6px; padding: 2px 12px; font: 13px/1.55 ui-monospace, "DejaVu Sans Mono",
  Menlo, Consolas, monospace; overflow-x: auto; max-width: 100%; }
.tensorad .op { padding: 6px 0; }
.tensorad .op + .op { border-top: 1px solid var(--ta-line); }
.tensorad .head, .tensorad .dim { color: var(--ta-dim); }
.tensorad .head b { color: var(--ta-fg); }
.tensorad .line { white-space: pre-wrap; padding-left: 1.5em; text-indent: -0.5em; }
.tensorad .fold { font-size: 1.25em; }
.tensorad .key { color: var(--ta-key); }
.tensorad .ax { font-style: italic; }
.tensorad sub, .tensorad sup { font-size: 0.85em; line-height: 0; }
.tensorad pre { margin: 6px 0; font: inherit; background: none; color: inherit; }"""

SHEET: Final = _sheet()
"""Goes with every displayed piece, since a notebook may show any of them alone."""


def page(body: str) -> str:
    """A displayed piece: the style sheet and the framed body."""
    return f'<style>{SHEET}</style><div class="tensorad">{body}</div>'
