"""What a gradient check found: a table of comparisons, or the first wrong element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
_HEADS: Final = ("derivative", "mode", "values", "worst error", "at")


@dataclass(frozen=True)
class Row:
    """One comparison of arrays.

    Attributes:
        derivative: of what by what, e.g. "Y by X".
        mode: how the derivative was computed.
        values: how many elements were compared.
        error: the worst difference, relative to the largest value (at least 1).
        place: the element it belongs to.
        kinks: how many elements lie at a kink or jump, where any slope between the one-sided
            ones is accepted.
    """

    derivative: str
    mode: str
    values: int
    error: float
    place: str
    kinks: int = 0


@dataclass
class GradReport:
    """The result of `gradcheck(..., report=True)`: true if all agreed; its text is a table.

    Attributes:
        names: what was checked, e.g. "Y by X, W".
        settings: order, step, tolerance and seed as text.
        rows: the comparisons, in the order they were made.
        wrong: the first disagreement, or None.
    """

    names: str
    settings: str
    rows: list[Row] = field(default_factory=list)
    wrong: str | None = None

    def __bool__(self) -> bool:
        return self.wrong is None

    @property
    def kinks(self) -> int:
        """How many compared elements lie at a kink or jump."""
        return sum([r.kinks for r in self.rows])

    @property
    def error(self) -> float:
        """The worst error of all comparisons."""
        return max([r.error for r in self.rows], default=0.0)

    def __str__(self) -> str:
        lines = [f"gradcheck of {self.names}: {'ok' if self else 'WRONG'}", f"  {self.settings}"]
        cells = [_HEADS, *[_cells(r) for r in self.rows]]
        widths = [max([len(row[n]) for row in cells]) for n in range(len(_HEADS))]
        for row in cells:
            lines.append("  " + _aligned(row, widths))
        if self.kinks:
            many = "elements lie" if self.kinks > 1 else "element lies"
            lines.append(f"  {self.kinks} {many} at a kink: slopes between the one-sided ones pass")
        if self.wrong is not None:
            lines += ["  wrong: " + self.wrong.replace("\n", "\n  ")]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def _cells(r: Row) -> tuple[str, ...]:
    return (r.derivative, r.mode, str(r.values), f"{r.error:.1e}", r.place)


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    numbers = (2, 3)
    parts = [
        cell.rjust(w) if n in numbers else cell.ljust(w)
        for n, (cell, w) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(parts).rstrip()


def place_text(name: str, index: Sequence[int]) -> str:
    """An element's name, X[1, 2]; a 0-d one is the name alone."""
    return f"{name}[{', '.join(map(str, index))}]" if index else name


class Disagreement(Exception):
    """Two ways to differentiate disagree; ends the check."""

    def __init__(self, text: str, row: Row) -> None:
        super().__init__(text)
        self.text = text
        self.row = row
