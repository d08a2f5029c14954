"""Operators no library has a kernel for: min-plus products, L1 distances, a stencil in time."""

from __future__ import annotations

from collections.abc import Callable
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
from tensorad import te
from tensorad.ir.tensor import Tensor

STEPS = 8
FLOW, GROWTH = 0.1, 0.05


def minplus(n: int) -> Problem:
    """Y[i, j] = the least A[i, k] + B[k, j]."""
    d = Draw()
    inputs = {"A": d.normal(n, n), "B": d.normal(n, n)}

    def define(A: Tensor, B: Tensor) -> Tensor:
        k = te.reduce_axis(n, name="k")
        return tensor((n, n), lambda i, j: te.min(A[i, k] + B[k, j], axis=k), name="Y")

    def by_numba(a: Arrays, h: Array) -> Passes:
        from benchmarks.workloads.loops.folds import minplus

        return minplus(a, h)

    operations = 2.0 * n**3
    return Problem(
        inputs, ("A", "B"), d.normal(n, n), define, _minplus_numpy,
        {
            "torch": lambda t, A, B: (A[:, None, :] + B.T[None]).min(-1).values,
            "torch_alt": lambda t, A, B: (A[:, :, None] + B[None]).amin(1),
            "jax": lambda jax, A, B: (A[:, None, :] + B.T[None]).min(-1),
            "jax_alt": lambda jax, A, B: (A[:, :, None] + B[None]).min(1),
        },
        (operations, operations), numba=by_numba, kinks=1e-4,
    )  # fmt: skip


def _minplus_numpy(a: Arrays, h: Array) -> Passes:
    """Row by row, so that the sums stay in the cache."""
    left, right = a["A"], a["B"]
    n = left.shape[0]
    y, dl, dr = np.empty_like(h), np.empty_like(left), np.empty_like(right)
    sums, columns = np.empty_like(right), np.arange(n)

    def forward() -> list[Array]:
        for i in range(n):
            np.add(right, left[i][:, None], out=sums)
            np.min(sums, axis=0, out=y[i])
        return [y]

    def gradients() -> list[Array]:
        dr.fill(0)
        for i in range(n):
            np.add(right, left[i][:, None], out=sums)
            winner = sums.argmin(0)
            dl[i] = np.bincount(winner, h[i], n)
            dr[winner, columns] += h[i]
        return [dl, dr]

    return Passes(forward, gradients)


def pairwise_l1(n: int, d: int) -> Problem:
    """All L1 distances between two sets of n points."""
    draw = Draw()
    inputs = {"X": draw.normal(n, d), "Y": draw.normal(n, d)}

    def define(X: Tensor, Y: Tensor) -> Tensor:
        k = te.reduce_axis(d, name="k")
        return tensor((n, n), lambda i, j: te.sum(te.abs(X[i, k] - Y[j, k]), axis=k), name="Z")

    def by_numba(a: Arrays, h: Array) -> Passes:
        from benchmarks.workloads.loops.folds import pairwise_l1

        return pairwise_l1(a, h)

    operations = 3.0 * n * n * d
    return Problem(
        inputs, ("X", "Y"), draw.normal(n, n), define, _pairwise_numpy,
        {
            "torch": lambda t, X, Y: (X[:, None] - Y[None]).abs().sum(-1),
            "torch_alt": lambda t, X, Y: t.cdist(X, Y, p=1.0),
            "jax": lambda jax, X, Y: jax.numpy.abs(X[:, None] - Y[None]).sum(-1),
        },
        (operations, 2 * operations), numba=by_numba,
    )  # fmt: skip


def _pairwise_numpy(a: Arrays, h: Array) -> Passes:
    x, points = a["X"], a["Y"]
    z, dx, dy = np.empty_like(h), np.empty_like(x), np.empty_like(points)
    part = np.empty_like(points)

    def forward() -> list[Array]:
        for i in range(len(x)):
            np.subtract(x[i], points, out=part)
            np.abs(part, out=part)
            np.sum(part, axis=-1, out=z[i])
        return [z]

    def gradients() -> list[Array]:
        dy.fill(0)
        for i in range(len(x)):
            np.subtract(x[i], points, out=part)
            np.sign(part, out=part)
            np.multiply(part, h[i][:, None], out=part)
            np.sum(part, axis=0, out=dx[i])
            np.subtract(dy, part, out=dy)
        return [dx, dy]

    return Passes(forward, gradients)


