"""Sums of products in a formula, evaluated in the order that costs least.

sum(A[i, k]*B[k, l]*C[l, j], axes k and l) becomes a sum over l of what a stage of its own has
summed over k. So do maxima of sums and the like: wherever one operation distributes over the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import reduce
from math import prod
from operator import or_
from weakref import WeakKeyDictionary

from tensorad.ir.analysis.levels import split_condition
from tensorad.ir.analysis.points import count_points, evaluate
from tensorad.ir.analysis.sizes import TYPICAL_EXTENT
from tensorad.ir.combiner import max_combiner, min_combiner, sum_combiner
from tensorad.ir.expr import (
    ONE,
    TRUE,
    Axis,
    Call,
    Const,
    Expr,
    Reduce,
    add,
    axis,
    call,
    read,
    reduce_expr,
    sub,
)
from tensorad.ir.order import AXIS, READ, REDUCE, children, occurs, outside_reductions, sizes_in
from tensorad.ir.tensor import Compute, outputs
from tensorad.ir.visit import (
    copy_bodies,
    free_leaves,
    needs,
    postorder,
    reads,
    substitute,
    with_fresh_reductions,
)
from tensorad.simplify.bounds.reads import is_safe
from tensorad.simplify.formula.contraction_order import ProductStep, best_order, iterations, steps
from tensorad.simplify.formula.invariant_factors import may_be_empty

_written: WeakKeyDictionary[Compute, Expr] = WeakKeyDictionary()


def written_body(op: Compute) -> Expr | None:
    """The formula as it was written, if its products are summed in another order."""
    return _written.get(op)


def ordered_compute(name: str, axes: tuple[Axis, ...], body: Expr) -> Compute:
    """name[axes] = body, its sums of products in the order of the fewest iterations.

    A stage may overflow where the loops as written do not, and an infinity or NaN meets other
    operands in it.

    Ensures: a formula whose written order costs no more keeps it; so does one with a stage that
    might read outside of a tensor, whose loops are no box, or that a condition switches off.
    """
    if not occurs(REDUCE, body):
        return Compute(name, axes, (body,))
    new: dict[Expr, Expr] = {}
    nodes = outside_reductions((body,))
    when = needs((body,), nodes)
    for e in nodes:
        if not isinstance(e, Reduce) or when[e] is not TRUE:
            continue
        ordered = None
        if e.combiner.arity == 1 and e.condition is TRUE:
            ordered = _Fold(name, axes, e, whole=e is body).ordered()
        if ordered is None and e is body:
            ordered = _repeated(name, axes, e)
        if ordered is not None:
            new[e] = ordered
    op = Compute(name, axes, (substitute(body, new),))
    if new:
        _written[op] = body
    return op


def _repeated(name: str, axes: Sequence[Axis], e: Reduce) -> Expr | None:
    """A fold of any kind, read from a stage over the axes it depends on; None if that is dearer."""
    free = free_leaves(e)
    used = tuple([a for a in axes if a in free])
    bounds = [b for a in e.axes for b in (a.lower, a.upper, a.step)]
    if len(used) == len(axes) or occurs(READ | REDUCE, *bounds):
        return None
    sizes: dict[Expr, int] = dict.fromkeys(
        sizes_in(e, *bounds, *[a.upper for a in axes]), TYPICAL_EXTENT
    )
    guard, _ = split_condition(e.condition, e.axes)
    inner = [i for i in (guard, *e.axes) if i is not TRUE]
    once = count_points([*used, *inner], sizes) + count_points(axes, sizes)
    if once >= count_points([*axes, *inner], sizes):
        return None
    folds = [
        reduce_expr(e.combiner, e.sources, e.axes, e.condition, n) for n in range(e.combiner.arity)
    ]
    stage = Compute(f"{name}.{e.combiner.name}", *copy_bodies(used, folds))
    counted = all(a.extent for a in axes)
    return read(outputs(stage)[e.index], used) if counted or is_safe(stage) else None


class _Fold:
    """One reduction of a formula: its factors, and the axes each depends on as bits."""

    def __init__(self, name: str, context: Sequence[Axis], e: Reduce, whole: bool) -> None:
        self.name, self.combiner, self.fold = name, e.combiner, e
        self.times = _times(e)
        self.factors, self.folds = _opened(e, self.times)
        used = free_leaves(e)
        self.outer = [a for a in context if whole or a in used]
        self.axes = [*self.outer, *[a for r in self.folds for a in r.axes]]
        self.masks = [self._mask(free_leaves(f)) for f in self.factors]

    def ordered(self) -> Expr | None:
        """The same over what stages have summed; None if that costs no less, or may not be."""
        output = (1 << len(self.outer)) - 1
        every = reduce(or_, self.masks, output)
        if every != (1 << len(self.axes)) - 1 or not all(_is_box(a) for a in self.axes):
            return None
        extents = [_extent(a) for a in self.axes]
        keeps_order = self.combiner is not sum_combiner(self.fold.dtype)
        if keeps_order and any(map(may_be_empty, self.axes[len(self.outer) :])):
            return None  # what an empty stage gives would be an operand of the next
        last = best_order(self.masks, output, extents, keeps_order=keeps_order)
        if iterations(last, extents) >= self._written(output, extents):
            return None
        stages: list[Compute] = []
        body = self._value(last, stages)
        if any(a.extent is None for a in self.axes[len(self.outer) :]):  # read in no turn of it
            stages.append(Compute(self.name, tuple(self.outer), (body,)))
        return body if all(map(is_safe, stages)) else None

    def _mask(self, leaves: Iterable[Expr]) -> int:
        found = dict.fromkeys(leaves)
        return sum([1 << n for n, a in enumerate(self.axes) if a in found])

    def _written(self, output: int, extents: Sequence[int]) -> int:
        """Iterations of the fold, and of those inside that were opened, in the loops around."""
        nests = [output | self._mask(around) for around in self.folds.values()]
        return sum([prod([n for d, n in enumerate(extents) if m >> d & 1]) for m in nests])

    def _value(self, step: ProductStep, stages: list[Compute]) -> Expr:
        """What the step computes, over the axes it keeps; the stages it reads are added."""
        parts = sorted(step.parts, key=_position)
        values = [
            self._stage(p, stages) if isinstance(p, ProductStep) else self.factors[p]
            for p in parts
            if isinstance(p, ProductStep) or p < len(self.factors)
        ]
        value = reduce(lambda x, y: call(self.times, x, y), values)
        summed = tuple(self._among(step.letters & ~step.kept))
        return reduce_expr(self.combiner, (value,), summed, TRUE) if summed else value

    def _stage(self, step: ProductStep, stages: list[Compute]) -> Expr:
        """The result of a step as a tensor, read at the axes it keeps."""
        value = self._value(step, stages)
        kept = self._layout(step)
        own = {a: axis(a.name, 0, sub(a.upper, a.lower)) for a in kept}
        there: dict[Expr, Expr] = {a: add(own[a], a.lower) for a in kept}
        body = with_fresh_reductions(substitute(value, there))
        stages.append(Compute(f"{self.name}.{self.combiner.name}", tuple(own.values()), (body,)))
        return read(outputs(stages[-1])[0], tuple([sub(a, a.lower) for a in kept]))

    def _layout(self, step: ProductStep) -> list[Axis]:
        """The kept axes: those of the result first, last one along which a factor's rows lie."""
        found = dict.fromkeys(self._among(step.kept))
        rows = [self._rows(p) for s in steps(step) for p in s.parts if isinstance(p, int)]
        last = next((a for a in rows if a in found), None)
        return [a for a in found if a is not last] + [a for a in found if a is last]

    def _rows(self, factor: int) -> Axis | None:
        """The axis that is the last index of what a factor reads."""
        accesses = reads(self.factors[factor]) if factor < len(self.factors) else []
        ends = [r.indices[-1] for r in accesses if r.indices]
        return next((i for i in ends if isinstance(i, Axis)), None)

    def _among(self, mask: int) -> list[Axis]:
        return [a for n, a in enumerate(self.axes) if mask >> n & 1]


