"""What a parallel loop costs: its start on threads that wait, and on threads that sleep."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Final

import numpy as np

from benchmarks.report.figures import Figures
from tensorad import config, te
from tensorad.building import build
from tensorad.codegen.directives import Choices

ROUNDS: Final = 200
SLEEP_S: Final = 2e-3
"""Waiting threads are asleep by then."""
SHORT, LONG = 64, 1 << 14
"""Rows of 64 elements: next to no work, and more than it takes to wake a thread."""


def measured(threads: int) -> Figures:
    """Microseconds of parallel loops beyond the same loops on one thread.

    A thread that sleeps comes late and the caller works meanwhile: with two threads a loop of
    t alone takes (t + late) / 2, so it pays from `late` on.
    """
    before = config.current().num_threads
    short, long = _scale(SHORT), _scale(LONG)
    try:
        awake = _seconds(short, threads, 0.0) - _seconds(short, 1, 0.0)
        asleep = _seconds(short, threads, SLEEP_S) - _seconds(short, 1, SLEEP_S)
        one, two = _seconds(long, 1, SLEEP_S), _seconds(long, 2, SLEEP_S)
    finally:
        config.set_num_threads(before)
    values = {
        "start, threads awake, us": awake * 1e6,
        "start, threads asleep, us": asleep * 1e6,
        "a sleeping thread comes after, us": (2 * two - one) * 1e6,
    }
    return Figures("a parallel loop", threads, values)


def _scale(rows: int) -> Callable[[], object]:
    x = te.placeholder((rows, 64), name="X")
    y = te.compute((rows, 64), lambda i, j: te.tanh(x[i, j]), name="Y")
    f = build(y, [x], schedule=Choices(parallel=True))
    a, out = np.ones((rows, 64), np.float32), np.empty((rows, 64), np.float32)
    return lambda: f(a, out=out)


def _seconds(call: Callable[[], object], threads: int, pause: float) -> float:
    """The lower quartile of some calls, each after a pause."""
    config.set_num_threads(threads)
    call()
    found = []
    for _ in range(ROUNDS):
        if pause:
            time.sleep(pause)
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return statistics.quantiles(found, n=4)[0]
