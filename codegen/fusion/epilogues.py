"""Formulas over one result become part of the nest that makes it.

A compute without reductions that reads another at its own indices runs where that one stores:
bias, activation and scaling end the sum they belong to. The nest's plan does not see them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tensorad.codegen.cost.cache_traffic import extent_product
from tensorad.codegen.fusion.items import Epilogue, Item
from tensorad.codegen.fusion.latest_start import Lateness
from tensorad.codegen.fusion.steps import Step, item_step, may_fuse
from tensorad.codegen.loops.index_ranges import COMPARES, substitutor
from tensorad.codegen.model import MODEL
from tensorad.codegen.nest.access import access, guarded_unsafe
from tensorad.codegen.nest.ir import Nest
from tensorad.codegen.schedule.plan import lanes_of_nest
from tensorad.ir.analysis.decisions import Decision, note
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import Axis, Call, Expr, Reduce
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import postorder, reads, substitute_all

SWITCHES = (*COMPARES, "maximum", "minimum", "floordiv", "mod")
MOST_EPILOGUES = 16
"""Formulas that one nest takes in: it bounds compile time."""


def with_epilogues(steps: Sequence[Step], kept: Iterable[Tensor]) -> list[Step]:
    """The steps, formulas over one result joined to what makes it, in an order that may run."""
    joiner = _Joiner(steps)
    for step in steps:
        joiner.visit(step)
    return joiner.finished(dict.fromkeys(kept))


class _Joiner:
    """Steps by the tensors they make; joined ones take the place of both."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.made: dict[Tensor, Step] = {t: s for s in steps for t in s.writes}
        self.steps: dict[Step, None] = dict.fromkeys(steps)
        self.place: dict[Step, Step] = {}
        """What stands for a step that was joined to another."""
        self.late = Lateness(steps)
        self.needs: dict[object, list[Step]] = {}
        """Who waits for a step, and who reads a tensor."""
        for s in steps:
            for x in (*s.reads, *s.after):
                self.needs.setdefault(x, []).append(s)

    def visit(self, step: Step) -> None:
        """Join the step to the last one it reads, if that is possible."""
        if step.item is None or not may_fuse(step.item.choices) or not is_formula(step.item):
            return
        for before in self._producers(step)[::-1]:
            if before.item is None or before.item.blocks or before.item.partial:
                continue
            item = self._together(before, step)
            if item is None:
                continue
            note(
                Decision(
                    step.item.live,
                    f"ends the loops of {before.item.name}",
                    "it reads them at its own indices only",
                )
            )
            joined = item_step(item, before.plans, (*before.after, *step.after))
            for t in joined.writes:
                self.made[t] = joined
            for s in (before, step):
                del self.steps[s]
                self.place[s] = joined
            self.steps[joined] = None
            self.late.merge(joined, (before, step), self._users)
            return

    def _producers(self, step: Step) -> list[Step]:
        found = dict.fromkeys(self.made[t] for t in step.reads if t in self.made)
        found.update(dict.fromkeys(self._now(s) for s in step.after))
        return list(found)

    def _now(self, step: Step) -> Step:
        while step in self.place:
            step = self.place[step]
        return step

    def _together(self, before: Step, step: Step) -> Item | None:
        """Both as one item, if they may be and that pays."""
        assert before.item is not None and step.item is not None  # chosen by the caller
        if not may_fuse(before.item.choices) or not at_own_place(before, step):
            return None
        if len(before.item.epilogues) >= MOST_EPILOGUES:
            return None
        item = _joined(before.item, step.item)
        if not before.plans.answer(item, lambda: _takes(before, step)):
            return None
        return None if self._between(before, step) else item

    def _between(self, first: Step, last: Step) -> bool:
        """Whether some other step needs the first and is needed by the last."""
        others = [s for s in self._producers(last) if s is not first]
        return self.late.leads_to(others, first, self._producers)

    def _users(self, step: Step) -> list[Step]:
        waiting = [s for x in (step, *step.writes) for s in self.needs.get(x, ())]
        return [s for s in dict.fromkeys(map(self._now, waiting)) if s is not step]

    def finished(self, kept: dict[Tensor, None]) -> list[Step]:
        """All steps, producers first; what only its own epilogues read is not stored."""
        used = dict.fromkeys(t for s in self.steps for t in s.reads)
        used.update(kept)
        final: dict[Step, Step] = {}
        for s in self.in_order():
            after = tuple(dict.fromkeys(final[self._now(a)] for a in s.after))
            final[s] = _only_used(s, used, after)
        return list(final.values())

    def in_order(self) -> list[Step]:
        done: dict[Step, None] = {}
        stack = list(self.steps)[::-1]
        while stack:
            s = stack[-1]
            missing = [] if s in done else [p for p in self._producers(s) if p not in done]
            if missing:
                stack.extend(missing[::-1])
                continue
            stack.pop()
            done[s] = None
        return list(done)


