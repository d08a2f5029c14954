"""What `import tensorad` costs beside `import numpy`, each in a fresh interpreter."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from tqdm import tqdm

LIMIT = 1.7
"""`import tensorad` may take this many times as long as `import numpy`."""


def seconds(statement: str) -> float:
    """The wall time of the statement in a new process, measured inside it."""
    code = f"import time; s = time.perf_counter(); {statement}; print(time.perf_counter() - s)"
    command = [sys.executable, "-c", code]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def run(rounds: int) -> str:
    """Medians over interleaved rounds, as text."""
    names = ("numpy", "tensorad")
    times: dict[str, list[float]] = {name: [] for name in names}
    started = time.perf_counter()
    for _ in tqdm(range(rounds), unit="round", leave=False):
        for name in names:
            times[name].append(seconds(f"import {name}"))
    numpy, ours = (statistics.median(times[name]) for name in names)
    ratio = ours / numpy
    return (
        f"import numpy {numpy * 1e3:.1f} ms, import tensorad {ours * 1e3:.1f} ms: {ratio:.2f}x "
        f"of {LIMIT}x {'ok' if ratio <= LIMIT else 'OVER'} "
        f"(medians of {rounds}, {time.perf_counter() - started:.0f} s)"
    )
