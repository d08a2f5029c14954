"""Why a contraction runs as it does, for the report of a schedule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from tensorad.codegen.contraction.blocking import Blocking
from tensorad.codegen.contraction.recognise import is_symbolic, size
from tensorad.codegen.nest.ir import Nest
from tensorad.ir.analysis.decisions import Decision, is_listening, note
from tensorad.ir.expr import Axis


def explain_blocking(b: Blocking, nest: Nest) -> None:
    """Note the decisions of a contraction that is being written."""
    if is_listening():
        for what, why in _reasons(b):
            note(Decision(nest.tensors, what, why))


def _reasons(b: Blocking) -> Iterator[tuple[str, str]]:
    c = b.contraction
    batch = f", batch {_listed(c.batch)}" if c.batch else ""
    operands = f"{_listed(b.rows.axes)} with {_listed(b.lanes.axes)} over {_listed(c.reduced)}"
    yield "contraction", f"{operands}{batch}"
    tile = b.tiles(min(b.panel, b.flat))[0]
    sums = f"{tile.rows * tile.registers} sums stay in registers"
    yield f"register tile {tile.rows} x {tile.registers * b.width}", sums
    yield f"lanes along {_listed(b.group)}", _SOURCES[b.mode]
    if b.rows_mode != "place":
        yield f"{_listed(b.rows.axes)} copied", _SOURCES[b.rows_mode]
    if b.together > 1:
        yield f"{b.together} panels take each block together", "they read the same rows"
    if b.by_blocks:
        yield "the copy is made block by block", "it stays in the second cache"
    if b.blocks > 1 and not is_symbolic(c.reduced):
        taken = prod(size(a) for a in c.reduced)
        yield f"{b.depth} of {taken} steps at a time", "what they read stays in the second cache"
    if b.strip:
        yield f"strips of {b.strip} steps", "lines asked for stay in the second cache until read"
    if b.parallel and (b.by_rows or b.shared > 1):
        yield "threads share " + ("row tiles" if b.by_rows else "panels"), ""
    if b.rows_awake:
        yield "threads share row tiles", "while they are awake"


_SOURCES = {
    "place": "loaded from the operand itself",
    "panel": "packed into panels",
    "gaps": "loaded from the operand as it lies, what is between its rows included",
    "relayout": "loaded from a copy that has them side by side",
}


def _listed(axes: Sequence[Axis]) -> str:
    return ", ".join([a.name for a in axes])
