"""Reads that a `Select` may leave undone: they must not fault where their branch is not taken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tensorad.codegen.loops.index_ranges import Ranges
from tensorad.ir.expr import TRUE, ZERO, Axis, Expr, Read, Select, call, logical_and
from tensorad.ir.order import postorder_along
from tensorad.ir.tensor import dim_expr
from tensorad.ir.visit import children, postorder
from tensorad.simplify.index.linear import linear_form


def guarded_reads(roots: tuple[Expr, ...], axes: Iterable[Axis]) -> Mapping[Expr, Expr]:
    """Reads made only under a branch that may leave their tensor, with the test that they do not.

    A read whose test fails belongs to a branch not taken, so any number will do for it: both
    branches can be evaluated without a jump.
    """
    order = postorder(*roots)
    if not any(type(e) is Select for e in order):
        return {}
    always = _always_evaluated(roots)
    found: dict[Expr, Expr] = {}
    ranges: Ranges | None = None
    for e in order:
        if not isinstance(e, Read) or e in always:
            continue
        if ranges is None:
            ranges = Ranges(axes)
        test = _in_bounds(e, ranges)
        if test is not TRUE:
            found[e] = test
    return found


def _always_evaluated(roots: tuple[Expr, ...]) -> dict[Expr, None]:
    """Nodes that are needed whichever branches are taken."""
    return postorder_along(roots, lambda e: (e.cond,) if isinstance(e, Select) else children(e))


def _in_bounds(e: Read, ranges: Ranges) -> Expr:
    """Whether every index lies in its extent; what the loops' bounds prove is left out."""
    tests: list[Expr] = []
    for index, extent in zip(e.indices, e.tensor.shape, strict=True):
        low, high = ranges.of_linear(linear_form(index))
        if low < 0:
            tests.append(call("ge", index, ZERO))
        if not isinstance(extent, int) or high >= extent:
            tests.append(call("lt", index, dim_expr(extent)))
    return logical_and(*tests)
