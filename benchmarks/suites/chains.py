"""Long programs: time for each equal step to derive and to build, as chains grow; all that is done
with a program of 10,000 bindings in 400 functions; sizes of its derivatives."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from tqdm import tqdm

import tensorad as ta
from benchmarks.peers.chain_peers import compile_seconds
from benchmarks.peers.registry import missing
from benchmarks.report.figures import Figures, Suite, at_most, those
from benchmarks.report.verdicts import Verdict
from benchmarks.workloads.chain_programs import PROGRAMS
from benchmarks.workloads.large_programs import TRANSFORMS, closures, of_next_order, size, traced
from tensorad.autodiff import vjp
from tensorad.building import build
from tensorad.process import forget

LENGTHS: Final = (50, 100, 200, 400)
PEERS: Final = ("jax",)
PEER_STEPS: Final = 50
"""JAX takes a program without loops longer the longer it is."""
MOST_GROWTH: Final = 1.3
GROWTH: Final = "most / least"
TRANSFORMED: Final = "functions"
FUNCTIONS: Final = 400
MOST_SECONDS: Final = 60.0
SECONDS: Final = "all s"
ORDERS: Final = "orders"
DERIVED: Final = 8
"""Functions that are derived four times."""
MOST_SIZE: Final = 40.0
SIZE: Final = "size of order 4 / of order 1"


def measure(
    names: Sequence[str], rounds: int, threads: int, done: Collection[str] = ()
) -> Iterator[Figures]:
    """Milliseconds of CPU time for each step; nothing is remembered of shorter chains but machine
    code, which one of the shortest has made before."""
    every = (*PROGRAMS, *OTHERS)
    wanted = [n for n in every if n not in done and (not names or any(m in n for m in names))]
    chosen = [n for n in wanted if n in PROGRAMS]
    peers = not missing(PEERS)
    for name in tqdm(chosen, unit="chain", leave=False):
        _seconds(name, LENGTHS[0])
        values: dict[str, float] = {}
        whole = []
        for steps in LENGTHS:
            forget()
            derive, made = _seconds(name, steps)
            values[f"derive {steps} ms"] = derive / steps * 1e3
            values[f"build {steps} ms"] = made / steps * 1e3
            whole.append((derive + made) / steps)
        values[GROWTH] = max(whole) / min(whole)
        if peers:
            for kind, seconds in compile_seconds(name, PEER_STEPS).items():
                values[f"jax {kind} ms"] = seconds / PEER_STEPS * 1e3
        yield Figures(name, threads, values)
    for name in tqdm([n for n in wanted if n in OTHERS], unit="program", leave=False):
        yield Figures(name, threads, OTHERS[name]())


def _transformed() -> dict[str, float]:
    """Seconds of CPU time for each transform; the trace that each begins with is counted once."""
    spent: dict[str, float] = {}
    for transform in TRANSFORMS.values():
        transform(closures(4))  # what is done once
    for name, transform in TRANSFORMS.items():
        forget()
        start = time.process_time()
        transform(closures(FUNCTIONS))
        spent[name] = time.process_time() - start
    alone = {n: s if n == "trace" else max(0.0, s - spent["trace"]) for n, s in spent.items()}
    return {**{f"{n} s": s for n, s in alone.items()}, SECONDS: sum(alone.values())}


def _orders() -> dict[str, float]:
    """Nodes of the gradients of four orders, and seconds to derive the last."""
    f = closures(DERIVED)
    values: dict[str, float] = {}
    for order in range(1, 5):
        start = time.process_time()
        values[f"size {order}"] = size(traced(ta.grad(f)))
        values["last order s"] = time.process_time() - start
        f = of_next_order(f)
    return {**values, SIZE: values["size 4"] / values["size 1"]}


OTHERS: Final[dict[str, Callable[[], dict[str, float]]]] = {
    TRANSFORMED: _transformed,
    ORDERS: _orders,
}


def _seconds(name: str, steps: int) -> tuple[float, float]:
    """(to derive, to build the value and its gradients)."""
    y, inputs = PROGRAMS[name](steps)
    start = time.process_time()
    gradients = vjp(y, inputs)
    middle = time.process_time()
    build([y, *gradients], inputs)
    return middle - start, time.process_time() - middle


def judge(rows: Sequence[Figures]) -> list[Verdict]:
    """Time for each step is the same for any length."""
    return those(
        [
            at_most(rows, "a step of a longer chain / of a shorter one", GROWTH, MOST_GROWTH),
            at_most(rows, "seconds of all transforms", SECONDS, MOST_SECONDS),
            at_most(rows, "size of the fourth derivative / of the first", SIZE, MOST_SIZE),
        ]
    )


SUITE: Final = Suite(
    "chains", "time to derive and build programs of 50 to 400 equal steps", measure, judge,
    threads=(1,), peers=PEERS,
)  # fmt: skip
