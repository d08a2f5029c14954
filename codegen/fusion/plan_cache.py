"""Plans of one lowering: what is decided about an item once is not decided again.

Epilogues that join an item later have no say in its pieces, so both share them. Items of equal
formulas over other tensors (the layers of a network, the steps of a long chain) are scheduled
once: the loops of the first one serve the others, with their tensors put in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tensorad.codegen.contraction.plan_pieces import (
    ContractionPlan,
    emit_contraction_pieces,
    plan_contraction_pieces,
)
from tensorad.codegen.directives import Choices, Schedules
from tensorad.codegen.fusion.item_key import item_key
from tensorad.codegen.fusion.items import Item, emit_pieces, items_of
from tensorad.codegen.in_place_scatters import Unit
from tensorad.codegen.loops.ir import Kernel
from tensorad.codegen.loops.rename_tensors import with_buffers, with_tensors
from tensorad.codegen.nest.ir import Nest, nest_of
from tensorad.codegen.scan.scatter import schedule_scatter, schedule_updates
from tensorad.codegen.scan.schedule import schedule_scan
from tensorad.codegen.schedule.fuse_pieces import planned_together
from tensorad.codegen.schedule.nest_plan import Plan, PlannedPieces
from tensorad.codegen.schedule.plan import plan_nest
from tensorad.codegen.schedule.user_directives import check_vector_axis
from tensorad.codegen.splitting.nest_passes import pieces_of
from tensorad.errors import InternalError
from tensorad.ir.analysis.alike import Key
from tensorad.ir.analysis.decisions import is_listening
from tensorad.ir.tensor import Compute, Op, Scan, Scatter, Tensor

Core = tuple[object, ...]


class Plans:
    """Nests, pieces, plans and loops of items by what they are made of."""

    def __init__(self) -> None:
        self._nests: dict[Core, Nest | None] = {}
        self._pieces: dict[Core, tuple[Nest, ...]] = {}
        self._plans: dict[Nest, Plan] = {}
        self._contraction_plans: dict[Core, ContractionPlan | None] = {}
        self._keys: dict[Item, tuple[Key, tuple[Tensor, ...]]] = {}
        self._kernels: dict[Key, tuple[Kernel, tuple[Tensor, ...]]] = {}
        self._contractions: dict[Key, bool] = {}
        self._answers: dict[Key, bool] = {}

    def nest(self, item: Item) -> Nest | None:
        """The nest of its bodies; None where a fold holds folds."""
        core = _core(item)
        if core not in self._nests:
            self._nests[core] = nest_of(item.axes, item.live, item.bodies)
        return self._nests[core]

    def contraction_plan(self, item: Item) -> ContractionPlan | None:
        """How it runs as a contraction, if it is one worth its own kernel."""
        core = _core(item)
        if core not in self._contraction_plans:
            nest = self.nest(item)
            self._contraction_plans[core] = (
                None if nest is None else plan_contraction_pieces(nest, item.choices)
            )
        return self._contraction_plans[core]

    def is_contraction(self, item: Item) -> bool:
        """Whether it runs as a contraction; asked once of equal items."""
        keyed = self._key(item)
        if keyed is None:
            return self.contraction_plan(item) is not None
        if keyed[0] not in self._contractions:
            self._contractions[keyed[0]] = self.contraction_plan(item) is not None
        return self._contractions[keyed[0]]

    def planned(self, item: Item) -> PlannedPieces | None:
        """The pieces of an item with their plans; None where a fold holds folds.

        Epilogues have no say in a plan with folds: the order of a sum is the same without them.
        """
        nest = self.nest(item)
        if nest is None:
            return None
        core = _core(item)
        if core not in self._pieces:
            self._pieces[core] = pieces_of(nest, item.choices.split is not False)
        pieces = self._pieces[core]
        finished = [item.finished(piece) for piece in pieces]
        decided = [p if p.folds else q for p, q in zip(pieces, finished, strict=True)]
        plans = [self._plan(piece, item) for piece in decided]
        check_vector_axis(item.name, nest, plans, item.choices)
        if item.epilogues:
            plans = [replace(p, rows_per_pass=0) for p in plans]
        narrowed = planned_together(tuple(zip(decided, plans, strict=True)), item.choices)
        return tuple([(nest, plan) for nest, (_, plan) in zip(finished, narrowed, strict=True)])

    def _plan(self, nest: Nest, item: Item) -> Plan:
        if nest not in self._plans:
            self._plans[nest] = plan_nest(nest, item.choices)
        return self._plans[nest]

    def kernel(self, item: Item) -> Kernel:
        """The loops of an item that runs alone."""
        keyed = self._key(item)
        if keyed is None:
            return self._scheduled(item)
        key, tensors = keyed
        if key not in self._kernels:
            self._kernels[key] = self._scheduled(item), tensors
            return self._kernels[key][0]
        kernel, before = self._kernels[key]
        mapping = dict(zip(before, tensors, strict=True))
        return with_tensors(kernel, item.name, with_buffers(kernel, mapping))

    def _scheduled(self, item: Item) -> Kernel:
        contraction_plan = self.contraction_plan(item)
        if contraction_plan is None:
            body = emit_pieces(item, self.planned(item))
            return Kernel(item.name, body, item.writes, item.reads())
        made = emit_contraction_pieces(contraction_plan, item.finished)
        return Kernel(
            item.name, made.body, (*item.writes, *made.copies), item.reads(), made.scratch
        )

    def answer(self, item: Item, question: Callable[[], bool]) -> bool:
        """What was answered for an item of equal formulas; there is one question about each."""
        keyed = self._key(item)
        if keyed is None:
            return question()
        if keyed[0] not in self._answers:
            self._answers[keyed[0]] = question()
        return self._answers[keyed[0]]

    def _key(self, item: Item) -> tuple[Key, tuple[Tensor, ...]] | None:
        """What equal items have in common, and their tensors in order.

        None where tensors differ in more than their place: somebody listens to the reasons, or
        decisions were made by hand.
        """
        if is_listening() or item.choices.made():
            return None
        if item not in self._keys:
            self._keys[item] = item_key(item)
        return self._keys[item]


def _core(item: Item) -> Core:
    """An item without its epilogues."""
    return item.axes, item.bodies, item.live, item.choices


def schedule_unit(unit: Unit, schedules: Schedules, plans: Plans) -> list[Kernel]:
    """The kernels of one unit: the updates of later parts end the last kernel of the first."""
    *before, last = schedule_op(unit.parts[0], unit.live, schedules.of(unit.parts[0].name), plans)
    if len(unit.parts) == 1:
        return [*before, last]
    body, scratch = list(last.body), list(last.scratch)
    for op in unit.parts[1:]:
        if not isinstance(op, Scatter):
            raise InternalError(f"{op.name} ({type(op).__name__}) does not continue a tensor")
        updates, own = schedule_updates(op, unit.live[0], schedules.of(op.name))
        body.extend(updates)
        scratch.extend(own)
    made = [t for k in before for t in k.writes]
    read = tuple(dict.fromkeys((*last.reads, *made, *unit.inputs())))
    return [*before, Kernel(unit.op.name, tuple(body), last.writes, read, tuple(scratch))]


def schedule_op(op: Op, live: tuple[Tensor, ...], choices: Choices, plans: Plans) -> list[Kernel]:
    """The kernels of one operation, in order."""
    if isinstance(op, Compute):
        return [plans.kernel(item) for item in items_of(op, live, choices)]
    if isinstance(op, Scatter):
        return [schedule_scatter(op, live[0], choices)]
    if isinstance(op, Scan):
        return [schedule_scan(op, live, choices)]
    raise InternalError(f"{op.name} ({type(op).__name__}) has no loops")
