"""Two threads beside one, and the same bits on any number."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import compress
from statistics import median
from typing import Any, Final

import numpy as np
from tqdm import tqdm

from benchmarks.limits.limits import Peak, Stream, streams_like
from benchmarks.measure.timing import Call, Key, race
from benchmarks.peers.ours import Program, allocated
from benchmarks.race.frameworks import compulsory_bytes
from benchmarks.report.figures import Figures, Suite, asked, those
from benchmarks.report.verdicts import Verdict
from benchmarks.workloads.catalogue import chosen
from benchmarks.workloads.problem import Array, Workload
from tensorad import config

MODE: Final = "fb"
COUNTS: Final = (1, 2, 3, 8)
REPEATS: Final = 25
"""Calls with each of the counts."""
LEAST_MS: Final = 0.2
"""Shorter kernels may stay on one thread."""
SAMPLE_S: Final = 0.03
"""So long calls follow each other on as many threads: what the number before left is soon gone."""
OWN_CORES: Final = 0.75
"""Of so many cores for each thread a round is evidence: a host may put two CPUs on one core."""


def measure(
    names: Sequence[str], rounds: int, threads: int, done: Collection[str] = ()
) -> Iterator[Figures]:
    """Speed-ups of the workloads and of the limits, in the same rounds."""
    peaks = {t: Peak("float32", t, SAMPLE_S) for t in (1, threads)}
    for w in tqdm([w for w in chosen(names) if w.name not in done], unit="workload", leave=False):
        yield _figures(w, rounds, threads, peaks)


def _figures(w: Workload, rounds: int, threads: int, peaks: dict[int, Peak]) -> Figures:
    p = w.problem()
    program = Program(p)
    f, given, out = program.build(MODE), program.arrays(MODE), allocated(program.outputs(MODE))
    target: Any = out[0] if len(out) == 1 else out

    def run() -> Any:
        return f(*given, out=target)

    read, written = compulsory_bytes(p)[MODE]
    streams = streams_like(read, written, threads)
    calls = {_alone("ours", t): _with_threads(t, run) for t in (1, threads)}
    calls |= {_alone("peak", t): peaks[t].seconds for t in (1, threads)}
    calls |= {_alone("stream", n): s.seconds for n, s in enumerate(streams)}
    raced = race(calls, rounds, SAMPLE_S)
    values = speed_ups(raced.samples, read + written, streams, threads)
    values["same bits"] = float(_same_bits(run, out))
    return Figures(w.name, threads, values, foreign=raced.foreign)


def _alone(what: str, number: int) -> Key:
    """A mode of its own: nobody takes part less often for being slower than somebody else."""
    return f"{what} {number}", what


def speed_ups(
    samples: Mapping[Key, Sequence[float]],
    size_bytes: float,
    streams: Sequence[Stream],
    threads: int,
) -> dict[str, float]:
    """Medians over the rounds, of the rounds' own ratios: the machine changes between them.

    Args:
        samples: seconds of a call in each round.
        size_bytes: of arguments and results.
    """
    one, several = samples[_alone("ours", 1)], samples[_alone("ours", threads)]
    alone, together = samples[_alone("peak", 1)], samples[_alone("peak", threads)]
    computing = [threads * a / b for a, b in zip(alone, together, strict=True)]
    per_byte = [
        [s / (of.size_bytes * of.passes) for s in samples[_alone("stream", n)]]
        for n, of in enumerate(streams)
    ]
    moving = [size_bytes * min(at) for at in zip(*per_byte, strict=True)]
    limits = [speed_up_limit(*at) for at in zip(one, computing, moving, strict=True)]
    found = [a / b for a, b in zip(one, several, strict=True)]
    values = {
        "ms, 1 thread": median(one) * 1e3, f"ms, {threads} threads": median(several) * 1e3,
        "speed-up": median(found), "compute limit": median(computing),
        "moving, ms": median(moving) * 1e3, "limit": median(limits),
    }  # fmt: skip
    own_cores = [c >= OWN_CORES * threads for c in computing]
    if any(own_cores) and values["ms, 1 thread"] >= LEAST_MS:
        shares = [f / limit for f, limit in zip(found, limits, strict=True)]
        values["share of limit"] = median(list(compress(shares, own_cores)))
    return values


def speed_up_limit(one_s: float, computing: float, moving_s: float) -> float:
    """How many times faster several threads can be.

    Everything scales like computing, but for the bytes of arguments and results, which take on
    several threads what they take there.

    Args:
        one_s: what one thread takes.
        computing: the speed-up of a loop of multiply-adds.
        moving_s: the bytes at the bandwidth of several threads.
    """
    return one_s / max(one_s / computing, moving_s)


def _with_threads(count: int, run: Callable[[], Any]) -> Call:
    """A call on so many threads; they are set where they differ, and stay awake between calls."""

    def call() -> Any:
        if config.current().num_threads != count:
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
