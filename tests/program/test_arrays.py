"""Programs written with parts of arrays, against the same loops in NumPy, with their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import topi

P = np.array([2, 0, -1, 3, 3, 1])
X = np.random.default_rng(7).normal(size=(6, 4))
W = np.random.default_rng(8).normal(size=(4, 4))
ZERO = np.zeros(4)


def loop(first: int, last: int, body: Callable[[int, Any], Any], start: Any) -> Any:
    """`for_loop` in Python."""
    for t in range(first, last):
        start = body(t, start)
    return start


def placed(x: np.ndarray, key: Any, value: Any, add: bool = False) -> np.ndarray:
    """`x.at[key].set(value)`, or `add`, in NumPy."""
    result = x.copy()
    if add:
        np.add.at(result, key, value)
    else:
        result[key] = value
    return result


PROGRAMS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "a recurrent net over rows": (
        lambda x: ta.for_loop(0, 6, lambda t, h: ta.tanh(x[t] @ W + h), ZERO),
        lambda x: loop(0, 6, lambda t, h: np.tanh(x[t] @ W + h), ZERO),
    ),
    "rows that are set": (
        lambda x: ta.for_loop(1, 6, lambda t, y: y.at[t].set(ta.tanh(y[t - 1]) + x[t]), x),
        lambda x: loop(1, 6, lambda t, y: placed(y, t, np.tanh(y[t - 1]) + x[t]), x),
    ),
    "rows that are added to": (
        lambda x: ta.for_loop(1, 6, lambda t, y: y.at[t].add(ta.tanh(y[t - 1])), x),
        lambda x: loop(1, 6, lambda t, y: placed(y, t, np.tanh(y[t - 1]), True), x),
    ),
    "the row before the first one": (
        lambda x: ta.for_loop(0, 6, lambda t, y: y.at[t].set(ta.tanh(y[t - 1]) * x[t]), x),
        lambda x: loop(0, 6, lambda t, y: placed(y, t, np.tanh(y[t - 1]) * x[t]), x),
    ),
    "windows at the counter": (
        lambda x: ta.for_loop(0, 4, lambda t, s: s + (x[t : t + 3] * x[t + 1]).sum(0) * t, ZERO),
        lambda x: loop(0, 4, lambda t, s: s + (x[t : t + 3] * x[t + 1]).sum(0) * t, ZERO),
    ),
    "an order that is data": (
        lambda x: ta.for_loop(
            0, 6, lambda t, s: s * 0.5 + x[topi.arange(6)[t]] * x[ta.const(P)[t], 1], ZERO
        ),
        lambda x: loop(0, 6, lambda t, s: s * 0.5 + x[t] * x[P[t], 1], ZERO),
    ),
    "batches": (
        lambda x: ta.for_loop(
            0, 3, lambda t, s: s + (x[ta.const(P)[2 * t : 2 * t + 2]] ** 2).sum(0), ZERO
        ),
        lambda x: loop(0, 3, lambda t, s: s + (x[P[2 * t : 2 * t + 2]] ** 2).sum(0), ZERO),
    ),
    "a place that is carried": (
        lambda x: ta.while_loop(
            lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] + x[c[0]] * x[c[0] + 1]), (0, ZERO)
        )[1],
        lambda x: loop(0, 5, lambda t, s: s + x[t] * x[t + 1], ZERO),
    ),
    "repeated places that are added to": (
        lambda x: ta.for_loop(0, 3, lambda t, z: z.at[P].add(x * z[t]), x),
        lambda x: loop(0, 3, lambda t, z: placed(z, P, x * z[t], True), x),
    ),
    "parts without a loop": (
        lambda x: (x[1:] - x[:-1])[::2, None, [0, -1]].T.reshape(-1) * np.arange(6.0),
        lambda x: (x[1:] - x[:-1])[::2, None, [0, -1]].T.reshape(-1) * np.arange(6.0),
    ),
    "a branch on what a part holds": (
        lambda x: ta.cond((x[0] > 0).any(), lambda: x[0].max() * x[1], lambda: x[-1]),
        lambda x: x[0].max() * x[1] if (x[0] > 0).any() else x[-1],
    ),
    "rows in Python": (
        lambda x: sum(row * len(x) for row in x),
        lambda x: sum(row * len(x) for row in x),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_parts_are_those_of_numpy(name: str) -> None:
    program, plain = PROGRAMS[name]
    found = ta.function(program)(X)
    assert np.allclose(found, plain(X), rtol=1e-12)
    gradient = np.asarray(ta.grad(lambda x: (program(x) ** 2).sum())(X))
    move = np.random.default_rng(9).normal(size=X.shape)
    step = 1e-6
    rise = sum(side * (plain(X + side * step * move) ** 2).sum() for side in (1, -1))
    assert np.isclose((gradient * move).sum(), rise / (2 * step), rtol=1e-7)
