"""Programs written with parts of arrays, against the same loops in NumPy, with their gradients."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import topi
from tensorad.errors import BoundsError
from tensorad.ir.arrays.tracing import tracing

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


@pytest.mark.sampled(5)
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


def refusal(f: Any, *args: Any) -> str:
    """What is said of places outside."""
    with pytest.raises(BoundsError) as caught:
        f(*args)
    return re.sub(r"test_arrays\.py:\d+", "HERE", str(caught.value))


def test_counters_that_leave_a_tensor_are_found_in_their_iteration() -> None:
    def ahead(x: Any) -> Any:
        return ta.for_loop(0, 6, lambda t, s: s + x[t + 1], ZERO)

    def written(x: Any) -> Any:
        return ta.for_loop(0, 6, lambda t, x: x.at[t + 1].set(1.0), x)

    assert refusal(ta.function(ahead), X) == (
        "x is read at index 6 of axis 0, which has extent 6.\n"
        "  in: x[t + 1, 0] in x_row at HERE, in iteration 5 of the loop at HERE\n"
        "  hint: the index comes from sizes and counters of this call: correct it, or clamp it in "
        "the formula with minimum and maximum."
    )
    assert refusal(ta.function(written), X).splitlines()[:2] == [
        "x_set is written at index 6 of axis 0, which has extent 6.",
        "  in: x_set[t + 1, 0] in x_set at HERE, in iteration 5 of the loop at HERE",
    ]


def test_what_a_branch_guards_is_not_refused() -> None:
    def guarded(x: Any) -> Any:
        return ta.for_loop(0, 6, lambda t, s: ta.cond(t < 5, lambda: s + x[t + 1], lambda: s), ZERO)

    assert np.allclose(ta.function(guarded)(X), X[1:].sum(0))


def test_sizes_are_checked_where_blocks_read() -> None:
    n = ta.size("n")
    x = ta.placeholder((n,), "float64", name="x")
    with tracing():
        looped = ta.for_loop(0, 3, lambda t, s: s * s[5], x)
        chosen = ta.cond(x.sum() > 100.0, lambda: x * x[5], lambda: x)
    for y, outside in ((looped, 1.0), (chosen, 99.0)):
        f = ta.build([y], [x])
        assert np.array_equal(f(np.ones(6)), np.ones(6))
        text = refusal(f, np.full(3, outside))
        assert "is read at index 5 of axis 0, which has extent 3." in text
    assert np.array_equal(ta.build([chosen], [x])(np.ones(3)), np.ones(3))
