"""Functions of C as targets of XLA's typed foreign function interface, for processors.

One handler serves all of them. A call names its function by a number that holds for this process
alone, so what another process has compiled is refused. The structures are those of
`xla/ffi/api/c_api.h`.
"""

from __future__ import annotations

import ctypes
import re
import secrets
import weakref
from pathlib import Path
from typing import Final

import numpy as np

from tensorad.codegen.llvm.call_block import loaded, stored
from tensorad.codegen.runtime.c_entry import CEntry
from tensorad.codegen.target import link
from tensorad.errors import BoundsError, LimitError
from tensorad.process import Guard, once

VERSION: Final = (0, 3)
"""Of the interface: the one that the handler is written for."""
MOST: Final = 1 << 20
"""Functions that a process may have as targets."""

# Offsets in bytes. A frame of a call, and its three lists of arguments, results, attributes.
_EXTENSION, _API, _ARGUMENTS, _RESULTS, _ATTRIBUTES = 8, 16, 40, 80, 120
_LIST_SIZE, _LIST_KINDS, _ATTRIBUTE_VALUES, _LIST_VALUES = 16, 24, 40, 32
_BUFFER_DATA, _SCALAR_VALUE, _ERROR_CREATE = 24, 8, 48
_SCALAR: Final = 3
# An extension of the frame, and what it asks for: the version that a handler was made for.
_KIND, _NEXT, _METADATA = 8, 16, 24
_ASKS_METADATA: Final = 1
_MAJOR, _MINOR, _TRAITS, _STATE = 24, 28, 32, 40
_TEXT_BYTES: Final = 1 << 13
"""Memory for the text of an error."""
# Codes of errors.
_OUT_OF_RANGE, _FAILED_PRECONDITION = 11, 9


def version_of(include: str) -> tuple[int, int] | None:
    """The version of the interface, by its header in a folder; None if that does not tell."""
    header = Path(include) / "xla" / "ffi" / "api" / "c_api.h"
    if not header.is_file():
        return None
    text = header.read_text(encoding="utf-8")
    found = [re.search(rf"#define XLA_FFI_API_{n} (\d+)", text) for n in ("MAJOR", "MINOR")]
    numbers = [int(m[1]) for m in found if m is not None]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else None


class Targets:
    """Functions of C by number, for native code and for the words of their errors.

    Attributes:
        handler: the address of the handler, `XLA_FFI_Error *(*)(XLA_FFI_CallFrame *)`.
    """

    def __init__(self) -> None:
        self._first = secrets.randbits(62)
        self._addresses = np.zeros(MOST, np.int64)
        self._count = 0
        self._numbers: weakref.WeakKeyDictionary[CEntry, int] = weakref.WeakKeyDictionary()
        self._entries: weakref.WeakValueDictionary[int, CEntry] = weakref.WeakValueDictionary()
        self._guard = Guard()
        kind = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
        self._words = kind(lambda number, code, to: _write(self.words(number, code), to))
        text = _handler_text(self._addresses.ctypes.data, self._first)
        known = {"words": ctypes.cast(self._words, ctypes.c_void_p).value or 0}
        self._code = link.load(text, ("handler",), (), opt=1, addresses=known)
        self.handler: int = self._code.addresses["handler"]

    def number(self, entry: CEntry) -> int:
        """What names a function; it is called as long as the entry lives, then refused.

        Raises:
            LimitError: there are too many.
        """
        with self._guard.lock:
            known = self._numbers.get(entry)
            if known is not None:
                return known
            if self._count == MOST:
                raise LimitError(
                    f"this process has made {MOST} operators of XLA.",
                    where=f"{entry.name} for inputs {list(entry.input_shapes)}",
                    hint="call operators with fewer different shapes.",
                )
            row, self._count = self._count, self._count + 1
            self._addresses[row] = entry.address
            weakref.finalize(entry, self._addresses.__setitem__, row, 0)
            number = self._numbers[entry] = self._first + row
            self._entries[number] = entry
            return number

    def words(self, number: int, code: int) -> str:
        """The text of an error."""
        entry = self._entries.get(number)
        if entry is None:
            return f"an operator failed with the code {code}, and is gone meanwhile"
        try:
            error = entry.error(code)
        except BoundsError as unknown:
            error = unknown
        return f"{type(error).__name__}: {error}"


def _write(text: str, to: int) -> None:
    """Write a text to the caller's memory of `_TEXT_BYTES`, as far as it fits."""
    whole = text.encode()[: _TEXT_BYTES - 1].decode(errors="ignore").encode()
    ctypes.memmove(to, whole + b"\0", len(whole) + 1)


@once
def targets() -> Targets:
    """Those of this process."""
    return Targets()


