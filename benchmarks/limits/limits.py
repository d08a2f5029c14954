"""What the machine can do: multiply-adds and bytes per second, measured in the run itself."""

from __future__ import annotations

import ctypes
import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.limits.kernels import STEP_BYTES, VECTOR_BYTES, multiply_add, stream
from benchmarks.report.records import Row
from benchmarks.report.tables import aligned, number
from benchmarks.workloads.problem import Array

MIXES: Final = ((1, 0), (0, 1), (1, 1), (2, 1), (4, 1), (1, 2), (1, 4))
"""(arrays read, arrays written) of the streams."""
FOOTPRINTS: Final = (1 << 16, 1 << 19, 1 << 23, 1 << 25, 1 << 28)
"""Bytes of all arrays of a stream together: from the first cache to memory."""
SAMPLE_S: Final = 0.01
SAMPLES: Final = 3
TRIAL_TURNS: Final = 20_000
ALIGNED: Final = 64


def by_cores(cpus: Iterable[int], folder: str = "/sys/devices/system/cpu") -> list[int]:
    """One CPU of each core, then the second of each: those of a core share its units."""
    cores: Counter[str] = Counter()
    turns: list[tuple[int, int]] = []
    for cpu in sorted(cpus):
        try:
            core = Path(folder, f"cpu{cpu}", "topology", "thread_siblings_list").read_text()
        except OSError:
            core = str(cpu)
        turns.append((cores[core], cpu))
        cores[core] += 1
    return [cpu for _, cpu in sorted(turns)]


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Threads on CPUs of their own, where the system lets them choose: a limit is the machine's."""
    if not hasattr(os, "sched_setaffinity"):
        return ThreadPoolExecutor(threads)
    cpus = cycle(by_cores(os.sched_getaffinity(0)))
    return ThreadPoolExecutor(threads, initializer=lambda: os.sched_setaffinity(0, {next(cpus)}))


def _on_threads(calls: Sequence[Callable[[], object]]) -> float:
    """Seconds from when all threads are ready to when all are done."""
    if len(calls) == 1:
        start = time.perf_counter()
        calls[0]()
        return time.perf_counter() - start
    gate = threading.Barrier(len(calls))
    starts: list[float] = []
    ends: list[float] = []

    def run(call: Callable[[], object]) -> None:
        gate.wait()
        starts.append(time.perf_counter())
        call()
        ends.append(time.perf_counter())

    for done in [_pool(len(calls)).submit(run, call) for call in calls]:
        done.result()
    return max(ends) - min(starts)


class Peak:
    """The loop of multiply-adds on some threads; a sample takes them about `sample_s`."""

    def __init__(self, dtype: str, threads: int, sample_s: float = SAMPLE_S) -> None:
        self.threads = threads
        self.scratch = [aligned_block(128) for _ in range(threads)]
        tried = [(self._rate(dtype, width), width) for width in VECTOR_BYTES]
        self.kernel, flops = multiply_add(dtype, max(tried)[1])
        self.turns = self._turns(dtype, max(tried)[1], sample_s)
        self.flops = float(flops * self.turns * threads)

    def _rate(self, dtype: str, width: int) -> float:
        kernel, flops = multiply_add(dtype, width)
        best = float("inf")
        for _ in range(SAMPLES):
            start = time.perf_counter()
            kernel.call(self.scratch[0].ctypes.data, TRIAL_TURNS, 1)
            best = min(best, time.perf_counter() - start)
        return flops * TRIAL_TURNS / best

    def _turns(self, dtype: str, width: int, sample_s: float) -> int:
        seconds_per_turn = multiply_add(dtype, width)[1] / self._rate(dtype, width)
        return max(1000, int(sample_s / seconds_per_turn))

    def seconds(self) -> float:
        """One sample, for `flops` operations."""
        calls = [partial(self.kernel.call, s.ctypes.data, self.turns, 1) for s in self.scratch]
        return _on_threads(calls)


