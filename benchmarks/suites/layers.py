"""The 2018 notebook's layers, forward and backward, beside NumPy, PyTorch and JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks.measure.timing import ROUNDS, interleaved_ms
from benchmarks.peers import numpy_peer
from benchmarks.peers.framework_peers import Peer, installed
from benchmarks.peers.numpy_peer import Array, Arrays, Pass
from tensorad import config
from tensorad.building import build
from tensorad.ir.tensor import Tensor
from tensorad.workloads import WORKLOADS, Workload

TOLERANCE = 1e-4
"""A contestant whose result is further from float64 NumPy (relative to the largest) is marked."""

BACKWARD_LIMIT = 4.0
"""Backward, its own forward included, over the smaller of our forward and 3 x NumPy's."""
FORWARD_LIMITS = {"dense": ("numpy", 8.0), "conv2d": ("torch", 10.0), "": ("numpy", 4.0)}
"""Name prefix -> (peer, how many times its forward ours may take)."""


@dataclass(frozen=True)
class Row:
    """One layer: milliseconds by contestant, and who disagreed with float64."""

    layer: str
    forward: dict[str, float]
    backward: dict[str, float]
    wrong: tuple[str, ...]

    def verdicts(self) -> list[str]:
        """The two limits, each with its ratio."""
        ours = self.forward["tensorad"]
        prefix = next(p for p in FORWARD_LIMITS if self.layer.startswith(p))
        peer, limit = FORWARD_LIMITS[prefix]
        found = []
        if peer in self.forward:
            found.append(_verdict(f"forward / {peer}", ours / self.forward[peer], limit))
        smaller = min(ours, 3 * self.forward["numpy"])
        found.append(_verdict("backward", self.backward["tensorad"] / smaller, BACKWARD_LIMIT))
        return found

    def as_json(self) -> dict[str, Any]:
        return {"layer": self.layer, "forward_ms": self.forward, "backward_ms": self.backward}


def _verdict(what: str, ratio: float, limit: float) -> str:
    return f"{what} {ratio:.2f}x of {limit:g}x {'ok' if ratio <= limit else 'OVER'}"


def _tensorad_passes(w: Workload, a: Arrays) -> tuple[Pass, Pass]:
    """Our two calls, writing into arrays allocated once."""
    head, gradients = w.differentiate()
    given = [a[t.name] for t in w.inputs]
    return (
        _into(build([w.output], list(w.inputs)), given, [w.output]),
        _into(build(gradients, [*w.inputs, head]), [*given, a["H"]], gradients),
    )


def _into(f: Callable[..., object], given: list[Array], outputs: Sequence[Tensor]) -> Pass:
    out = [np.empty([int(n) for n in t.shape], t.dtype) for t in outputs]

    def call() -> list[Array]:
        f(*given, out=out)
        return out

    return call


def _agrees(found: Sequence[Array], expected: Sequence[Array]) -> bool:
    pairs = zip(found, expected, strict=True)
    return all(
        float(np.abs(np.asarray(f) - e).max()) <= TOLERANCE * float(np.abs(e).max())
        for f, e in pairs
    )


def measure(make: Callable[[], Workload], peers: dict[str, Peer], rounds: int) -> Row:
    """All contestants on one layer, interleaved."""
    w = make()
    a = w.arrays()
    wrt = tuple(t.name for t in w.wrt)
    contestants = {"tensorad": _tensorad_passes(w, a), "numpy": numpy_peer.passes(w.name, a, wrt)}
    contestants |= {name: peer(w.name, a, wrt) for name, peer in peers.items()}
    exact = {n: v.astype(np.float64) for n, v in a.items()}
    expected = ([w.reference(exact)], w.gradients(exact))
    wrong = [
        name
        for name, both in contestants.items()
        if not all(_agrees(call(), e) for call, e in zip(both, expected, strict=True))
    ]
    del exact, expected
    forward, backward = (
        interleaved_ms({name: both[n] for name, both in contestants.items()}, rounds)
        for n in (0, 1)
    )
    return Row(w.name, forward, backward, tuple(wrong))


def table(rows: Sequence[Row]) -> str:
    """Milliseconds and ratios to ours (a peer at 2.0x is twice as slow as tensorad)."""
    names = list(rows[0].forward)
    lines = [f"{'layer':<18}{'pass':<10}" + "".join(f"{n + ' ms':>20}" for n in names)]
    lines.append("-" * len(lines[0]))
    for r in rows:
        for label, ms in (("forward", r.forward), ("backward", r.backward)):
            cells = "".join(_cell(n, ms, r.wrong) for n in names)
            lines.append(f"{r.layer:<18}{label:<10}{cells}")
    lines.append("")
    lines += [f"{r.layer:<18}{'; '.join(r.verdicts())}" for r in rows]
    return "\n".join(lines)


def _cell(name: str, ms: dict[str, float], wrong: Sequence[str]) -> str:
    ratio = "" if name == "tensorad" else f" ({ms[name] / ms['tensorad']:.2f}x)"
    mark = "!" if name in wrong else ""
    return f"{ms[name]:.4g}{ratio}{mark}".rjust(20)


def run(names: Sequence[str] = (), rounds: int = ROUNDS) -> list[Row]:
    """Measure the layers whose name contains one of `names` (all without names)."""
    peers = installed(config.current().num_threads)
    chosen = [m for m in WORKLOADS if not names or any(n in m.__name__ for n in names)]
    return [measure(m, peers, rounds) for m in tqdm(chosen, unit="layer", leave=False)]