def _filled(name: str, offset: int, first: str, then: str) -> str:
    """Blocks that copy the addresses of a list's buffers, from `first` on, then go on."""
    return f"""{name}:
  {loaded(f"%{name}.n", "i64", "%frame", offset + _LIST_SIZE)}
  {loaded(f"%{name}.all", "ptr", "%frame", offset + _LIST_VALUES)}
  br label %{name}next
{name}next:
  %{name}.k = phi i64 [0, %{name}], [%{name}.k1, %{name}one]
  %{name}.rest = icmp slt i64 %{name}.k, %{name}.n
  br i1 %{name}.rest, label %{name}one, label %{then}
{name}one:
  %{name}.at = getelementptr ptr, ptr %{name}.all, i64 %{name}.k
  %{name}.buffer = load ptr, ptr %{name}.at
  {loaded(f"%{name}.data", "ptr", f"%{name}.buffer", _BUFFER_DATA)}
  %{name}.place = add i64 %{name}.k, {first}
  %{name}.to = getelementptr ptr, ptr %buffers, i64 %{name}.place
  store ptr %{name}.data, ptr %{name}.to
  %{name}.k1 = add i64 %{name}.k, 1
  br label %{name}next"""


_STRANGE: Final = (
    "this was compiled by another process, or its operator is gone: an operator of tensorad is "
    "compiled again by each process that calls it"
)
_DECLARATIONS: Final = f"""
declare void @words(i64, i64, ptr)
@strange = private constant [{len(_STRANGE) + 1} x i8] c"{_STRANGE}\\00"
"""

_ASKED: Final = f"""
define ptr @handler(ptr %frame) nounwind {{
begin:
  {loaded("%first", "ptr", "%frame", _EXTENSION)}
  br label %extension
extension:
  %asks = phi ptr [%first, %begin], [%next, %other]
  %none = icmp eq ptr %asks, null
  br i1 %none, label %call, label %kind
kind:
  {loaded("%what", "i32", "%asks", _KIND)}
  %known = icmp eq i32 %what, {_ASKS_METADATA}
  br i1 %known, label %metadata, label %other
other:
  {loaded("%next", "ptr", "%asks", _NEXT)}
  br label %extension
metadata:
  {loaded("%told", "ptr", "%asks", _METADATA)}
  {stored(f"i32 {VERSION[0]}", "%m1", "%told", _MAJOR)}
  {stored(f"i32 {VERSION[1]}", "%m2", "%told", _MINOR)}
  {stored("i32 0", "%m3", "%told", _TRAITS)}
  {stored("i64 0", "%m4", "%told", _STATE)}
  ret ptr null"""
"""What asks for the version is answered."""

_ATTRIBUTE: Final = f"""
call:
  {loaded("%count", "i64", "%frame", _ATTRIBUTES + _LIST_SIZE)}
  %one = icmp eq i64 %count, 1
  br i1 %one, label %attribute, label %unknown
attribute:
  {loaded("%kinds", "ptr", "%frame", _ATTRIBUTES + _LIST_KINDS)}
  %sort = load i32, ptr %kinds
  %scalar = icmp eq i32 %sort, {_SCALAR}
  br i1 %scalar, label %named, label %unknown"""
"""A call has one attribute, a number."""

_RUN: Final = f"""
room:
  {loaded("%takes", "i64", "%frame", _ARGUMENTS + _LIST_SIZE)}
  {loaded("%gives", "i64", "%frame", _RESULTS + _LIST_SIZE)}
  %slots = add i64 %takes, %gives
  %buffers = alloca ptr, i64 %slots
  br label %arguments
{_filled("arguments", _ARGUMENTS, "0", "results")}
{_filled("results", _RESULTS, "%takes", "run")}
run:
  %code = call i64 %function(ptr %buffers)
  %fine = icmp eq i64 %code, 0
  br i1 %fine, label %done, label %worded
done:
  ret ptr null
worded:
  %said = alloca i8, i64 {_TEXT_BYTES}
  call void @words(i64 %number, i64 %code, ptr %said)
  br label %failed
unknown:
  br label %failed
failed:
  %text = phi ptr [%said, %worded], [@strange, %unknown]
  %class = phi i32 [{_OUT_OF_RANGE}, %worded], [{_FAILED_PRECONDITION}, %unknown]
  %error = alloca [4 x i64]
  {stored("i64 28", "%e1", "%error", 0)}
  {stored("ptr null", "%e2", "%error", 8)}
  {stored("ptr %text", "%e3", "%error", 16)}
  {stored("i32 %class", "%e4", "%error", 24)}
  {loaded("%api", "ptr", "%frame", _API)}
  {loaded("%create", "ptr", "%api", _ERROR_CREATE)}
  %made = call ptr %create(ptr %error)
  ret ptr %made
}}"""
"""Addresses of buffers in a row, the call, and the error if it fails."""


def _handler_text(addresses: int, first: int) -> str:
    """The module: @handler(frame), by the addresses of functions whose numbers start so."""
    named = f"""
named:
  {loaded("%values", "ptr", "%frame", _ATTRIBUTES + _ATTRIBUTE_VALUES)}
  %value = load ptr, ptr %values
  {loaded("%holds", "ptr", "%value", _SCALAR_VALUE)}
  %number = load i64, ptr %holds
  %row = sub i64 %number, {first}
  %inside = icmp ult i64 %row, {MOST}
  br i1 %inside, label %find, label %unknown
find:
  %all = inttoptr i64 {addresses} to ptr
  %at = getelementptr ptr, ptr %all, i64 %row
  %function = load atomic ptr, ptr %at acquire, align 8
  %gone = icmp eq ptr %function, null
  br i1 %gone, label %unknown, label %room"""
    return "".join([_DECLARATIONS, _ASKED, _ATTRIBUTE, named, _RUN])
