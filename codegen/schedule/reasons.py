"""Why a nest runs as its plan says: read off the nest and the plan, in a few words each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from tensorad.codegen.loops.index_ranges import among
from tensorad.codegen.nest.access import FAR, Access, fold_accesses, outer_accesses
from tensorad.codegen.nest.ir import Nest
from tensorad.codegen.schedule.nest_plan import Plan
from tensorad.ir.analysis.decisions import Decision, note
from tensorad.ir.expr import Axis


def explain_plan(nest: Nest, plan: Plan) -> None:
    """Note the decisions of a plan that is being written."""
    for what, why in _reasons(nest, plan):
        note(Decision(nest.tensors, what, why))


def _reasons(nest: Nest, plan: Plan) -> Iterator[tuple[str, str]]:
    accesses = _distinct([*outer_accesses(nest), *fold_accesses(nest)])
    reduced = [a for f in nest.folds for a in f.axes]
    if plan.vector is None:
        yield "no lanes", "no axis has lanes that all take the same steps" if nest.axes else ""
    else:
        yield _lanes(plan.vector, plan.width), _movement(plan.vector, accesses, reduced)
    for a, rows in plan.jam.items():
        kept = [x.tensor.name for x in accesses if a not in x.uses]
        why = f"one load of {_listed(kept)} serves all" if kept else ""
        yield f"{rows} values of {a.name} side by side", why
    if plan.unroll:
        names = [a.name for a in reduced if a in plan.unroll]
        steps = prod([a.extent or 1 for a in reduced if a in plan.unroll])
        yield f"{_listed(names)} written out", f"only {steps} steps"


def _lanes(a: Axis, width: int) -> str:
    return f"lanes along {a.name}" + (f", {width} elements at a time" if width else "")


def _movement(vector: Axis, accesses: Sequence[Access], reduced: Sequence[Axis]) -> str:
    """How the tensors move through memory from lane to lane."""
    kinds: dict[str, list[str]] = {}
    for x in accesses:
        kinds.setdefault(_kind(x.stride(vector)), []).append(x.tensor.name)
    parts = [f"{_listed(names)} {kind}" for kind, names in kinds.items()]
    folded = "; lanes are added up at the end" if among(vector, reduced) else ""
    return ", ".join(parts) + folded


def _kind(stride: int | None) -> str:
    if stride == 0:
        return "stays the same"
    if stride in (1, -1):
        return "contiguous" if stride == 1 else "contiguous backwards"
    if stride is None:
        return "gathered"
    return "in large strides" if abs(stride) >= FAR else f"in strides of {abs(stride)}"


def _distinct(accesses: Sequence[Access]) -> list[Access]:
    """One access per tensor and movement."""
    found = {(x.tensor, tuple(x.uses.items())): x for x in accesses}
    return list(found.values())


def _listed(names: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(names))
