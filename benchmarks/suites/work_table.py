"""The table of work: iterations and multiplications of gradients beside their bounds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tqdm import tqdm

from benchmarks.work_cases import (
    contractions,
    convolutions,
    domains,
    folds,
    pools,
    rearrangements,
)
from benchmarks.work_cases.case import ByHand, Case, Problem
from tensorad import te
from tensorad.autodiff.reverse import vjp
from tensorad.bound import bound
from tensorad.counting import Innermost, innermost, work
from tensorad.ir.expr import Const
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import op_expressions, postorder, topological_ops
from tensorad.process import forget

CASES: tuple[Case, ...] = tuple(
    [
        c
        for part in (contractions, convolutions, pools, rearrangements, domains, folds)
        for c in part.CASES
    ]
)
"""All configurations."""

FACTOR = 5
"""Multiplications allowed per multiplication of the forward program and iteration of B."""
BY_HAND = 1.05
"""Room beyond the counts of a hand-written backward."""
MEDIAN_MS, MOST_MS = 50.0, 1000.0
"""Times to differentiate and eliminate that the table shows its own beside."""
ROUNDS = 3


@dataclass(frozen=True)
class Row:
    """The counts of one gradient.

    Attributes:
        limit: the multiplications allowed.
        nodes: of the formulas of the gradient and of the forward tensors it needs.
        ms: CPU time of differentiation and elimination, nothing remembered.
    """

    name: str
    iterations: int
    bound: int
    multiplications: int
    limit: int
    innermost: Innermost
    nodes: int
    ms: float
    by_hand: ByHand | None = None

    @property
    def ratio(self) -> float:
        return self.iterations / max(1, self.bound)

    @property
    def faults(self) -> list[str]:
        """The rules this row breaks."""
        found = []
        if self.iterations > self.bound:
            found.append("iterations")
        if self.multiplications > self.limit:
            found.append("multiplications")
        if self.by_hand is not None:
            if self.iterations > BY_HAND * self.by_hand.iterations:
                found.append("iterations by hand")
            if self.multiplications > BY_HAND * self.by_hand.multiplications:
                found.append("multiplications by hand")
        return found


def head_of(p: Problem, name: str = "H") -> Tensor | None:
    """A head of the output's shape; None where it is 0-d (the head is 1)."""
    return te.placeholder(p.y.shape, p.y.dtype, name) if p.y.shape else None


def gradients(p: Problem) -> list[Tensor]:
    """The gradients of a program, given a head."""
    return vjp(p.y, p.wrt, head_of(p))


def first_gradient(p: Problem) -> Problem:
    """The first gradient as a program, to be differentiated by the inputs and its head."""
    head = head_of(p, "H1")
    y = vjp(p.y, p.wrt, head)[0]
    return Problem(y, p.wrt if head is None else (*p.wrt, head), p.sizes, p.arrays)


def made(case: Case, second: bool, grow: int = 0) -> Problem:
    """The program of a row."""
    p = case.make(grow)
    return first_gradient(p) if second else p


def cold_ms(case: Case, rounds: int = ROUNDS, second: bool = False) -> float:
    """The least CPU time to differentiate and eliminate, with nothing remembered."""
    best = float("inf")
    for _ in range(rounds):
        p = made(case, second)
        forget()
        start = time.process_time()
        gradients(p)
        best = min(best, time.process_time() - start)
    return best * 1e3


def nodes(tensors: Iterable[Tensor]) -> int:
    """How many distinct nodes the formulas behind the tensors have, constants aside."""
    found = [e for op in topological_ops(tensors) for e in postorder(*op_expressions(op))]
    return sum([not isinstance(e, Const) for e in found])


def measure(case: Case, rounds: int = ROUNDS, second: bool = False) -> Row:
    """One row."""
    p = made(case, second)
    found = gradients(p)
    done = work(found, sizes=p.sizes)
    forward = work(p.y, sizes=p.sizes)
    b = bound(p.y, p.wrt, p.sizes)
    return Row(
        name=f"{case.name}, twice" if second else case.name,
        iterations=int(str(done.iterations)),
        bound=b,
        multiplications=int(str(done.multiplications)),
        limit=FACTOR * (int(str(forward.multiplications)) + b),
        innermost=innermost(found, sizes=p.sizes),
        nodes=nodes(found),
        ms=cold_ms(case, rounds, second),
        by_hand=None if second else case.by_hand,
    )


def run(names: Sequence[str] = (), rounds: int = ROUNDS) -> list[Row]:
    """The rows whose name contains one of `names` (all without names)."""
    chosen = [
        (c, second)
        for c in CASES
        for second in ((False, True) if c.second else (False,))
        if not names or any(n in c.name for n in names)
    ]
    return [measure(c, rounds, s) for c, s in tqdm(chosen, unit="row", leave=False)]


def table(rows: Sequence[Row]) -> str:
    """The rows as aligned text, then a summary."""
    width = max(len(r.name) for r in rows)
    head = ("iter.", "B", "ratio", "mult.", "limit", "ratio", "guards", "index *", "nodes", "ms")
    lines = [" " * width + "".join(f"{h:>9}" for h in head)]
    lines.append("-" * len(lines[0]))
    for r in rows:
        cells = (
            f"{r.iterations}", f"{r.bound}", f"{r.ratio:.3f}", f"{r.multiplications}",
            f"{r.limit}", f"{r.multiplications / max(1, r.limit):.2f}", f"{r.innermost.guards}",
            f"{r.innermost.index_multiplications}", f"{r.nodes}", f"{r.ms:.1f}",
        )  # fmt: skip
        marks = "".join(f"  {f}" for f in r.faults)
        if r.by_hand is not None:
            marks = f"  by hand {r.by_hand.iterations}, {r.by_hand.multiplications}{marks}"
        lines.append(f"{r.name:<{width}}" + "".join(f"{c:>9}" for c in cells) + marks)
    return "\n".join([*lines, "", *summary(rows)])


def summary(rows: Sequence[Row]) -> list[str]:
    """How many rows keep the rules, and the times."""
    above = [r for r in rows if r.ratio > 1.0]
    worst = max(rows, key=lambda r: r.ratio)
    slowest = max(rows, key=lambda r: r.ms)
    median = statistics.median([r.ms for r in rows])
    broken = [r for r in rows if r.faults]
    times = f"median {median:.1f} ms of {MEDIAN_MS:g}, most {slowest.ms:.1f} of {MOST_MS:g}"
    return [
        f"{len(rows)} rows; {len(above)} above their bound, worst {worst.ratio:.3f} ({worst.name})",
        f"{len(broken)} rows break a rule",
        f"CPU time to differentiate and eliminate, nothing remembered: {times} ({slowest.name})",
    ]
