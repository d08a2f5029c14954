"""Growth: time per point over four decades of size, with fixed and with symbolic sizes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final

import numpy as np
from tqdm import tqdm

from benchmarks.limits.limits import streams_like
from benchmarks.measure.timing import Call, race
from benchmarks.report.figures import Figures, Suite, at_most, those
from benchmarks.report.verdicts import Verdict
from benchmarks.workloads.problem import Draw
from tensorad import te, topi
from tensorad.autodiff import vjp
from tensorad.building import build
from tensorad.ir.tensor import Tensor

DECADES: Final = (1, 10, 100, 1000, 10000)
LEAST_S: Final = 1e-5
"""Shorter calls are not judged."""

Formula = Callable[[Any], tuple[list[Tensor], list[Tensor]]]
"""n -> (outputs, inputs); n may be symbolic, and is the first extent of every input."""


def _tanh(n: Any) -> tuple[list[Tensor], list[Tensor]]:
    x = te.placeholder((n,), name="X")
    return [te.compute((n,), lambda i: te.tanh(x[i]), name="Y")], [x]


def _sum(n: Any) -> tuple[list[Tensor], list[Tensor]]:
    x, i = te.placeholder((n,), name="X"), te.reduce_axis(n, name="i")
    return [te.compute((), lambda: te.sum(x[i], axis=i), name="Y")], [x]


def _softmax(n: Any) -> tuple[list[Tensor], list[Tensor]]:
    x, h = te.placeholder((n, 100), name="X"), te.placeholder((n, 100), name="H")
    y = topi.nn.softmax(x)
    return [y, *vjp(y, [x], h)], [x, h]


def _dense(n: Any) -> tuple[list[Tensor], list[Tensor]]:
    x, w = te.placeholder((n, 64), name="X"), te.const(np.full((64, 64), 0.125, np.float32))
    return [topi.nn.dense(x, w)], [x]


def _convolution(n: Any) -> tuple[list[Tensor], list[Tensor]]:
    x, w = te.placeholder((n, 4, 16, 16), name="X"), te.const(np.ones((8, 4, 3, 3), np.float32))
    return [topi.nn.conv2d(x, w, 1, 1)], [x]


def _pool(n: Any) -> tuple[list[Tensor], list[Tensor]]:
    x, h = te.placeholder((n, 32, 32), name="X"), te.placeholder((n, 16, 16), name="H")
    p, q = te.reduce_axis(2, name="p"), te.reduce_axis(2, name="q")
    y = te.compute(
        (n, 16, 16), lambda i, r, c: te.max(x[i, 2 * r + p, 2 * c + q], axis=[p, q]), name="Y"
    )
    return list(vjp(y, [x], h)), [x, h]


def _scan(n: Any) -> tuple[list[Tensor], list[Tensor]]:
    x = te.placeholder((n, 100), name="X")
    return [te.scan(x, 1, "sum", name="Y")], [x]


CASES: Final[dict[str, tuple[Formula, int, int]]] = {
    "tanh": (_tanh, 4000, 1),
    "sum": (_sum, 4000, 1),
    "softmax and gradient": (_softmax, 20, 100),
    "dense 64 x 64": (_dense, 10, 64),
    "convolution 4 to 8 channels": (_convolution, 1, 1024),
    "max pool gradient": (_pool, 2, 1024),
    "prefix sums": (_scan, 20, 100),
}
"""(formula, its smallest n, points of each)."""


def measure(
    names: Sequence[str], rounds: int, threads: int, done: Collection[str] = ()
) -> Iterator[Figures]:
    """Nanoseconds per point at every size, all sizes in turns."""
    chosen = [n for n in CASES if not names or any(part in n for part in names)]
    for n in tqdm([n for n in chosen if n not in done], leave=False):
        yield _figures(n, rounds, threads)


def _figures(name: str, rounds: int, threads: int) -> Figures:
    make, least, points = CASES[name]
    sizes = [least * d for d in DECADES]
    calls: dict[tuple[str, str], Call] = {}  # each a mode of its own: none is a rival
    scale: dict[str, float] = {}
    for n in sizes:
        calls[f"{n} fixed", ""], moved = _call(make(n), n)
        calls[f"{n} symbolic", ""] = _call(make(te.size("n")), n)[0]
        for k, stream in enumerate(streams_like(*moved, threads)):
            calls[f"{n} stream {k}", ""] = stream.seconds
            scale[f"{n} stream {k}"] = sum(moved) / stream.size_bytes
    raced = race(calls, rounds)
    times = {mode: t.median_s * scale.get(mode, 1.0) for (mode, _), t in raced.times.items()}
    fixed = {n: times[f"{n} fixed"] for n in sizes}
    moving = {n: min([times[k] for k in scale if k.startswith(f"{n} ")]) for n in sizes}
    values = {"least points": float(least * points)}
    for d, n in zip(DECADES, sizes, strict=True):
        values[f"x{d} ns"] = fixed[n] / (n * points) * 1e9
    values["stream of the largest ns"] = moving[sizes[-1]] / (sizes[-1] * points) * 1e9
    judged = [n for n in sizes if fixed[n] >= LEAST_S]
    per_point = {n: fixed[n] / n for n in judged}
    best = min(per_point.values())
    values["spread"] = max(per_point.values()) / best
    values["beyond memory"] = max([s / max(best, moving[n] / n) for n, s in per_point.items()])
    values["symbolic / fixed"] = max([times[f"{n} symbolic"] / fixed[n] for n in judged])
    return Figures(name, threads, values, foreign=raced.foreign)


def _call(made: tuple[list[Tensor], list[Tensor]], n: int) -> tuple[Call, tuple[float, float]]:
    """A call at size n, and the bytes it reads and writes."""
    outputs, inputs = made
    f, d = build(outputs, inputs), Draw()
    arrays = [d.normal(n, *[int(k) for k in t.shape[1:]]) for t in inputs]
    results = f(*arrays)
    first = results if isinstance(results, list) else [results]
    out = [np.empty_like(a) for a in first]
    target: Any = out[0] if len(out) == 1 else out
    moved = float(sum([a.nbytes for a in arrays])), float(sum([a.nbytes for a in out]))
    return lambda: f(*arrays, out=target), moved


def judge(rows: Sequence[Figures]) -> list[Verdict]:
    """Time per point within 1.3; symbolic sizes within 1.2 of fixed ones.

    A formula that does little with each byte slows down where its arrays leave the caches. So
    growth is judged twice: as it is, and beyond both the least time per point and that of a
    stream of as many bytes of the same size.
    """
    return those(
        [
            at_most(rows, "time per point, largest / least above 10 us", "spread", 1.3),
            at_most(rows, "time per point beyond a stream's at that size", "beyond memory", 1.3),
            at_most(rows, "symbolic sizes, time / that of fixed ones", "symbolic / fixed", 1.2),
        ]
    )


SUITE: Final = Suite(
    "scaling", "time per point over four decades of size, fixed and symbolic", measure, judge,
    threads=(1,),
)  # fmt: skip
