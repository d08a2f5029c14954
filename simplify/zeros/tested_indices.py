"""Data-dependent indices of a stage, tested by the stage itself instead of by a wider guard.

A guard around a reduction may be what keeps an index from data inside its tensor. A stage that
carried the guard would be computed for every value of the guard's axes. Where the index does not
vary with the reduction's own axes, the stage tests the index instead, and whoever uses the stage
where the test fails reads what the reduction would have read: the same error, at the same points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from tensorad.ir.analysis.points import depends_on_data
from tensorad.ir.dtypes import BOOL, DType
from tensorad.ir.expr import (
    TRUE,
    Expr,
    Param,
    Read,
    Reduce,
    cast,
    const,
    logical_and,
    param,
    read,
    select,
)
from tensorad.ir.functions import Function, Partials, apply, stop
from tensorad.ir.tensor import Compute, Tensor, dim_expr
from tensorad.ir.visit import needs, outside_reductions, substitute, uses_any
from tensorad.simplify.bounds.reads import dynamic_dimensions


@dataclass(frozen=True, eq=False)
class IndexTest:
    """An index that data decides.

    Attributes:
        inside: whether it lies in its tensor.
        failing: a read with that index, evaluated only where it does not.
    """

    inside: Expr
    failing: Expr


def index_tests(e: Reduce, stage: Compute) -> list[IndexTest]:
    """Tests of the indices that may leave their tensors in a stage made of a reduction.

    Only of indices that every point of the reduction reads, and all points read alike.
    """
    if e.condition is not TRUE or not all((a.lower < a.upper) is TRUE for a in e.axes):
        return []
    first: dict[Expr, Expr] = {}
    for a in e.axes:
        first[a] = substitute(a.lower, first)
    unsure = unsure_dimensions(stage)
    tests: dict[Expr, IndexTest] = {}
    for r in _always_read(e):
        for d, i in enumerate(r.indices):
            if (r.tensor, d) in unsure and depends_on_data(i) and not uses_any(i, e.axes):
                there = inside(r, [d])
                indices = tuple([substitute(j, first) for j in r.indices])
                tests.setdefault(there, IndexTest(there, read(r.tensor, indices)))
    return list(tests.values())


def unsure_dimensions(stage: Compute) -> dict[tuple[Tensor, int], None]:
    """The dimensions of tensors that a stage may read outside."""
    found = dynamic_dimensions(stage).items()
    return {(r.tensor, d): None for r, dimensions in found for d in dimensions}


def _always_read(e: Reduce) -> list[Read]:
    """The reads at every point, outside nested reductions and selects."""
    need = needs(e.sources, outside_reductions(e.sources))
    return [r for r, guard in need.items() if isinstance(r, Read) and guard is TRUE]


def inside(r: Read, dimensions: Sequence[int]) -> Expr:
    """Whether a read's indices along some dimensions lie in its tensor."""
    parts = [(r.indices[d], dim_expr(r.tensor.shape[d])) for d in dimensions]
    return logical_and(*[p for i, n in parts for p in (i >= 0, i < n)])


def otherwise_fail(value: Expr, tests: Sequence[IndexTest]) -> Expr:
    """value; where a test fails, the read that fails with it."""
    for t in reversed(tests):
        failing = select(t.inside, const(0, value.dtype), cast(t.failing, value.dtype))
        if value.dtype.is_float:
            value = apply(_checked(value.dtype), (value, t.inside, failing))
        else:
            value = select(t.inside, value, failing)
    return value


@cache
def _checked(dtype: DType) -> Function:
    """The value if it is inside; a derivative that multiplies by 1 fails where the value does."""
    params = (param("value", dtype), param("inside", BOOL), param("failing", dtype))
    value, inside, failing = params

    def rule(made: Param, params: tuple[Param, ...]) -> Partials:
        _, inside, failing = params
        return select(inside, const(1, dtype), stop(failing)), None, None

    return Function("checked", params, select(inside, value, failing), rule)
