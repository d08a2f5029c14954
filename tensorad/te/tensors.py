"""Placeholders, constants, sizes, reduce axes and computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tensorad.errors import DefinitionError, DTypeError, ShapeError, UserError
from tensorad.ir.arrays.constants import constant
from tensorad.ir.arrays.elementwise import compute_axes
from tensorad.ir.arrays.tracing import in_formula
from tensorad.ir.dtypes import BOOL, FLOAT32, INT64, DType, to_dtype
from tensorad.ir.expr import (
    Axis,
    Expr,
    Number,
    Size,
    axis,
    size_var,
)
from tensorad.ir.expr import const as number
from tensorad.ir.tensor import (
    Compute,
    Dim,
    Placeholder,
    Tensor,
    format_shape,
    outputs,
)
from tensorad.simplify.bounds.reads import check_reads
from tensorad.simplify.formula.product_order import ordered_compute
from tensorad.te.arithmetic import check_arithmetic
from tensorad.te.binding import bind_reductions, note_reduce_axis
from tensorad.te.checks import axis_names, check_name, check_range, check_shape, element
from tensorad.te.conditions import with_guards


def placeholder(
    shape: Sequence[Dim] | Dim, dtype: object = "float32", name: str = "placeholder"
) -> Tensor:
    """An input tensor.

    Args:
        shape: extents >= 0: integers, or expressions of sizes.
        dtype: float32, float64, int8 to int64, uint8 or bool.
        name: how texts and errors call it.
    """
    text = check_name(name)
    return outputs(Placeholder(text, check_shape(text, shape), to_dtype(dtype)))[0]


def size(name: str) -> Size:
    """The symbolic extent called `name` (>= 0); the same name is the same size.

    Raises:
        DefinitionError: the name cannot be a keyword argument of a call.
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise DefinitionError(
            f"a size needs an identifier as its name, got {name!r}.",
            hint='calls take sizes as keywords, f(x, n=8): write size("n").',
        )
    return size_var(name)


def const(value: object, dtype: object = None) -> Any:
    """A number as an expression (float32 unless told), an array as a constant tensor.

    Args:
        value: a number, or an array (copied) of a supported dtype; nested lists of numbers are
            taken as arrays of float32 or int64.
    Raises:
        DTypeError: the dtype is unsupported, or the value does not fit into it.
    """
    wanted = None if dtype is None else to_dtype(dtype)
    if isinstance(value, (np.ndarray, list, tuple)):
        return _constant_tensor(value, wanted)
    if wanted is None:
        wanted = FLOAT32
        if isinstance(value, np.generic):
            wanted = to_dtype(value.dtype)
        elif isinstance(value, bool):
            wanted = BOOL
    return number(_fitting(value, wanted), wanted)


def _fitting(value: object, dtype: DType) -> Number:
    """A number that `dtype` holds; floats are rounded to it.

    Raises:
        DTypeError: a fraction, a sign or size is lost, or it is no number.
    """
    if not isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating)):
        raise DTypeError(
            f"const: {type(value).__name__} is neither a number nor an array.",
            hint="give a Python number, a NumPy array or nested lists of numbers.",
        )
    whole = not isinstance(value, (float, np.floating)) or value.is_integer()
    if dtype.is_float:
        return float(value)
    if dtype is BOOL and isinstance(value, (bool, np.bool_)):
        return bool(value)
    if whole and dtype is not BOOL and dtype.lowest <= value <= dtype.highest:
        return int(value)
    raise DTypeError(
        f"const: {value!r} does not fit into {dtype}.", hint="choose a wider or a float dtype."
    )


def _constant_tensor(value: object, wanted: DType | None) -> Tensor:
    try:
        array = np.asarray(value)
    except UserError:  # of an expression or a tensor in a list
        raise
    except ValueError:  # NumPy's own text speaks of "an inhomogeneous shape"
        raise ShapeError(
            "const: the nested lists do not form an array.",
            hint="give every row the same length.",
        ) from None
    if not isinstance(value, np.ndarray) and wanted is None:
        wanted = {"f": FLOAT32, "i": INT64}.get(array.dtype.kind)
    return constant(array, wanted)


def reduce_axis(
    bounds: Dim | tuple[Dim | Expr, Dim | Expr] | Sequence[Dim | Expr], name: str = "k"
) -> Axis:
    """An axis to reduce over: `n` for [0, n), or `(lo, hi)` for [lo, hi).

    Bounds may use sizes and, inside a body, its axes.

    Raises:
        DefinitionError: a bound is no integer, or hi < lo.
    """
    text = check_name(name)
    lower, upper = check_range(f"reduce_axis {text}", bounds)
    return note_reduce_axis(axis(text, lower, upper))


def compute(
    shape: Sequence[Dim] | Dim,
    fcompute: Callable[..., Any],
    name: str = "compute",
    *,
    optimize: bool = True,
) -> Any:
    """out[i, j, ...] = fcompute(i, j, ...).

    A sum over a product of factors is evaluated in the order that takes the fewest iterations,
    over stages of its own where they are fewer than those of the loops as written; so are a
    maximum or minimum over a sum, and one over the other.

    Args:
        shape: extents >= 0: integers, or expressions of sizes.
        fcompute: called once with one axis per extent; its parameters name the axes. It returns
            an expression, a number, a 0-d tensor, or a tuple of them.
        name: how texts and errors call the tensor.
        optimize: False to evaluate sums of products as they are written.
    Returns:
        the tensor; for a tuple, a tuple of tensors of one operation.
    Raises:
        BoundsError: a read leaves its tensor.
        DefinitionError: the body is no formula of its axes, or needs whole numbers beyond int64.
    """
    text = check_name(name)
    full = check_shape(text, shape)
    where = f"{text} with shape {format_shape(full)}"
    axes = compute_axes(full, axis_names(f"the body of {text}", fcompute, len(full), where))
    with in_formula():
        result = fcompute(*axes)
    many = isinstance(result, tuple)
    bodies = with_guards(axes, bind_reductions(text, axes, _bodies(text, result)))
    check_arithmetic(text, bodies)
    check_reads(text, axes, bodies)
    if optimize and not many:
        return outputs(ordered_compute(text, axes, bodies[0]))[0]
    made = outputs(Compute(text, axes, bodies))
    return made if many else made[0]


def _bodies(name: str, result: object) -> tuple[Expr, ...]:
    if not isinstance(result, tuple):
        return (element(f"the body of {name}", result),)
    if not result:
        raise DefinitionError(
            f"the body of {name} is an empty tuple.", hint="return at least one expression."
        )
    return tuple([element(f"part {n} of the body of {name}", e) for n, e in enumerate(result)])
