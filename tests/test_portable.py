"""The checks of calls without native code, written out: they answer what a loop answers."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from tensorad import te
from tensorad.building import build
from tensorad.codegen.portable import MOST, addresses_text, can_be_written_out, written_out
from tensorad.compiled import CompiledFunction
from tensorad.config import override

Array = np.ndarray[Any, Any]


def both() -> CompiledFunction:
    """Two results of a vector and of flags, without native calls."""
    x = te.placeholder((4,), name="X")
    y = te.placeholder((4,), "int64", name="Y")
    first = te.compute((4,), lambda i: x[i] * 2, "F")
    with override(native_calls=False):
        return build([first, te.compute((4,), lambda i: y[i] + 1, "S")], [x, y])


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


@pytest.mark.parametrize("targets", [0, 2])
def test_what_is_written_out_is_what_the_loop_checks(targets: int) -> None:
    fixed = both()._fixed
    assert fixed is not None
    written = fixed.of_targets if targets else fixed.of_results
    found = []
    for arrays in product(candidates(), repeat=3):
        given = (arrays[0], np.zeros(4, np.int64), *arrays[1:])
        expected = fixed._addresses(targets, given)
        assert written(given) == expected
        found.append(expected is not None)
    assert any(found) and not all(found)


def test_calls_without_native_code_run_what_is_written_out() -> None:
    f = both()
    assert f._fixed is not None
    assert f._fixed.of_targets.__code__.co_filename == "<tensorad call>"  # type: ignore[attr-defined]
    x, out = np.ones(4, np.float32), [np.zeros(4, np.float32), np.zeros(4, np.int64)]
    f(x, np.arange(4), out=out)
    np.testing.assert_array_equal(out[0], 2 * x)
    np.testing.assert_array_equal(out[1], np.arange(1, 5))


def test_every_pair_with_a_target_is_compared() -> None:
    assert addresses_text(5, 0).count("< p") == 0
    assert addresses_text(5, 2).count("< p") == 3 + 4
    assert addresses_text(5, 5).count("< p") == 10


def test_long_lists_are_looped_over() -> None:
    assert can_be_written_out(MOST) and not can_be_written_out(MOST + 1)
    wanted = [(np.dtype(np.float32), (2,), 0x101)] * MOST
    arrays = [np.zeros(2, np.float32) for _ in range(MOST)]
    found = written_out(wanted, [8] * MOST, 1)(arrays)
    assert found == [a.__array_interface__["data"][0] for a in arrays]
