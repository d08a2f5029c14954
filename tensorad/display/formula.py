"""Expressions as HTML: coloured indices, big signs for reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Final

from tensorad.display.style import COLOURS
from tensorad.ir.expr import ONE, TRUE, Axis, Call, Expr, Param, Read, Reduce
from tensorad.ir.tensor import Tensor
from tensorad.ir.text.printer import ATOM, ExprWriter, Item, listed

_SIGNS: Final = {"sum": "Σ", "prod": "Π"}
_SYMBOLS: Final = {
    "*": "·", " <= ": " ≤ ", " >= ": " ≥ ", " != ": " ≠ ", " == ": " = ", " and ": " ∧ ",
    " or ": " ∨ ", "not ": "¬", " - ": " − ", "-": "−",
}  # fmt: skip
_PRODUCT: Final = 6
"""Binding strength of products: what stands after a reduction sign."""


class FormulaWriter(ExprWriter):
    """Writes HTML; each axis of the scope has a colour of its own."""

    def __init__(self, tensor_name: Callable[[Tensor], str] | None = None) -> None:
        super().__init__(tensor_name)
        self.colours: dict[Expr, int] = {}

    def node(self, e: Expr) -> tuple[list[Item], int]:
        """The parts of one node, text escaped, and how strongly it binds."""
        match e:
            case Axis():
                return [self.axis_name(e)], ATOM
            case Param():
                return [f'<span class="ax">{escape(self.leaves.get(e, e.name))}</span>'], ATOM
            case Read():
                name = escape(self.tensor_name(e.tensor))
                return [f"<b>{name}</b>[", *listed(e.indices), "]"], ATOM
            case Reduce():
                return self.fold(e)
            case Call() if e.op == "pow":
                return [(e.args[0], ATOM), "<sup>", (e.args[1], 0), "</sup>"], ATOM - 1
        items, strength = super().node(e)
        return [_SYMBOLS.get(i, escape(i)) if isinstance(i, str) else i for i in items], strength

    def colour(self, axes: Sequence[Axis]) -> None:
        """Give these axes the first colours."""
        for a in axes:
            self.colours.setdefault(a, len(self.colours) % COLOURS)

    def axis_name(self, a: Axis) -> str:
        """The coloured name of an axis."""
        colour = self.colours.setdefault(a, len(self.colours) % COLOURS)
        return f'<span class="ax a{colour}">{escape(self.leaves.get(a, a.name))}</span>'

    def fold(self, e: Reduce) -> tuple[list[Item], int]:
        """Σ with its axes and condition below, then the source."""
        name = e.combiner.name
        items: list[Item] = [f'<span class="fold">{_SIGNS.get(name, escape(name))}</span><sub>']
        items.extend(self.ranges(e.axes))
        if e.condition is not TRUE:
            items.extend(["; ", (e.condition, 0)])
        items.append("</sub> ")
        if len(e.sources) > 1:
            part = f'<span class="dim">.{e.index}</span>'
            return [*items, "(", *listed(e.sources), f"){part}"], _PRODUCT - 1
        if name in _SIGNS:
            return [*items, (e.sources[0], _PRODUCT)], _PRODUCT - 1
        return [*items, "(", (e.sources[0], 0), ")"], _PRODUCT - 1

    def ranges(self, axes: Sequence[Axis]) -> list[Item]:
        """lower ≤ axis < upper, ..."""
        items: list[Item] = []
        for n, a in enumerate(axes):
            items.extend([", "] if n else [])
            items.extend([(a.lower, 0), f" ≤ {self.axis_name(a)} &lt; ", (a.upper, 0)])
            if a.step is not ONE:
                items.extend([" step ", (a.step, 0)])
        return items

    def joined(self, items: Sequence[Item]) -> str:
        """The HTML of parts."""
        return "".join([i if isinstance(i, str) else self.text(i[0]) for i in items])