class Stream:
    """Arrays read and written by some threads, each its own part."""

    def __init__(
        self, reads: int, writes: int, size_bytes: int, threads: int, streaming: bool
    ) -> None:
        self.threads = threads
        arrays = reads + writes
        self.kernel = stream(reads, writes, streaming)
        turns = max(1, size_bytes // arrays // STEP_BYTES // threads)
        self.turns = turns
        self.size_bytes = float(turns * STEP_BYTES * arrays * threads)
        self._blocks = [aligned_block(turns * STEP_BYTES * threads) for _ in range(arrays)]
        for block in self._blocks:
            block.view(np.float32).fill(1)  # lines of zeros may go to memory much faster
        self._tables = [self._table(t) for t in range(threads)]
        self.passes = 1
        self.seconds()  # the first touch
        self.passes = max(1, int(SAMPLE_S / max(self.seconds(), 1e-6)))

    def _table(self, thread: int) -> Any:
        """Addresses of a thread's parts, then room for a sum."""
        found = (ctypes.c_int64 * (len(self._blocks) + 8))()
        for n, block in enumerate(self._blocks):
            found[n] = block.ctypes.data + thread * self.turns * STEP_BYTES
        return found

    def seconds(self) -> float:
        """One pass over the arrays: the mean of several."""
        calls = [
            partial(self.kernel.call, ctypes.addressof(t), self.turns, self.passes)
            for t in self._tables
        ]
        return _on_threads(calls) / self.passes


def streams_like(read: float, written: float, threads: int) -> list[Stream]:
    """Plain and streaming stores, in about the same mix and as many bytes."""
    share = read / (read + written)
    reads, writes = min(MIXES, key=lambda m: abs(m[0] / (m[0] + m[1]) - share))
    hints = (False, True) if writes else (False,)
    return [Stream(reads, writes, int(read + written), threads, hint) for hint in hints]


def aligned_block(size_bytes: int) -> Array:
    """Bytes from an address that is a multiple of 64."""
    block = np.empty(size_bytes + ALIGNED, np.uint8)
    start = -block.ctypes.data % ALIGNED
    return block[start : start + size_bytes]


@dataclass(frozen=True)
class Limits:
    """Rates of one number of threads.

    Attributes:
        peak: operations per second by dtype.
        bandwidth: bytes per second by (arrays read, arrays written) and footprint.
        streaming: whether stores past the caches were faster there.
    """

    threads: int
    peak: Mapping[str, float]
    bandwidth: Mapping[tuple[int, int, int], float]
    streaming: Mapping[tuple[int, int, int], bool]

    def seconds(self, flops: float, read: float, written: float, dtype: str = "float32") -> float:
        """The least time for so many operations and bytes."""
        return max(flops / self.peak[dtype], self.moving_seconds(read, written))

    def moving_seconds(self, read: float, written: float) -> float:
        """At the bandwidth of the nearest mix and footprint."""
        total = read + written
        if not total:
            return 0.0
        mix = min(MIXES, key=lambda m: abs(m[0] / (m[0] + m[1]) - read / total))
        size = min(FOOTPRINTS, key=lambda f: abs(math.log(f / total)))
        return total / self.bandwidth[(*mix, size)]

    def row_ms(self, r: Row) -> float:
        """The least milliseconds of a row."""
        return self.seconds(r.flops, r.read_bytes, r.written_bytes) * 1e3

    def as_json(self) -> dict[str, Any]:
        """For records: rates in 1e9 per second."""
        return {
            "threads": self.threads,
            "peak_gflops": {d: v / 1e9 for d, v in self.peak.items()},
            "bandwidth_gbs": {
                f"{r} read {w} written, {size} bytes": v / 1e9
                for (r, w, size), v in self.bandwidth.items()
            },
        }


def measured(threads: int, footprints: Sequence[int] = FOOTPRINTS) -> Limits:
    """Measure all rates; the best of several samples counts."""
    peaks = {d: Peak(d, threads) for d in ("float32", "float64")}
    peak = {d: p.flops / min([p.seconds() for _ in range(SAMPLES)]) for d, p in peaks.items()}
    bandwidth: dict[tuple[int, int, int], float] = {}
    streaming: dict[tuple[int, int, int], bool] = {}
    for size in footprints:
        for reads, writes in MIXES:
            rates = {
                hint: _rate(Stream(reads, writes, size, threads, hint))
                for hint in ((False, True) if writes else (False,))
            }
            key = (reads, writes, size)
            streaming[key] = rates.get(True, 0.0) > 1.05 * rates[False]
            bandwidth[key] = max(rates.values())
    return Limits(threads, peak, bandwidth, streaming)


def _rate(s: Stream) -> float:
    return s.size_bytes / min([s.seconds() for _ in range(SAMPLES)])


def table(found: Sequence[Limits]) -> str:
    """Rates side by side, one column for each number of threads."""
    head = ["limit", *[f"{f.threads} thread{'s' * (f.threads > 1)}" for f in found]]
    rows = [
        [f"multiply-add {d}, 1e9 operations/s", *[number(f.peak[d] / 1e9) for f in found]]
        for d in found[0].peak
    ]
    for key in found[0].bandwidth:
        reads, writes, size = key
        text = f"{reads} read, {writes} written, {_size(size)}, GB/s"
        rates = [number(f.bandwidth[key] / 1e9) + " s" * f.streaming[key] for f in found]
        rows.append([text, *rates])
    return aligned(head, rows) + "\n(s: streaming stores were faster)"


def _size(size_bytes: int) -> str:
    return f"{size_bytes >> 20} MiB" if size_bytes >= 1 << 20 else f"{size_bytes >> 10} KiB"
