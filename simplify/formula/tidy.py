"""Derivatives as a person would write them: a pass over the operations behind some tensors.

Formulas used once move into the formula that reads them; factors that do not vary leave sums;
sums and products that are computed anyway are read; equal stages are one stage. A formula is
replaced only by a cheaper one (`costs.py`), so one without anything to gain stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tensorad.ir.arrays.elementwise import formula
from tensorad.ir.expr import FUNCTIONS, Axis, Call, Const, Expr, Read, Reduce, Select, read, select
from tensorad.ir.order import READ, REDUCE, occurs
from tensorad.ir.tensor import Compute, Constant, Op, Placeholder, Tensor, outputs
from tensorad.ir.visit import (
    copy_bodies,
    free_leaves,
    op_inputs,
    postorder,
    reads,
    rewrite,
    substitute,
    topological_ops,
    uses_any,
)
from tensorad.simplify.formula.available_values import AvailableValues, Readable
from tensorad.simplify.formula.costs import cost, fold_points, points
from tensorad.simplify.formula.dataflow import (
    Definition,
    count_uses,
    is_pointwise,
    loops_around,
    on_fresh_axes,
    over_inputs,
    unfold,
)
from tensorad.simplify.formula.factors import factored
from tensorad.simplify.formula.hoist import guard_outside, hoisted, narrow_functions
from tensorad.simplify.formula.invariant_factors import movable
from tensorad.simplify.formula.laurent import Ring, Sum, TooLong
from tensorad.simplify.formula.normal_form import Define, Interned, Normal
from tensorad.simplify.formula.zero_test import ZeroSums
from tensorad.simplify.zeros.lift import is_index_condition, is_zero

_MAX_NODES: Final = 60
"""A formula does not grow beyond this by what is written into it."""
_MAX_IMPROVED: Final = 200
"""A longer formula keeps its form."""


@dataclass(frozen=True, eq=False)
class Task:
    """What to tidy.

    Attributes:
        own: the operations that may be rewritten.
        hoist: whether factors become tensors of their own.
        stored: tensors whose formulas are written into no reader.
    """

    results: Sequence[Tensor]
    own: Mapping[Op, None]
    values: Sequence[Op]
    hoist: bool
    stored: Mapping[Tensor, None] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Tidied:
    """What tidying has come to.

    Attributes:
        stages: tensors made on the way, which may be written into their reader.
        detours: what is stored although some reader contains its formula.
        missed: whether a value that is not readable would have shortened a formula.
    """

    results: Sequence[Tensor]
    stages: Mapping[Tensor, None] = field(default_factory=dict)
    detours: Mapping[Tensor, None] = field(default_factory=dict)
    missed: bool = False


class Tidy:
    """One pass, producers first."""

    def __init__(self, task: Task, readable: Mapping[Tensor, None]) -> None:
        self.hoist = task.hoist
        self.stored = task.stored
        self.results = task.results
        leaves = (Placeholder, Constant)
        outer = self.outer = dict.fromkeys(task.values)
        self.own = {op: None for op in task.own if op not in outer and isinstance(op, Compute)}
        self.readable = Readable(readable)
        self.interned = Interned()
        self.values = {t: None for op in task.values for t in outputs(op)}
        self.known = AvailableValues(self.interned, task.values)
        self.order = [
            op
            for op in topological_ops(sorted(task.results, key=_is_no_sum), stop=outer)
            if op not in outer and not isinstance(op, leaves)
        ]
        self.uses = count_uses(self.order)
        self.wanted = dict.fromkeys(task.results)
        self.image: dict[Tensor, Tensor] = {}
        self.plain: dict[Tensor, Definition] = {}
        """New tensors whose formula has no reduction: it may be written into others."""
        self.written: dict[Tensor, None] = {}
        """Such tensors that some reader does not read but contains."""
        self.stages: dict[tuple[Expr, ...], Tensor] = {}
        self.alike: dict[tuple[object, ...], list[Tensor]] = {}
        """Tensors by a summary of their formulas, which equal formulas share."""
        self.made_stages: dict[Tensor, None] = {}
        self.zero_sums = ZeroSums(self.values)
        self.axes: dict[tuple[object, ...], Axis] = {}
        """Axes by place, name and bounds: formulas over the same ones are written into each other
        as they are."""
        self.on_shared: dict[Op, None] = {}
        """New operations over such axes."""

    def run(self) -> Tidied:
        """The images of the results."""
        for op in self.order:
            if isinstance(op, Compute) and op in self.own:
                self._compute(op)
            else:
                self._carry_over(op)
        found = [self.image.get(t, t) for t in self.results]
        own = self._on_own_axes(found)
        stages = {own.get(t, t): None for t in self.made_stages}
        results = [own.get(t, t) for t in found]
        return Tidied(results, stages, self._detours(found), self.readable.missed)

    def _on_own_axes(self, found: Sequence[Tensor]) -> dict[Tensor, Tensor]:
        """Images of the tensors that were left over shared axes, and of what reads them."""
        image: dict[Tensor, Tensor] = {}
        for op in topological_ops(found, stop=self.outer) if self.on_shared else ():
            new = over_inputs(op, image)
            if new is op and op in self.on_shared:
                new = on_fresh_axes(op)
            if new is not op:
                image.update(zip(outputs(op), outputs(new), strict=True))
        return image

    def _detours(self, found: Sequence[Tensor]) -> dict[Tensor, None]:
        there = dict.fromkeys(topological_ops(found) if self.written else ())
        both = {t: None for t in self.written if t.op in there}
        images = {old: None for old, t in self.image.items() if t in both}
        return {**both, **images}

    def _carry_over(self, op: Op) -> None:
        new = over_inputs(op, self.image)
        if new is not op:
            self.image.update(zip(outputs(op), outputs(new), strict=True))

    def _compute(self, op: Compute) -> None:
        (old,) = outputs(op)
        axes, given = self._on_shared_axes(op)
        body = self._improved(op.name, axes, self._with_inputs(op, axes, given))
        t = old
        if body is not given:
            shares = old not in self.wanted and not occurs(REDUCE, body)
            if not shares:
                axes, (body,) = copy_bodies(axes, (body,))
            if old in self.wanted:
                t = outputs(Compute(op.name, axes, (body,), op.source))[0]
            else:
                t = formula(op.name, axes, body, op.source)
            if shares and isinstance(t.op, Compute) and t.op.axes is axes:
                self.on_shared[t.op] = None
        self._enter(old, t if old in self.wanted else self._shared(t))

    def _on_shared_axes(self, op: Compute) -> tuple[tuple[Axis, ...], Expr]:
        """The formula over axes that others have, too."""
        (body,) = op.bodies
        if not _is_box(op.axes):
            return op.axes, body
        keys = [(n, a.name, a.lower, a.upper, a.step) for n, a in enumerate(op.axes)]
        axes = tuple([self.axes.setdefault(k, a) for k, a in zip(keys, op.axes, strict=True)])
        pairs = zip(op.axes, axes, strict=True)
        return axes, substitute(body, {a: b for a, b in pairs if a is not b})

    def _shared(self, t: Tensor) -> Tensor:
        """An earlier tensor of the same formula, if there is one."""
        if not isinstance(t.op, Compute):
            return t
        body = t.op.bodies[0]
        nodes = postorder(body)
        if len(nodes) > _MAX_NODES:
            return t
        alike = (len(nodes), tuple([r.tensor for r in nodes if isinstance(r, Read)]))
        others = self.alike.setdefault(alike, [])
        if not others:
            others.append(t)
            return t
        for u in others:
            if isinstance(u.op, Compute):
                self.stages.setdefault(self._key(u.op.axes, u.op.bodies[0]), u)
        others.append(t)
        return self.stages.setdefault(self._key(t.op.axes, body), t)  # bounds from data: its own

    def _key(self, axes: Sequence[Axis], body: Expr) -> tuple[Expr, ...]:
        """Equal for equal formulas, whatever their axes are.

        Reductions first: only then it is known which axes stand for those inside.
        """
        closed = self.interned.closed(body)
        mapping = self.interned.rename(axes, [closed])
        return (*mapping.values(), substitute(closed, mapping))

    def _enter(self, old: Tensor, t: Tensor) -> None:
        """Remember the new tensor, and its formula if others may contain it."""
        if t is not old:
            self.image[old] = t
            self.uses[t] = self.uses.get(t, 0) + self.uses.get(old, 0)
        if not isinstance(t.op, Compute) or t in self.values:
            return
        if occurs(REDUCE, t.op.bodies[0]):
            self.known.add(t)
        elif old not in self.wanted and old not in self.stored:
            self.plain[t] = self._narrow(t.op)

    def _narrow(self, op: Compute) -> Definition:
        """The formula; a read of a smaller tensor if it does not depend on all axes."""
        (body,) = op.bodies
        used = _free(op.axes, body)
        wide = [a for a in op.axes if a.extent != 1]
        if len(used) == len(wide) or isinstance(body, (Read, Const)) or not _is_box(op.axes):
            return op.axes, body
        body = substitute(body, {a: a.lower for a in op.axes if a.extent == 1})
        return op.axes, self._stage(op.name, op.axes, body, body)

    # -- writing formulas used once into their users ------------------------------------------

    def _with_inputs(self, op: Compute, axes: Sequence[Axis], body: Expr) -> Expr:
        """The body over new inputs; those used here alone, point by point, written out."""
        if not any(t in self.image or t in self.plain for t in op_inputs(op)):
            return body
        loops = loops_around(axes, body)
        size = len(postorder(body))

        def renew(e: Expr) -> Expr | None:
            nonlocal size
            if not isinstance(e, Read):
                return None
            t = self.image.get(e.tensor, e.tensor)
            definition = self.plain.get(t)
            if definition is not None:
                free = isinstance(definition[1], (Read, Const))
                if free or (self.uses[t] == 1 and is_pointwise(e, loops)):
                    growth = len(postorder(definition[1]))
                    if free or size + growth <= _MAX_NODES:
                        size += growth
                        return unfold(definition, e.indices)
            return None if t is e.tensor else read(t, e.indices)

        return rewrite(body, renew, kinds=READ)

    # -- cheaper formulas ---------------------------------------------------------------------

    def _improved(self, name: str, axes: tuple[Axis, ...], body: Expr) -> Expr:
        """An equal formula that costs less; new stages are named after `name`."""
        body = guard_outside(body)
        if isinstance(body, Select):
            if is_index_condition(body.cond) or not (is_zero(body.orelse) and movable(body.then)):
                return body  # a delta: its value is wanted at few points
            return select(body.cond, self._improved(name, axes, body.then), body.orelse)
        if not self._is_promising(axes, body):
            return body
        best, best_cost = None, self._cost(axes, body, {})
        folds = fold_points(axes, body)
        unfolds = any(r.tensor in self.plain for r in reads(body))
        for define in (_nothing, self._definition) if unfolds else (_nothing,):
            for candidate, parts in self._candidates(axes, body, define):
                if self._fold_points(axes, candidate, parts) > folds:
                    continue  # a sum of two terms is one loop, two sums are two
                total = self._cost(axes, candidate, parts)
                if total < best_cost:
                    best, best_cost = (candidate, parts), total
        if best is None:
            return body
        candidate, parts = best
        for t in {r.tensor: None for r in reads(body)}:
            if t in self.plain and not any(r.tensor is t for r in reads(candidate, *parts)):
                self.uses[t] -= 1
                self.written[t] = None
        return self._with_stages(name, axes, candidate, parts)

    def _is_promising(self, axes: Sequence[Axis], body: Expr) -> bool:
        """Whether a factor may leave a sum, or a stored formula over fewer axes is read."""
        nodes = postorder(body)
        if len(nodes) > _MAX_IMPROVED or not body.dtype.is_float:
            return False
        wide = points(axes)
        for e in nodes:
            if isinstance(e, Reduce) and self._may_shrink(axes, e):
                return True
            if isinstance(e, Call) and e.op in FUNCTIONS and points(_free(axes, e)) < wide:
                return True
            stored = self.plain.get(e.tensor) if isinstance(e, Read) else None
            if stored is not None and points(stored[0]) < wide:
                return True
        return self.known.may_contain_product([e for e in nodes if isinstance(e, Read)])

    def _may_shrink(self, axes: Sequence[Axis], e: Reduce) -> bool:
        """Whether a sum lacks an axis, or its source is no product of reads that all vary."""
        if not e.combiner.is_sum or points(_free(axes, e)) < points(axes):
            return e.combiner.is_sum
        nodes = postorder(e.sources[0])
        inner = [n for n in nodes if isinstance(n, Read)]
        plain = all(isinstance(n, (Read, Axis, Const)) or _is_product(n) for n in nodes)
        if not plain or not all(uses_any(r, e.axes) for r in inner):
            return True
        if len(inner) == 1:
            return inner[0].tensor in self.plain
        return self.known.may_contain_product(inner)

    def _candidates(
        self, axes: tuple[Axis, ...], body: Expr, define: Define
    ) -> list[tuple[Expr, dict[Expr, None]]]:
        """Equal formulas, each with the parts that become stages."""
        normal = Normal(self.interned, define, self._refold, self._is_value)
        try:
            total = self.zero_sums.left_out(normal.body(axes, body))
        except TooLong:
            return []
        sums: dict[Expr, None] = {
            a: None for m in total.terms for a, _ in m if isinstance(a, Reduce)
        }
        whole = factored(total, body.dtype)
        found = [self._candidate(axes, whole, sums)]
        if not self.hoist:
            return found
        functions = narrow_functions(axes, list(sums))
        if functions:
            found.append(self._candidate(axes, whole, {**functions, **sums}))
        narrow, factors = hoisted(normal.ring, total, axes, body.dtype)
        if factors:
            parts = {**functions, **sums, **dict.fromkeys(factors)}
            found.append(self._candidate(axes, factored(narrow, body.dtype), parts))
        return found

    def _candidate(
        self, axes: Sequence[Axis], body: Expr, parts: dict[Expr, None]
    ) -> tuple[Expr, dict[Expr, None]]:
        """A body that is itself a new sum over all its axes is no stage."""
        wide = sum(a.extent != 1 for a in axes)
        if body in parts and len(_free(axes, body)) == wide and not self._exists(body):
            return body, {p: None for p in parts if p is not body}
        return body, parts

    def _refold(self, ring: Ring, total: Sum) -> Sum:
        return self.known.refold(ring, total, self.readable)

    def _definition(self, e: Read) -> Definition | None:
        return self.plain.get(e.tensor)

    def _is_value(self, e: Expr) -> bool:
        """Whether a formula is known without the gradient."""
        return all(r.tensor in self.values for r in reads(e))

    def _cost(self, axes: Sequence[Axis], body: Expr, parts: Mapping[Expr, None]) -> float:
        """The cost of a body, of its new stages, and of the stored formulas it reads."""
        total = cost(axes, body, parts)
        for part in parts:
            if not self._exists(part):
                inner = {p: None for p in parts if p is not part}
                total += cost(_free(axes, part), part, inner)
        for t in {r.tensor: None for r in reads(body, *parts)}:
            if t in self.plain:
                own = self.plain[t]
                total += cost(*own) if self.uses[t] == 1 else points(own[0]) / self.uses[t]
        return total

    def _fold_points(self, axes: Sequence[Axis], body: Expr, parts: Mapping[Expr, None]) -> float:
        """Points that the reductions of a body and of its new stages visit."""
        total = fold_points(axes, body, parts)
        for part in parts:
            if not self._exists(part):
                inner = {p: None for p in parts if p is not part}
                total += fold_points(_free(axes, part), part, inner)
        return total

    def _exists(self, part: Expr) -> bool:
        return isinstance(part, Reduce) and self.known.sum_read(part) is not None

    # -- stages -------------------------------------------------------------------------------

    def _with_stages(
        self, name: str, axes: tuple[Axis, ...], body: Expr, parts: Mapping[Expr, None]
    ) -> Expr:
        """The body reading its parts from stages."""
        places: dict[Expr, Expr] = {}
        for part in parts:  # sums come first: later parts read them
            kind = "sum" if isinstance(part, Reduce) else "factor"
            places[part] = self._stage(f"{name}.{kind}", axes, substitute(part, places), part)
        return substitute(body, places)

    def _stage(self, name: str, context: Sequence[Axis], body: Expr, part: Expr) -> Read:
        if isinstance(part, Reduce):
            found = self.known.sum_read(part)
            if found is not None:
                return found
        used = _free(context, body)
        key = self._key(used, body)
        if key not in self.stages:
            own, (copy,) = copy_bodies(used, (body,))
            made = formula(name, own, copy)
            self.stages[key] = made
            self.made_stages[made] = None
            self.known.add(made)
        t = self.stages[key]
        self.uses[t] = self.uses.get(t, 0) + 1
        return read(t, tuple(used))


def _is_no_sum(t: Tensor) -> bool:
    """Results that are sums come first, so that others read them."""
    return not (isinstance(t.op, Compute) and isinstance(t.op.bodies[t.index], Reduce))


def _is_box(axes: Sequence[Axis]) -> bool:
    return not any(free_leaves(a.lower, a.upper) for a in axes)


def _is_product(e: Expr) -> bool:
    if not e.dtype.is_float:
        return True
    return isinstance(e, Call) and e.op == "mul" and not any(isinstance(a, Const) for a in e.args)


def _nothing(e: Read) -> Definition | None:
    return None


def _free(context: Sequence[Axis], part: Expr) -> tuple[Axis, ...]:
    """The axes a part depends on, those of the context first; one of extent 1 is its value."""
    free = free_leaves(part)
    inner = [a for a in free if isinstance(a, Axis) and not any(a is b for b in context)]
    return tuple([a for a in (*context, *inner) if a in free and a.extent != 1])
