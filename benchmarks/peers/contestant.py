"""One who takes part: a call for each mode, and its results as arrays."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from benchmarks.workloads.problem import Array

Call = Callable[[], Any]

MODES: Final = ("fwd", "grad", "fb", "step")
"""Outputs; gradients from inputs and head; both; loss, gradients and an update in place."""
RATE: Final = 1e-4
"""Of the update in a training step."""


@dataclass
class Contestant:
    """A contestant on one problem.

    Attributes:
        calls: by mode; a call ends when its results can be read.
        first_s: seconds of the first call of each mode, with what it compiles.
        detach: a call's result as a list of arrays.
    """

    name: str
    calls: dict[str, Call]
    first_s: dict[str, float] = field(default_factory=dict)
    detach: Callable[[Any], list[Array]] = lambda found: [np.asarray(a) for a in found]

    def results(self, mode: str) -> list[Array]:
        """Copies of what one call gives."""
        return [np.array(a) for a in self.detach(self.calls[mode]())]


def timed_first(name: str, calls: dict[str, Call], **rest: Any) -> Contestant:
    """A contestant whose calls were each made once, the clock running."""
    first: dict[str, float] = {}
    for mode, call in calls.items():
        start = time.perf_counter()
        call()
        first[mode] = time.perf_counter() - start
    return Contestant(name, calls, first, **rest)


def only(calls: dict[str, Call], modes: Sequence[str]) -> dict[str, Call]:
    """The calls of these modes."""
    return {mode: call for mode, call in calls.items() if mode in modes}
