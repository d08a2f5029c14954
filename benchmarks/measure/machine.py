"""The machine and the versions a run belongs to."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import sys
from functools import cache
from pathlib import Path
from typing import Final

import tensorad

PACKAGES: Final = (
    "tensorad", "numpy", "llvmlite", "islpy", "torch", "jax", "jaxlib", "numba", "scipy",
)  # fmt: skip


def versions() -> dict[str, str]:
    """Of Python and of the packages that are installed."""
    found = {"python": sys.version.split()[0]}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, str]:
    """Processor, CPUs of this process, memory, system."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    found = {"processor": _processor(), "cpus": str(cpus), "system": platform.platform()}
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        found["memory"] = f"{size / 2**30:.0f} GiB"
    return found


@cache
def fingerprint() -> str:
    """A short name of the library's and the benchmarks' code."""
    found = hashlib.sha256()
    for package in (Path(tensorad.__file__).parent, Path(__file__).parents[1]):
        for folder, folders, files in os.walk(package, followlinks=True):
            folders.sort()
            for name in sorted(files):
                if name.endswith(".py"):
                    found.update(Path(folder, name).read_bytes())
    return found.hexdigest()[:12]


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    fields = dict([part.strip() for part in line.split(":", 1)] for line in lines if ":" in line)
    name = fields.get("model name", platform.machine())
    family, model = fields.get("cpu family"), fields.get("model")
    return f"{name} (family {family}, model {model})" if family else name
