"""One call of every operator, each of its arguments by name."""

from __future__ import annotations

from typing import Any, Final

from tensorad import te
from tensorad.ir.tensor import Tensor


def _t(*shape: int, dtype: str = "float32", name: str = "T") -> Tensor:
    return te.placeholder(shape, dtype, name=name)


X: Final = _t(4, 4, name="X")
Y: Final = _t(4, 4, name="Y")
V: Final = _t(4, name="V")
N: Final = _t(4, dtype="int64", name="N")
M: Final = _t(4, 4, dtype="int64", name="M")
C: Final = _t(4, 4, dtype="bool", name="C")
LINE: Final = _t(2, 4, 6, name="L")
IMAGE: Final = _t(2, 4, 6, 6, name="I")
CUBE: Final = _t(2, 4, 6, 6, 6, name="Q")
GATES: Final = _t(16, 4, name="G")

ONE: Final = (
    "exp", "log", "log1p", "expm1", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "sin", "cos", "tan",
    "exp2", "log2", "log10", "cbrt", "asinh", "acosh", "atanh", "erfc", "erfinv", "lgamma",
    "digamma", "trigamma",
    "asin", "acos", "atan", "sinh", "cosh", "abs", "sign", "floor", "ceil", "round", "trunc",
    "isnan", "isfinite", "negative", "square", "relu", "relu6", "selu", "silu", "log_sigmoid",
    "hard_swish", "mish", "flatten",
)  # fmt: skip
TWO: Final = (
    "add", "subtract", "multiply", "divide", "pow", "power", "maximum", "minimum", "atan2", "fmod",
    "copysign", "heaviside", "logaddexp", "logaddexp2",
    "less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "matmul",
)  # fmt: skip
REDUCTIONS: Final = ("max", "min", "mean", "argmax", "argmin", "logsumexp")
CONVOLUTION: Final = {"strides": 1, "padding": 1, "dilation": 1, "groups": 2}
POOL: Final = {
    "kernel": 2, "stride": 2, "padding": 1, "pool_type": "avg", "count_include_pad": True,
    "ceil_mode": True,
}  # fmt: skip

