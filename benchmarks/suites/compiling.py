"""From formula to running code, forward and gradients, each in a fresh process."""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from tqdm import tqdm

from benchmarks.measure import alone
from benchmarks.peers.ours import NAME
from benchmarks.peers.registry import missing
from benchmarks.report.figures import Figures, Suite, asked, at_most, those
from benchmarks.report.tables import number
from benchmarks.report.verdicts import Verdict
from benchmarks.workloads.catalogue import chosen

PEERS: Final = ("torch_compile", "jax")
MEDIAN_S, MOST_S = 0.15, 1.0
COLD: Final = f"{NAME} cold s"


def measure(
    names: Sequence[str], rounds: int, threads: int, done: Collection[str] = ()
) -> Iterator[Figures]:
    """Seconds: ours as the first thing its process compiles, and everyone's as the second."""
    peers = [n for n in PEERS if n not in missing(PEERS)]
    for w in tqdm([w for w in chosen(names) if w.name not in done], unit="workload", leave=False):
        values = {COLD: alone.started("cold", w.name, NAME)}
        values[f"{NAME} s"] = alone.started("compile", w.name, NAME)
        failed = {}
        for peer in peers:
            try:
                values[f"{peer} s"] = alone.started("compile", w.name, peer)
            except subprocess.CalledProcessError as error:
                failed[f"{peer} s"] = (error.stderr.strip().splitlines() or ["no message"])[-1]
        others = [values[f"{p} s"] for p in peers if f"{p} s" in values]
        if others:
            values["best / ours"] = min(others) / values[f"{NAME} s"]
        yield Figures(w.name, threads, values, failed)


def judge(rows: Sequence[Figures]) -> list[Verdict]:
    """Cold: the median and the slowest; everyone set up: all below the frameworks."""
    median = statistics.median([r.values[COLD] for r in rows])
    text = f"{number(median)} of {MEDIAN_S:g} over {len(rows)}"
    return [
        Verdict("formula to running code, median s", median <= MEDIAN_S, text),
        *those([
            at_most(rows, "formula to running code, s", COLD, MOST_S),
            asked(rows, "framework's compile time / ours", "best / ours", 1.0),
        ]),
    ]  # fmt: skip


SUITE: Final = Suite(
    "compile", "seconds from formula to running code, in fresh processes", measure, judge,
    threads=(1,), peers=PEERS,
)  # fmt: skip
