"""A call of a program is one native call: Python neither runs nor waits while loops do."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import config
from tests.support.profiled import seen


def power(x: Any, n: Any) -> Any:
    def body(i: Any, c: Any) -> Any:
        return ta.cond(c.sum() > 1e3, lambda: c * 0.5, lambda: c * (1.0 + 0.001 * x))

    return ta.for_loop(0, n, body, x).sum()


def climb(x: Any, n: Any) -> Any:
    start = (0, np.zeros(4))
    return ta.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, ta.tanh(c[1] + x)), start)[
        1
    ].sum()


def rows(x: Any, n: Any) -> Any:
    return ta.scan(lambda c, _: (ta.sin(c + x), c * x), x, length=n)[1].sum()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("f", [power, climb, rows])
@pytest.mark.parametrize("form", [ta.function, ta.value_and_grad])
def test_iterations_run_without_python(form: Any, f: Any, threads: int) -> None:
    made, x = form(f), np.linspace(0.1, 0.4, 4)
    with config.override(num_threads=threads):
        for n in (3, 2000):  # compiles, makes frames and learns how it is called
            made(x, n)
        few, many = (seen(lambda n=n: made(x, n)) for n in (2, 2000))
    assert few == many
    assert ("call", type(made).__call__.__qualname__) in few


MOST = 2_000_000_000
"""Iterations, of some nanoseconds each, after which a loop that nobody ends gives up."""


def test_another_thread_runs_during_a_call() -> None:
    @ta.function
    def count(flag: Any) -> Any:
        """How often the loop ran until it saw that the array had changed."""
        return ta.while_loop(lambda n: (flag[n % 2] < 1) & (n < MOST), lambda n: n + 1, 0)

    assert count(np.ones(2, np.int64)) == 0
    work = 1
    while True:
        flag = np.zeros(2, np.int64)
        ready = threading.Event()

        def change(flag: Any = flag, work: int = work, ready: Any = ready) -> None:
            ready.wait()
            for _ in range(work):
                pass
            flag[:] = 1

        other = threading.Thread(target=change)
        other.start()
        ready.set()
        counted = int(count(flag))
        other.join()
        assert counted < MOST, "the other thread waited for the end of the call"
        if counted > 0:
            return  # the array was changed by Python while the loop ran
        work *= 2
