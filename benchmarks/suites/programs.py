"""Programs with loops, and training steps with Adam: values and gradients beside frameworks."""

from __future__ import annotations

import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from tqdm import tqdm

from benchmarks.measure import alone
from benchmarks.peers.ours import NAME
from benchmarks.peers.registry import missing
from benchmarks.race import frameworks
from benchmarks.race.frameworks import Plan
from benchmarks.report.figures import Figures, Suite, asked, at_most, those
from benchmarks.report.records import Row
from benchmarks.report.tables import number
from benchmarks.report.verdicts import Verdict, geometric_mean
from benchmarks.workloads.catalogue import PROGRAMS
from benchmarks.workloads.problem import Workload

PEERS: Final = ("torch", "torch_alt", "torch_compile", "jax", "jax_alt")
RATIO: Final = "best / ours"
FIRST, EARLIER = "first s", "jax first / ours"
MEASURED: Final = (NAME, "torch", "jax")
"""Whose memory is: JAX's is what its compiler plans."""

FLOORS: Final = {
    "lstm": 2.0, "hmm": 3.0, "neural_ode": 3.0, "particles": 6.0, "mlp_step Adam": 1.0,
    "lenet_step Adam": 1.5,
}  # fmt: skip
MEAN: Final = 2.5
MOST_S: Final = 2.0
FRUGAL: Final = ("lstm", "hmm", "particles")
"""Programs that take at most the memory of the frameworks."""


def measure(
    names: Sequence[str], rounds: int, threads: int, done: Collection[str] = ()
) -> Iterator[Figures]:
    """Milliseconds, seconds of the first call, megabytes beyond the inputs."""
    chosen = [n for n in PROGRAMS if n not in done and (not names or any(m in n for m in names))]
    for name in tqdm(chosen, unit="program", leave=False):
        yield _measured(PROGRAMS[name], rounds, threads)


def _measured(w: Workload, rounds: int, threads: int) -> Figures:
    mode = alone.MODE if w.problem().step is None else "step"
    plan = Plan((), [mode], PEERS, rounds, limits=False)
    (row,) = frameworks.measure(w, 0, w.sizes, plan)
    values = {f"{NAME} ms": row.ours} | {f"{n} ms": row.ms[n] for n in PEERS if n in row.ms}
    failed = dict(row.failed) | dict.fromkeys(row.wrong, "not the result of float64")
    values |= _ratios(row)
    for peer in [n for n in MEASURED if n == NAME or n not in missing([n])]:
        try:
            values[f"{peer} MB"] = alone.started("memory", w.name, peer) / 1e6
        except subprocess.CalledProcessError as error:
            failed[f"{peer} MB"] = (error.stderr.strip().splitlines() or ["no message"])[-1]
    values |= _shares(values)
    return Figures(w.name, threads, values, failed, row.foreign)


def _ratios(row: Row) -> dict[str, float]:
    """Of time, and of the first call; nothing where we failed or are wrong."""
    if NAME in (*row.wrong, *row.failed):
        return {}
    found = {FIRST: row.first_s[NAME]}
    if row.best is not None:
        found[RATIO] = row.ratio()
    first = [row.first_s[n] for n in ("jax", "jax_alt") if n in row.first_s]
    if first:
        found[EARLIER] = min(first) / row.first_s[NAME]
    return found


def _shares(values: Mapping[str, float]) -> dict[str, float]:
    """The least memory of the others over ours."""
    others = [values[f"{n} MB"] for n in MEASURED[1:] if f"{n} MB" in values]
    if not others or f"{NAME} MB" not in values:
        return {}
    return {"least MB / ours": min(others) / values[f"{NAME} MB"]}


def judge(rows: Sequence[Figures]) -> list[Verdict]:
    """A floor for each program and the mean of all, the first call, and memory."""
    found = [
        asked([r for r in rows if r.name == name], f"{name}, {RATIO}", RATIO, floor)
        for name, floor in FLOORS.items()
    ]
    for threads in sorted({r.threads for r in rows}):
        ratios = [r.values[RATIO] for r in rows if r.threads == threads and RATIO in r.values]
        if ratios:
            mean = geometric_mean(ratios)
            text = f"{number(mean)} of {MEAN:g} over {len(ratios)}"
            what = f"programs, mean {RATIO}, {threads} thread{'s' * (threads > 1)}"
            found.append(Verdict(what, mean >= MEAN, text))
    frugal = [r for r in rows if r.name in FRUGAL]
    return those([
        *found,
        at_most(rows, "first call, s", FIRST, MOST_S),
        asked(rows, "first call, jax / ours", EARLIER, 1.0),
        asked(frugal, "memory, frameworks' least / ours", "least MB / ours", 1.0),
    ])  # fmt: skip


SUITE: Final = Suite(
    "programs", "programs with loops and training steps beside PyTorch and JAX", measure, judge,
    peers=PEERS,
)  # fmt: skip
