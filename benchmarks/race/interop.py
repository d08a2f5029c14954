"""Operators inside of PyTorch and of JAX, beside the same formulas written there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from benchmarks.measure.alone import peak_of
from benchmarks.measure.timing import race
from benchmarks.peers.registry import missing
from benchmarks.race import interop_calls as calls
from benchmarks.race.interop_calls import FEW, MANY, SIDE, SOFTMAX, Pair
from benchmarks.report.figures import Figures, Suite, at_most, those
from benchmarks.report.verdicts import Verdict

PEERS: Final = ("torch", "jax")
RATIO, ASKED = "ours / theirs", "asked"
MEMORY: Final = "torch, 4 million elements, memory"
"""What a call takes beside its arguments, and the bytes of its result."""


class Row(NamedTuple):
    """A row.

    Attributes:
        make: the calls; `asked`: the most that ours may take of theirs, None where it is shown
            alone; `package`: which has to be there.
    """

    make: Callable[[], Pair]
    asked: float | None
    package: str | None


def _rows() -> dict[str, Row]:
    few, many = calls.elements(FEW), calls.elements(MANY)
    softmax, min_plus = calls.softmax(*SOFTMAX), calls.min_plus(SIDE)
    there, lowest = calls.elements_there, calls.min_plus_there
    torch, jax = calls.in_torch_with_gradients, calls.in_jax_with_gradients

    def made(make: Callable[..., Pair], *given: Any) -> Callable[[], Pair]:
        return partial(make, *given)

    return {
        "torch, no gradient": Row(
            made(calls.in_torch, "bench_few", few, there), 1.3, "torch"
        ),
        "torch, forward + backward": Row(
            made(torch, "bench_few_grad", few, there), 1.1, "torch"
        ),
        "jax, inside jit": Row(made(calls.in_jax, "bench_few", few, there), 1.25, "jax"),
        "f(numpy)": Row(made(calls.by_numpy, few), None, None),
        "torch, 4 million elements": Row(
            made(calls.in_torch_beside_the_function, "bench_many", many), 1.05, "torch"
        ),
        MEMORY: Row(
            made(calls.in_torch_beside_the_function, "bench_memory", many), 1.05, "torch"
        ),
        "torch, softmax, forward + backward": Row(
            made(torch, "bench_softmax", softmax, calls.softmax_in_torch), 1.0, "torch"
        ),
        "jax, softmax, forward + backward": Row(
            made(jax, "bench_softmax", softmax, calls.softmax_in_jax), None, "jax"
        ),
        "torch, min-plus, forward + backward": Row(
            made(torch, "bench_min_plus", min_plus, lowest), 1.0, "torch"
        ),
        "jax, min-plus, forward + backward": Row(
            made(jax, "bench_min_plus", min_plus, lowest), None, "jax"
        ),
    }  # fmt: skip


def measure(
    names: Sequence[str], rounds: int, threads: int, done: Collection[str] = ()
) -> Iterator[Figures]:
    """Microseconds of both, all rows in the same rounds; results are compared before.

    Raises:
        ArithmeticError: they differ.
    """
    absent = missing(PEERS)
    rows = {
        n: r
        for n, r in _rows().items()
        if r.package not in absent and n not in done and (not names or any(m in n for m in names))
    }
    if "torch" in {r.package for r in rows.values()}:
        import torch

        torch.set_num_threads(threads)
    pairs = {n: r.make() for n, r in rows.items()}
    for n, pair in pairs.items():
        check(n, pair)
    if MEMORY in pairs:
        yield Figures(MEMORY, threads, _memory(pairs.pop(MEMORY), rows[MEMORY]))
    if not pairs:
        return
    both = [((n, "ours"), p.ours) for n, p in pairs.items()]
    both += [((n, "theirs"), p.theirs) for n, p in pairs.items()]
    raced = race(dict(both), rounds)
    for n in pairs:
        ours, theirs = (raced.times[n, who].median_s * 1e6 for who in ("ours", "theirs"))
        values = {"ours us": ours, "theirs us": theirs} | _judged(ours, theirs, rows[n])
        yield Figures(n, threads, values, foreign=raced.foreign)


def _judged(ours: float, theirs: float, row: Row) -> dict[str, float]:
    return {RATIO: ours / theirs} | ({} if row.asked is None else {ASKED: row.asked})


def _memory(pair: Pair, row: Row) -> dict[str, float]:
    """Megabytes: nothing is copied where a call takes what its result takes."""
    took, result = peak_of(pair.ours), _arrays(pair.theirs())[0].nbytes
    return {"ours MB": took / 1e6, "theirs MB": result / 1e6} | _judged(took, result, row)


def check(name: str, pair: Pair) -> None:
    """Both have the same results.

    Raises:
        ArithmeticError: they have not.
    """
    for a, b in zip(_arrays(pair.ours()), _arrays(pair.theirs()), strict=True):
        if a.shape != b.shape or not np.allclose(a, b, rtol=1e-4, atol=1e-5):
            raise ArithmeticError(f"{name}: results differ from those of the other package")


def _arrays(found: Any) -> list[Any]:
    return [np.asarray(a) for a in (found if isinstance(found, tuple) else (found,))]


def judge(rows: Sequence[Figures]) -> list[Verdict]:
    """The most that each row may take of what the other takes."""
    asked = [r for r in rows if ASKED in r.values]
    return those([at_most([r], f"{r.title}, {RATIO}", RATIO, r.values[ASKED]) for r in asked])


SUITE: Final = Suite(
    "interop",
    "operators inside of PyTorch and JAX beside the same formulas written there",
    measure,
    judge,
    peers=PEERS,
    processes=5,
)
