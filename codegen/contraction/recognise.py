"""Recognises contractions: folds over products of parts with output axes of their own.

A nest is a contraction if its output axes fall into those that only one operand uses, those that
only the other uses, and those of both (the batch). Names of operators play no role. Of a product
of more factors some are multiplied first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from math import inf, prod
from typing import Any

import numpy as np

from tensorad.codegen.loops.index_ranges import COMPARES, Ranges, among, fold_by_ranges
from tensorad.codegen.nest.access import Access, access
from tensorad.codegen.nest.folds import FoldLoop
from tensorad.codegen.nest.ir import Nest
from tensorad.ir.analysis.sizes import ASSUMED_EXTENT
from tensorad.ir.cached import cached_property
from tensorad.ir.expr import (
    ONE,
    TRUE,
    ZERO,
    Axis,
    Call,
    Const,
    Expr,
    Read,
    Select,
    Size,
    add,
    axis,
    call,
    int_const,
    mul,
)
from tensorad.ir.order import READ, occurs, postorder_along, reads
from tensorad.ir.visit import conjuncts, free_leaves, postorder, substitute
from tensorad.simplify.index.linear import linear_form

MOST_POINTS = 1 << 16
"""Points at which a guard is compared with the bounds of a tensor."""
MOST_GROUPS = 6
"""Factors with output axes of their own that are joined to two operands."""
MOST_FACTORS = 16
"""Factors, each as often as it counts, that a product is taken apart into."""
Combine = Callable[[Expr, Expr], Expr]


@dataclass(frozen=True, eq=False)
class Operand:
    """One operand: a value over output axes of its own, the batch and the reduce axes.

    Attributes:
        axes: its own output axes, in order.
        padded: the value is a read that counts as 0 outside its tensor.
        absent: points outside are no terms of the sum at all, not even 0 times the other operand.
    """

    axes: tuple[Axis, ...]
    value: Expr
    padded: bool
    absent: bool = False

    @cached_property
    def extent(self) -> int:
        """Points of its own axes."""
        return prod(size(a) for a in self.axes)

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        """Its distinct reads; only itself, where it is a read without others inside."""
        return tuple([access(e.tensor, e.indices) for e in reads(self.value)])


@dataclass(frozen=True, eq=False)
class Contraction:
    """out[batch, left, right] = fold over `reduced` of combine(left part, right part)."""

    nest: Nest
    fold: FoldLoop
    batch: tuple[Axis, ...]
    reduced: tuple[Axis, ...]
    left: Operand
    right: Operand
    combine: Combine

    @cached_property
    def depth(self) -> int:
        """Points of the reduce axes."""
        return prod(size(a) for a in self.reduced)

    @cached_property
    def stored(self) -> Access:
        """Where the first result goes."""
        return access(self.nest.tensors[0], self.nest.indices)


def size(a: Axis) -> int:
    """The extent of an axis; what plans assume where it is symbolic."""
    return ASSUMED_EXTENT if a.extent is None else a.extent


def is_symbolic(axes: Iterable[Axis]) -> bool:
    """Whether some extent is known only when the code is called."""
    return any(a.extent is None for a in axes)


def recognise(nest: Nest) -> Contraction | None:
    """The contraction that a simplified nest is, or None. It does not look at `values`.

    Ensures: all axes start at 0 and step by one; their extents are constants or symbolic sizes.
    """
    if len(nest.folds) != 1 or nest.folds[0].combiner.arity != 1:
        return None
    if not all(_counts(a) for a in nest.axes):
        return None
    fold = nest.folds[0]
    dtype = fold.accumulators[0].dtype
    boxed = _box(nest, fold) if dtype.is_float else None
    if boxed is None:
        return None
    axes, (source,), guards = boxed
    if not axes or any(a.extent == 0 for a in axes):
        return None
    sums = fold.combiner.is_sum
    left_out = dict.fromkeys(guards)
    factors = _factors(source, guards) if sums else [source]
    if guards and not (sums and len(factors) > 1):
        return None
    split = _components(nest.axes, factors if len(factors) > 1 else reads(source))
    if split is None:
        return None
    batch, groups = split
    sides = _two_sides(nest.axes, groups) if len(factors) > 1 else groups
    if len(sides) != 2:
        return None
    found = (
        (_products(factors, sides), mul)
        if len(factors) > 1
        else _leaves(source, sides, dict.fromkeys(nest.axes))
    )
    if found is None:
        return None
    values, combine = found
    parts = []
    for own, value in zip(sides, values, strict=True):
        mine = [g for g in guards if _belongs(g, own, batch, axes)]
        padded = _padded(value, mine, (*own, *batch, *axes))
        if padded is None:
            return None
        parts.append(Operand(own, value, padded, any(g in left_out for g in mine)))
    if not all(any(_belongs(g, s, batch, axes) for s in sides) for g in guards):
        return None
    return Contraction(nest, fold, batch, axes, parts[0], parts[1], combine)


def _counts(a: Axis) -> bool:
    """Whether the axis is 0, 1, 2, ... up to a number or a symbolic size."""
    ends = a.extent is not None or isinstance(a.upper, Size)
    return a.lower is ZERO and a.step is ONE and ends


def _box(
    nest: Nest, fold: FoldLoop
) -> tuple[tuple[Axis, ...], tuple[Expr, ...], list[Expr]] | None:
    """Constant reduce axes from 0, the sources over them, and what bounds became guards."""
    ranges = Ranges(nest.axes)
    mapping: dict[Expr, Expr] = {}
    fresh: list[Axis] = []
    guards: list[Expr] = []
    for a in fold.axes:
        if isinstance(a.upper, Size) and _counts(a):
            fresh.append(a)
            ranges.enter(a)
            continue
        lower, upper = substitute(a.lower, mapping), substitute(a.upper, mapping)
        lows, highs = _operands("maximum", lower), _operands("minimum", upper)
        step = int(a.step.value) if isinstance(a.step, Const) else 0
        start = _start(lows, step, ranges)
        end = ranges.of(upper)[1]
        if start is None or not abs(end) < inf:
            return None
        count = max(0, -((start - int(end)) // step))
        t = axis(a.name, 0, count)
        position = add(int_const(start), mul(int_const(step), t))
        guards += [call("ge", position, e) for e in lows if not _is_const(e, start)]
        guards += [call("lt", position, e) for e in highs if not isinstance(e, Const)]
        if any(isinstance(e, Const) and int(e.value) < int(end) for e in highs):
            return None
        mapping[a] = position
        ranges.enter(t)
        fresh.append(t)
    memo: dict[Expr, Expr] = {}
    sources = tuple([fold_by_ranges(substitute(s, mapping), ranges, memo) for s in fold.sources])
    guards += conjuncts(substitute(fold.condition, mapping))
    if occurs(READ, *guards):
        return None
    return tuple(fresh), sources, [g for g in guards if g is not TRUE]


def _is_const(e: Expr, value: int) -> bool:
    return isinstance(e, Const) and int(e.value) == value


def _start(lows: Sequence[Expr], step: int, ranges: Ranges) -> int | None:
    """The first value an axis with these lower bounds may take; steps keep its remainder."""
    if step < 1:
        return None
    least = max(ranges.of(e)[0] for e in lows)
    if not abs(least) < inf:
        return None
    start = int(least)
    if step > 1:
        for e in lows:
            form = linear_form(e)
            if any(c % step for c in form.terms.values()) or (form.constant - start) % step:
                return None
    return start


def _operands(op: str, root: Expr) -> list[Expr]:
    """The distinct operands of nested calls of one operation."""

    def inner(e: Expr) -> tuple[Expr, ...]:
        return e.args if isinstance(e, Call) and e.op == op else ()

    return [e for e in postorder_along((root,), inner) if not inner(e)]


def _factors(source: Expr, guards: list[Expr]) -> list[Expr]:
    """The factors of a product, itself if they are many; select(c, x, 0) is x guarded by c."""
    found: list[Expr] = []
    stack = [source]
    while stack:
        e = stack.pop()
        if isinstance(e, Call) and e.op == "mul":
            stack.extend(reversed(e.args))
            if len(found) + len(stack) > MOST_FACTORS:  # a shared product doubles them
                return [source]
        else:
            found.append(e)
    for n, e in enumerate(found):
        zero = isinstance(e, Select) and isinstance(e.orelse, Const) and e.orelse.value == 0
        if isinstance(e, Select) and zero and not reads(e.cond):
            guards.extend(conjuncts(e.cond))
            found[n] = e.then
    return found


def _components(
    axes: Sequence[Axis], terms: Sequence[Expr]
) -> tuple[tuple[Axis, ...], list[tuple[Axis, ...]]] | None:
    """The batch axes, and the groups, two or more, that the other axes fall into.

    An axis of all terms is one of the batch, and one without which there is one group only while
    each of the others has a term with it: an operand may be a product of which one factor has it.
    """
    every = dict.fromkeys(axes)
    uses = [[a for a in free_leaves(t) if a in every] for t in terms]
    uses = [u for u in uses if u]
    if len(uses) < 2:
        return None
    batch = [a for a in axes if all(any(a is b for b in u) for u in uses)]
    group = _groups(uses, batch)
    if len(dict.fromkeys(group.values())) < 2:
        for a in axes:
            found = _groups(uses, [*batch, a])
            sides = dict.fromkeys([found[b] for u in uses if among(a, u) for b in u if b in found])
            if len(sides) > 1 and len(sides) == len(dict.fromkeys(found.values())):
                batch, group = [*batch, a], found
                break
    if any(a not in group and not among(a, batch) for a in axes):
        return None
    numbers = sorted(set(group.values()))
    if len(numbers) < 2:
        return None
    return tuple(batch), [tuple([a for a in axes if group.get(a) == number]) for number in numbers]


def _groups(uses: Sequence[Sequence[Expr]], batch: Sequence[Axis]) -> dict[Expr, int]:
    """The number of its group for each axis: terms that share one of them are in one group."""
    group: dict[Expr, int] = {}
    for number, u in enumerate(uses):
        own = [a for a in u if not among(a, batch)]
        merged = {group[a] for a in own if a in group} | {number}
        for a, g in list(group.items()):
            if g in merged:
                group[a] = number
        group.update(dict.fromkeys(own, number))
    return group


def _two_sides(
    axes: Sequence[Axis], groups: Sequence[tuple[Axis, ...]]
) -> Sequence[tuple[Axis, ...]]:
    """The groups joined to two sides, so that the fewest products are made before the sum.

    Of equal ways, the one whose second side has the last axes alone: what is stored
    side by side stays with a factor that is read as it is.
    """
    if len(groups) == 2 or len(groups) > MOST_GROUPS:
        return groups
    position = {a: n for n, a in enumerate(axes)}
    best: tuple[int, int] | None = None
    sides: list[tuple[Axis, ...]] = []
    for chosen in range(1, (1 << len(groups)) - 1):
        parts = [[g for n, g in enumerate(groups) if chosen >> n & 1 == side] for side in (0, 1)]
        made = sum(prod(size(a) for g in part for a in g) for part in parts if len(part) > 1)
        last = len(axes) if len(parts[1]) > 1 else -max(position[a] for a in parts[1][0])
        if best is None or (made, last) < best:
            best = made, last
            sides = [tuple([a for a in axes if any(among(a, g) for g in p)]) for p in parts]
    return sides


def _products(factors: Sequence[Expr], sides: Sequence[Sequence[Axis]]) -> tuple[Expr, Expr]:
    """The factors of each side multiplied; those of neither side belong to the second."""
    first = dict.fromkeys(sides[0])
    left = [f for f in factors if any(a in first for a in free_leaves(f))]
    right = [f for f in factors if not among(f, left)]
    return reduce(mul, left), reduce(mul, right)


def _leaves(
    source: Expr, sides: Sequence[Sequence[Axis]], output: dict[Axis, None]
) -> tuple[tuple[Expr, Expr], Combine] | None:
    """The largest subexpressions of one side only, if there is one of each."""
    found: list[dict[Expr, None]] = [{}, {}]
    stack, seen = [source], dict[Expr, None]()
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen[e] = None
        used = [a for a in free_leaves(e) if a in output]
        side = [n for n, s in enumerate(sides) if any(among(a, s) for a in used)]
        if len(side) == 1 and reads(e):
            found[side[0]][e] = None
        elif isinstance(e, (Call, Select)):
            stack.extend(e.args if isinstance(e, Call) else (e.cond, e.then, e.orelse))
        elif used or isinstance(e, Read):
            return None
    if len(found[0]) != 1 or len(found[1]) != 1:
        return None
    (left,), (right,) = found
    return (left, right), lambda x, y: substitute(source, {left: x, right: y})


def _belongs(
    guard: Expr, own: Sequence[Axis], batch: Sequence[Axis], reduced: Sequence[Axis]
) -> bool:
    """Whether the guard is about one part alone."""
    used = [e for e in free_leaves(guard) if isinstance(e, Axis)]
    return any(among(a, own) for a in used) and all(
        among(a, own) or among(a, batch) or among(a, reduced) for a in used
    )


def _padded(value: Expr, guards: Sequence[Expr], axes: Sequence[Axis]) -> bool | None:
    """Whether the guards only keep a read inside its tensor; None if they do more."""
    if not guards:
        return False
    if not isinstance(value, Read) or not all(is_affine(i, axes) for i in value.indices):
        return None
    for guard in guards:
        used = [e for e in free_leaves(guard) if isinstance(e, Axis)]
        if is_symbolic(used) or prod(size(a) for a in used) > MOST_POINTS:
            return None
        grid = np.indices([size(a) for a in used]).reshape(len(used), -1)
        known = dict(zip(used, grid, strict=True))
        inside = evaluate(guard, known)
        outside = np.zeros_like(inside)
        for index, extent in zip(value.indices, value.tensor.shape, strict=True):
            if isinstance(extent, int) and all(a in known for a in free_leaves(index)):
                at = evaluate(index, known)
                outside |= (at < 0) | (at >= extent)
        if not np.all(inside | outside):
            return None
    return True


_EVALUATED: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative,
    "floordiv": np.floor_divide, "mod": np.mod, "maximum": np.maximum, "minimum": np.minimum,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "eq": np.equal, "ne": np.not_equal, "and": np.logical_and, "or": np.logical_or,
    "not": np.logical_not,
}  # fmt: skip
assert all(op in _EVALUATED for op in COMPARES)


def evaluate(root: Expr, known: dict[Axis, Any]) -> Any:
    """An index expression at many points; anything unknown makes a guard false everywhere."""
    memo: dict[Expr, Any] = dict(known)  # type: ignore[arg-type]  # axes are expressions
    shape = next(iter(known.values())).shape if known else (1,)
    for e in postorder(root):
        if e in memo:
            continue
        if isinstance(e, Const):
            memo[e] = np.full(shape, e.value)
        elif isinstance(e, Call) and e.op in _EVALUATED:
            memo[e] = _EVALUATED[e.op](*[memo[a] for a in e.args])
        else:
            return np.zeros(shape, bool)
    return memo[root]


def is_affine(e: Expr, axes: Iterable[Axis]) -> bool:
    """Whether an index is a sum of multiples of these axes and a constant."""
    allowed = dict.fromkeys(axes)
    return all(isinstance(t, Axis) and t in allowed for t in linear_form(e).terms)
