"""What Python does during a call, as a profile hook sees it."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any


def seen(call: Callable[[], object]) -> list[tuple[str, str]]:
    """Events and names of functions inside of a call, in all threads.

    No garbage is collected meanwhile: what the collector calls (callbacks of weak references,
    finalisers) belongs to whatever ran earlier in the process.
    """
    found: list[tuple[str, str]] = []

    def hook(frame: FrameType, event: str, arg: Any) -> None:
        name = frame.f_code.co_qualname if event in ("call", "return") else arg.__qualname__
        found.append((event, name))

    before, collecting = sys.getprofile(), gc.isenabled()
    gc.disable()
    threading.setprofile(hook)
    sys.setprofile(hook)
    try:
        call()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
        if collecting:
            gc.enable()
    return found


def python_calls(call: Callable[[], object]) -> int:
    """How many Python functions run inside `call`."""
    return sum(event == "call" for event, _ in seen(call)) - 1  # `call` itself


def number_of_calls(call: Callable[[], object]) -> int:
    """How many Python functions run inside a long call, none of them written down."""
    count = 0

    def hook(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal count
        count += event == "call"

    before, collecting = sys.getprofile(), gc.isenabled()
    gc.disable()
    sys.setprofile(hook)
    try:
        call()
    finally:
        sys.setprofile(before)
        if collecting:
            gc.enable()
    return count