def _takes(before: Step, step: Step) -> bool:
    """Whether the nest of a step may end with the formula of another."""
    assert before.item is not None and step.item is not None  # chosen by the caller
    if not before.is_contraction and not before.planned:
        return False
    forced = bool(before.item.choices.fuse and step.item.choices.fuse)
    return forced or _pays(before, step.item)


def _only_used(step: Step, used: dict[Tensor, None], after: tuple[Step, ...]) -> Step:
    if step.item is None or not step.item.epilogues:
        same = all(a is b for a, b in zip(step.after, after, strict=False))
        return step if same and len(step.after) == len(after) else replace(step, after=after)
    stored = tuple([t for t in step.item.writes if t in used])
    return item_step(replace(step.item, kept=stored), step.plans, after)


def is_formula(item: Item) -> bool:
    """Whether each element is a formula that any lane can evaluate where another is stored."""
    nodes = postorder(*item.bodies)
    if item.epilogues or any(isinstance(e, Reduce) or _switches(e) for e in nodes):
        return False
    return not guarded_unsafe(item.bodies, item.axes, guarded=False)


def _switches(e: Expr) -> bool:
    return isinstance(e, Call) and e.op in SWITCHES and e.args[0].dtype is INT64


def at_own_place(before: Step, step: Step) -> bool:
    """Whether the step reads it, everywhere at its own indices, over the same extents."""
    assert before.item is not None and step.item is not None  # chosen by the caller
    axes = step.item.axes
    found = [e for t in before.writes for e in step.row_reads.get(t, ())]
    if not found or len(axes) != len(before.item.axes):
        return False
    alike = zip(axes, before.item.axes, strict=True)
    if not all(a.upper is b.upper and a.lower is b.lower and a.step is b.step for a, b in alike):
        return False
    return all(i is a for e in found for i, a in zip(e.indices, axes, strict=True))


def _pays(before: Step, item: Item) -> bool:
    """Whether no lanes are lost: where sums are vectorised, one element at a time is stored."""
    if before.is_contraction:
        return True  # its lanes are those of the result
    calls = [e for e in postorder(*item.bodies) if isinstance(e, Call) and e.dtype.is_float]
    work = sum(20 if len(c.args) == 1 else 1 for c in calls)  # cycles of a call, of an operation
    if any(plan.rows_per_pass for _, plan in before.planned):
        return False  # the sums lie where the result would
    for nest, plan in before.planned:
        if plan.vector is not None and not _in_a_row(item, before, nest, plan.vector):
            return False
        inside = [f for f in nest.folds if any(a is plan.vector for a in f.axes)]
        if plan.vector is not None and not inside:
            continue
        steps = max([extent_product(f.axes) for f in nest.folds], default=0.0)
        if 4 * work * lanes_of_nest(nest, MODEL) > steps:
            return False
    return True


def _in_a_row(item: Item, before: Step, nest: Nest, lane: Axis) -> bool:
    """Whether what else the formula reads lies side by side in the lanes of a piece."""
    image = substitutor(dict(zip(item.axes, nest.indices, strict=True)))
    made = dict.fromkeys(before.writes)
    found = [e for e in reads(*item.bodies) if e.tensor not in made]
    steps = [access(e.tensor, tuple(map(image, e.indices))).stride(lane) for e in found]
    return all(n in (0, 1, -1) for n in steps)


def _joined(before: Item, item: Item) -> Item:
    mapping: dict[Expr, Expr] = dict(zip(item.axes, before.axes, strict=True))
    bodies = substitute_all(item.bodies, mapping)
    epilogue = Epilogue(before.axes, bodies, item.live)
    return replace(
        before,
        name=item.name,
        epilogues=(*before.epilogues, epilogue),
        kept=(*before.writes, *item.live),
    )
