"""Carries of which an iteration changes some elements: these are stored where the carry lies."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import is_

from tensorad.codegen.control.windows import staged, updates_of
from tensorad.codegen.loops.ir import For, If, Kernel, Stmt, Store, Visit
from tensorad.codegen.loops.rename_tensors import with_tensors
from tensorad.codegen.loops.rewrite import rewrite
from tensorad.ir.analysis.blocks import ops_between, own_sizes, sizes_told
from tensorad.ir.analysis.facts import facts_about
from tensorad.ir.expr import (
    TRUE,
    Axis,
    Call,
    Expr,
    LocalSize,
    Read,
    call,
    logical_and,
    logical_or,
    read,
)
from tensorad.ir.order import sizes_in
from tensorad.ir.tensor import Compute, Control, Loop, Op, Scan, Scatter, Tensor, outputs
from tensorad.ir.visit import (
    conjuncts,
    fresh_axes,
    op_expressions,
    op_inputs,
    reads,
    substitute_all,
)
from tensorad.simplify.bounds.read_sites import ReadSite, read_sites
from tensorad.simplify.control.renew import renewed
from tensorad.simplify.index.quasi_affine import is_affine
from tensorad.simplify.sets.integer_set import find_point
from tensorad.simplify.sets.space import BudgetExceeded, NotAffine

Given = Mapping[Tensor, None]


@dataclass(frozen=True, eq=False)
class InPlace:
    """A next carry that is made where the carry lies.

    Attributes:
        made: the last of the scatters onto the carry; it holds what the result does.
        ops: what computes it from tensors that are there, and nothing else, in order.
    """

    carry: Tensor
    result: Tensor
    made: Tensor
    ops: tuple[Op, ...]

    @property
    def scatters(self) -> tuple[Scatter, ...]:
        return tuple([op for op in self.ops if isinstance(op, Scatter)])

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """What must be there before."""
        own = dict.fromkeys(self.ops)
        read = dict.fromkeys(t for op in self.ops for t in op_inputs(op))
        return tuple([t for t in read if t.op not in own])


Updates = Mapping[Op, InPlace]
"""By the operation whose result is made in place."""


def inputs_of(op: Op, updates: Updates) -> tuple[Tensor, ...]:
    """What is read to make the operation's results."""
    return updates[op].inputs if op in updates else op_inputs(op)


def in_order(
    results: Iterable[Tensor], given: Given, updates: Updates, late: Collection[Tensor] = ()
) -> dict[Op, tuple[Tensor, ...]]:
    """The operations that compute the results, and what has to be there before, producers first,
    updates in place late.

    Args:
        late: first values of carries that their loops compute themselves.
    """

    def inputs(op: Op) -> tuple[Tensor, ...]:
        found = inputs_of(op, updates)
        if not isinstance(op, Loop) or not any(t in late for t in found):
            return found
        others = dict.fromkeys(op.inputs[op.carries :])
        there = [t for t in found if t in others or t not in late]
        return (*there, *[s for t in found if t in late for s in op_inputs(t.op)])

    ops = ops_between(results, given, inputs)
    told = sizes_told(ops)
    needed: dict[Op, tuple[Tensor, ...]] = {}
    level: dict[Op, int] = {}
    for op in ops:
        needed[op] = (*inputs(op), *told.get(op, ()))
        before = [t.op for t in needed[op] if t.op in level and t not in given]
        level[op] = max([level[o] + (o in updates) for o in before], default=0)
    return {op: needed[op] for op in sorted(ops, key=lambda op: (level[op], op in updates))}


def find_updates(
    pairs: Sequence[tuple[Tensor, Tensor]], wanted: Sequence[Tensor], given: Given
) -> dict[Op, InPlace]:
    """The carries that are made in place, of pairs of a carry and the next one.

    Nothing that runs after an update reads elements of the old carry that were stored.

    Args:
        wanted: what an iteration computes.
    """
    ops = ops_between(wanted, given)
    uses: dict[Tensor, int] = dict.fromkeys(wanted, 1)
    for t in [t for op in ops for t in op_inputs(op)]:
        uses[t] = uses.get(t, 0) + 1
    there = dict.fromkeys(ops)
    uses = {t: n for t, n in uses.items() if t.op in there and t not in given}
    left: dict[Op, list[InPlace]] = {}
    for carry, result in pairs:
        for made in _made(carry, result, uses) if carry.shape == result.shape else ():
            last = dict.fromkeys(_onto(result, carry, uses))
            own = [o for o in ops_between([made], given) if o not in there or o in last]
            apart = [o for o in own if isinstance(o, Scatter)]  # after the others, which are stored
            for part in (own, apart)[: 1 + (len(apart) < len(own))]:
                left.setdefault(result.op, []).append(InPlace(carry, result, made, tuple(part)))
    while True:
        found = {op: ways[0] for op, ways in left.items()}
        order = in_order(wanted, given, found)
        wrong = next((op for op in found if not _is_safe(found[op], order, found)), None)
        if wrong is None:
            return found
        left[wrong].pop(0)
        left = {op: ways for op, ways in left.items() if ways}


