"""Items: what a compute stores, the pieces that its nest is cut into, and their loops.

Each step is a pure function. What a compute stores becomes items (its stages, then itself), an
item becomes pieces, and each piece gets a plan (`plan_cache` keeps what is made on the way);
`fusion` runs several items in one loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tensorad.codegen.cost.cache_traffic import extent_product
from tensorad.codegen.directives import OPEN, Choices
from tensorad.codegen.loops.ir import Stmt, Store, Visit
from tensorad.codegen.loops.rewrite import rewrite
from tensorad.codegen.model import MODEL
from tensorad.codegen.nest.folds import lower_values
from tensorad.codegen.nest.ir import Nest
from tensorad.codegen.scan.scatter import free_loops
from tensorad.codegen.schedule.borders import emit_bordered
from tensorad.codegen.schedule.emit import emit_nest
from tensorad.codegen.schedule.flatten import flattened
from tensorad.codegen.schedule.fuse_pieces import emit_together, together
from tensorad.codegen.schedule.nest_plan import PlannedPieces
from tensorad.codegen.schedule.plan import plan_nest
from tensorad.codegen.splitting.blocked_sums import block_sums
from tensorad.codegen.splitting.stages import split_stages, stage_uses
from tensorad.codegen.splitting.term_parts import split_terms
from tensorad.ir.analysis.decisions import Decision, note
from tensorad.ir.analysis.sizes import ASSUMED_FOLDED
from tensorad.ir.expr import Axis, Expr
from tensorad.ir.tensor import Compute, Tensor, outputs
from tensorad.ir.visit import reads, substitute_all

"""Pieces with their plans."""


@dataclass(frozen=True, eq=False)
class Epilogue:
    """tensors[n][axes] = bodies[n], read from what was just computed at the same place."""

    axes: tuple[Axis, ...]
    bodies: tuple[Expr, ...]
    tensors: tuple[Tensor, ...]

    def at(self, indices: Sequence[Expr], made: Mapping[Tensor, Expr]) -> tuple[Expr, ...]:
        """The bodies at these indices; reads of what is made there become its values."""
        mapping: dict[Expr, Expr] = dict(zip(self.axes, indices, strict=True))
        for r in reads(*self.bodies):
            if r.tensor in made:
                mapping[r] = made[r.tensor]
        return substitute_all(self.bodies, mapping)


@dataclass(frozen=True, eq=False)
class Item:
    """live[n][axes] = bodies[n], by one kernel if it runs alone."""

    name: str
    axes: tuple[Axis, ...]
    bodies: tuple[Expr, ...]
    live: tuple[Tensor, ...]
    choices: Choices = OPEN
    blocks: bool = False
    """Whether it holds partial sums of blocks: threads share those, not its other rows."""
    partial: bool = False
    """Whether it adds up some of many terms: the next part has a kernel of its own."""
    epilogues: tuple[Epilogue, ...] = ()
    kept: tuple[Tensor, ...] | None = None
    """What is stored where epilogues follow; None: `live`."""

    @property
    def writes(self) -> tuple[Tensor, ...]:
        """The tensors it stores."""
        return self.live if self.kept is None else self.kept

    def finished(self, nest: Nest) -> Nest:
        """A nest of the bodies, or a piece of it, that stores what the epilogues make."""
        if not self.epilogues:
            return nest
        values = dict(zip(nest.tensors, nest.values, strict=True))
        for e in self.epilogues:
            values.update(zip(e.tensors, e.at(nest.indices, values), strict=True))
        stored = tuple([values[t] for t in self.writes])
        return replace(nest, tensors=self.writes, values=stored)

    def reads(self) -> tuple[Tensor, ...]:
        """The distinct tensors it reads and does not make."""
        after = [b for e in self.epilogues for b in e.bodies]
        found = dict.fromkeys(e.tensor for e in reads(*self.bodies, *after))
        for t in (*self.live, *[t for e in self.epilogues for t in e.tensors]):
            found.pop(t, None)
        return tuple(found)


def items_of(op: Compute, live: tuple[Tensor, ...], choices: Choices) -> list[Item]:
    """What a compute stores, in order: its stages, the last of which stores `live`."""
    stages, bodies = split_stages(op)
    own = _bodies_of(live, bodies)
    used = stage_uses(stages, own) if stages else set()
    items = []
    for s in stages:
        stored = tuple([t for t in outputs(s) if t in used])
        if stored:
            made = Item(s.name, s.axes, _bodies_of(stored, s.bodies), stored, choices)
            items.extend(in_blocks(made))
    if len(live) == 1 and not choices.made():
        parts, last = split_terms(op, own[0])
        if parts:
            note(
                Decision(
                    live, f"a sum of many terms in {len(parts) + 1} parts", "equal ones share code"
                )
            )
        items.extend([_partial(t) for t in parts])
        own = (last,)
    return [*items, *in_blocks(Item(op.name, op.axes, own, live, choices))]


def _partial(part: Tensor) -> Item:
    assert isinstance(part.op, Compute)  # made of the first terms of one
    return Item(part.op.name, part.op.axes, part.op.bodies, (part,), partial=True)


def _bodies_of(live: tuple[Tensor, ...], bodies: tuple[Expr, ...]) -> tuple[Expr, ...]:
    return tuple([bodies[t.index] for t in live])


def in_blocks(item: Item) -> list[Item]:
    """The item, after the partial results of its sums where they are long."""
    if item.choices.blocks is False:
        return [item]
    split = block_sums(item.name, item.axes, item.bodies, MODEL, item.choices.blocks is True)
    if split is None:
        return [item]
    stage, bodies = split
    made = tuple(outputs(stage))
    first = Item(stage.name, stage.axes, stage.bodies, made, item.choices, blocks=True)
    return [first, replace(item, bodies=bodies)]


def emit_pieces(item: Item, planned: PlannedPieces | None) -> tuple[Stmt, ...]:
    """The loops of one item: pieces, each run by a plan of its own; None: loops as written."""
    if planned is None:
        return serial_loops(item.axes, item.bodies, item.live, item.choices)
    body: list[Stmt] = []
    bordered = emit_bordered(planned, item.choices)
    if bordered is not None:
        return bordered
    for group in together(planned, item.choices):
        if len(group) > 1:
            body.extend(emit_together(group))
            continue
        piece, plan = group[0]
        flat = flattened(piece, item.choices)
        if flat is not piece:
            piece, plan = flat, plan_nest(flat, item.choices)
        body.extend(emit_nest(piece, plan))
    return tuple(body)


def serial_loops(
    axes: tuple[Axis, ...], bodies: tuple[Expr, ...], live: Sequence[Tensor], choices: Choices
) -> tuple[Stmt, ...]:
    """The loops as written, rows on several threads: for folds that hold folds."""
    before, values = lower_values(bodies)
    store = Store(tuple(live), axes, values)
    body = rewrite((*before, store), lambda s: () if isinstance(s, Visit) else None)
    return free_loops(axes, extent_product(axes) * ASSUMED_FOLDED, body, choices.parallel)
