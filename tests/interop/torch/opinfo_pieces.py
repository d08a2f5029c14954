"""PyTorch's operators in pieces, orders of elements and losses, as graphs of `topi`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tensorad import topi
from tests.interop.torch.opinfo_elements import NotTakenError, is_number

Graph = Callable[..., Any]


def _tensors(f: Graph) -> Graph:
    """Of two operands of which one at least is a tensor."""

    def graph(x: Any, y: Any) -> Any:
        if is_number(x) and is_number(y):
            raise NotTakenError("numbers alone")
        return f(x, y)

    return graph


def _rank(x: Any) -> Any:
    if not x.shape:
        raise NotTakenError("axes of tensors of no dimension")
    return x


def _sort(x: Any, dim: int = -1, descending: bool = False, *, stable: bool = True) -> Any:
    _stable(stable)
    return [topi.sort(_rank(x), dim, descending), topi.argsort(x, dim, descending)]


def _argsort(x: Any, dim: int = -1, descending: bool = False, *, stable: bool = True) -> Any:
    _stable(stable)
    return topi.argsort(_rank(x), dim, descending)


def _stable(stable: bool | None) -> None:
    if not stable:
        raise NotTakenError("orders of equal elements that are nobody's")


def _top_k(x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    return list(topi.top_k(_rank(x), k, dim, largest))


def _logcumsumexp(x: Any, dim: int) -> Any:
    return topi.logcumsumexp(_rank(x), dim)


def _reduced(f: Graph) -> Graph:
    """A loss of single elements, reduced as asked for."""

    def graph(*operands: Any, reduction: str = "mean", **options: Any) -> Any:
        found = f(*operands, **options)
        if reduction == "none":
            return found
        if reduction not in ("mean", "sum"):
            raise NotTakenError(reduction)
        return topi.mean(found) if reduction == "mean" else topi.sum(found)

    return graph


def _kl_div(
    x: Any, target: Any, *, reduction: str = "mean", log_target: bool = False, **other: Any
) -> Any:
    if not x.shape or x.shape != target.shape:
        raise NotTakenError("distributions of other shapes")
    found = topi.kl_div(x, topi.exp(target) if log_target else target)
    if reduction == "batchmean":
        return found
    if reduction not in ("sum", "mean"):
        raise NotTakenError("losses of single elements")
    total = topi.multiply(found, x.shape[0])
    return topi.multiply(total, 1 / math.prod(x.shape)) if reduction == "mean" else total


def _huber(x: Any, target: Any, *, delta: float = 1.0) -> Any:
    if delta <= 0:
        raise NotTakenError("distances below 0")
    size = topi.abs(topi.subtract(x, target))
    small = topi.multiply(topi.square(size), 0.5)
    large = topi.multiply(topi.subtract(size, 0.5 * delta), delta)
    return topi.where(topi.less_equal(size, delta), small, large)


def _soft_margin(x: Any, target: Any) -> Any:
    return topi.softplus(topi.negative(topi.multiply(x, target)))


def _margin_ranking(a: Any, b: Any, target: Any, *, margin: float = 0.0) -> Any:
    apart = topi.multiply(topi.subtract(a, b), target)
    return topi.relu(topi.subtract(margin, apart))


def _threshold(x: Any, threshold: float, value: float, inplace: bool = False) -> Any:
    return topi.where(topi.greater(x, threshold), x, float(value))


def _hard_shrink(x: Any, lambd: float = 0.5) -> Any:
    return topi.where(topi.greater(topi.abs(x), lambd), x, 0.0)


def _soft_shrink(x: Any, lambd: float = 0.5) -> Any:
    if lambd < 0:
        raise NotTakenError("distances below 0")
    above = topi.where(topi.greater(x, lambd), topi.subtract(x, lambd), 0.0)
    return topi.where(topi.less(x, -lambd), topi.add(x, lambd), above)


def _entropy(x: Any) -> Any:
    inside = topi.greater(x, 0.0)
    whole = topi.negative(topi.multiply(x, topi.log(topi.where(inside, x, 1.0))))
    outside = topi.where(topi.less(x, 0.0), -math.inf, whole)
    return topi.where(topi.isnan(x), x, outside)


def _remainder(x: Any, y: Any) -> Any:
    return topi.subtract(x, topi.multiply(y, topi.floor(topi.divide(x, y))))


def _float_power(x: Any, y: Any) -> Any:
    if any(isinstance(v, complex) for v in (x, y)):
        raise NotTakenError("complex numbers")
    x = float(x) if is_number(x) else topi.cast(x, "float64")
    return topi.power(x, float(y) if is_number(y) else topi.cast(y, "float64"))


def _channel_shuffle(x: Any, groups: int) -> Any:
    n, c, *rest = x.shape
    split = topi.reshape(x, (n, groups, c // groups, *rest))
    order = (0, 2, 1, *range(3, len(rest) + 3))
    return topi.reshape(topi.transpose(split, order), (n, c, *rest))


def _nan_to_num(
    x: Any, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Any:
    most = float(np.finfo(str(x.dtype)).max)
    x = topi.where(topi.isnan(x), 0.0 if nan is None else float(nan), x)
    x = topi.where(topi.equal(x, math.inf), most if posinf is None else float(posinf), x)
    return topi.where(topi.equal(x, -math.inf), -most if neginf is None else float(neginf), x)


PIECES: Final[dict[str, Graph]] = {
    **{name: _tensors(getattr(topi, name))
       for name in ("copysign", "heaviside", "logaddexp", "logaddexp2")},
    "float_power": _float_power,
    "remainder": _tensors(_remainder),
    "isinf": lambda x: topi.equal(topi.abs(x), math.inf),
    "isposinf": lambda x: topi.equal(x, math.inf),
    "isneginf": lambda x: topi.equal(x, -math.inf),
    "special.entr": _entropy,
    "nan_to_num": _nan_to_num,
    "sort": _sort,
    "argsort": _argsort,
    "msort": lambda x: topi.sort(_rank(x), 0),
    "topk": _top_k,
    "logcumsumexp": _logcumsumexp,
    "nn.functional.threshold": _threshold,
    "nn.functional.hardshrink": _hard_shrink,
    "nn.functional.softshrink": _soft_shrink,
    "nn.functional.channel_shuffle": _channel_shuffle,
    "nn.functional.kl_div": _kl_div,
    "nn.functional.huber_loss": _reduced(_huber),
    "nn.functional.soft_margin_loss": _reduced(_soft_margin),
    "nn.functional.margin_ranking_loss": _reduced(_margin_ranking),
}  # fmt: skip
