"""Jacobians through records and functions that call themselves: one direction, for many rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Final

from tensorad.autodiff.control.activity import active_tensors, flowing
from tensorad.autodiff.forward import jvp
from tensorad.autodiff.local.flows import derivation_order
from tensorad.autodiff.local.overrides import Override, check_override
from tensorad.autodiff.reverse import vjp
from tensorad.errors import GradError
from tensorad.ir.analysis.blocks import inner_ops
from tensorad.ir.arrays.elementwise import compute_axes
from tensorad.ir.expr import Expr, const, int_const, read, select
from tensorad.ir.hooks import Hook
from tensorad.ir.records import Recursion, is_record
from tensorad.ir.tensor import (
    Compute,
    Control,
    FunctionCall,
    Op,
    Placeholder,
    Shape,
    Tensor,
    dim_expr,
    dim_of,
    outputs,
)
from tensorad.ir.visit import op_inputs

for_rows: Final[Hook[[Sequence[Tensor], Mapping[Tensor, Tensor]], list[tuple[Tensor, bool]]]] = (
    Hook("tensorad.batching.tensors")
)
"""See there."""


def goes_one_by_one(y: Tensor, x: Tensor, override: Override | None) -> bool:
    """Whether derivatives of y by x go through what takes one direction at a time, or are by it."""
    if is_record(x.dtype):
        return True
    rules = check_override(override)
    order = derivation_order([y], rules)
    if not any(isinstance(op, Control) for op in order):
        return False
    active = active_tensors(order, [x], rules, flowing)
    moving = [op for op in order if any(t in active for t in outputs(op))]
    return any(map(_has_records, [*moving, y.op]))


def _has_records(op: Op) -> bool:
    if not isinstance(op, Control) or (isinstance(op, FunctionCall) and op.rule):
        return False
    return any(
        isinstance(o, Recursion) or any(is_record(t.dtype) for t in (*outputs(o), *op_inputs(o)))
        for o in (op, *inner_ops([op]))
    )


def jacobian_by_rows(y: Tensor, x: Tensor, mode: str | None, override: Override | None) -> Tensor:
    """d y[i...] / d x[j...], each row of it, or each column, as a derivative by itself.

    Args:
        mode: None: the one with fewer directions; reverse where that is not known.
    Raises:
        GradError: in forward mode, x is a value of a data type.
    """
    if is_record(x.dtype):
        if mode == "forward":
            raise GradError(
                f"forward mode has no direction for each float of {x.name}, a value of the data "
                f"type {x.dtype}: data say how many it has.",
                where=x.described,
                hint='use mode="reverse", or jvp with one direction.',
            )
        mode = "reverse"
    if mode is None:
        mode = "forward" if _has_fewer(x.shape, y.shape) else "reverse"
    if mode == "reverse":
        if not y.shape:
            return vjp(y, [x], override=override)[0]
        return _for_all(y, lambda h: vjp(y, [x], h, override=override)[0])
    if not x.shape:
        return jvp(y, {x: 1.0}, override=override)
    columns = _for_all(x, lambda d: jvp(y, {x: d}, override=override))
    axes = compute_axes((*y.shape, *x.shape))
    body = read(columns, (*axes[y.ndim :], *axes[: y.ndim]))
    return outputs(Compute(f"d{x.name}", axes, (body,)))[0]


def _has_fewer(a: Shape, b: Shape) -> bool:
    known = all(isinstance(n, int) for n in (*a, *b))
    return known and prod(map(int, a)) < prod(map(int, b))


def _for_all(t: Tensor, derived: Callable[[Tensor], Tensor]) -> Tensor:
    """What is derived of a direction like a tensor, for each of its elements: their axes first."""
    direction = outputs(Placeholder(f"d{t.name}", t.shape, t.dtype))[0]
    one = derived(direction)
    total: Expr = int_const(1)
    for n in t.shape:
        total = total * dim_expr(n)
    axes = compute_axes((dim_of(total), *t.shape))
    unit = select(axes[0] == _place(t.shape, axes[1:]), const(1, t.dtype), const(0, t.dtype))
    rows = outputs(Compute(direction.name, axes, (unit,)))[0]
    ((made, differs),) = for_rows.call([one], {direction: rows})
    axes = compute_axes((*t.shape, *one.shape))
    own, rest = axes[: t.ndim], axes[t.ndim :]
    body = read(made, (_place(t.shape, own), *rest) if differs else rest)
    return outputs(Compute(one.name, axes, (body,)))[0]


def _place(shape: Shape, at: Sequence[Expr]) -> Expr:
    """Which element it is, in the order of rows."""
    place: Expr = int_const(0)
    for n, i in zip(shape, at, strict=True):
        place = place * dim_expr(n) + i
    return place
