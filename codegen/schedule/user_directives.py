"""Choices that a nest cannot follow, explained in the user's names."""

from __future__ import annotations

from collections.abc import Sequence

from tensorad.codegen.directives import Choices, is_part
from tensorad.codegen.nest.access import unsafe_reads
from tensorad.codegen.nest.ir import Nest
from tensorad.codegen.schedule.nest_plan import Plan
from tensorad.codegen.schedule.plan import can_vectorise_fold
from tensorad.errors import BuildError
from tensorad.ir.expr import Axis
from tensorad.ir.visit import free_leaves


def check_vector_axis(name: str, nest: Nest, plans: Sequence[Plan], choices: Choices) -> None:
    """Refuse to vectorise an axis that no piece of its nest could vectorise.

    Raises:
        BuildError: the choice names such an axis.
    """
    wanted = choices.vector
    axes = [*nest.axes, *[a for f in nest.folds for a in f.axes]]
    found = [a for a in axes if a.name == wanted and a.extent not in (0, 1)]
    if not found or not plans:
        return
    if any(p.vector is not None and is_part(p.vector, wanted) for p in plans):
        return
    raise BuildError(
        f"the axis {wanted} of {name} cannot run in lanes: {_reason(nest, found[0])}.",
        where=repr(choices),
        hint="name another axis, or leave `vector` open.",
    )


def _reason(nest: Nest, a: Axis) -> str:
    bounds = [b for f in nest.folds for r in f.axes for b in (r.lower, r.upper, r.step)]
    conditions = [f.condition for f in nest.folds]
    if a in free_leaves(*bounds, *conditions):
        return "where a reduction runs depends on it"
    if unsafe_reads(nest, a):
        return "a guarded read may be out of bounds in some lanes"
    folding = [f for f in nest.folds if any(r is a for r in f.axes)]
    if folding and len(nest.folds) > 1:
        return "the formula has several reductions"
    if any(not can_vectorise_fold(f.combiner) for f in folding):
        return "its reduction must visit the points in order"
    return "the loops were cut so that it is too short, or steps over values"
