"""Contestants written by hand: NumPy, and loops compiled by numba."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.peers.contestant import Call, Contestant, only, timed_first
from benchmarks.workloads.problem import Array, Passes, Problem


def numpy_contestant(p: Problem, modes: Sequence[str]) -> Contestant:
    """NumPy at float32."""
    return _contestant("numpy", p.numpy(p.inputs, p.head), modes)


def numba_contestant(p: Problem, modes: Sequence[str], threads: int) -> Contestant | None:
    """Loops by hand, where the workload has some."""
    if p.numba is None:
        return None
    from benchmarks.workloads.loops.by_numba import use_threads

    use_threads(threads)
    return _contestant("numba", p.numba(p.inputs, p.head), modes)


def _contestant(name: str, passes: Passes, modes: Sequence[str]) -> Contestant:
    def one_by_one() -> list[Array]:
        return [*passes.forward(), *passes.gradients()]

    calls: dict[str, Call] = {
        "fwd": passes.forward,
        "grad": passes.gradients,
        "fb": passes.both or one_by_one,
    }
    return timed_first(name, only(calls, modes))
