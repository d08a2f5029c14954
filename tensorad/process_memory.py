"""How much memory this process may have: of the machine, of its cgroups, by its own limits."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path, PurePosixPath


def process_bytes(root: Path = Path("/")) -> int | None:
    """The smallest limit there is, in bytes; None where the system tells nothing.

    Args:
        root: where the system's own files are.
    """
    found = [n for n in (_physical(), *_group_limits(root), *_own_limits()) if n is not None]
    return min(found, default=None)


def bytes_left(most: int) -> int:
    """How much more this process may have, at most so many bytes.

    What the machine has left changes, and is asked for when memory is taken.
    """
    limits = [n for n in (*_group_limits(Path("/")), *_own_limits()) if n is not None]
    if not limits:
        return most
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        used = pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return min(most, *limits)
    return max(0, min(most, min(limits) - used))


def _physical() -> int | None:
    """The memory of the machine."""
    try:
        pages, page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None
    return pages * page if pages > 0 and page > 0 else None


def _group_limits(root: Path) -> Iterator[int | None]:
    """What the process's control groups and those above them allow (Linux, both versions)."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    mount = root / "sys/fs/cgroup"
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            for base in (mount, mount / "unified"):
                yield from _limits(base, path, ("memory.max", "memory.high"))
        elif "memory" in controllers.split(","):
            yield from _limits(mount / "memory", path, ("memory.limit_in_bytes",))


def _limits(base: Path, path: str, names: tuple[str, ...]) -> Iterator[int | None]:
    """Those of a group and of all above it; a container may not see its own path."""
    inside = PurePosixPath(path.lstrip("/"))
    for folder in (inside, *inside.parents):
        for name in names:
            try:
                text = (base / folder / name).read_text().strip()
            except OSError:
                continue
            yield int(text) if text.isdecimal() else None  # "max"


def _own_limits() -> Iterator[int | None]:
    """What `ulimit -v` and `ulimit -d` set."""
    for name in ("RLIMIT_AS", "RLIMIT_DATA"):
        which = getattr(resource, name, None)
        limit = resource.RLIM_INFINITY if which is None else resource.getrlimit(which)[0]
        yield None if limit == resource.RLIM_INFINITY else limit
