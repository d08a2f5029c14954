"""Interleaved timing: all contestants take turns, so drifts of the machine hit them alike."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

Call = Callable[[], object]
Key = tuple[str, str]
"""(mode, name)."""

ROUNDS = 9
_LEAST_SECONDS = 2e-3
"""One measurement repeats short calls until it lasts about this long."""

_TASKS: Final = Path("/proc/self/task")

QUIET: Final = 0.1
"""CPUs that others may use in a quiet round."""
BEHIND: Final = 2.0
BEHIND_S: Final = 5e-4
ROUNDS_BEHIND: Final = 3
"""A call this many times slower than its best rival, and this slow at all, takes part so often."""
FAR_BEHIND: Final = 4.0
HOPELESS: Final = 3.0
SLOW_S: Final = 0.05
"""Calls this slow and so far behind the fastest take part as rarely; not at all where they are
hopelessly behind their best rival, too."""
UNCOUNTED_S: Final = 0.1
"""Faster calls run once before each sample."""
SETTLED_S: Final = 1e-3
AWAKE_S: Final = 0.25
"""How often it is asked whether the threads of the contestant before sleep, and for how long."""


def repetitions(call: Call) -> int:
    """How many calls one measurement needs; also warms the call up."""
    call()
    start = time.perf_counter()
    call()
    return max(1, round(_LEAST_SECONDS / max(time.perf_counter() - start, 1e-7)))


def interleaved_ms(
    calls: Mapping[str, Call],
    rounds: int = ROUNDS,
    after_round: Call | None = None,
    pick: Callable[[list[float]], float] = np.median,
) -> dict[str, float]:
    """The median milliseconds of each call over `rounds` rounds, one measurement per round.

    `pick` chooses another figure than the median; the minimum is what the code takes while
    nobody else uses the machine.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    counts = {name: repetitions(call) for name, call in calls.items()}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(counts[name]):
                call()
            times[name].append((time.perf_counter() - start) / counts[name])
        if after_round is not None:
            after_round()
    return {name: float(pick(t)) * 1e3 for name, t in times.items()}


@dataclass(frozen=True)
class Timing:
    """Seconds of one call over the rounds that count."""

    median_s: float
    least_s: float
    rounds: int


@dataclass(frozen=True)
class Race:
    """What was measured, and how quiet the machine was: foreign work in CPUs, over those rounds.

    Attributes:
        samples: seconds of one call in each round that counts, by (mode, name).
    """

    times: dict[Key, Timing]
    rounds: int
    quiet: int
    foreign: float
    samples: dict[Key, list[float]]


def race(
    calls: Mapping[Key, Call],
    rounds: int = 15,
    seconds: float = 0.01,
    extra: int | None = None,
    seen: Mapping[Key, float] | None = None,
    rivals: Mapping[str, Sequence[str]] | None = None,
) -> Race:
    """Time calls in turns: one sample of each in every round.

    Rounds in which other processes or the hypervisor took CPU time count only if there are too
    few others; up to `extra` (as many again) are added in search of quiet ones. A call far behind
    takes part in the first rounds only, or in none: it decides nothing.

    Args:
        calls: by (mode, name).
        seconds: how long one sample lasts, about.
        seen: seconds that calls took before.
        rivals: by name, whom it is compared with; all when left out.
    """
    last = rounds + (rounds if extra is None else extra)
    groups = rivals or {name: [n for _, n in calls] for _, name in calls}
    seen = dict(seen or {})
    warm = {
        k: seen[k] if _far_behind(k, seen, HOPELESS, groups) else _warm_seconds(c, seconds)
        for k, c in calls.items()
    }
    count = {key: max(1, min(5000, int(seconds / s))) for key, s in warm.items()}
    most = {k: _rounds_of(k, warm, groups, last) for k in calls}
    samples: dict[Key, list[tuple[int, float]]] = {k: [(0, warm[k])] * (not most[k]) for k in calls}
    noise: list[float] = []
    while len(noise) < last and sum([n < QUIET for n in noise]) < rounds:
        before = _CpuClock()
        for key, call in calls.items():
            if len(noise) < most[key]:
                samples[key].append((len(noise), _sample(call, count[key], warm[key])))
        noise.append(before.foreign())
    used = _rounds_used(noise, rounds)
    times = {key: _timing(found, used) for key, found in samples.items()}
    foreign = float(np.mean([noise[n] for n in used]))
    counted = {key: [s for n, s in found if n in used] for key, found in samples.items()}
    return Race(times, len(noise), sum([n < QUIET for n in noise]), foreign, counted)


