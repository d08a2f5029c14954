"""Where states are stored: fewest steps are computed again, for any number of them."""

from __future__ import annotations

from functools import cache
from math import comb

import numpy as np

import tensorad as ta
from tensorad.autodiff.control.replayed import split_formula
from tensorad.ir.arrays.snapshots import first_stored, split

STEPS, ROWS = 60, 9


@cache
def fewest(steps: int, rows: int) -> int:
    """Steps that the reverse computes again, by trying all places."""
    if rows == 1 or steps == 1:
        return steps * (steps - 1) // 2
    ways = [m + fewest(steps - m, rows - 1) + fewest(m, rows) for m in range(1, steps)]
    return min(ways)


@cache
def taken(steps: int, rows: int) -> int:
    """The same, by `split`."""
    if steps == 1:
        return 0
    m = split(steps, rows)
    assert 1 <= m < steps
    return m + (taken(steps - m, rows - 1) if rows > 1 else 0) + taken(m, rows)


def binomial(steps: int, rows: int) -> int:
    """The number of Griewank and Walther (2000)."""
    r = next(r for r in range(steps) if comb(rows + r, rows) >= steps)
    return r * steps - (comb(rows + r, r - 1) if r else 0)


def test_fewest_steps_are_computed_again() -> None:
    for steps in range(1, STEPS):
        for rows in range(1, ROWS):
            assert taken(steps, rows) == fewest(steps, rows) == binomial(steps, rows)
    for steps, rows in ((10_000, 10), (10_000, 100), (123_457, 30)):
        assert taken(steps, rows) == binomial(steps, rows)


def test_the_first_states_are_stored_while_the_loop_runs() -> None:
    for steps in range(1, STEPS):
        for rows in range(1, ROWS):
            stored = first_stored(steps, rows)
            assert stored[0] == 0 and len(stored) <= rows
            ends = [*stored[1:], steps]
            left = [
                taken(b - a, rows - k) for k, (a, b) in enumerate(zip(stored, ends, strict=True))
            ]
            again = sum(left)
            on_the_way = stored[-1]
            assert on_the_way + again == fewest(steps, rows)


def test_the_formula_is_the_function() -> None:
    steps, rows = [ta.placeholder((), "int64", name=n) for n in ("steps", "rows")]
    f = ta.build(split_formula(steps, rows), [steps, rows])
    for n in (2, 3, 5, 8, 13, 59, 60, 1000, 10_000):
        for s in (1, 2, 3, 7, 100):
            assert int(np.asarray(f(n, s))) == split(n, s)
