"""JAX's `lax` operators beside the same as formulas and operators of `topi`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import pytest

import tensorad as ta
from tensorad import topi

jax: Any = pytest.importorskip("jax", reason="jax is not installed")
from jax import lax  # noqa: E402

Array = np.ndarray[Any, Any]


class LaxCase(NamedTuple):
    """A call of an operator: JAX's function of arrays, ours of placeholders, and the arrays."""

    wanted: Callable[..., Any]
    graph: Callable[..., Any]
    arrays: tuple[Array, ...]


def _u(*shape: int, low: float = 0.2, high: float = 0.8, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).uniform(low, high, shape)


def _n(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape, 1]).normal(size=shape)


def _i(*shape: int, low: int = -9, high: int = 9, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape, 2]).integers(low, high, shape)


def _map(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *xs: ta.compute(xs[0].shape, lambda *i: f(*[x[i] for x in xs]), name="Y")


UNARY: Final = {
    "abs": "abs", "acos": "acos", "asin": "asin", "asinh": "asinh", "atan": "atan",
    "atanh": "atanh", "cbrt": "cbrt", "ceil": "ceil", "cos": "cos", "cosh": "cosh",
    "digamma": "digamma", "erf": "erf", "erfc": "erfc", "erf_inv": "erfinv", "exp": "exp",
    "exp2": "exp2", "expm1": "expm1", "floor": "floor", "lgamma": "lgamma", "log": "log",
    "log1p": "log1p", "logistic": "sigmoid", "neg": "negative", "rsqrt": "rsqrt", "sign": "sign",
    "sin": "sin", "sinh": "sinh", "sqrt": "sqrt", "square": "square", "tan": "tan",
    "tanh": "tanh", "is_finite": "isfinite",
}  # fmt: skip
BINARY: Final = {
    "add": "add", "sub": "subtract", "mul": "multiply", "div": "divide", "max": "maximum",
    "min": "minimum", "pow": "power", "atan2": "atan2", "rem": "fmod", "eq": "equal",
    "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
}  # fmt: skip


def _elementwise() -> dict[str, LaxCase]:
    made = {
        name: LaxCase(getattr(lax, name), getattr(topi, to), (_u(3, 4),))
        for name, to in UNARY.items()
    }
    made |= {
        name: LaxCase(getattr(lax, name), getattr(topi, to), (_u(3, 4), _u(3, 4, seed=1)))
        for name, to in BINARY.items()
    }
    made["acosh"] = LaxCase(lax.acosh, topi.acosh, (_u(5) + 1,))
    made["round"] = LaxCase(
        lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), topi.round, (_n(9) * 4,)
    )
    made["polygamma"] = LaxCase(
        lambda x: lax.polygamma(jax.numpy.ones_like(x), x), topi.trigamma, (_u(4),)
    )
    made["integer_pow"] = LaxCase(lambda x: lax.integer_pow(x, -3), _map(lambda v: v**-3), (_u(5),))
    made["reciprocal"] = LaxCase(lax.reciprocal, _map(lambda v: 1.0 / v), (_u(5),))
    made["clamp"] = LaxCase(
        lambda x: lax.clamp(-0.5, x, 0.7), lambda x: topi.clip(x, -0.5, 0.7), (_n(4, 5),)
    )
    made["select_n"] = LaxCase(
        lambda c, a, b: lax.select_n(c, a, b),
        lambda c, a, b: topi.where(c, b, a),
        (_n(3, 4) > 0, _n(3, 4, seed=1), _n(3, 4, seed=2)),
    )
    made["convert_element_type"] = LaxCase(
        lambda x: lax.convert_element_type(x, "int64"),
        lambda x: topi.cast(x, "int64"),
        (_n(9) * 9,),
    )
    made["stop_gradient"] = LaxCase(
        lambda x: x * lax.stop_gradient(lax.sin(x)),
        _map(lambda v: v * ta.stop_gradient(ta.sin(v))),
        (_n(5),),
    )
    return made


