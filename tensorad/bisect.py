"""Which pass breaks a program: python -m tensorad.bisect script.py runs it after fewer passes."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tensorad import config
from tensorad.errors import BuildError, TensoradError
from tensorad.passes import count_again, counted, last_pass

_USAGE = (
    "usage: python -m tensorad.bisect script.py [arguments]\n"
    "The script fails (an exit code other than 0, a crash) where its results are wrong.\n"
    "It is run again and again, each time without input, and its output is not shown."
)
_SHOWN: Final = 20
"""Lines of a script's errors."""
_FAILURES: Final = (
    TensoradError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What a program raises that a wrong pass has broken."""


@dataclass(frozen=True)
class Culprit:
    """The first pass after which a program is wrong.

    Attributes:
        number: TENSORAD_BISECT: with so many passes it is wrong, with one less it is right;
            0: it is wrong without any pass that may be left out.
        name: what TENSORAD_DEBUG=ir:<name> prints; "" for number 0.
    """

    number: int
    name: str


def first_wrong_pass(is_right: Callable[[], object]) -> Culprit | None:
    """The first pass of this process that breaks a program; None where nothing is wrong.

    Args:
        is_right: builds and runs the program; whether its results are right. An exception of it
            counts as wrong. It is called again and again, and must do the same each time.
    Raises:
        BuildError: it does not.
    """

    def run(limit: int | None) -> tuple[bool, str]:
        count_again()
        with config.override(bisect=sys.maxsize if limit is None else limit):  # nothing is kept
            try:
                right = bool(is_right())
            except _FAILURES:
                right = False
        done, name = counted()
        return right, name if done == limit else ""

    return _search(run)


def _search(run: Callable[[int | None], tuple[bool, str]]) -> Culprit | None:
    """The first number of passes with which a run is wrong, told what ran last.

    Passes are tried twice as many at a time, then halved: a run of n needs no known total.
    """
    if run(None)[0]:
        return None
    if not run(0)[0]:
        return Culprit(0, "")
    right, wrong = 0, 1
    fine, name = run(wrong)
    while fine:
        if not name:
            raise BuildError(
                "the program is right after all of its passes, and wrong without TENSORAD_BISECT.",
                hint="let it do the same each time: no clock, no random seed of its own.",
            )
        right, wrong = wrong, 2 * wrong
        fine, name = run(wrong)
    while wrong - right > 1:
        middle = (right + wrong) // 2
        fine, last = run(middle)
        if fine:
            right = middle
        else:
            wrong, name = middle, last
    return Culprit(wrong, name)


@dataclass
class _Script:
    """A script with its arguments, run in processes of their own."""

    command: Sequence[str]
    told: str = ""
    """What the last run wrote to stderr."""

    def run(self, limit: int | None) -> tuple[bool, str]:
        """Whether it ends well after so many passes, and what the last one was."""
        own = {k: v for k, v in os.environ.items() if k != "TENSORAD_BISECT"}
        own["PYTHONHASHSEED"] = "0"
        if limit is not None:
            own["TENSORAD_BISECT"] = str(limit)
        done = subprocess.run(
            [sys.executable, *self.command],
            env=own,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            check=False,
        )
        self.told = done.stderr
        start = "" if limit is None else last_pass(limit, "")
        told = [line for line in self.told.splitlines() if limit and line.startswith(start)]
        name = told[-1].removeprefix(start) if told else ""
        verdict = "right" if done.returncode == 0 else f"wrong (exit code {done.returncode})"
        print(f"{'all' if limit is None else limit} passes: {verdict}", flush=True)
        return done.returncode == 0, name


def main(command: Sequence[str]) -> int:
    """The command; its exit code is 0 where a pass is found or nothing is wrong."""
    if list(command) in (["-h"], ["--help"]):
        print(_USAGE)
        return 0
    if not command or command[0].startswith("-"):
        print(_USAGE, file=sys.stderr)
        return 2
    if not os.path.exists(command[0]):
        print(f"there is no script {command[0]}.\n{_USAGE}", file=sys.stderr)
        return 2
    script = _Script(command)
    try:
        found = _search(script.run)
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    if found is None:
        print("nothing is wrong: the script ends with exit code 0 after all passes.")
        return 0
    if found.number == 0:
        print("wrong before the first pass that may be left out; TENSORAD_DEBUG=verify,check")
        print("looks at the others. What the script says:")
        print(*script.told.splitlines()[-_SHOWN:], sep="\n")
        return 1
    print(f"the first wrong pass is {found.name}, number {found.number}. To see it:")
    flags = f"TENSORAD_BISECT={found.number} TENSORAD_DEBUG=ir:{found.name}"
    print(f"{flags} python {shlex.join(command)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
