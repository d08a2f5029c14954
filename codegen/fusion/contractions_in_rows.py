"""Contractions inside a group: the rows they may run in, and their loops for some rows at a time.

Every element is one sum in the order of its reduce axes, whatever rows are computed together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tensorad.codegen.contraction.blocking import Blocking
from tensorad.codegen.contraction.choose import plan_inside
from tensorad.codegen.contraction.emit.pack import Emitted
from tensorad.codegen.contraction.emit.write import emit_contraction
from tensorad.codegen.contraction.plan_pieces import ContractionPlan
from tensorad.codegen.contraction.reasons import explain_blocking
from tensorad.codegen.contraction.recognise import Contraction
from tensorad.codegen.fusion.items import Item
from tensorad.codegen.loops.index_ranges import among, substitutor
from tensorad.codegen.loops.vector_loops import lanes_for
from tensorad.codegen.nest.ir import map_nest
from tensorad.errors import InternalError
from tensorad.ir.expr import TRUE, Axis, Expr, add, axis
from tensorad.ir.order import reads
from tensorad.ir.visit import free_leaves


def in_rows(plan: ContractionPlan | None) -> Blocking | None:
    """How a contraction runs that may be computed for some rows at a time: one piece, no padding,
    and no symbolic size but those of its batch."""
    blocking = plan[0][1] if plan is not None and len(plan) == 1 else None
    if blocking is None:
        return None
    c = blocking.contraction
    bounds = [e for a in c.fold.axes for e in (a.lower, a.upper, a.step)]
    plain = c.fold.condition is TRUE and not any(isinstance(e, Axis) for e in free_leaves(*bounds))
    known = all(a.extent for a in (*c.left.axes, *c.right.axes, *c.reduced))
    return blocking if plain and known and not (c.left.padded or c.right.padded) else None


def plan_rows(
    item: Item, c: Contraction, rows: Mapping[Expr, Expr], left: Mapping[Expr, Axis | None]
) -> Blocking:
    """The plan of a contraction for given rows.

    Args:
        rows: what stands for the axes that loops outside run over.
        left: the axis that is left of one that runs in blocks.
    """
    placed = _placed(c, rows, left)
    tensors = [e.tensor for e in reads(*placed.nest.expressions())]
    blocking = plan_inside(placed, lanes_for([*placed.nest.tensors, *tensors]), item.choices)
    if blocking is None:
        raise InternalError(f"{item.name} is no contraction in its rows")
    return blocking


def emit_rows(item: Item, blocking: Blocking) -> Emitted:
    """The loops of a contraction for given rows."""
    nest = item.finished(blocking.contraction.nest)
    explain_blocking(blocking, nest)
    return emit_contraction(blocking, nest)


def _placed(
    c: Contraction, rows: Mapping[Expr, Expr], left: Mapping[Expr, Axis | None]
) -> Contraction:
    """The contraction for given rows: a single row of a side stays an axis."""
    images = dict(rows)
    kept: dict[Axis, Axis | None] = {}
    for a in c.nest.axes:
        inner = left.get(a) if a in rows else a
        if inner is None and not among(a, c.batch):
            inner = axis(a.name, 0, 1)
            images[a] = add(rows[a], inner)
        kept[a] = inner
    image = substitutor(images)

    def axes(of: Sequence[Axis]) -> tuple[Axis, ...]:
        return tuple([b for b in [kept[a] for a in of] if b is not None])

    nest = map_nest(c.nest, image, axes(c.nest.axes))
    return replace(
        c,
        nest=nest,
        fold=nest.folds[0],
        batch=axes(c.batch),
        left=replace(c.left, axes=axes(c.left.axes), value=image(c.left.value)),
        right=replace(c.right, axes=axes(c.right.axes), value=image(c.right.value)),
        combine=lambda x, y: image(c.combine(x, y)),
    )
