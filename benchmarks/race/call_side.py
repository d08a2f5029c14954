"""One side of a comparison of calls: a process that times them when it is told to.

Requests and answers are those of `benchmarks/guard_side.py`. It uses public names alone, which
other commits have, too: a form that one of them does not know is told as failed.
"""

from __future__ import annotations

import json
import sys
from timeit import Timer
from typing import Any, Final

import numpy as np

import tensorad as ta
from tensorad.errors import UserError

ELEMENTS: Final = 16
FORMS: Final = ("f(x)", "f(x, out=y)", "g(p, n=16)", "f(X=x)")
"""A result allocated, or given; a size, and an input, as keywords."""


def main() -> int:
    """Answer until the input ends."""
    known = functions()
    timers: dict[str, Timer] = {}
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, Any]
        if "prepare" in request:
            timers, failed = _prepared(known)
            seconds = {name: min(t.repeat(5, 1000)) / 1000 for name, t in timers.items()}
            answer = {"calls": seconds, "failed": failed}
        else:
            answer = {"seconds": timers[request["sample"]].timeit(request["calls"])}
            answer["seconds"] /= request["calls"]
        print(json.dumps(answer), flush=True)
    return 0


def functions() -> dict[str, object]:
    """What the forms call, and their arguments."""
    x = ta.placeholder((ELEMENTS,), name="X")
    p, n = ta.placeholder((), name="P"), ta.size("n")
    y = ta.compute((ELEMENTS,), lambda i: x[i] + x[i], name="Y")
    row = ta.compute((n,), lambda i: p[()] + p[()], name="row")
    array = np.full(ELEMENTS, 1.5, np.float32)
    return {
        "f": ta.build(y, [x]),
        "g": ta.build(row, [p]),
        "x": array,
        "y": np.empty_like(array),
        "p": np.array(1.5, np.float32),
    }


def _prepared(known: dict[str, object]) -> tuple[dict[str, Timer], dict[str, str]]:
    """Timers of the forms, and the errors of those that this tensorad refuses."""
    timers: dict[str, Timer] = {}
    failed: dict[str, str] = {}
    for form in FORMS:
        timer = Timer(form, globals=known)
        try:
            timer.timeit(100)
        except (UserError, TypeError) as error:
            failed[form] = f"{type(error).__name__}: {error}".splitlines()[0]
        else:
            timers[form] = timer
    return timers, failed


if __name__ == "__main__":
    raise SystemExit(main())
