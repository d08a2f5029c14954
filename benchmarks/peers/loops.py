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
