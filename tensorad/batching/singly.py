"""Operations on records, and calls that stay calls: one row after the other, in one loop over rows.

How deep a call goes, and which fields a record has, differs from row to row: the loop does for a
row what this row needs. Handles that differ stay in the loop of what makes them, so what lies
between two such operations is in it, too; all else gets an axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tensorad.batching.dependence import Differing, differing, is_single
from tensorad.batching.level import Level
from tensorad.batching.rows import like
from tensorad.batching.together import Together
from tensorad.errors import DefinitionError
from tensorad.ir.analysis.blocks import is_everywhere
from tensorad.ir.arrays.elementwise import compute_axes, formula
from tensorad.ir.dtypes import INT64, DType
from tensorad.ir.expr import const, local_size
from tensorad.ir.records import Fields, Inject, Recursion, Tag, is_record
from tensorad.ir.tensor import Block, Control, Loop, Op, Shape, Tensor, dim_expr, outputs, saved
from tensorad.ir.visit import op_inputs


@dataclass(frozen=True)
class Region:
    """Operations that one loop over the rows does.

    Attributes:
        ops: producers first.
        differ: what of it and behind it differs from row to row.
        made: what is wanted of it, or read by other operations.
    """

    ops: tuple[Op, ...]
    differ: Differing
    made: tuple[Tensor, ...]


def in_regions(ops: Sequence[Op], wanted: Sequence[Tensor], level: Level) -> list[Op | Region]:
    """The operations in order, in the place of some that have to be done row by row a region."""
    if not any(map(_has_handles, ops)):
        return list(ops)
    differ = differing(wanted, dict.fromkeys((*level.image, *level.plain)), level.moving())
    single = [op for op in ops if _is_single(op, differ)]
    found: list[Op | Region] = []
    for group in Together(ops, single, _links(single, differ)).groups() if single else ():
        if group.is_region:
            own = dict.fromkeys(group.ops)
            read = [t for op in ops if op not in own for t in op_inputs(op)]
            made = [t for t in dict.fromkeys((*read, *wanted)) if t.op in own]
            found.append(Region(group.ops, differ, tuple(made)))
        else:
            found += group.ops
    return found if single else list(ops)


def _has_handles(op: Op) -> bool:
    """Whether records may be why it is done row by row."""
    if isinstance(op, (Inject, Tag, Fields, Recursion)):
        return True
    return any(is_record(t.dtype) for t in (*op_inputs(op), *outputs(op)))


def _is_single(op: Op, differ: Differing) -> bool:
    """Whether it has to be done row by row."""
    made = [t for t in outputs(op) if t in differ]
    return bool(made) and is_single(op, [*made, *[t for t in op_inputs(op) if t in differ]])


def _links(single: Sequence[Op], differ: Differing) -> list[tuple[Op, Op]]:
    """Pairs of operations that a handle goes between."""
    inside = dict.fromkeys(single)
    return [
        (t.op, op)
        for op in single
        for t in op_inputs(op)
        if is_record(t.dtype) and t in differ and t.op in inside
    ]


def through(region: Region, level: Level) -> None:
    """Images of what operations of a region compute, by a loop over the rows.

    Raises:
        DefinitionError: a size that differs from row to row is from outside of the loop.
    """
    _check_sizes(region.ops, level)
    own, made = dict.fromkeys(region.ops), region.made
    reads = dict.fromkeys([t for op in own for t in op_inputs(op)])
    given = [t for t in reads if t.op not in own and not is_everywhere(t.op)]
    given.sort(key=lambda t: t not in level.image)
    params = [like(t, level.shape(t.shape)) for t in given]
    inner = level.empty()
    inner.told = None
    inner.plain.update(zip(given, params, strict=True))
    inner.run(inner, made)
    same = [t for t in made if t not in region.differ]
    firsts = [_zeros(t.name, level.shape(t.shape), t.dtype) for t in same]
    results = list(map(inner.of, same))
    if not same:  # a loop has a carry
        firsts = results = [_zeros("none", (), INT64)]
    carried = [like(t, t.shape) for t in firsts]
    trips = dim_expr(level.rows)
    loop = Loop(
        tuple([t.name for t in firsts]), (*firsts, *map(level.of, given)),
        (Block((*carried, *params), tuple(results)),), source=_source(region.ops),
        counter=local_size("row", trips), trips=trips, carries=len(firsts),
        scanned=sum([t in level.image for t in given]),
    )  # fmt: skip
    level.plain.update(zip(same, outputs(loop), strict=False))
    level.image.update({t: saved(loop, inner.of(t)) for t in made if t in region.differ})


def same(op: Control, level: Level) -> None:
    """Images of the outputs of an operation on records that is the same in all rows."""
    made = replace(op, operands=tuple(map(level.of, op.operands)))
    for old, new in zip(outputs(op), outputs(made), strict=True):
        level.plain.setdefault(old, new)


def _source(ops: Sequence[Op]) -> str:
    return next((op.source for op in ops if isinstance(op, Control) and op.source), "")


def _zeros(name: str, shape: Shape, dtype: DType) -> Tensor:
    return formula(name, compute_axes(shape), const(0, dtype), "")


def _check_sizes(ops: Sequence[Op], level: Level) -> None:
    """Sizes inside of the loop are those of one row.

    Raises:
        DefinitionError: one differs from row to row.
    """
    for op in ops:
        used = level.used(op)
        if used:
            raise DefinitionError(
                f"vmap cannot map {op.name}: it is computed with values of data types or calls of "
                f"a function by itself, example by example, and has an extent, {used[0]}, that "
                "differs from example to example.",
                where=outputs(op)[0].described,
                hint="compute it in the same branch or loop as what has the extent.",
            )
