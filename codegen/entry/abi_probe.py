"""What native calls rely on, tested in this process: the layout of Python's and NumPy's objects.

Where a test fails there are no native calls; the Python path does the same.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import sysconfig
from functools import lru_cache
from typing import Any, Final

import numpy as np

from tensorad.codegen.entry.checks_ir import HEAD, LIST_ITEMS, TUPLE_ITEMS

_ABI_VERSIONS: Final = (0x01000009, 0x02000000)
_ABI_VERSION, _NEW_FROM_DESCR = 0, 94
"""Positions in NumPy's table of functions."""


def _words(address: int, count: int) -> list[int]:
    return list((ctypes.c_uint64 * count).from_address(address))


def _is_cpython() -> bool:
    return (
        sys.implementation.name == "cpython"
        and not (sys.version_info >= (3, 13) and sysconfig.get_config_var("Py_GIL_DISABLED"))
        and struct.calcsize("P") == 8
        and sys.byteorder == "little"
        and HEAD == 16
    )


def _arrays_match(probe: np.ndarray[Any, Any]) -> bool:
    """Whether an array's fields lie where the entry reads them.

    Addresses are followed only after all that is known beforehand was found in its place.
    """
    data, rank, extents, strides, base, dtype, flags = _words(id(probe) + HEAD, 7)
    return (
        _words(id(probe) + HEAD - 8, 1) == [id(np.ndarray)]
        and data == probe.__array_interface__["data"][0]
        and rank & 0xFFFFFFFF == probe.ndim
        and base == id(probe.base)
        and dtype == id(probe.dtype)
        and flags & 0xFFFFFFFF == probe.flags.num
        and _words_at(extents, probe.ndim) == probe.shape
        and _words_at(strides, probe.ndim) == probe.strides
    )


def _words_at(address: int, count: int) -> tuple[int, ...]:
    """The words at what should be an address; nothing if it cannot be one."""
    plausible = address >= 1 << 16 and address % 8 == 0
    return tuple(_words(address, count)) if plausible else ()


def _layouts_match() -> bool:
    """Whether arrays, lists and tuples look in memory as the entry expects."""
    whole = np.arange(60, dtype=np.int16).reshape(3, 4, 5)
    fixed = whole[1:, ::2, 1:4]
    fixed.flags.writeable = False
    items: list[object] = [whole, fixed, None]
    held = tuple(items)
    want = tuple([id(o) for o in items])
    return (
        _arrays_match(whole[0:2])
        and _arrays_match(fixed)
        and _words(id(items) + HEAD, 1) == [3]
        and _words_at(_words(id(items) + LIST_ITEMS, 1)[0], 3) == want
        and _words(id(held) + HEAD, 1) == [3]
        and _words_at(id(held) + TUPLE_ITEMS, 3) == want
    )


def new_array_address() -> int | None:
    """NumPy's PyArray_NewFromDescr; None when its table of functions has another version."""
    core = getattr(np, "_core", None) or getattr(np, "core", None)
    capsule = getattr(getattr(core, "multiarray", None), "_ARRAY_API", None)
    if capsule is None:
        return None
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    table = _words(pointer(capsule, None), _NEW_FROM_DESCR + 1)
    version = ctypes.CFUNCTYPE(ctypes.c_uint)(table[_ABI_VERSION])()
    return table[_NEW_FROM_DESCR] if version in _ABI_VERSIONS else None


@lru_cache(maxsize=1)
def is_supported() -> bool:
    """Whether native calls are possible in this process."""
    return _is_cpython() and _layouts_match() and new_array_address() is not None
