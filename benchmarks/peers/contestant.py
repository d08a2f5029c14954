"""One who takes part: a call for each mode, and its results as arrays."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final

import numpy as np

from benchmarks.workloads.problem import Array

Call = Callable[[], Any]

MODES: Final = ("fwd", "grad", "fb", "step")
"""Outputs; gradients from inputs and head; both; loss, gradients and an update in place."""


class Attempt:
    """A `with` block whose error is told and does not end the run; Ctrl-C still does."""

    def __init__(self) -> None:
        self.error: str | None = None

    def __enter__(self) -> Attempt:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        lines = str(error).strip().splitlines()
        self.error = f"{type(error).__name__}: {lines[0] if lines else 'no message'}"
        return True


@dataclass
class Contestant:
    """A contestant on one problem.

    Attributes:
        calls: by mode; a call ends when its results can be read.
        first_s: seconds of the first call of each mode, with what it compiles.
        compile_s: by mode, the part of them before anything runs, where it can be told apart.
        failed: the errors of modes that cannot be called.
        detach: a call's result as a list of arrays.
    """

    name: str
    calls: dict[str, Call]
    first_s: dict[str, float] = field(default_factory=dict)
    compile_s: dict[str, float] = field(default_factory=dict)
    detach: Callable[[Any], list[Array]] = lambda found: [np.asarray(a) for a in found]
    failed: dict[str, str] = field(default_factory=dict)

    def results(self, mode: str) -> list[Array]:
        """Copies of what one call gives."""
        return [np.array(a) for a in self.detach(self.calls[mode]())]


def timed_first(name: str, calls: Mapping[str, Call], **rest: Any) -> Contestant:
    """A contestant whose calls were each made once, the clock running."""
    found = Contestant(name, {}, **rest)
    for mode, call in calls.items():
        attempt = Attempt()
        with attempt:
            start = time.perf_counter()
            call()
            found.first_s[mode] = time.perf_counter() - start
            found.calls[mode] = call
        if attempt.error is not None:
            found.failed[mode] = attempt.error
    return found


def attempted(name: str, modes: Sequence[str], make: Callable[[], Contestant | None]) -> Contestant:
    """What `make` gives; who cannot be made has failed in every mode."""
    attempt = Attempt()
    with attempt:
        return make() or Contestant(name, {})
    assert attempt.error is not None
    return Contestant(name, {}, failed=dict.fromkeys(modes, attempt.error))


def only(calls: dict[str, Call], modes: Sequence[str]) -> dict[str, Call]:
    """The calls of these modes."""
    return {mode: call for mode, call in calls.items() if mode in modes}
