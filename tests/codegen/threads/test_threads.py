"""Threads and processes: concurrent calls and builds, nested pools, forks, exits."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tensorad import te
from tensorad.building import build
from tensorad.compiled import CompiledFunction
from tensorad.config import override
from tensorad.ir.tensor import Tensor


def matrix_product(n: int, name: str = "C") -> tuple[CompiledFunction, list[Tensor]]:
    """(A @ B) @ B with a temporary."""
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k, m = te.reduce_axis(n, name="k"), te.reduce_axis(n, name="m")
    first = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="F")
    out = te.compute((n, n), lambda i, j: te.sum(first[i, m] * b[m, j], axis=m), name=name)
    return build(out, [a, b]), [a, b]


def in_threads(act: Callable[[int], None], count: int = 4) -> None:
    """act(0), act(1), ... at once; the first exception is raised."""
    start = threading.Barrier(count)

    def run(number: int) -> None:
        start.wait()
        act(number)

    with ThreadPoolExecutor(count) as pool:
        for result in [pool.submit(run, n) for n in range(count)]:
            result.result(timeout=60)


def test_four_threads_call_one_function() -> None:
    f, _ = matrix_product(64)
    rng = np.random.default_rng(0)
    inputs = [[rng.random((64, 64)).astype("f") for _ in "ab"] for _ in range(4)]
    expected = [f(a, b) for a, b in inputs]

    def act(number: int) -> None:
        for _ in range(100):
            np.testing.assert_array_equal(f(*inputs[number]), expected[number])

    for threads in (1, 2, 3):
        with override(num_threads=threads):
            in_threads(act)


def test_four_threads_build_at_once() -> None:
    def act(number: int) -> None:
        for size in (5 + number, 20, 33):
            f, _ = matrix_product(size, f"C{number}")
            a = np.eye(size, dtype="f")
            np.testing.assert_array_equal(f(a, a * 2), a * 4)

    in_threads(act)


PRELUDE = """
import os, sys, threading, time
import numpy as np
from tensorad import te
from tensorad.building import build

def make(n):
    x = te.placeholder((n, 300), name="X")
    k = te.reduce_axis(300, name="k")
    return build(te.compute((n,), lambda i: te.sum(x[i, k] * float(n), axis=k)), [x])

def works(n):
    return (make(n)(np.ones((n, 300), "f")) == 300.0 * n).all()
"""


def python(code: str, **environment: str) -> str:
    """The output of a fresh process, which must end by itself with code 0."""
    import os

    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=240,  # a machine that others use, too, is no error
        env={**os.environ, "TENSORAD_NUM_THREADS": "3", **environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_fork_while_another_thread_builds() -> None:
    code = """
    stop = threading.Event()

    def keep_building():
        n = 400
        while not stop.is_set():
            n += 1
            works(n)

    assert works(2000)
    thread = threading.Thread(target=keep_building)
    thread.start()
    codes = []
    for number in range(6):
        time.sleep(0.02)
        child = os.fork()
        if child == 0:
            os._exit(0 if works(2001 + number) and works(300) else 1)
        codes.append(os.waitpid(child, 0)[1])
    stop.set()
    thread.join()
    print(codes)
    """
    assert python(code, PYTHONWARNINGS="ignore") == "[0, 0, 0, 0, 0, 0]"


@pytest.mark.slow
def test_the_process_ends_with_idle_and_sleeping_workers() -> None:
    assert python("print(works(2000))") == "True"
    assert python("print(works(2000)); time.sleep(0.3)") == "True"


def test_subnormals_are_kept_in_every_thread() -> None:
    x = te.placeholder((4000, 64), name="X")
    f = build(te.compute((4000, 64), lambda i, j: x[i, j] * 0.5, name="half"), [x])
    tiny = np.full((4000, 64), 1e-40, np.float32)
    with override(num_threads=3):
        assert (f(tiny) > 0).all()
