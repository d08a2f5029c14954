"""Children forked while another thread builds: they wait for nothing that thread held."""

from __future__ import annotations

import os
import pkgutil
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import tensorad
from tensorad import process
from tensorad.errors import MissingPackageError
from tensorad.ir.cached import cached_property

ROOT = Path(__file__).resolve().parents[3]
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
    for module in pkgutil.walk_packages(tensorad.__path__, "tensorad."):
        if not module.name.endswith("__main__"):
            with suppress(MissingPackageError):  # of other systems
                import_module(module.name)
    guards = list(process._guards)
    assert len(guards) >= 11

    def take_all() -> None:
        for guard in guards:
            if not guard.lock.acquire(timeout=5):
                raise TimeoutError(str(guards.index(guard)))

    with held(*[guard.lock for guard in guards]):
        code = exit_code(take_all)
    assert code == 0


def test_all_locks_are_guards() -> None:
    """But for the one that is held while the process forks."""
    made = re.compile(r"R?Lock\(\)|register_at_fork")
    found = {
        str(p.relative_to(ROOT))
        for folder in ("tensorad", "codegen", "simplify")
        for p in (ROOT / folder).rglob("*.py")
        if made.search(p.read_text())
    }
    assert found == {"tensorad/process.py", "codegen/target/link.py"}


def test_what_a_child_does_comes_after_its_locks_are_new() -> None:
    seen: list[bool] = []
    guard = process.Guard()

    @process.in_forked_child
    def take() -> None:
        seen.append(guard.lock.acquire(blocking=False))

    def look() -> None:
        if seen != [True]:
            raise ValueError(seen)

    try:
        with held(guard.lock):
            code = exit_code(look)
    finally:
        process._in_child.remove(take)
        process._guards.remove(guard)
    assert code == 0
    assert seen == []


def test_the_first_value_of_a_property_stays() -> None:
    class Twice:
        @cached_property
        def value(self) -> object:
            if not self.__dict__:
                self.__dict__["value"] = first  # as another thread may, meanwhile
            return object()

    first = object()
    assert Twice().value is first
