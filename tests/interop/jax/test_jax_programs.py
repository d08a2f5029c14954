"""Whole programs inside of JAX: loops, branches, recursion, references, derivatives inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Final, NamedTuple

import numpy as np
import pytest

import tensorad as ta
from tests.interop.jax.inside_jax import MARKS, jax, total

import jax.numpy as jnp  # isort: skip
from jax.test_util import check_grads  # isort: skip
from tensorad.interop.jax import op  # isort: skip

pytestmark = MARKS


def _looped(x: Any) -> Any:
    return ta.while_loop(lambda c: c.sum() < 10.0, lambda c: c * x, x)


def _looped_there(x: Any) -> Any:
    y = x
    while y.sum() < 10.0:
        y = y * x
    return y


def _branched(x: Any) -> Any:
    return ta.cond(x.sum() > 2.2, lambda: ta.sin(x) * x[0], lambda: ta.exp(x) - x[1])


def _branched_there(x: Any) -> Any:
    return jnp.sin(x) * x[0] if x.sum() > 2.2 else jnp.exp(x) - x[1]


def _descended(x: Any) -> Any:
    """Two steps along a gradient."""

    def cost(c: Any) -> Any:
        return (ta.cos(c) * x).sum() + (c * c * c).sum()

    return ta.for_loop(0, 2, lambda i, c: c - 0.1 * ta.grad(cost)(c), x)


def _descended_there(x: Any) -> Any:
    def cost(c: Any) -> Any:
        return (jnp.cos(c) * x).sum() + (c * c * c).sum()

    c = x
    for _ in range(2):
        c = c - 0.1 * jax.grad(cost)(c)
    return c


@ta.function
def _power(x: Any, n: Any) -> Any:
    return ta.cond(n > 0, lambda: x * _power(x, n - 1), lambda: ta.sin(x))


def _recursive(x: Any) -> Any:
    """As often as the largest element says."""
    return _power(x, (x.max() * 2.0).astype("int64"))


def _recursive_there(x: Any) -> Any:
    return x ** int(x.max() * 2.0) * jnp.sin(x)


def _referred(x: Any) -> Any:
    held = ta.ref({"last": x, "sum": x * 0.0})

    def step(i: Any, c: Any) -> Any:
        held.at["sum"].add(held.at["last"].get())
        held.at["last"].set(ta.tanh(held.at["last"].get()) + c)
        return c * 0.5

    ta.for_loop(0, 3, step, x)
    return held.at["sum"].get(), held.at["last"].get()


def _referred_there(x: Any) -> Any:
    last, added, c = x, x * 0.0, x
    for _ in range(3):
        added, last, c = added + last, jnp.tanh(last) + c, c * 0.5
    return added, last


class Pair(NamedTuple):
    """A program, and the same for known numbers in JAX."""

    program: Callable[..., Any]
    there: Callable[..., Any]


PROGRAMS: Final = {
    "loop": Pair(_looped, _looped_there),
    "branch": Pair(_branched, _branched_there),
    "gradient inside": Pair(_descended, _descended_there),
    "recursion": Pair(_recursive, _recursive_there),
    "references": Pair(_referred, _referred_there),
}
X: Final = np.array([1.2, 1.1])
ROWS: Final = np.stack([X, X * 0.9, X + 0.4])
"""Each goes through its own arm and its own number of iterations and calls."""


@cache
def _made(name: str) -> Any:
    program = ta.function(PROGRAMS[name].program).trace(X)
    return op(program.results, program.parameters, f"test_{name.replace(' ', '_')}")


def _same(found: Any, expected: Any) -> None:
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-11), found, expected)


@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives_of_programs_by_check_grads(name: str) -> None:
    check_grads(jax.jit(_made(name)), [X], order=2, modes=["fwd", "rev"])


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_inside_of_transformations(name: str) -> None:
    f, there = _made(name), PROGRAMS[name].there
    number = total(f)
    values = [there(jnp.asarray(r)) for r in ROWS]
    slopes = jnp.stack([jax.grad(total(there))(r) for r in ROWS])

    def over_rows(rows: Any) -> Any:
        return jax.lax.scan(lambda c, row: (c + number(row), None), 0.0, rows)[0]

    _same(jax.jit(f)(X), values[0])
    _same(jax.jit(jax.grad(number))(X), slopes[0])
    _same(jax.grad(jax.checkpoint(number))(X), slopes[0])
    _same(jax.jit(jax.vmap(f))(ROWS), jax.tree.map(lambda *ys: jnp.stack(ys), *values))
    _same(jax.jit(jax.vmap(jax.grad(number)))(ROWS), slopes)
    _same(jax.jit(jax.grad(over_rows))(ROWS), slopes)


def test_recursion_by_an_argument() -> None:
    """The number of calls is data of JAX: another one for each row."""
    program = _power.trace(np.float64(1.5), 3)
    f = op(program.results, program.parameters, "test_power")
    counts, x = jnp.array([0, 3, 7]), jnp.array([1.5, 0.5, 1.1])

    def slope(n: int, x: float) -> Any:
        return jax.grad(lambda x: x**n * jnp.sin(x))(x)

    found = jax.jit(jax.vmap(jax.grad(f)))(x, counts)
    _same(found, jnp.stack([slope(int(n), v) for n, v in zip(counts, x, strict=True)]))
    _same(jax.lax.scan(lambda c, n: (f(c, n), None), 0.9, counts)[0], _scanned(counts))


def _scanned(counts: Sequence[Any]) -> Any:
    c = 0.9
    for n in counts:
        c = c ** int(n) * np.sin(c)
    return c
