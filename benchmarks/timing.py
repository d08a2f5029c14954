"""Interleaved timing: all contestants take turns, so drifts of the machine hit them alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np

Call = Callable[[], object]

ROUNDS = 9
_LEAST_SECONDS = 2e-3
"""One measurement repeats short calls until it lasts about this long."""


def repetitions(call: Call) -> int:
    """How many calls one measurement needs; also warms the call up."""
    call()
    start = time.perf_counter()
    call()
    return max(1, round(_LEAST_SECONDS / max(time.perf_counter() - start, 1e-7)))


def interleaved_ms(
    calls: Mapping[str, Call],
    rounds: int = ROUNDS,
    after_round: Call | None = None,
    pick: Callable[[list[float]], float] = np.median,
) -> dict[str, float]:
    """The median milliseconds of each call over `rounds` rounds, one measurement per round.

    `pick` chooses another figure than the median; the minimum is what the code takes while
    nobody else uses the machine.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    counts = {name: repetitions(call) for name, call in calls.items()}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(counts[name]):
                call()
            times[name].append((time.perf_counter() - start) / counts[name])
        if after_round is not None:
            after_round()
    return {name: float(pick(t)) * 1e3 for name, t in times.items()}
