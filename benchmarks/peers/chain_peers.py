"""The chains of `chain_programs` in JAX: unrolled as by a Python loop, and by `lax.scan`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.workloads.chain_programs import PROGRAMS


def compile_seconds(name: str, steps: int) -> dict[str, float]:
    """CPU seconds to trace, differentiate and compile value and gradients, by way of looping."""
    import jax

    _, inputs = PROGRAMS[name](steps)
    arrays = [np.full(t.shape, 0.1, str(t.dtype)) for t in inputs]
    places = tuple(range(len(arrays)))
    found = {}
    for kind, loop in (("unrolled", _unrolled), ("scan", _scanned)):
        value = _VALUES[name](steps, loop)
        start = time.process_time()
        jax.jit(jax.value_and_grad(value, places)).lower(*arrays).compile()
        found[kind] = time.process_time() - start
    return found


Step = Callable[[Any], Any]
Loop = Callable[[Step, Any, int], Any]
"""(a step from state to state, the first state, how many) -> the last state."""


def _unrolled(step: Step, state: Any, steps: int) -> Any:
    for _ in range(steps):
        state = step(state)
    return state


def _scanned(step: Step, state: Any, steps: int) -> Any:
    from jax import lax

    return lax.scan(lambda s, _: (step(s), None), state, None, length=steps)[0]


def _hidden_markov(steps: int, loop: Loop) -> Callable[..., Any]:
    import jax.numpy as jnp
    from jax.scipy.special import logsumexp

    def value(a: Any, b: Any, first: Any) -> Any:
        last = loop(lambda t: logsumexp(t[:, None] + a, axis=0) + b, first, steps)
        return jnp.sum(jnp.exp(last))

    return value


def _recurrent(steps: int, loop: Loop) -> Callable[..., Any]:
    import jax.numpy as jnp

    return lambda x, w: jnp.sum(loop(lambda t: jnp.tanh(t @ w.T), x, steps))


def _wave(steps: int, loop: Loop) -> Callable[..., Any]:
    import jax.numpy as jnp

    def value(first: Any, c: Any) -> Any:
        def step(state: Any) -> Any:
            a, b = state
            p = jnp.pad(b, 1)
            around = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4.0 * b
            return b, 2.0 * b - a + c * around

        return jnp.sum(loop(step, (first, first), steps)[1] ** 2)

    return value


def _kalman(steps: int, loop: Loop) -> Callable[..., Any]:
    import jax.numpy as jnp

    def value(a: Any, q: Any, h: Any, z: Any, first: Any, spread: Any) -> Any:
        def step(state: Any) -> Any:
            x, p, total, t = state
            ahead, wide = a @ x, a @ p @ a.T + q
            seen = wide @ h
            s, error = h @ seen + 0.5, z[t] - h @ ahead
            x = ahead + seen * error / s
            p = wide - jnp.outer(seen, seen) / s
            return x, p, total + jnp.log(s) + error * error / s, t + 1

        return loop(step, (first, spread, jnp.float32(0.0), 0), steps)[2]

    return value


_VALUES: dict[str, Callable[[int, Loop], Callable[..., Any]]] = {
    "hidden Markov": _hidden_markov,
    "recurrent": _recurrent,
    "wave": _wave,
    "Kalman": _kalman,
}
