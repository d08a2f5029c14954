"""Which way of tidying a gradient does the least work: factors stored or not, other values read
or not, formulas written into their readers or not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from tensorad.ir.tensor import Op, Tensor, outputs
from tensorad.ir.visit import topological_ops
from tensorad.simplify.costs import elements, multiplications, visits
from tensorad.simplify.tidy import Task, Tidy

_SIZES: Final = (64.0, 1.0, 0.0)
"""Values of symbolic extents for which no points may be added."""


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
    Ensures: equal in exact arithmetic wherever everything is finite; floats may round
        differently, an infinite or undefined factor may reach a sum without elements.
    """
    own = dict.fromkeys([t.op for t in made])
    extra = list(spared)
    most = tuple([_visits(results, n) + sum([elements(t, n) for t in extra]) for n in _SIZES])
    found = _without_detours(Task(results, own, values, hoist=True), most)
    if not _is_within(found, most):  # factors of their own must not add points
        plain = _without_detours(Task(results, own, values, hoist=False), most)
        found = min((found, plain, list(results)), key=_work)
    return found


def _without_detours(task: Task, most: Sequence[float]) -> list[Tensor]:
    """Formulas written into one reader and stored for another all the same are only stored, if
    that is less work: their reductions have one reader again, and need no tensor."""
    found, stored = _best(task, most)
    if not stored:
        return found
    return min((found, _best(replace(task, stored=stored), most)[0]), key=_work)


def _best(task: Task, most: Sequence[float]) -> tuple[list[Tensor], dict[Tensor, None]]:
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
    if _multiplications(other) < _multiplications(found) and (
        _is_within(other, most) or _visits(other) <= _visits(found)
    ):
        return other, second.detours
    return found, first.detours


def _is_within(results: Sequence[Tensor], most: Sequence[float]) -> bool:
    return all(_visits(results, n) <= m for n, m in zip(_SIZES, most, strict=True))


def _work(results: Sequence[Tensor]) -> tuple[float, ...]:
    return (*[_visits(results, n) for n in _SIZES], _multiplications(results))


def _visits(results: Sequence[Tensor], size: float = _SIZES[0]) -> float:
    return sum([visits(op, size) for op in topological_ops(results)])


def _multiplications(results: Sequence[Tensor]) -> float:
    return sum([multiplications(op) for op in topological_ops(results)])
