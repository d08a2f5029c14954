"""Long programs of equal steps: time for each step to derive and to build, as chains grow."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from tqdm import tqdm

from benchmarks.peers.chain_peers import compile_seconds
from benchmarks.peers.registry import missing
from benchmarks.report.figures import Figures, Suite, at_most, those
from benchmarks.report.verdicts import Verdict
from benchmarks.workloads.chain_programs import PROGRAMS
from tensorad.autodiff import vjp
from tensorad.building import build
from tensorad.process import forget

LENGTHS: Final = (50, 100, 200, 400)
PEERS: Final = ("jax",)
PEER_STEPS: Final = 50
"""JAX takes a program without loops longer the longer it is."""
MOST_GROWTH: Final = 1.3
GROWTH: Final = "most / least"


def measure(
    names: Sequence[str], rounds: int, threads: int, done: Collection[str] = ()
) -> Iterator[Figures]:
    """Milliseconds of CPU time for each step; nothing is remembered of shorter chains but machine
    code, which one of the shortest has made before."""
    chosen = [n for n in PROGRAMS if n not in done and (not names or any(m in n for m in names))]
    peers = not missing(PEERS)
    for name in tqdm(chosen, unit="chain", leave=False):
        _seconds(name, LENGTHS[0])
        values: dict[str, float] = {}
        whole = []
        for steps in LENGTHS:
            forget()
            derive, made = _seconds(name, steps)
            values[f"derive {steps} ms"] = derive / steps * 1e3
            values[f"build {steps} ms"] = made / steps * 1e3
            whole.append((derive + made) / steps)
        values[GROWTH] = max(whole) / min(whole)
        if peers:
            for kind, seconds in compile_seconds(name, PEER_STEPS).items():
                values[f"jax {kind} ms"] = seconds / PEER_STEPS * 1e3
        yield Figures(name, threads, values)


def _seconds(name: str, steps: int) -> tuple[float, float]:
    """(to derive, to build the value and its gradients)."""
    y, inputs = PROGRAMS[name](steps)
    start = time.process_time()
    gradients = vjp(y, inputs)
    middle = time.process_time()
    build([y, *gradients], inputs)
    return middle - start, time.process_time() - middle


def judge(rows: Sequence[Figures]) -> list[Verdict]:
    """Time for each step is the same for any length."""
    return those(
        [at_most(rows, "a step of a longer chain / of a shorter one", GROWTH, MOST_GROWTH)]
    )


SUITE: Final = Suite(
    "chains", "time to derive and build programs of 50 to 400 equal steps", measure, judge,
    threads=(1,), peers=PEERS,
)  # fmt: skip