def _made(carry: Tensor, result: Tensor, uses: Mapping[Tensor, int]) -> list[Tensor]:
    """Ways to make the result where the carry lies, the one that stores least first."""
    op = result.op
    if isinstance(op, Scatter):
        if op.init is carry:
            return _as_it_is_or_staged(result, carry)
        return [result] if len(_onto(result, carry, uses)) > 1 else []
    total = _summed(result, carry, uses)
    sums = [] if total is None else _as_it_is_or_staged(total, carry)
    ways = [updates_of(result, carry, uses, before=before) for before in (False, True)]
    return [*sums, *[t for t in ways if t is not None]]


def _onto(result: Tensor, carry: Tensor, uses: Mapping[Tensor, int]) -> list[Op]:
    """The result's operation, and the scatters before it, if each is onto the one before, the
    first onto the carry, and nothing else reads them, their own values included."""
    found = [result.op]
    op = result.op
    while isinstance(op, Scatter) and op.init is not carry:
        before = op.init
        inside = any(r.tensor is before for r in reads(*op_expressions(op)))
        if before is None or uses.get(before) != 1 or inside:
            return found[:1]
        op = before.op
        found.append(op)
    return found if isinstance(op, Scatter) else found[:1]


def _as_it_is_or_staged(t: Tensor, carry: Tensor) -> list[Tensor]:
    before = staged(t, carry)
    return [t] if before is None else [t, before]


def _summed(result: Tensor, carry: Tensor, uses: Mapping[Tensor, int]) -> Tensor | None:
    """A carry and what else is added up as a tensor of its own: added to the carry itself."""
    op = result.op
    body = op.bodies[0] if isinstance(op, Compute) and len(op.bodies) == 1 else None
    if not isinstance(op, Compute) or not isinstance(body, Call) or body.op != "add":
        return None
    own = read(carry, op.axes)
    others = [e for e in body.args if e is not own]
    if len(others) != 1 or not isinstance(others[0], Read):
        return None
    other, whole = others[0].tensor, all(map(is_, others[0].indices, op.axes))
    part = other.op
    if not whole or uses.get(other) != 1 or not isinstance(part, Scatter):
        return None
    is_sum = part.init is None and part.combiner.is_sum
    return outputs(replace(part, init=carry))[0] if is_sum else None


def _is_safe(update: InPlace, order: Mapping[Op, Sequence[Tensor]], updates: Updates) -> bool:
    """Whether the old carry is read before the update, or at other elements."""
    carry, own = update.carry, update.result.op
    if any(isinstance(o, Control) and _may_lie_in(o, carry) for o in order):
        return False
    if not all(_is_apart(update, op, own=True) for op in update.ops):
        return False
    ops = list(order)
    later: dict[Op, None] = {own: None}
    for op in ops[ops.index(own) + 1 :]:
        between = op in updates or isinstance(op, Control)
        if between or any(t.op in later for t in order[op]):
            later[op] = None
            parts = updates[op].ops if op in updates else (op,)
            if not all(_is_apart(update, part, own=False) for part in parts):
                return False
    return True


def _may_lie_in(op: Control, t: Tensor) -> bool:
    """Whether what the operation gives may lie where an operand does."""
    if t not in op_inputs(op) or not isinstance(op, Loop):
        return t in op_inputs(op)
    block = op.blocks[0]
    image = renewed(block, block.params)
    results = dict.fromkeys([image.get(r, r) for r in block.results])
    passed = [x for p, x in zip(block.params, op.operands, strict=True) if p in results]
    return any(x is t for x in (*op.operands[: op.carries], *passed))


