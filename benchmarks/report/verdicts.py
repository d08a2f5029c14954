"""What is asked of the figures: floors for single workloads, and geometric means."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.peers.ours import NAME
from benchmarks.report.records import Row


@dataclass(frozen=True)
class Goal:
    """A demand on one mode of a group: the mean of the ratios, and the least of them."""

    what: str
    group: str
    mode: str
    mean: float
    floor: float
    against: str = "best"


GOALS: Final = (
    Goal("notebook, forward + gradients", "notebook", "fb", 2.0, 1.0),
    Goal("notebook, forward", "notebook", "fwd", 1.5, 0.95),
    Goal("notebook, gradients", "notebook", "grad", 1.5, 0.95),
    Goal("layers, forward + gradients", "layers", "fb", 1.5, 0.95),
    Goal("unusual, forward + gradients", "unusual", "fb", 4.0, 1.5),
    Goal("numba loops, forward + gradients", "", "fb", 1.0, 0.8, "numba"),
    Goal("numba loops, forward", "", "fwd", 1.0, 0.8, "numba"),
    Goal("numba loops, gradients", "", "grad", 1.0, 0.8, "numba"),
)


@dataclass(frozen=True)
class Verdict:
    """How a demand came out."""

    what: str
    holds: bool
    text: str

    def __str__(self) -> str:
        return f"{'holds ' if self.holds else 'FAILS '} {self.what}: {self.text}"


def geometric_mean(values: Sequence[float]) -> float:
    """NaN of nothing."""
    if not values:
        return math.nan
    return math.exp(statistics.fmean([math.log(v) for v in values]))


def verdicts(rows: Sequence[Row]) -> list[Verdict]:
    """Of every demand that the rows can answer, by number of threads."""
    found = _results(rows)
    for threads in sorted({r.threads for r in rows}):
        for drawn in (False, True):
            part = [r for r in rows if r.threads == threads and (r.shape > 0) is drawn]
            judged = [_judge(g, part, threads, drawn) for g in GOALS]
            found += [v for v in judged if v is not None]
    return found


def _results(rows: Sequence[Row]) -> list[Verdict]:
    wrong = sorted({r.workload for r in rows if NAME in (*r.wrong, *r.failed)})
    if not rows:
        return []
    text = ", ".join(wrong) if wrong else f"all {len(rows)} agree with float64"
    return [Verdict("results", not wrong, text)]


def _judge(g: Goal, rows: Sequence[Row], threads: int, drawn: bool) -> Verdict | None:
    """Floors are for the headline sizes, and where kernels and not calls decide."""
    ratios = {
        r.workload if not drawn else f"{r.workload} {r.shape}": (r.ratio(g.against), r.brief)
        for r in rows
        if r.mode == g.mode and g.group in ("", r.group)
    }
    known = {n: pair for n, pair in ratios.items() if not math.isnan(pair[0])}
    if not known:
        return None
    mean = geometric_mean([ratio for ratio, _ in known.values()])
    low = [
        f"{n} {ratio:.2f}"
        for n, (ratio, brief) in known.items()
        if ratio < g.floor and not brief and not drawn
    ]
    least = min(known, key=lambda n: known[n][0])
    text = f"mean {mean:.2f} of {g.mean:g} over {len(known)}, least {known[least][0]:.2f} ({least})"
    if not drawn:
        text += f" of {g.floor:g}"
    if low:
        text += f"; below: {', '.join(low)}"
    where = f"{g.what}, {threads} thread{'s' * (threads > 1)}" + (", drawn shapes" if drawn else "")
    return Verdict(where, mean >= g.mean and not low, text)
