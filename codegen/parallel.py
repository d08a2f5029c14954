"""The process's driver and its pool of native threads."""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from functools import lru_cache

import numpy as np

from tensorad.codegen import jit
from tensorad.codegen.epoch import begin_epoch
from tensorad.codegen.parallel_apart import SYMBOLS
from tensorad.codegen.parallel_calls import HAS_THREADS
from tensorad.codegen.parallel_ir import driver_text
from tensorad.codegen.parallel_layout import (
    ARGUMENT_BYTES,
    ARGUMENTS,
    CPU,
    ERRORS,
    GENERATION,
    MAX_WORKERS,
    POOL_BYTES,
    STOP,
    WORKERS,
)
from tensorad.errors import InternalError

_SYMBOLS = ("run", "worker", "stop", "acquire", "release")


class Driver:
    """The linked driver; it is never unloaded, since threads may be inside it."""

    def __init__(self) -> None:
        self.library = jit.load(driver_text(), _SYMBOLS, ("syscall", *SYMBOLS), opt=0)
        addresses = self.library.addresses
        self.worker = addresses["worker"]
        pointer = ctypes.c_void_p
        self.run = ctypes.CFUNCTYPE(ctypes.c_int64, pointer)(addresses["run"])
        self.stop = ctypes.CFUNCTYPE(None, pointer)(addresses["stop"])
        self.acquire = ctypes.CFUNCTYPE(ctypes.c_int32, pointer)(addresses["acquire"])
        self.release = ctypes.CFUNCTYPE(None, pointer)(addresses["release"])


@lru_cache(maxsize=1)
def driver() -> Driver:
    """The driver of this process."""
    with jit.lock:
        return Driver()


class Pool:
    """Threads that wait for work in native code."""

    def __init__(self) -> None:
        self._memory = np.zeros(POOL_BYTES + 64, np.uint8)
        self.address = (self._memory.ctypes.data + 63) // 64 * 64
        self._threads: list[ctypes.c_ulong] = []
        self.wanted = 1
        """For how many threads it was made; the system may have given fewer."""
        self._words = np.frombuffer(self._memory, np.uint8)[
            self.address - self._memory.ctypes.data :
        ][:POOL_BYTES]
        places = self._words[ERRORS:ARGUMENTS].view(np.int32).reshape(-1, 16)
        places[:, CPU // 4] = -1

    def resize(self, workers: int) -> None:
        """Have so many threads beside the caller's; nothing may be running.

        One too many would be woken for every loop, take a processor from those that work, and
        keep light loops on one thread whenever it sleeps.
        """
        if len(self._threads) > workers:
            self.close()
            self._words[STOP : STOP + 4] = 0
        create = jit.c_function("pthread_create")
        generation = self._words[GENERATION : GENERATION + 4].view(np.int32)
        for number in range(len(self._threads) + 1, workers + 1):
            start = ARGUMENTS + ARGUMENT_BYTES * number
            argument = self._words[start : start + 24].view(np.int64)
            argument[:] = (self.address, number, int(generation[0]))
            thread = ctypes.c_ulong()
            where = ctypes.c_void_p(self.address + start)
            if create(ctypes.byref(thread), None, ctypes.c_void_p(driver().worker), where):
                break  # the system gives no more threads: fewer do the same work
            self._threads.append(thread)
        self._words[WORKERS : WORKERS + 8].view(np.int64)[0] = len(self._threads)

    def close(self) -> None:
        """Stop and join the threads."""
        driver().stop(self.address)
        join = jit.c_function("pthread_join")
        for thread in self._threads:
            if join(thread, None):
                raise InternalError("a worker thread could not be joined")
        self._threads.clear()


_pool: Pool | None = None
_lock = threading.Lock()


def pool_for(threads: int) -> int:
    """The address of a pool for calls on `threads` threads; 0 when one thread is enough."""
    if threads <= 1 or not HAS_THREADS:
        return 0
    pool = _pool
    if pool is not None and pool.wanted == threads:
        return pool.address
    return _resized(threads)


def _resized(threads: int) -> int:
    global _pool
    with _lock:
        if _pool is None:
            _pool = Pool()
            atexit.register(_close)
        while not driver().acquire(_pool.address):
            os.sched_yield()
        try:
            _pool.resize(min(threads - 1, MAX_WORKERS))
            _pool.wanted = threads
        finally:
            driver().release(_pool.address)
        return _pool.address


def _close() -> None:
    global _pool
    pool, _pool = _pool, None
    begin_epoch()
    if pool is not None:
        pool.close()


def _forget() -> None:
    """The threads of the parent do not exist in a forked child."""
    global _pool, _lock
    _pool = None
    _lock = threading.Lock()
    begin_epoch()


os.register_at_fork(after_in_child=_forget)
