"""Machine code in memory: linking, life time and fork safety (one of two llvmlite users)."""

from __future__ import annotations

import ctypes
import ctypes.util
import threading
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, Final

import llvmlite.binding as llvm

from tensorad.codegen.target.object_code import compile_text, llvmlite_lock, target_machine
from tensorad.errors import InternalError
from tensorad.process import around_forks

LIBRARIES_PER_JIT: Final = 64
"""A linker never forgets the names of its libraries, so it is replaced after this many."""
_NO_ADDRESSES: Final[Mapping[str, int]] = {}

lock = threading.RLock()
"""Held while code is compiled or linked."""


def is_held() -> bool:
    """Whether the calling thread holds the lock: it builds in a finalizer or a signal's handler."""
    return lock._is_owned()  # type: ignore[attr-defined, no-any-return]  # as Condition asks it


class Linker:
    """One LLJIT; it lives as long as any library linked by it."""

    def __init__(self) -> None:
        self.jit = llvm.create_lljit_compiler(target_machine(2), use_jit_link=True)
        self.linked = 0

    def link(self, image: bytes, symbols: Iterable[str], externals: Mapping[str, int]) -> Any:
        """Link one object file; a tracker that gives addresses and unloads when dropped."""
        self.linked += 1
        builder = llvm.JITLibraryBuilder()
        builder.add_object_img(image)
        for name, address in externals.items():
            builder.import_symbol(name, address)
        for name in symbols:
            builder.export_symbol(name)
        return builder.link(self.jit, f"library{self.linked}")


class Library:
    """Linked machine code; dropping the object unloads it."""

    def __init__(self, linker: Linker, tracker: Any, symbols: Iterable[str]) -> None:
        self.addresses = {name: int(tracker[name]) for name in symbols}
        self._tracker = tracker
        self._linker = linker


_linker: Linker | None = None


def load(
    text: str,
    symbols: tuple[str, ...],
    externals: Iterable[str],
    opt: int = 2,
    cpu: str = "",
    addresses: Mapping[str, int] = _NO_ADDRESSES,
) -> Library:
    """Compile a module of LLVM IR and link it.

    Args:
        symbols: functions whose addresses are wanted.
        externals: functions of the C library the module declares.
        addresses: anything else it declares.
        opt: LLVM's code generation level; 0 is linear in the length of the code.
        cpu: a processor to compile for in place of this one.
    """
    global _linker
    with lock:
        image = compile_text(text, opt, cpu)
        if _linker is None or _linker.linked >= LIBRARIES_PER_JIT:
            _linker = Linker()
        try:
            known = {name: external_address(name) for name in externals}
            tracker = _linker.link(image, symbols, {**known, **addresses})
        except RuntimeError as error:
            raise InternalError(f"linking failed: {error}\n{text[:20000]}") from error
        return Library(_linker, tracker, symbols)


def _c_libraries() -> Iterator[ctypes.CDLL]:
    """What the process has loaded, which is nearly always enough, then the library of functions.

    To find that one a program is run.
    """
    yield _loaded()
    named = _mathematics()
    if named is not None:
        yield named


@lru_cache(maxsize=1)
def _loaded() -> ctypes.CDLL:
    return ctypes.CDLL(None)


@lru_cache(maxsize=1)
def _mathematics() -> ctypes.CDLL | None:
    found = ctypes.util.find_library("m")
    return None if found is None else ctypes.CDLL(found)


def c_function(name: str) -> Any:
    """A function of the C library.

    Raises:
        InternalError: there is none.
    """
    for library in _c_libraries():
        function = getattr(library, name, None)
        if function is not None:
            return function
    raise InternalError(f"the C library has no function {name!r}")


@cache
def external_address(name: str) -> int:
    """The address of a C library function, for the linker."""
    return ctypes.cast(c_function(name), ctypes.c_void_p).value or 0


def python_addresses(names: Iterable[str]) -> dict[str, int]:
    """Where functions of Python itself are, for the linker."""
    functions = {name: getattr(ctypes.pythonapi, name) for name in names}
    return {n: ctypes.cast(f, ctypes.c_void_p).value or 0 for n, f in functions.items()}


def _before_fork() -> None:
    lock.acquire()
    inner = llvmlite_lock()
    if inner is not None:
        inner.acquire()


def _after_fork() -> None:
    inner = llvmlite_lock()
    if inner is not None:
        inner.release()
    lock.release()


around_forks(_before_fork, _after_fork)
