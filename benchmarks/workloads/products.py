"""Products of several indices: batches of matrices, attention, MTTKRP."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workloads.problem import (
    Array,
    Arrays,
    Draw,
    Passes,
    Problem,
    Workload,
    pick,
    tensor,
)
from tensorad import te, topi
from tensorad.ir.tensor import Tensor


def bmm(b: int, n: int, k: int, m: int) -> Problem:
    """b products of (n, k) and (k, m)."""
    d = Draw()
    inputs = {"A": d.normal(b, n, k), "B": d.normal(b, k, m)}

    def define(A: Tensor, B: Tensor) -> Tensor:
        r = te.reduce_axis(k, name="r")
        return tensor((b, n, m), lambda s, i, j: te.sum(A[s, i, r] * B[s, r, j], axis=r), name="Y")

    product = 2.0 * b * n * k * m
    return Problem(
        inputs, ("A", "B"), d.normal(b, n, m), define, _bmm_numpy,
        {"torch": lambda t, A, B: t.bmm(A, B), "jax": lambda jax, A, B: A @ B},
        (product, 2 * product), linear=True,
    )  # fmt: skip


def _bmm_numpy(a: Arrays, h: Array) -> Passes:
    left, right = a["A"], a["B"]
    y, dl, dr = np.empty_like(h), np.empty_like(left), np.empty_like(right)

    def forward() -> list[Array]:
        np.matmul(left, right, out=y)
        return [y]

    def gradients() -> list[Array]:
        np.matmul(h, right.swapaxes(1, 2), out=dl)
        np.matmul(left.swapaxes(1, 2), h, out=dr)
        return [dl, dr]

    return Passes(forward, gradients)


def attention(b: int, heads: int, n: int, d: int) -> Problem:
    """softmax(q k / sqrt(d)) v."""
    draw = Draw()
    shape = (b, heads, n, d)
    inputs = {name: draw.normal(*shape) for name in "qkv"}
    scale = d**-0.5

    def define(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        e, t = te.reduce_axis(d, name="e"), te.reduce_axis(n, name="t")
        scores = te.compute(
            (b, heads, n, n),
            lambda s, h, i, j: te.sum(q[s, h, i, e] * k[s, h, j, e], axis=e) * scale,
            name="scores",
        )
        p = topi.nn.softmax(scores)
        return tensor(
            shape, lambda s, h, i, c: te.sum(p[s, h, i, t] * v[s, h, t, c], axis=t), name="Y"
        )

    def by_torch(t: Any, q: Any, k: Any, v: Any) -> Any:
        return t.softmax(q @ k.transpose(-1, -2) * scale, -1) @ v

    def fused_torch(t: Any, q: Any, k: Any, v: Any) -> Any:
        return t.nn.functional.scaled_dot_product_attention(q, k, v)

    def by_jax(jax: Any, q: Any, k: Any, v: Any) -> Any:
        return jax.nn.softmax(q @ k.swapaxes(-1, -2) * scale, -1) @ v

    products = 4.0 * b * heads * n * n * d
    return Problem(
        inputs, ("q", "k", "v"), draw.normal(*shape), define, _attention_numpy,
        {"torch": by_torch, "torch_alt": fused_torch, "jax": by_jax},
        (products, 2 * products),
    )  # fmt: skip


def _attention_numpy(a: Arrays, h: Array) -> Passes:
    q, k, v = a["q"], a["k"], a["v"]
    scale = q.dtype.type(q.shape[-1] ** -0.5)

    def weights() -> Array:
        p: Array = q @ k.swapaxes(-1, -2)
        p *= scale
        p -= p.max(-1, keepdims=True)
        np.exp(p, out=p)
        p /= p.sum(-1, keepdims=True)
        return p

    def back(p: Array) -> list[Array]:
        dv = p.swapaxes(-1, -2) @ h
        dp = h @ v.swapaxes(-1, -2)
        dp -= np.einsum("...ij,...ij->...i", dp, p)[..., None]
        dp *= p
        dp *= scale
        return [dp @ k, dp.swapaxes(-1, -2) @ q, dv]

    def both() -> list[Array]:
        p = weights()
        return [p @ v, *back(p)]

    return Passes(lambda: [weights() @ v], lambda: back(weights()), both)


def mttkrp(n: int, r: int) -> Problem:
    """Y[i, r] = sum over j, k of T[i, j, k] C[j, r] D[k, r]."""
    d = Draw()
    inputs = {"T": d.normal(n, n, n), "C": d.normal(n, r), "D": d.normal(n, r)}
    letters = "ijk,jr,kr->ir"

    def define(T: Tensor, C: Tensor, D: Tensor) -> Tensor:
        j, k = te.reduce_axis(n, name="j"), te.reduce_axis(n, name="k")
        return tensor(
            (n, r), lambda i, s: te.sum(T[i, j, k] * C[j, s] * D[k, s], axis=[j, k]), name="Y"
        )

    flops = 2.0 * n**3 * r
    return Problem(
        inputs, ("T", "C", "D"), d.normal(n, r), define, _mttkrp_numpy,
        {
            "torch": lambda t, T, C, D: t.einsum(letters, T, C, D),
            "jax": lambda jax, T, C, D: jax.numpy.einsum(letters, T, C, D),
        },
        (flops, 3 * flops),
    )  # fmt: skip


def _mttkrp_numpy(a: Arrays, h: Array) -> Passes:
    t, c, d = a["T"], a["C"], a["D"]
    n, r = c.shape
    flat = t.reshape(n * n, n)

    def inner() -> Array:
        return (flat @ d).reshape(n, n, r)

    def back(td: Array) -> list[Array]:
        hc = (h[:, None, :] * c[None]).reshape(n * n, r)
        return [(hc @ d.T).reshape(t.shape), np.einsum("ijr,ir->jr", td, h), flat.T @ hc]

    def forward() -> list[Array]:
        return [np.einsum("ijr,jr->ir", inner(), c)]

    def both() -> list[Array]:
        td = inner()
        return [np.einsum("ijr,jr->ir", td, c), *back(td)]

    return Passes(forward, lambda: back(inner()), both)


WORKLOADS = (
    Workload(
        "bmm", "layers", {"b": 64, "n": 256, "k": 64, "m": 256}, bmm,
        lambda rng: {
            "b": pick(rng, 8, 64), "n": pick(rng, 40, 300),
            "k": pick(rng, 20, 150), "m": pick(rng, 40, 300),
        },
    ),
    Workload(
        "attention", "layers", {"b": 8, "heads": 8, "n": 256, "d": 64}, attention,
        lambda rng: {
            "b": pick(rng, 2, 8), "heads": pick(rng, 2, 12),
            "n": pick(rng, 60, 400), "d": pick(rng, 24, 100),
        },
        "torch_alt: scaled_dot_product_attention",
    ),
    Workload(
        "mttkrp", "layers", {"n": 128, "r": 32}, mttkrp,
        lambda rng: {"n": pick(rng, 60, 180), "r": pick(rng, 8, 70)},
        "operations counted as two products, one after the other",
    ),
)  # fmt: skip
