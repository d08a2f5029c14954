"""What a call costs: 16 elements, three arrays, all checks included."""

from __future__ import annotations

import importlib.util
import statistics
import timeit
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

import numpy as np

from benchmarks.report.figures import Figures, Suite, at_most, those
from benchmarks.report.verdicts import Verdict
from tensorad import config, te
from tensorad.building import build

ELEMENTS: Final = 16
CALLS: Final = 20_000
SYMBOLIC: Final = "tensorad, symbolic size"


def measure(
    names: Sequence[str], rounds: int, threads: int, done: Collection[str] = ()
) -> Iterator[Figures]:
    """Nanoseconds of every kind of call, in turns."""
    arrays = {n: np.full(ELEMENTS, 1.5, np.float32) for n in "abcd"}
    statements = _statements(arrays)
    chosen = {n: s for n, s in statements.items() if not names or any(p in n for p in names)}
    timers = {
        n: timeit.Timer(text, globals={**arrays, **known}) for n, (text, known) in chosen.items()
    }
    times: dict[str, list[float]] = {n: [] for n in timers}
    for timer in timers.values():
        timer.timeit(100)
    for _ in range(rounds):
        for n, timer in timers.items():
            count = CALLS if "jax" not in n else CALLS // 10
            times[n].append(timer.timeit(count) / count)
    for n, t in [(n, t) for n, t in times.items() if n not in done]:
        yield Figures(n, threads, {"us": statistics.median(t) * 1e6})


def _statements(arrays: dict[str, np.ndarray]) -> dict[str, tuple[str, dict[str, Any]]]:
    """(statement, names) by contestant; every one adds a and b."""
    f = _compiled(ELEMENTS, 2)
    with config.override(native_calls=False):
        portable = _compiled(ELEMENTS, 2)
    found: dict[str, tuple[str, dict[str, Any]]] = {
        "tensorad": ("f(a, b, out=c)", {"f": f}),
        "tensorad, result allocated": ("f(a, b)", {"f": f}),
        "tensorad, three inputs": ("f(a, b, d, out=c)", {"f": _compiled(ELEMENTS, 3)}),
        SYMBOLIC: ("f(a, b, out=c)", {"f": _compiled(te.size("n"), 2)}),
        "tensorad, portable": ("f(a, b, out=c)", {"f": portable}),
        "numpy": ("f(a, b, out=c)", {"f": np.add}),
        "numpy, result allocated": ("f(a, b)", {"f": np.add}),
    }
    if importlib.util.find_spec("numba") is not None:
        from benchmarks.workloads.loops.by_numba import adder

        found["numba"] = "f(a, b, c)", {"f": adder()}
    if importlib.util.find_spec("torch") is not None:
        import torch

        a, b, c = (torch.from_numpy(arrays[n]) for n in "abc")
        found["torch"] = "f(a, b, out=c)", {"f": torch.add, "a": a, "b": b, "c": c}
    if importlib.util.find_spec("jax") is not None:
        import jax

        a, b = (jax.numpy.asarray(arrays[n]) for n in "ab")
        run = jax.jit(lambda a, b: a + b)
        found["jax"] = "f(a, b).block_until_ready()", {"f": run, "a": a, "b": b}
    return found


def _compiled(n: Any, inputs: int) -> Any:
    given = [te.placeholder((n,), name=f"X{k}") for k in range(inputs)]
    y = te.compute((n,), lambda i: sum([x[i] for x in given[1:]], given[0][i]), name="Y")
    return build(y, given)


def judge(rows: Sequence[Figures]) -> list[Verdict]:
    """At most half a microsecond, and below NumPy and numba; 3 on the portable path."""
    by_name = {r.name: r for r in rows}
    ours = [by_name[n] for n in ("tensorad", SYMBOLIC) if n in by_name]
    portable = [by_name[n] for n in ("tensorad, portable",) if n in by_name]
    found = [
        at_most(ours, "a call, us", "us", 0.5),
        at_most(portable, "a call on the portable path, us", "us", 3.0),
    ]
    for peer in ("numpy", "numba"):
        if peer in by_name and "tensorad" in by_name:
            limit = by_name[peer].values["us"]
            found.append(at_most([by_name["tensorad"]], f"a call below {peer}'s, us", "us", limit))
    return those(found)


SUITE: Final = Suite(
    "calls",
    "calls with 16 elements and three arrays",
    measure,
    judge,
    threads=(1,),
    peers=("torch", "jax", "numba"),
)
