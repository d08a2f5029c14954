"""The line that long derivations and builds show: on a terminal, after two seconds, then gone."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import building, config, te

fcntl, pty, termios = [
    pytest.importorskip(name, reason="the system has no pseudo-terminals")
    for name in ("fcntl", "pty", "termios")
]

SLOW = """
import sys, time
import tensorad as ta
from tensorad import te
from tensorad.autodiff import sweep
from tensorad.codegen.runtime import background_compiler

seconds = float(sys.argv[1])

def slowly(of, name):
    act = getattr(of, name)
    def slow(*arguments):
        time.sleep(seconds)
        return act(*arguments)
    setattr(of, name, slow)

slowly(sweep.Sweep, "_visit")
slowly(background_compiler.Compiler, "begin")
x = te.placeholder((8,), name="X")
k = te.reduce_axis(8, name="k")
y = x
for n in range(4):
    y = te.compute((8,), lambda i, y=y: te.sum(te.exp(y[k] * (i + 1)), axis=k), name=f"Y{n}")
(dx,) = ta.vjp(te.compute((), lambda: y[0]), [x])
f = ta.build([y, dx], [x], schedule=ta.Schedule(fuse=False))
"""


def shown(seconds: float, flags: Mapping[str, str]) -> str:
    """What a program writes to its terminal; every operation takes so long."""
    master, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, 70, 0, 0))
    environment = {**os.environ, "TENSORAD_DEBUG": "", **flags}
    command = [sys.executable, "-c", SLOW, str(seconds)]
    with subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment
    ) as process:
        os.close(terminal)
        text = b""
        try:
            while piece := os.read(master, 1000):
                text += piece
        except OSError:  # the other end is closed
            pass
        assert process.wait(60) == 0, text.decode()
    os.close(master)
    return text.decode()


def on_screen(text: str) -> str:
    """What is left of one line."""
    line: list[str] = []
    at = 0
    for c in text:
        if c == "\r":
            at = 0
        else:
            line[at : at + 1] = [c]
            at += 1
    return "".join(line).rstrip()


@pytest.mark.slow
def test_it_comes_after_some_time_and_goes() -> None:
    text = shown(0.6, {})
    frames = [f.strip() for f in text.split("\r") if f.strip()]
    derived = [f for f in frames if f.startswith("differentiating:")]
    built = [f for f in frames if f.startswith("building:")]
    assert derived and built and len(derived) + len(built) == len(frames)
    count = re.fullmatch(r"differentiating: +\d+%\|.*\| (\d)/6 \[00:.*op.*\]", derived[0])
    assert count is not None and 1 <= int(count[1]) <= 4, "two seconds have gone by"
    assert on_screen(text) == "", "nothing is left"


@pytest.mark.slow
def test_short_builds_say_nothing() -> None:
    assert shown(0.0, {}) == ""


class Written:
    """What programs put in the place of the standard error, at the least."""

    def write(self, text: str) -> None:
        raise AssertionError(text)


def test_streams_that_are_no_files_get_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x = te.placeholder((2,), name="X")
    for stream in (Written(), None):
        monkeypatch.setattr(sys, "stderr", stream)
        ta.build(ta.vjp(x * x, [x], 1.0), [x])


@pytest.mark.slow
def test_a_flag_turns_it_off() -> None:
    assert shown(0.45, {"TENSORAD_PROGRESS": "0"}) == ""


@pytest.mark.slow
def test_files_get_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SLOW, "0.45"], capture_output=True, text=True, check=True,
        env={**os.environ, "TENSORAD_DEBUG": ""},
    )  # fmt: skip
    assert done.stdout == done.stderr == ""


def test_what_is_inside_of_loops_is_expected_too(monkeypatch: pytest.MonkeyPatch) -> None:
    expected: list[int] = []
    done: list[None] = []
    monkeypatch.setattr(building, "expect", expected.append)
    monkeypatch.setattr(building, "advance", lambda: done.append(None))

    @ta.function
    def f(x: Any) -> Any:
        return ta.for_loop(0, 3, lambda i, y: (ta.exp(y) @ y) @ y, x).sum()

    with config.override(debug=()):  # with checks, kernels come after them
        f(np.eye(3))
    (total,) = expected
    assert 3 <= len(done) <= total, "two products and a sum"
