"""What calls from Python cost beside another commit, in pairs of processes by turns."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from benchmarks import guard
from benchmarks.report.tables import aligned

SIDE: Final = "benchmarks.race.call_side"
SUITE: Final = "interop"
"""The subcommand with the option."""
SLOWER: Final = 1.1
"""The median of a form's shares that counts as slower; the same commit on both sides gave 0.96 to
1.06 on a machine that others kept busy."""
SECONDS: Final = 2e-3
"""The length of one sample."""


def run(base: Path, this: Path, rounds: int, processes: int) -> list[guard.Compared]:
    """All forms of calls in so many pairs of new processes, with the shares of all of them."""
    found: dict[str, guard.Compared] = {}
    for _ in range(processes):
        with guard.side(base, SIDE) as before, guard.side(this, SIDE) as now:
            for r in guard.compare("calls", before, now, rounds, SECONDS):
                known = found.setdefault(r.mode, r)
                if known is not r:
                    known.shares.extend(r.shares)
    return list(found.values())


def compare(options: argparse.Namespace) -> int:
    """1 where a form of calls is slower than at the commit, or fails."""
    base = guard.commit_of(options.compare)
    if not base:
        print(f"this clone has no commit {options.compare}")
        return 2
    with guard.checked_out(base) as folder:
        rows = run(folder, guard.ROOT, options.rounds, options.processes or 5)
    print(f"this checkout beside {base[:10]}\n{table(rows)}")
    slower = [r for r in rows if r.failed or r.share > SLOWER]
    print(f"{len(slower)} of {len(rows)} slower than {SLOWER} times the time before, or failing")
    return 1 if slower else 0


def beside(measure: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """The comparison where a commit is named, and otherwise what the suite measures."""
    return lambda options: (compare if options.compare else measure)(options)


def options(p: argparse.ArgumentParser) -> None:
    """The option that names the commit."""
    text = "only what calls of f(numpy) cost beside that commit"
    p.add_argument("--compare", metavar="COMMIT", help=text)


def table(rows: Sequence[guard.Compared]) -> str:
    """A line for each form: before, and the quartiles of now / before."""
    cells = []
    for r in rows:
        if r.failed:
            cells.append([r.mode, "", "", "", f"FAILS: {r.failed}"])
            continue
        low, middle, high = statistics.quantiles(r.shares, n=4)
        mark = "SLOWER" if middle > SLOWER else ""
        share = [f"{middle:.3f}", f"{low:.3f}-{high:.3f}"]
        cells.append([r.mode, f"{r.before_s * 1e9:.0f}", *share, mark])
    return aligned(["now / before", "before, ns", "median", "quartiles", ""], cells)
