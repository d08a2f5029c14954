"""Reductions that go on where an index from data leaves its tensor, and record where.

A guard around a reduction may be what keeps such indices inside. Where they vary with the
reduction's own axes, its stage reads nothing in place of what is outside, and folds the first such
point beside its values; whoever uses the stage then reads what the reduction would have read: the
same error, at the same points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final
from weakref import WeakKeyDictionary

from tensorad.ir.analysis.points import depends_on_data
from tensorad.ir.combiner import Combiner
from tensorad.ir.dtypes import INT64, DType
from tensorad.ir.expr import (
    FALSE,
    Expr,
    Read,
    Reduce,
    call,
    cast,
    const,
    int_const,
    logical_not,
    logical_or,
    param,
    reduce_expr,
    select,
)
from tensorad.ir.tensor import Compute
from tensorad.ir.visit import (
    and_then,
    needs,
    outside_reductions,
    postorder,
    rebuild,
    substitute,
    substitute_all,
)
from tensorad.simplify.zeros.tested_indices import IndexTest, inside, unsure_dimensions

_NOWHERE: Final = int_const(-(1 << 62))
"""Stands for an axis until an index has left its tensor."""
_combiners: WeakKeyDictionary[Combiner, dict[int, Combiner]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class RecordedIndices:
    """A reduction that never reads outside.

    Attributes:
        fold: with one more component for each of its axes: where an index first left.
        leaving: (where it leaves, read) for each read that may, at a point of the axes, in the
            order of evaluation.
    """

    fold: Reduce
    leaving: tuple[tuple[Expr, Read], ...]

    def test(self, places: Sequence[Expr], dtype: DType) -> IndexTest:
        """That no index left its tensor, given the added components."""
        first: dict[Expr, Expr] = dict(zip(self.fold.axes, places, strict=True))
        failing: Expr = const(0, dtype)
        for pair in reversed(self.leaving):
            leaves, there = substitute_all(pair, first)
            failing = select(leaves, cast(there, dtype), failing)
        return IndexTest(call("eq", places[0], _NOWHERE), failing)


def with_recorded_indices(e: Reduce, stage: Compute) -> RecordedIndices | None:
    """The reduction that a stage is made of, its indices recorded; None if that is not possible."""
    nodes = postorder(*e.sources, e.condition)
    if depends_on_data(e.condition) or any(isinstance(n, Reduce) for n in nodes):
        return None
    unsure = unsure_dimensions(stage)
    order = outside_reductions(e.sources)
    need = needs(e.sources, order)
    new: dict[Expr, Expr] = {}
    left: Expr = FALSE
    leaving: list[tuple[Expr, Read]] = []
    for n in order:
        new[n] = rebuild(n, new)
        dims = [d for t, d in unsure if isinstance(n, Read) and n.tensor is t]
        if isinstance(n, Read) and dims:
            stays = inside(n, dims)
            leaving.append((and_then(need[n], logical_not(stays)), n))
            stays = substitute(stays, new)
            left = logical_or(left, and_then(substitute(need[n], new), logical_not(stays)))
            new[n] = select(stays, new[n], const(0, n.dtype))
    if not leaving or not e.axes:
        return None
    places = [select(left, a, _NOWHERE) for a in e.axes]
    sources = (*[new[s] for s in e.sources], *places)
    fold = reduce_expr(_with_places(e.combiner, len(places)), sources, e.axes, e.condition, e.index)
    return RecordedIndices(fold, tuple(leaving)) if isinstance(fold, Reduce) else None


def _with_places(c: Combiner, n: int) -> Combiner:
    """The combiner beside one that keeps the first point, of n values, that is somewhere."""
    known = _combiners.setdefault(c, {})
    if n not in known:
        lhs = [param(f"x_at{d}", INT64) for d in range(n)]
        rhs = [param(f"y_at{d}", INT64) for d in range(n)]
        none = call("eq", lhs[0], _NOWHERE)
        first = [select(none, y, x) for x, y in zip(lhs, rhs, strict=True)]
        known[n] = replace(
            c,
            lhs=(*c.lhs, *lhs),
            rhs=(*c.rhs, *rhs),
            results=(*c.results, *first),
            identity=(*c.identity, *[const(_NOWHERE.value, INT64) for _ in range(n)]),
        )
    return known[n]
