"""Reads under a `Select` that may only be made where the branch is taken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tensorad.codegen.affine import Ranges, linear_form
from tensorad.codegen.lower_body import needs
from tensorad.ir.expr import TRUE, Axis, Expr, Read, Select
from tensorad.ir.visit import postorder


def guarded_reads(roots: tuple[Expr, ...], axes: Iterable[Axis]) -> Mapping[Expr, Expr]:
    """Reads of a statement with the condition they need; those always in bounds are left out."""
    order = postorder(*roots)
    if not any(type(e) is Select for e in order):
        return {}
    found: dict[Expr, Expr] = {}
    ranges: Ranges | None = None
    need = needs(roots, order)
    for e in order:
        condition = need[e]
        if not isinstance(e, Read) or condition is TRUE:
            continue
        if ranges is None:
            ranges = Ranges(axes)
        if not _in_bounds(e, ranges):
            found[e] = condition
    return found


def _in_bounds(e: Read, ranges: Ranges) -> bool:
    for index, extent in zip(e.indices, e.tensor.shape, strict=True):
        low, high = ranges.of_linear(linear_form(index))
        if low < 0 or not isinstance(extent, int) or high >= extent:
            return False
    return True
