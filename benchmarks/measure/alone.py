"""One measurement: `python -m benchmarks.measure.alone cold|compile|memory NAME PEER`."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.measure.processes import RunError
from benchmarks.peers import ours
from benchmarks.peers.registry import make
from benchmarks.workloads.catalogue import PROGRAMS, WORKLOADS
from benchmarks.workloads.problem import Problem

WARM_UP = "maxpool_small"
MODE = "fb"
LATER = 3
"""Calls after the first one, of which the fastest counts."""
RETURNED = {
    "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536", "MALLOC_TOP_PAD_": "0",
}  # fmt: skip
"""glibc gives freed memory back to the system, so that all memory in use is seen."""


def started(kind: str, name: str, peer: str) -> float:
    """What the process prints: seconds, or bytes.

    Raises:
        subprocess.CalledProcessError: it failed; what it said is in `stderr`.
    """
    command = [sys.executable, "-m", "benchmarks.measure.alone", kind, name, peer]
    with tempfile.TemporaryDirectory(prefix="tensorad_bench_") as cold:
        given = {"TORCHINDUCTOR_CACHE_DIR": cold} if kind != "memory" else RETURNED
        done = subprocess.run(
            command, env={**os.environ, **given}, capture_output=True, text=True, check=True
        )
    return float(done.stdout)


def compile_seconds(p: Problem, peer: str) -> float:
    """The same once the contestant has compiled something else, so that it is set up."""
    cold_seconds(WORKLOADS[WARM_UP].problem(), peer)
    return cold_seconds(p, peer)


def cold_seconds(p: Problem, peer: str) -> float:
    """From the formula to running code: the first call, less what the fastest later one takes.

    Calls may take longer than compiling, and differ by more than that: it is never less than what
    a peer took before it ran anything.
    """
    c = ours.contestant(p, [MODE]) if peer == ours.NAME else make(peer, p, [MODE], threads=1)
    assert c is not None  # every workload has the plain formulation
    if MODE in c.failed:
        raise RunError(c.failed[MODE])
    later = []
    for _ in range(LATER):
        start = time.perf_counter()
        c.calls[MODE]()
        later.append(time.perf_counter() - start)
    return max(c.compile_s.get(MODE, 0.0), c.first_s[MODE] - min(later))


def peak_bytes(p: Problem, peer: str) -> float:
    """Memory that a call takes on top of its inputs: results and all in between.

    The contestant ran once before, so that libraries are loaded and code is compiled; then it is
    made anew, and everything it asks for counts. Of JAX it is what its compiler plans.
    """
    if peer == "jax":
        from benchmarks.peers.by_jax import planned_bytes

        return planned_bytes(p)
    call = _fresh_call(p, peer)
    call()
    del call
    return peak_of(_fresh_call(p, peer))


def peak_of(call: Callable[[], object]) -> float:
    """Bytes by which this process grows in a call, at most."""
    gc.collect()
    _return_memory()
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    call()
    return float(_status("VmHWM") - before)


def _return_memory() -> None:
    """What glibc keeps of small arrays, which the next call would use unseen, to the system."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _fresh_call(p: Problem, peer: str) -> Callable[[], object]:
    """A call that has not run yet, its inputs in memory."""
    if peer == ours.NAME:
        program = ours.Program(p)
        f = program.build(MODE)
        given = program.arrays(MODE)
        return lambda: f(*given)
    from benchmarks.peers.by_torch import fresh_call

    return fresh_call(p)


def _status(field: str) -> int:
    """Bytes, from the process's status."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise LookupError(f"the system does not tell {field}.")


def main() -> int:
    """Measure and print one number."""
    kind, name, peer = sys.argv[1:]
    p = {**WORKLOADS, **PROGRAMS}[name].problem()
    kinds = {"cold": cold_seconds, "compile": compile_seconds, "memory": peak_bytes}
    print(kinds[kind](p, peer))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
