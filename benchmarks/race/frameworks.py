"""Workloads beside their peers: all contestants in one process, in turns, checked first."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from tqdm import tqdm

from benchmarks.limits.limits import measured as limits_of
from benchmarks.measure.timing import race
from benchmarks.peers import ours
from benchmarks.peers.contestant import MODES, Attempt, Contestant
from benchmarks.peers.registry import FRAMEWORKS, PEERS, contestants
from benchmarks.report.records import Row
from benchmarks.workloads.catalogue import chosen
from benchmarks.workloads.problem import Array, Problem, Sizes, Workload
from tensorad import config
from tensorad.ir.analysis.sizes import bytes_of
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import placeholders

DRAWN: Final = 3
"""Further shapes per workload when a seed is given."""
ROUNDS: Final = 15


@dataclass(frozen=True)
class Plan:
    """What a run measures.

    Attributes:
        shapes: a seed for further shapes, or None for the headline sizes alone.
        seconds: of one sample, about.
        limits: measure the machine's first.
    """

    names: Sequence[str] = ()
    modes: Sequence[str] = MODES
    peers: Sequence[str] = PEERS
    rounds: int = ROUNDS
    shapes: int | None = None
    seconds: float = 0.01
    limits: bool = True


def instances(plan: Plan) -> list[tuple[Workload, int, Sizes]]:
    """(workload, number of the shape, sizes) of everything a plan measures."""
    found = []
    for w in chosen(plan.names):
        drawn = [] if plan.shapes is None else w.drawn(plan.shapes, DRAWN)
        found += [(w, n, sizes) for n, sizes in enumerate([w.sizes, *drawn])]
    return found


def run(
    plan: Plan,
    tell: Callable[[Sequence[Row]], None],
    done: Collection[tuple[str, int]] = (),
) -> None:
    """Measure, and give `tell` the rows of each instance that is not `done`."""
    found = instances(plan)
    left = [i for i in found if (i[0].name, i[1]) not in done]
    if not left:
        return
    limits = limits_of(config.current().num_threads) if plan.limits else None
    bar = tqdm(left, unit="workload", leave=False, initial=len(found) - len(left), total=len(found))
    for w, number, sizes in bar:
        bar.set_description(w.name if number == 0 else f"{w.name} {number}")
        rows = measure(w, number, sizes, plan)
        if limits is not None:
            rows = [replace(r, limit_ms=limits.row_ms(r)) for r in rows]
        tell(rows)


def measure(w: Workload, number: int, sizes: Sizes, plan: Plan) -> list[Row]:
    """The rows of one workload at one shape; who fails is told in them."""
    p = w.problem(sizes)
    threads = config.current().num_threads
    modes = [m for m in plan.modes if m != "step" or p.step]
    taking_part = {c.name: c for c in contestants(p, plan.peers, modes, threads)}
    checked = check(p, taking_part.values())
    calls = {(m, n): taking_part[n].calls[m] for m, n in sorted_by_mode(checked, modes)}
    found = race(
        calls, plan.rounds, plan.seconds, seen={key: c.seconds for key, c in checked.items()},
        rivals={n: FRAMEWORKS if n in FRAMEWORKS else (n,) for n in taking_part},
    )  # fmt: skip
    moved = compulsory_bytes(p) if taking_part[ours.NAME].calls else {}
    rows = []
    for m in modes:
        here = {n: found.times[m, n] for n in taking_part if (m, n) in found.times}
        failed = {n: c.failed[m] for n, c in taking_part.items() if m in c.failed}
        errors = {n: checked[m, n].error for n in here}
        forward, back = p.flops
        read, written = moved.get(m, (0.0, 0.0))
        rows.append(
            Row(
                w.name, w.group, dict(sizes), number, threads, m,
                ms={n: t.median_s * 1e3 for n, t in here.items()},
                least_ms={n: t.least_s * 1e3 for n, t in here.items()},
                errors=errors,
                wrong=sorted([n for n, e in errors.items() if not e <= p.tolerance]),
                flops={"fwd": forward, "grad": back}.get(m, forward + back),
                read_bytes=read, written_bytes=written,
                rounds=max([t.rounds for t in here.values()], default=0),
                foreign=found.foreign,
                first_s={n: taking_part[n].first_s[m] for n in here},
                failed=failed,
            )
        )  # fmt: skip
    return rows


@dataclass(frozen=True)
class Checked:
    """A contestant's second call in a mode: how far its results are off, and its seconds."""

    error: float
    seconds: float


def check(p: Problem, taking_part: Iterable[Contestant]) -> dict[tuple[str, str], Checked]:
    """By (mode, name), of those whose call succeeds; the others have failed."""
    expected = reference(p)
    found = {}
    for c in taking_part:
        for mode in list(c.calls):
            attempt = Attempt()
            with attempt:
                start = time.perf_counter()
                results = c.calls[mode]()
                seconds = time.perf_counter() - start
                error = largest_error(p, c.detach(results), expected[mode])
                found[mode, c.name] = Checked(error, seconds)
            if attempt.error is not None:
                c.failed[mode] = attempt.error
                del c.calls[mode]
    return found


def sorted_by_mode(
    checked: Iterable[tuple[str, str]], modes: Sequence[str]
) -> list[tuple[str, str]]:
    """In the order of the modes, the contestants of a mode one after the other."""
    return sorted(checked, key=lambda key: modes.index(key[0]))


def reference(p: Problem) -> dict[str, list[Array]]:
    """Results by mode from the NumPy formulation at float64; of a second step the loss."""
    exact = {n: a.astype(np.float64) if a.dtype.kind == "f" else a for n, a in p.inputs.items()}
    head = p.head.astype(np.float64)
    passes = p.numpy(exact, head)
    forward = [np.array(a) for a in passes.forward()]
    gradients = [np.array(a) for a in passes.gradients()]
    found = {"fwd": forward, "grad": gradients, "fb": [*forward, *gradients]}
    if p.step:
        weights = {n: exact[n] for n in p.wrt}
        found_by = dict(zip(p.wrt, gradients, strict=True))
        moved, _ = p.step.step(weights, found_by, p.step.init(weights))
        found["step"] = p.numpy({**exact, **moved}, head).forward()
    return found


def largest_error(p: Problem, results: Sequence[Array], expected: Sequence[Array]) -> float:
    """Relative to the largest element of each result; a step was taken once before.

    Where choices may flip by rounding, the allowed share of elements is left out.
    """
    worst = 0.0
    for a, e in zip(results[: len(expected)], expected, strict=True):
        if a.size != e.size:
            return float("inf")
        apart = np.abs(a.reshape(e.shape).astype(np.float64) - e).ravel()
        left_out = int(p.kinks * apart.size)
        if left_out:
            apart = np.partition(apart, apart.size - 1 - left_out)[: apart.size - left_out]
        largest = float(apart.max(initial=0.0)) / (float(np.abs(e).max(initial=0.0)) or 1.0)
        worst = max(worst, largest if np.isfinite(largest) else float("inf"))
    return worst


def compulsory_bytes(p: Problem) -> dict[str, tuple[float, float]]:
    """Bytes of the arguments that a mode needs, and of its results."""
    program = ours.Program(p)
    modes = ("fwd", "grad", "fb", "step") if p.step else ("fwd", "grad", "fb")

    def total(tensors: Sequence[Tensor]) -> float:
        return float(sum([bytes_of(t, {}) for t in tensors]))

    outputs = {m: program.outputs(m) for m in modes}
    return {m: (total(placeholders(found)), total(found)) for m, found in outputs.items()}
