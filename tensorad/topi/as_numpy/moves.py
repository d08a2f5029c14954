"""Shapes, orders of elements, joining and cutting of tensors, with NumPy's arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tensorad.errors import DefinitionError
from tensorad.ir.tensor import Tensor
from tensorad.topi import arrange, math, transform
from tensorad.topi.as_numpy.arguments import (
    Axes,
    Given,
    as_tensor,
    check_row_major,
    each,
    flat,
    listed,
)
from tensorad.topi.as_numpy.keywords import cast_joined
from tensorad.topi.checks import normalize_axes, normalize_axis


def _reshape(
    a: Given, /, shape: Any = None, order: str = "C", *, newshape: Any = None, copy: Any = None
) -> Tensor:
    check_row_major("reshape", order)
    return transform.reshape(as_tensor("reshape", a), newshape if shape is None else shape)


def _ravel(a: Given, order: str = "C") -> Tensor:
    check_row_major("ravel", order)
    return flat(as_tensor("ravel", a))


def _transpose(a: Given, axes: Any = None) -> Tensor:
    return transform.transpose(as_tensor("transpose", a), axes)


def _swapaxes(a: Given, axis1: int, axis2: int) -> Tensor:
    x = as_tensor("swapaxes", a)
    p, q = [normalize_axis("swapaxes", d, x.ndim) for d in (axis1, axis2)]
    order = list(range(x.ndim))
    order[p], order[q] = q, p
    return transform.transpose(x, order)


def _moveaxis(a: Given, source: Any, destination: Any) -> Tensor:
    x = as_tensor("moveaxis", a)
    ends = [each(d) for d in (source, destination)]
    old, new = [[normalize_axis("moveaxis", d, x.ndim) for d in each] for each in ends]
    if len(old) != len(new) or len(set(old)) < len(old) or len(set(new)) < len(new):
        raise DefinitionError(
            f"moveaxis: {source} and {destination} are not as many axes, each named once.",
            where=x.name,
            hint="name the axes and their places, e.g. np.moveaxis(X, (0, 1), (-1, -2)).",
        )
    order = [d for d in range(x.ndim) if d not in old]
    for place, d in sorted(zip(new, old, strict=True)):
        order.insert(place, d)
    return transform.transpose(x, order)


def _squeeze(a: Given, axis: Axes = None) -> Tensor:
    return transform.squeeze(as_tensor("squeeze", a), axis)


def _expand_dims(a: Given, axis: Axes) -> Tensor:
    x = as_tensor("expand_dims", a)
    places = normalize_axes("expand_dims", each(axis), x.ndim + len(each(axis)))
    for d in places:
        x = transform.expand_dims(x, d)
    return x


def _broadcast_to(array: Given, shape: Any, subok: bool = False) -> Tensor:
    return math.broadcast_to(as_tensor("broadcast_to", array, "array"), shape)


def _flip(m: Given, axis: Axes = None) -> Tensor:
    return arrange.flip(as_tensor("flip", m, "m"), axis)


def _roll(a: Given, shift: Any, axis: Axes = None) -> Tensor:
    x = as_tensor("roll", a)
    if axis is None:
        return transform.reshape(arrange.roll(flat(x), shift, 0), x.shape)
    axes, shifts = each(axis), each(shift)
    count = max(len(axes), len(shifts))
    if any(len(given) not in (1, count) for given in (axes, shifts)):
        raise DefinitionError(
            f"np.roll of a tensor got {len(shifts)} shifts for {len(axes)} axes.",
            where=x.name,
            hint="pass one shift for each axis, or one for all.",
        )
    pairs = [given * count if len(given) == 1 else given for given in (axes, shifts)]
    for d, by in zip(*pairs, strict=True):
        x = arrange.roll(x, by, d)
    return x


def _repeat(a: Given, repeats: int, axis: Any = None) -> Tensor:
    x = as_tensor("repeat", a)
    return arrange.repeat(flat(x) if axis is None else x, repeats, 0 if axis is None else axis)


def _tile(A: Given, reps: Any) -> Tensor:
    return arrange.tile(as_tensor("tile", A, "A"), reps)


def _pad(
    array: Given, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0
) -> Tensor:
    x = as_tensor("pad", array, "array")
    try:
        widths = np.broadcast_to(np.asarray(pad_width), (x.ndim, 2)).tolist()
    except ValueError as error:
        raise DefinitionError(
            f"np.pad of a tensor: pad_width {pad_width!r} is no pair for each of {x.ndim} axes.",
            where=x.name,
            hint="e.g. np.pad(X, ((1, 0), (0, 2))): before and after, axis by axis.",
        ) from error
    before, after = [[w[side] for w in widths] for side in (0, 1)]
    return transform.pad(x, before, after, constant_values, mode)


def _concatenate(
    arrays: Any, /, axis: Any = 0, out: None = None, *, dtype: Any = None,
    casting: str = "same_kind",
) -> Tensor:  # fmt: skip
    parts = listed("concatenate", arrays)
    own, axis = ([flat(t) for t in parts], 0) if axis is None else (parts, axis)
    return cast_joined("concatenate", transform.concatenate(own, axis), parts, dtype, casting)


def _stack(
    arrays: Any, axis: int = 0, out: None = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Tensor:
    parts = listed("stack", arrays)
    return cast_joined("stack", transform.stack(parts, axis), parts, dtype, casting)


def _vstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Tensor:
    parts = [transform.reshape(t, (1, -1)) if t.ndim < 2 else t for t in listed("vstack", tup)]
    return cast_joined("vstack", transform.concatenate(parts, 0), parts, dtype, casting)


def _hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Tensor:
    parts = [flat(t) if not t.ndim else t for t in listed("hstack", tup)]
    along = 0 if parts and parts[0].ndim == 1 else 1
    return cast_joined("hstack", transform.concatenate(parts, along), parts, dtype, casting)


def _split(ary: Given, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    return transform.split(as_tensor("split", ary, "ary"), indices_or_sections, axis)


def _meshgrid(*xi: Given, indexing: str = "xy", copy: bool = True) -> tuple[Tensor, ...]:
    own = [as_tensor("meshgrid", x, f"xi[{n}]") for n, x in enumerate(xi)]
    return tuple(arrange.meshgrid(*own, indexing=indexing))


MOVES: Final[dict[str, Callable[..., Any]]] = {
    "reshape": _reshape, "ravel": _ravel, "transpose": _transpose, "permute_dims": _transpose,
    "matrix_transpose": lambda x, /: _swapaxes(x, -1, -2),
    "swapaxes": _swapaxes, "moveaxis": _moveaxis, "squeeze": _squeeze,
    "expand_dims": _expand_dims, "broadcast_to": _broadcast_to,
    "flip": _flip, "flipud": lambda m: _flip(m, 0), "fliplr": lambda m: _flip(m, 1),
    "roll": _roll, "repeat": _repeat, "tile": _tile, "pad": _pad,
    "concatenate": _concatenate, "concat": _concatenate, "stack": _stack,
    "vstack": _vstack, "hstack": _hstack, "split": _split, "meshgrid": _meshgrid,
}  # fmt: skip
"""By NumPy's name; parameters are those of NumPy's that have a meaning here, in its order."""
