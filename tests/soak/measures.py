"""What a process holds: memory, threads, descriptors, mappings; and how fast one of these grows."""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

FEW = 100
"""Cycles that say nothing of growth: what is kept between builds is still filling."""


class Held(NamedTuple):
    """What a process holds at a time.

    Attributes:
        cycles: how many programs were built, called and dropped before.
        resident: bytes of memory.
    """

    cycles: int
    resident: int
    threads: int
    descriptors: int
    mappings: int


def held(cycles: int) -> Held:
    """What this process holds now, garbage collected."""
    gc.collect()
    status = Path("/proc/self/status").read_text().splitlines()
    said = dict([line.split(":", 1) for line in status])
    resident = int(said["VmRSS"].split()[0]) * 1024
    mappings = len(Path("/proc/self/maps").read_text().splitlines())
    files = len(os.listdir("/proc/self/fd"))
    return Held(cycles, resident, int(said["Threads"]), files, mappings)


def slope(seen: Sequence[Held]) -> float:
    """Bytes that a thousand cycles cost, by least squares over the later half; 0 of few."""
    late = seen[len(seen) // 2 :]
    if late[-1].cycles - late[0].cycles < FEW:
        return 0.0
    x, y = np.array([h.cycles for h in late]), np.array([h.resident for h in late])
    return float(np.polyfit(x / 1000, y, 1)[0])


def complaints(seen: Sequence[Held], limit: float = 1 << 20) -> list[str]:
    """What did not come back to where it was, in words.

    Args:
        limit: bytes that a thousand cycles may cost.
    """
    first, last = seen[0], seen[-1]
    told = []
    if slope(seen) > limit:
        told.append(f"memory grows by {slope(seen) / (1 << 20):.2f} MB per 1,000 cycles")
    for name, slack in (("threads", 0), ("descriptors", 0), ("mappings", 200)):
        before, after = getattr(first, name), getattr(last, name)
        if after > before + slack:
            told.append(f"{name}: {before} at first, {after} at last")
    return told
