"""Costly terms that several sums of a program have in common are computed once, where they fit in a
cache.

The adjoints of the operands of a sum of exp(a[i, k] + b[k, j]) are sums of the same exponentials
over other axes: each of them, as a formula of its own, would compute all of them again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from tensorad.codegen.cost.operation_costs import cost_of, takes_long
from tensorad.codegen.model import Model
from tensorad.ir.analysis.alike import Key, Numbering, as_itself
from tensorad.ir.analysis.decisions import Decision, note
from tensorad.ir.expr import ONE, TRUE, ZERO, Axis, Call, Cast, Expr, Reduce, Select, read
from tensorad.ir.order import REDUCE, occurs, outside_reductions
from tensorad.ir.tensor import Compute, Op, Tensor, outputs
from tensorad.ir.visit import (
    copy_bodies,
    free_leaves,
    op_inputs,
    postorder,
    reads,
    substitute_all,
    topological_ops,
)
from tensorad.simplify.formula.dataflow import over_inputs

_MOST_NODES: Final = 256
"""Formulas of more nodes are left as they are: each of their parts is compared whole."""
_REGISTER: Final = 4
"""Half cycles in which a register goes to the second cache, or comes from there."""
_KERNEL: Final = 200
"""Half cycles that one more kernel takes."""


@dataclass(frozen=True)
class _Term:
    """A part of a reduction's source.

    Attributes:
        axes: those that it varies along, as they lie in memory.
    """

    value: Expr
    axes: tuple[Axis, ...]


def with_common_terms(
    results: Sequence[Tensor],
    given: Sequence[Tensor],
    may_share: Callable[[Op], bool],
    model: Model,
) -> list[Tensor]:
    """The results, whose sums read costly terms that others have, too.

    Args:
        given: tensors that are read from the caller, whatever they were made of.
        may_share: whether the formula of an operation may be changed.
    Ensures: shapes, names and elements stay; sums may be added in another order.
    """
    behind = dict.fromkeys(given)

    def inputs_of(op: Op) -> list[Tensor]:
        return [t for t in op_inputs(op) if t not in behind]

    order = topological_ops(results, inputs_of=inputs_of)
    chosen = _chosen([op for op in order if isinstance(op, Compute) and may_share(op)], model)
    stored: dict[Key, Tensor] = {}
    image: dict[Tensor, Tensor] = {}
    for op in order:
        new: Op = op
        if isinstance(op, Compute) and op in chosen:
            for key, term in chosen[op].items():
                if key not in stored:
                    stored[key] = outputs(over_inputs(_stored(op, term), image))[0]
            new = _reading(op, {t.value: read(stored[k], t.axes) for k, t in chosen[op].items()})
        new = over_inputs(new, image)
        if new is not op:
            image.update(zip(outputs(op), outputs(new), strict=True))
        for k in chosen[op] if op in chosen else ():
            names = _listed([t.name for o in chosen if k in chosen[o] for t in outputs(o)])
            note(Decision(outputs(new), f"reads {stored[k].name}", f"computed once for {names}"))
    return [image.get(t, t) for t in results]


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _chosen(ops: Sequence[Compute], model: Model) -> dict[Op, dict[Key, _Term]]:
    """By operation, the terms that are stored: the largest ones that pay."""
    found = {op: terms for op in ops if (terms := _terms(op))}
    if len(found) < 2:
        return {}
    users: dict[Key, dict[Compute, _Term]] = {}
    for op, terms in found.items():
        for t in terms:
            users.setdefault(_key(t), {}).setdefault(op, t)
    chosen: dict[Op, dict[Key, _Term]] = {}
    inside: dict[Compute, dict[Expr, None]] = {op: {} for op in found}
    for key in sorted(users, key=len, reverse=True):
        left = {op: t for op, t in users[key].items() if t.value not in inside[op]}
        if not _pays(list(left.values()), model):
            continue
        for op, t in left.items():
            chosen.setdefault(op, {})[key] = t
            inside[op].update(dict.fromkeys(postorder(t.value)))
    return chosen


def _terms(op: Compute) -> list[_Term]:
    """Costly parts of the sources of an operation's reductions that vary along all loops."""
    found: dict[Expr, _Term] = {}
    for r in outside_reductions(op.bodies):
        if not isinstance(r, Reduce) or r.condition is not TRUE or occurs(REDUCE, *r.sources):
            continue
        around = [a for a in (*op.axes, *r.axes) if a.extent != 1]
        if not all(a.extent and a.lower is ZERO and a.step is ONE for a in around):
            continue
        if len(postorder(*r.sources)) > _MOST_NODES:
            continue
        for e in _evaluated(r.sources):
            free = free_leaves(e)
            axes = tuple([a for a in free if isinstance(a, Axis)])
            if len(free) == len(axes) == len(around) and all(a in free for a in around):
                found[e] = _Term(e, _in_order(e, axes))
    return list(found.values())


def _in_order(e: Expr, axes: Sequence[Axis]) -> tuple[Axis, ...]:
    """The axes along which more of what is read is contiguous come later."""
    last = [r.indices[-1] for r in reads(e) if r.indices]
    return tuple(sorted(axes, key=lambda a: sum([i is a for i in last])))


def _evaluated(sources: Sequence[Expr]) -> list[Expr]:
    """Operations with a costly one inside that every point evaluates."""
    found: dict[Expr, None] = {}
    stack = list(sources)
    while stack:
        e = stack.pop()
        if e in found:
            continue
        match e:
            case Call():
                if e.dtype.is_float and any(takes_long(c) for c in _calls(e)):
                    found[e] = None
                    stack += e.args
            case Cast():
                stack.append(e.value)
            case Select():
                stack.append(e.cond)
    return list(found)


def _calls(e: Expr) -> list[Call]:
    return [c for c in postorder(e) if isinstance(c, Call) and c.dtype.is_float]


def _key(t: _Term) -> Key:
    """What tells terms apart: all but which axes they have."""
    numbering = Numbering(as_itself, named=False)
    return numbering.key(*numbering.expressions((t.value,)))


def _pays(users: Sequence[_Term], model: Model) -> bool:
    """Whether to store a term takes less time than to compute it again."""
    if len(users) < 2:
        return False
    t, size = users[0], users[0].value.dtype.size_bytes
    points = prod([a.extent or 0 for a in t.axes])
    registers = points * size / model.vector_bytes
    again = (len(users) - 1) * sum([cost_of(c).half_cycles for c in _calls(t.value)])
    moved = _REGISTER * (1 + len(users))
    return 2 * points * size <= model.l2 and registers * (again - moved) > _KERNEL


def _stored(op: Compute, t: _Term) -> Compute:
    """The term as a compute of its own."""
    axes, bodies = copy_bodies(t.axes, (t.value,))
    return Compute(f"{op.name}_term", axes, bodies, op.source)


def _reading(op: Compute, reads: Mapping[Expr, Expr]) -> Compute:
    axes, bodies = copy_bodies(op.axes, substitute_all(op.bodies, reads))
    return replace(op, axes=axes, bodies=bodies)
