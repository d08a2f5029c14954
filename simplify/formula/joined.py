"""Formulas over the elements of reductions, computed by the operation that reduces.

An operation with reductions visits their points and no others, so what is computed from its
values element by element costs no visit there, and a tensor of its own costs one per element.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.expr import Const, Expr, Read, read
from tensorad.ir.order import READ, REDUCE, occurs
from tensorad.ir.tensor import Compute, Op, Tensor, outputs
from tensorad.ir.visit import (
    copy_bodies,
    op_inputs,
    reads,
    rewrite,
    substitute_all,
    topological_ops,
)
from tensorad.simplify.formula.costs import visits
from tensorad.simplify.formula.dataflow import over_inputs
from tensorad.simplify.zeros.reduction_stages import extract_reductions

Ops = dict[Op, None]
_SIZES: Final = (64.0, 1.0)
"""Values of symbolic extents for which copies must save points."""


def inner_reductions(forward: Sequence[Op]) -> dict[Op, Op]:
    """The reductions inside of formulas, as the operations that derivatives read -> the formula."""
    written = dict.fromkeys(forward)
    found: dict[Op, Op] = {}
    for op in forward:
        viewed = extract_reductions(op) if isinstance(op, Compute) else op
        if viewed is not op:
            stages = topological_ops(op_inputs(viewed), stop=forward)
            found.update({s: op for s in stages if s not in written and s not in found})
    return found


def joined(
    results: Sequence[Tensor],
    forward: Sequence[Op],
    stages: Iterable[Op],
    given: Sequence[Op],
) -> list[Tensor]:
    """Tensors equal to the results, in which reductions inside of formulas are computed once.

    A formula of the forward program that only the results read, beside its reductions, is
    computed with them; so is a formula that reads such reductions at each of their elements.

    Args:
        forward: the operations of the program that was differentiated, as written.
        stages: its reductions inside of formulas, as operations of their own.
        given: what is behind the head, and what params of a block come from; these operations stay.
    Ensures: names, shapes and values stay; no point is visited more often.
    """
    behind = dict.fromkeys(given)
    order = [op for op in topological_ops(results, stop=given) if op not in behind]
    own = {op: None for op in order if op in stages}
    if not own:
        return list(results)
    written = dict.fromkeys(forward)
    return _Joining(_over_stages(results, order, written, own), own, written, given).run()


def _over_stages(
    results: Sequence[Tensor], order: Sequence[Op], forward: Ops, stages: Ops
) -> list[Tensor]:
    """The results, with forward formulas that read the stages; copied ones are added to these."""
    renewed = _worth_copying(order, forward, stages)
    image: dict[Tensor, Tensor] = {}
    for op in order:
        viewed = extract_reductions(op) if isinstance(op, Compute) and op in renewed else op
        new = over_inputs(viewed, image)
        if new is not op:
            image.update(zip(outputs(op), outputs(new), strict=True))
            if op in stages:
                stages[new] = None
    return [image.get(t, t) for t in results]


def _worth_copying(order: Sequence[Op], forward: Ops, stages: Ops) -> Ops:
    """Forward formulas to read their reductions from stages, computed beside those as written.

    All that the results need of the forward program and that reads one is copied, too: so only
    where that visits no more than the formula as written.
    """
    written = {op: None for op in order if op in forward}
    renewed: Ops = {}
    readers: dict[Op, Ops] = {}
    """Forward operations as written that depend on one."""
    for op in reversed(written):
        known = readers.setdefault(op, {})
        viewed = extract_reductions(op) if isinstance(op, Compute) else op
        if viewed is not op and any(t.op in stages for t in op_inputs(viewed)):
            left = {r: None for r in known if r not in renewed}
            if all(sum([visits(r, n) for r in left]) <= visits(op, n) for n in _SIZES):
                renewed[op] = None
                continue
        for t in op_inputs(op):
            readers.setdefault(t.op, {}).update({op: None, **known})
    return renewed


def _reduces(op: Op) -> bool:
    return isinstance(op, Compute) and any(occurs(REDUCE, b) for b in op.bodies)


class _Joining:
    """Groups of operations, each to be one operation."""

    def __init__(
        self, results: Sequence[Tensor], stages: Ops, forward: Ops, given: Sequence[Op]
    ) -> None:
        self.results = results
        self.given = dict.fromkeys(given)
        self.stages = stages
        self.order = topological_ops(results, stop=given)
        self.place = {op: n for n, op in enumerate(self.order)}
        fixed = {**forward, **self.given, **{t.op: None for t in results}}
        self.free = [op for op in self.order if isinstance(op, Compute) and op not in fixed]
        self.groups: dict[Op, list[Compute]] = {op: [op] for op in self.free if _reduces(op)}
        """Operation -> all members of its group, in order."""
        self.image: dict[Tensor, Tensor] = {}

    def run(self) -> list[Tensor]:
        """The results over joined operations."""
        for formula in self.free:
            if formula not in self.groups:
                self._enter(formula)
        if all(len(members) == 1 for members in self.groups.values()):
            return list(self.results)
        order = topological_ops(self.results, self.given, self._inputs_of)
        used = {t: None for op in order for t in self._inputs_of(op)}
        done: Ops = {}
        for op in order:
            members = self.groups.get(op, [])
            if len(members) > 1:
                if op not in done:
                    self._join(members, used)
                    done.update(dict.fromkeys(members))
            elif op not in self.given:
                new = over_inputs(op, self.image)
                self.image.update(zip(outputs(op), outputs(new), strict=True))
        return [self.image.get(t, t) for t in self.results]

    def _inputs_of(self, op: Op) -> Sequence[Tensor]:
        """What a whole group reads, for each of its members."""
        members = self.groups.get(op, [op])
        return [t for m in members for t in op_inputs(m) if not self._is_inside(op, t)]

    def _is_inside(self, reader: Op, t: Tensor) -> bool:
        return reader in self.groups and self.groups.get(t.op) is self.groups[reader]

    def _enter(self, op: Compute) -> None:
        """Join a formula with the reductions that it reads at each of its elements."""
        found = [r for r in reads(*op.bodies) if r.tensor.op in self.groups]
        if not any(m in self.stages for r in found for m in self.groups[r.tensor.op]):
            return
        apart = {r.tensor.op: None for r in found if not _is_at(r, op)}
        members = [op]
        for r in found:
            group = self.groups[r.tensor.op]
            if group[0] not in members and not any(m in apart for m in group):
                more = [*group, *members]
                members = more if self._is_one_loop(more) else members
        if len(members) > 1:
            members.sort(key=self.place.__getitem__)
            self.groups.update(dict.fromkeys(members, members))

    def _is_one_loop(self, members: Sequence[Compute]) -> bool:
        """Whether no reduction of a member, nor an operation between them, reads another member."""
        inside = dict.fromkeys(members)
        if any(t.op in inside for m in members if _reduces(m) for t in op_inputs(m)):
            return False
        first = min([self.place[m] for m in members])
        seen: Ops = dict(self.given)  # none of them reads a member
        stack = [t.op for m in members for t in op_inputs(m) if t.op not in inside]
        while stack:
            op = stack.pop()
            group = self.groups.get(op, [op])
            if op in seen or max([self.place[m] for m in group]) < first:
                continue
            seen.update(dict.fromkeys(group))
            inputs = [t.op for m in group for t in op_inputs(m)]
            if any(i in inside for i in inputs):
                return False
            stack += inputs
        return True

    def _join(self, members: Sequence[Compute], used: Mapping[Tensor, None]) -> None:
        """One operation for all members, named after the first, or the only one that is read."""
        axes = members[0].axes
        values: dict[Tensor, Expr] = {}

        def new(e: Expr) -> Expr | None:
            if not isinstance(e, Read):
                return None
            if e.tensor in values:
                return values[e.tensor]
            t = self.image.get(e.tensor, e.tensor)
            return None if t is e.tensor else read(t, e.indices)

        for m in members:
            own: dict[Expr, Expr] = dict(zip(m.axes, axes, strict=True))
            bodies = [rewrite(b, new, kinds=READ) for b in substitute_all(m.bodies, own)]
            values.update(zip(outputs(m), bodies, strict=True))
        left = [t for t in values if t in used]
        named = next(m for m in members if len(left) > 1 or left[0].op is m)
        fresh, copies = copy_bodies(axes, [values[t] for t in left])
        made = outputs(replace(named, axes=fresh, bodies=copies))
        self.image.update(zip(left, made, strict=True))


def _is_at(r: Read, op: Compute) -> bool:
    """Whether the read visits each element of a tensor at its own place."""
    return (
        len(r.indices) == len(op.axes)
        and all(
            i is a or (a.extent == 1 and isinstance(i, Const))
            for i, a in zip(r.indices, op.axes, strict=True)
        )
        and all(same_dim(m, n) for m, n in zip(r.tensor.shape, op.shape, strict=True))
    )
