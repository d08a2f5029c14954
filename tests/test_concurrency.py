"""Threads and forks: one function called by many, many building at once, children that work."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tensorad as ta
from tensorad.ir.tensor import Tensor

THREADS = 4
CHILD_SECONDS = 60


def layer(rows: int, columns: int) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """Output and gradients of exp(X W), with a temporary in between, and the inputs."""
    x = ta.placeholder((rows, 7), name="X")
    w = ta.placeholder((7, columns), name="W")
    k = ta.reduce_axis(7, name="k")
    p = ta.compute((rows, columns), lambda i, j: ta.sum(x[i, k] * w[k, j], axis=k), name="P")
    y = ta.compute((rows, columns), lambda i, j: ta.exp(p[i, j]), name="Y")
    h = ta.placeholder(y.shape, name="H")
    return y, ta.JacobianRecursive(y, [x, w], h), [x, w, h]


def expected(x: np.ndarray, w: np.ndarray, h: np.ndarray) -> list[np.ndarray]:
    d = np.exp(x @ w) * h
    return [np.exp(x @ w), d @ w.T, x.T @ d]


def arguments(inputs: list[Tensor], seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.uniform(-0.5, 0.5, t.shape).astype("float32") for t in inputs]


def check(f: Callable[..., list[np.ndarray]], inputs: list[Tensor], seed: int) -> None:
    given = arguments(inputs, seed)
    for found, right in zip(f(*given), expected(*given), strict=True):
        np.testing.assert_allclose(found, right, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("rows", [9, 600])
def test_four_threads_call_one_function(rows: int) -> None:
    y, gradients, inputs = layer(rows, 33)
    f = ta.build([y, *gradients], inputs)

    def calls(thread: int) -> None:
        for n in range(25):
            check(f, inputs, 100 * thread + n)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(calls, range(THREADS)))


def test_four_threads_build_at_once() -> None:
    def define_and_build(thread: int) -> None:
        for n in range(3):
            y, gradients, inputs = layer(5 + thread, 11 + n)
            check(ta.build([y, *gradients], inputs), inputs, thread)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(define_and_build, range(THREADS)))


def exit_code_of_child(work: Callable[[], None]) -> int:
    """Fork, run `work` in the child, and wait for it; a child that hangs is killed (-9)."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    deadline = time.monotonic() + CHILD_SECONDS
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_forked_during_a_build_works() -> None:
    y, gradients, inputs = layer(300, 40)
    f = ta.build([y, *gradients], inputs)
    check(f, inputs, 0)
    stop = threading.Event()

    def keep_building() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            other, more, given = layer(3, 5 + n)
            ta.build([other, *more], given)

    def use_everything() -> None:
        check(f, inputs, 1)
        other, more, given = layer(4, 3)
        check(ta.build([other, *more], given), given, 2)

    builder = threading.Thread(target=keep_building)
    builder.start()
    try:
        codes = [exit_code_of_child(use_everything) for _ in range(5)]
    finally:
        stop.set()
        builder.join()
    assert codes == [0] * 5
