"""NumPy's choices, bounds, reads at indices and arrays like others, of tensors and elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tensorad import te
from tensorad.errors import DefinitionError
from tensorad.ir.arrays.elementwise import broadcast_shapes, same_dim
from tensorad.ir.dtypes import BOOL, to_dtype
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Shape, Tensor
from tensorad.topi import indexing, math
from tensorad.topi.as_numpy.arguments import Given, as_array, as_tensor, flat
from tensorad.topi.as_numpy.keywords import check_layout
from tensorad.topi.checks import normalize_axis


def _where(condition: Given, x: Given, y: Given, /) -> Tensor:
    chosen = as_tensor("where", condition, "condition")
    if chosen.dtype is not BOOL:
        chosen = math.not_equal(chosen, 0)
    return math.where(chosen, as_array(x), as_array(y))


def _clip(
    a: Given, a_min: Any = None, a_max: Any = None, out: None = None,
    *, min: Any = None, max: Any = None,
) -> Any:  # fmt: skip
    for own, other, name in ((a_min, min, "min"), (a_max, max, "max")):
        if own is not None and other is not None:
            raise DefinitionError(
                f"np.clip of a formula got both a_{name} and {name}.", hint="pass one of them."
            )
    a_min, a_max = min if a_min is None else a_min, max if a_max is None else a_max
    a = as_array(a)
    if _is_number(a_min) and _is_number(a_max) and isinstance(a, Tensor):
        return math.clip(a, a_min, a_max)
    if a_min is not None:
        a = te.maximum(as_array(a_min), a)
    return a if a_max is None else te.minimum(as_array(a_max), a)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.number))


def _round(a: Given, decimals: int = 0, out: None = None) -> Any:
    if decimals != 0:
        raise DefinitionError(
            f"np.round of a formula rounds to whole numbers, got decimals={decimals!r}.",
            hint="scale it: ta.round(x * 100.0) / 100.0.",
        )
    return te.round(a)


def _take(a: Given, indices: Given, axis: Any = None, out: None = None, mode: str = "raise") -> Any:
    if mode != "raise":
        raise DefinitionError(
            f"np.take of a tensor has no mode {mode!r}: indices are checked.",
            hint="make them fit before: np.clip(indices, 0, n - 1), or indices % n.",
        )
    x = as_tensor("take", a)
    x, along = (flat(x), 0) if axis is None else (x, normalize_axis("take", axis, x.ndim))
    return indexing.take(x, as_tensor("take", indices, "indices"), along)


def _take_along_axis(arr: Given, indices: Given, axis: Any = -1) -> Tensor:
    x = as_tensor("take_along_axis", arr, "arr")
    x, along = (flat(x), 0) if axis is None else (x, normalize_axis("gather", axis, x.ndim))
    at = as_tensor("take_along_axis", indices, "indices")
    if at.ndim == x.ndim:
        ones = [(*t.shape[:along], 1, *t.shape[along + 1 :]) for t in (x, at)]
        around = broadcast_shapes("np.take_along_axis", *ones)
        x, at = (_spread(t, (*around[:along], t.shape[along], *around[along + 1 :]))
                 for t in (x, at))  # fmt: skip
    return indexing.gather(x, at, along)


def _spread(x: Tensor, shape: Shape) -> Tensor:
    return x if all(map(same_dim, x.shape, shape)) else math.broadcast_to(x, shape)


def _filled(name: str, value: float) -> Callable[..., Tensor]:
    def like(
        a: Given, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None,
        *, device: Any = None,
    ) -> Tensor:  # fmt: skip
        check_layout(name, order=order, device=device)
        return _full_like(a, value, dtype, shape=shape)

    return like


def _full_like(
    a: Given, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True,
    shape: Any = None, *, device: Any = None,
) -> Tensor:  # fmt: skip
    check_layout("full_like", order=order, device=device)
    x = as_tensor("full_like", a)
    extents = x.shape if shape is None else shape
    wanted = x.dtype if dtype is None else to_dtype(dtype)
    if wanted is BOOL and _is_number(fill_value):
        fill_value = bool(fill_value)
    return math.full(extents, fill_value, wanted)


def _astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    check_layout("astype", device=device)
    return x.astype(dtype)


def _copy(a: Any, order: str = "K", subok: bool = False) -> Any:
    check_layout("copy", order=order)
    return a


def _shape(a: Any) -> tuple[Any, ...]:
    return a.shape if isinstance(a, Tensor) else ()


def _size(a: Any, axis: Any = None) -> Any:
    if isinstance(a, Expr):
        return 1
    return a.size if axis is None else a.shape[normalize_axis("size", axis, a.ndim)]


ELEMENTS: Final[dict[str, Callable[..., Any]]] = {
    "where": _where, "clip": _clip, "round": _round, "around": _round,
    "fix": lambda x, out=None: te.trunc(x),
    "take": _take, "take_along_axis": _take_along_axis,
    "zeros_like": _filled("zeros_like", 0), "ones_like": _filled("ones_like", 1),
    "full_like": _full_like,
    "shape": _shape, "ndim": lambda a: len(_shape(a)), "size": _size,
    "astype": _astype, "copy": _copy, "real": lambda val: val,
}  # fmt: skip
"""By NumPy's name; parameters are those of NumPy's that have a meaning here, in its order."""
OF_EXPRESSIONS: Final[dict[str, Callable[..., Any]]] = {
    **{n: ELEMENTS[n] for n in ("clip", "round", "around", "fix", "copy", "real", "astype")},
    "where": lambda condition, x, y, /: te.select(condition, x, y),
    "shape": _shape, "ndim": lambda a: 0, "size": _size,
}  # fmt: skip
"""The same of an element in a formula."""
