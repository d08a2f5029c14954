"""Steps: what runs as one kernel by itself, the nests of a compute or kernels as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tensorad.codegen.contraction.blocking import Blocking
from tensorad.codegen.contraction.recognise import Contraction
from tensorad.codegen.cost.cache_traffic import extent_product
from tensorad.codegen.directives import Choices, Schedules
from tensorad.codegen.fusion.contractions_in_rows import in_rows, plan_rows
from tensorad.codegen.fusion.items import Item, items_of
from tensorad.codegen.fusion.plan_cache import Plans, schedule_unit
from tensorad.codegen.in_place_scatters import Unit
from tensorad.codegen.loops.index_ranges import among
from tensorad.codegen.loops.ir import Kernel
from tensorad.codegen.model import MODEL
from tensorad.codegen.nest.access import Access, fold_accesses, outer_accesses
from tensorad.codegen.nest.ir import Nest
from tensorad.codegen.schedule.nest_plan import Plan, PlannedPieces
from tensorad.codegen.schedule.plan import lanes_of_nest
from tensorad.ir.cached import cached_property
from tensorad.ir.expr import Axis, Call, Const, Expr, Read, add, axis
from tensorad.ir.tensor import Compute, Tensor
from tensorad.ir.visit import postorder, reads


@dataclass(frozen=True, eq=False)
class Part:
    """A piece of a compute with what it costs, about."""

    step: Step
    nest: Nest
    plan: Plan
    accesses: tuple[Access, ...]
    points: float
    """What it visits, folds included."""
    cost: float
    """In cycles, with everything vectorised."""
    contraction: Contraction | None = None

    def own(self, a: Axis) -> int:
        """Rows of a contraction that one value of an axis stands for; 0 of any other nest."""
        c = self.contraction
        side = None if c is None else next((p for p in (c.left, c.right) if among(a, p.axes)), None)
        return 0 if side is None or a.extent is None else side.extent // a.extent


@dataclass(frozen=True, eq=False)
class Step:
    """Kernels that run in a row, or one compute that may share its rows with others.

    Attributes:
        kernels: those that run as they are; empty for a compute.
        reads, writes: tensors.
        plans: what has been planned in this lowering.
        after: steps that must run before for another reason than a read.
    """

    item: Item | None
    kernels: tuple[Kernel, ...]
    reads: tuple[Tensor, ...]
    writes: tuple[Tensor, ...]
    plans: Plans
    after: tuple[Step, ...] = ()

    @cached_property
    def planned(self) -> PlannedPieces:
        """The compute's pieces, each with the plan it has alone; none where it has no nest."""
        return (None if self.item is None else self.plans.planned(self.item)) or ()

    @property
    def is_contraction(self) -> bool:
        """Whether it runs as a contraction."""
        return self.item is not None and self.plans.is_contraction(self.item)

    @cached_property
    def blocking(self) -> Blocking | None:
        """How it runs alone as a contraction that may also run for some rows at a time."""
        if self.item is None or not self.is_contraction:
            return None
        return in_rows(self.plans.contraction_plan(self.item))

    @cached_property
    def rows(self) -> tuple[Axis, ...]:
        """Output axes that every piece runs through from 0 on, whole."""
        item = self.item
        if item is None or item.blocks or not may_fuse(item.choices):
            return ()
        if self.is_contraction:
            whole = () if self.blocking is None else self.blocking.contraction.nest.axes
            return tuple([a for a in item.axes if among(a, whole)])
        if not self.planned:
            return ()
        return tuple(
            [
                a
                for a in item.axes
                if _from_zero(a) and all(among(a, nest.axes) for nest, _ in self.planned)
            ]
        )

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The pieces with their costs."""
        if self.blocking is not None:
            c = self.blocking.contraction
            part = _part(self, c.nest, Plan(c.nest.axes))
            return (replace(part, contraction=c),)
        return tuple([_part(self, nest, plan) for nest, plan in self.planned])

    def in_rows(self, rows: tuple[Axis, ...], blocked: Mapping[Axis, int]) -> Blocking:
        """The plan of a contraction for single values or blocks of these rows."""
        key = (*rows, *[x for pair in blocked.items() for x in pair])
        if key not in self._in_rows:
            assert self.item is not None and self.blocking is not None  # a contraction
            left: dict[Expr, Axis | None] = {
                a: axis(a.name, 0, blocked[a]) if a in blocked else None for a in rows
            }
            at: dict[Expr, Expr] = {a: axis(a.name, 0, a.upper) for a in rows}
            at.update({a: add(at[a], b) for a, b in left.items() if b is not None})
            self._in_rows[key] = plan_rows(self.item, self.blocking.contraction, at, left)
        return self._in_rows[key]

    @cached_property
    def _in_rows(self) -> dict[tuple[object, ...], Blocking]:
        return {}

    @cached_property
    def row_reads(self) -> dict[Tensor, list[Read]]:
        """The distinct reads by tensor."""
        found: dict[Tensor, list[Read]] = {}
        if self.item is not None:
            after = [b for a in self.item.epilogues for b in a.bodies]
            for e in reads(*self.item.bodies, *after):
                found.setdefault(e.tensor, []).append(e)
        return found

    def written(self) -> tuple[Kernel, ...]:
        """The kernels of the step alone."""
        if self.item is None:
            return self.kernels
        return (self.plans.kernel(self.item),)


def _part(step: Step, nest: Nest, plan: Plan) -> Part:
    accesses = (*outer_accesses(nest), *fold_accesses(nest))
    points = extent_product(nest.axes)
    points += sum(extent_product([*nest.axes, *f.axes]) for f in nest.folds)
    calls = [e for e in postorder(*nest.expressions()) if isinstance(e, Call)]
    work = sum(1 for c in calls if c.dtype.is_float) + len(accesses)
    return Part(step, nest, plan, accesses, points, points * work / lanes_of_nest(nest, MODEL))


def _from_zero(a: Axis) -> bool:
    bounds = isinstance(a.lower, Const) and isinstance(a.step, Const)
    return bounds and a.lower.value == 0 and a.step.value == 1 and a.extent != 1  # type: ignore[attr-defined]


def item_step(item: Item, plans: Plans, after: tuple[Step, ...]) -> Step:
    """The step of one item."""
    return Step(item, (), item.reads(), item.writes, plans, after)


def kernel_step(kernel: Kernel, plans: Plans) -> Step:
    """The step of one kernel."""
    return Step(None, (kernel,), kernel.reads, kernel.writes, plans)


def may_fuse(choices: Choices) -> bool:
    """By default only where nothing else was decided by hand: that was said of loops alone."""
    return choices.fuse is True or not choices.made()


def steps_of(unit: Unit, checks: Sequence[Step], schedules: Schedules, plans: Plans) -> list[Step]:
    """The steps of a unit that is checked by others."""
    after = tuple(checks)
    op = unit.op
    if len(unit.parts) > 1 or not isinstance(op, Compute):
        kernels = tuple(schedule_unit(unit, schedules, plans))
        made = dict.fromkeys(t for k in kernels for t in k.writes)
        read = dict.fromkeys(t for k in kernels for t in k.reads if t not in made)
        return [Step(None, kernels, tuple(read), tuple(made), plans, after)]
    items = items_of(op, unit.live, schedules.of(op.name))
    return [item_step(item, plans, after) for item in items]


def all_steps(units: Sequence[Unit], schedules: Schedules) -> list[Step]:
    """The steps of all units, each after those that check it."""
    steps: list[Step] = []
    plans = Plans()
    of_check: dict[Kernel, Step] = {}
    for unit in units:
        for n, k in enumerate(unit.checks):
            if k not in of_check:
                before = tuple([of_check[c] for c in unit.checks[:n]])
                of_check[k] = replace(kernel_step(k, plans), after=before)
                steps.append(of_check[k])
        if unit.loops is not None:
            steps.append(kernel_step(unit.loops, plans))
        else:
            steps.extend(steps_of(unit, [of_check[k] for k in unit.checks], schedules, plans))
    return steps
