"""PyTorch, eager and compiled."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from benchmarks.peers.contestant import Call, Contestant, only, timed_first
from benchmarks.workloads.problem import Array, Problem, Update
from tensorad.optim import Adam

COMPILED: Final = "torch_compile"


def torch_contestant(
    name: str, p: Problem, modes: Sequence[str], threads: int
) -> Contestant | None:
    """`name` is torch, torch_alt or torch_compile, whose formula is torch's, compiled whole, where
    the problem has none that compiles its steps."""
    whole = name == COMPILED and name not in p.formulas
    formula = p.formulas.get("torch" if whole else name)
    if formula is None:
        return None
    import torch

    torch.set_num_threads(threads)
    if name == COMPILED:
        warm_up()
        torch._dynamo.reset()
    run = _Torch(torch, p, whole, lambda **given: formula(torch, **given))
    return timed_first(name, only(run.calls(), modes), detach=_arrays)


def fresh_call(p: Problem) -> Call:
    """Eager forward and gradients, not called yet."""
    import torch

    formula = p.formulas["torch"]
    return _Torch(torch, p, False, lambda **given: formula(torch, **given)).both


def _arrays(found: Any) -> list[Array]:
    tensors = found if isinstance(found, (tuple, list)) else [found]
    return [np.asarray(t.detach()) for t in tensors]


class _Torch:
    """A formula with its leaves."""

    def __init__(self, torch: Any, p: Problem, compiled: bool, formula: Any) -> None:
        self.torch, self.p, self.compiled = torch, p, compiled
        self.formula = formula
        given = {**p.inputs, **p.constants}
        self.plain = {n: torch.from_numpy(np.array(a)) for n, a in given.items()}
        self.leaves = {
            n: t.clone().requires_grad_(True) if n in p.wrt else t for n, t in self.plain.items()
        }
        self.wrt = [self.leaves[n] for n in p.wrt]
        self.head = torch.from_numpy(np.array(p.head))
        self.run = torch.compile(formula, dynamic=False) if compiled else formula

    def calls(self) -> dict[str, Call]:
        """By mode."""
        found: dict[str, Call] = {"fwd": self.forward, "fb": self.both}
        found["grad"] = self._compiled_gradients() if self.compiled else self._gradients()
        if self.p.step:
            found["step"] = self._step(self.p.step)
        return found

    def forward(self) -> Any:
        with self.torch.no_grad():
            return self.run(**self.plain)

    def _pulled(self, y: Any, **options: Any) -> Any:
        head = None if self.p.scalar else self.head
        return self.torch.autograd.grad(y, self.wrt, head, **options)

    def both(self) -> Any:
        y = self.run(**self.leaves)
        return (y.detach(), *self._pulled(y))

    def _gradients(self) -> Call:
        """Of a linear operator without its forward pass: nothing of that is needed."""
        if not self.p.linear:
            return lambda: self._pulled(self.run(**self.leaves))
        y = self.run(**self.leaves)
        return lambda: self._pulled(y, retain_graph=True)

    def _compiled_gradients(self) -> Call:
        """One compiled function of inputs and head; forward work it does not need is dropped."""
        torch, wrt = self.torch, self.p.wrt
        others = {n: t for n, t in self.plain.items() if n not in wrt}
        given = [self.plain[n] for n in wrt]

        def gradients(given: Any, others: Any, head: Any) -> Any:
            def of(*parts: Any) -> Any:
                return self.formula(**dict(zip(wrt, parts, strict=True)), **others)

            return torch.func.vjp(of, *given)[1](head)

        compiled = torch.compile(gradients, dynamic=False)

        def call() -> Any:
            with torch.no_grad():
                return compiled(given, others, self.head)

        return call

    def _step(self, update: Update) -> Call:
        """As users write it, with the optimiser's fused loops."""
        torch = self.torch
        weights = [t.detach().clone().requires_grad_(True) for t in self.wrt]
        given = self.plain | dict(zip(self.p.wrt, weights, strict=True))

        if isinstance(update, Adam):
            rest = {"betas": update.decays, "eps": update.least, "fused": True}
            optimiser = torch.optim.Adam(weights, update.rate, **rest)
        else:
            optimiser = torch.optim.SGD(weights, update.rate, fused=True)

        def call() -> Any:
            optimiser.zero_grad(set_to_none=True)
            y = self.run(**given)
            y.backward()
            optimiser.step()
            return y.detach()

        return call


@cache
def warm_up() -> None:
    """Start the compiler once, so that no workload pays for it."""
    import torch
    import torch._dynamo
    import torch._functorch.config as functions

    warnings.filterwarnings("ignore", module="torch")
    functions.donated_buffer = False  # so that a compiled backward pass may be replayed
    torch._dynamo.config.cache_size_limit = 64
    x = torch.ones(64, 64, requires_grad=True)
    torch.autograd.grad(torch.compile(lambda v: (v.sin() * 2).sum())(x), x)