def _times(e: Reduce) -> str:
    """The operation of the source that distributes over the fold; "" if there is none."""
    dtype = e.dtype
    allowed: tuple[str, ...] = ()
    if e.combiner is sum_combiner(dtype):
        allowed = ("mul",)
    elif e.combiner is max_combiner(dtype):
        allowed = ("minimum", "add") if dtype.is_float else ("minimum",)
    elif e.combiner is min_combiner(dtype):
        allowed = ("maximum", "add") if dtype.is_float else ("maximum",)
    (source, *_) = e.sources
    return source.op if isinstance(source, Call) and source.op in allowed else ""


def _opened(e: Reduce, times: str) -> tuple[list[Expr], dict[Reduce, tuple[Axis, ...]]]:
    """The factors of a fold's source; the fold and those opened for them, with their loops.

    A product or a fold that is an operand more than once stays a factor: it is computed once, and
    n squarings of squares have not 2**n factors.
    """
    factors: list[Expr] = []
    folds: dict[Reduce, tuple[Axis, ...]] = {e: e.axes}
    left = [(e.sources[0], e.axes)]
    closed = dict.fromkeys(_used_again(e, times))
    while left:
        f, around = left.pop()
        if f in closed:
            factors.append(f)
        elif isinstance(f, Call) and f.op == times:
            left += [(a, around) for a in reversed(f.args)]
        elif times and isinstance(f, Reduce) and f.combiner is e.combiner and f.condition is TRUE:
            folds[f] = (*around, *f.axes)
            left.append((f.sources[0], folds[f]))
        else:
            factors.append(f)
    return factors, folds


def _used_again(e: Reduce, times: str) -> list[Expr]:
    """The products and reductions inside a reduction that are operands more than once."""
    if not times:
        return []
    users = Counter([c for f in postorder(e.sources[0]) for c in children(f)])
    kinds = [f for f, n in users.items() if n > 1]
    return [f for f in kinds if isinstance(f, Reduce) or (isinstance(f, Call) and f.op == times)]


def _position(part: int | ProductStep) -> int:
    """Of the first factor in a part."""
    return part if isinstance(part, int) else min(_position(p) for p in part.parts)


def _is_box(a: Axis) -> bool:
    """Whether the axis runs from a number, step by step, to one or to an expression of sizes."""
    free = isinstance(a.upper, Const) or not occurs(READ | AXIS | REDUCE, a.upper)
    return isinstance(a.lower, Const) and a.step is ONE and free


def _extent(a: Axis) -> int:
    if a.extent is not None:
        return a.extent
    sizes: dict[Expr, int] = dict.fromkeys(sizes_in(a.upper), TYPICAL_EXTENT)
    return max(0, int(evaluate((sub(a.upper, a.lower),), {}, sizes)[0]))
