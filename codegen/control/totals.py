"""Sums of what calls and branches give, added up where the sum lies.

A result that is a sum over all calls of a definition (`Definition.totals`) is not made in each call
and added to those of other calls: a call adds what it has to where its caller's sum lies. There is
one buffer, whatever the number of calls.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_
from typing import NamedTuple

from tensorad.codegen.control.carries import is_dynamic
from tensorad.codegen.control.in_place import InPlace
from tensorad.ir.analysis.blocks import ops_between
from tensorad.ir.arrays.elementwise import compute_axes
from tensorad.ir.arrays.foreign import Foreign
from tensorad.ir.combiner import sum_combiner
from tensorad.ir.expr import TRUE, Axis, Call, Const, Expr, Read, add, const, read
from tensorad.ir.order import REDUCE, occurs
from tensorad.ir.records import Definition, Recursion, stand_ins
from tensorad.ir.tensor import Branch, Compute, FunctionCall, Op, Scatter, Tensor, Update, outputs
from tensorad.ir.visit import op_expressions, op_inputs, reads, substitute

Adding = Sequence[tuple[Tensor, Tensor]]
"""Tensors, and what they are added to."""


def totals_of(definition: Definition) -> tuple[int, ...]:
    """The results that calls add to where they lie."""
    made = stand_ins(definition.types)
    found = [k for k in definition.totals if made[k].dtype.is_float and not is_dynamic(made[k])]
    return tuple(found)


def zero(t: Tensor) -> Tensor:
    """Where a sum begins."""
    return outputs(Compute(t.name, compute_axes(t.shape), (const(0, t.dtype),), ""))[0]


@dataclass
class Added:
    """How tensors are added to where their sums lie.

    Attributes:
        updates: formulas onto the sums, by operation.
        calls: outputs of calls and branches that add by themselves, and to what.
    """

    updates: dict[Op, InPlace] = field(default_factory=dict)
    calls: dict[Tensor, Tensor] = field(default_factory=dict)

    @property
    def made(self) -> list[Tensor]:
        """What has to be computed."""
        return [*[u.result for u in self.updates.values()], *self.calls]


class _Term(NamedTuple):
    """A formula over axes."""

    axes: tuple[Axis, ...]
    body: Expr


def added_up(adding: Adding, wanted: Sequence[Tensor], given: Collection[Tensor]) -> Added:
    """What to do in place of computing tensors that are added to sums.

    Args:
        wanted: what else is computed.
    """
    found = Added()
    uses = _uses([*wanted, *[t for t, _ in adding]], given)
    for t, total in adding:
        terms: list[_Term] = []
        stack = [t]
        while stack:
            at = stack.pop()
            op = at.op
            single = at not in given and uses[at] == 1
            if single and isinstance(op, Compute) and len(op.bodies) == 1:
                own, inner = _apart(op, uses)
                terms += [_Term(op.axes, e) for e in own]
                stack += inner[::-1]
            elif single and isinstance(op, Scatter) and _may_begin_anywhere(op):
                stack += [] if op.init is None else [op.init]
                _update(replace(op, init=total), total, found)
            elif single and adds_by_itself(at):
                found.calls[at] = total
            else:
                axes = compute_axes(at.shape)
                terms.append(_Term(axes, read(at, axes)))
        if terms:
            _update(_scatter(total, terms), total, found)
    return found


def _uses(wanted: Sequence[Tensor], given: Collection[Tensor]) -> dict[Tensor, int]:
    """How many operations read each tensor."""
    uses: dict[Tensor, int] = {}
    inner = [t for op in ops_between(wanted, given) for t in op_inputs(op)]
    for t in [*wanted, *inner]:
        uses[t] = uses.get(t, 0) + 1
    return uses


def adds_by_itself(t: Tensor) -> bool:
    """Whether what makes the tensor can add it to another one."""
    op = t.op
    if isinstance(op, Recursion):
        return t.index in totals_of(op.definition)
    return isinstance(op, (Branch, FunctionCall)) and not isinstance(op, Foreign)


def _apart(op: Compute, uses: Mapping[Tensor, int]) -> tuple[list[Expr], list[Tensor]]:
    """The addends of a formula: others than 0, and tensors that nothing else reads."""
    addends: list[Expr] = []
    stack = [op.bodies[0]]
    while stack:
        e = stack.pop()
        if isinstance(e, Call) and e.op == "add":
            stack += e.args[::-1]
        elif not (isinstance(e, Const) and e.value == 0):
            addends.append(e)
    where: dict[Tensor, int] = {}
    for e in addends:
        for r in reads(e):
            where[r.tensor] = where.get(r.tensor, 0) + 1
    own, inner = [], []
    for e in addends:
        t = e.tensor if isinstance(e, Read) and all(map(is_, e.indices, op.axes)) else None
        alone = t is not None and t.shape == op.shape and where[t] == uses[t] == 1
        inner.append(t) if alone and t is not None else own.append(e)
    return own, inner


def _may_begin_anywhere(op: Scatter) -> bool:
    """Whether it adds to where it begins, and does nothing else with it."""
    inside = any(r.tensor is op.init for r in reads(*op_expressions(op)))
    return op.combiner.is_sum and not inside


def _scatter(total: Tensor, terms: Sequence[_Term]) -> Scatter:
    """The sum of formulas, added to each element."""
    axes = compute_axes(total.shape)
    bodies = [substitute(e, dict(zip(own, axes, strict=True))) for own, e in terms]
    body = bodies[0]
    for e in bodies[1:]:
        body = add(body, e)
    if occurs(REDUCE, body):
        made = outputs(Compute(total.name, axes, (body,), ""))[0]
        axes = compute_axes(total.shape)
        body = read(made, axes)
    update = (Update(axes, body, TRUE),)
    combiner = sum_combiner(total.dtype)
    return Scatter(total.name, total.shape, total.dtype, axes, update, combiner, total, "")


def _update(op: Scatter, total: Tensor, found: Added) -> None:
    (made,) = outputs(op)
    found.updates[op] = InPlace(total, made, made, (op,))
