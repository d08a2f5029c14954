"""Everything at once, and what the process holds before and after.

python -m tests.soak [--minutes N] [--seed S]
    Threads that call, build, fork, are interrupted and get no memory. It ends with 1 if a result
    was wrong, a child hung, or memory, threads, descriptors or mappings did not come back.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Sequence

import tensorad as ta
from tests.soak.actions import Soak
from tests.soak.measures import Held, complaints, held, slope

PARTS = 20
"""How often everything stops to be measured, at least."""
MOST_SECONDS = 60.0
"""Between two measures."""
CALLERS = 3


def main(arguments: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--minutes", type=float, default=2.0)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args(arguments)
    soak, seen = run(given.minutes * 60, given.seed)
    told = [*dict.fromkeys(soak.failures), *complaints(seen)]
    print(f"done: {dict(soak.done)}; {slope(seen) / (1 << 20):.2f} MB per 1,000 cycles")
    print("\n".join(told) or "all came back")
    return 1 if told else 0


def run(seconds: float, seed: int) -> tuple[Soak, list[Held]]:
    """What was done, and what the process held in between; the first part warms up."""
    soak = Soak(seed)
    seen: list[Held] = []
    length = min(seconds / PARTS, MOST_SECONDS)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        soak.over = threading.Event()
        threads = soak.threads(CALLERS)
        for t in threads:
            t.start()
        soak.interrupted(length)
        soak.over.set()
        for t in threads:
            t.join()
        ta.set_num_threads(2)
        soak.check()
        seen.append(held(soak.done["build"]))
        print(seen[-1], flush=True)
    return soak, seen[1:] if len(seen) > 2 else seen


if __name__ == "__main__":
    sys.exit(main())
