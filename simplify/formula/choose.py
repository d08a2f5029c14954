"""Which way of tidying a gradient does the least work: factors stored or not, other values read
or not, formulas written into their readers or not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from tensorad.ir.analysis.sizes import assumed_elements
from tensorad.ir.tensor import Op, Tensor, outputs
from tensorad.ir.visit import topological_ops
from tensorad.simplify.formula.costs import multiplications, visits
from tensorad.simplify.formula.tidy import Task, Tidy

_SIZES: Final = (64, 1, 0)
"""Values of symbolic extents for which no points may be added."""


class _Counts:
    """What the loops behind tensors do; each operation is looked at once."""

    def __init__(self) -> None:
        self.seen: dict[Op, tuple[float, ...]] = {}
        self.multiplied: dict[Op, float] = {}

    def visits(self, results: Sequence[Tensor]) -> tuple[float, ...]:
        """Points visited, for each of `_SIZES`."""
        ops = topological_ops(results)
        for op in ops:
            if op not in self.seen:
                self.seen[op] = tuple([visits(op, n) for n in _SIZES])
        return tuple([sum([self.seen[op][k] for op in ops]) for k in range(len(_SIZES))])

    def multiplications(self, results: Sequence[Tensor]) -> float:
        ops = topological_ops(results)
        for op in ops:
            if op not in self.multiplied:
                self.multiplied[op] = multiplications(op)
        return sum([self.multiplied[op] for op in ops])

    def work(self, results: Sequence[Tensor]) -> tuple[float, ...]:
        """Points and multiplications: less is better."""
        return (*self.visits(results), self.multiplications(results))


def tidy(
    results: Sequence[Tensor],
    made: Iterable[Tensor],
    values: Sequence[Op],
    spared: Iterable[Tensor] = (),
) -> list[Tensor]:
    """Tensors equal to the results, with less work.

    Args:
        results: what is wanted; each keeps its name, shape and dtype.
        made: the tensors on the way that may be rewritten, dropped or renamed.
        values: the operations (with reductions as stages) whose tensors may be read instead.
        spared: tensors whose derivatives are stored nowhere; so many elements may be stored to
            save multiplications.
    Ensures: equal in exact arithmetic wherever everything is finite, and where sums have no
        elements; floats may round differently.
    """
    own = dict.fromkeys([t.op for t in made])
    extra = list(spared)
    counts = _Counts()
    stored = [sum([assumed_elements(t.shape, n) for t in extra]) for n in _SIZES]
    most = tuple([v + e for v, e in zip(counts.visits(results), stored, strict=True)])
    found = _without_detours(Task(results, own, values, hoist=True), most, counts)
    if not _is_within(counts.visits(found), most):  # factors of their own must not add points
        plain = _without_detours(Task(results, own, values, hoist=False), most, counts)
        found = min((found, plain, list(results)), key=counts.work)
    return found


def _without_detours(task: Task, most: Sequence[float], counts: _Counts) -> list[Tensor]:
    """Formulas written into one reader and stored for another all the same are only stored, if
    that is less work: their reductions have one reader again, and need no tensor."""
    found, stored = _best(task, most, counts)
    if not stored:
        return found
    return min((found, _best(replace(task, stored=stored), most, counts)[0]), key=counts.work)


def _best(
    task: Task, most: Sequence[float], counts: _Counts
) -> tuple[list[Tensor], dict[Tensor, None]]:
    """Reading only values that are computed anyway, or others too: what multiplies less; with
    the tensors that are stored although a reader contains their formula.

    `most`: the points that may be visited, for each of some sizes.
    """
    needed = {op: None for op in topological_ops(task.results) if op not in task.own}
    readable = {t: None for op in needed for t in outputs(op)}
    first = Tidy(task, readable)
    found = first.run()
    if not first.missed:
        return found, first.detours
    wider = {t: None for op in (*needed, *task.values) for t in outputs(op)}
    second = Tidy(task, wider)
    other = second.run()
    if counts.multiplications(other) < counts.multiplications(found):
        visited = counts.visits(other)
        if _is_within(visited, most) or visited[0] <= counts.visits(found)[0]:
            return other, second.detours
    return found, first.detours


def _is_within(visited: Sequence[float], most: Sequence[float]) -> bool:
    return all(v <= m for v, m in zip(visited, most, strict=True))
