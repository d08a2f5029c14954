"""Dense layers: the notebook's three."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workloads.problem import Array, Arrays, Draw, Passes, Problem, Workload, pick
from tensorad import topi
from tensorad.ir.tensor import Tensor


def dense(n: int, m: int, k: int, by_x: bool) -> Problem:
    """X (n, k) times W (m, k) transposed, plus B."""
    wrt = ("X", "W", "B") if by_x else ("W", "B")
    d = Draw()
    inputs = {"X": d.normal(n, k), "W": d.normal(m, k, scale=k**-0.5), "B": d.normal(m)}

    def by_numpy(a: Arrays, h: Array) -> Passes:
        x, w, b = a["X"], a["W"], a["B"]
        y = np.empty_like(h)
        out = {name: np.empty_like(a[name]) for name in wrt}

        def forward() -> list[Array]:
            np.matmul(x, w.T, out=y)
            np.add(y, b, out=y)
            return [y]

        def gradients() -> list[Array]:
            if by_x:
                np.matmul(h, w, out=out["X"])
            np.matmul(h.T, x, out=out["W"])
            np.sum(h, axis=0, out=out["B"])
            return list(out.values())

        return Passes(forward, gradients)

    def define(X: Tensor, W: Tensor, B: Tensor) -> Tensor:
        return topi.nn.dense(X, W, B)

    product = 2.0 * n * m * k
    return Problem(
        inputs, wrt, d.normal(n, m), define, by_numpy,
        {
            "torch": lambda t, X, W, B: t.nn.functional.linear(X, W, B),
            "jax": lambda jax, X, W, B: X @ W.T + B,
        },
        (product, product * (2 if by_x else 1)),
        linear=True,
    )  # fmt: skip


def dense_softmax(n: int, m: int) -> Problem:
    """exp of a dense layer over its sums."""
    d = Draw()
    inputs = {"X": d.normal(n, m), "W": d.normal(m, m, scale=m**-0.5)}

    def define(X: Tensor, W: Tensor) -> Tensor:
        exps = topi.exp(topi.nn.dense(X, W))
        return exps / topi.sum(exps, axis=-1, keepdims=True)

    def by_torch(t: Any, X: Any, W: Any) -> Any:
        e = t.exp(X @ W.T)
        return e / e.sum(-1, keepdim=True)

    def by_jax(jax: Any, X: Any, W: Any) -> Any:
        e = jax.numpy.exp(X @ W.T)
        return e / e.sum(-1, keepdims=True)

    product = 2.0 * n * m * m
    return Problem(
        inputs, ("X", "W"), d.normal(n, m), define, _dense_softmax_numpy,
        {"torch": by_torch, "jax": by_jax}, (product, 2 * product),
    )  # fmt: skip


def _dense_softmax_numpy(a: Arrays, h: Array) -> Passes:
    x, w = a["X"], a["W"]
    y, d, dx, dw = np.empty_like(h), np.empty_like(h), np.empty_like(x), np.empty_like(w)

    def forward() -> list[Array]:
        np.matmul(x, w.T, out=y)
        np.exp(y, out=y)
        np.divide(y, y.sum(-1, keepdims=True), out=y)
        return [y]

    def both() -> list[Array]:
        forward()
        np.subtract(h, np.einsum("ij,ij->i", h, y)[:, None], out=d)
        np.multiply(d, y, out=d)
        np.matmul(d, w, out=dx)
        np.matmul(d.T, x, out=dw)
        return [y, dx, dw]

    return Passes(forward, lambda: both()[1:], both)


def _draw_dense(rng: np.random.Generator) -> dict[str, int]:
    return {"n": pick(rng, 8, 128), "m": pick(rng, 300, 4000), "k": pick(rng, 300, 6000)}


WORKLOADS = (
    Workload(
        "dense_seed", "notebook", {"n": 32, "m": 3000, "k": 10000},
        lambda n, m, k: dense(n, m, k, by_x=False), _draw_dense,
        "gradients of W and B",
    ),
    Workload(
        "dense_small", "notebook", {"n": 32, "m": 1000, "k": 1000},
        lambda n, m, k: dense(n, m, k, by_x=True),
        lambda rng: {"n": pick(rng, 8, 128), "m": pick(rng, 200, 2000), "k": pick(rng, 200, 2000)},
        "gradients of X, W and B",
    ),
    Workload(
        "dense_softmax", "notebook", {"n": 60, "m": 1000}, dense_softmax,
        lambda rng: {"n": pick(rng, 16, 200), "m": pick(rng, 200, 2000)},
        "exp of a dense layer over its sums",
    ),
)  # fmt: skip
