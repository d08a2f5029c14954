"""Random cases until the purse is empty; what fails is shrunk and kept.

python -m tests.fuzz NAME [--seconds N] [--cases N] [--seed S]
    NAME: simplify, bounds, elimination, derivatives, code, schedules, calls, programs, or all.
    Finds are written into tests/regressions, where the tests check them ever after.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("TENSORAD_DEBUG", "certify")  # read when tensorad is imported

from tests.fuzz.case import written  # after the flag
from tests.fuzz.children import Child, Told
from tests.fuzz.choices import Drawn, Repeated, shrunk
from tests.fuzz.fuzzers import FUZZERS
from tests.random.generators import Choices

KEPT = Path(__file__).resolve().parents[1] / "regressions"
BATCH = 100
"""Cases that one process checks."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Ends with 1 if something was found."""
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("name", choices=[*FUZZERS, "all"])
    options.add_argument("--seconds", type=float, help="how long, for each name")
    options.add_argument("--cases", type=int, help="how many, for each name; default 1000")
    options.add_argument("--seed", type=int, default=0, help="the first seed")
    options.add_argument("--keep", type=Path, default=KEPT, help="the folder of what is found")
    given = options.parse_args(arguments)
    cases = given.cases or (sys.maxsize if given.seconds else 1000)
    found = 0
    for name in FUZZERS if given.name == "all" else [given.name]:
        found += fuzz(name, given.seed, cases, given.seconds, given.keep)
    return 1 if found else 0


def fuzz(name: str, seed: int, cases: int, seconds: float | None, keep: Path) -> int:
    """How many different failures there were."""
    fuzzer, start, done = FUZZERS[name], time.monotonic(), 0
    known: set[str] = set()

    def goes_on() -> bool:
        return done < cases and (seconds is None or time.monotonic() - start < seconds)

    while goes_on():
        with Child(fuzzer) as child:
            for _ in range(BATCH):
                if not goes_on():
                    break
                at, done = seed + done, done + 1
                told = child.ask(at)
                if told.failure and told.failure not in known:
                    known.add(told.failure)
                    kept = keep_case(name, child, at, told, keep)
                    print(f"{name}: seed {at}: {told.message[:300]}\n  kept as {kept}", flush=True)
    took = time.monotonic() - start
    print(
        f"{name}: {done:,} cases from seed {seed} in {took:.0f} s, {len(known)} found", flush=True
    )
    return len(known)


def keep_case(name: str, child: Child, seed: int, told: Told, keep: Path) -> Path:
    """The file of the smallest case that fails alike."""
    source = Drawn(seed)
    child.fuzzer.make(Choices(source), seed)

    def fails(choices: Sequence[int]) -> bool:
        return child.ask(seed, choices).failure == told.failure

    small = shrunk(source.made, fails) if fails(source.made) else source.made
    case = child.fuzzer.make(Choices(Repeated(small)), seed)
    path = keep / f"{name}_{seed}.txt"
    keep.mkdir(exist_ok=True)
    path.write_text(written(name, case, told.message))
    return path


if __name__ == "__main__":
    sys.exit(main())