def _behind(key: Key, seconds: Mapping[Key, float], names: Collection[str]) -> float:
    """How many times slower than the fastest of these in its mode."""
    return seconds[key] / min([s for (m, n), s in seconds.items() if m == key[0] and n in names])


def _far_behind(
    key: Key, seconds: Mapping[Key, float], least: float, rivals: Mapping[str, Sequence[str]]
) -> bool:
    """Whether a slow call is far behind the fastest, and `least` times behind its best rival."""
    if seconds.get(key, 0.0) < SLOW_S or _behind(key, seconds, rivals) < FAR_BEHIND:
        return False
    return _behind(key, seconds, rivals[key[1]]) >= least


def _rounds_of(
    key: Key, warm: Mapping[Key, float], rivals: Mapping[str, Sequence[str]], most: int
) -> int:
    """In how many rounds a call takes part."""
    if _far_behind(key, warm, HOPELESS, rivals):
        return 0
    slow = warm[key] > BEHIND_S and _behind(key, warm, rivals[key[1]]) > BEHIND
    return ROUNDS_BEHIND if slow or _far_behind(key, warm, 1.0, rivals) else most


def _warm_seconds(call: Call, seconds: float) -> float:
    """The fastest of up to three calls: the first one may touch memory for the first time."""
    found = float("inf")
    settle()
    for turn in range(3):
        start = time.perf_counter()
        call()
        found = min(found, time.perf_counter() - start)
        if found > (10 if turn else 100) * seconds:
            break
    return max(found, 1e-7)


def _sample(call: Call, count: int, warm: float) -> float:
    """Mean seconds of `count` calls, after one that is not counted."""
    settle()
    if warm < UNCOUNTED_S:
        call()
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def settle() -> None:
    """Wait until the other threads of this process sleep.

    Pools stay awake for a while after their work (OpenBLAS's 40 ms) and would take a CPU from
    whoever comes next.
    """
    end = time.perf_counter() + AWAKE_S
    while awake() and time.perf_counter() < end:
        time.sleep(SETTLED_S)


def awake() -> int:
    """Threads of this process that run or want to, without the caller's; 0 where nobody tells."""
    own = threading.get_native_id()
    found = 0
    for thread in _TASKS.glob("[0-9]*"):
        try:
            text = (thread / "stat").read_text()
        except OSError:
            continue  # it has ended meanwhile
        found += int(thread.name) != own and text.rpartition(")")[2].split()[0] == "R"
    return found


def _rounds_used(noise: Sequence[float], rounds: int) -> list[int]:
    """The quiet rounds; the quietest half where there are hardly any."""
    quiet = [n for n, value in enumerate(noise) if value < QUIET]
    if len(quiet) >= max(1, rounds // 2):
        return quiet
    return sorted(range(len(noise)), key=noise.__getitem__)[: max(1, (len(noise) + 1) // 2)]


def _timing(found: Sequence[tuple[int, float]], used: Sequence[int]) -> Timing:
    counted = [s for n, s in found if n in used] or [s for _, s in found]
    return Timing(float(np.median(counted)), min([s for _, s in found]), len(counted))


class _CpuClock:
    """CPU seconds of the machine and of this process since the start."""

    def __init__(self) -> None:
        self.start = time.perf_counter()
        self.before = self._others()

    @staticmethod
    def _others() -> float:
        """Seconds that others used, stolen ones included; 0 where the system does not tell."""
        try:
            with open("/proc/stat", encoding="ascii") as file:
                fields = [int(n) for n in file.readline().split()[1:9]]
        except OSError:
            return 0.0
        user, nice, system, _, _, interrupts, soft, stolen = fields
        ticks = user + nice + system + interrupts + soft + stolen
        own = os.times()
        return ticks / os.sysconf("SC_CLK_TCK") - own.user - own.system

    def foreign(self) -> float:
        """CPUs that others used meanwhile."""
        return max(0.0, self._others() - self.before) / (time.perf_counter() - self.start)
