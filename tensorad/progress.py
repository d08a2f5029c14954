"""A line on the terminal that tells how far a long derivation or build is."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tensorad import config

_DELAY_S: Final = 2.0
"""What takes less long says nothing."""
_PERIOD_S: Final = 0.25


class _Line:
    """What is being done, how much of it, and a thread that shows it after some time."""

    def __init__(self, doing: str) -> None:
        self.doing = doing
        self.total: int | None = None
        self.count = 0
        self._begun = time.time()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._show, name="tensorad progress", daemon=True)
        self._thread.start()

    def _show(self) -> None:
        if self._over.wait(_DELAY_S):
            return
        from tqdm import tqdm  # not needed before: it takes as long as a small build

        class Bar(tqdm):  # type: ignore[misc]  # no type information published
            monitor_interval = 0  # this thread is one

        with Bar(  # delayed, or it shows itself before it knows when this began
            desc=self.doing, unit="op", leave=False, file=sys.stderr, delay=1e-9
        ) as bar:
            bar.start_t = self._begun
            while True:
                bar.total, bar.n = self.total, self.count
                bar.refresh()
                if self._over.wait(_PERIOD_S):
                    return

    def end(self) -> None:
        """Take it away."""
        self._over.set()
        self._thread.join()


_line: _Line | None = None
"""The one there is: what is done inside of it is a part of it."""


def _is_wanted() -> bool:
    """Whether somebody may be looking."""
    is_main = threading.current_thread() is threading.main_thread()
    return _line is None and is_main and config.current().progress and _is_terminal(sys.stderr)


def _is_terminal(stream: object) -> bool:
    """Whether a stream is one; programs put anything with a method `write` in its place."""
    isatty = getattr(stream, "isatty", None)
    return isatty is not None and not getattr(stream, "closed", False) and bool(isatty())


@contextmanager
def progress(doing: str) -> Iterator[None]:
    """Show a line while a block runs that takes long, on a terminal."""
    global _line
    if not _is_wanted():
        yield
        return
    line = _line = _Line(doing)
    try:
        yield
    finally:
        _line = None
        line.end()


def expect(total: int) -> None:
    """Tell how many operations there are."""
    if _line is not None and _line.total is None:
        _line.total = total


def advance() -> None:
    """One more is done."""
    if _line is not None:
        _line.count = min(_line.count + 1, _line.total or _line.count + 1)
