"""Calls without Python: a type whose objects enter native code directly, and their tables.

The entry (`entry_ir.py`) takes calls whose arrays need no conversion and whose sizes were seen
before; all others go to the Python path, which converts or explains.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from math import prod
from typing import Any, Final, NoReturn, Protocol

import numpy as np

from tensorad.codegen.entry import checks_ir as words
from tensorad.codegen.entry import entry_ir
from tensorad.codegen.entry.abi_probe import is_supported, new_array_address
from tensorad.codegen.entry.checks_ir import BINDING_WORDS, PARAMETER_WORDS
from tensorad.codegen.entry.frames_ir import frame_library
from tensorad.codegen.target import link
from tensorad.codegen.threads import settings_version
from tensorad.codegen.threads.pool import driver
from tensorad.process import Guard

MAX_BINDINGS: Final = 8
"""Bindings of the symbolic sizes that native calls know; the one learnt first goes."""


class _Slot(ctypes.Structure):
    _fields_ = (("number", ctypes.c_int), ("value", ctypes.c_void_p))


class _Member(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("kind", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Spec(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("size_bytes", ctypes.c_int),
        ("item_bytes", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    )


# CPython's stable ABI: slot numbers, member kinds and type flags.
_TP_CALL, _TP_MEMBERS = 50, 72
_SSIZE, _READ_ONLY = 19, 1
_HAVE_VECTORCALL, _DEFAULT_FLAGS = 1 << 11, 1 << 18


class NativeType:
    """A subtype of a Python class whose objects are called through the native entry.

    It adds two words to an object: the entry's address and its record's.
    """

    def __init__(self, base: type, new_array: int) -> None:
        self.offset = base.__basicsize__
        self.code = _entry(base, self.offset + 8, new_array)
        self.entry = self.code.addresses["call"]
        self.type = self._make(base)

    def _make(self, base: type) -> type:
        call = ctypes.cast(ctypes.pythonapi.PyVectorcall_Call, ctypes.c_void_p)
        offset = _Member(b"__vectorcalloffset__", _SSIZE, self.offset, _READ_ONLY, None)
        members = (_Member * 2)(offset, _Member())
        slots = (_Slot * 3)(
            _Slot(_TP_CALL, call),
            _Slot(_TP_MEMBERS, ctypes.cast(members, ctypes.c_void_p)),
            _Slot(0, None),
        )
        name = f"{base.__module__}.{base.__qualname__}".encode()
        flags = _DEFAULT_FLAGS | _HAVE_VECTORCALL
        self._spec = _Spec(name, self.offset + 16, 0, flags, slots)
        self._kept = (name, members, slots)
        make = ctypes.pythonapi.PyType_FromSpecWithBases
        make.restype = ctypes.py_object
        make.argtypes = (ctypes.POINTER(_Spec), ctypes.py_object)
        made: type = make(ctypes.byref(self._spec), (base,))
        return made

    def connect(self, made: object, record: Record) -> None:
        """Have calls of an object use a record."""
        words = (ctypes.c_int64 * 2).from_address(id(made) + self.offset)
        words[1] = record.address
        words[0] = self.entry

    def prepare(self, made: object) -> None:
        """Have calls of a new object reach Python."""
        (ctypes.c_int64 * 2).from_address(id(made) + self.offset)[0] = self.entry


def _entry(base: type, record_offset: int, new_array: int) -> link.Library:
    addresses = link.python_addresses(entry_ir.IMPORTS)
    name = sys.intern("out")
    objects = {
        "ndarray": np.ndarray,
        "list": list,
        "tuple": tuple,
        "none": None,
        "out_name": name,
        "slow": base.__dict__["__call__"],
        "failed": _failed,
    }
    _kept.extend([*objects.values(), base])
    addresses.update({n: id(o) for n, o in objects.items()})
    addresses["settings_version"] = settings_version.ADDRESS
    addresses["new_array"] = new_array
    for library, names in ((driver().library, ("run", "released")),
                           (frame_library(), ("take", "ended"))):  # fmt: skip
        addresses.update({name: library.addresses[name] for name in names})
    text = entry_ir.stub_text(record_offset)
    return link.load(text, ("call",), (), opt=0, addresses=addresses)


_kept: list[object] = []
"""Objects whose addresses are in native code."""


class Frames(Protocol):
    """The frames of the calls of one binding."""

    address: int

    def error(self, code: int) -> BaseException:
        """What stopped the call that returned a code."""


class Binding:
    """What the arrays of a call must be in numbers, and where such calls find their frames.

    A call that gives the interpreter's lock away holds a reference to it meanwhile.
    """

    def __init__(
        self, shapes: Sequence[tuple[int, ...]], inputs: int, sizes: Sequence[int],
        frames: Frames, then: int,
    ) -> None:  # fmt: skip
        """What is given.

        Args:
            shapes: of all arrays, the first `inputs` ones those that are read.
            sizes: bytes of one element, by array.
            then: the version of the settings when all was checked.
        """
        self.version = then
        self.shapes = tuple(shapes)
        self.frames = frames
        extents = [n for shape in shapes for n in shape]
        self._extents = (ctypes.c_int64 * max(1, len(extents)))(*extents)
        self.size_bytes = [prod(s) * size for s, size in zip(shapes, sizes, strict=True)]
        self._bytes = (ctypes.c_int64 * len(self.size_bytes))(*self.size_bytes)
        self.words = (ctypes.c_int64 * BINDING_WORDS)()
        self.words[words.FRAMES] = frames.address
        self.words[words.EXTENTS] = ctypes.addressof(self._extents)
        before = sum([len(shape) for shape in shapes[:inputs]])
        self.words[words.MADE_EXTENTS] = ctypes.addressof(self._extents) + 8 * before
        self.words[words.BYTES] = ctypes.addressof(self._bytes)
        self.words[words.BINDING_VERSION] = then
        self.words[words.OWNER] = id(self)

    def allow(self, *, allocates: bool, releases: bool) -> None:
        """Whether native calls may make the outputs and give the interpreter's lock away."""
        self.words[words.ALLOCATES] = allocates
        self.words[words.RELEASES] = releases

    @property
    def address(self) -> int:
        return ctypes.addressof(self.words)


