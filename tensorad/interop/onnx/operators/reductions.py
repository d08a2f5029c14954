"""Reductions along axes, positions of the largest, and sums up to each element."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from tensorad import te, topi
from tensorad.errors import OnnxError
from tensorad.interop.onnx.calls import Call, axis_of
from tensorad.interop.onnx.operators.arithmetic import quotient
from tensorad.interop.onnx.operators.folding import Handler
from tensorad.interop.onnx.values import Known, Value, as_tensor, objects
from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.dtypes import BOOL, UINT8
from tensorad.ir.tensor import Tensor, dim_expr
from tensorad.topi.transform import product

Reduced = Callable[[Tensor, tuple[int, ...], bool], Tensor]


def axes_of(call: Call) -> tuple[int, ...] | None:
    """The axes of a reduction, by an attribute or an input; None: nothing is reduced."""
    ndim = len(call.shape(0))
    given = call.whole(1) if call.has(1) else call.integers("axes")
    if not given:
        return None if call.flag("noop_with_empty_axes", False) else tuple(range(ndim))
    axes = tuple([axis_of(a, ndim) for a in given])
    if len(set(axes)) < len(axes):
        raise OnnxError(f"an axis is named twice in {axes}.")
    return axes


def _reduction(
    on_tensor: Reduced,
    on_array: Callable[..., Any] | None = None,
    alone: Callable[[Tensor], Tensor] = lambda t: t,
) -> Callable[[Call], Value]:
    """A reduction along axes.

    Args:
        on_array: of NumPy, for arrays of numbers that are known.
        alone: of every element, where nothing is reduced.
    """

    def handler(call: Call) -> Value:
        axes, keep = axes_of(call), call.flag("keepdims", True)
        value = call.value(0)
        if axes is None:
            return as_tensor(alone(call.tensor(0)))
        if isinstance(value, Known) and on_array and value.array.dtype.kind in "iu":
            made = on_array(value.array, axis=axes, keepdims=keep)
            return Known(np.asarray(made).astype(value.array.dtype))
        return on_tensor(as_tensor(value), axes, keep).astype(call.dtype(0))

    return handler


def _sum(x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
    return topi.sum(x, axes, keep, dtype=x.dtype)


def _product_of_sizes(call: Call) -> Value:
    """The product along axes; of sizes, which are known, too."""
    value = call.value(0)
    if isinstance(value, Known) and value.is_symbolic and axes_of(call) == (0,):
        made = objects([product(value.array.tolist())])
        return Known(made if call.flag("keepdims", True) else made.reshape(()))
    return _PRODUCT(call)


def _mean(x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
    if x.dtype.is_float:
        return topi.mean(x, axes, keep)
    count = product([x.shape[d] for d in axes])
    if same_dim(count, 0):
        raise OnnxError("the mean of no elements is undefined.")
    total = topi.sum(x, axes, keep, dtype="int64")
    return quotient(total, topi.full((), 1, "int64") * dim_expr(count)).astype(x.dtype)


def _extremum(of: Callable[..., Tensor]) -> Reduced:
    """max or min, of booleans too."""

    def made(x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
        if x.dtype is BOOL:
            return topi.not_equal(of(x.astype(UINT8), axes, keep), 0)
        return of(x, axes, keep)

    return made


def _log_sum(x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
    return topi.log(_sum(x, axes, keep))


def _norm1(x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
    return _sum(topi.abs(x), axes, keep)


def _norm2(x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
    return topi.sqrt(_squares(x, axes, keep))


def _squares(x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
    return _sum(topi.square(x), axes, keep)


_PRODUCT: Final = _reduction(lambda x, axes, keep: topi.prod(x, axes, keep, dtype=x.dtype), np.prod)


def arg_extremum(call: Call) -> Value:
    """Positions of the first of the largest or smallest elements along an axis, or the last."""
    x = call.tensor(0)
    axis = axis_of(call.integer("axis", 0), x.ndim)
    keep = call.flag("keepdims", True)
    of = topi.argmax if call.node.operator == "ArgMax" else topi.argmin
    if same_dim(x.shape[axis], 0):
        raise OnnxError(f"axis {axis} has no elements, so there is no position.")
    if not call.flag("select_last_index", False):
        return of(x, axis, keep)
    return topi.negative(of(topi.flip(x, axis), axis, keep)) + (dim_expr(x.shape[axis]) - 1)


def cumulative(call: Call) -> Value:
    """Sums, or products, of the elements up to each one."""
    axis = call.whole(1)
    if len(axis) != 1:
        raise OnnxError("its axis must be one integer.")
    x = call.tensor(0)
    of = topi.cumsum if call.node.operator == "CumSum" else topi.cumprod
    before, back = call.flag("exclusive", False), call.flag("reverse", False)
    return of(x, axis_of(axis[0], x.ndim), before, back, dtype=x.dtype)


def one_hot(call: Call) -> Value:
    """One value at the positions that indices tell, another elsewhere."""
    indices, values = call.tensor(0), call.tensor(2)
    depth = [int(n) for n in call.numbers(1).ravel()] if call.dtype(1).is_float else call.extents(1)
    if len(depth) != 1 or values.ndim != 1 or not same_dim(values.shape[0], 2):
        raise OnnxError("it takes one depth, and a value for off and one for on.")
    axis = axis_of(call.integer("axis", -1), indices.ndim + 1)
    n = depth[0]
    shape = (*indices.shape[:axis], n, *indices.shape[axis:])

    def body(*i: Any) -> Any:
        at = indices[(*i[:axis], *i[axis + 1 :])].astype("int64")
        place = te.select(at < 0, at + dim_expr(n), at)
        return te.select(place == i[axis], values[1], values[0])

    made: Tensor = te.compute(shape, body, name="one_hot")
    return made


HANDLERS: Final[Mapping[str, Handler]] = {
    "ReduceSum": _reduction(_sum, np.sum),
    "ReduceMean": _reduction(_mean),
    "ReduceMax": _reduction(_extremum(topi.max), np.max),
    "ReduceMin": _reduction(_extremum(topi.min), np.min),
    "ReduceProd": _product_of_sizes,
    "ReduceL1": _reduction(_norm1, alone=topi.abs),
    "ReduceL2": _reduction(_norm2, alone=topi.abs),
    "ReduceLogSum": _reduction(_log_sum, alone=topi.log),
    "ReduceLogSumExp": _reduction(topi.logsumexp),
    "ReduceSumSquare": _reduction(_squares, alone=topi.square),
    "ArgMax": arg_extremum,
    "ArgMin": arg_extremum,
    "CumSum": cumulative,
    "CumProd": cumulative,
    "OneHot": one_hot,
}
