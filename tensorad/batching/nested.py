"""Rows of rows: what was given an axis already is given both at once, as one axis.

Lists of the rows that take an arm or go on are then lists of pairs, so that arms and iterations run
for the pairs that have them: lists inside of lists would be as long as the longest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

from tensorad.batching.dependence import Moving, differing
from tensorad.batching.level import Level
from tensorad.batching.rows import scalar
from tensorad.ir.analysis.blocks import is_everywhere, ops_between
from tensorad.ir.arrays.elementwise import compute_axes, formula
from tensorad.ir.expr import Expr, add, floordiv, mod, mul, read
from tensorad.ir.tensor import Dim, Op, Saved, Tensor, dim_expr, dim_of, outputs
from tensorad.ir.visit import op_inputs
from tensorad.process import memo


@dataclass(frozen=True, eq=False)
class Mapped:
    """What was done once: all rows of tensors, of which some take different ways.

    Attributes:
        rows: tensors of one row -> all rows of them; `count`: how many there are.
        outside: what tensors of one row read besides.
        made: all rows of a result -> one row.
    """

    rows: Mapping[Tensor, Tensor]
    count: Dim
    outside: tuple[Tensor, ...]
    made: Mapping[Tensor, Tensor]


_known: Final[WeakKeyDictionary[Op, Mapped]] = memo(WeakKeyDictionary())
"""By the operation of a result."""


def remember(level: Level, wanted: Sequence[Tensor], rows: Mapping[Tensor, Tensor]) -> None:
    """Tensors were given an axis; if lists of rows were made for it, it is done anew with more
    rows where they are given another one."""
    made = {level.image[t]: t for t in wanted if t in level.image and t not in rows}
    if not level.lists or not made:
        return
    moving = differing(list(made.values()), rows, Moving(dict.fromkeys(rows)))
    ops = [op for op in ops_between(made.values(), rows) if any(t in moving for t in outputs(op))]
    own = dict.fromkeys(ops)
    reads = dict.fromkeys([t for op in ops for t in op_inputs(op)])
    outside = [t for t in reads if t not in rows and t.op not in own and not is_everywhere(t.op)]
    found = Mapped(rows, level.rows, tuple(outside), made)
    for t in made:
        _known[t.op] = found


def maps_behind(wanted: Sequence[Tensor], known: Mapping[Tensor, Tensor]) -> list[Mapped]:
    """What was given an axis before, of which nothing but the results is used."""
    if not _known:
        return []
    found: dict[Mapped, None] = {}

    def inputs_of(op: Op) -> Sequence[Tensor]:
        mapped = _known.get(op)
        if mapped is None:
            return op_inputs(op)
        found[mapped] = None
        return (*mapped.rows.values(), *mapped.outside)

    ops = dict.fromkeys(ops_between(wanted, known, inputs_of))
    read = dict.fromkeys([*wanted, *[t for op in ops for t in inputs_of(op)]])
    return [m for m in found if not _is_looked_into(m, ops, read)]


def _is_looked_into(mapped: Mapped, ops: Mapping[Op, None], read: Mapping[Tensor, None]) -> bool:
    """Whether more of what was mapped than its results is among others, or read by them."""
    ends = dict.fromkeys((*mapped.rows.values(), *mapped.outside))
    results = dict.fromkeys([t.op for t in mapped.made])
    inner = dict.fromkeys([op for op in ops_between(mapped.made, ends) if op_inputs(op)])
    if any(op in ops for op in inner if op not in results):
        return True
    if any(t.op in results and t not in mapped.made for t in read):
        return True
    return any(isinstance(op, Saved) and op.control in inner for op in ops)


def through(mapped: Mapped, level: Level) -> None:
    """Images of the results of what was mapped, by operations with one axis for all pairs.

    There are none if sizes inside differ from row to row.
    """
    level.run(level, (*mapped.rows.values(), *mapped.outside))
    given = [t for t in (*mapped.rows.values(), *mapped.outside) if t in level.image]
    if not given or level.is_ragged(mapped.count) or _has_ragged(mapped, level):
        return
    count = dim_expr(level.extent(mapped.count))
    inner = Level(
        dim_of(mul(dim_expr(level.rows), count)), level.run, most=dict(level.most),
        calls=level.calls, differing=level.differing, lists=level.lists,
    )  # fmt: skip
    if level.told is not None:
        inner.told = scalar("rows", mul(read(level.told, ()), count))
    for one, every in mapped.rows.items():
        differs = every in level.image
        inner.image[one] = _of_pairs(level.of(every), inner.rows, count, differs, True)
    for t in mapped.outside:
        if t in level.image:
            inner.image[t] = _of_pairs(level.image[t], inner.rows, count, True, False)
        else:
            inner.plain[t] = level.of(t)
    inner.run(inner, list(mapped.made.values()))
    for every, one in mapped.made.items():
        whole = inner.image[one]
        axes = compute_axes((level.rows, *level.shape(every.shape)))
        place = add(mul(axes[0], count), axes[1])
        level.image[every] = formula(every.name, axes, read(whole, (place, *axes[2:])), "")


def _has_ragged(mapped: Mapped, level: Level) -> bool:
    """Whether what was mapped has a size that differs from row to row."""
    ops = ops_between(mapped.made.values(), dict.fromkeys((*mapped.rows, *mapped.outside)))
    return any(level.used(op) for op in ops)


def _of_pairs(t: Tensor, pairs: Dim, count: Expr, outer: bool, inner: bool) -> Tensor:
    """For each pair (outer row, inner row) what t, which has one of them or both, has for it."""
    leads = outer + inner
    axes = compute_axes((pairs, *t.shape[leads:]))
    which = (floordiv(axes[0], count),) * outer + (mod(axes[0], count),) * inner
    return formula(t.name, axes, read(t, (*which, *axes[1:])), "")