def _is_apart(update: InPlace, op: Op, own: bool) -> bool:
    """Whether an operation reads no element of the old carry that an update stores, but, of its
    `own` update's, the one that the same point stores."""
    carry = update.carry
    if carry not in op_inputs(op):
        return True
    if not isinstance(op, (Compute, Scatter, Scan)) or (
        isinstance(op, Scatter) and op.init is carry and not own
    ):
        return False
    sites = [s for s in _sites(op) if s.read.tensor is carry]
    return not any(
        _may_meet(s, site, own and s is op and len(s.updates) == 1)
        for s in update.scatters
        for site in sites
    )


def _sites(op: Compute | Scatter | Scan) -> list[ReadSite]:
    if not isinstance(op, Scatter):
        axes = op.axes if isinstance(op, Compute) else (*op.axes, *op.along)
        return list(read_sites(axes, op_expressions(op)))
    return [
        site
        for u in op.updates
        for roots, guard in (((*u.indices, u.value), u.condition), ((u.condition,), TRUE))
        for site in read_sites(op.axes, roots, guard)
    ]


def _may_meet(stored: Scatter, site: ReadSite, apart: bool) -> bool:
    """Whether an element is stored that is read; `apart`: at another point."""
    mapping = fresh_axes(site.axes)
    *where, guard = substitute_all((*site.read.indices, site.guard), mapping)
    others = [a for a in mapping.values() if isinstance(a, Axis)]
    axes = (*stored.axes, *others)
    for u in stored.updates:
        same = [call("eq", i, k) for i, k in zip(u.indices, where, strict=True)]
        if apart:
            same.append(logical_or(*[call("ne", a, mapping[a]) for a in stored.axes]))
        parts = [*conjuncts(u.condition), *conjuncts(guard)]
        told = logical_and(*same, *[p for p in parts if is_affine(p, axes)])
        try:
            facts = logical_and(*facts_about(sizes_in(told, *_bounds(axes))))
            if find_point(axes, told, facts) is not None:
                return True
        except (NotAffine, BudgetExceeded):
            return True
    return False


def _bounds(axes: Sequence[Axis]) -> list[Expr]:
    return [b for a in axes for b in (a.lower, a.upper)]


def stored_in_place(kernels: Sequence[Kernel], update: InPlace) -> list[Kernel]:
    """The kernels of `made` with stores into the carry; elements that are copied onto themselves
    are left out."""
    found = []
    for k in kernels:
        used = (*k.reads, *k.writes, *k.scratch)
        if update.made in used:
            mapping = {t: update.carry if t is update.made else t for t in used}
            k = with_tensors(k, k.name, mapping)
            k = replace(k, body=without_self_copies(k.body), reads=tuple(dict.fromkeys(k.reads)))
        if k.body:
            found.append(k)
    return found


def without_self_copies(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The loops without stores of an element onto itself, and without loops around nothing else."""

    def rule(s: Stmt) -> Sequence[Stmt] | None:
        match s:
            case Store():
                copies = [
                    isinstance(v, Read) and v.tensor is t and all(map(is_, v.indices, s.indices))
                    for t, v in zip(s.tensors, s.values, strict=True)
                ]
                return () if all(copies) else None
            case For() if all(isinstance(i, Visit) for i in s.body):
                return ()
            case If() if not s.then and not s.orelse:
                return ()
        return None

    return rewrite(body, rule)


def late_starts(wanted: Sequence[Tensor], given: Given, updates: Updates) -> dict[Tensor, None]:
    """First values of carries that are computed where their loops begin, into the memory of the
    carries: formulas that nothing else reads, or that read nothing."""
    ops = ops_between(wanted, given, lambda op: inputs_of(op, updates))
    uses: dict[Tensor, int] = dict.fromkeys(wanted, 1)
    for t in [t for op in ops for t in inputs_of(op, updates)]:
        uses[t] = uses.get(t, 0) + 1
    changed = dict.fromkeys([u.carry for u in updates.values()])
    found: dict[Tensor, None] = {}
    for op in [op for op in ops if isinstance(op, Loop)]:
        for x in op.operands[: op.carries]:
            if not isinstance(x.op, Compute) or x in given or x.op in updates:
                continue
            fixed = not any(t in changed for t in op_inputs(x.op))
            sizes = any(isinstance(s, LocalSize) for s in own_sizes(x.op))
            alone = uses[x] == 1 and sum([t is x for t in op.inputs]) == 1
            if fixed and not sizes and (alone or not op_inputs(x.op)):
                found[x] = None
    return found
