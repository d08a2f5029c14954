"""The user's language: placeholders, computes, reduce axes and reducers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from tensorad.errors import DefinitionError
from tensorad.ir.combiner import (
    Combiner,
    arg_combiner,
    make_combiner,
    max_combiner,
    min_combiner,
    prod_combiner,
    row_major_position,
    sum_combiner,
)
from tensorad.ir.dtypes import BOOL, INT64, DType, to_dtype
from tensorad.ir.elementwise import compute_axes
from tensorad.ir.expr import TRUE, Axis, Expr, Size, as_expr, axis, reduce_expr, size_var, sub
from tensorad.ir.expr import cast as cast_expr
from tensorad.ir.tensor import Compute, Dim, Placeholder, Shape, Tensor, outputs


def placeholder(shape: Sequence[Dim], dtype: object = "float32", name: str = "placeholder") -> Tensor:
    """An input tensor."""
    return outputs(Placeholder(name, tuple(shape), to_dtype(dtype)))[0]


def size(name: str) -> Size:
    """The symbolic size called `name`."""
    return size_var(name)


def reduce_axis(bounds: Dim | tuple[Dim, Dim], name: str = "k") -> Axis:
    """An axis to reduce over: [0, n) or [lo, hi)."""
    lower, upper = bounds if isinstance(bounds, tuple) else (0, bounds)
    return axis(name, lower, upper)


def compute(shape: Sequence[Dim], body: Callable[..., Any], name: str = "compute") -> Any:
    """out[i, j, ...] = body(i, j, ...)."""
    full: Shape = tuple(shape)
    names = tuple(inspect.signature(body).parameters)
    axes = compute_axes(full, names if len(names) == len(full) else None)
    result = body(*axes)
    bodies = tuple(as_expr(b) for b in result) if isinstance(result, tuple) else (as_expr(result),)
    made = outputs(Compute(name, axes, bodies))
    return made if isinstance(result, tuple) else made[0]


def comm_reducer(
    fcombine: Callable[..., Any],
    fidentity: Callable[..., Any],
    name: str = "reducer",
    associative: bool = False,
) -> Callable[..., Any]:
    """A reducer from a combine function and an identity function of the dtypes."""

    def reduce_with(expr: Any, axis: Any, where: Any = None) -> Any:
        many = isinstance(expr, tuple)
        sources = tuple(as_expr(e) for e in (expr if many else (expr,)))
        identity = fidentity(*[s.dtype for s in sources])
        constants = tuple(
            as_expr(c, s.dtype)
            for c, s in zip(identity if many else (identity,), sources, strict=True)
        )

        def combine(x: tuple[Expr, ...], y: tuple[Expr, ...]) -> tuple[Expr, ...]:
            if many:
                return tuple(fcombine(x, y))
            return (fcombine(x[0], y[0]),)

        combiner = make_combiner(name, combine, constants, associative=associative)  # type: ignore[arg-type]
        parts = _fold(combiner, sources, axis, where)
        return parts if many else parts[0]

    return reduce_with


def _fold(combiner: Combiner, sources: tuple[Expr, ...], axes: Any, where: Any) -> tuple[Expr, ...]:
    axes = (axes,) if isinstance(axes, Axis) else tuple(axes)
    condition = TRUE if where is None else as_expr(where, BOOL)
    return tuple(
        reduce_expr(combiner, sources, axes, condition, n) for n in range(combiner.arity)
    )


def _builtin(make: Callable[[DType], Combiner]) -> Callable[..., Expr]:
    def reducer(expr: Any, axis: Any, where: Any = None) -> Expr:
        source = as_expr(expr)
        if source.dtype is BOOL:
            source = cast_expr(source, INT64)
        return _fold(make(source.dtype), (source,), axis, where)[0]

    return reducer


sum = _builtin(sum_combiner)
prod = _builtin(prod_combiner)
max = _builtin(max_combiner)
min = _builtin(min_combiner)


def argmax(expr: Any, axis: Any, where: Any = None) -> Expr:
    """Row-major position of the first maximum."""
    source = as_expr(expr)
    axes = (axis,) if isinstance(axis, Axis) else tuple(axis)
    position = row_major_position(
        tuple(sub(a, a.lower) for a in axes), tuple(sub(a.upper, a.lower) for a in axes)
    )
    return _fold(arg_combiner("maximum", source.dtype), (source, position), axes, where)[1]


__all__ = ["DefinitionError"]
