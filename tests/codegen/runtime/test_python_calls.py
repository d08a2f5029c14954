"""Functions of Python as steps: what they are given, where results go, what they raise."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorad.codegen.loops.ir import CallPython
from tensorad.codegen.runtime.python_calls import PythonCall
from tensorad.ir.dtypes import FLOAT32, FLOAT64
from tensorad.ir.expr import size_var
from tensorad.ir.tensor import Placeholder, Tensor, outputs

N = size_var("n")


def tensor(name: str, shape: Any, dtype: Any) -> Tensor:
    return outputs(Placeholder(name, shape, dtype))[0]


def called(call: PythonCall, arrays: Sequence[Any], sizes: Sequence[int]) -> int:
    """What the driver does."""
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(call.address)
    slots = (ctypes.c_int64 * len(arrays))(*[a.ctypes.data for a in arrays])
    words = (ctypes.c_int64 * max(1, len(sizes)))(*sizes)
    return int(function(ctypes.addressof(slots), ctypes.addressof(words)))


def test_arrays_are_copied_in_and_out_by_sizes() -> None:
    given: list[Any] = []

    def run(arrays: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> list[Any]:
        given.append((arrays, list(shapes)))
        return [arrays[0].sum(1)]

    x, y = tensor("x", (N, 3), FLOAT32), tensor("y", (N * 1,), FLOAT64)
    call = PythonCall(CallPython("f", run, (x,), (y,)), [1, 0], {N: 2})
    a, made = np.arange(6, dtype="float32").reshape(2, 3), np.zeros(2)
    assert called(call, [made, a], [9, 9, 2]) == 0
    assert made.tolist() == [3.0, 12.0]
    ((arrays, shapes),) = given
    assert (arrays[0] == a).all() and shapes == [(2,)]
    assert arrays[0].flags.owndata and arrays[0].flags.writeable
    assert called(call, [np.zeros(0), np.zeros((0, 3), "float32")], [9, 9, 0]) == 0


def test_an_exception_ends_the_call_and_is_kept_by_its_number() -> None:
    error = SystemExit(3)

    def run(arrays: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> list[Any]:
        raise error

    x = tensor("x", (2,), FLOAT64)
    call = PythonCall(CallPython("f", run, (x,), ()), [0], {})
    assert called(call, [np.zeros(2)], []) == 1
    assert called(call, [np.zeros(2)], []) == 2
    assert call.raised(1) is error
    assert call.raised(1) is None and call.raised(2) is error
