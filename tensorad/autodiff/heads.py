"""Heads: what the derivatives of the outputs are multiplied by, as adjoints to start from."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tensorad.autodiff.adjoints.adjoint import Adjoint, whole
from tensorad.autodiff.adjoints.inlining import is_delta
from tensorad.autodiff.checks import as_direction, leading_axes
from tensorad.errors import DTypeError, GradError
from tensorad.ir.arrays.elementwise import compute_axes
from tensorad.ir.expr import Axis, Const, Expr, cast, const, logical_and, read, select
from tensorad.ir.records import is_record
from tensorad.ir.tensor import Compute, Constant, Shape, Tensor, format_shape
from tensorad.ir.visit import substitute

Head = Tensor | np.ndarray | np.number | float | int | None
"""A tensor or array of shape (*batch, *y.shape), a number for every element, or nothing."""
Heads = Head | Sequence[Head]


def pair_heads(y: Tensor | Sequence[Tensor], head: Heads) -> list[tuple[Tensor, Head]]:
    """Every output with its head.

    Raises:
        GradError: several outputs and another number of heads, or none.
    """
    if isinstance(y, Tensor):
        return [(y, head)]  # type: ignore[list-item]  # a list is refused with its class
    ys = list(y)
    if head is None:
        heads: list[Head] = [None] * len(ys)
    elif isinstance(head, (int, float, np.number)):
        heads = [head] * len(ys)
    elif isinstance(head, (list, tuple)) and len(head) == len(ys):
        heads = list(head)
    else:
        given = f"{len(head)}" if isinstance(head, (list, tuple)) else type(head).__name__
        raise GradError(
            f"{len(ys)} outputs need {len(ys)} heads, got {given}.",
            where=f"outputs {', '.join([t.name for t in ys])}",
            hint="pass a list with one head per output; None stands for 1 at a 0-d output.",
        )
    pairs = list(zip(ys, heads, strict=True))
    floats = [(t, h) for t, h in pairs if t.dtype.is_differentiable or h is not None]
    for t, h in floats:
        if not t.dtype.is_differentiable and not isinstance(head, (int, float, np.number)):
            raise DTypeError(
                f"{t.name} has dtype {t.dtype}: integers and booleans have no derivative.",
                hint="leave its head None, or convert it with .astype('float32').",
            )
        if h is None and t.shape and len(pairs) > 1:
            raise GradError(
                f"{t.name} of shape {format_shape(t.shape)} has no head.",
                where=f"outputs {', '.join([u.name for u in ys])}",
                hint="give every output a head; for full Jacobians take one output at a time.",
            )
    return [(t, h) for t, h in floats if t.dtype.is_differentiable]


def seeds(pairs: Sequence[tuple[Tensor, Head]]) -> tuple[dict[Tensor, Adjoint], Shape]:
    """The adjoint that each output starts from, and the leading batch axes they share.

    Raises:
        GradError: a head is of another kind.
        ShapeError: a head does not end in its output's shape, or their batch axes differ.
    """
    if len(pairs) == 1 and pairs[0][1] is None and pairs[0][0].shape:
        y = pairs[0][0]
        return {y: _identity(y)}, y.shape
    given = [(y, _as_tensor(y, h)) for y, h in pairs]
    batch = leading_axes("head", given)
    return {y: _seed(y, h, batch) for y, h in given}, batch


def _as_tensor(y: Tensor, head: Head) -> Tensor | float:
    number = 1.0 if head is None else head
    return as_direction("the head", "head", "H", y, number, "a head has the output's shape")


def _seed(y: Tensor, head: Tensor | float, batch: Shape) -> Adjoint:
    if isinstance(head, Tensor) and is_record(y.dtype):
        return whole(head)
    axes = compute_axes((*batch, *y.shape))
    if isinstance(head, Tensor):
        return Adjoint(axes, cast(_element(head, axes, len(batch)), y.dtype))
    return Adjoint(axes, const(head, y.dtype))


def _element(head: Tensor, axes: tuple[Axis, ...], n_batch: int) -> Expr:
    """head[axes]; one number everywhere, or an identity, is written as its formula."""
    if isinstance(head.op, Compute):
        body = head.op.bodies[head.index]
        if isinstance(body, Const) or is_delta(body):
            return substitute(body, dict(zip(head.op.axes, axes, strict=True)))
    elif isinstance(head.op, Constant) and head.op.array.size:
        first = head.op.array.flat[0]
        if np.array_equal(head.op.array, np.broadcast_to(first, head.op.array.shape)):
            return const(float(first), head.dtype)
        if _is_multiple_of_identity(head.op.array, n_batch):
            return _diagonal(axes, n_batch, const(float(first), head.dtype))
    return read(head, axes)


def _is_multiple_of_identity(array: np.ndarray, n_batch: int) -> bool:
    """Whether the array is a number times the identity of its first `n_batch` axes."""
    if array.shape[:n_batch] != array.shape[n_batch:]:
        return False
    matrix = array.reshape(math.isqrt(array.size), -1)
    diagonal = matrix.diagonal()
    return bool(
        np.all(diagonal == diagonal[0]) and np.count_nonzero(array) == np.count_nonzero(diagonal)
    )


def _identity(y: Tensor) -> Adjoint:
    axes = compute_axes((*y.shape, *y.shape))
    return Adjoint(axes, _diagonal(axes, y.ndim, const(1, y.dtype)))


def _diagonal(axes: tuple[Axis, ...], n_batch: int, value: Const) -> Expr:
    """The value where the first `n_batch` axes equal the others, otherwise 0."""
    same = logical_and(*[b == o for b, o in zip(axes[:n_batch], axes[n_batch:], strict=True)])
    return select(same, value, const(0, value.dtype))
