"""Bodies that attract each other, in steps that move the speeds first, then the places."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import tensorad as ta
from benchmarks.workloads.problem import Array, Arrays, Draw, Passes, Problem, Workload, pick
from benchmarks.workloads.programs.compiled_steps import compiled
from tensorad import te, topi
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor

WRT = ("X", "V", "m")
TIME = 1.0
SOFT = 0.1
"""Added to squares of distances, so that nobody is thrown out."""


def particles(steps: int, n: int) -> Problem:
    """By places and speeds in space, and masses; the loss is the mean square of the last places."""
    d = Draw()
    inputs = {
        "X": d.normal(n, 3), "V": d.normal(n, 3, scale=0.3), "m": d.uniform(0.5 / n, 1.5 / n, n)
    }  # fmt: skip
    dt = TIME / steps

    def define(X: Tensor, V: Tensor, m: Tensor) -> Tensor:
        def step(_: Expr, carry: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            x, v = carry
            a, j = te.reduce_axis(3, name="a"), te.reduce_axis(n, name="j")
            squares = te.compute(
                (n, n),
                lambda p, q: te.sum((x[q, a] - x[p, a]) * (x[q, a] - x[p, a]), axis=a) + SOFT,
                name="squares",
            )
            pull = te.compute(
                (n, n),
                lambda p, q: m[q] / (squares[p, q] * te.sqrt(squares[p, q])),
                name="pull",
            )
            v = te.compute(
                (n, 3),
                lambda p, c: v[p, c] + dt * te.sum((x[j, c] - x[p, c]) * pull[p, j], axis=j),
                name="v",
            )
            return x + dt * v, v

        last, _ = ta.for_loop(0, steps, step, (X, V))
        return topi.sum(last * last) * (1 / n)

    def by_torch(made: Any, t: Any, X: Any, V: Any, m: Any) -> Any:
        step = made(_torch_step)
        for _ in range(steps):
            X, V = step(t, X, V, m, dt)
        return (X * X).sum() / n

    def by_jax(unroll: int, jax: Any, X: Any, V: Any, m: Any) -> Any:
        def step(carry: Any, _: None) -> Any:
            x, v = carry
            return moved(jax.numpy, x, v, m, dt), None

        (last, _), _ = jax.lax.scan(step, (X, V), None, length=steps, unroll=unroll)
        return (last * last).sum() / n

    flops = 20.0 * steps * n * n
    return Problem(
        inputs, WRT, np.ones((), np.float32), define, partial(_numpy, steps),
        {
            "torch": partial(by_torch, lambda step: step),
            "torch_compile": partial(by_torch, compiled),
            "jax": partial(by_jax, 1),
            "jax_alt": partial(by_jax, 4),
        },
        (flops, 2 * flops), tolerance=1e-3,
    )  # fmt: skip


def moved(module: Any, x: Any, v: Any, m: Any, dt: float) -> tuple[Any, Any]:
    """One step, in a module with NumPy's names."""
    apart = x[None, :, :] - x[:, None, :]
    squares = (apart * apart).sum(-1) + SOFT
    pull = m / (squares * module.sqrt(squares))
    v = v + dt * (apart * pull[:, :, None]).sum(1)
    return x + dt * v, v


def _torch_step(t: Any, x: Any, v: Any, m: Any, dt: float) -> tuple[Any, Any]:
    return moved(t, x, v, m, dt)


def _numpy(steps: int, a: Arrays, head: Array) -> Passes:
    x0, v0, m = (a[name] for name in WRT)
    kind = x0.dtype.type
    dt, soft, n = kind(TIME / steps), kind(SOFT), len(x0)

    def pulls(x: Array) -> tuple[Array, Array, Array]:
        """Differences of places, their softened squares, and minus the cubes of distances."""
        apart = x[None] - x[:, None]
        squares = (apart * apart).sum(-1) + soft
        return apart, squares, 1 / (squares * np.sqrt(squares))

    def forward() -> list[Array]:
        """All places."""
        x, v, places = x0, v0, [x0]
        for _ in range(steps):
            apart, _, cubes = pulls(x)
            v = v + dt * (apart * (m * cubes)[:, :, None]).sum(1)
            x = x + dt * v
            places.append(x)
        return places

    def loss(places: list[Array]) -> Array:
        return np.asarray((places[-1] * places[-1]).sum(dtype=kind) / kind(n))

    def both() -> list[Array]:
        places = forward()
        dx, dv, dm = head * kind(2 / n) * places[-1], np.zeros_like(v0), np.zeros_like(m)
        for x in reversed(places[:-1]):
            apart, squares, cubes = pulls(x)
            dv += dt * dx
            force = dt * dv
            along = (force[:, None] * apart).sum(-1) * cubes
            dm += along.sum(0)
            turned = force[:, None] * (m * cubes)[:, :, None]
            turned -= (3 * m * along / squares)[:, :, None] * apart
            dx = dx + turned.sum(0) - turned.sum(1)
        return [loss(places), dx, dv, dm]

    return Passes(lambda: [loss(forward())], lambda: both()[1:], both)


WORKLOADS = (
    Workload(
        "particles", "programs", {"steps": 1000, "n": 64}, particles,
        lambda rng: {"steps": pick(rng, 200, 2000), "n": pick(rng, 20, 150)},
    ),
)  # fmt: skip
