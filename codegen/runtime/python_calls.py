"""Functions of Python as steps of a call: what the driver calls back."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from threading import get_ident
from typing import Any, Final

import numpy as np

from tensorad.codegen.loops.ir import CallPython
from tensorad.ir.analysis.sizes import shape_values
from tensorad.ir.expr import Expr, Size
from tensorad.ir.tensor import Tensor

Array = np.ndarray[Any, np.dtype[Any]]
_CALL: Final = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
"""(slots, sizes) -> 0, or 1 if an exception was raised; ctypes takes the interpreter's lock."""


class PythonCall:
    """One step. What the function is given are copies, which it may keep."""

    def __init__(self, node: CallPython, slots: Sequence[int], words: Mapping[Size, int]) -> None:
        """`slots`: where the addresses of what is read and written are; `words`: sizes' values."""
        self._node = node
        self._slots = list(slots)
        self._words = dict(words)
        self._errors: dict[int, BaseException] = {}
        self._called = _CALL(self._call)

    @property
    def address(self) -> int:
        """What the driver jumps to."""
        found = ctypes.cast(self._called, ctypes.c_void_p).value
        assert found is not None, "a callback has an address"
        return found

    def raised(self, caller: int | None = None) -> BaseException:
        """What the function raised in a thread's call; this thread's unless told."""
        return self._errors.pop(get_ident() if caller is None else caller)

    def _call(self, slots: int, sizes: int) -> int:
        try:
            values: dict[Expr, int] = {s: _word(sizes, n) for s, n in self._words.items()}
            tensors = (*self._node.reads, *self._node.writes)
            pairs = zip(tensors, self._slots, strict=True)
            arrays = [_view(t, _word(slots, n), values) for t, n in pairs]
            given, made = arrays[: len(self._node.reads)], arrays[len(self._node.reads) :]
            results = self._node.run([a.copy() for a in given], [a.shape for a in made])
            for whole, result in zip(made, results, strict=True):
                whole[...] = result
        except BaseException as error:  # noqa: BLE001  # whatever it is, it leaves the call
            self._errors[get_ident()] = error
            return 1
        return 0


def _word(address: int, n: int) -> int:
    return ctypes.c_int64.from_address(address + 8 * n).value


def _view(t: Tensor, address: int, values: Mapping[Expr, int]) -> Array:
    """The elements of a tensor where they lie."""
    dtype: np.dtype[Any] = np.dtype(str(t.dtype))
    shape = shape_values(t.shape, values)
    count = int(np.prod(shape, dtype=np.int64))
    if not count:
        return np.empty(shape, dtype)
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return np.ndarray(shape, dtype, memory)  # type: ignore[arg-type]  # a buffer, too
