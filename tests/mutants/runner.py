"""Plants mistakes one at a time in a copy of the project and runs the tests of their part."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Final, TypeVar

from tests.mutants.mistake import ROOT, Mistake

PYTEST: Final = ("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=line")
WHOLE_SUITE: Final = ("tests",)
NONE_RAN: Final = 5
"""How pytest ends where no test ran: none was selected, or whole files were skipped."""
LEAST_LIMIT: Final = 60.0
"""Seconds that tests always have before they count as hanging."""
SLOWER: Final = 8
"""How many times longer than without a mistake they may take."""

T = TypeVar("T")
R = TypeVar("R")
IMPORTED: Final = """\
import pathlib, sys
import tensorad, tensorad.codegen, tensorad.simplify, tests
own = pathlib.Path(sys.argv[1]).resolve()
for m in (tensorad, tensorad.codegen, tensorad.simplify, tests):
    assert own in pathlib.Path(m.__file__).resolve().parents, m.__file__
"""


class WrongSetup(Exception):
    """Nothing that runs here would say anything about mistakes."""


@dataclass(frozen=True)
class Ran:
    """What a run of tests came to.

    Attributes:
        noticed: the test that failed, a crash or a hang; "" if all passed.
        seconds: how long it took.
    """

    noticed: str
    seconds: float


@dataclass(frozen=True)
class Outcome:
    """What became of one mistake.

    Attributes:
        mistake: the mistake.
        ring: which list of tests noticed it, from 1 on; 0: none.
        noticed: by what; "" if by nothing.
        seconds: of all its runs.
    """

    mistake: Mistake
    ring: int
    noticed: str
    seconds: float

    @property
    def verdict(self) -> str:
        """killed, survived or equivalent."""
        if self.noticed:
            return "killed"
        return "equivalent" if self.mistake.equivalent else "survived"


class Copy:
    """The files of the project that git knows, as they are now, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
        )
        for name in filter(None, listed.stdout.split("\0")):
            source, target = ROOT / name, folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_symlink() or source.exists():  # not one that was just deleted
                shutil.copy2(source, target, follow_symlinks=False)
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")},
            "PYTHONPATH": str(folder),
        }
        self.environment.pop("PYTHONPYCACHEPREFIX", None)
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)
        # by the hash of the source: two edits within a second must not be taken for one
        packages = ("tensorad", "codegen", "simplify", "tests", "benchmarks", "examples")
        hashed = ("-m", "compileall", "-q", "--invalidation-mode", "checked-hash", *packages)
        for command in (hashed, ("-c", IMPORTED, str(folder))):
            done = self._python(command, 600.0)
            if done[0] != 0:
                raise WrongSetup(f"the copy in {folder} is not what is imported:\n{done[1]}")

    def _python(self, arguments: Sequence[str], limit: float) -> tuple[int | None, str]:
        """(exit code, output); no code where the limit was reached."""
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            text, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with what it started
            return None, process.communicate()[0]
        return process.returncode, text

    def run(self, tests: Sequence[str], limit: float) -> Ran:
        """Run tests as the copy is.

        Raises:
            WrongSetup: not one was selected.
        """
        before = time.monotonic()
        code, text = self._python((*PYTEST, *tests), limit)
        seconds = time.monotonic() - before
        if code == NONE_RAN and not re.search(r"\b\d+ skipped", text):
            raise WrongSetup(f"no test is selected by {' '.join(tests)}")
        if code in (0, NONE_RAN):
            return Ran("", seconds)
        if code is None:
            return Ran("a hang", seconds)
        if code < 0:
            return Ran(f"a crash ({signal.Signals(-code).name})", seconds)
        found = re.search(r"^(?:FAILED|ERROR) (\S+)", text, re.M)
        return Ran(found[1] if found else text.strip().splitlines()[-1][:90], seconds)

    def plant(self, mistake: Mistake) -> Callable[[], object]:
        """Write the mistake into the copy; returns what takes it out."""
        path = self.folder / mistake.file
        right = path.read_text()
        path.write_text(mistake.planted_in(right))
        return lambda: path.write_text(right)


def _limits(
    copies: Sequence[Copy], mistakes: Sequence[Mistake], whole: bool
) -> dict[object, float]:
    """Seconds for each list of tests, all of which pass without a mistake."""
    rings = dict.fromkeys(ring for m in mistakes for ring in _rings(m, whole))
    missing = {
        p for m in mistakes for ring in m.part.paths() for p in ring if not (ROOT / p).exists()
    }
    if missing:
        raise WrongSetup(f"no tests {', '.join(sorted(missing))}")

    def limit(copy: Copy, ring: Sequence[str]) -> float:
        ran = copy.run(ring, 3600.0)
        if ran.noticed:
            raise WrongSetup(f"{ran.noticed} fails without a mistake")
        print(f"  {ran.seconds:6.1f} s without a mistake: {' '.join(ring)}", flush=True)
        return max(LEAST_LIMIT, SLOWER * ran.seconds)

    return dict(zip(rings, _on_each(copies, limit, rings), strict=True))


def _rings(mistake: Mistake, whole: bool) -> list[tuple[str, ...]]:
    return [*mistake.part.rings(), *([WHOLE_SUITE] if whole else ())]


def _on_each(copies: Sequence[Copy], work: Callable[[Copy, T], R], items: Iterable[T]) -> list[R]:
    """Each item with a copy that nobody else has meanwhile."""
    free: SimpleQueue[Copy] = SimpleQueue()
    for copy in copies:
        free.put(copy)

    def one(item: T) -> R:
        copy = free.get()
        try:
            return work(copy, item)
        finally:
            free.put(copy)

    with ThreadPoolExecutor(len(copies)) as pool:
        return list(pool.map(one, items))


def outcomes(mistakes: Sequence[Mistake], jobs: int, whole: bool = False) -> list[Outcome]:
    """Plant each mistake, and run the tests of its part until one notices it.

    Args:
        whole: whether the whole fast suite runs where the part's tests notice nothing.
    """
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies = [Copy(Path(folder) / str(n)) for n in range(jobs)]
        limits = _limits(copies, mistakes, whole)

        def one(copy: Copy, mistake: Mistake) -> Outcome:
            take_out = copy.plant(mistake)
            seconds, noticed, at = 0.0, "", 0
            try:
                for ring in _rings(mistake, whole):
                    ran, at = copy.run(ring, limits[ring]), at + 1
                    seconds, noticed = seconds + ran.seconds, ran.noticed
                    if noticed:
                        break
            finally:
                take_out()
            made = Outcome(mistake, at if noticed else 0, noticed, seconds)
            ring_text = f"ring {at}, " if noticed else ""
            print(
                f"{made.verdict:10} {mistake.name}: {noticed} ({ring_text}{seconds:.1f} s)",
                flush=True,
            )
            return made

        return _on_each(copies, one, mistakes)
