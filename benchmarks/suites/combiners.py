"""The table of combiners: passes over the points that derivatives of a fold make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.workloads.combiner_cases import CASES, Case, Program, program
from tensorad import te
from tensorad.autodiff.reverse import vjp
from tensorad.bound import bound
from tensorad.counting import Work, work

SIZES: Final = (64, 128, 256, 512)
MOST_FIRST: Final = 4
MOST_SECOND: Final = 16
"""Passes allowed for first and second derivatives."""


@dataclass(frozen=True)
class Row:
    """Counts per folded element, each the same at every size.

    Attributes:
        first: iterations of the gradient per iteration of the forward fold.
        second: the same of the gradient's gradient.
        limit: B of the gradient, in the same unit.
        multiplications: of the gradient.
        steady: whether no count per element depends on the size.
    """

    name: str
    first: float
    second: float
    limit: float
    multiplications: float
    steady: bool

    @property
    def good(self) -> bool:
        """Whether the row keeps the rules."""
        few = self.first <= min(MOST_FIRST, self.limit) and self.second <= MOST_SECOND
        return few and self.steady


def run(names: Sequence[str] = ()) -> list[Row]:
    """The rows whose names contain one of the given parts (all without any)."""
    chosen = [c for c in CASES if not names or any(n in c.name for n in names)]
    return [_row(case) for case in chosen]


def _row(case: Case) -> Row:
    found = [_counts(program(case, n)) for n in SIZES]
    first, second, limit, multiplications = found[-1]
    steady = all(f[:2] == found[0][:2] for f in found)
    return Row(case.name, first, second, limit, multiplications, steady)


def _counts(p: Program) -> tuple[float, float, float, float]:
    """(first, second, bound, multiplications) per iteration of the forward fold."""
    forward = work(p.outputs).iterations
    gradients = vjp(p.outputs, p.inputs, p.heads)
    heads = [te.placeholder(g.shape, dtype="float64", name="V") for g in gradients]
    second = work(vjp(gradients, p.inputs, heads))
    first: Work = work(gradients)
    total = te.compute((), lambda: sum([t() for t in p.outputs[1:]], p.outputs[0]()), name="S")
    counts = (first.iterations, second.iterations, bound(total, p.inputs), first.multiplications)
    one, two, three, four = [c / forward for c in counts]  # type: ignore[operator]  # numbers
    return one, two, three, four


def table(rows: Sequence[Row]) -> str:
    """The rows as text."""
    lines = [f"{'combiner':28} first   B  second  multiplications per element"]
    for r in rows:
        lines.append(
            f"{r.name:28} {r.first:5.2f} {r.limit:5.2f} {r.second:6.2f} "
            f"{r.multiplications:7.1f}{'' if r.good else '   breaks a rule'}"
        )
    worst = max(rows, key=lambda r: r.first)
    lines.append(
        f"{len(rows)} combiners at n = {', '.join(map(str, SIZES))}: at most {worst.first:g} "
        f"passes for a gradient, {max(r.second for r in rows):g} for a gradient's gradient"
    )
    return "\n".join(lines)
