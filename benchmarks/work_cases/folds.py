"""Reductions that are no sums, scans, normalisations, data-dependent indices."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.work_cases.case import ByHand, Case, Problem, by, inputs
from tensorad import te, topi
from tensorad.ir.tensor import Tensor

Make = Callable[[int], Problem]
_N, _M = 6, 20


def _matrix(f: Callable[[Tensor], Any], n: int = _N, m: int = _M) -> Make:
    def make(g: int) -> Problem:
        (x,) = inputs((n + g, m))
        return by(f(x), x)

    return make


def _layer_norm(g: int) -> Problem:
    x, gamma, beta = inputs((_N + g, _M), (_M,), (_M,))
    return by(topi.nn.layer_norm(x, gamma, beta), x, gamma, beta)


def _images(f: Callable[[Tensor], Any]) -> Make:
    def make(g: int) -> Problem:
        (x,) = inputs((3 + g, 4, 5, 5))
        return by(f(x), x)

    return make


def _indexed(
    f: Callable[[Tensor, Tensor], Any], shape: tuple[int, ...], high: int, low: int = 0
) -> Make:
    """f(X, indices) with 8 random indices in [low, high)."""

    def make(g: int) -> Problem:
        (x,) = inputs((shape[0], shape[1] + g))
        index = te.placeholder((8,), "int64", name="index")
        values = np.random.default_rng(0).integers(low, high, 8)
        return Problem(f(x, index), (x,), {}, {index: values})

    return make


def _scattered(reduction: str) -> Make:
    """Rows of X twice as large put into X."""

    def rows(x: Tensor, index: Tensor) -> Tensor:
        return topi.scatter_nd(
            x, topi.expand_dims(index, 0), topi.split(x * 2.0, [8])[0], reduction
        )

    return _indexed(rows, (9, 4), 9)


def _max_plus(g: int) -> Problem:
    a, b = inputs((4 + g, 5), (5, 3))
    return by(topi.einsum("ik,kj->ij", a, b, reduce=te.max, combine=operator.add), a, b)


def _log_product(g: int) -> Problem:
    a, b = inputs((4 + g, 5), (5, 3))
    return by(topi.einsum("ik,kj->ij", a, b, reduce=te.logsumexp, combine=operator.add), a, b)


def _recurrence(g: int) -> Problem:
    """y[t] = a[t] * y[t-1] + b[t], one step of the fold a pair."""
    n = 7 + g
    a, b = inputs((3, n), (3, n))
    compose = te.comm_reducer(
        lambda x, y: (x[0] * y[0], y[0] * x[1] + y[1]),
        lambda s, t: (te_one(s), te_zero(t)),
        "compose",
    )
    k = te.reduce_axis(n)
    y = te.compute((3,), lambda i: compose((a[i, k], b[i, k]), axis=k)[1])
    return by(y, a, b)


def te_one(dtype: Any) -> Any:
    """1 of the dtype."""
    return te.const(1.0, dtype)


def te_zero(dtype: Any) -> Any:
    """0 of the dtype."""
    return te.const(0.0, dtype)


def _cross_entropy(g: int) -> Problem:
    (x,) = inputs((8 + g, 5))
    targets = te.placeholder((8 + g,), "int64", name="targets")
    values = np.random.default_rng(0).integers(0, 5, 8 + g)
    return Problem(topi.nn.cross_entropy(x, targets), (x,), {}, {targets: values})


def _symbolic_cumsum(g: int) -> Problem:
    n = te.size("n")
    (x,) = inputs((n,))
    k = te.reduce_axis(n)
    return by(te.compute((n,), lambda i: te.sum(x[k], axis=k, where=k <= i)), x, n=8 + g)


def _symbolic_softmax(g: int) -> Problem:
    n, m = te.size("n"), te.size("m")
    (x,) = inputs((n, m))
    return by(topi.nn.softmax(x), x, n=6 + g, m=20)


def _lstm(g: int) -> Problem:
    x, h, c, wi, wh = inputs((2 + g, 3), (2 + g, 4), (2 + g, 4), (16, 3), (16, 4), names="XSCWU")
    return by(topi.nn.lstm_cell(x, h, c, wi, wh)[0], x, h, c, wi, wh)


_NM = _N * _M
CASES = [
    Case("softmax", _matrix(topi.nn.softmax), ByHand(6 * _NM, 4 * _NM), second=True),
    Case("softmax over columns", _matrix(lambda x: topi.nn.softmax(x, 0))),
    Case("softmax, all sizes symbolic", _symbolic_softmax, ByHand(6 * _NM, 4 * _NM)),
    Case("log_softmax", _matrix(topi.nn.log_softmax), ByHand(5 * _NM, 2 * _NM), second=True),
    Case("logsumexp", _matrix(lambda x: topi.logsumexp(x, 1)), ByHand(4 * _NM, 2 * _NM)),
    Case("layer_norm", _layer_norm, ByHand(7 * _NM, 9 * _NM), second=True),
    Case("layer_norm, X alone", _matrix(topi.nn.layer_norm)),
    Case("rms_norm", _matrix(topi.nn.rms_norm)),
    Case("l2_normalize", _matrix(topi.nn.l2_normalize)),
    Case("batch_norm", _images(topi.nn.batch_norm)),
    Case("group_norm", _images(lambda x: topi.nn.group_norm(x, 2))),
    Case("variance", _matrix(lambda x: topi.variance(x, 1))),
    Case("mean", _matrix(lambda x: topi.mean(x, 1))),
    Case("max", _matrix(lambda x: topi.max(x, 1)), second=True),
    Case("min of all", _matrix(topi.min)),
    Case("prod", _matrix(lambda x: topi.prod(x, 1)), second=True),
    Case("cumsum by a triangle", _symbolic_cumsum),
    Case("cumsum", _matrix(topi.cumsum), second=True),
    Case("cumprod", _matrix(topi.cumprod)),
    Case("cummax", _matrix(topi.cummax)),
    Case("linear recurrence", _recurrence),
    Case("max-plus product", _max_plus),
    Case("logsumexp product", _log_product),
    Case("take rows", _indexed(topi.take, (9, 4), 9), second=True),
    Case("take columns", _indexed(lambda x, i: topi.take(x, i, 1), (3, 9), 9)),
    Case("take from both ends", _indexed(topi.take, (9, 4), 9, low=-9)),
    Case("scatter, the last one stays", _scattered("set")),
    Case("scatter the largest", _scattered("max")),
    Case("instance_norm", _images(topi.nn.instance_norm)),
    Case("segment sum", _indexed(lambda x, i: topi.segment_sum(x, i, 4), (8, 3), 4)),
    Case("embedding of squares", _indexed(lambda x, i: topi.embedding(i, x * x), (9, 4), 9)),
    Case("cross entropy", _cross_entropy),
    Case("relu", _matrix(topi.nn.relu)),
    Case("gelu", _matrix(topi.nn.gelu)),
    Case("softplus", _matrix(topi.nn.softplus)),
    Case("lstm cell", _lstm),
]
