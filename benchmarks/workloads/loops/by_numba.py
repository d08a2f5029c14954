"""numba as the hand-written loops use it."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

from benchmarks.workloads.problem import Array

P = ParamSpec("P")
R = TypeVar("R")

prange = numba.prange


def loops(function: Callable[P, R]) -> Callable[P, R]:
    """Compile with threads over `prange` and with reordered float arithmetic."""
    return cast(Callable[P, R], numba.njit(parallel=True, fastmath=True, cache=True)(function))


def use_threads(count: int) -> None:
    """At most as many as the process started with."""
    numba.set_num_threads(min(count, int(numba.get_num_threads())))


def thread_count() -> int:
    """The threads `prange` uses."""
    return int(numba.get_num_threads())


def _add(a: Array, b: Array, c: Array) -> None:
    for i in range(a.shape[0]):
        c[i] = a[i] + b[i]


def adder() -> Callable[[Array, Array, Array], None]:
    """The sum of two vectors, on one thread: its call costs more than its loop."""
    return cast(Callable[[Array, Array, Array], None], numba.njit(fastmath=True)(_add))


@loops
def product(a: Array, b: Array, c: Array) -> None:
    """c[s] = a[s] b[s], row by row."""
    for row in prange(a.shape[0] * a.shape[1]):
        s, i = row // a.shape[1], row % a.shape[1]
        c[s, i, :] = 0.0
        for k in range(a.shape[2]):
            for j in range(b.shape[2]):
                c[s, i, j] += a[s, i, k] * b[s, k, j]
