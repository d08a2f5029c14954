"""tensorad on a workload: outputs into arrays allocated once, or into new ones in every call."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from benchmarks.peers.contestant import Attempt, Call, Contestant
from benchmarks.workloads.problem import Array, Problem
from tensorad import CompiledFunction, te
from tensorad.autodiff import vjp
from tensorad.building import build
from tensorad.ir.tensor import Tensor
from tensorad.program.trees import Flat, flatten, unflatten

NAME = "tensorad"
FRESH = "tensorad_fresh"
"""The same code, its results allocated in every call as those of most frameworks are."""


class Program:
    """The tensors of a problem: Y, its inputs, the head and the gradients."""

    def __init__(self, p: Problem) -> None:
        self.problem = p
        self.inputs = {
            n: te.placeholder(a.shape, str(a.dtype), name=n) for n, a in p.inputs.items()
        }
        self.y = p.define(**self.inputs)
        self.head = None if p.scalar else te.placeholder(self.y.shape, name="head")

    @cached_property
    def gradients(self) -> list[Tensor]:
        """Of `wrt`, in order."""
        return list(vjp(self.y, [self.inputs[n] for n in self.problem.wrt], self.head))

    def outputs(self, mode: str) -> list[Tensor]:
        """What a mode computes."""
        match mode:
            case "fwd":
                return [self.y]
            case "grad":
                return self.gradients
            case "fb":
                return [self.y, *self.gradients]
        return [self.y, *self._new_state()]

    @cached_property
    def _state(self) -> Flat:
        """What steps change beside weights, at first."""
        assert self.problem.step is not None
        weights = {n: self.problem.inputs[n] for n in self.problem.wrt}
        return flatten(self.problem.step.init(weights), "state")

    @cached_property
    def state(self) -> list[Tensor]:
        """Its parts as parameters."""
        pairs = zip(self._state.leaves, self._state.paths, strict=True)
        return [te.placeholder(a.shape, str(a.dtype), name=path) for a, path in pairs]

    def _new_state(self) -> list[Tensor]:
        """The weights, then `state`."""
        p = self.problem
        assert p.step is not None
        weights = {n: self.inputs[n] for n in p.wrt}
        gradients = dict(zip(p.wrt, self.gradients, strict=True))
        new, state = p.step.step(weights, gradients, unflatten(self._state.structure, self.state))
        return [*[new[n] for n in p.wrt], *flatten(state).leaves]

    def arguments(self, mode: str) -> list[Tensor]:
        """The parameters of a mode, in order."""
        if mode == "step":
            return [*self.inputs.values(), *self.state]
        head = [] if mode == "fwd" or self.head is None else [self.head]
        return [*self.inputs.values(), *head]

    def arrays(self, mode: str) -> list[Array]:
        """The arguments of a mode."""
        head = [] if mode == "fwd" or self.head is None else [self.problem.head]
        return [*self.problem.inputs.values(), *head]

    def build(self, mode: str) -> CompiledFunction:
        """Machine code for a mode."""
        return build(self.outputs(mode), self.arguments(mode))


def contestant(p: Problem, modes: Sequence[str], name: str = NAME) -> Contestant:
    """All modes; the first seconds reach from the formula to the end of the first call.

    They leave out the memory of the results, which is there before, but for `FRESH`, who takes
    part in all modes but steps: those update arrays in place.
    """
    start = time.perf_counter()
    program = Program(p)
    defined = time.perf_counter() - start
    found = Contestant(name, {})
    for mode in [m for m in modes if m != "step" or (p.step and name == NAME)]:
        attempt = Attempt()
        with attempt:
            start = time.perf_counter()
            f = program.build(mode)
            built = time.perf_counter() - start
            make = _steps if mode == "step" else _into if name == NAME else _new
            call = make(f, program, mode)
            start = time.perf_counter()
            call()
            found.first_s[mode] = defined + built + time.perf_counter() - start
            found.calls[mode] = call
        if attempt.error is not None:
            found.failed[mode] = attempt.error
    return found


def allocated(tensors: Sequence[Tensor]) -> list[Array]:
    """Arrays for results, whose pages are there."""
    return [np.full([int(n) for n in t.shape], 0, str(t.dtype)) for t in tensors]


def _into(f: CompiledFunction, program: Program, mode: str) -> Call:
    given, out = program.arrays(mode), allocated(f.outputs)
    target: Any = out[0] if len(out) == 1 else out

    def call() -> list[Array]:
        f(*given, out=target)
        return out

    return call


def _new(f: CompiledFunction, program: Program, mode: str) -> Call:
    given, single = program.arrays(mode), len(f.outputs) == 1

    def call() -> list[Array]:
        found: Any = f(*given)
        return [found] if single else list(found)

    return call


def _steps(f: CompiledFunction, program: Program, mode: str) -> Call:
    """Weights and moments go to and fro between two sets of arrays."""
    p = program.problem
    old = [*[p.inputs[n].copy() for n in p.wrt], *allocated(program.state)]
    loss, fresh = np.empty((), np.float32), [np.empty_like(a) for a in old]
    sets = [old, fresh]

    def call() -> list[Array]:
        given, new = sets
        now = dict(zip(p.wrt, given, strict=False))
        f(
            *[now.get(n, a) for n, a in p.inputs.items()], *given[len(p.wrt) :],
            out=[loss, *new],
        )  # fmt: skip
        sets.reverse()
        return [loss]

    return call


def compiled_in(make: Callable[[], Problem], mode: str = "fb") -> float:
    """Seconds from the formula to the end of the first call."""
    p = make()
    start = time.perf_counter()
    program = Program(p)
    program.build(mode)(*program.arrays(mode))
    return time.perf_counter() - start
