"""Which tensors are 0 where their inputs are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.autodiff.local.linearity import vanish

X = ta.placeholder((3,), "float64", name="X")
W = ta.placeholder((3,), "float64", name="W")
N = ta.placeholder((), "int64", name="N")


def scattered(f: Any) -> Any:
    return ta.scatter((4,), 3, lambda i: (i, f(i)), init=np.zeros(4))


@pytest.mark.parametrize(
    "y",
    [
        X * W + X.sum() / W,
        -ta.compute((3,), lambda i: X[2 - i], name="back"),
        ta.select(W > 0.0, X, X * 0.5),
        scattered(lambda i: X[i] * 2.0),
        ta.scan(X, 0),
        ta.cond(N > 0, lambda: X * W, lambda: X[::-1]),
        ta.for_loop(0, N, lambda t, c: c * W + X, X * 0.0),
        ta.scan(lambda c, x: (c + x, c * W), np.float64(0), X)[1],
        ta.function(lambda x, w: x @ w)(X, W),
        X.astype("float32"),
    ],
    ids=lambda y: y.name,
)
def test_they_are_where_every_term_has_an_input(y: Any) -> None:
    assert vanish([y], [X])
    assert not vanish([y, W], [X])


@pytest.mark.parametrize(
    "y",
    [
        X + 1.0,
        W * 2.0,
        ta.exp(X),
        ta.select(W > 0.0, X, W),
        scattered(lambda i: W[i]),
        ta.cond(N > 0, lambda: X * W, lambda: W),
        ta.for_loop(0, N, lambda t, c: c + W, X),
        ta.for_loop(0, N, lambda t, c: (c[1], c[0] * 1.0), (X, W))[0],
        ta.scan(lambda c, x: (c + x, c * W), np.float64(1), X)[1],
    ],
    ids=lambda y: y.name,
)
def test_they_are_not_where_one_has_none(y: Any) -> None:
    assert not vanish([y], [X])
