"""Explanations as HTML: one framed card per adjoint, labelled rows, coloured indices."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from tensorad.display.explain_words import LEGEND, Card, Row, cards, heading, order_card, summary
from tensorad.display.formula import FormulaWriter
from tensorad.display.style import COLOURS, page
from tensorad.ir.expr import Axis, Expr
from tensorad.ir.text.names import TensorNames
from tensorad.ir.visit import postorder
from tensorad.stories import Gradient, Order

_SYMBOLS: Final = ((" <= ", " ≤ "), (" -> ", " → "), (" and ", " ∧ "), (" := ", " = "))
_MARKS: Final = {"good": "✓ ", "weak": "≈ ", "bad": "✗ ", "": ""}
_SHEET: Final = """\
.tensorad .why { display: grid; grid-template-columns: 5em 1fr; column-gap: 0.9em; }
.tensorad .why > .of { color: var(--ta-dim); text-align: right; }
.tensorad .why > .is { white-space: pre-wrap; overflow-wrap: anywhere; padding-left: 1.5em;
  text-indent: -1.5em; }
.tensorad .why > .first { margin-top: 0.5em; }
.tensorad .title { font-size: 1.1em; }
.tensorad .good { color: var(--ta-c2); } .tensorad .weak { color: var(--ta-c4); }
.tensorad .bad { color: var(--ta-c1); }"""


def explanation_html(gradients: Sequence[Gradient], orders: Sequence[Order]) -> str:
    """All gradients, one after the other; then the orders of other tensors."""
    parts = [_gradient(g) for g in gradients]
    parts += [_card(order_card(o), TensorNames([])) for o in orders]
    if gradients:
        parts.append(f'<div class="op dim">{escape(LEGEND)}</div>')
    return f"<style>{_SHEET}</style>{page(''.join(parts))}"


def _gradient(g: Gradient) -> str:
    names = TensorNames([])
    about = escape(heading(g))
    head = f'<div class="title"><b>{escape(g.tensor.name)}</b> is {about}</div>'
    rows = _rows(summary(g), _Scope(names))
    return f'<div class="op">{head}{rows}</div>' + "".join([_card(c, names) for c in cards(g)])


def _card(card: Card, names: TensorNames) -> str:
    scope = _Scope(names)
    name, colon, rest = scope.text(Row("", card.title)).partition(" : ")
    head = f'<div class="head"><b>{name}</b>{colon}{rest}</div>'
    return f'<div class="op">{head}{_rows(card.rows, scope)}</div>'


def _rows(rows: Sequence[Row], scope: _Scope) -> str:
    cells = []
    for row in rows:
        first = " first" if row.label in ("read", "inlined") else ""
        text = f"{_MARKS[row.mark]}{scope.text(row)}"
        mark = f" {row.mark}" if row.mark else ""
        cells.append(f'<div class="of{first}">{escape(row.label)}</div>')
        cells.append(f'<div class="is{first}{mark}">{text}</div>')
    return f'<div class="why">{"".join(cells)}</div>'


class _Scope:
    """One card: an axis and its primed counterpart have one colour throughout."""

    def __init__(self, names: TensorNames) -> None:
        self.names = names
        self.colours: dict[str, int] = {}

    def text(self, row: Row) -> str:
        """The words of a row."""
        writer = FormulaWriter(self.names)
        for leaf, name in row.names.items():
            writer.leaves[leaf] = name
        for w in row.words:
            if isinstance(w, Expr):
                self._colour(w, writer)
        return "".join(
            [
                self._plain(w, row.formal) if isinstance(w, str) else writer.text(w)
                for w in row.words
            ]
        )

    def _colour(self, root: Expr, writer: FormulaWriter) -> None:
        for e in postorder(root):
            if isinstance(e, Axis):
                base = writer.leaves.get(e, e.name).rstrip("'")
                colour = self.colours.setdefault(base, len(self.colours) % COLOURS)
                writer.colours[e] = colour

    @staticmethod
    def _plain(words: str, formal: bool) -> str:
        if formal:
            for plain, symbol in _SYMBOLS:
                words = words.replace(plain, symbol)
        return escape(words)
