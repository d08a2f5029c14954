"""The guard: this checkout beside the commit before it, on one machine at one time.

Each side is a process with its own tensorad; both run this checkout's benchmarks and take turns,
so that what else the machine does hits them alike. No figure of another run is read.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from benchmarks.commands.options import positive
from benchmarks.measure.processes import bind, environment
from benchmarks.report.tables import aligned, number
from benchmarks.workloads.catalogue import chosen

CLIFF: Final = 1.5
"""A call that takes this many times as long as before has fallen. The same commit on both sides
gave medians of 0.86 to 1.27 on a machine that others kept busy, single rounds up to 159."""
LOOKS: Final = 3
"""What seems to fall is measured again in new processes: where arrays lie decides, too."""
MODES: Final = ("fwd", "fb")
SIDE: Final = "benchmarks.guard_side"
PARENT: Final = "HEAD^"
ROOT: Final = Path(__file__).resolve().parent.parent


class Timer(Protocol):
    """What answers requests: a process, or a test's stand-in."""

    def ask(self, **request: object) -> dict[str, Any]:
        """The answer to one request."""


@dataclass
class Side:
    """A process that runs the tensorad of one folder."""

    process: subprocess.Popen[str]

    def ask(self, **request: object) -> dict[str, Any]:
        """The answer to one request.

        Raises:
            EOFError: the process has ended.
        """
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise EOFError(f"{self.process.args!r} ended with exit code {self.process.wait()}")
        found: dict[str, Any] = json.loads(line)
        return found


@dataclass(frozen=True)
class Compared:
    """One mode of one workload: this side's time as a share of the other's, round by round."""

    workload: str
    mode: str
    before_s: float = 0.0
    shares: list[float] = field(default_factory=list)
    failed: str = ""
    """This side's error where the other has none."""

    @property
    def share(self) -> float:
        """The median."""
        return statistics.median(self.shares)

    @property
    def fell(self) -> bool:
        """Whether it is slower by a clear factor, or no longer runs."""
        return bool(self.failed) or self.share > CLIFF


def compare(
    workload: str, before: Timer, now: Timer, rounds: int, seconds: float
) -> Iterator[Compared]:
    """The modes that ran before, in turns; who begins a round changes."""
    old, new = (side.ask(prepare=workload) for side in (before, now))
    for mode, least in old["calls"].items():
        if mode not in new["calls"]:
            yield Compared(workload, mode, failed=new["failed"].get(mode, "it is gone"))
            continue
        count = max(1, min(5000, int(seconds / max(least, 1e-7))))
        shares, times = [], []
        for turn in range(rounds):
            order = (before, now) if turn % 2 else (now, before)
            found = {id(s): s.ask(sample=mode, calls=count)["seconds"] for s in order}
            shares.append(found[id(now)] / found[id(before)])
            times.append(found[id(before)])
        yield Compared(workload, mode, statistics.median(times), shares)


def run(
    base: Path, this: Path, names: Sequence[str], options: argparse.Namespace
) -> list[Compared]:
    """Both folders on every workload, in new processes."""
    found: list[Compared] = []
    with side(base, SIDE, *MODES) as before, side(this, SIDE, *MODES) as now:
        for name in names:
            found += compare(name, before, now, options.rounds, options.seconds)
    return found


@contextmanager
def side(folder: Path, module: str, *arguments: str) -> Iterator[Side]:
    """A process that runs a module and imports what lies in the folder, on one CPU."""
    command = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(
        command, cwd=folder, env=environment(1) | {"PYTHONPATH": str(folder)}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=lambda: bind(1),
    ) as process:  # fmt: skip
        yield Side(process)


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """A folder with the files of a commit, but this checkout's benchmarks."""
    with tempfile.TemporaryDirectory(prefix="tensorad_guard_") as temporary:
        archive = subprocess.run(
            ["git", "archive", commit], cwd=ROOT, check=True, capture_output=True
        ).stdout
        subprocess.run(["tar", "-x", "-C", temporary], input=archive, check=True)
        folder = Path(temporary, "benchmarks")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(ROOT / "benchmarks", folder, ignore=shutil.ignore_patterns("__pycache__"))
        yield Path(temporary)


def commit_of(name: str) -> str:
    """The hash of a commit; "" where this clone has none of that name."""
    done = subprocess.run(
        ["git", "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"],
        cwd=ROOT, check=False, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.strip()


def table(rows: Sequence[Compared]) -> str:
    """A line for each mode of each workload."""
    cells = []
    for r in rows:
        name = f"{r.workload} {r.mode}"
        if r.failed:
            cells.append([name, "", "", "", f"FAILS: {r.failed}"])
            continue
        least, most = number(min(r.shares)), number(max(r.shares))
        mark = "FELL" if r.fell else ""
        cells.append([name, number(r.before_s * 1e3), f"{r.share:.2f}", f"{least}-{most}", mark])
    return aligned(["now / before", "before, ms", "median", "rounds", ""], cells)


def main(options: argparse.Namespace) -> int:
    """1 where a call takes clearly longer than at the base, in every look."""
    names = [w.name for w in chosen(options.names or ["small"])]
    if not names:
        print(f"no workload's name contains {' or '.join(options.names)}")
        return 2
    base = commit_of(options.base)
    if not base and options.base == PARENT:
        print("NOTHING IS COMPARED: this clone has no parent of its commit (a full one has)")
        return 0
    if not base:
        print(f"this clone has no commit {options.base}")
        return 2
    with ExitStack() as stack:
        folder = stack.enter_context(checked_out(base))
        rows = run(folder, ROOT, names, options)
        print(f"this checkout beside {base[:10]}\n{table(rows)}")
        for _ in range(LOOKS - 1):
            fallen = {(r.workload, r.mode) for r in rows if r.fell}
            if not fallen:
                break
            again = list(dict.fromkeys([w for w, _ in sorted(fallen)]))
            found = run(folder, ROOT, again, options)
            rows = [r for r in found if (r.workload, r.mode) in fallen]
            print(f"\nmeasured again\n{table(rows)}")
    fallen = {(r.workload, r.mode) for r in rows if r.fell}
    if not rows:
        print("NOTHING IS COMPARED: no workload runs at the base")
    print(f"{len(fallen)} slower than {CLIFF} times the time before, or failing")
    return 1 if fallen else 0


def options(p: argparse.ArgumentParser) -> None:
    """What the guard may be told."""
    p.add_argument("names", nargs="*", help="as of frameworks; small when left out")
    p.add_argument("--base", default=PARENT, help="the commit to compare with; HEAD^ by default")
    p.add_argument("--rounds", type=positive, default=11, help="turns per median")
    p.add_argument("--seconds", type=float, default=0.01, help="length of one sample, about")


COMMANDS: Final = (
    ("guard", main, "this checkout beside its parent commit; 1 where a call fell off a cliff"),
)