def _failed(binding: Binding, code: int) -> NoReturn:
    """Raise what stopped a call; native calls end here."""
    raise binding.frames.error(code)


class Record:
    """The table of one function: its parameters, and the bindings seen last."""

    def __init__(
        self, inputs: Sequence[np.dtype[Any]], outputs: Sequence[np.dtype[Any]],
        ranks: Sequence[int],
    ) -> None:  # fmt: skip
        """`ranks`: of the inputs, then of the outputs."""
        self._dtypes = [*inputs, *outputs]  # the words hold their addresses
        self.sizes = [d.itemsize for d in self._dtypes]
        count = words.PARAMETERS + PARAMETER_WORDS * len(self._dtypes)
        self._words = (ctypes.c_int64 * count)()
        self._words[words.INPUTS] = len(inputs)
        self._words[words.OUTPUTS] = len(outputs)
        for n, (dtype, rank) in enumerate(zip(self._dtypes, ranks, strict=True)):
            at = words.PARAMETERS + PARAMETER_WORDS * n
            is_input = n < len(inputs)
            self._words[at + words.DTYPE] = id(dtype)
            self._words[at + words.RANK] = rank
            self._words[at + words.FLAGS] = words.READY if is_input else words.WRITABLE
            self._words[at + words.IS_BOOL] = is_input and dtype.kind == "b"
        self._bindings: list[Binding] = []
        self._list: ctypes.Array[ctypes.c_int64]
        self._show()

    @property
    def address(self) -> int:
        return ctypes.addressof(self._words)

    def knows(self, frames: Frames, then: int) -> bool:
        """Whether native calls use these frames already."""
        return any(b.frames is frames and b.version == then for b in self._bindings)

    def learn(self, binding: Binding) -> None:
        """Let native calls use a binding, in place of an older one of the same shapes."""
        with _guard.lock:
            others = [b for b in self._bindings if b.shapes != binding.shapes]
            gone, self._bindings = self._bindings, [binding, *others[: MAX_BINDINGS - 1]]
            self._show()
            del gone  # native calls see the new list by now

    def _show(self) -> None:
        """Native calls read the list while they hold the interpreter's lock: one store swaps it."""
        addresses = [b.address for b in self._bindings]
        shown = (ctypes.c_int64 * (len(addresses) + 1))(*addresses, 0)
        self._words[words.BINDINGS] = ctypes.addressof(shown)
        self._list = shown


_guard = Guard()
"""Held while a record learns; one for all, so that a forked child can have a new one."""

_types: Final[dict[type, NativeType | None]] = {}


def is_memoised(of: type) -> bool:
    """Whether `native_type` has its answer already."""
    return of in _types


def native_type(of: type) -> NativeType | None:
    """The subtype of a class with native calls; None where they are impossible."""
    if of not in _types:  # LLVM may hold the lock for another kernel: only the first build waits
        with link.lock:
            if of not in _types:
                _types[of] = NativeType(of, new_array_address() or 0) if is_supported() else None
    return _types[of]
