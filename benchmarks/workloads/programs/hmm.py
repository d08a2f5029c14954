"""A hidden Markov model: the likelihood of sequences by the forward algorithm in logarithms."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import tensorad as ta
from benchmarks.workloads.problem import Array, Arrays, Draw, Passes, Problem, Workload, pick
from benchmarks.workloads.programs.compiled_steps import compiled
from tensorad import te, topi
from tensorad.ir.tensor import Tensor

WRT = ("first", "A", "E")


def hmm(steps: int, n: int, states: int) -> Problem:
    """Logarithms of the first states' probabilities, of transitions, and of what is observed.

    The loss is the mean of minus the likelihoods' logarithms over steps and sequences.
    """
    d = Draw()
    inputs = {
        "first": _log_softmax(d.normal(states)),
        "A": _log_softmax(d.normal(states, states)),
        "E": d.normal(steps, n, states),
    }

    def define(first: Tensor, A: Tensor, E: Tensor) -> Tensor:
        def step(before: Tensor, e: Tensor) -> tuple[Tensor, None]:
            k, m = te.reduce_axis(states, name="k"), te.reduce_axis(states, name="m")
            top = te.compute(
                (n, states), lambda i, j: te.max(before[i, k] + A[k, j], axis=k), "top"
            )
            total = te.compute(
                (n, states),
                lambda i, j: te.sum(te.exp(before[i, m] + A[m, j] - top[i, j]), axis=m),
                name="total",
            )
            after = te.compute(
                (n, states), lambda i, j: top[i, j] + te.log(total[i, j]) + e[i, j], "after"
            )
            return after, None

        start = te.compute((n, states), lambda i, j: first[j], name="start")
        last, _ = ta.scan(step, start, E)
        return topi.sum(topi.logsumexp(last, axis=1)) * (-1 / (steps * n))

    sums = 4.0 * steps * n * states * states
    return Problem(
        inputs, WRT, np.ones((), np.float32), define, _numpy,
        {
            "torch": partial(_torch, lambda step: step),
            "torch_compile": partial(_torch, compiled),
            "jax": lambda jax, **p: _jax(jax, 1, **p),
            "jax_alt": lambda jax, **p: _jax(jax, 4, **p),
        },
        (sums, 2 * sums), tolerance=1e-3,
    )  # fmt: skip


def _torch_step(t: Any, alpha: Any, A: Any, e: Any) -> Any:
    return t.logsumexp(alpha[:, :, None] + A, 1) + e


def _torch(made: Any, t: Any, first: Any, A: Any, E: Any) -> Any:
    step = made(_torch_step)
    alpha = first.expand(E.shape[1:])
    for e in E.unbind():
        alpha = step(t, alpha, A, e)
    return -t.logsumexp(alpha, 1).mean() / len(E)


def _jax(jax: Any, unroll: int, first: Any, A: Any, E: Any) -> Any:
    logsumexp = jax.scipy.special.logsumexp

    def step(alpha: Any, e: Any) -> Any:
        return logsumexp(alpha[:, :, None] + A, axis=1) + e, None

    start = jax.numpy.broadcast_to(first, E.shape[1:])
    last, _ = jax.lax.scan(step, start, E, unroll=unroll)
    return -logsumexp(last, axis=1).mean() / len(E)


def _log_softmax(a: Array) -> Array:
    found: Array = a - np.log(np.exp(a).sum(-1, keepdims=True))
    return found


def _numpy(a: Arrays, head: Array) -> Passes:
    first, transitions, e = (a[name] for name in WRT)
    kind = e.dtype.type
    steps, n, states = e.shape

    def logsumexp(of: Array, axis: int) -> Array:
        top = of.max(axis, keepdims=True)
        found: Array = np.log(np.exp(of - top).sum(axis)) + top.squeeze(axis)
        return found

    def forward() -> Array:
        """The states' logarithms, with those before the first step."""
        alpha = np.empty((steps + 1, n, states), kind)
        alpha[0] = first
        for t in range(steps):
            alpha[t + 1] = logsumexp(alpha[t][:, :, None] + transitions, 1) + e[t]
        return alpha

    def loss(alpha: Array) -> Array:
        return np.asarray(-logsumexp(alpha[-1], 1).mean() / kind(steps))

    def both() -> list[Array]:
        alpha = forward()
        last = alpha[-1]
        d = -head * np.exp(last - logsumexp(last, 1)[:, None]) / kind(steps * n)
        da, de = np.zeros_like(transitions), np.empty_like(e)
        for t in reversed(range(steps)):
            de[t] = d
            parts = np.exp(alpha[t][:, :, None] + transitions - (alpha[t + 1] - e[t])[:, None])
            parts *= d[:, None]
            da += parts.sum(0)
            d = parts.sum(2)
        return [loss(alpha), d.sum(0), da, de]

    return Passes(lambda: [loss(forward())], lambda: both()[1:], both)


WORKLOADS = (
    Workload(
        "hmm", "programs", {"steps": 1000, "n": 16, "states": 64}, hmm,
        lambda rng: {
            "steps": pick(rng, 200, 2000), "n": pick(rng, 4, 30), "states": pick(rng, 20, 100),
        },
    ),
)  # fmt: skip
