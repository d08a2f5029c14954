"""Rows as aligned text or Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchmarks.peers.contestant import MODES
from benchmarks.peers.ours import FRESH, NAME
from benchmarks.report.records import Row


def aligned(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their cells; the first one to the left."""
    cells = [list(head), *[list(r) for r in rows]]
    widths = [max([len(r[n]) for r in cells]) for n in range(len(head))]
    lines = []
    for r in cells:
        first = r[0].ljust(widths[0])
        rest = [c.rjust(w) for c, w in zip(r[1:], widths[1:], strict=True)]
        lines.append("  ".join([first, *rest]).rstrip())
    lines.insert(1, "-" * max([len(line) for line in lines]))
    return "\n".join(lines)


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same as a Markdown table."""
    lines = ["| " + " | ".join(r) + " |" for r in (head, *rows)]
    lines.insert(1, "|---|" + "--:|" * (len(head) - 1))
    return "\n".join(lines)


def number(value: float | None, digits: int = 3) -> str:
    """Significant digits; a dash where there is nothing."""
    if value is None or math.isnan(value):
        return "-"
    if value >= 10**digits:
        return f"{value:.0f}"
    return f"{value:#.{digits}g}".rstrip(".")


def milliseconds(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Every contestant's milliseconds with ours first, then the ratios."""
    known = dict.fromkeys([n for r in rows for n in (*r.ms, *r.failed)])
    names = [n for n in known if n != NAME]
    head = ["workload", "mode", f"{NAME} ms", *names, "best/ours", "numba/ours", "limit/ours"]
    return head, [_cells(r, names) for r in rows]


def _cells(r: Row, names: Sequence[str]) -> list[str]:
    shown = [_figure(r, n) for n in names]
    best = number(r.ratio()) + (" calls" if r.brief else "")
    ratios = [best, number(r.ratio("numba")), number(r.ratio("limit"))]
    return [title(r), r.mode, _figure(r, NAME), *shown, *ratios]


def _figure(r: Row, name: str) -> str:
    if name in r.failed:
        return "failed"
    return number(r.ms.get(name)) + ("!" if name in r.wrong else "")


def title(r: Row) -> str:
    """The workload, with the sizes where they were drawn."""
    if r.shape == 0:
        return r.workload
    return f"{r.workload} {'x'.join([str(n) for n in r.sizes.values()])}"


def by_mode(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """One line a workload: for each mode our milliseconds, the ratios and who is best.

    x is with results in arrays allocated once, "x fresh" with new ones in every call.
    """
    modes = [m for m in MODES if any(r.mode == m for r in rows)]
    head = ["workload"]
    for m in modes:
        head += [f"{m} ms", "x", "x fresh", "best peer", "of limit"]
    lines: dict[tuple[str, int], dict[str, Row]] = {}
    for r in rows:
        lines.setdefault((r.workload, r.shape), {})[r.mode] = r
    cells = []
    for found in lines.values():
        line = [title(next(iter(found.values())))]
        for m in modes:
            line += _brief(found[m]) if m in found else ["-"] * 5
        cells.append(line)
    return head, cells


def _brief(r: Row) -> list[str]:
    limit = r.ratio("limit")
    share = "-" if math.isnan(limit) else f"{limit:.0%}"
    absent = ", ".join([n for n in r.failed if n not in (NAME, FRESH)])
    best = (r.best or "-") + (f" ({absent} failed)" if absent else "")
    return [_figure(r, NAME), number(r.ratio()), number(r.fresh_ratio), best, share]
