"""What goes on at the same time: calls, builds, forks, interrupts, memory that is not there."""

from __future__ import annotations

import os
import random
import resource
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tensorad as ta
from tensorad import te
from tensorad.config import override
from tensorad.errors import LimitError
from tensorad.ir.reference.interpret import interpret
from tests.random.generators import random_program
from tests.support.choice_cases import close

LONG = 1 << 16


class Soak:
    """Threads that do one thing each until they are told to stop.

    Attributes:
        done: how often each was done.
        failures: what went wrong, in words.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.done: Counter[str] = Counter()
        self.failures: list[str] = []
        self.over = threading.Event()
        x = te.placeholder((LONG,), dtype="float64", name="X")
        y = te.compute((LONG,), lambda i: te.tanh(x[i]) * x[LONG - 1 - i], name="Y")
        k = te.reduce_axis(LONG, name="k")
        total = te.compute((), lambda: te.sum(y[k] * y[k], axis=k), name="T")
        self.given = np.linspace(-1.0, 1.0, LONG)
        self.f: Any = ta.build([y, total, *ta.vjp(total, [x], 1.0)], [x])
        self.wanted = [a.tobytes() for a in self.f(self.given)]
        for n in range(8):  # a module that a thread imports while another forks stays locked there
            self.build(random.Random(n))

    def threads(self, callers: int) -> list[threading.Thread]:
        actions = [self.call] * callers + [self.build, self.fork, self.starve]
        return [threading.Thread(target=self.repeat, args=(a, n)) for n, a in enumerate(actions)]

    def repeat(self, action: Callable[[random.Random], None], number: int) -> None:
        rng = random.Random(self.seed * 1000 + number)
        while not self.over.is_set():
            try:
                action(rng)
            except Exception as e:  # noqa: BLE001  # told at the end
                self.failures.append(f"{action.__name__}: {type(e).__name__}: {str(e)[:300]}")
            self.done[action.__name__] += 1

    def check(self) -> None:
        """One call, whose bits are those of the first."""
        if [a.tobytes() for a in self.f(self.given)] != self.wanted:
            raise RuntimeError("other bits than at first")

    def call(self, rng: random.Random) -> None:
        with override(num_threads=rng.choice((1, 2, 3))):
            self.check()

    def build(self, rng: random.Random) -> None:
        """A program that is built, called, compared and dropped."""
        program = random_program(rng.randrange(1 << 30), "float64", 4)
        arrays = program.arrays()
        found = ta.build(program.outputs, list(arrays))(*arrays.values())
        have = found if isinstance(found, list) else [found]
        close(program.outputs, have, interpret(program.outputs, arrays))

    def fork(self, rng: random.Random) -> None:
        """A child that calls and builds."""
        child = os.fork()
        if child == 0:
            code = 1
            try:
                self.check()
                self.build(random.Random(rng.randrange(1 << 30)))
                code = 0
            finally:
                os._exit(code)
        _wait_for(child, "a forked child")
        time.sleep(0.2)

    def starve(self, rng: random.Random) -> None:
        """A child whose calls need more memory than it may have, by its settings or at all."""
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with override(max_bytes=1 << rng.choice((21, 40))):
                    _call_beyond(1 << rng.choice((26, 27)))
                code = 0
            finally:
                os._exit(code)
        _wait_for(child, "a child without memory")
        time.sleep(0.2)

    def interrupted(self, seconds: float) -> None:
        """The main thread: calls that Ctrl-C ends now and then, for so long."""
        end = time.monotonic() + seconds
        begun = threading.Event()  # set where an interrupt is expected
        pest = threading.Thread(target=self._pester, args=(begun, end))
        pest.start()
        while True:
            try:
                begun.set()
                while time.monotonic() < end:
                    self.check()
                    self.done["main"] += 1
                pest.join()
                time.sleep(0.01)  # one more may be on its way
                return
            except KeyboardInterrupt:
                self.done["interrupt"] += 1
            except Exception as e:  # noqa: BLE001  # told at the end
                self.failures.append(f"main: {type(e).__name__}: {str(e)[:300]}")

    def _pester(self, begun: threading.Event, end: float) -> None:
        begun.wait()
        while time.monotonic() < end - 0.5:
            time.sleep(0.1)
            os.kill(os.getpid(), signal.SIGINT)


def _call_beyond(room: int) -> None:
    """Calls that need more than so many bytes beyond those in use; they say so, and others run."""
    n = te.size("n")
    x = te.placeholder((n,), dtype="float64", name="X")
    f: Any = ta.build(te.compute((n,), lambda i: x[i] + 1.0, name="Y"), [x])
    given = np.zeros(room // 8)
    pages = Path("/proc/self/statm").read_text().split()[0]
    used = int(pages) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + room // 2, resource.RLIM_INFINITY))
    try:
        f(given)
    except (MemoryError, LimitError):
        f(given[:100])
    else:
        raise RuntimeError("a call beyond the limit of memory ran")


def _wait_for(child: int, what: str, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done and status:
            raise RuntimeError(f"{what} ended with {status}")
        if done:
            return
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise RuntimeError(f"{what} hangs")
        time.sleep(0.02)
