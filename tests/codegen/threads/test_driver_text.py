"""The text of the driver, compiled once more: a table of kernels, and how long slices are."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

import numpy as np
import pytest

from tensorad.codegen.llvm import call_block as block
from tensorad.codegen.loops.scratch import ALIGNMENT
from tensorad.codegen.target import link
from tensorad.codegen.threads import affinity_ir, resize_ir, signals_ir
from tensorad.codegen.threads.driver_ir import driver_text
from tests.codegen.threads.test_parallel_driver import KERNEL, WORD

MILLISECOND = 1_000_000


@pytest.fixture(scope="module")
def run() -> Callable[[int], int]:
    """@run of a driver that nobody else uses."""
    externals = ("syscall", *affinity_ir.SYMBOLS, *resize_ir.SYMBOLS, *signals_ir.SYMBOLS)
    library = link.load(driver_text(), ("run",), externals, 0, addresses=signals_ir.addresses())
    found = ctypes.CFUNCTYPE(WORD, ctypes.c_void_p)(library.addresses["run"])

    def call(address: int) -> int:
        assert library.addresses  # linked as long as it may be called
        return int(found(address))

    return call


def test_kernels_run_in_order_until_one_fails(run: Callable[[int], int]) -> None:
    """Temporaries get their places in outputs before."""
    slots, index = np.array([1 << 20, 0], np.int64), np.array([5, 6, 7], np.int64)
    seen: list[tuple[int, int, int, int]] = []

    def kernel(_: object, at: int, __: object, begin: int, end: int, error: object) -> int:
        number = WORD.from_address(at).value
        seen.append((number, begin, end, int(slots[1])))
        error[0] = 10 * number  # type: ignore[index]  # a pointer to words
        return 3 if number == failing else 0

    called = KERNEL(kernel)
    address = ctypes.cast(called, ctypes.c_void_p).value
    steps = np.array([[address, n, 0] for n in range(3)], np.int64)
    inside = np.array([1, 1, 0, 8], np.int64)  # one: slot 1 is in that of slot 0, 8 bytes behind
    words = (WORD * block.CALL_WORDS)()
    words[block.STEPS], words[block.COUNT] = steps.ctypes.data, len(steps)
    words[block.SLOTS], words[block.INDICES] = slots.ctypes.data, index.ctypes.data
    words[block.SIZES] = words[block.INSIDE] = inside.ctypes.data
    words[block.THREADS] = 1
    for failing in (0, 6):
        seen.clear()
        assert run(ctypes.addressof(words)) == (failing == 6)
        place = (1 << 20) + ALIGNMENT
        assert seen == [(n, 0, 0, place) for n in (5, 6, 7) if n <= (failing or 7)]
    assert [words[n] for n in (block.STEP, block.CODE, block.VALUE)] == [1, 3, 60]


@pytest.fixture(scope="module")
def lengths() -> dict[str, Callable[[int, int], int]]:
    """@fit(size, nanoseconds) and @even(size, threads)."""
    text = signals_ir.RELEASED.replace("define internal i64", "define i64")
    text += "\ndefine i64 @run(ptr %call) {\n  ret i64 0\n}"
    names = ("fit", "even")
    library = link.load(text, names, signals_ir.SYMBOLS, addresses=signals_ir.addresses())
    kind = ctypes.CFUNCTYPE(WORD, WORD, WORD)
    found = {name: kind(library.addresses[name]) for name in names}

    def call(name: str) -> Callable[[int, int], int]:
        return lambda a, b: int(found[name](a, b)) if library.addresses else 0

    return {name: call(name) for name in names}


def test_a_slice_takes_fifty_milliseconds(lengths: dict[str, Callable[[int, int], int]]) -> None:
    fit = lengths["fit"]
    assert fit(100, 50 * MILLISECOND) == 100
    assert fit(100, 25 * MILLISECOND) == 200
    assert fit(100, 500 * MILLISECOND) == 10
    assert fit(100, MILLISECOND) == fit(100, 0) == 1600, "at most 16 times the one before"


def test_threads_share_a_slice_evenly(lengths: dict[str, Callable[[int, int], int]]) -> None:
    even = lengths["even"]
    assert [even(n, 1) for n in (0, 5, 1000)] == [1, 5, 1000]
    assert [even(n, 3) for n in (100, 99, 24)] == [99, 99, 24]
    assert even(3, 2) == 12, "8 each would be more than 4 times as long"
    assert even(7, 2) == 16
    assert even(1, 8) == 8, "one each"


def test_the_text_finds_python() -> None:
    found = signals_ir.addresses()
    assert set(found) == {*signals_ir.PYTHON, "main_thread"}
    assert all(found.values())
    main = ctypes.c_uint64.from_address(found["main_thread"]).value
    assert main == threading.main_thread().ident
