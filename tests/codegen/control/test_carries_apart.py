"""Carries that iterations change in place give what they give when everything is copied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import tensorad as ta
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Tensor

N = 5
C = ta.placeholder((N,), "float64", name="C")
D = ta.placeholder((3, 4), "float64", name="D")
Q = ta.placeholder((N,), "int64", name="Q")
V = ta.placeholder((N,), "float64", name="V")
GIVEN: Final[dict[Tensor, np.ndarray]] = {
    C: np.array([1.0, 2.0, 4.0, 8.0, 16.0]),
    D: np.arange(12.0).reshape(3, 4) + 1,
    Q: np.array([4, 3, 2, 1, 0]),
    V: np.array([9.0, -1.0, 5.0, 0.5, 30.0]),
}


def loop(step: Callable[[Any, Tensor], Any], start: Tensor = C, times: int = 3) -> list[Tensor]:
    return [ta.for_loop(0, times, step, start)]


def spread(t: Any, combine: str, init: Tensor | None = None) -> Tensor:
    return ta.scatter(N, N, lambda p: (p, V[p] * (t + 2)), combine=combine, init=init)


def backwards(t: Any, c: Tensor) -> Tensor:
    return ta.scatter(N, N, lambda p: (p, c[N - 1 - p]), init=c)


def by_data(t: Any, c: Tensor) -> Tensor:
    return ta.scatter(N, N, lambda p: (p, c[Q[p]]), init=c)


def by_two_data(t: Any, c: Tensor) -> Tensor:
    return ta.scatter(N, N, lambda p: (Q[p], c[(Q[p] + t) % N]), init=c)


def rows_turned(t: Any, c: Tensor) -> Tensor:
    return ta.scatter((3, 4), (3, 4), lambda p, q: ((p, q), c[p, 3 - q]), init=c)


def columns_turned(t: Any, c: Tensor) -> Tensor:
    return ta.scatter((3, 4), (3, 4), lambda p, q: ((p, q), c[2 - p, q]), init=c)


def plus(other: Callable[[Any], Tensor], turned: bool = False) -> Callable[[Any, Tensor], Tensor]:
    def step(t: Any, c: Tensor) -> Tensor:
        s = other(t)
        return ta.compute((N,), lambda r: c[r] + s[N - 1 - r if turned else r])

    return step


def twice_read(t: Any, c: Tensor) -> Tensor:
    s = spread(t, "sum")
    return ta.compute((N,), lambda r: c[r] + s[r] * s[N - 1 - r])


def read_by_others() -> list[Tensor]:
    start = ta.compute((N,), lambda r: C[r] * 2 + V[r], name="start")
    last = ta.for_loop(0, 3, lambda t, c: c.at[t].set(c[t] * c[t + 1]), start)
    return [ta.compute((N,), lambda r: last[r] + start[r]), start]


def begun_from_a_carry() -> list[Tensor]:
    def outer(t: Any, c: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        first = ta.compute((N,), lambda r: c[0][r] * 2, name="first")
        changed = c[0].at[t].set(0.0)
        inner = ta.for_loop(0, 2, lambda s, d: d.at[s].add(1.0), first)
        return changed, c[1] + inner

    return list(ta.for_loop(0, 3, outer, (C, V)))


PROGRAMS: Final[dict[str, Callable[[], list[Tensor]]]] = {
    "backwards": lambda: loop(backwards),
    "by data": lambda: loop(by_data),
    "by data on both sides": lambda: loop(by_two_data),
    "rows turned": lambda: loop(rows_turned, D),
    "columns turned": lambda: loop(columns_turned, D),
    "a maximum is added": lambda: loop(plus(lambda t: spread(t, "max"))),
    "a product is added": lambda: loop(plus(lambda t: spread(t, "prod"))),
    "a sum with a start is added": lambda: loop(plus(lambda t: spread(t, "sum", V))),
    "a sum is added": lambda: loop(plus(lambda t: spread(t, "sum"))),
    "a sum is added backwards": lambda: loop(plus(lambda t: spread(t, "sum"), turned=True)),
    "a sum is read twice": lambda: loop(twice_read),
    "a start that others read": read_by_others,
    "a start made of a carry": begun_from_a_carry,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_those_of_copies(name: str) -> None:
    ys = PROGRAMS[name]()
    found = ta.build(ys, list(GIVEN))(*GIVEN.values())
    found = found if isinstance(found, (list, tuple)) else [found]
    for one, want in zip(found, interpret(ys, GIVEN), strict=True):
        np.testing.assert_array_equal(one, want)
