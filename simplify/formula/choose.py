"""Which way of tidying a gradient does the least work: factors stored or not, other values read
or not, formulas written into their readers or not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tensorad.ir.analysis.sizes import assumed_elements
from tensorad.ir.reference.forms import TENSORS
from tensorad.ir.tensor import Op, Placeholder, Tensor, outputs
from tensorad.ir.visit import topological_ops
from tensorad.passes import Form, Pass, run_passes
from tensorad.simplify.formula.costs import multiplications, visits
from tensorad.simplify.formula.dataflow import nest
from tensorad.simplify.formula.tidy import Task, Tidied, Tidy

_SIZES: Final = (64, 1, 0)
"""Values of symbolic extents for which no points may be added."""


@dataclass(frozen=True, eq=False)
class Way:
    """One of the ways of tidying: what to tidy, and the tensors that may be read."""

    task: Task
    readable: Mapping[Tensor, None]


def _nested(way: Way, tidied: Tidied) -> Tidied:
    return replace(tidied, results=nest(tidied.results, tidied.stages))


TIDY_PASSES: Final[tuple[Pass[Way, Tidied], ...]] = (
    Pass(
        "tidy_formulas",
        lambda way, tidied: Tidy(way.task, way.readable).run(),
        "first: it makes the stages",
    ),
    Pass("nest_stages", _nested, "last: who reads a stage is known once all formulas stand"),
)


def _compare(way: Way, before: Tidied, after: Tidied) -> str:
    ops = topological_ops([*before.results, *after.results])
    given = [t for op in ops if isinstance(op, Placeholder) for t in outputs(op)]
    return TENSORS.compare(given, before.results, after.results)


TIDIED: Final[Form[Way, Tidied]] = Form(
    show=lambda way, tidied: TENSORS.show((), tidied.results),
    verify=lambda way, tidied: TENSORS.verify((), tidied.results),
    compare=_compare,
)
"""Results, by their elements."""


def _run(task: Task, readable: Mapping[Tensor, None]) -> Tidied:
    return run_passes(TIDY_PASSES, Way(task, readable), Tidied(task.results), TIDIED)


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
        found = min((found, plain, results), key=counts.work)
    return list(found)


def _without_detours(task: Task, most: Sequence[float], counts: _Counts) -> Sequence[Tensor]:
    """Formulas written into one reader and stored for another all the same are only stored, if
    that is less work: their reductions have one reader again, and need no tensor."""
    found, stored = _best(task, most, counts)
    if not stored:
        return found
    return min((found, _best(replace(task, stored=stored), most, counts)[0]), key=counts.work)


def _best(
    task: Task, most: Sequence[float], counts: _Counts
) -> tuple[Sequence[Tensor], Mapping[Tensor, None]]:
    """Reading only values that are computed anyway, or others too: what multiplies less; with
    the tensors that are stored although a reader contains their formula.

    `most`: the points that may be visited, for each of some sizes.
    """
    needed = {op: None for op in topological_ops(task.results) if op not in task.own}
    readable = {t: None for op in needed for t in outputs(op)}
    first = _run(task, readable)
    found = first.results
    if not first.missed:
        return found, first.detours
    wider = {t: None for op in (*needed, *task.values) for t in outputs(op)}
    second = _run(task, wider)
    other = second.results
    if counts.multiplications(other) < counts.multiplications(found):
        visited = counts.visits(other)
        if _is_within(visited, most) or visited[0] <= counts.visits(found)[0]:
            return other, second.detours
    return found, first.detours


def _is_within(visited: Sequence[float], most: Sequence[float]) -> bool:
    return all(v <= m for v, m in zip(visited, most, strict=True))
