"""JAX, compiled by jax.jit."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.peers.contestant import Call, Contestant, only, timed_first
from benchmarks.workloads.problem import Problem, Update
from tensorad.optim import Adam


def jax_contestant(name: str, p: Problem, modes: Sequence[str]) -> Contestant | None:
    """`name` is jax or jax_alt; the threads are those of the environment."""
    formula = p.formulas.get(name)
    if formula is None:
        return None
    jax = _module()
    given = {n: jax.numpy.asarray(a) for n, a in p.inputs.items()}
    weights = {n: given[n] for n in p.wrt}
    others = {n: a for n, a in given.items() if n not in p.wrt}
    head, ready = jax.numpy.asarray(p.head), jax.block_until_ready

    def of(others: Any) -> Any:
        return lambda weights: formula(jax, **weights, **others)

    def in_order(found: Any) -> list[Any]:
        return [found[n] for n in p.wrt]

    def forward(weights: Any, others: Any) -> Any:
        return [of(others)(weights)]

    def gradients(weights: Any, others: Any, head: Any) -> Any:
        return in_order(jax.vjp(of(others), weights)[1](head)[0])

    def both(weights: Any, others: Any, head: Any) -> Any:
        y, back = jax.vjp(of(others), weights)
        return [y, *in_order(back(head)[0])]

    run, pull, run_both = jax.jit(forward), jax.jit(gradients), jax.jit(both)

    calls: dict[str, Call] = {
        "fwd": lambda: ready(run(weights, others)),
        "grad": lambda: ready(pull(weights, others, head)),
        "fb": lambda: ready(run_both(weights, others, head)),
    }
    if p.step:
        calls["step"] = _step(jax, p.step, of, weights, others)
    start = time.perf_counter()
    if "fb" in modes:
        run_both.lower(weights, others, head).compile()  # which the first call finds
    compiled = time.perf_counter() - start
    found = timed_first(name, only(calls, modes))
    if "fb" in found.calls:
        found.first_s["fb"] += compiled
        found.compile_s["fb"] = compiled
    return found


def planned_bytes(p: Problem) -> float:
    """Results and all in between of value and gradients, as the compiler has planned them."""
    jax = _module()

    def both(weights: Any, others: Any) -> Any:
        return jax.value_and_grad(lambda w: p.formulas["jax"](jax, **w, **others))(weights)

    weights = {n: a for n, a in p.inputs.items() if n in p.wrt}
    others = {n: a for n, a in p.inputs.items() if n not in p.wrt}
    plan = jax.jit(both).lower(weights, others).compile().memory_analysis()
    return float(plan.temp_size_in_bytes + plan.output_size_in_bytes)


def _module() -> Any:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax

    return jax


def _step(jax: Any, update: Update, of: Any, weights: Any, others: Any) -> Call:
    """Loss, gradients, new weights and moments; the old ones are given away."""
    numpy = jax.numpy

    def new(state: Any, others: Any) -> Any:
        weights = {n: kept[0] for n, kept in state["weights"].items()}
        loss, found = jax.value_and_grad(of(others))(weights)
        count = state["count"] + 1.0
        fresh = {
            n: _moved(numpy, update, kept, found[n], count) for n, kept in state["weights"].items()
        }
        return loss, {"weights": fresh, "count": count}

    run = jax.jit(new, donate_argnums=0)
    moments = 2 if isinstance(update, Adam) else 0
    state: Any = {
        "weights": {
            n: [numpy.array(w), *[numpy.zeros_like(w) for _ in range(moments)]]
            for n, w in weights.items()
        },
        "count": numpy.zeros(()),
    }

    def call() -> Any:
        nonlocal state
        loss, state = jax.block_until_ready(run(state, others))
        return [loss]

    return call


def _moved(numpy: Any, update: Update, kept: Sequence[Any], g: Any, count: Any) -> list[Any]:
    """A weight and its moments after a step."""
    if not isinstance(update, Adam):
        return [kept[0] - update.rate * g]
    (w, m, v), (first, second) = kept, update.decays
    one, two = [1.0 - numpy.exp(count * math.log(d)) for d in update.decays]
    m = first * m + (1.0 - first) * g
    v = second * v + (1.0 - second) * (g * g)
    return [w - update.rate / one * m / (numpy.sqrt(v / two) + update.least), m, v]
