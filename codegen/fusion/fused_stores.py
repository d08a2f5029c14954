"""Fuses stores into a loop of sums over rows (`fuse_stores`): one element for each of its points.

Beside the gradients by a scale and a shift, sums over all rows, stands the gradient by the rows
themselves. It is stored in the same loop, where what it needs has just been worked out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensorad.codegen.cost.operation_costs import operations
from tensorad.codegen.fusion.items import Item, emit_pieces
from tensorad.codegen.fusion.steps import Step
from tensorad.codegen.loops.ir import Kernel, Store
from tensorad.codegen.nest.ir import Nest
from tensorad.ir.expr import Axis, Expr, Read
from tensorad.ir.order import REDUCE, occurs, reads
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import postorder, substitute_all
from tensorad.simplify.index.linear import linear_form

MUCH = 8
"""Operations worth more than what a group of rows saves."""
MOST_NODES = 500
"""Expression nodes of one loop with the stores fused into it."""


def fuse_stores(steps: Sequence[Step]) -> list[Step]:
    """The steps; where sums of rows are added up, stores over the same points join them."""
    at: list[Step | None] = list(steps)
    made = {t: None for s in steps for t in s.writes}
    for n, s in enumerate(steps):
        if s.item is None or not s.item.blocks or not _has_sums_in_memory(s):
            continue
        fused_stores: dict[int, tuple[Step, Store]] = {}
        for m, other in enumerate(at):
            if other is None or other.item is None or m == n:
                continue
            store = _fusible_store(s, other.item) if _may_move(at, other, m, n) else None
            alone = not any(t in made for t in other.reads)
            if store is not None and (alone or _shares_work(s, store)):
                fused_stores[m] = other, store
                at[m] = None
        if fused_stores:
            at[n] = _with_fused_stores(s, [*fused_stores.values()])
    return [s for s in at if s is not None]


def _has_sums_in_memory(step: Step) -> bool:
    return len(step.planned) == 1 and step.planned[0][1].rows_per_pass > 0


def _may_move(at: Sequence[Step | None], step: Step, m: int, n: int) -> bool:
    """Whether the step at m may run at n: nobody between needs it, or makes what it needs."""
    low, high = min(m, n), max(m, n)
    between = [s for s in at[low : high + 1] if s is not None and s is not step]
    made = {t: None for s in between for t in s.writes}
    if n < m:
        needed = dict.fromkeys(between)
        return not any(t in made for t in step.reads) and not any(s in needed for s in step.after)
    written = dict.fromkeys(step.writes)
    return not any(t in written for s in between for t in s.reads)


def _fusible_store(step: Step, item: Item) -> Store | None:
    """The item's store at the points of the step's loop; None if they are not its own."""
    ((nest, _),) = step.planned
    if item.blocks or item.choices.siblings is False:
        return None
    if occurs(REDUCE, *item.bodies):
        return None
    places = _places(nest, item)
    if places is None:
        return None
    if not _covers(nest, [places[a] for a in item.axes], item.axes):
        return None
    values = substitute_all(item.bodies, places)
    folded = [s for f in nest.folds for s in f.sources]
    if len(postorder(*folded, *values)) > MOST_NODES:
        return None
    return Store(item.live, tuple([places[a] for a in item.axes]), values)


def _shares_work(step: Step, store: Store) -> bool:
    """Whether much of what is stored has just been worked out; rows of a group share less."""
    ((nest, _),) = step.planned
    known = dict.fromkeys(postorder(*[s for f in nest.folds for s in f.sources]))
    shared = [e for e in postorder(*store.values) if e in known]
    return operations(shared) >= MUCH


def _places(nest: Nest, item: Item) -> dict[Expr, Expr] | None:
    """What stands for the item's axes in the loop: where both read one tensor at plain axes."""
    known: dict[Tensor, Read] = {}
    for f in nest.folds:
        known.update({e.tensor: e for e in reads(*f.sources)})
    axes = dict.fromkeys(item.axes)
    for e in postorder(*item.bodies):
        if not isinstance(e, Read) or e.tensor not in known:
            continue
        pairs = dict(zip(e.indices, known[e.tensor].indices, strict=True))
        if len(pairs) == len(axes) and all(i in axes for i in pairs):
            return pairs
    return None


def _covers(nest: Nest, places: Sequence[Expr], axes: Sequence[Axis]) -> bool:
    """Whether the loop visits every element once: each index is a digit sum of its own axes."""
    left = dict.fromkeys([*nest.axes, *nest.folds[0].axes])
    for place, a in zip(places, axes, strict=True):
        form = linear_form(place)
        span = 1
        for leaf, c in sorted(form.terms.items(), key=lambda term: term[1]):
            if not isinstance(leaf, Axis) or leaf not in left or c != span or not _plain(leaf):
                return False
            del left[leaf]
            span *= leaf.extent or 0
        if form.constant or span != a.extent or not _plain(a):
            return False
    return not left


def _plain(a: Axis) -> bool:
    """[0, n) by one."""
    low, step = linear_form(a.lower), linear_form(a.step)
    zero = not low.terms and low.constant == 0
    return zero and not step.terms and step.constant == 1 and a.extent is not None


def _with_fused_stores(step: Step, fused_stores: Sequence[tuple[Step, Store]]) -> Step:
    """One step of them all."""
    assert step.item is not None  # it has a plan
    ((nest, plan),) = step.planned
    plan = replace(plan, fused_stores=tuple([store for _, store in fused_stores]))
    item = step.item
    body = emit_pieces(item, ((nest, plan),))
    members = [s for s, _ in fused_stores]
    writes = (*[t for s in members for t in s.writes], *item.writes)
    reads = tuple(dict.fromkeys((*item.reads(), *[t for s in members for t in s.reads])))
    kernel = Kernel(item.name, body, writes, reads)
    after = tuple(dict.fromkeys((*step.after, *[x for s in members for x in s.after])))
    return Step(None, (kernel,), reads, writes, step.plans, after)
