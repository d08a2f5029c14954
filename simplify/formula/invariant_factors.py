"""Factors that all elements of a sum have: where they may stand beside the sum.

A sum without elements is 0, whatever is infinite or undefined beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tensorad.ir.analysis.facts import facts_about
from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.expr import (
    Axis,
    Call,
    Cast,
    Const,
    Expr,
    Read,
    Reduce,
    Select,
    const,
    logical_and,
    select,
)
from tensorad.ir.order import sizes_in
from tensorad.ir.tensor import Placeholder, dim_of
from tensorad.ir.visit import postorder, uses_any
from tensorad.simplify.index.quasi_affine import is_affine, starts_at_zero
from tensorad.simplify.sets.integer_set import find_point
from tensorad.simplify.sets.space import BudgetExceeded, NotAffine

Factor = tuple[Expr, int]
"""An atom and its power."""

_FINITE: Final = "abs add cos erf exp maximum minimum mul neg sigmoid sin sub tanh".split()
"""Functions whose values are finite wherever their operands are, but for overflow."""


def may_be_empty(a: Axis, around: Sequence[Axis] = ()) -> bool:
    """Whether some sizes that the facts allow, and some point of the axes around, leave the
    axis without a value."""
    if a.extent is not None:
        return not a.extent
    if any(a.lower is b.lower and a.upper is b.upper for b in around):
        return False
    bounds = [e for b in (a, *around) for e in (b.lower, b.upper)]
    facts = [f for f in facts_about(sizes_in(*bounds)) if is_affine(f, ())]
    try:
        return find_point(around, a.upper <= a.lower, logical_and(*facts)) is not None
    except (NotAffine, BudgetExceeded):
        return True


def beside(
    f: Factor, axes: Sequence[Axis], condition: Expr, around: Sequence[Axis]
) -> Factor | None:
    """A factor that all elements of a sum have as a factor of the sum; None if it stays inside.

    Where the sum has no elements it is finite, so that their product is 0.

    Args:
        around: axes that have a value wherever the product is asked for.
    """
    atom, power = f
    if not movable(atom):
        return None
    if power > 0 and _is_finite(atom):
        return f
    empty = [a for a in axes if may_be_empty(a, around)]
    where = logical_and(condition, *[a.lower < a.upper for a in empty])
    if uses_any(where, axes) or not movable(where):
        return None
    guarded = isinstance(atom, Select) and atom.cond is where and isinstance(atom.orelse, Const)
    return f if guarded else (select(where, atom, const(1, atom.dtype)), power)


def _is_finite(root: Expr) -> bool:
    """Whether a formula is finite wherever the inputs are, but for overflow."""
    return all(_keeps_finite(e) for e in postorder(root) if e.dtype.is_float)


def _keeps_finite(e: Expr) -> bool:
    match e:
        case Const(value=v):
            return abs(v) < float("inf")
        case Read(tensor=t):
            return isinstance(t.op, Placeholder)
        case Call(op=op):
            return op in _FINITE
        case Reduce(combiner=c):
            return c.is_sum
    return isinstance(e, (Cast, Select))


def movable(root: Expr) -> bool:
    """Whether the reads under an expression are in range wherever its axes are."""
    return all(
        _covers(i, n)
        for e in postorder(root)
        if isinstance(e, Read)
        for i, n in zip(e.indices, e.tensor.shape, strict=True)
    )


def _covers(index: Expr, extent: object) -> bool:
    if isinstance(index, Axis):
        return starts_at_zero(index) and same_dim(dim_of(index.upper), extent)  # type: ignore[arg-type]  # an extent of a shape
    return isinstance(index, Const) and isinstance(extent, int) and 0 <= index.value < extent
