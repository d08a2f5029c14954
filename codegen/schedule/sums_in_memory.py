"""Sums kept in memory: the vectorised loop is inside of the reduce loops, several rows a pass.

For vectorised elements and long columns: rows are read from end to end as they lie in memory, which
a loop over a column inside of the lanes does not do. Every sum adds its terms in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorad.codegen.loops.index_ranges import substitutor
from tensorad.codegen.loops.ir import Assign, Fold, For, Stmt, Store
from tensorad.codegen.loops.rewrite import serial
from tensorad.codegen.nest.folds import FoldLoop
from tensorad.codegen.nest.ir import Nest, accumulators_of, fold_groups, images_of
from tensorad.ir.expr import (
    TRUE,
    Axis,
    Expr,
    Param,
    add,
    axis,
    floordiv,
    int_const,
    mul,
    param,
    read,
    sub,
)
from tensorad.ir.visit import substitute_all

Image = dict[Expr, Expr]
"""What stands for axes and sums."""


def can_sum_in_memory(nest: Nest) -> bool:
    """Whether what is stored are the sums themselves, each once, without conditions."""
    sums = [p for accumulators, _ in accumulators_of(nest) for p in accumulators]
    alike = len(sums) == len(nest.values) and all(isinstance(v, Param) for v in nest.values)
    stored = alike and len(dict.fromkeys([*sums, *nest.values])) == len(sums)
    return stored and all(f.axes and f.condition is TRUE for f in nest.folds)


def emit_sums_in_memory(
    nest: Nest, lane: Axis, width: int, rows: int, fused_stores: Sequence[Store] = ()
) -> tuple[Stmt, ...]:
    """The lanes from the identities on, once per `rows` values of the last reduce axis.

    Requires: `can_sum_in_memory`, and bounds of reduce axes that do not depend on the lane.
    """
    start = dict(_starts(nest))
    first = Store(nest.tensors, nest.indices, tuple([start[v] for v in nest.values]))
    body: list[Stmt] = [For(lane, (first,), "vector", width)]
    for folds in fold_groups(nest):
        body.extend(_loops(_RowPass(nest, lane, width, fused_stores), folds, rows))
    return tuple(body)


def _starts(nest: Nest) -> list[tuple[Expr, Expr]]:
    return [pair for a, i in accumulators_of(nest) for pair in zip(a, i, strict=True)]


@dataclass(frozen=True, eq=False)
class _RowPass:
    """What every pass of the lanes has in common."""

    nest: Nest
    lane: Axis
    width: int
    fused_stores: Sequence[Store]


def _loops(row_pass: _RowPass, folds: Sequence[FoldLoop], rows: int) -> tuple[Stmt, ...]:
    """The reduce loops of folds over the same axes around passes of the lanes."""
    *outer, last = folds[0].axes
    extent = sub(last.upper, last.lower)
    whole = mul(floordiv(extent, int_const(rows)), int_const(rows))
    middle = add(last.lower, whole)
    body: list[Stmt] = []
    if rows > 1:
        tiles = axis(last.name, last.lower, middle, rows)
        places: list[Image] = [{last: add(tiles, int_const(n))} for n in range(rows)]
        if tiles.extent != 0:
            body.append(For(tiles, (_pass(row_pass, folds, places),)))
    rest = axis(last.name, middle if rows > 1 else last.lower, last.upper)
    if rest.extent != 0:
        body.append(For(rest, (_pass(row_pass, folds, [{last: rest}]),)))
    return serial(outer, tuple(body))


def _pass(row_pass: _RowPass, folds: Sequence[FoldLoop], places: Sequence[Image]) -> Stmt:
    """One pass of the lanes: every sum is read, some rows are added, and it is stored."""
    nest, lane = row_pass.nest, row_pass.lane
    here = axis(lane.name, lane.lower, lane.upper)
    indices = substitute_all(nest.indices, {lane: here})
    summed = {p: None for f in folds for p in f.accumulators}
    pairs = zip(nest.tensors, nest.values, strict=True)
    homes = [(t, v) for t, v in pairs if isinstance(v, Param) and v in summed]
    fresh: Image = {v: param(v.name, v.dtype) for _, v in homes}
    body: list[Stmt] = []
    for t, v in homes:
        body.append(Assign(images_of([v], fresh), (read(t, indices),)))
    for place in places:
        image = substitutor({**place, lane: here})
        for f in folds:
            values = tuple([image(s) for s in f.sources])
            body.append(Fold(images_of(f.accumulators, fresh), f.combiner, values))
        for r in row_pass.fused_stores:
            where, stored = [tuple([image(e) for e in part]) for part in (r.indices, r.values)]
            body.append(Store(r.tensors, where, stored))
    for t, v in homes:
        body.append(Store((t,), indices, images_of([v], fresh)))
    return For(here, tuple(body), "vector", row_pass.width)
