"""Elements of a loop's values that are read at the counter alone: stored in place of the whole."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tensorad.autodiff.control.rows import pinned
from tensorad.ir.analysis.blocks import ops_between
from tensorad.ir.arrays.elementwise import compute_axes
from tensorad.ir.expr import (
    ZERO,
    Const,
    Expr,
    LocalSize,
    Read,
    add,
    const,
    logical_and,
    neg,
    read,
    select,
    summed,
)
from tensorad.ir.order import READ, occurs
from tensorad.ir.rebuild import map_op
from tensorad.ir.tensor import Compute, Op, Scatter, Tensor, dim_expr, outputs
from tensorad.ir.visit import (
    free_leaves,
    loop_bounds,
    op_expressions,
    op_inputs,
    reads,
    rewrite,
    substitute,
)
from tensorad.simplify.formula.dataflow import on_fresh_axes, over_inputs
from tensorad.simplify.zeros.lift import guarded, lift, summands

_MOST: Final = 4
"""A tensor is stored whole if it is read at more places than these."""
Places = dict[int, Expr]
"""Axis -> the index at which a tensor is read, of sizes alone."""


def in_parts(
    made: Sequence[Tensor], given: Collection[Tensor], stored: Sequence[Tensor], counter: LocalSize
) -> tuple[list[Tensor], dict[Tensor, list[Tensor]]]:
    """Tensors made in an iteration, reading parts of some that are stored.

    Args:
        given: all that they read of the block, behind which nothing is looked at.
    Returns:
        the tensors, and the parts by what they are parts of; the whole is not read any more.
    """
    wide = dict.fromkeys([t for t in stored if t.ndim])
    if not wide:
        return list(made), {}
    found = _rewritten(made, given, lambda op: _with_pins(op, wide, counter))
    found_at = _places(ops_between(found, given), wide)
    parts: dict[Tensor, dict[tuple[Expr, ...], Tensor]] = {
        t: {at: _part(t, dict(zip(dims, at, strict=True))) for at in places}
        for t, (dims, places) in found_at.items()
    }

    def renew(e: Expr) -> Expr | None:
        if not isinstance(e, Read) or e.tensor not in found_at:
            return None
        dims, _ = found_at[e.tensor]
        part = parts[e.tensor][tuple([e.indices[d] for d in dims])]
        return read(part, tuple([i for d, i in enumerate(e.indices) if d not in dims]))

    def over_parts(op: Op) -> Op:
        if not any(t in found_at for t in op_inputs(op)):
            return op
        return map_op(op, lambda exprs: tuple([rewrite(e, renew, kinds=READ) for e in exprs]))

    found = _rewritten(found, given, over_parts) if parts else list(made)
    return found, {t: list(own.values()) for t, own in parts.items()}


def _rewritten(
    made: Sequence[Tensor], given: Collection[Tensor], rule: Callable[[Op], Op]
) -> list[Tensor]:
    image: dict[Tensor, Tensor] = {}
    for op in ops_between(made, given):
        changed = rule(op)
        new = over_inputs(on_fresh_axes(changed) if changed is not op else op, image)
        if new is not op:
            image.update(zip(outputs(op), outputs(new), strict=True))
    return [image.get(t, t) for t in made]


def _with_pins(op: Op, wide: Mapping[Tensor, None], counter: LocalSize) -> Op:
    """A sum of terms with the values that their conditions give to axes."""
    if not isinstance(op, Compute) or len(op.bodies) > 1:
        return op
    if not any(t in wide for t in op_inputs(op)):
        return op
    terms = []
    changed = False
    for sign, e in summands(op.bodies[0]):
        condition, value = lift(e)
        pin = pinned(condition, op.axes, counter)
        new = value if pin is None else substitute(value, {op.axes[pin[0]]: add(counter, pin[1])})
        changed = changed or new is not value
        term = e if new is value else guarded(condition, new)
        terms.append(term if sign > 0 else neg(term))
    body = summed(terms)
    return replace(op, bodies=(body,)) if changed and body is not None else op


def _places(
    order: Sequence[Op], wide: Mapping[Tensor, None]
) -> dict[Tensor, tuple[list[int], dict[tuple[Expr, ...], None]]]:
    """Tensors that are read at few places of some axes: (these axes, the places)."""
    fixed: dict[Tensor, dict[int, None]] = {}
    found: dict[Tensor, list[Read]] = {}
    for op in order:
        around = reads(*op_expressions(op))
        for t in op_inputs(op):
            if t in wide:
                own = [r for r in around if r.tensor is t]
                dims = dict.fromkeys(range(t.ndim)) if _is_element_wise(op, t) else {}
                for r in own:
                    dims = {d: None for d in dims if _is_of_sizes(r.indices[d])}
                known = fixed.setdefault(t, dict.fromkeys(range(t.ndim)))
                fixed[t] = {d: None for d in known if d in dims}
                found.setdefault(t, []).extend(own)
    result = {}
    for t, dims in fixed.items():
        places = dict.fromkeys([tuple([r.indices[d] for d in dims]) for r in found[t]])
        if dims and len(places) <= _MOST:
            result[t] = (list(dims), places)
    return result


def _is_element_wise(op: Op, t: Tensor) -> bool:
    """Whether an operation reads a tensor in formulas alone."""
    if isinstance(op, Scatter) and op.init is t:
        return False
    inside = any(r.tensor is t for r in reads(*op_expressions(op)))
    return inside and not any(r.tensor is t for r in reads(*loop_bounds(op)))


def _is_of_sizes(e: Expr) -> bool:
    return not free_leaves(e) and not occurs(READ, e)


def _part(t: Tensor, at: Places) -> Tensor:
    """The elements at some indices; 0 where there are none."""
    axes = compute_axes(tuple([n for d, n in enumerate(t.shape) if d not in at]))
    others = iter(axes)
    body: Expr = read(t, tuple([at[d] if d in at else next(others) for d in range(t.ndim)]))
    bounds = [(i, dim_expr(t.shape[d])) for d, i in at.items() if not isinstance(i, Const)]
    inside = logical_and(*[c for i, n in bounds for c in (i >= ZERO, i < n)])
    body = select(inside, body, const(0, t.dtype))
    return outputs(Compute(f"{t.name}.part", axes, (body,)))[0]
