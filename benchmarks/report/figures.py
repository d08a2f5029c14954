"""Named figures of a suite: merged over processes, shown as a table."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.measure.timing import QUIET
from benchmarks.report.tables import aligned, markdown, number
from benchmarks.report.verdicts import Verdict


@dataclass(frozen=True)
class Figures:
    """A row: what was measured, on how many threads, and numbers by name.

    Attributes:
        failed: the errors of columns without a number.
        foreign: CPUs that others used meanwhile.
    """

    name: str
    threads: int
    values: dict[str, float]
    failed: dict[str, str] = field(default_factory=dict)
    foreign: float = 0.0

    @property
    def title(self) -> str:
        return self.name if self.threads == 1 else f"{self.name} ({self.threads} t.)"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def merged(runs: Iterable[Sequence[Figures]]) -> list[Figures]:
    """Medians over the processes of a run."""
    by_key: dict[tuple[str, int], list[Figures]] = {}
    for rows in runs:
        for r in rows:
            by_key.setdefault((r.name, r.threads), []).append(r)
    found = []
    for (name, threads), same in by_key.items():
        names = dict.fromkeys([n for r in same for n in r.values])
        values = {
            n: float(statistics.median([r.values[n] for r in same if n in r.values])) for n in names
        }
        failed = {n: text for r in same for n, text in r.failed.items()}
        foreign = statistics.fmean([r.foreign for r in same])
        found.append(Figures(name, threads, values, failed, foreign))
    return found


def remarks(rows: Sequence[Figures]) -> list[str]:
    """Who failed, and whether the machine was quiet."""
    found = [f"failed  {r.title}, {n}: {text}" for r in rows for n, text in r.failed.items()]
    noisy = sum([r.foreign > QUIET for r in rows])
    if noisy:
        found.append(f"{noisy} of {len(rows)} rows were measured while others used the machine")
    return found


def table(rows: Sequence[Figures], as_markdown: bool = False) -> str:
    """One column for every number."""
    columns = list(dict.fromkeys([n for r in rows for n in (*r.values, *r.failed)]))
    cells = [
        [r.name, str(r.threads)]
        + ["failed" if c in r.failed else number(r.values.get(c)) for c in columns]
        for r in rows
    ]
    head = ["", "threads", *columns]
    return markdown(head, cells) if as_markdown else aligned(head, cells)


Measure = Callable[[Sequence[str], int, int, Collection[str]], Iterable[Figures]]
Judge = Callable[[Sequence[Figures]], list[Verdict]]


@dataclass(frozen=True)
class Suite:
    """A subcommand that measures figures in fresh processes.

    Attributes:
        measure: (parts of names, rounds, threads, names of rows that are there) -> the other
            figures, one by one; called in a measuring process.
        judge: what the figures are asked.
        threads: the numbers of threads it runs on; None for those the user names.
        peers: who takes part where its package is installed.
        processes: fresh ones, whose medians count, where the user names no number.
    """

    name: str
    text: str
    measure: Measure
    judge: Judge
    threads: tuple[int, ...] | None = None
    peers: tuple[str, ...] = ()
    processes: int = 1


def asked(rows: Sequence[Figures], what: str, value: str, floor: float) -> Verdict | None:
    """Whether a value reaches a floor in every row that has it."""
    known = [r for r in rows if value in r.values]
    if not known:
        return None
    low = [f"{r.title} {r.values[value]:.2f}" for r in known if not r.values[value] >= floor]
    least = min(known, key=lambda r: r.values[value])
    text = f"least {least.values[value]:.2f} ({least.title}) of {floor:g}"
    if low:
        text += f" over {len(known)}; below: {', '.join(low)}"
    return Verdict(what, not low, text)


def at_most(rows: Sequence[Figures], what: str, value: str, ceiling: float) -> Verdict | None:
    """Whether a value stays below a ceiling in every row that has it."""
    known = [r for r in rows if value in r.values]
    if not known:
        return None
    high = [f"{r.title} {number(r.values[value])}" for r in known if not r.values[value] <= ceiling]
    most = max(known, key=lambda r: r.values[value])
    text = f"most {number(most.values[value])} ({most.title}) of {ceiling:g}"
    if high:
        text += f" over {len(known)}; above: {', '.join(high)}"
    return Verdict(what, not high, text)


def those(found: Iterable[Verdict | None]) -> list[Verdict]:
    """Without what could not be judged."""
    return [v for v in found if v is not None]
