"""Training steps with Adam: loss, gradients, new weights and moments."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.workloads import steps
from benchmarks.workloads.problem import Problem, Workload
from tensorad import optim


def _with_adam(w: Workload) -> Workload:
    def make(**sizes: int) -> Problem:
        return replace(w.make(**sizes), step=optim.Adam())

    return replace(w, name=f"{w.name} Adam", group="programs", make=make)


WORKLOADS = tuple([_with_adam(w) for w in steps.WORKLOADS])
