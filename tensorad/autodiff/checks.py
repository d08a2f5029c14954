"""What derivatives ask of their arguments, in the user's names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tensorad.autodiff.local.records import tangent_dtype
from tensorad.errors import DTypeError, GradError, ShapeError
from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.dtypes import to_dtype
from tensorad.ir.records import is_record
from tensorad.ir.tensor import Constant, Shape, Tensor, format_shape, outputs


def check_output(y: object) -> None:
    """y is a float tensor."""
    if not isinstance(y, Tensor):
        raise GradError(
            f"only a tensor can be differentiated, got {type(y).__name__}.",
            hint="pass the tensor that compute returned, or a list of tensors.",
        )
    if is_record(y.dtype):
        raise DTypeError(
            f"{y.name} is of the data type {y.dtype}: there are no arrays of its derivatives.",
            hint="use vjp with a head, or jvp; or differentiate what is computed of its fields.",
        )
    if not y.dtype.is_float:
        raise DTypeError(
            f"{y.name} has dtype {y.dtype}: integers and booleans have no derivative.",
            hint="convert with .astype('float32') before differentiating.",
        )


def check_outputs(y: object) -> Tensor | list[Tensor]:
    """A float tensor or a value of a data type with floats, or several distinct tensors with one
    among them."""
    if isinstance(y, Tensor) and y.dtype.is_differentiable:
        return y
    if not isinstance(y, (list, tuple)):
        check_output(y)
        return y  # type: ignore[return-value]  # checked
    for t in y:
        if not isinstance(t, Tensor):
            raise GradError(
                f"only tensors can be differentiated, got {type(t).__name__}.",
                hint="pass the tensors that compute returned.",
            )
    if not any(t.dtype.is_differentiable for t in y):
        raise GradError(
            "there is no float tensor among the outputs.",
            hint="integers and booleans have no derivative.",
        )
    names: dict[Tensor, None] = {}
    for t in y:
        if t in names:
            raise GradError(f"{t.name} stands twice in the outputs.", hint="name each once.")
        names[t] = None
    return list(y)


def check_depends(ys: Sequence[Tensor], x: Tensor) -> None:
    """There are no outputs, since these do not depend on a tensor.

    Raises:
        GradError: there are some.
    """
    if ys:
        names = " and ".join([y.name for y in ys])
        raise GradError(
            f"{names} {'does' if len(ys) == 1 else 'do'} not depend on {x.name}.",
            hint="remove it from wrt, or leave out strict=True to get zeros.",
        )


def check_wrt(wrt: object) -> list[Tensor]:
    """Distinct float tensors, at least one."""
    if isinstance(wrt, Tensor) or not isinstance(wrt, Iterable):
        wrt = [wrt]
    tensors: dict[Tensor, None] = {}
    for x in wrt:
        if not isinstance(x, Tensor):
            raise GradError(
                f"cannot differentiate by a {type(x).__name__}; wrt holds tensors.",
                hint="pass the placeholders or intermediate tensors themselves.",
            )
        if not x.dtype.is_differentiable:
            raise DTypeError(
                f"cannot differentiate by {x.name} of dtype {x.dtype}: "
                "integers and booleans have no derivative.",
                hint="leave it out of wrt.",
            )
        if x in tensors:
            raise GradError(f"{x.name} stands twice in wrt.", hint="name each tensor once.")
        tensors[x] = None
    if not tensors:
        raise GradError("wrt is empty.", hint="name at least one tensor to differentiate by.")
    return list(tensors)


def as_direction(
    what: str, name: str, example: str, t: Tensor, value: object, rule: str
) -> Tensor | float:
    """A head or a tangent of t: a number for every element, or a float tensor whose last axes are
    those of t; an array is a constant.

    Args:
        what: how errors call it.
        name: of the constant.
        example: how errors name a tensor in its place.
        rule: what errors say of its shape.
    Raises:
        GradError, ShapeError, DTypeError: anything else.
    """
    if is_record(t.dtype):
        return _record_direction(what, t, value)
    if isinstance(value, (int, float, np.number)):
        return float(value)
    if isinstance(value, np.ndarray):
        array = np.array(value, dtype=t.dtype if value.dtype.kind in "biu" else None)
        value = outputs(Constant(name, array, to_dtype(array.dtype)))[0]
    if not isinstance(value, Tensor):
        raise GradError(
            f"{what} must be a tensor, an array or a number, got {type(value).__name__}.",
            hint=f"use placeholder({format_shape(t.shape)}, name={example!r}).",
        )
    last = value.shape[value.ndim - t.ndim :] if value.ndim >= t.ndim else ()
    if value.ndim < t.ndim or not all(map(same_dim, last, t.shape)):
        raise ShapeError(
            f"{what} has shape {format_shape(value.shape)}, but {t.name} has shape "
            f"{format_shape(t.shape)}.",
            hint=f"{rule}, after any extra leading axes.",
        )
    if not value.dtype.is_float:
        raise DTypeError(
            f"{what} has dtype {value.dtype}; it must be a float.",
            hint="use placeholder(shape, dtype='float32').",
        )
    return value


def _record_direction(what: str, t: Tensor, value: object) -> Tensor:
    wanted = tangent_dtype(t.dtype)
    shape = value.shape if isinstance(value, Tensor) else None
    fits = shape is not None and len(shape) == t.ndim and all(map(same_dim, shape, t.shape))
    if not isinstance(value, Tensor) or value.dtype is not wanted or not fits:
        kind = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise DTypeError(
            f"{what} is of {kind}, but derivatives by {t.name} : {t.dtype} are of {wanted}.",
            hint=f"use a tensor of {wanted}.",
        )
    return value


def leading_axes(kind: str, given: Sequence[tuple[Tensor, Tensor | float]]) -> Shape:
    """The extra leading axes that the heads (or tangents) of several tensors share.

    Args:
        kind: "head" or "tangent".
        given: each tensor with its head; numbers have no axes of their own.
    Raises:
        ShapeError: they differ.
    """
    lead = [(t, h) for t, h in given if isinstance(h, Tensor)]
    batch: Shape = ()
    for n, (t, h) in enumerate(lead):
        own = h.shape[: h.ndim - t.ndim]
        if n and not (len(own) == len(batch) and all(map(same_dim, own, batch))):
            raise ShapeError(
                f"the {kind}s of {lead[0][0].name} and {t.name} have different leading axes "
                f"{format_shape(batch)} and {format_shape(own)}.",
                hint=f"all {kind}s of one call share their extra leading axes.",
            )
        batch = own
    return batch


def check_fw_mode(fw_mode: object) -> bool | None:
    """Whether a derivative along a direction is by forward mode; None: the default.

    Raises:
        GradError: it is something else.
    """
    if fw_mode is None or isinstance(fw_mode, bool):
        return fw_mode
    raise GradError(
        f"fw_mode must be True, False or None, got {fw_mode!r}.",
        hint="True is forward mode, False reverse mode; leave it out for the one that costs less.",
    )