def stencil2d(n: int) -> Problem:
    """Eight steps of diffusion and growth on a square, 0 outside."""
    d = Draw()
    inputs = {"U": d.normal(n, n, scale=0.3)}

    def define(U: Tensor) -> Tensor:
        for step in range(STEPS):
            U = te.compute((n, n), _step_of(U, n), name=f"U{step + 1}")
        return U

    def with_pad(pad: Callable[[Any], Any], u: Any) -> Any:
        for _ in range(STEPS):
            p = pad(u)
            around = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
            u = u + FLOW * (around - 4 * u) + GROWTH * u * (1 - u * u)
        return u

    def by_numba(a: Arrays, h: Array) -> Passes:
        from benchmarks.workloads.loops.windows import stencil2d

        return stencil2d(a, h, STEPS, FLOW, GROWTH)

    operations = 11.0 * n * n * STEPS
    return Problem(
        inputs, ("U",), d.normal(n, n), define, _stencil_numpy,
        {
            "torch": lambda t, U: with_pad(lambda u: t.nn.functional.pad(u, (1, 1, 1, 1)), U),
            "jax": lambda jax, U: with_pad(lambda u: jax.numpy.pad(u, 1), U),
        },
        (operations, operations), numba=by_numba,
    )  # fmt: skip


def _step_of(u: Tensor, n: int) -> Callable[[Any, Any], Any]:
    def formula(y: Any, x: Any) -> Any:
        here = u[y, x]
        around = te.select(y > 0, u[y - 1, x], 0.0) + te.select(y < n - 1, u[y + 1, x], 0.0)
        around += te.select(x > 0, u[y, x - 1], 0.0) + te.select(x < n - 1, u[y, x + 1], 0.0)
        return here + FLOW * (around - 4 * here) + GROWTH * here * (1 - here * here)

    return formula


def _stencil_numpy(a: Arrays, h: Array) -> Passes:
    n = h.shape[0]
    kind = h.dtype.type
    flow, growth, four = kind(FLOW), kind(GROWTH), kind(4)
    states = np.zeros((STEPS + 1, n + 2, n + 2), h.dtype)
    states[0, 1:-1, 1:-1] = a["U"]
    adjoint, around, part = np.zeros((n + 2, n + 2), h.dtype), np.empty_like(h), np.empty_like(h)

    def flows(u: Array) -> None:
        """The flow into every cell, in `around`."""
        np.add(u[:-2, 1:-1], u[2:, 1:-1], out=around)
        np.add(around, u[1:-1, :-2], out=around)
        np.add(around, u[1:-1, 2:], out=around)
        np.multiply(u[1:-1, 1:-1], four, out=part)
        np.subtract(around, part, out=around)
        np.multiply(around, flow, out=around)

    def run(count: int) -> None:
        for t in range(count):
            here, there = states[t, 1:-1, 1:-1], states[t + 1, 1:-1, 1:-1]
            flows(states[t])
            np.multiply(here, here, out=part)
            np.subtract(1, part, out=part)
            np.multiply(part, here, out=part)
            np.multiply(part, growth, out=part)
            np.add(here, around, out=there)
            np.add(there, part, out=there)

    def back() -> list[Array]:
        inner = adjoint[1:-1, 1:-1]
        inner[...] = h
        for t in range(STEPS - 1, -1, -1):
            here = states[t, 1:-1, 1:-1]
            flows(adjoint)
            np.multiply(here, here, out=part)
            np.multiply(part, kind(-3) * growth, out=part)
            np.add(part, kind(1) + growth, out=part)
            np.multiply(part, inner, out=part)
            np.add(part, around, out=inner)
        return [inner]

    def forward() -> list[Array]:
        run(STEPS)
        return [states[STEPS, 1:-1, 1:-1]]

    def gradients() -> list[Array]:
        run(STEPS - 1)
        return back()

    return Passes(forward, gradients, lambda: [*forward(), *back()])


WORKLOADS = (
    Workload("minplus", "unusual", {"n": 512}, minplus, lambda rng: {"n": pick(rng, 150, 500)}),
    Workload(
        "pairwise_l1", "unusual", {"n": 1024, "d": 64}, pairwise_l1,
        lambda rng: {"n": pick(rng, 300, 1000), "d": pick(rng, 8, 100)},
        "torch_alt: cdist",
    ),
    Workload(
        "stencil2d", "unusual", {"n": 1024}, stencil2d, lambda rng: {"n": pick(rng, 300, 1500)},
        "8 steps",
    ),
)  # fmt: skip
