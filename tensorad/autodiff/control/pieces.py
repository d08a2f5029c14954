"""Small tensors that derived blocks are made of: heads, zeros, rows with other axes first."""

from __future__ import annotations

from tensorad.autodiff.adjoints.adjoint import Adjoint, whole
from tensorad.autodiff.local.records import nothing, tangent_dtype
from tensorad.ir.arrays.elementwise import compute_axes, same_dim
from tensorad.ir.dtypes import INT64, DType
from tensorad.ir.expr import FALSE, Expr, cast, const, logical_and, read, select
from tensorad.ir.order import REDUCE
from tensorad.ir.records import is_record
from tensorad.ir.tensor import Compute, Dim, Placeholder, Shape, Tensor, dim_expr, outputs


def like(t: Tensor, batch: Shape) -> Tensor:
    """A placeholder for a derivative of t."""
    dtype = tangent_dtype(t.dtype)
    return outputs(Placeholder(f"d{t.name}", (*batch, *t.shape), dtype))[0]


def unread(operand: Tensor) -> Tensor:
    """A param for an operand that other blocks read."""
    return outputs(Placeholder(operand.name, operand.shape, operand.dtype))[0]


def zeros_like(t: Tensor, batch: Shape) -> Tensor:
    """A derivative of t that is 0."""
    return nothing(f"d{t.name}", (*batch, *t.shape), t.dtype)


def with_dtype(t: Tensor, dtype: DType) -> Tensor:
    """The elements converted, if they are of another dtype than derivatives by `dtype` have."""
    if t.dtype is dtype or t.dtype is tangent_dtype(dtype):
        return t
    axes = compute_axes(t.shape)
    return outputs(Compute(t.name, axes, (cast(read(t, axes), dtype),)))[0]


def rows_first(t: Tensor, batch: Shape) -> Tensor:
    """(*batch, rows, ...) -> (rows, *batch, ...)"""
    if not batch:
        return t
    n = len(batch)
    axes = compute_axes((t.shape[n], *t.shape[:n], *t.shape[n + 1 :]))
    body = read(t, (*axes[1 : n + 1], axes[0], *axes[n + 1 :]))
    return outputs(Compute(t.name, axes, (body,)))[0]


def batch_first(t: Tensor, batch: Shape, rows: Dim) -> Tensor:
    """(trips, *batch, ...) -> (*batch, rows, ...), 0 in rows beyond the trips."""
    n = len(batch)
    trips = t.shape[0]
    if not batch and same_dim(trips, rows):
        return t
    axes = compute_axes((*batch, rows, *t.shape[n + 1 :]))
    body: Expr = read(t, (axes[n], *axes[:n], *axes[n + 1 :]))
    if not same_dim(trips, rows):
        inside = logical_and(axes[n] < dim_expr(trips))
        body = select(inside, body, _element_of_none(t.dtype))
    return outputs(Compute(t.name, axes, (body,)))[0]


def _element_of_none(dtype: DType) -> Expr:
    """An element where no iteration was: no derivative, no switch that is on."""
    if is_record(dtype):
        return read(nothing("none", (), dtype), ())
    return const(0, dtype) if dtype.is_float else FALSE


def opened(t: Tensor) -> Adjoint:
    """What an operation sends back, put together by a formula: this formula."""
    op = t.op
    if not isinstance(op, Compute) or any(e.kinds & REDUCE for e in op.bodies):
        return whole(t)
    return Adjoint(op.axes, op.bodies[t.index])


def empty_carry() -> tuple[Tensor, Tensor]:
    """A carry of a loop that needs none."""
    zero = outputs(Compute("nothing", (), (const(0, INT64),)))[0]
    return unread(zero), zero
