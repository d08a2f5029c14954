"""Sums behind padding when a factor is infinite or NaN: terms that are none may not make NaN.

A contraction adds 0 times the other operand for points that loops leave out. That is nothing
unless the other operand is infinite or NaN there. So it, or the result if that is smaller, is
looked at once; in the rare case everything is added up again by the loops of the formula, in
lanes along an axis that no bound of a loop depends on.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from tensorad.codegen.contraction.recognise import Contraction, Operand
from tensorad.codegen.cost.cache_traffic import extent_product
from tensorad.codegen.directives import Choices
from tensorad.codegen.loops.index_ranges import unravelled
from tensorad.codegen.loops.ir import If, Stmt
from tensorad.codegen.loops.scratch import buffer
from tensorad.codegen.nest.folds import FoldLoop
from tensorad.codegen.nest.ir import Nest
from tensorad.codegen.schedule.emit import emit_nest
from tensorad.codegen.schedule.plan import plan_nest
from tensorad.ir.analysis.sizes import assumed_elements
from tensorad.ir.combiner import sum_combiner
from tensorad.ir.expr import (
    TRUE,
    Axis,
    Expr,
    Read,
    axis,
    call,
    logical_not,
    param,
    read,
    select,
    weak_const,
)
from tensorad.ir.tensor import Tensor, dim_expr
from tensorad.ir.visit import free_leaves, substitute

AGAIN: Final = Choices(unroll=False, parallel=False, rows=False)
"""In lanes, but nothing is cut or written out: it hardly ever runs, and code takes time to make."""
LOOK: Final = Choices(tile=(1, 4), unroll=False, parallel=False)


def added_up_again(c: Contraction, nest: Nest) -> tuple[tuple[Stmt, ...], list[Tensor]]:
    """What follows a contraction that stores what `nest` says, and the scratch it needs."""
    body: list[Stmt] = []
    flags: list[Tensor] = []
    for part, other in ((c.left, c.right), (c.right, c.left)):
        if not part.absent:
            continue
        axes, suspect = _looked_at(c, other, nest)
        flag = buffer("unusual", (), c.fold.accumulators[0].dtype)
        found = param("unusual", flag.dtype)
        one, zero = weak_const(1, flag.dtype), weak_const(0, flag.dtype)
        counted = select(suspect, one, zero)
        fold = FoldLoop(sum_combiner(flag.dtype), (counted,), tuple(axes), TRUE, (found,))
        look = Nest((), (fold,), (flag,), (), (found,))
        body.extend(emit_nest(look, plan_nest(look, LOOK)))
        again = emit_nest(nest, plan_nest(nest, AGAIN))
        body.append(If(call("ne", read(flag, ()), zero), again, rare=True))
        flags.append(flag)
    return tuple(body), flags


def _looked_at(c: Contraction, other: Operand, nest: Nest) -> tuple[Sequence[Axis], Expr]:
    """The points to look at, and the condition that is not to hold there."""
    axes = _axes(c, other)
    plain = len(nest.tensors) == 1 and nest.values[0] is c.fold.accumulators[0]
    if plain and extent_product(nest.axes) < extent_product(axes):
        fresh, mapping = _copied(nest.axes)
        where = tuple([substitute(i, mapping) for i in nest.indices])
        if _is_whole(nest):
            fresh, where = _elements(nest.tensors[0])
        return fresh, call("isnan", read(nest.tensors[0], where))
    value = other.value
    if isinstance(value, Read) and (
        other.padded or assumed_elements(value.tensor.shape) <= extent_product(axes)
    ):
        fresh, where = _elements(value.tensor)  # it may be read outside: its elements instead
        return fresh, _unusual(read(value.tensor, where))
    fresh, mapping = _copied(axes)
    return fresh, _unusual(substitute(value, mapping))


def _is_whole(nest: Nest) -> bool:
    """Whether every element of the result is stored."""
    places, own = zip(nest.indices, nest.tensors[0].shape, strict=True), dict.fromkeys(nest.axes)
    return all(i in own and isinstance(n, int) and i.extent == n for i, n in places)  # type: ignore[attr-defined]  # an axis


def _elements(t: Tensor) -> tuple[list[Axis], tuple[Expr, ...]]:
    """Loops over a tensor, one where its extents are known, and the indices in them."""
    axes = [axis(f"d{d}", 0, dim_expr(n)) for d, n in enumerate(t.shape)]
    if any(a.extent is None for a in axes) or not axes:
        return axes, tuple(axes)
    element = axis("e", 0, prod(a.extent or 0 for a in axes))
    return [element], unravelled(element, [a.upper for a in axes])


def _copied(axes: Sequence[Axis]) -> tuple[list[Axis], dict[Expr, Expr]]:
    """Axes of the same ranges, and what stands for the first ones."""
    fresh = [axis(a.name, a.lower, a.upper) for a in axes]
    return fresh, dict(zip(axes, fresh, strict=True))


def _unusual(value: Expr) -> Expr:
    return logical_not(call("isfinite", value))


def _axes(c: Contraction, part: Operand) -> list[Axis]:
    """Those that an operand varies along."""
    used = free_leaves(part.value)
    return [a for a in (*c.batch, *part.axes, *c.reduced) if a in used]
