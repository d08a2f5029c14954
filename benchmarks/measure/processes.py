"""Measurements run in fresh processes, with their threads set before any library starts."""

from __future__ import annotations

import getpass
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.measure.machine import fingerprint
from benchmarks.measure.parts import opened
from tensorad.errors import UserError

THREAD_VARIABLES: Final = (
    "TENSORAD_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS",
    "NUMBA_NUM_THREADS", "PJRT_NPROC", "NPROC",
)  # fmt: skip

TORCH_CACHE: Final = "TORCHINDUCTOR_CACHE_DIR"


class RunError(UserError, RuntimeError):
    """A measuring process failed."""


def environment(threads: int) -> dict[str, str]:
    """Variables of a measuring process; what PyTorch compiles stays for the next one."""
    chosen = {name: str(threads) for name in THREAD_VARIABLES}
    cache = Path(tempfile.gettempdir(), f"tensorad_bench_torch_{getpass.getuser()}")
    return {
        TORCH_CACHE: str(cache),
        **os.environ,
        **chosen,
        "JAX_PLATFORMS": "cpu",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }


def cpus() -> list[int]:
    """Those this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def bind_to(chosen: Sequence[int]) -> None:
    """Keep this process and its children on these CPUs."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, chosen)


def bind(threads: int) -> None:
    """The same for so many CPUs: JAX takes all it may use."""
    bind_to(cpus()[-threads:])


def measure(
    arguments: Sequence[str], threads: int, processes: int = 1, keep: Path | None = None
) -> list[list[Any]]:
    """The rows that `python -m benchmarks <arguments>` finds in so many processes, one by one.

    Args:
        keep: a folder for their files. What is there of a run of the same code and arguments
            that was cut is not measured again.

    Raises:
        RunError: one of them failed; what it printed is on the screen.
    """
    found = []
    with tempfile.TemporaryDirectory(prefix="tensorad_bench_") as temporary:
        folder = keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for n in range(processes):
            run = [*arguments, f"--threads={threads}", fingerprint()]
            part = opened(folder / f"{threads}_{n}.json", run)
            if not part.complete:
                _measured(arguments, threads, part.path)
                part = opened(part.path)
                part.complete = True
                part.write()
            found.append(part.rows)
    return found


def _measured(arguments: Sequence[str], threads: int, path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", *arguments, "--found", str(path)]
    done = subprocess.run(
        command, env=environment(threads), preexec_fn=lambda: bind(threads), check=False
    )
    if done.returncode:
        raise RunError(
            f"the measuring process ended with exit code {done.returncode}.",
            where=" ".join(command),
            hint="run this command by itself to see what went wrong.",
        )
