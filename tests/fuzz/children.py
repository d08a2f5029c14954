"""Cases in a process of their own, so that one which crashes or hangs is a find like others."""

from __future__ import annotations

import multiprocessing
import re
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import NamedTuple, Self

from tests.fuzz.case import Fuzzer
from tests.fuzz.choices import Drawn, Repeated
from tests.random.generators import Choices

PATIENCE = 240.0
"""Seconds that one case may take."""


class Told(NamedTuple):
    """What became of one case.

    Attributes:
        failure: what is wrong, in a few words that a smaller case has too; "" if nothing is.
        message: all that was said.
        choices: what the case was made of, if not of its seed.
    """

    failure: str
    message: str
    choices: Sequence[int] | None


class Child:
    """A process that checks one case after another; a new one behind a case that took it along."""

    def __init__(self, fuzzer: Fuzzer, patience: float = PATIENCE) -> None:
        self.fuzzer = fuzzer
        self.patience = patience
        self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _start(self) -> None:
        self._here, there = multiprocessing.Pipe()
        context = multiprocessing.get_context("fork")
        self._process = context.Process(target=_serve, args=(self.fuzzer, there))
        self._process.start()
        there.close()

    def _end(self) -> None:
        self._process.kill()
        self._process.join()
        self._here.close()

    def ask(self, seed: int, choices: Sequence[int] | None = None) -> Told:
        """What becomes of a seed's case, or of one of other choices."""
        self._here.send((seed, choices))
        if not self._here.poll(self.patience):
            told = Told("hang", f"more than {self.patience:.0f} s", choices)
        else:
            try:
                answer: Told = self._here.recv()
            except EOFError:
                self._process.join()
                words = f"exit {self._process.exitcode}"
                told = Told(words, words, choices)
            else:
                return answer
        self._end()
        self._start()
        return told


def _serve(fuzzer: Fuzzer, there: Connection) -> None:
    while True:
        seed, choices = there.recv()
        source = Drawn(seed) if choices is None else Repeated(choices)
        failure = message = ""
        try:
            fuzzer.check(fuzzer.make(Choices(source), seed))
        except Exception as e:  # noqa: BLE001  # any failure is told
            failure, message = _words(e), f"{type(e).__name__}: {e}"
        there.send(Told(failure, message, choices))


def _words(e: Exception) -> str:
    """The exception's name, the function it came from, and the first word of its message."""
    where = traceback.extract_tb(e.__traceback__)[-1].name
    first = re.split(r"[^A-Za-z ]", str(e), maxsplit=1)[0].split()
    return " ".join([type(e).__name__, where, *first[:2]])
