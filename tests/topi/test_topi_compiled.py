"""Every topi operator compiled, forward and backward, against the reference interpreter."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tensorad import te, topi
from tensorad.autodiff import vjp
from tensorad.building import evaluate
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Tensor

rng = np.random.default_rng(10)
X = te.placeholder((3, 5), name="X")
W = te.placeholder((4, 5), name="W")
B = te.placeholder((5,), name="B")
I4 = te.placeholder((2, 3, 6, 7), name="I4")
K4 = te.placeholder((2, 3, 3, 2), name="K4")
T = te.placeholder((3,), "int64", name="T")
VALUES = {
    t: (rng.random([int(n) for n in t.shape if isinstance(n, int)]) * 0.8 + 0.1).astype("f4")
    for t in (X, W, B, I4, K4)
} | {T: np.array([4, 0, 2])}

FLOAT: dict[str, Callable[[], Tensor]] = {
    **{
        name: (lambda n=name: getattr(topi, n)(X))
        for name in (
            "exp", "log", "log1p", "expm1", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "sin",
            "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "abs", "square", "negative",
        )
    },
    **{
        name: (lambda n=name: getattr(topi, n)(X, B))
        for name in ("add", "subtract", "multiply", "divide", "power", "maximum", "minimum",
                     "atan2")
    },
    **{
        f"{name} {axis}": (lambda n=name, a=axis: getattr(topi, n)(X, a))
        for name in ("sum", "prod", "max", "min", "mean")
        for axis in (None, 0, 1)
    },
    "clip": lambda: topi.clip(X, 0.3, 0.6),
    "where": lambda: topi.where(topi.greater(X, B), X, topi.square(B)),
    "broadcast_to": lambda: topi.broadcast_to(X, (2, 3, 5)),
    "reshape": lambda: topi.reshape(X, (5, 3)),
    "flatten": lambda: topi.flatten(I4),
    "transpose": lambda: topi.transpose(I4, (1, 3, 0, 2)),
    "concatenate": lambda: topi.concatenate([X, W, X]),
    "stack": lambda: topi.stack([X, topi.exp(X)], 1),
    "split": lambda: topi.split(X, [1, 4], 1)[1],
    "pad": lambda: topi.pad(X, (1, 2), (0, 1), 3.0),
    "take": lambda: topi.take(X, T, 1),
    "matmul": lambda: topi.matmul(X, topi.transpose(W)),
    "tensordot": lambda: topi.tensordot(X, W, ([1], [1])),
    "einsum": lambda: topi.einsum("ik,jk,k->ij", X, W, B),
    "dense": lambda: topi.nn.dense(X, topi.square(W), topi.sum(W, 1)),
    "conv2d": lambda: topi.nn.conv2d(I4, K4, (2, 1), (1, 0), (1, 2)),
    "avg_pool": lambda: topi.nn.pool(I4, 3, 2, 1, "avg", count_include_pad=False),
    "max_pool": lambda: topi.nn.pool(I4, 3, 2, 1, "max"),
    "max_pool 2x2": lambda: topi.nn.pool(I4, 2, 2),
    "softmax": lambda: topi.nn.softmax(X),
    "log_softmax": lambda: topi.nn.log_softmax(X, 0),
    "relu": lambda: topi.nn.relu(topi.subtract(X, 0.5)),
    "leaky_relu": lambda: topi.nn.leaky_relu(topi.subtract(X, 0.5)),
    "prelu": lambda: topi.nn.prelu(topi.subtract(X, 0.5), B),
    "cross_entropy": lambda: topi.nn.cross_entropy(X, T),
}  # fmt: skip

WHOLE: dict[str, Callable[[], Tensor]] = {
    **{
        name: (lambda n=name: getattr(topi, n)(topi.multiply(X, 5)))
        for name in ("sign", "floor", "ceil", "round", "trunc", "isnan", "isfinite")
    },
    **{
        name: (lambda n=name: getattr(topi, n)(X, B))
        for name in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")
    },
    "argmax": lambda: topi.argmax(X),
    "argmin": lambda: topi.argmin(X, 0, keepdims=True),
    "cast": lambda: topi.cast(topi.multiply(X, 100), "uint8"),
    "floor_divide": lambda: topi.floor_divide(topi.subtract(T, 3), -2),
    "mod": lambda: topi.mod(topi.subtract(T, 3), -2),
    "logic": lambda: topi.logical_and(topi.less(X, B), topi.logical_not(topi.less(X, 0.5))),
    "full": lambda: topi.full((2, 3), 7, "int16"),
}


def bound_inputs(t: Tensor) -> dict[Tensor, np.ndarray]:
    from tensorad.ir.visit import op_inputs, topological_ops

    used = {i for op in topological_ops([t]) for i in op_inputs(op)}
    return {p: v for p, v in VALUES.items() if p in used}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FLOAT)
def test_forward_and_backward(name: str) -> None:
    y = FLOAT[name]()
    inputs = bound_inputs(y)
    wrt = [p for p in inputs if p.dtype.is_float]
    head = te.placeholder(y.shape, name="H")
    inputs[head] = np.asarray(rng.random([n for n in y.shape if isinstance(n, int)]), "f4")
    made = [y, *vjp(y, wrt, head)]
    for t, got in zip(made, evaluate(made, inputs), strict=True):
        expected = interpret(t, inputs)
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", WHOLE)
def test_values_without_derivative(name: str) -> None:
    y = WHOLE[name]()
    inputs = bound_inputs(y)
    got = evaluate(y, inputs)
    assert got.dtype == np.dtype(str(y.dtype))
    np.testing.assert_array_equal(got, interpret(y, inputs))