CALLS: Final[dict[str, dict[str, Any]]] = {
    **{name: {"x": X} for name in ONE},
    **{name: {"a": X, "b": Y} for name in TWO},
    **{name: {"a": M, "b": M} for name in ("floor_divide", "mod", "left_shift", "right_shift")},
    **{name: {"a": C, "b": C} for name in ("logical_and", "logical_or", "logical_xor")},
    "logical_not": {"x": C},
    **{name: {"x": X, "axis": 1, "keepdims": True} for name in REDUCTIONS},
    **{
        name: {"x": X, "axis": 1, "keepdims": True, "dtype": "float64"} for name in ("sum", "prod")
    },
    "variance": {"x": X, "axis": 1, "keepdims": True, "mean_of": _t(4, 1)},
    **{
        name: {"x": X, "axis": 1, "exclusive": False, "reverse": True, "dtype": None}
        for name in ("cumsum", "cumprod")
    },
    **{name: {"x": X, "axis": 1, "reverse": True} for name in ("cummax", "cummin")},
    "logcumsumexp": {"x": X, "axis": 1, "exclusive": False, "reverse": True},
    "clip": {"x": X, "low": 0.0, "high": 1.0},
    "cast": {"x": X, "dtype": "int32"},
    "where": {"condition": C, "a": X, "b": Y},
    "broadcast_to": {"x": V, "shape": (4, 4)},
    "full": {"shape": (2, 3), "value": 1, "dtype": "float32"},
    "full_like": {"x": X, "value": 1},
    "arange": {"start": 0, "stop": 4, "step": 1, "dtype": "int64"},
    "tile": {"x": X, "repeats": (2, 1)},
    "repeat": {"x": X, "repeats": 2, "axis": 1},
    "flip": {"x": X, "axis": 1},
    "roll": {"x": X, "shift": 1, "axis": 1},
    "strided_slice": {"x": X, "begin": (0, 1), "end": (4, 4), "strides": (1, 2)},
    **{name: {"x": X, "k": 1} for name in ("triu", "tril")},
    "trilu": {"x": X, "k": -1, "upper": False},
    "space_to_depth": {"x": IMAGE, "block": 2},
    "depth_to_space": {"x": IMAGE, "block": 2},
    "meshgrid": {"tensors": V, "indexing": "ij"},
    "upsampling": {"x": IMAGE, "scale": 2, "method": "nearest"},
    "resize": {"x": IMAGE, "size": (3, 4), "method": "bilinear"},
    "interpolate": {
        "x": X, "sizes": (3, 2), "scales": (0.75, 0.5), "axes": (0, 1), "mode": "cubic",
        "coordinates": "tf_crop_and_resize", "rounding": "floor", "cubic_coefficient": -0.5,
        "exclude_outside": True, "roi": (0.0, 0.1, 1.0, 1.2), "extrapolation": 1.0,
        "antialias": True,
    },
    "gather": {"x": X, "indices": M, "axis": 1},
    "gather_nd": {"x": X, "indices": _t(4, 1, dtype="int64"), "axis": 1, "batch_dims": 1},
    "embedding": {"indices": N, "weight": X},
    "argsort": {"x": X, "axis": 1, "descending": True},
    "sort": {"x": X, "axis": 1, "descending": True},
    "top_k": {"x": X, "k": 2, "axis": 1, "largest": False},
    "one_hot": {"indices": N, "depth": 5, "dtype": "float32"},
    "scatter_add": {"x": X, "indices": M, "updates": Y, "axis": 1},
    "scatter_elements": {
        "x": X, "indices": M, "updates": Y, "axis": 1, "reduction": "max",
    },
    "scatter_nd": {
        "x": X, "indices": _t(4, 1, dtype="int64"), "updates": Y, "reduction": "mul", "axis": 1,
    },
    "segment_sum": {"x": X, "segments": N, "count": 3},
    "sequence_mask": {"x": X, "lengths": N, "axis": 1, "value": 0.0},
    "batch_matmul": {"a": LINE, "b": LINE},
    "tensordot": {"a": X, "b": Y, "axes": 1},
    "einsum": {"subscripts": "ij->i", "operands": X, "reduce": te.sum, "combine": None,
               "optimize": True},
    "reshape": {"x": X, "shape": (2, 8)},
    "transpose": {"x": X, "axes": (1, 0)},
    "expand_dims": {"x": X, "axis": 1},
    "squeeze": {"x": _t(1, 4), "axis": 0},
    "concatenate": {"tensors": [X, Y], "axis": 1},
    "stack": {"tensors": [X, Y], "axis": 1},
    "split": {"x": X, "sections": 2, "axis": 1},
    "pad": {"x": X, "before": (1, 1), "after": (1, 0), "value": 0.0, "mode": "edge"},
    "take": {"x": X, "indices": N, "axis": 1},
    "leaky_relu": {"x": X, "alpha": 0.1},
    "prelu": {"x": X, "slope": V, "axis": 1},
    "elu": {"x": X, "alpha": 1.0},
    "celu": {"x": X, "alpha": 0.5},
    "hard_sigmoid": {"x": X, "alpha": 0.2, "beta": 0.5},
    "gelu": {"x": X, "approximate": True},
    "softplus": {"x": X, "beta": 1.0},
    "dropout": {"x": X, "mask": C, "rate": 0.5},
    "conv1d": {"x": LINE, "weight": _t(4, 2, 3), **CONVOLUTION},
    "conv2d": {"x": IMAGE, "weight": _t(4, 2, 3, 3), **CONVOLUTION},
    "conv3d": {"x": _t(1, 4, 3, 3, 3, name="Q"), "weight": _t(2, 2, 2, 2, 2), **CONVOLUTION},
    "conv1d_transpose": {
        "x": LINE, "weight": _t(4, 2, 3), **CONVOLUTION, "output_padding": 0,
    },
    "conv2d_transpose": {
        "x": IMAGE, "weight": _t(4, 2, 3, 3), **CONVOLUTION, "output_padding": 0,
    },
    "conv3d_transpose": {
        "x": _t(1, 2, 3, 3, 3, name="Q"), "weight": _t(2, 1, 2, 2, 2), **CONVOLUTION,
        "output_padding": 0,
    },
    "dense": {"x": X, "weight": Y, "bias": V},
    "bias_add": {"x": X, "bias": V, "axis": 1},
    "nll_loss": {"log_probabilities": X, "targets": N},
    "cross_entropy": {"logits": X, "targets": N},
    "mse_loss": {"x": X, "target": Y},
    "l1_loss": {"x": X, "target": Y},
    "smooth_l1_loss": {"x": X, "target": Y, "beta": 1.0},
    "binary_cross_entropy": {"logits": X, "target": Y},
    "focal_loss": {"logits": X, "target": Y, "alpha": 0.25, "gamma": 2.0},
    "triplet_margin_loss": {
        "anchor": X, "positive": Y, "negative": X, "margin": 1.0, "epsilon": 1e-6,
    },
    "kl_div": {"log_probabilities": X, "target": Y},
    "softmax": {"x": X, "axis": 1},
    "log_softmax": {"x": X, "axis": 1},
    "layer_norm": {"x": X, "scale": V, "shift": V, "axis": 1, "epsilon": 1e-5},
    "rms_norm": {"x": X, "scale": V, "axis": 1, "epsilon": 1e-5},
    "batch_norm": {
        "x": X, "scale": V, "shift": V, "mean": V, "variance": V, "axis": 1, "epsilon": 1e-5,
    },
    "group_norm": {"x": X, "groups": 2, "scale": V, "shift": V, "epsilon": 1e-5},
    "instance_norm": {
        "x": IMAGE, "scale": V, "shift": V, "epsilon": 1e-5,
    },
    "rotary_embedding": {
        "x": _t(2, 3, 8), "cos": _t(5, 2, name="C"), "sin": _t(5, 2, name="S"),
        "positions": _t(2, 3, dtype="int64", name="N"),
        "interleaved": True, "heads": 2, "dimension": 4,
    },
    "l2_normalize": {"x": X, "axis": 1, "epsilon": 1e-5},
    "lrn": {"x": X, "size": 3, "axis": 1, "bias": 2.0, "alpha": 1e-4, "beta": 0.75},
    "pool": {"x": IMAGE, **POOL},
    "pool1d": {"x": LINE, **POOL},
    "pool3d": {"x": CUBE, **POOL},
    "global_pool": {"x": IMAGE, "pool_type": "avg"},
    "adaptive_pool": {"x": IMAGE, "output_size": 2, "pool_type": "avg"},
    "lstm_cell": {
        "x": X, "hidden": Y, "cell": X, "w_input": GATES, "w_hidden": GATES, "bias": _t(16),
    },
    "rnn_cell": {"x": X, "hidden": Y, "w_input": X, "w_hidden": Y, "bias": V},
}  # fmt: skip
