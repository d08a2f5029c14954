"""The process's driver and its pool of native threads."""

from __future__ import annotations

import atexit
import ctypes
import os

import numpy as np

from tensorad.codegen.llvm.call_block import MAX_WORKERS, POOL_BYTES
from tensorad.codegen.target import link
from tensorad.codegen.threads import control_ir, signals_ir
from tensorad.codegen.threads.affinity_ir import SYMBOLS
from tensorad.codegen.threads.driver_ir import driver_text
from tensorad.codegen.threads.linux_calls import HAS_THREADS
from tensorad.codegen.threads.resize_ir import SYMBOLS as THREADS
from tensorad.codegen.threads.settings_version import new_version
from tensorad.process import Guard, in_forked_child, once

_SYMBOLS = ("run", "released", "resize")


class Driver:
    """The linked driver; it is never unloaded, since threads may be inside it."""

    def __init__(self) -> None:
        externals = ("syscall", *SYMBOLS, *THREADS, *control_ir.SYMBOLS, *signals_ir.SYMBOLS)
        python = signals_ir.addresses()
        self.library = link.load(driver_text(), _SYMBOLS, externals, opt=0, addresses=python)
        addresses = self.library.addresses
        pointer = ctypes.c_void_p
        self.run = ctypes.PYFUNCTYPE(ctypes.c_int64, pointer)(addresses["released"])
        """Raises what a handler of signals raises meanwhile."""
        resize = ctypes.CFUNCTYPE(ctypes.c_int32, pointer, ctypes.c_int64)
        self.resize = resize(addresses["resize"])


@once
def driver() -> Driver:
    """The driver of this process."""
    with link.lock:
        return Driver()


class Pool:
    """Threads that wait for work in native code."""

    def __init__(self) -> None:
        self._memory = np.zeros(POOL_BYTES + 64, np.uint8)
        self.address = (self._memory.ctypes.data + 63) // 64 * 64
        self.threads = 1
        """With the caller's, as asked for: the system may have given fewer. 0 while it changes."""

    def resize(self, threads: int) -> None:
        """Have so many threads with the caller's; waits for the loop that has the pool.

        One too many would be woken for every loop, take a processor from those that work, and
        keep light loops on one thread whenever it sleeps.
        """
        self.threads = 0
        while not driver().resize(self.address, min(threads - 1, MAX_WORKERS)):
            os.sched_yield()
        self.threads = threads

    def forget(self) -> None:
        """Have no threads; calls that go on in a forked child find none in its memory."""
        self._memory[:] = 0
        self.threads = 1


_pool: Pool | None = None
_guard = Guard()
_ends = False
"""Whether the interpreter ends: no thread begins any more."""


def pool_for(threads: int) -> int:
    """The address of a pool for calls on `threads` threads; 0 when one thread is enough."""
    if threads <= 1 or not HAS_THREADS:
        return 0
    pool = _pool
    if pool is not None and pool.threads == threads:
        return pool.address
    return _resized(threads)


def _resized(threads: int) -> int:
    global _pool
    with _guard.lock:
        if _pool is None:
            _pool = Pool()
        if _pool.threads != threads and not _ends:
            _pool.resize(threads)
        return _pool.address


def _close() -> None:
    """End the threads; those of Python may go on calling, each alone, in the pool's memory."""
    global _ends
    with _guard.lock:
        _ends = True
        if _pool is not None:
            _pool.resize(1)


@in_forked_child
def _forget() -> None:
    """The threads of the parent do not exist in a forked child."""
    if _pool is not None:
        _pool.forget()
    new_version()


atexit.register(_close)
