"""Children forked while another thread builds: they wait for nothing that thread held."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from tensorad import collector
from tensorad.codegen.entry import native_type
from tensorad.codegen.runtime import arena, background_compiler, executable, kernel_cache
from tensorad.codegen.threads import pool
from tensorad.ir import node
from tensorad.ir.cached import cached_property
from tensorad.simplify.domain import point_tables, polyhedral
from tensorad.simplify.zeros import passes

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="systems without fork")


def exit_code(of: Callable[[], object]) -> int:
    """How a forked child ends that does this: 0 unless it fails or is stuck for 20 s."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)
        code = 1
        try:
            of()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@contextmanager
def held(*locks: Any) -> Iterator[None]:
    """Locks in the hands of another thread."""
    begun, done = threading.Event(), threading.Event()

    def hold() -> None:
        with ExitStack() as stack:
            for lock in locks:
                stack.enter_context(lock)
            begun.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    begun.wait()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_a_property_that_another_thread_computes() -> None:
    begun, done = threading.Event(), threading.Event()

    class Slow:
        def __init__(self, waits: bool) -> None:
            self.waits = waits

        @cached_property
        def value(self) -> object:
            begun.set()
            if self.waits:
                done.wait()
            return object()

    slow, other = Slow(True), Slow(False)
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    begun.wait()
    code = exit_code(lambda: other.value)
    done.set()
    thread.join()
    assert code == 0
    assert slow.value is slow.value


def test_locks_that_another_thread_holds() -> None:
    owners: list[Any] = [
        collector, node, point_tables, polyhedral._memory, passes._memory, kernel_cache,
        background_compiler, arena, pool, executable, native_type,
    ]  # fmt: skip

    def take_all() -> None:
        for owner in owners:
            if not owner._lock.acquire(timeout=5):
                raise TimeoutError(str(owner))

    with held(*[owner._lock for owner in owners]):
        code = exit_code(take_all)
    assert code == 0


def test_the_first_value_of_a_property_stays() -> None:
    class Twice:
        @cached_property
        def value(self) -> object:
            if not self.__dict__:
                self.__dict__["value"] = first  # as another thread may, meanwhile
            return object()

    first = object()
    assert Twice().value is first
