"""Importing the package, building and calling leave the settings of the process as they were."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STATE = """
import gc, locale, os, signal, sys, threading, warnings
import numpy as np

def state():
    return {
        "switch interval": sys.getswitchinterval(),
        "collector": (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), gc.callbacks[:]),
        "signals": [(s, signal.getsignal(s)) for s in signal.valid_signals()],
        "warnings": warnings.filters[:],
        "numpy": (np.geterr(), np.getbufsize(), repr(np.get_printoptions())),
        "limits": (sys.getrecursionlimit(), threading.stack_size(), sys.getdlopenflags()),
        "locale": locale.setlocale(locale.LC_ALL),
        "environment": dict(os.environ),
        "hooks": (sys.excepthook, sys.unraisablehook, threading.excepthook, sys.displayhook),
        "folder": os.getcwd(),
    }

def check(when):
    now = state()
    changed = {k: (before[k], now[k]) for k in before if before[k] != now[k]}
    assert not changed, (when, changed)

before = state()
"""


def run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", STATE + code],
        capture_output=True, text=True, cwd=ROOT, timeout=120, check=True,
    ).stdout  # fmt: skip


@pytest.mark.slow
def test_import_build_and_calls_leave_all_settings() -> None:
    run("""
import tensorad as ta
check("import")
def job(n):
    x = ta.placeholder((n, 40), name="X")
    w = ta.placeholder((40, 30), name="W")
    y = ta.topi.nn.softmax(ta.topi.matmul(x, w))
    f = ta.build([y, *ta.vjp(y, [x, w], ta.topi.exp(y))], [x, w])
    f(np.ones((n, 40), np.float32), np.ones((40, 30), np.float32))
job(20)
check("build")
threads = [threading.Thread(target=job, args=(n,)) for n in range(21, 27)]
for t in threads: t.start()
for t in threads: t.join()
check("builds of several threads")
""")


@pytest.mark.slow
def test_settings_come_back_after_a_build_that_fails() -> None:
    run("""
import tensorad as ta
from tensorad.codegen.runtime import background_compiler
seen = []
def fail(jobs):
    seen.append((sys.getswitchinterval(), gc.get_threshold()))
    raise ValueError("wrong")
background_compiler.load_together = fail
x = ta.placeholder((20,), name="X")
try:
    ta.build(ta.topi.exp(x), [x])
except ValueError:
    pass
assert seen and seen[0][1] != before["collector"][1]
check("error")
""")


def test_what_others_set_during_a_build_stays() -> None:
    run("""
from tensorad.process import Setting
value = [1, 2]
s = Setting(lambda: tuple(value), lambda t: value.__setitem__(slice(None), t), lambda t: (9, 9))
with s.changed():
    with s.changed():
        assert value == [9, 9]
    assert value == [9, 9]
    value[1] = 5
assert value == [1, 5]
""")
