"""Two threads beside one, and the same bits on any number."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final

import numpy as np
from tqdm import tqdm

from benchmarks.figures import Figures, Suite, asked, those
from benchmarks.frameworks import compulsory_bytes
from benchmarks.limits import Peak, Stream
from benchmarks.peers.ours import Program, allocated
from benchmarks.timing import Call, race
from benchmarks.verdicts import Verdict
from benchmarks.workloads.catalogue import chosen
from benchmarks.workloads.problem import Array, Workload
from tensorad import config

MODE: Final = "fb"
COUNTS: Final = (1, 2, 3, 8)
REPEATS: Final = 25
"""Calls with each of the counts."""
LEAST_MS: Final = 0.2
"""Shorter kernels may stay on one thread."""
STREAM_BYTES: Final = 1 << 28


def measure(
    names: Sequence[str], rounds: int, threads: int, done: Collection[str] = ()
) -> Iterator[Figures]:
    """Speed-ups of the workloads and of the limits, in the same rounds."""
    peaks = {t: Peak("float32", t) for t in (1, threads)}
    streams = {t: Stream(1, 1, STREAM_BYTES, t, streaming=True) for t in (1, threads)}
    for w in tqdm([w for w in chosen(names) if w.name not in done], unit="workload", leave=False):
        yield _figures(w, rounds, threads, peaks, streams)


def _figures(
    w: Workload, rounds: int, threads: int, peaks: dict[int, Peak], streams: dict[int, Stream]
) -> Figures:
    p = w.problem()
    program = Program(p)
    f, given, out = program.build(MODE), program.arrays(MODE), allocated(program.outputs(MODE))
    target: Any = out[0] if len(out) == 1 else out

    def run() -> Any:
        return f(*given, out=target)

    calls: dict[tuple[str, str], Call] = {}
    for t in (1, threads):
        calls["ours", str(t)] = _with_threads(t, run)
        calls["peak", str(t)] = peaks[t].seconds
        calls["stream", str(t)] = streams[t].seconds
    raced = race(calls, rounds)
    times = {key: t.median_s for key, t in raced.times.items()}
    one, two = times["ours", "1"], times["ours", str(threads)]
    compute = times["peak", "1"] / times["peak", str(threads)] * threads
    moving = _rate(streams[threads], times) / _rate(streams[1], times)
    computes = sum(p.flops) / _flops(peaks[1], times)
    moves = sum(compulsory_bytes(p)[MODE]) / _rate(streams[1], times)
    limit = compute if computes > moves else moving
    values = {
        "ms, 1 thread": one * 1e3, f"ms, {threads} threads": two * 1e3, "speed-up": one / two,
        "compute limit": compute, "memory limit": moving,
        "same bits": float(_same_bits(run, out)),
    }  # fmt: skip
    if one * 1e3 >= LEAST_MS:
        values["share of limit"] = one / two / limit
    return Figures(w.name, threads, values, foreign=raced.foreign)


def _flops(peak: Peak, times: dict[tuple[str, str], float]) -> float:
    return peak.flops / times["peak", str(peak.threads)]


def _rate(s: Stream, times: dict[tuple[str, str], float]) -> float:
    return s.size_bytes * s.passes / times["stream", str(s.threads)]


def _with_threads(count: int, run: Callable[[], Any]) -> Call:
    def call() -> Any:
        config.set_num_threads(count)
        return run()

    return call


def _same_bits(run: Call, out: Sequence[Array]) -> bool:
    """Whether every call gives what one thread gives, byte by byte."""
    _with_threads(1, run)()
    expected = [a.tobytes() for a in out]
    for _ in range(REPEATS):
        for count in COUNTS:
            for a in out:
                a.fill(0)
            _with_threads(count, run)()
            if not all(
                np.array_equal(np.frombuffer(e, np.uint8), a.reshape(-1).view(np.uint8))
                for e, a in zip(expected, out, strict=True)
            ):
                return False
    return True


def judge(rows: Sequence[Figures]) -> list[Verdict]:
    """Nine tenths of the limit's speed-up; the same bits always."""
    return those(
        [
            asked(rows, "speed-up on two threads, share of the limit's", "share of limit", 0.9),
            asked(rows, f"same bits on {COUNTS} threads", "same bits", 1.0),
        ]
    )


SUITE: Final = Suite(
    "threads", "speed-up on two threads beside the machine's, and the same bits on any number",
    measure, judge, threads=(2,),
)  # fmt: skip
