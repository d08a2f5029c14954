"""The TENSORAD_* environment flags, read once at import."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from operator import index
from typing import SupportsIndex

from tensorad.errors import DefinitionError
from tensorad.process_memory import bytes_left as _left
from tensorad.process_memory import process_bytes

PASS_FLAGS = ("ir", "verify", "check", "time")
"""What is asked of every pass."""
DEBUG_FLAGS = (*PASS_FLAGS, "certify", "readback", "llvm", "asm")
MOST_THREADS = 256


@dataclass(frozen=True)
class Config:
    """Settings of one process; `override` changes them for a block of code."""

    debug: tuple[str, ...] = ()
    """TENSORAD_DEBUG: comma-separated from `DEBUG_FLAGS` and ir:<pass>."""
    bisect: int | None = None
    """TENSORAD_BISECT: stop optimising after this many passes; 0: before the first."""
    num_threads: int = 1
    """TENSORAD_NUM_THREADS: threads of a compiled call; default: the CPUs of this process."""
    max_bytes: int = 1 << 36
    """TENSORAD_MAX_BYTES: most memory (bytes) that one call may have, its arrays included;
    default: what the machine, the control groups and the limits of this process allow."""
    dense_jacobian_elements: int = 1 << 27
    """TENSORAD_DENSE_JACOBIAN_ELEMENTS: largest full Jacobian (elements) that may be stored."""
    machine: str = ""
    """TENSORAD_MACHINE: facts in place of what is read from the machine: cpu=haswell,l2=262144."""
    cache_dir: str = ""
    """TENSORAD_CACHE_DIR: where schedules found by measuring are kept between processes."""
    native_calls: bool = True
    """TENSORAD_NATIVE_CALLS=0: functions built from now on are called through Python only."""
    progress: bool = True
    """TENSORAD_PROGRESS=0: no line on the terminal in derivations and builds that take long."""
    isl_operations: int = 300_000
    """TENSORAD_ISL_OPERATIONS: isl operations one attempt to solve a domain may spend."""


def available_cpus(quota: str = "/sys/fs/cgroup/cpu.max") -> int:
    """The CPUs this process may use: its affinity, or less where a container has a quota."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux only
    count = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    try:
        with open(quota) as file:
            limit, period = file.read().split()
    except (OSError, ValueError):
        return count
    if not (limit.isdigit() and period.isdigit()):
        return count
    return max(1, min(count, -(-int(limit) // int(period))))


def _positive(name: str, text: str, example: int = 4) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise DefinitionError(
            f"{name} must be a positive integer, got {text!r}.", hint=f"export {name}={example}"
        )
    return int(text)


def _count(name: str, text: str) -> int:
    if not text.strip().isdecimal():
        raise DefinitionError(
            f"{name} must be a whole number from 0, got {text!r}.", hint=f"export {name}=4"
        )
    return int(text)


def _threads(text: str | None) -> int:
    name = "TENSORAD_NUM_THREADS"
    if text is None:
        return min(available_cpus(), MOST_THREADS)
    count = _positive(name, text)
    if count > MOST_THREADS:
        raise DefinitionError(
            f"{name} must be at most {MOST_THREADS}, got {text!r}.", hint=f"export {name}=4"
        )
    return count


def _switch(name: str, text: str) -> bool:
    if text not in ("0", "1"):
        raise DefinitionError(f"{name} must be 0 or 1, got {text!r}.", hint=f"export {name}=0")
    return text == "1"


def _debug_flags(text: str) -> tuple[str, ...]:
    flags = tuple([part.strip() for part in text.split(",") if part.strip()])
    for flag in flags:
        if flag not in DEBUG_FLAGS and not flag.startswith("ir:"):
            raise DefinitionError(
                f"TENSORAD_DEBUG has the unknown flag {flag!r}.",
                hint=f"use some of {', '.join(DEBUG_FLAGS)}, ir:<pass>, separated by commas.",
            )
    return flags


def _from_environment() -> Config:
    env = os.environ
    debug = _debug_flags(env.get("TENSORAD_DEBUG", ""))

    def number(name: str, example: int, default: int | None = None) -> int:
        if name in env:
            return _positive(name, env[name], example)
        return default or example

    bisect = "TENSORAD_BISECT"
    return Config(
        debug=debug,
        bisect=_count(bisect, env[bisect]) if bisect in env else None,
        num_threads=_threads(env.get("TENSORAD_NUM_THREADS")),
        max_bytes=number("TENSORAD_MAX_BYTES", Config.max_bytes, process_bytes()),
        dense_jacobian_elements=number(
            "TENSORAD_DENSE_JACOBIAN_ELEMENTS", Config.dense_jacobian_elements
        ),
        native_calls=_switch("TENSORAD_NATIVE_CALLS", env.get("TENSORAD_NATIVE_CALLS", "1")),
        progress=_switch("TENSORAD_PROGRESS", env.get("TENSORAD_PROGRESS", "1")),
        isl_operations=number("TENSORAD_ISL_OPERATIONS", Config.isl_operations),
        machine=env.get("TENSORAD_MACHINE", ""),
        cache_dir=env.get("TENSORAD_CACHE_DIR", ""),
    )


def bytes_left() -> int:
    """What a call may take while it runs, as far as that is known when it begins."""
    return _left(current().max_bytes)


_current = _from_environment()
_watchers: list[Callable[[], None]] = []


def current() -> Config:
    """The settings in force."""
    return _current


def watch(changed: Callable[[], None]) -> None:
    """Have a function called after every change of the settings."""
    _watchers.append(changed)


def _install(settings: Config) -> None:
    global _current
    _current = settings
    for changed in _watchers:
        changed()


def get_num_threads() -> int:
    """How many threads a compiled call may use."""
    return _current.num_threads


def set_num_threads(count: int) -> None:
    """Let compiled calls use so many threads from now on, in the whole process.

    Results do not depend on it. Threads are started when a call first needs them.

    Raises:
        DefinitionError: the count is not from 1 to 256.
    """
    given: object = count
    if not isinstance(given, SupportsIndex) or isinstance(given, bool):
        raise _no_count(count)
    if not 1 <= index(count) <= MOST_THREADS:
        raise _no_count(count)
    _install(replace(_current, num_threads=index(count)))


def _no_count(value: object) -> DefinitionError:
    return DefinitionError(
        f"the number of threads must be a whole number from 1 to {MOST_THREADS}, got {value!r}.",
        where="set_num_threads",
        hint="1 runs everything in the calling thread.",
    )


@contextmanager
def override(**changes: object) -> Iterator[Config]:
    """Change settings inside a `with` block (for tests and debugging)."""
    unknown = set(changes) - {f.name for f in fields(Config)}
    if unknown:
        raise DefinitionError(f"unknown setting {sorted(unknown)[0]!r}.")
    before = _current
    _install(replace(before, **changes))  # type: ignore[arg-type]  # names checked above
    try:
        yield _current
    finally:
        _install(before)
