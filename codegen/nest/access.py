"""How the reads and stores of a nest move through memory as one axis advances."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from tensorad.codegen.loops.index_ranges import Ranges, joined_digits
from tensorad.codegen.nest.folds import FoldLoop
from tensorad.codegen.nest.ir import Nest
from tensorad.ir.analysis.sizes import ASSUMED_EXTENT
from tensorad.ir.expr import TRUE, Axis, Call, Const, Expr, Param, Read
from tensorad.ir.order import SELECT, occurs, reads
from tensorad.ir.tensor import Shape, Tensor, dim_expr
from tensorad.ir.visit import free_leaves, needs, outside_reductions
from tensorad.process import memo
from tensorad.simplify.index.linear import Linear, linear_form

FAR = 1 << 20
"""Stands for a stride that is not a number."""


@dataclass(frozen=True, eq=False)
class Access:
    """One distinct read or store, with what it costs per axis."""

    tensor: Tensor
    uses: dict[Expr, int | None]
    """Per axis of the indices: elements between neighbours; None where that is not affine."""

    def stride(self, a: Axis) -> int | None:
        """Elements between neighbours along `a`, 0 if it is not used."""
        return self.uses.get(a, 0)


def strides(shape: Shape) -> list[int]:
    """Row-major strides in elements; FAR where an extent is symbolic."""
    result = [1] * len(shape)
    for d in range(len(shape) - 2, -1, -1):
        n = shape[d + 1]
        inner = result[d + 1]
        result[d] = max(1, n) * inner if isinstance(n, int) and inner != FAR else FAR
    return result


def access(tensor: Tensor, indices: tuple[Expr, ...]) -> Access:
    """The access at these indices."""
    uses: dict[Expr, int | None] = {}
    steps = strides(tensor.shape)
    forms = [
        Linear({index: step}, 0) if type(index) is Axis else linear_form(index).scaled(step)
        for index, step in zip(indices, steps, strict=True)
    ]
    if FAR not in steps and any(type(t) is Call for form in forms for t in form.terms):
        total: Linear = Linear({}, 0)
        for form in forms:
            total = total.plus(form)
        forms = [joined_digits(total)]
    for form in forms:
        for leaf, c in form.terms.items():
            if isinstance(leaf, Axis):
                before = uses.get(leaf, 0)
                uses[leaf] = None if before is None else before + c
            else:
                uses.update(dict.fromkeys(free_leaves(leaf)))
    return Access(tensor, uses)


_inside: WeakKeyDictionary[Nest, tuple[Access, ...]] = memo(WeakKeyDictionary())
_outside: WeakKeyDictionary[Nest, tuple[Access, ...]] = memo(WeakKeyDictionary())


def fold_accesses(nest: Nest) -> tuple[Access, ...]:
    """The distinct reads of the folds' sources."""
    known = _inside.get(nest)
    if known is None:
        found = reads(*[s for f in nest.folds for s in f.sources])
        known = _inside[nest] = tuple([access(e.tensor, e.indices) for e in found])
    return known


def outer_accesses(nest: Nest) -> tuple[Access, ...]:
    """The stores, and the distinct reads beside the folds."""
    known = _outside.get(nest)
    if known is None:
        stores = [access(t, nest.indices) for t in nest.tensors]
        found = reads(*nest.values, *nest.indices)
        known = _outside[nest] = (*stores, *[access(e.tensor, e.indices) for e in found])
    return known


def extent_of(a: Axis, ranges: Ranges | None = None) -> int:
    """The number of iterations, at most; an assumption where it is symbolic."""
    if a.extent is not None:
        return a.extent
    if ranges is not None:
        low, high = ranges.of(a.lower)[0], ranges.of(a.upper)[1]
        if -FAR < low <= high < FAR:
            return max(0, int(high - low))
    return ASSUMED_EXTENT


def unsafe_reads(nest: Nest, lanes: Axis | None = None) -> bool:
    """Whether some read is guarded and might be out of bounds where its guard fails.

    A guard of a fold that is the same in all lanes is tested outside of them: where lanes run
    along an output axis, one that does not use it; along a reduce axis, one that uses none.

    Args:
        lanes: the vectorised axis; None: any.
    """
    axes = [*nest.axes]
    if guarded_unsafe(nest.values, axes, guarded=False):
        return True
    return any(
        guarded_unsafe(f.sources, [*axes, *f.axes], guarded=_is_masked(f, lanes))
        or guarded_unsafe((f.condition,), [*axes, *f.axes], guarded=False)
        for f in nest.folds
    )


def _is_masked(fold: FoldLoop, lanes: Axis | None) -> bool:
    """Whether lanes may run through a fold's sources where its condition does not hold."""
    if fold.condition is TRUE or lanes is None:
        return fold.condition is not TRUE
    used = free_leaves(fold.condition)
    if any(a is lanes for a in fold.axes):
        return any(a in used for a in fold.axes)
    return lanes in used or any(isinstance(e, Param) for e in used)


def guarded_unsafe(roots: Sequence[Expr], axes: Iterable[Axis], guarded: bool) -> bool:
    """Whether a read under a select (or, if `guarded`, any) may be out of bounds by itself."""
    if not guarded and not occurs(SELECT, *roots):
        return False
    order = outside_reductions(roots)
    if not any(isinstance(e, Read) for e in order):
        return False
    need = needs(roots, order)
    suspects = [e for e in order if isinstance(e, Read) and (guarded or need[e] is not TRUE)]
    if not suspects:
        return False
    ranges = Ranges(axes)
    return not all(
        in_bounds(index, dim_expr(n), ranges)
        for e in suspects
        for index, n in zip(e.indices, e.tensor.shape, strict=True)
    )


def in_bounds(index: Expr, extent: Expr, ranges: Ranges) -> bool:
    """Whether 0 <= index < extent over the whole ranges; False where not proved."""
    form = linear_form(index)
    if ranges.of_linear(form)[0] < 0:
        return False
    if isinstance(extent, Const):
        return ranges.of_linear(form)[1] < int(extent.value)
    if isinstance(index, Axis) and index.upper is extent:
        return True
    spare = linear_form(extent).plus(form, -1)
    for leaf in list(spare.terms):  # replace an axis by its upper bound
        if isinstance(leaf, Axis) and spare.terms.get(leaf, 0) < 0:
            c = spare.terms.pop(leaf)
            spare = spare.plus(linear_form(leaf.upper), c)
            spare.constant -= c
    return ranges.of_linear(spare)[0] >= 1
