"""Every operator and scalar function at points where its derivative could go wrong.

Points are zeros of both signs, ones, ties and ends of branches. Where a function is not
differentiable is said here; everywhere else its derivative must be its slope.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, Final, NamedTuple

import numpy as np

from tensorad import te, topi
from tensorad.ir.tensor import Tensor

Coordinate = tuple[int, int, int]
"""Number of the point, number of the input, position in it."""


class Rough(NamedTuple):
    """Coordinates along which the derivative of that order does not exist, and why."""

    order: int
    reason: str
    where: frozenset[Coordinate]


class Case(NamedTuple):
    """A function of tensors (its results are added up with weights) and points to try it at."""

    function: Callable[..., Any]
    points: Sequence[tuple[np.ndarray, ...]]
    rough: Sequence[Rough] = ()


ZEROS: Final = (0.0, -0.0)
LINE: Final = (*ZEROS, 1.0, -1.0, 0.5, -0.5, 0.3, -0.3, 2.0, -2.0, 3.0, -3.0, 6.0, -6.0)
WHOLE: Final = (0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 6.0, -6.0)


def one(
    function: Callable[[Tensor], Any],
    kinks: Sequence[float] = (),
    bends: Sequence[float] = (),
    reason: str = "a kink",
    line: Sequence[float] = LINE,
) -> Case:
    """A function of every element; `kinks` have no derivative, `bends` no second one."""
    at = frozenset([(0, 0, n) for n, v in enumerate(line) if v in kinks])
    second = frozenset([(0, 0, n) for n, v in enumerate(line) if v in bends])
    rough = [Rough(1, reason, at), Rough(2, "a kink of the derivative", second)]
    return Case(function, [(np.array(line),)], rough)


def two(
    function: Callable[[Tensor, Tensor], Any],
    first: Sequence[float],
    second: Sequence[float],
    kinks: Callable[[float, float], bool] = lambda a, b: False,
    bends: Callable[[float, float], bool] = lambda a, b: False,
    reason: str = "a tie",
    rough_in: Sequence[int] = (0, 1),
) -> Case:
    """A function of pairs of elements, at all pairs; it is rough along these of its inputs."""
    pairs = list(product(first, second))
    a, b = np.array(pairs).T.copy()

    def where(test: Callable[[float, float], bool]) -> frozenset[Coordinate]:
        return frozenset([(0, k, n) for k in rough_in for n, p in enumerate(pairs) if test(*p)])

    rough = [Rough(1, reason, where(kinks)), Rough(2, reason, where(bends))]
    return Case(function, [(a, b)], rough)


def joint(function: Callable[..., Any], *points: Any, rough: Sequence[Rough] = ()) -> Case:
    """A function of whole arrays; a point is a tuple of numbers, or of such tuples."""
    tuples = [p if isinstance(p[0], tuple) else (p,) for p in points]
    return Case(function, [tuple([np.array(a, float) for a in p]) for p in tuples], rough)


def ties(reason: str, *where: Coordinate) -> list[Rough]:
    """No derivative along these coordinates."""
    return [Rough(1, reason, frozenset(where))]


def along(point: int, count: int, source: int = 0) -> list[Coordinate]:
    """All coordinates of one input of one point."""
    return [(point, source, n) for n in range(count)]


def sum_of_powers(x: Tensor) -> Tensor:
    """sum of x**k over k < 4."""
    k = te.reduce_axis(4, name="k")
    made: Tensor = te.compute(x.shape, lambda *i: te.sum(te.pow(x[i], k), axis=k), name="powers")
    return made


SUM_AND_PRODUCT: Final = te.comm_reducer(lambda a, b: a * b + a + b, lambda t: 0, associative=True)


def reduced(reducer: Callable[..., Any]) -> Callable[[Tensor], Tensor]:
    """The reducer over all elements of a vector."""

    def function(x: Tensor) -> Tensor:
        k = te.reduce_axis(x.shape[0], name="k")
        made: Tensor = te.compute((), lambda: reducer(x[k], axis=k), name="reduced")
        return made

    return function


SMOOTH: Final = (
    "exp", "exp2", "expm1", "tanh", "sigmoid", "erf", "erfc", "sin", "cos", "tan", "atan", "sinh",
    "cosh", "asinh",
    "negative", "square", "silu", "gelu", "softplus", "log_sigmoid", "mish",
)  # fmt: skip
POSITIVE: Final = tuple([v for v in LINE if v > 0])
NONZERO: Final = tuple([v for v in LINE if v])
INSIDE: Final = tuple([v for v in LINE if abs(v) < 1])
"""Domains without their borders, where a function is defined on one side at most."""
GAMMA: Final = tuple([v for v in LINE if v > 0 or v % 1])
HALVES: Final = (0.5, -0.5)
STEP: Final = "a jump of the value"

ELEMENTS: Final[dict[str, Case]] = {
    **{name: one(getattr(topi, name)) for name in SMOOTH},
    **{
        name: one(getattr(topi, name), line=POSITIVE)
        for name in ("log", "log2", "log10", "sqrt", "rsqrt")
    },
    **{
        name: one(getattr(topi, name), line=INSIDE)
        for name in ("log1p", "asin", "acos", "atanh", "erfinv")
    },
    "cbrt": one(topi.cbrt, line=NONZERO),
    **{name: one(getattr(topi, name), line=GAMMA) for name in ("lgamma", "digamma", "trigamma")},
    "acosh": one(topi.acosh, line=tuple([v for v in LINE if v > 1])),
    "abs": one(topi.abs, ZEROS),
    "sign": one(topi.sign, ZEROS, reason=STEP),
    "floor": one(topi.floor, WHOLE, reason=STEP),
    "ceil": one(topi.ceil, WHOLE, reason=STEP),
    "trunc": one(topi.trunc, WHOLE[1:], reason=STEP),
    "round": one(topi.round, HALVES, reason=STEP),
    "relu": one(topi.relu, ZEROS),
    "relu6": one(topi.relu6, (0.0, 6.0)),
    "leaky_relu": one(topi.leaky_relu, ZEROS),
    "elu": one(topi.elu, bends=ZEROS),
    "elu, alpha 0.5": one(lambda x: topi.elu(x, 0.5), ZEROS),
    "celu": one(topi.celu, bends=ZEROS),
    "celu, alpha 0.5": one(lambda x: topi.celu(x, 0.5), bends=ZEROS),
    "selu": one(topi.selu, ZEROS),
    "gelu by tanh": one(lambda x: topi.gelu(x, True)),
    "softplus, beta 2": one(lambda x: topi.softplus(x, 2.0)),
    "hard_sigmoid": one(topi.hard_sigmoid, (3.0, -3.0)),
    "hard_sigmoid of ONNX": one(lambda x: topi.hard_sigmoid(x, 0.25), (2.0, -2.0)),
    "hard_swish": one(topi.hard_swish, (3.0, -3.0)),
    "clip": one(lambda x: topi.clip(x, -1.0, 2.0), (-1.0, 2.0)),
    "clip to a point": one(lambda x: topi.clip(x, 0.0, 0.0)),
    "clip to nothing": one(lambda x: topi.clip(x, 1.0, -1.0)),
    **{f"power {n!r}": one(lambda x, n=n: topi.power(x, n)) for n in (0, 1, 2, 3, 0.0, 2.0)},
    **{f"power {n!r}": one(lambda x, n=n: topi.power(x, n), line=NONZERO) for n in (-1, -2.0)},
    "power 2.5": one(lambda x: topi.power(x, 2.5), line=POSITIVE),
    "power of 2": one(lambda x: topi.pow(2.0, x)),
    "sum of powers": one(sum_of_powers),
    **{
        f"power {t}": one(lambda x, t=t: topi.pow(x, te.const(np.arange(14) // 2 % 4, t)))
        for t in ("int64", "float64")
    },
    "maximum with itself": one(lambda x: topi.maximum(x, x)),
    "x times abs": one(lambda x: x * topi.abs(x), bends=ZEROS),
    "scalar_function": one(
        te.scalar_function(
            lambda x: te.select(x > 0, x, x * 1.0), partials=lambda y, x: te.select(x > 0, 1, 1)
        )
    ),
}

BASES: Final = (*ZEROS, 1.0, -1.0, 0.5, 2.0)
FEW: Final = (*ZEROS, 1.0, -1.0, 2.0)
LABELS: Final = (0.0, 1.0, 0.25)
LOGITS: Final = (*ZEROS, 1.0, -1.0, 6.0, -6.0)

PAIRS: Final[dict[str, Case]] = {
    "add": two(topi.add, BASES, FEW),
    "subtract": two(topi.subtract, BASES, FEW),
    "multiply": two(topi.multiply, BASES, FEW),
    "divide": two(topi.divide, BASES, FEW[2:]),
    "pow": two(topi.pow, (1.0, 0.5, 2.0), (*FEW, 0.5)),
    "power": two(topi.power, (1.0, 0.5, 2.0), (*FEW, 0.5)),
    "maximum": two(topi.maximum, BASES, FEW, lambda a, b: a == b),
    "minimum": two(topi.minimum, BASES, FEW, lambda a, b: a == b),
    "atan2": two(topi.atan2, (1.0, -1.0, 2.0), FEW),
    "fmod": two(topi.fmod, (1.0, -1.0, 5.5), (2.0, -2.0, 3.5)),
    "copysign": two(
        topi.copysign, BASES, NONZERO[:4], lambda a, b: a == 0, reason="a kink", rough_in=(0,)
    ),
    "heaviside": two(topi.heaviside, BASES, FEW, lambda a, b: a == 0, reason=STEP, rough_in=(0,)),
    "logaddexp": two(topi.logaddexp, BASES, FEW),
    "logaddexp2": two(topi.logaddexp2, BASES, FEW),
    "where": two(lambda a, b: topi.where(te.const(np.arange(30) % 2 == 0), a, b), BASES, FEW),
    "l1_loss": two(topi.l1_loss, BASES, FEW, lambda a, b: a == b),
    "mse_loss": two(topi.mse_loss, BASES, FEW),
    "smooth_l1_loss": two(topi.smooth_l1_loss, BASES, FEW, bends=lambda a, b: abs(a - b) == 1),
    "binary_cross_entropy": two(topi.binary_cross_entropy, LOGITS, LABELS),
    "focal_loss": two(topi.focal_loss, LOGITS, LABELS),
    "focal_loss, gamma 0.5": two(lambda x, t: topi.focal_loss(x, t, gamma=0.5), FEW, LABELS),
    "focal_loss, gamma 0": two(lambda x, t: topi.focal_loss(x, t, gamma=0.0), LOGITS, LABELS),
    "kl_div": two(topi.kl_div, LOGITS, (1.0, 0.25, 2.0)),
}

FOURS: Final = (
    (0.0, 0.0, 0.0, 0.0),
    (-0.0, 0.0, 1.0, 1.0),
    (1.0, -1.0, 1.0, 0.0),
    (0.3, -0.7, 1.2, 2.0),
)
"""Four elements: all equal, ties at both ends, a tie at the top, none."""
AT_THE_TOP: Final = ties("a tie", *along(0, 4), (1, 0, 2), (1, 0, 3), (2, 0, 0), (2, 0, 2))
AT_THE_BOTTOM: Final = ties("a tie", *along(0, 4), (1, 0, 0), (1, 0, 1))
PAIR: Final = tuple([(a, b) for a in FOURS for b in FOURS[1:]])


def fours(function: Callable[[Tensor], Any], rough: Sequence[Rough] = ()) -> Case:
    """A function of four elements."""
    return joint(function, *FOURS, rough=rough)


def shaped(shape: Sequence[int], function: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
    """The function of the four elements in a shape."""
    return lambda x: function(topi.reshape(x, shape))


def product_of(
    function: Callable[[Tensor, Tensor], Any], left: Sequence[int], right: Sequence[int]
) -> Case:
    """A function of two times four elements, each in a shape."""

    def body(a: Tensor, b: Tensor) -> Any:
        return function(topi.reshape(a, left), topi.reshape(b, right))

    return joint(body, *PAIR[::4])


IMAGE: Final = (1, 1, 2, 2)
LABEL: Final = te.const(np.array([1, 0]))
TURNS: Final = te.const(np.cos(np.arange(2.0)).reshape(1, 2, 1))
ROWS: Final = te.const(np.array([1, 0, 1, 1]))
SQUARE: Final = te.const(np.arange(16).reshape(4, 4) % 3)

JOINT: Final[dict[str, Case]] = {
    "softmax": fours(topi.softmax),
    "log_softmax": fours(topi.log_softmax),
    "logsumexp": fours(topi.logsumexp),
    "prod": fours(topi.prod),
    "cumprod": fours(topi.cumprod),
    "logcumsumexp": fours(topi.logcumsumexp),
    "max": fours(topi.max, AT_THE_TOP),
    "min": fours(topi.min, AT_THE_BOTTOM),
    "cummax": fours(
        topi.cummax, ties("a tie", *along(0, 4), *along(1, 4), (2, 0, 0), (2, 0, 2))
    ),
    "cummin": fours(topi.cummin, AT_THE_BOTTOM),
    "top_k": fours(lambda x: topi.top_k(x, 1)[0], AT_THE_TOP),
    "sort": fours(topi.sort, ties("a tie", *along(0, 4), *along(1, 4), (2, 0, 0), (2, 0, 2))),
    "variance": fours(topi.variance),
    "layer_norm": fours(lambda x: topi.layer_norm(x, epsilon=0.5)),
    "rms_norm": fours(lambda x: topi.rms_norm(x, epsilon=0.5)),
    "l2_normalize": fours(lambda x: topi.l2_normalize(x, epsilon=0.25)),
    "batch_norm": fours(shaped((2, 2), lambda x: topi.batch_norm(x, epsilon=0.5))),
    "group_norm": fours(shaped((1, 4), lambda x: topi.group_norm(x, 2, epsilon=0.5))),
    "instance_norm": fours(shaped((1, 2, 2), lambda x: topi.instance_norm(x, epsilon=0.5))),
    "lrn": fours(shaped((1, 4), lambda x: topi.lrn(x, 3))),
    "pool": fours(shaped(IMAGE, lambda x: topi.pool(x, 2, 1)), AT_THE_TOP),
    "pool1d": fours(shaped((1, 1, 4), lambda x: topi.pool1d(x, 4, 1)), AT_THE_TOP),
    "pool3d": fours(shaped((1, 1, 1, 2, 2), lambda x: topi.pool3d(x, (1, 2, 2), 1)), AT_THE_TOP),
    "global_pool": fours(shaped(IMAGE, lambda x: topi.global_pool(x, "max")), AT_THE_TOP),
    "adaptive_pool": fours(shaped(IMAGE, lambda x: topi.adaptive_pool(x, 1, "max")), AT_THE_TOP),
    "prelu": joint(
        lambda x, s: topi.prelu(topi.reshape(x, (2, 2)), s),
        *[(x, (0.0, 0.25)) for x in FOURS],
        rough=ties("a kink", *along(0, 4), (1, 0, 0), (1, 0, 1), (2, 0, 3)),
    ),
    "cross_entropy": fours(shaped((2, 2), lambda x: topi.cross_entropy(x, LABEL))),
    "nll_loss": fours(shaped((2, 2), lambda x: topi.nll_loss(topi.square(x), LABEL))),
    "triplet_margin_loss": joint(
        lambda a, p, n: topi.triplet_margin_loss(
            *[topi.reshape(t, (2, 2)) for t in (a, p, n)], epsilon=0.2
        ),
        *[(a, FOURS[1], FOURS[3]) for a in FOURS],
    ),
    "lstm_cell": joint(
        lambda x, h, c: topi.lstm_cell(
            *[topi.reshape(t, (2, 2)) for t in (x, h, c)], *_gate_weights(8)
        ),
        (FOURS[0],) * 3, (FOURS[1], FOURS[2], FOURS[3]),
    ),
    "rnn_cell": joint(
        lambda x, h: topi.rnn_cell(*[topi.reshape(t, (2, 2)) for t in (x, h)], *_gate_weights(2)),
        (FOURS[0],) * 2, (FOURS[1], FOURS[2]),
    ),
    "matmul": product_of(topi.matmul, (2, 2), (2, 2)),
    "batch_matmul": product_of(topi.batch_matmul, (1, 2, 2), (1, 2, 2)),
    "dense": product_of(topi.dense, (2, 2), (2, 2)),
    "einsum": product_of(lambda a, b: topi.einsum("ij,kj->ik", a, b), (2, 2), (2, 2)),
    "tensordot": product_of(lambda a, b: topi.tensordot(a, b, 1), (2, 2), (2, 2)),
    "conv1d": product_of(lambda a, b: topi.conv1d(a, b, padding=1), (1, 1, 4), (2, 1, 2)),
    "conv2d": product_of(lambda a, b: topi.conv2d(a, b, padding=1), IMAGE, IMAGE),
    "conv3d": product_of(topi.conv3d, (1, 1, 1, 2, 2), (1, 1, 1, 2, 2)),
    "conv1d_transpose": product_of(
        lambda a, b: topi.conv1d_transpose(a, b, 2, groups=2), (1, 2, 2), (2, 1, 2)
    ),
    "conv3d_transpose": product_of(topi.conv3d_transpose, (1, 1, 1, 2, 2), (1, 1, 1, 2, 2)),
    "conv2d_transpose": product_of(lambda a, b: topi.conv2d_transpose(a, b, 2), IMAGE, IMAGE),
    "sum by index": fours(reduced(te.sum)),
    "prod by index": fours(reduced(te.prod)),
    "max by index": fours(reduced(te.max), AT_THE_TOP),
    "min by index": fours(reduced(te.min), AT_THE_BOTTOM),
    "logsumexp by index": fours(reduced(te.logsumexp)),
    "scan": fours(lambda x: te.scan(x, 0, SUM_AND_PRODUCT)),
}  # fmt: skip


def _gate_weights(rows: int) -> tuple[Tensor, Tensor, Tensor]:
    """Weights of input and state, and a bias."""
    numbers = np.sin(np.arange(rows * 5) * 1.3)
    square = numbers[: rows * 2].reshape(rows, 2)
    return te.const(square), te.const(square[::-1].copy()), te.const(numbers[-rows:])


LINEAR: Final[dict[str, Callable[[Tensor], Any]]] = {
    "adaptive_pool": lambda x: topi.adaptive_pool(x, 2),
    "bias_add": lambda x: topi.bias_add(topi.reshape(x, (4, 4)), topi.mean(x, (0, 2, 3))),
    "broadcast_to": lambda x: topi.broadcast_to(x, (3, 4, 2, 2)),
    "cast": lambda x: topi.cast(x, "float64"),
    "concatenate": lambda x: topi.concatenate([x, x], 1),
    "cumsum": topi.cumsum,
    "depth_to_space": lambda x: topi.depth_to_space(x, 2),
    "dropout": lambda x: topi.dropout(x, te.const(np.arange(16).reshape(1, 4, 2, 2) % 3 > 0)),
    "embedding": lambda x: topi.embedding(ROWS, topi.reshape(x, (4, 4))),
    "expand_dims": lambda x: topi.expand_dims(x, 0),
    "flatten": topi.flatten,
    "flip": topi.flip,
    "gather": lambda x: topi.gather(topi.reshape(x, (4, 4)), SQUARE, 1),
    "gather_nd": lambda x: topi.gather_nd(topi.reshape(x, (2, 1, 2, 4)), ROWS),
    "mean": topi.mean,
    "interpolate": lambda x: topi.interpolate(x, scales=1.5, axes=(1, 3), mode="cubic"),
    "meshgrid": lambda x: topi.meshgrid(*[topi.reshape(x, (16,))] * 2),
    "pad": lambda x: topi.pad(x, 1),
    "repeat": lambda x: topi.repeat(x, 2, 1),
    "reshape": lambda x: topi.reshape(x, (2, 8)),
    "resize": lambda x: topi.resize(x, 3, "bilinear"),
    "roll": lambda x: topi.roll(x, 1, 1),
    "scatter_add": lambda x: topi.scatter_add(
        topi.reshape(x, (4, 4)), SQUARE, topi.reshape(x, (4, 4))
    ),
    "rotary_embedding": lambda x: topi.rotary_embedding(x, TURNS, TURNS * 0.5),
    "scatter_elements": lambda x: topi.scatter_elements(
        topi.reshape(x, (4, 4)), SQUARE, topi.reshape(x, (4, 4)), 1
    ),
    "scatter_nd": lambda x: topi.scatter_nd(
        topi.reshape(x, (4, 4)), topi.reshape(ROWS, (1, 4)), topi.reshape(x, (4, 4))
    ),
    "segment_sum": lambda x: topi.segment_sum(topi.reshape(x, (4, 4)), ROWS, 2),
    "sequence_mask": lambda x: topi.sequence_mask(topi.reshape(x, (4, 4)), ROWS),
    "space_to_depth": lambda x: topi.space_to_depth(x, 2),
    "split": lambda x: topi.split(x, 2, 1),
    "squeeze": topi.squeeze,
    "stack": lambda x: topi.stack([x, x]),
    "strided_slice": lambda x: topi.strided_slice(topi.reshape(x, (4, 4)), (3, 0), (0, 4), (-2, 2)),
    "sum": topi.sum,
    "take": lambda x: topi.take(x, ROWS, 1),
    "tile": lambda x: topi.tile(x, 2),
    "transpose": topi.transpose,
    "tril": lambda x: topi.tril(x, 1),
    "trilu": lambda x: topi.trilu(x, 1),
    "triu": topi.triu,
    "upsampling": topi.upsampling,
}
"""Operators that move, copy and add up elements: of a tensor of shape (1, 4, 2, 2)."""

WITHOUT: Final = {
    "integers": (
        "argmax", "argmin", "argsort", "floor_divide", "left_shift", "mod", "right_shift",
    ),
    "truth values": (
        "equal", "greater", "greater_equal", "isfinite", "isnan", "less", "less_equal",
        "logical_and", "logical_not", "logical_or", "logical_xor", "not_equal",
    ),
    "constants": ("arange", "full", "full_like", "one_hot"),
}  # fmt: skip
"""Operators without a derivative, by what they give."""
