"""The garbage collector's settings around differentiation."""

from __future__ import annotations

import gc
import os
from threading import Event, Thread
from typing import Any

import pytest

import tensorad as ta
from tensorad import te
from tensorad.collector import old_objects_at_rest


def test_settings_come_back_also_after_an_error() -> None:
    x = te.placeholder((3,), "float64", "X")
    t = te.compute((3,), lambda i: x[i] * x[i], name="T")
    y = te.compute((3,), lambda i: ta.exp(t[i]), name="Y")
    before, seen = gc.get_threshold(), []

    def rule(_: Any, __: Any, head: Any) -> Any:
        seen.append(gc.get_threshold())
        return [head]

    def wrong(*_: Any) -> Any:
        raise ValueError("wrong")

    ta.vjp(y, x, 1.0, override={t: rule})
    assert seen[0][0] >= before[0] and seen[0][1] == before[1] and seen[0][2] > before[2]
    assert gc.get_threshold() == before
    with pytest.raises(ValueError, match="wrong"):
        ta.vjp(y, x, 1.0, override={t: wrong})
    assert gc.get_threshold() == before


def test_what_somebody_else_sets_meanwhile_stays() -> None:
    before = gc.get_threshold()
    try:
        with old_objects_at_rest():
            with old_objects_at_rest():
                pass
            assert gc.get_threshold()[2] > before[2]
            gc.set_threshold(900, 11, 12)
        assert gc.get_threshold() == (900, 11, 12)
        gc.set_threshold(0)
        with old_objects_at_rest():
            assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*before)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # a fork beside threads
def test_a_fork_forgets_the_calls_of_other_threads() -> None:
    before, entered, leave = gc.get_threshold(), Event(), Event()

    def other() -> None:
        with old_objects_at_rest():
            entered.set()
            leave.wait()

    thread = Thread(target=other)
    thread.start()
    entered.wait()
    try:
        child = os.fork()
        if child == 0:
            os._exit(0 if gc.get_threshold() == before else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        leave.set()
        thread.join()
    assert gc.get_threshold() == before
