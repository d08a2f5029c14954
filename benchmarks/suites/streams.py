"""Kernels that mostly move bytes, beside streams of as many bytes in the same rounds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any, Final

from tqdm import tqdm

from benchmarks.limits.limits import streams_like
from benchmarks.measure.timing import Call, race
from benchmarks.peers.ours import Program, allocated
from benchmarks.report.figures import Figures, Suite, asked, those
from benchmarks.report.verdicts import Verdict
from benchmarks.workloads.catalogue import WORKLOADS
from benchmarks.workloads.problem import Array, Draw
from tensorad import te
from tensorad.building import build
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import placeholders

SIDE: Final = 4096
WORKLOAD_MODES: Final = (
    ("avgpool_big", "fwd"), ("avgpool_big", "grad"), ("maxpool_big", "fwd"),
    ("maxpool_big", "grad"), ("softmax_big", "fwd"), ("softmax_big", "grad"),
    ("layernorm", "fwd"), ("layernorm", "grad"),
)  # fmt: skip

Made = tuple[list[Tensor], list[Tensor], list[Array]]
"""Outputs, arguments and their arrays."""


def _add() -> Made:
    a, b = (te.placeholder((SIDE, SIDE), name=n) for n in "AB")
    d = Draw()
    y = te.compute((SIDE, SIDE), lambda i, j: a[i, j] + b[i, j], name="Y")
    return [y], [a, b], [d.normal(SIDE, SIDE) for _ in range(2)]


def _transpose() -> Made:
    a = te.placeholder((SIDE, SIDE), name="A")
    y = te.compute((SIDE, SIDE), lambda i, j: a[j, i], name="Y")
    return [y], [a], [Draw().normal(SIDE, SIDE)]


def _broadcast() -> Made:
    """The gradient of the sums of rows: each head repeated along its row."""
    h = te.placeholder((SIDE,), name="H")
    y = te.compute((SIDE, SIDE), lambda i, j: h[i], name="Y")
    return [y], [h], [Draw().normal(SIDE)]


def _column_sums() -> Made:
    """The gradient of a bias."""
    h, i = te.placeholder((SIDE, SIDE), name="H"), te.reduce_axis(SIDE, name="i")
    y = te.compute((SIDE,), lambda j: te.sum(h[i, j], axis=i), name="Y")
    return [y], [h], [Draw().normal(SIDE, SIDE)]


def _workload(name: str, mode: str) -> Made:
    program = Program(WORKLOADS[name].problem())
    return program.outputs(mode), program.arguments(mode), program.arrays(mode)


def _cases() -> dict[str, Callable[[], Made]]:
    found: dict[str, Callable[[], Made]] = {
        "add": _add, "transpose": _transpose,
        "broadcast gradient": _broadcast, "bias gradient": _column_sums,
    }  # fmt: skip
    for name, mode in WORKLOAD_MODES:
        found[f"{name} {mode}"] = partial(_workload, name, mode)
    return found


def measure(
    names: Sequence[str], rounds: int, threads: int, done: Collection[str] = ()
) -> Iterator[Figures]:
    """Every kernel whose name contains one of the parts."""
    chosen = {n: c for n, c in _cases().items() if not names or any(p in n for p in names)}
    for n in tqdm([n for n in chosen if n not in done], unit="kernel", leave=False):
        yield _figures(n, chosen[n](), rounds, threads)


def _figures(name: str, made: Made, rounds: int, threads: int) -> Figures:
    outputs, arguments, arrays = made
    read, written = _size(placeholders(outputs)), _size(outputs)
    f, out = build(outputs, arguments), allocated(outputs)
    target: Any = out[0] if len(out) == 1 else out
    streams = streams_like(read, written, threads)
    calls: dict[tuple[str, str], Call] = {("ours", "ours"): lambda: f(*arrays, out=target)}
    calls |= {("limit", str(n)): s.seconds for n, s in enumerate(streams)}
    raced = race(calls, rounds)
    times = raced.times
    ours = times["ours", "ours"].median_s
    rates = [
        s.size_bytes * s.passes / times["limit", str(n)].median_s for n, s in enumerate(streams)
    ]
    reached = (read + written) / ours
    values = {
        "ms": ours * 1e3, "MB read": read / 1e6, "MB written": written / 1e6,
        "GB/s": reached / 1e9, "stream GB/s": max(rates) / 1e9, "share": reached / max(rates),
    }  # fmt: skip
    return Figures(name, threads, values, foreign=raced.foreign)


def _size(tensors: Sequence[Tensor]) -> float:
    return float(sum([a.nbytes for a in allocated(tensors)]))


def judge(rows: Sequence[Figures]) -> list[Verdict]:
    """What they are asked."""
    return those([asked(rows, "memory-bound kernels, share of the bandwidth", "share", 0.8)])


SUITE: Final = Suite(
    "streams", "memory-bound kernels beside the bandwidth of the same bytes", measure, judge
)
