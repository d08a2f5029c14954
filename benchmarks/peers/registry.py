"""Contestants by name; what is not installed is told, not fatal."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from benchmarks.peers import ours
from benchmarks.peers.by_hand import numba_contestant, numpy_contestant
from benchmarks.peers.by_jax import jax_contestant
from benchmarks.peers.by_torch import torch_contestant
from benchmarks.peers.contestant import Contestant, attempted
from benchmarks.workloads.problem import Problem

FRAMEWORKS: Final = ("torch", "torch_alt", "torch_compile", "jax", "jax_alt", "numpy")
"""Those that "against frameworks" means."""
PEERS: Final = (*FRAMEWORKS, "numba")

_PACKAGE: Final = {
    "torch": "torch", "torch_alt": "torch", "torch_compile": "torch",
    "jax": "jax", "jax_alt": "jax", "numpy": "numpy", "numba": "numba",
}  # fmt: skip


def missing(peers: Sequence[str]) -> dict[str, str]:
    """Peers that cannot take part here -> the package that is not installed."""
    return {n: _PACKAGE[n] for n in peers if importlib.util.find_spec(_PACKAGE[n]) is None}


def contestants(
    p: Problem, peers: Sequence[str], modes: Sequence[str], threads: int
) -> Iterator[Contestant]:
    """tensorad in both ways, then the peers that are installed and have the formula, or failed."""
    for name in (ours.NAME, ours.FRESH):
        yield attempted(name, modes, partial(ours.contestant, p, modes, name))
    absent = missing(peers)
    for name in [n for n in peers if n not in absent]:
        found = attempted(name, modes, partial(make, name, p, modes, threads))
        if found.calls or found.failed:
            yield found


def make(name: str, p: Problem, modes: Sequence[str], threads: int) -> Contestant | None:
    """A peer; None where the workload has no such formulation."""
    match _PACKAGE[name]:
        case "torch":
            return torch_contestant(name, p, modes, threads)
        case "jax":
            return jax_contestant(name, p, modes)
        case "numba":
            return numba_contestant(p, modes, threads)
    return numpy_contestant(p, modes)
