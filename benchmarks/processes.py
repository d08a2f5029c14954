"""Measurements run in fresh processes, with their threads set before any library starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tensorad.errors import UserError

THREAD_VARIABLES: Final = (
    "TENSORAD_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS",
    "NUMBA_NUM_THREADS", "PJRT_NPROC", "NPROC",
)  # fmt: skip


class RunError(UserError, RuntimeError):
    """A measuring process failed."""


def environment(threads: int, cache: str) -> dict[str, str]:
    """Variables of a measuring process; compiled code of torch goes to `cache`."""
    chosen = {name: str(threads) for name in THREAD_VARIABLES}
    return {
        **os.environ,
        **chosen,
        "JAX_PLATFORMS": "cpu",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TORCHINDUCTOR_CACHE_DIR": cache,
    }


def bind(threads: int) -> None:
    """Keep this process and its children on so many CPUs: JAX takes all it may use."""
    if hasattr(os, "sched_setaffinity"):
        cpus = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cpus[-threads:])


def measure(arguments: Sequence[str], threads: int, processes: int = 1) -> list[Any]:
    """What `python -m benchmarks <arguments>` finds in so many processes, one after the other.

    Raises:
        RunError: one of them failed; what it printed is on the screen.
    """
    found = []
    with tempfile.TemporaryDirectory(prefix="tensorad_bench_") as folder:
        for n in range(processes):
            path = Path(folder, f"{n}.json")
            command = [sys.executable, "-m", "benchmarks", *arguments, "--found", str(path)]
            done = subprocess.run(
                command, env=environment(threads, folder), preexec_fn=lambda: bind(threads),
                check=False,
            )  # fmt: skip
            if done.returncode:
                raise RunError(
                    f"the measuring process ended with exit code {done.returncode}.",
                    where=" ".join(command),
                    hint="run this command by itself to see what went wrong.",
                )
            found.append(json.loads(path.read_text()))
    return found
