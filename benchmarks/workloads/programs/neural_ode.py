"""A differential equation whose right side is a perceptron, by Runge and Kutta's fourth order."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import tensorad as ta
from benchmarks.workloads.problem import Array, Arrays, Draw, Passes, Problem, Workload, pick
from benchmarks.workloads.programs.compiled_steps import compiled
from tensorad import te, topi
from tensorad.ir.tensor import Tensor

WRT = ("Y", "W1", "b1", "W2", "b2")
TIME = 2.0


def neural_ode(steps: int, n: int, width: int, hidden: int) -> Problem:
    """dy/dt = tanh(y W1 + b1) W2 + b2, from 0 to `TIME`; the loss is the mean square of the end."""
    d = Draw()
    inputs = {
        "Y": d.normal(n, width),
        "W1": d.normal(width, hidden, scale=width**-0.5), "b1": d.normal(hidden, scale=0.1),
        "W2": d.normal(hidden, width, scale=hidden**-0.5), "b2": d.normal(width, scale=0.1),
    }  # fmt: skip
    dt = TIME / steps

    def define(Y: Tensor, W1: Tensor, b1: Tensor, W2: Tensor, b2: Tensor) -> Tensor:
        def slope(y: Tensor) -> Tensor:
            k, m = te.reduce_axis(width, name="k"), te.reduce_axis(hidden, name="m")
            active = te.compute(
                (n, hidden),
                lambda i, j: te.tanh(te.sum(y[i, k] * W1[k, j], axis=k) + b1[j]),
                name="active",
            )
            found: Tensor = te.compute(
                (n, width), lambda i, j: te.sum(active[i, m] * W2[m, j], axis=m) + b2[j], "slope"
            )
            return found

        last = ta.for_loop(0, steps, lambda _, y: runge_kutta(slope, y, dt), Y)
        return topi.sum(last * last) * (1 / (n * width))

    def by_torch(made: Any, t: Any, Y: Any, **p: Any) -> Any:
        step = made(_torch_step)
        for _ in range(steps):
            Y = step(t, Y, dt, **p)
        return (Y * Y).mean()

    def by_jax(unroll: int, jax: Any, Y: Any, W1: Any, b1: Any, W2: Any, b2: Any) -> Any:
        def slope(y: Any) -> Any:
            return jax.numpy.tanh(y @ W1 + b1) @ W2 + b2

        def step(y: Any, _: None) -> Any:
            return runge_kutta(slope, y, dt), None

        last, _ = jax.lax.scan(step, Y, None, length=steps, unroll=unroll)
        return (last * last).mean()

    products = 4 * 4.0 * steps * n * width * hidden
    return Problem(
        inputs, WRT, np.ones((), np.float32), define, partial(_numpy, steps),
        {
            "torch": partial(by_torch, lambda step: step),
            "torch_compile": partial(by_torch, compiled),
            "jax": partial(by_jax, 1),
            "jax_alt": partial(by_jax, 4),
        },
        (products, 2 * products),
    )  # fmt: skip


def runge_kutta(slope: Any, y: Any, dt: float) -> Any:
    """One step."""
    k1 = slope(y)
    k2 = slope(y + 0.5 * dt * k1)
    k3 = slope(y + 0.5 * dt * k2)
    k4 = slope(y + dt * k3)
    return y + dt / 6 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


def _torch_step(t: Any, y: Any, dt: float, W1: Any, b1: Any, W2: Any, b2: Any) -> Any:
    def slope(y: Any) -> Any:
        return t.addmm(b2, t.tanh(t.addmm(b1, y, W1)), W2)

    return runge_kutta(slope, y, dt)


def _numpy(steps: int, a: Arrays, head: Array) -> Passes:
    first, w1, b1, w2, b2 = (a[name] for name in WRT)
    kind = first.dtype.type
    dt = kind(TIME / steps)
    lengths, shares = (kind(0.5) * dt, kind(0.5) * dt, dt, kind(0)), (1, 2, 2, 1)

    def active(y: Array) -> Array:
        found: Array = np.tanh(y @ w1 + b1)
        return found

    def stages(y: Array) -> tuple[list[Array], list[Array], Array]:
        """Where the four slopes are taken, their hidden layers, and the next state."""
        points, layers, total = [y], [], np.zeros_like(y)
        for length, share in zip(lengths, shares, strict=True):
            layers.append(active(points[-1]))
            slope = layers[-1] @ w2 + b2
            total += share * slope
            points.append(y + length * slope)
        return points, layers, y + dt / 6 * total

    def forward() -> list[Array]:
        ys = [first]
        for _ in range(steps):
            ys.append(stages(ys[-1])[2])
        return ys

    def loss(ys: list[Array]) -> Array:
        return np.asarray(np.mean(ys[-1] * ys[-1], dtype=kind))

    def both() -> list[Array]:
        ys = forward()
        dy = head * kind(2 / first.size) * ys[-1]
        found = [np.zeros_like(w) for w in (w1, b1, w2, b2)]
        for y in reversed(ys[:-1]):
            points, layers, _ = stages(y)
            before, later = dy.copy(), np.zeros_like(dy)
            for stage in (3, 2, 1, 0):
                slope = dt / 6 * shares[stage] * dy + lengths[stage] * later
                inner = (slope @ w2.T) * (1 - layers[stage] * layers[stage])
                later = inner @ w1.T
                before += later
                parts = (points[stage].T @ inner, inner.sum(0), layers[stage].T @ slope)
                for total, part in zip(found, (*parts, slope.sum(0)), strict=True):
                    total += part
            dy = before
        return [loss(ys), dy, *found]

    return Passes(lambda: [loss(forward())], lambda: both()[1:], both)


WORKLOADS = (
    Workload(
        "neural_ode", "programs", {"steps": 1000, "n": 64, "width": 16, "hidden": 64}, neural_ode,
        lambda rng: {
            "steps": pick(rng, 200, 2000), "n": pick(rng, 10, 150),
            "width": pick(rng, 4, 40), "hidden": pick(rng, 20, 150),
        },
    ),
)  # fmt: skip
