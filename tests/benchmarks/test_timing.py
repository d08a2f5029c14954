"""Races wait until the threads of the contestant before sleep."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import time
from pathlib import Path

import pytest

from benchmarks.limits import limits
from benchmarks.measure import timing


def test_every_sample_begins_when_the_others_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that a call leaves spinning ends its work before anyone else's turn."""
    left: list[int] = []
    calls: list[str] = []
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        left.pop()

    def spinning() -> None:
        calls.append("spinning")
        left[:] = [0, 0, 0]

    def next_one() -> None:
        calls.append("disturbed" if left else "next")

    monkeypatch.setattr(timing, "awake", lambda: len(left))
    monkeypatch.setattr(time, "sleep", nap)
    turns = {("fwd", "spinning"): spinning, ("fwd", "next"): next_one}
    timing.race(turns, rounds=4, seconds=1e-6, extra=0)
    assert {"spinning", "next"} == set(calls)
    assert len(naps) >= 3 * 4


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the states of threads")
def test_threads_that_run_are_counted() -> None:
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            hashlib.pbkdf2_hmac("sha256", b"", b"", 20_000)

    before = timing.awake()
    thread = threading.Thread(target=work)
    thread.start()
    found = max(timing.awake() for _ in range(200))
    stop.set()
    thread.join()
    assert found > before


def test_a_thread_that_never_sleeps_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(timing, "awake", lambda: 1)
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    timing.settle()
    assert timing.AWAKE_S <= now[0] < 2 * timing.AWAKE_S


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no choice of CPUs")
def test_threads_of_a_limit_have_cpus_of_their_own() -> None:
    found: list[set[int]] = []
    limits._on_threads([lambda: found.append(os.sched_getaffinity(0))] * 2)
    cpus = os.sched_getaffinity(0)
    assert sorted(map(len, found)) == [1, 1]
    assert len(set.union(*found)) == min(2, len(cpus)) and set.union(*found) <= cpus


def test_threads_of_a_limit_have_cores_of_their_own(tmp_path: Path) -> None:
    """Two CPUs of one core would halve what two threads reach."""
    for cpu, siblings in enumerate(("0-1", "0-1", "2-3", "2-3")):
        folder = tmp_path / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{siblings}\n")
    assert limits.by_cores({0, 1, 2, 3}, str(tmp_path)) == [0, 2, 1, 3]
    assert limits.by_cores({1, 2, 3}, str(tmp_path)) == [1, 2, 3]
    assert limits.by_cores({5, 4}, str(tmp_path)) == [4, 5]  # where the system does not tell
