"""Horizontal fusion: folds of different computes over the same points in one loop (siblings).

The gradients by a scale and by a shift, or a mean and a mean of squares, read the same elements
and share most of their formulas; as one compute of several tensors they are read and worked out
once. A sibling is no producer of the other, so nothing of a row has to be kept between them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

from tensorad.codegen.fusion.items import Item
from tensorad.codegen.fusion.steps import Step
from tensorad.codegen.nest.ir import fold_groups, nest_of, share_loops
from tensorad.ir.expr import Axis, Expr, Read, Reduce, int_const
from tensorad.ir.order import REDUCE, occurs, reads
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import free_leaves, outside_reductions, postorder, substitute, substitute_all

MOST_FOLDS = 4
"""Folds that one loop may hold."""
PLACE = 1 << 40
"""Axes in bounds of others are told apart by numbers from here on."""
MOST_NODES = 400
"""Expression nodes of all formulas of one loop."""

Key = tuple[object, ...]


def join_siblings(steps: Sequence[Step]) -> list[Step]:
    """The steps with siblings in one, at the first one's place if all they read is made there."""
    places = _Places()
    for s in steps:
        keys = _keys(s)
        for n in places.candidates(s, keys):
            joined = _joined(places.steps[n], s)
            if joined is not None:
                places.put(joined, n, keys)
                break
        else:
            places.put(s, len(places.steps), keys)
    return places.steps


class _Places:
    """Steps in order, where each tensor is made, and which steps have equal loops."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.alike: dict[Key, list[int]] = {}
        """Places of the steps that have a key, in order."""
        self.place: dict[Step | Tensor, int] = {}

    def candidates(self, step: Step, keys: Sequence[Key]) -> list[int]:
        """Where steps with one of the keys run after all that this one needs."""
        if not keys:
            return []
        needed: list[Step | Tensor] = [*step.reads, *step.after]
        first = 1 + max([self.place.get(x, -1) for x in needed], default=-1)
        found: dict[int, None] = {}
        for key in keys:
            places = self.alike.get(key, [])
            found.update(dict.fromkeys(places[bisect_left(places, first) :]))
        return sorted(found)

    def put(self, step: Step, n: int, keys: Sequence[Key]) -> None:
        """Make `step` the one at place n, and let those with its keys find it there."""
        self.steps[n : n + 1] = [step]
        self.place[step] = n
        self.place.update(dict.fromkeys(step.writes, n))
        for key in keys:
            places = self.alike.setdefault(key, [])
            at = bisect_left(places, n)
            if places[at : at + 1] != [n]:
                places.insert(at, n)


def _keys(step: Step) -> list[Key]:
    """What siblings have one of in common: equal loops, and a tensor that the folds read.

    Nothing is a sibling of what is no fold.
    """
    if step.item is None or step.item.choices.siblings is False:
        return []
    folds = [e for e in outside_reductions(step.item.bodies) if isinstance(e, Reduce)]
    if not folds or occurs(REDUCE, *folds[0].sources):
        return []
    axes = (*step.item.axes, *folds[0].axes)
    places: dict[Expr, Expr] = {a: int_const(PLACE + n) for n, a in enumerate(axes)}
    ends = [substitute(a.upper, places) if a.extent is None else a.extent for a in axes]
    loops = (step.item.blocks, len(step.item.axes), *ends)
    return [(*loops, t) for t in dict.fromkeys(e.tensor for e in reads(*folds))] or [loops]


def _joined(first: Step, second: Step) -> Step | None:
    """Both as one compute, if that shares loops and something large is read in both."""
    a, b = first.item, second.item
    assert a is not None and b is not None  # they have a key
    mapping: dict[Expr, Expr] = dict(zip(b.axes, a.axes, strict=True))
    if a.choices != b.choices or any(
        x.upper is not y.upper for x, y in zip(a.axes, b.axes, strict=True)
    ):
        return None
    bodies = substitute_all(b.bodies, mapping)
    item = replace(a, bodies=(*a.bodies, *bodies), live=(*a.live, *b.live))
    if not _pays(item):
        return None
    after = tuple(dict.fromkeys((*first.after, *second.after)))
    return Step(item, (), item.reads(), item.live, first.plans, after)


def _pays(item: Item) -> bool:
    """Whether all folds share one loop, and each reads what another one does."""
    nest = nest_of(item.axes, item.live, item.bodies)
    if nest is None:
        return False
    nest = share_loops(nest)
    if len(fold_groups(nest)) != 1 or len(nest.folds) > MOST_FOLDS:
        return False
    if len(postorder(*nest.expressions())) > MOST_NODES:
        return False
    every = (*nest.axes, *nest.folds[0].axes)
    wide = [_wide_reads(f.sources, every) for f in nest.folds]
    uses: dict[Expr, int] = {}
    for found in wide:
        uses.update({e: uses.get(e, 0) + 1 for e in found})
    return len(wide) == 1 or all(any(uses[e] > 1 for e in found) for found in wide)


def _wide_reads(roots: Sequence[Expr], axes: Sequence[Axis]) -> list[Read]:
    """The distinct reads of another element at every point of the loops."""
    return [e for e in reads(*roots) if _spans(e, axes)]


def _spans(e: Read, axes: Sequence[Axis]) -> bool:
    """Whether another element is read at every point of the loops."""
    used = free_leaves(*e.indices)
    return all(a in used for a in axes if a.extent != 1)
