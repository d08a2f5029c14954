"""Machines that tests describe, so that what the analysis chooses is the same wherever they run.

A test whose assertion depends on what is chosen (loops, plans, tiles, scratch, threads) names the
whole machine by `described`. A test of values leaves the machine as it is; `.ci/run` repeats the
files of `SCHEDULES` on each of `MACHINES`, where a test with a description keeps its own.
`python -m tests.support.machines files|machines|python` prints the lists for it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tensorad.codegen.target import machine
from tensorad.config import override

TESTS: Final = Path(__file__).resolve().parents[1]


def _whole(
    cores: int, l2: int, l3: int, vector: int, registers: int, l1: int = 32, units: int = 2,
    by_lines: int = 0,
) -> str:  # fmt: skip
    """A whole machine: l1 and l2 in kB, l3 in MB, vectors in bytes, multiply-adds in a cycle.

    Its speeds are said, too: they would be measured otherwise.
    """
    return (
        f"l1={l1 << 10},l2={l2 << 10},l3={l3 << 20},line=64,vector_bytes={vector},"
        f"registers={registers},multiply_adds={units},cores={cores},"
        f"flops={units * vector * 1_900_000_000},read=20000000000,by_lines={by_lines}"
    )


ZEN4: Final = _whole(2, 1024, 32, 64, 32, units=1)
MACHINES: Final = (
    ZEN4,
    # a Xeon with a share of a whole socket's last cache
    _whole(2, 2048, 480, 64, 32, l1=48, by_lines=3),
    _whole(1, 256, 4, 16, 16),
    _whole(1, 1024, 480, 32, 16),
    _whole(64, 2048, 4, 32, 16),
    _whole(64, 256, 480, 64, 32),
    _whole(2, 256, 4, 32, 16),
    _whole(64, 1024, 480, 16, 32),
)
"""Nearly every pair of 1, 2 and 64 cores, three second caches, three widths of vectors, and small
and huge last caches."""

SCHEDULES: Final = (
    "bits", "contraction", "contraction_exact", "contraction_sharing", "contraction_symbolic",
    "fused_contractions", "fusion", "guard_pages", "memory_use", "parallel_apart", "parallel_work",
    "random_jit", "row_block_fusion", "row_passes", "scan_lanes", "scans", "schedule",
    "schedule_quotients", "schedule_report", "schedule_split", "schedule_tables",
    "schedule_threads", "scratch", "short_circuit", "stages", "sums", "tables", "together", "units",
    "workload_bits",
)  # fmt: skip
"""The files of tests about schedules. Under each of `MACHINES` values, bits and counts must hold.

Left out are files in which every test has a description of its own, as nothing would change, and
the longest of those that only compare values."""

PYTHON: Final = (
    "arguments", "build", "collector", "compiling", "forks", "interrupts", "memory_use",
    "output_blocks", "packaging", "pickling", "portable", "random_jit", "stub", "te",
    "thread_counts", "threads", "tuning",
)  # fmt: skip
"""The files of tests about what another Python may change: calls, memory, signals, threads."""


def path_of(name: str) -> str:
    """Where the file of tests of that name is, from the checkout."""
    found = list(TESTS.rglob(f"test_{name}.py"))
    if len(found) != 1:
        raise ValueError(f"{len(found)} files are called test_{name}.py")
    return str(found[0].relative_to(TESTS.parent))


@contextmanager
def described(changes: str = "", **settings: object) -> Iterator[None]:
    """Have everything planned for two cores of a Zen 4, but for what `changes` says of it.

    As a `with` block or as the decorator of a test. As many threads as cores unless `settings`
    says otherwise; code is compiled for the processor at hand unless `changes` has a cpu, which
    brings its own registers.
    """
    base = ZEN4
    if "cpu=" in changes:
        own = ("vector_", "registers=", "multiply_adds=")
        base = ",".join(p for p in base.split(",") if not p.startswith(own))
    with override(machine=f"{base},{changes}"):
        cores = machine.current().cores
    with override(**{"machine": f"{base},{changes}", "num_threads": cores} | settings):
        yield


def main(what: str) -> None:
    """Print one of the lists, its parts on one line."""
    if what == "machines":
        print(*MACHINES)
    else:
        names = {"files": SCHEDULES, "python": PYTHON}[what]
        print(*[path_of(name) for name in names])


if __name__ == "__main__":
    main(sys.argv[1])
