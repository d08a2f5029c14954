"""Scatter and scan: accumulation at computed indices, and prefix folds along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tensorad.errors import DefinitionError, DTypeError, ShapeError
from tensorad.ir.arrays.constants import constant
from tensorad.ir.arrays.elementwise import astype, compute_axes, same_dim
from tensorad.ir.arrays.indexing import read_at
from tensorad.ir.arrays.prefix import prefix_scan
from tensorad.ir.arrays.scan_outputs import scan_results
from tensorad.ir.arrays.tracing import in_formula
from tensorad.ir.dtypes import INT64, DType
from tensorad.ir.expr import Axis, Const, Expr, axis, cast
from tensorad.ir.tensor import (
    Compute,
    Dim,
    Placeholder,
    Scatter,
    Shape,
    Tensor,
    Update,
    format_shape,
    outputs,
)
from tensorad.simplify.bounds.reads import check_op
from tensorad.te.arithmetic import check_arithmetic
from tensorad.te.binding import bind_reductions
from tensorad.te.checks import (
    axis_names,
    check_name,
    check_range,
    check_shape,
    check_size_expr,
    element,
)
from tensorad.te.conditions import with_guards
from tensorad.te.reducers import combiner_of, counts


def scatter(
    shape: Sequence[Dim] | Dim,
    domain: Sequence[Dim | tuple[Dim, Dim]] | Dim,
    f: Callable[..., Any],
    combine: object = "sum",
    init: Tensor | np.ndarray | float | None = None,
    name: str = "scatter",
) -> Tensor:
    """Start from `init`; at each point of the domain, in order, combine a value into an element.

    Args:
        shape: of the result.
        domain: extents n for [0, n), or pairs (lo, hi), of the loops.
        f: one axis per extent of the domain -> (indices, value); one index for a 1-d result.
        combine: "sum", "prod", "max", "min" or a reducer of comm_reducer.
        init: a tensor of this shape and the value's dtype, an array of this shape or a number
            that this dtype holds (floats are rounded), or None: the identity.
        name: how texts and errors call the tensor.
    Raises:
        BoundsError: an index leaves the shape; computed from data it is checked at the call.
        DefinitionError: an index needs whole numbers beyond int64.
    """
    text = check_name(name)
    full = check_shape(text, shape)
    axes = _domain_axes(text, domain, f)
    with in_formula():
        result = f(*axes)
    given, value = _target_and_value(text, result)
    if counts(combine, value.dtype):
        value = cast(value, INT64)
    combiner = combiner_of(text, combine, (value.dtype,), False)
    target = outputs(Placeholder(text, full, value.dtype))[0]
    bound = bind_reductions(text, axes, (*read_at(target, given).indices, value))
    *indices, value = with_guards(axes, bound)
    start = _init(text, init, target)
    update = Update(tuple(indices), value)
    op = Scatter(text, full, value.dtype, axes, (update,), combiner, start)
    check_arithmetic(text, (*indices, value), indices)
    check_op(op)
    return outputs(op)[0]


def _domain_axes(
    name: str, domain: Sequence[Dim | tuple[Dim, Dim]] | Dim, f: object
) -> tuple[Axis, ...]:
    if isinstance(domain, (int, np.integer, Expr)):
        domain = (domain,)
    if not isinstance(domain, (tuple, list)):
        raise DefinitionError(
            f"the domain of {name} must be a tuple of extents, got {domain!r}.",
            hint="write (n,), (n, m) or pairs ((lo, hi), m).",
        )
    ranges = [_range(f"axis {d} of the domain of {name}", r) for d, r in enumerate(domain)]
    where = f"{name} with domain {domain}"
    names = axis_names(f"the function of {name}", f, len(ranges), where)
    return tuple([axis(a, lo, hi) for a, (lo, hi) in zip(names, ranges, strict=True)])


def _range(what: str, bounds: object) -> tuple[int | Expr, int | Expr]:
    """A range whose bounds are numbers or sizes: the loops of a domain know no other axes."""
    lower, upper = check_range(what, bounds)
    for bound in (lower, upper):
        if isinstance(bound, Expr):
            check_size_expr(f"a bound of {what}", bound)
    return lower, upper


def _target_and_value(name: str, result: object) -> tuple[tuple[object, ...], Expr]:
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise DefinitionError(
            f"the function of {name} must return (indices, value).",
            hint="e.g. lambda i: (T[i], X[i]), or lambda i, j: ((i, T[j]), X[i, j]).",
        )
    target, value = result
    indices = tuple(target) if isinstance(target, (tuple, list)) else (target,)
    return indices, element(f"the value of {name}", value)


def _init(name: str, init: object, target: Tensor) -> Tensor | None:
    if init is None:
        return None
    called = init.name if isinstance(init, Tensor) else None
    if isinstance(init, np.ndarray) and init.ndim:
        init = constant(init, target.dtype, f"init of {name}")
    if not isinstance(init, Tensor):
        start = element(f"init of {name}", init, target.dtype)
        whole = isinstance(start, Const) and float(start.value).is_integer()
        if start.dtype.is_float and not target.dtype.is_float and not whole:
            raise _init_dtype(name, start.dtype, target, str(start), "use a whole number.")
        if isinstance(start, Const) and start.dtype.is_float and target.dtype.is_integer:
            start = element(f"init of {name}", int(start.value), target.dtype)  # if it fits
        start = cast(start, target.dtype)
        return outputs(Compute(f"{name}.init", compute_axes(target.shape), (start,)))[0]
    if not _same_shape(init.shape, target.shape):
        raise ShapeError(
            f"init of {name} has shape {format_shape(init.shape)}, the result has "
            f"{format_shape(target.shape)}.",
            where=called,
            hint="start from a tensor of the result's shape, a number, or None.",
        )
    if init.dtype is not target.dtype:
        hint = f"convert it: {called}.astype({str(target.dtype)!r})."
        raise _init_dtype(name, init.dtype, target, called, hint)
    return init


def _init_dtype(
    name: str, dtype: DType, target: Tensor, where: str | None, hint: str
) -> DTypeError:
    what = f"init of {name} has dtype {dtype}, the values have {target.dtype}."
    return DTypeError(what, where=where, hint=hint)


def _same_shape(a: Shape, b: Shape) -> bool:
    return len(a) == len(b) and all(same_dim(m, n) for m, n in zip(a, b, strict=True))


def scan(
    source: Tensor | Sequence[Tensor],
    axis: int,
    combiner: object = "sum",
    exclusive: bool = False,
    reverse: bool = False,
    name: str = "scan",
) -> Any:
    """out[..., i, ...] = the fold of the elements 0..i of the source along an axis.

    Args:
        source: a tensor, or a tuple of tensors of one shape (tuple state, tuple result).
        axis: a number; negative ones count from the end.
        combiner: "sum", "prod", "max", "min" or a reducer of comm_reducer.
        exclusive: fold 0..i-1 instead.
        reverse: fold from the end.
        name: how texts and errors call the tensor.
    """
    text = check_name(name)
    many = isinstance(source, (tuple, list))
    sources = tuple(source) if isinstance(source, (tuple, list)) else (source,)
    along = _check_sources(text, sources, axis)
    if not many and counts(combiner, sources[0].dtype):
        sources = (astype(sources[0], INT64),)
    dtypes = tuple([t.dtype for t in sources])
    fold = combiner_of(text, combiner, dtypes, many)
    made = scan_results(prefix_scan(text, sources, along, fold, bool(exclusive), bool(reverse)))
    return made if many else made[0]


def _check_sources(name: str, sources: tuple[Tensor, ...], axis: object) -> int:
    for t in sources:
        if not isinstance(t, Tensor):
            raise DefinitionError(
                f"the source of {name} must be a tensor, got {type(t).__name__}.",
                hint="wrap an array with ta.const(array); define formulas with compute first.",
            )
    if not sources or not sources[0].ndim:
        raise ShapeError(
            f"{name} needs a source with at least one axis.",
            hint="a 0-d tensor has nothing to fold along.",
        )
    for t in sources[1:]:
        if not _same_shape(t.shape, sources[0].shape):
            raise ShapeError(
                f"the sources of {name} have different shapes "
                f"{format_shape(sources[0].shape)} and {format_shape(t.shape)}.",
                where=f"{sources[0].name} and {t.name}",
                hint="the components of the state run together; broadcast one first.",
            )
    ndim = sources[0].ndim
    if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)):
        raise DefinitionError(
            f"{name} runs along a numbered axis, got {axis!r}.",
            hint="e.g. axis=0 or axis=-1.",
        )
    if not -ndim <= axis < ndim:
        raise DefinitionError(
            f"axis {axis} of {name} is out of range for {ndim} axes.",
            where=f"{sources[0].name} with shape {format_shape(sources[0].shape)}",
            hint=f"use an axis from {-ndim} to {ndim - 1}.",
        )
    return int(axis) % ndim
