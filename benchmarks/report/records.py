"""What a run found, as rows that become JSON and tables."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from benchmarks.peers.ours import FRESH, NAME
from benchmarks.peers.registry import FRAMEWORKS

SCHEMA: Final = 1
BRIEF_MS: Final = 0.02
"""Where the best peer takes less than this, calls are compared and not kernels."""

Key = tuple[str, str, int, int]


@dataclass(frozen=True)
class Row:
    """One mode of one workload at one shape and number of threads.

    Attributes:
        shape: 0 for the headline sizes, else the number of a drawn set.
        ms: medians by contestant.
        least_ms: the shortest by contestant.
        errors: largest error relative to the largest element, by contestant.
        wrong: the contestants beyond the tolerance; they are no peers.
        flops: useful operations.
        read_bytes: of the arguments that it needs.
        written_bytes: of its results.
        limit_ms: the least time that the measured peak and bandwidth allow.
        rounds: those that count.
        foreign: CPUs that others used in them.
        first_s: seconds of the first call, with what it compiles.
        failed: the first lines of errors, by contestant; who failed has no figures.
        ratios: best framework / ours, and numba / ours, in each process of the run.
    """

    workload: str
    group: str
    sizes: dict[str, int]
    shape: int
    threads: int
    mode: str
    ms: dict[str, float]
    least_ms: dict[str, float]
    errors: dict[str, float]
    wrong: list[str]
    flops: float
    read_bytes: float
    written_bytes: float
    rounds: int
    foreign: float
    limit_ms: float | None = None
    first_s: dict[str, float] = field(default_factory=dict)
    ratios: dict[str, list[float]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        return self.workload, self.mode, self.shape, self.threads

    @property
    def ours(self) -> float:
        return self.ms.get(NAME, math.nan)

    @property
    def best(self) -> str | None:
        """The fastest framework with right results."""
        out = (*self.wrong, *self.failed)
        right = [n for n in self.ms if n in FRAMEWORKS and n not in out]
        return min(right, key=self.ms.__getitem__, default=None)

    @property
    def brief(self) -> bool:
        """Whether the call itself decides."""
        return self.best is not None and self.ms[self.best] < BRIEF_MS

    def ratio(self, against: str = "best") -> float:
        """How many times longer the best framework (or "numba", or the limit) takes than we.

        The median over the processes of the run; NaN where there is none.
        """
        if against == "limit":
            return math.nan if self.limit_ms is None else self.limit_ms / self.ours
        return statistics.median(self.all_ratios(against) or [math.nan])

    @property
    def fresh_ratio(self) -> float:
        """The same with results allocated in every call, as most frameworks do."""
        best = self.best
        if best is None or FRESH not in self.ms or FRESH in self.wrong:
            return math.nan
        return self.ms[best] / self.ms[FRESH]

    def all_ratios(self, against: str) -> list[float]:
        """The same in each process."""
        if against in self.ratios:
            return self.ratios[against]
        name = self.best if against == "best" else against
        if name is None or not {name, NAME} <= self.ms.keys() or name in self.wrong:
            return []
        return [self.ms[name] / self.ours]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def from_json(found: Mapping[str, Any]) -> Row:
    """The row that `as_json` wrote."""
    return Row(**found)


def failures(rows: Iterable[Row]) -> list[str]:
    """A line for everyone who failed, his modes together."""
    modes: dict[tuple[str, str, str], list[str]] = {}
    for r in rows:
        where = f"{r.workload}{f' {r.shape}' if r.shape else ''}"
        for name, error in r.failed.items():
            found = modes.setdefault((where, name, error), [])
            found += [r.mode] if r.mode not in found else []
    return [f"failed  {w}, {n}, {'/'.join(m)}: {error}" for (w, n, error), m in modes.items()]


def merged(runs: Iterable[Sequence[Row]]) -> list[Row]:
    """One row for each key: medians over processes, and the ratios of each."""
    by_key: dict[Key, list[Row]] = {}
    for rows in runs:
        for r in rows:
            by_key.setdefault(r.key, []).append(r)
    return [_merged(same) for same in by_key.values()]


def _merged(rows: Sequence[Row]) -> Row:
    ratios: dict[str, list[float]] = {}
    for against in ("best", "numba"):
        known = [x for r in rows for x in r.all_ratios(against)]
        if known:
            ratios[against] = known
    limits = [r.limit_ms for r in rows if r.limit_ms is not None]
    return replace(
        rows[0],
        ms=_by_name([r.ms for r in rows], statistics.median),
        least_ms=_by_name([r.least_ms for r in rows], min),
        errors=_by_name([r.errors for r in rows], max),
        wrong=sorted({n for r in rows for n in r.wrong}),
        rounds=sum([r.rounds for r in rows]),
        foreign=statistics.fmean([r.foreign for r in rows]),
        limit_ms=statistics.median(limits) if limits else None,
        first_s=_by_name([r.first_s for r in rows], min),
        ratios=ratios,
        failed={n: text for r in rows for n, text in r.failed.items()},
    )


def _by_name(parts: Sequence[Mapping[str, float]], pick: Any) -> dict[str, float]:
    names = dict.fromkeys([n for part in parts for n in part])
    return {n: float(pick([part[n] for part in parts if n in part])) for n in names}
