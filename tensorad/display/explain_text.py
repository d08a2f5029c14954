"""Explanations as text, wrapped to a readable width."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import Final

from tensorad.display.explain_words import (
    LEGEND,
    Card,
    Row,
    Words,
    cards,
    heading,
    order_card,
    summary,
)
from tensorad.ir.text.names import TensorNames
from tensorad.ir.text.printer import ExprWriter
from tensorad.stories import Gradient, Order

_WIDTH: Final = 100
_LABEL: Final = 9


def explanation_text(gradients: Sequence[Gradient], orders: Sequence[Order]) -> str:
    """All gradients, one after the other; then the orders of other tensors."""
    legend = ["\n".join(wrap(LEGEND, _WIDTH))] if gradients else []
    cards_ = ["\n".join(_card(order_card(o), TensorNames([]))) for o in orders]
    return "\n\n".join([*[_gradient(g) for g in gradients], *cards_, *legend])


def _gradient(g: Gradient) -> str:
    names = TensorNames([])
    lines = [f"{g.tensor.name} is {heading(g)}"]
    lines += [line for row in summary(g) for line in _row(row, names)]
    for card in cards(g):
        lines += ["", *_card(card, names)]
    return "\n".join(lines)


def _card(card: Card, names: TensorNames) -> list[str]:
    rows = [line for row in card.rows for line in _row(row, names)]
    return [_text(card.title, {}, names), *rows]


def _row(row: Row, names: TensorNames) -> list[str]:
    mark = {"good": "", "weak": "(weak) ", "bad": "NOT CERTIFIED: "}.get(row.mark, "")
    text = mark + _text(row.words, row.names, names)
    head = f"  {row.label:<{_LABEL}}"
    rest = " " * len(head)
    return wrap(
        text, _WIDTH, initial_indent=head, subsequent_indent=rest + "  ",
        break_long_words=False, break_on_hyphens=False,
    ) or [head.rstrip()]  # fmt: skip


def _text(words: Words, leaves: object, names: TensorNames) -> str:
    writer = ExprWriter(names)
    if isinstance(leaves, dict):
        writer.leaves.update(leaves)
    return "".join([w if isinstance(w, str) else writer.text(w) for w in words])
