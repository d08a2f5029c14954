"""The checks of calls without native code, written out: they answer what a loop answers."""

from __future__ import annotations

import ctypes
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tensorad import te
from tensorad.building import build
from tensorad.codegen.entry.plan_words import CALL_AT
from tensorad.codegen.llvm.call_block import SLOTS
from tensorad.codegen.runtime.executable import Steps
from tensorad.codegen.runtime.written_out_calls import (
    MOST,
    call_text,
    can_be_written_out,
    written_out,
)
from tensorad.codegen.threads.settings_version import current_version
from tensorad.compiled import CompiledFunction, Fixed
from tensorad.config import override
from tensorad.errors import BoundsError

Array = np.ndarray[Any, Any]


def both() -> CompiledFunction:
    """Two results of a vector and of flags, without native calls."""
    x = te.placeholder((4,), name="X")
    y = te.placeholder((4,), "int64", name="Y")
    first = te.compute((4,), lambda i: x[i] * 2, "F")
    with override(native_calls=False):
        return build([first, te.compute((4,), lambda i: y[i] + 1, "S")], [x, y])


def slots_of_the_last_call(fixed: Fixed) -> list[int]:
    """Where the frame that is kept has its arguments."""
    call = ctypes.c_int64.from_address(fixed.layout.frames.idle[0] + CALL_AT + 8 * SLOTS)
    return list((ctypes.c_int64 * 4).from_address(call.value))


def candidates() -> list[object]:
    shared = np.zeros(9, np.float32)
    fixed = np.zeros(4, np.float32)
    fixed.flags.writeable = False
    return [
        *[
            shared[0:4],
            shared[4:8],
            shared[3:7],
            fixed,
            np.zeros(4, np.int64),
            shared[:8].view("i8"),
        ],
        *[np.zeros(8, np.float32)[::2], np.zeros((4, 1), np.float32), np.zeros(4), None, [0.0] * 4],
        *[np.zeros(4, ">f4"), np.ma.zeros(4, "float32"), np.float32(1), np.zeros(5, np.int64)],
    ]


@pytest.mark.parametrize("given", [False, True])
def test_what_is_written_out_is_what_the_loop_checks(given: bool) -> None:
    fixed = both()._fixed
    assert fixed is not None
    written = fixed.with_given if given else fixed.with_new
    found = []
    for first, *results in product(candidates(), repeat=3):
        arrays = (first, np.zeros(4, np.int64))
        expected = fixed._addresses(2 * given, (*arrays, *results))
        assert written(current_version(), arrays, results) == (expected is not None)
        if expected is not None:
            assert slots_of_the_last_call(fixed) == expected
        found.append(expected is not None)
    assert any(found) and not all(found)


def test_frames_come_back_after_an_error() -> None:
    """A call that fails frees its frame, and one is kept of those that do not."""
    x = te.placeholder((4,), name="X")
    at = te.placeholder((1,), "int64", name="at")
    with override(native_calls=False):
        f = build(te.compute((1,), lambda i: x[at[i]], "Y"), [x, at])
    a, out = np.arange(4, dtype=np.float32), np.zeros(1, np.float32)
    f(a, np.array([2]), out=out)
    assert out[0] == 2
    for _ in range(3):
        with pytest.raises(BoundsError, match="index 7"):
            f(a, np.array([7]), out=out)
    assert f._fixed is not None
    idle = f._fixed.layout.frames.idle
    assert np.count_nonzero(idle) == 0
    for _ in range(3):
        f(a, np.array([3]), out=out)
    assert np.count_nonzero(idle) == 1 and out[0] == 3


def test_calls_without_native_code_run_what_is_written_out() -> None:
    f = both()
    assert f._fixed is not None
    assert f._fixed.with_given.__code__.co_filename == "<tensorad call>"  # type: ignore[attr-defined]
    x, out = np.ones(4, np.float32), [np.zeros(4, np.float32), np.zeros(4, np.int64)]
    f(x, np.arange(4), out=out)
    np.testing.assert_array_equal(out[0], 2 * x)
    np.testing.assert_array_equal(out[1], np.arange(1, 5))


def test_every_pair_with_a_target_is_compared() -> None:
    assert call_text(5, 2, given=False).count("< p") == 0
    assert call_text(5, 2, given=True).count("< p") == 3 + 4
    assert call_text(5, 5, given=True).count("< p") == 10


def test_long_lists_are_looped_over() -> None:
    assert can_be_written_out(MOST) and not can_be_written_out(MOST + 1)
    wanted = [(np.dtype(np.float32), (2,), 0x101)] * MOST
    arrays = [np.zeros(2, np.float32) for _ in range(MOST)]
    ran: list[tuple[int, list[int]]] = []

    def reach(plan: int, table: object, kept: object) -> int:
        assert kept is None
        ran.append((plan, list(table)))  # type: ignore[call-overload]  # a table of addresses
        return 7 * (len(ran) - 1)

    prepared: list[int] = []
    layout = SimpleNamespace(prepared=2, prepare=prepared.append)
    failed = {7: BoundsError("of the second call")}
    steps = Steps(layout, ctypes.c_int64 * MOST, reach, 5, failed.__getitem__)  # type: ignore[arg-type]  # no real plan
    call = written_out(wanted, [8] * MOST, 1, steps, given=True)
    assert call(2, arrays[:-1], arrays[-1:]) and not prepared
    addresses = [a.__array_interface__["data"][0] for a in arrays]
    assert ran == [(5, addresses)]
    assert not call(2, [arrays[-1], *arrays[1:-1]], arrays[-1:])
    assert ran == [(5, addresses)]
    with pytest.raises(BoundsError, match="of the second call"):
        call(3, arrays[:-1], arrays[-1:])
    assert prepared == [3] and ran == [(5, addresses)] * 2