def _integers() -> dict[str, LaxCase]:
    a, b = _i(4, 5), _i(4, 5, low=1, seed=1)
    truncated = _map(lambda p, q: ta.select(p < 0, -((-p) // q), p // q))
    flags = _n(6) > 0, _n(6, seed=3) > 0
    return {
        "add of integers": LaxCase(lax.add, topi.add, (a, b)),
        "mul of integers": LaxCase(lax.mul, topi.multiply, (a, b)),
        "div of integers": LaxCase(lax.div, truncated, (a, b)),
        "max of integers": LaxCase(lax.max, topi.maximum, (a, b)),
        "shift_left": LaxCase(lax.shift_left, topi.left_shift, (a, abs(b))),
        "shift_right_arithmetic": LaxCase(
            lax.shift_right_arithmetic, topi.right_shift, (a, abs(b))
        ),
        "bitwise_and": LaxCase(lax.bitwise_and, topi.logical_and, flags),
        "bitwise_or": LaxCase(lax.bitwise_or, topi.logical_or, flags),
        "bitwise_xor": LaxCase(lax.bitwise_xor, topi.logical_xor, flags),
        "bitwise_not": LaxCase(lax.bitwise_not, topi.logical_not, flags[:1]),
        "iota": LaxCase(
            lambda x: lax.broadcasted_iota("int64", x.shape, 1),
            lambda x: ta.compute(x.shape, lambda i, j: j, name="Y"),
            (a,),
        ),
    }


def _moves() -> dict[str, LaxCase]:
    x = _n(3, 4)
    return {
        "reshape": LaxCase(
            lambda x: lax.reshape(x, (2, 6)), lambda x: topi.reshape(x, (2, 6)), (x,)
        ),
        "transpose": LaxCase(
            lambda x: lax.transpose(x, (2, 0, 1)),
            lambda x: topi.transpose(x, (2, 0, 1)),
            (_n(2, 3, 4),),
        ),
        "rev": LaxCase(lambda x: lax.rev(x, (1,)), lambda x: topi.flip(x, [1]), (x,)),
        "expand_dims": LaxCase(
            lambda x: lax.expand_dims(x, (1,)), lambda x: topi.expand_dims(x, 1), (x,)
        ),
        "squeeze": LaxCase(
            lambda x: lax.squeeze(x, (1,)), lambda x: topi.squeeze(x, 1), (_n(3, 1, 4),)
        ),
        "broadcast": LaxCase(
            lambda x: lax.broadcast(x, (2,)), lambda x: topi.broadcast_to(x, (2, 3, 4)), (x,)
        ),
        "broadcast_in_dim": LaxCase(
            lambda x: lax.broadcast_in_dim(x, (4, 3, 2), (1,)),
            lambda x: ta.compute((4, 3, 2), lambda i, j, k: x[j], name="Y"),
            (_n(3),),
        ),
        "concatenate": LaxCase(
            lambda a, b: lax.concatenate([a, b], 1),
            lambda a, b: topi.concatenate([a, b], 1),
            (x, _n(3, 2)),
        ),
        "slice": LaxCase(
            lambda x: lax.slice(x, (1, 0), (7, 5), (2, 3)),
            lambda x: topi.strided_slice(x, [1, 0], [7, 5], [2, 3]),
            (_n(8, 6),),
        ),
        "pad": LaxCase(
            lambda x: lax.pad(x, 0.5, [(1, 2, 0), (0, 1, 0)]),
            lambda x: topi.pad(x, [1, 0], [2, 1], 0.5),
            (x,),
        ),
        "pad with interior": LaxCase(
            lambda x: lax.pad(x, 0.5, [(1, 2, 2), (-1, 1, 1)]), _interior, (x,)
        ),
        "dynamic_slice": LaxCase(
            lambda x, s: lax.dynamic_slice(x, (s[0], s[1]), (2, 3)), _dynamic_slice,
            (_n(5, 6), np.array([4, -7])),
        ),
        "dynamic_update_slice": LaxCase(
            lambda x, u, s: lax.dynamic_update_slice(x, u, (s[0],)), _dynamic_update,
            (_n(7), _n(3), np.array([9])),
        ),
    }  # fmt: skip


def _interior(x: Any) -> Any:
    """Rows 3 apart from row 1 on, columns 2 apart of which the first is cut off."""

    def element(i: Any, j: Any) -> Any:
        inside = ta.all_of(i >= 1, i < 8, (i - 1) % 3 == 0, j < 6, (j + 1) % 2 == 0)
        return ta.select(inside, x[(i - 1) // 3, (j + 1) // 2], 0.5)

    return ta.compute((10, 7), element, name="Y")


def _dynamic_slice(x: Any, s: Any) -> Any:
    def start(k: int, size: int) -> Any:
        n = x.shape[k]
        return ta.minimum(ta.maximum(ta.select(s[k] < 0, s[k] + n, s[k]), 0), n - size)

    return ta.compute((2, 3), lambda i, j: x[start(0, 2) + i, start(1, 3) + j], name="Y")


def _dynamic_update(x: Any, u: Any, s: Any) -> Any:
    n, m = x.shape[0], u.shape[0]

    def element(i: Any) -> Any:
        at = i - ta.minimum(ta.maximum(s[0], 0), n - m)
        inside = ta.all_of(at >= 0, at < m)
        return ta.select(inside, u[ta.minimum(ta.maximum(at, 0), m - 1)], x[i])

    return ta.compute((n,), element, name="Y")


def _along(name: str, to: str, axes: Any, **more: Any) -> tuple[Any, Any]:
    """An operator of `lax` and one of `topi` along axes."""
    theirs, ours = getattr(lax, name), getattr(topi, to)
    of_theirs = {"axis": axes} if name.startswith("cum") else {"axes": axes}
    return lambda x: theirs(x, **of_theirs, **more), lambda x: ours(x, axes, **more)


def _reductions() -> dict[str, LaxCase]:
    x = _n(3, 4, 2)
    made = {
        f"reduce_{name}": LaxCase(*_along(f"reduce_{name}", name, (0, 2)), (x,))
        for name in ("sum", "max", "min", "prod")
    }
    made["argmax"] = LaxCase(lambda x: lax.argmax(x, 1, "int64"), lambda x: topi.argmax(x, 1), (x,))
    made["argmin"] = LaxCase(lambda x: lax.argmin(x, 1, "int64"), lambda x: topi.argmin(x, 1), (x,))
    for name in ("cumsum", "cumprod", "cummax", "cummin"):
        for reverse in (False, True):
            label = f"{name} reversed" if reverse else name
            made[label] = LaxCase(*_along(name, name, 1, reverse=reverse), (x,))
    made["cumlogsumexp"] = LaxCase(
        lambda x: lax.cumlogsumexp(x, axis=0),
        lambda x: topi.logcumsumexp(x, 0),
        (x,),
    )
    for name, to in (("max", lax.max), ("add", lax.add)):
        start = -np.inf if name == "max" else 0.0
        made[f"reduce_window {name}"] = LaxCase(
            lambda x, f=to, s=start: lax.reduce_window(x, s, f, (2, 3), (2, 1), "VALID"),
            lambda x, fold=ta.max if name == "max" else ta.sum: _windows(x, fold),
            (_n(6, 5),),
        )
    return made


def _windows(x: Any, fold: Any) -> Any:
    p, q = ta.reduce_axis(2, "p"), ta.reduce_axis(3, "q")
    return ta.compute((3, 3), lambda i, j: fold(x[2 * i + p, j + q], axis=[p, q]), name="Y")


def _products() -> dict[str, LaxCase]:
    def dilated(rank: int, f: Any, **options: Any) -> Callable[..., Any]:
        def wanted(x: Any, w: Any) -> Any:
            pads = [(options.get("padding", 0),) * 2] * rank
            strides = (options.get("strides", 1),) * rank
            return lax.conv_general_dilated(
                x,
                w,
                strides,
                pads,
                rhs_dilation=(options.get("dilation", 1),) * rank,
                feature_group_count=options.get("groups", 1),
            )

        return wanted

    def conv(rank: int, f: Any, x: Array, w: Array, **options: Any) -> LaxCase:
        return LaxCase(dilated(rank, f, **options), lambda x, w: f(x, w, **options), (x, w))

    image, weight = _n(1, 4, 6, 5), _n(4, 2, 3, 2)
    return {
        "dot": LaxCase(lax.dot, topi.matmul, (_n(3, 4), _n(4, 2))),
        "dot_general": LaxCase(
            lambda a, b: lax.dot_general(a, b, (((2,), (1,)), ((0,), (0,)))),
            lambda a, b: topi.einsum("bij,bjk->bik", a, b),
            (_n(2, 3, 4), _n(2, 4, 5)),
        ),
        "batch_matmul": LaxCase(
            lax.batch_matmul,
            lambda a, b: topi.batch_matmul(a, topi.transpose(b, (0, 2, 1))),
            (_n(2, 3, 4), _n(2, 4, 2)),
        ),
        "conv_general_dilated": conv(2, topi.conv2d, image, _n(2, 4, 3, 2), padding=1),
        "conv with groups": conv(2, topi.conv2d, image, weight, strides=2, padding=1, groups=2),
        "conv with dilation": conv(1, topi.conv1d, _n(2, 3, 9), _n(2, 3, 3), dilation=2),
        "conv of volumes": conv(3, topi.conv3d, _n(1, 2, 4, 3, 3), _n(2, 2, 2, 2, 2)),
        "conv with dilated inputs": LaxCase(
            lambda x, w: lax.conv_general_dilated(x, w, (1,), [(1, 2)], lhs_dilation=(2,)),
            _dilated_input,
            (_n(1, 2, 5), _n(3, 2, 3)),
        ),
    }  # fmt: skip


def _dilated_input(x: Any, w: Any) -> Any:
    c, k = ta.reduce_axis(2, "c"), ta.reduce_axis(3, "k")

    def element(b: Any, o: Any, i: Any) -> Any:
        at = i + k - 1
        inside = ta.all_of(at >= 0, at < 9, at % 2 == 0)
        return ta.sum(ta.select(inside, x[b, c, at // 2] * w[o, c, k], 0.0), axis=[c, k])

    return ta.compute((1, 3, 10), element, name="Y")


def _indexed() -> dict[str, LaxCase]:
    rows = np.array([2, 0, 2])
    numbers = lax.GatherDimensionNumbers(
        offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,)
    )
    into = lax.ScatterDimensionNumbers(
        update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)
    )

    def scattered(f: Any, reduction: str, places: Array) -> LaxCase:
        return LaxCase(
            lambda x, i, u: f(
                x, i[:, None], u, into, unique_indices=len(set(places)) == len(places)
            ),
            lambda x, i, u: topi.scatter_nd(x, topi.expand_dims(i, 0), u, reduction),
            (_u(4, 3), places, _u(3, 3, seed=5)),
        )

    return {
        "gather": LaxCase(
            lambda x, i: lax.gather(x, i[:, None], numbers, (1, 3)),
            lambda x, i: topi.take(x, i, 0),
            (_n(4, 3), rows),
        ),
        "index_take": LaxCase(
            lambda x, i: lax.index_take(x, (i,), (0,)),
            lambda x, i: topi.take(x, i, 0),
            (_n(4, 3), rows),
        ),
        "scatter": scattered(lax.scatter, "set", np.array([3, 0, 1])),
        "scatter_add": scattered(lax.scatter_add, "add", rows),
        "scatter_mul": scattered(lax.scatter_mul, "mul", np.array([3, 0, 1])),
        "scatter_min": scattered(lax.scatter_min, "min", rows),
        "scatter_max": scattered(lax.scatter_max, "max", rows),
    }


CASES: Final[dict[str, LaxCase]] = {
    **_elementwise(), **_integers(), **_moves(), **_reductions(), **_products(), **_indexed()
}  # fmt: skip
