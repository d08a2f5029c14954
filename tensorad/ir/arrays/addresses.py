"""Where the elements of others' arrays are said to lie, looked at before anybody reads there.

What a producer says cannot be proved, but pointers to nothing, extents and steps that no memory
has are found. NumPy reads the descriptions of DLPack as they come.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np

_END: Final = 1 << 56
"""No processor gives a process addresses from here on."""
_MOST_AXES: Final = 64
_api: Final = ctypes.PyDLL(None)
_is_valid: Final[Any] = _api["PyCapsule_IsValid"]
_is_valid.argtypes = (ctypes.py_object, ctypes.c_char_p)
_pointer: Final[Any] = _api["PyCapsule_GetPointer"]
_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_pointer.restype = ctypes.c_void_p


class _Described(ctypes.Structure):
    """DLTensor, as the standard lays it out."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_NAMES: Final = ((b"dltensor", 0), (b"dltensor_versioned", 32))
"""Of capsules, and where the description begins: version, context, deleter and flags come first."""


class Described:
    """A producer of DLPack for NumPy, whose capsules are looked at on their way."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __dlpack_device__(self) -> Any:
        return self._value.__dlpack_device__()

    def __dlpack__(self, **asked: Any) -> Any:
        capsule = self._value.__dlpack__(**asked)
        for name, offset in _NAMES:
            if _is_valid(capsule, name):
                _check_description(_Described.from_address(_pointer(capsule, name) + offset))
        return capsule


def _check_description(t: _Described) -> None:
    """
    Raises:
        BufferError: elements are described that lie nowhere.
    """
    if not 0 <= t.ndim <= _MOST_AXES or (t.ndim and not t.shape):
        raise BufferError(f"it says that it has {t.ndim} axes, and no extents of these")
    shape = t.shape[: t.ndim] if t.ndim else []
    strides = t.strides[: t.ndim] if t.ndim and t.strides else None
    item = t.bits * t.lanes // 8
    steps = _dense(shape, item) if strides is None else [n * item for n in strides]
    check_place((t.data or 0) + (t.byte_offset if t.data else 0), shape, steps, item)


def _dense(shape: Sequence[int], item: int) -> list[int]:
    return [prod(shape[d + 1 :]) * item for d in range(len(shape))]


def check_place(address: int, shape: Sequence[int], steps: Sequence[int], item: int) -> None:
    """There may be memory where the elements are said to lie.

    Args:
        address: of the first element. steps: bytes from one to the next, by axis. item: its bytes.
    Raises:
        BufferError: there cannot be.
    """
    if any(n < 0 for n in shape):
        raise BufferError(f"it says that it has the shape {tuple(shape)}")
    if not prod(shape):
        return
    if not address:
        raise BufferError("its elements are at a null pointer")
    ways = [(n - 1) * step for n, step in zip(shape, steps, strict=True)]
    first, last = sum([w for w in ways if w < 0]), sum([w for w in ways if w > 0])
    if address + first <= 0 or address + last + item > _END:
        raise BufferError("its elements are at addresses that no process has")


def checked_place(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array of memory that another library has.

    Raises:
        BufferError: as for `check_place`.
        TypeError: its elements are references to objects, which nobody vouches for.
    """
    if array.dtype.hasobject:
        raise TypeError("its elements are references to objects of Python")
    address = array.__array_interface__["data"][0]
    check_place(address, array.shape, array.strides, array.dtype.itemsize)
    return array
