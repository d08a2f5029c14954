"""Peak memory of forward and gradients beside PyTorch's, each in a fresh process."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from tqdm import tqdm

from benchmarks.measure import alone
from benchmarks.peers.ours import NAME, Program
from benchmarks.peers.registry import missing
from benchmarks.report.figures import Figures, Suite, asked, those
from benchmarks.report.verdicts import Verdict
from benchmarks.workloads.catalogue import chosen

NOISE_MB: Final = 1.0
"""A process grows by this much for reasons of its own."""


def measure(
    names: Sequence[str], rounds: int, threads: int, done: Collection[str] = ()
) -> Iterator[Figures]:
    """Megabytes beyond the inputs; ours also as `f.memory` counts them."""
    for w in tqdm([w for w in chosen(names) if w.name not in done], unit="workload", leave=False):
        use = Program(w.problem()).build(alone.MODE).memory
        values = {
            f"{NAME} MB": alone.started("memory", w.name, NAME) / 1e6,
            "counted MB": (use.outputs + use.own) / 1e6,
        }
        if not missing(["torch"]):
            values["torch MB"] = alone.started("memory", w.name, "torch") / 1e6
            ours = max(values[f"{NAME} MB"], NOISE_MB)
            values["torch / ours"] = (values["torch MB"] + NOISE_MB) / ours
        yield Figures(w.name, threads, values)


def judge(rows: Sequence[Figures]) -> list[Verdict]:
    """At most what PyTorch takes."""
    return those([asked(rows, "peak memory, torch / ours", "torch / ours", 1.0)])


SUITE: Final = Suite(
    "memory", "peak memory beside PyTorch's, in fresh processes", measure, judge,
    peers=("torch",),
)  # fmt: skip
