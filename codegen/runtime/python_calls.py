"""Functions of Python as steps of a call: what the driver calls back."""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from tensorad.codegen.loops.ir import CallPython
from tensorad.ir.analysis.sizes import shape_values
from tensorad.ir.expr import Expr, Size
from tensorad.ir.tensor import Tensor

Array = np.ndarray[Any, np.dtype[Any]]
_CALL: Final = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
"""(slots, sizes) -> 0, or the number of what was raised; ctypes takes the interpreter's lock."""
KEPT_ERRORS: Final = 4096
"""Exceptions that nobody has asked for: a further one is kept in place of the first."""


class PythonCall:
    """One step. What the function is given are copies, which it may keep."""

    def __init__(self, node: CallPython, slots: Sequence[int], words: Mapping[Size, int]) -> None:
        """`slots`: where the addresses of what is read and written are; `words`: sizes' values."""
        self._run = node.run
        self._views = [_View(t, n) for t, n in zip((*node.reads, *node.writes), slots, strict=True)]
        self._n_reads = len(node.reads)
        self._n_slots = max(slots, default=0) + 1
        self._words = {} if all(v.shape is not None for v in self._views) else dict(words)
        self._n_words = max(self._words.values(), default=0) + 1
        self._errors: dict[int, BaseException] = {}
        self._numbers = itertools.count(1)
        self._called = _CALL(self._call)

    @property
    def address(self) -> int:
        """What the driver jumps to."""
        found = ctypes.cast(self._called, ctypes.c_void_p).value
        assert found is not None, "a callback has an address"
        return found

    def raised(self, number: int) -> BaseException | None:
        """What the function raised, by the number that its call returned; to be asked once."""
        return self._errors.pop(number, None)

    def _call(self, slots: int, sizes: int) -> int:
        try:
            values: dict[Expr, int] = {}
            if self._words:
                words = _words(sizes, self._n_words)
                values = {s: words[n] for s, n in self._words.items()}
            addresses = _words(slots, self._n_slots)
            arrays = [v.at(addresses[v.slot], values) for v in self._views]
            given, made = arrays[: self._n_reads], arrays[self._n_reads :]
            results = self._run([a.copy() for a in given], [a.shape for a in made])
            for whole, result in zip(made, results, strict=True):
                whole[...] = result
        except BaseException as error:  # noqa: BLE001  # whatever it is, it leaves the call
            number = next(self._numbers)
            self._errors[number] = error
            self._errors.pop(number - KEPT_ERRORS, None)
            return number
        return 0


def _words(address: int, count: int) -> ctypes.Array[ctypes.c_int64]:
    """Some 64-bit integers in memory."""
    return (ctypes.c_int64 * count).from_address(address)


class _View:
    """A tensor's elements where they lie.

    Attributes:
        shape: if it is the same in each call.
    """

    def __init__(self, t: Tensor, slot: int) -> None:
        self._extents = t.shape
        self.slot = slot
        self._dtype: np.dtype[Any] = np.dtype(str(t.dtype))
        is_known = all(isinstance(n, int) for n in t.shape)
        self.shape = shape_values(t.shape, {}) if is_known else None

    def at(self, address: int, values: Mapping[Expr, int]) -> Array:
        """The elements, which begin at an address."""
        shape = self.shape if self.shape is not None else shape_values(self._extents, values)
        count = math.prod(shape)
        if not count:
            return np.empty(shape, self._dtype)
        memory = (ctypes.c_char * (count * self._dtype.itemsize)).from_address(address)
        return np.ndarray(shape, self._dtype, memory)  # type: ignore[arg-type]  # a buffer, too
