"""Loops over one convex part of a domain: the axes to keep, tight bounds, and values of the rest.

A candidate keeps some dims as loops such that all others are determined. It is exact if its
loops reach the points of the part and nothing else; among exact candidates the loops over the
fewest values win, then the simplest expressions. Where no candidate is exact, the quotients
under the part's constraints become dims of their own (a number is its digits).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations, islice, permutations
from math import prod

from tensorad.errors import TensoradError
from tensorad.ir.expr import (
    TRUE,
    ZERO,
    Axis,
    Call,
    Const,
    Expr,
    add,
    axis,
    call,
    int_const,
    logical_and,
    mod,
    sub,
)
from tensorad.ir.visit import postorder, substitute
from tensorad.simplify.domain.solution import Piece
from tensorad.simplify.index.linear import Linear, common_terms, linear_form
from tensorad.simplify.sets.integer_set import IntegerSet

_FEW = 6
"""Candidates with as many loops that the first exact one is compared with."""
_MANY = 24
"""Candidates tried at most."""
_DIVISIONS = ("floordiv", "mod")
_VALUE_WEIGHT = 2
"""Divisions in values are evaluated at every point, those in bounds once a loop."""
_ONE = Linear({}, 1)
_MOST_DIMS = 9
"""Dims that depend on each other, up to which subsets are searched."""


class Unsolved(TensoradError):
    """This part of the domain has no loops we can write."""


@dataclass(frozen=True, eq=False)
class Loop:
    """lower <= dim - offset < upper in steps from lower.

    Attributes:
        lower: over the parameters and the dims of the loops before, as are the others.
        offset: what the bounds of the dim have in common; the written loop starts near 0.
        width: the most values the loop takes.
        span: from the smallest to the largest value that dim - offset ever takes.
    """

    dim: Axis
    lower: Expr
    upper: Expr
    step: int
    offset: Expr
    width: float
    span: float

    def condition(self) -> Expr:
        """Which values of the dim the loop takes."""
        position = sub(self.dim, self.offset)
        inside = logical_and(position >= self.lower, position < self.upper)
        if self.step == 1:
            return inside
        return logical_and(inside, sub(position, self.lower) % self.step == 0)


@dataclass(eq=False)
class DomainNest:
    """Loops, outermost first, and the determined dims over the parameters and the loops' dims."""

    loops: list[Loop] = field(default_factory=list)
    values: dict[Expr, Expr] = field(default_factory=dict)

    def conditions(self) -> list[Expr]:
        """What holds for the dims that the nest reaches, and for no others."""
        return [
            *[loop.condition() for loop in self.loops],
            *[dim == e for dim, e in self.values.items()],
        ]

    def cost(self) -> tuple[float, float, int, int]:
        """(points in the loops' hulls, points visited at most, divisions, size of the text).

        Hulls first: a loop over a kernel has constant bounds away from the borders, one over
        the image has not, though it may be as short.
        """
        bounds = [e for loop in self.loops for e in (loop.lower, loop.upper)]
        values = self.values.values()
        divisions = _divisions(*bounds) + _VALUE_WEIGHT * _divisions(*values)
        hull = prod(loop.span for loop in self.loops)
        width = prod(loop.width for loop in self.loops)
        return hull, width, divisions, complexity(*bounds, *values)


def _divisions(*roots: Expr) -> int:
    return sum([isinstance(e, Call) and e.op in _DIVISIONS for e in postorder(*roots)])


def complexity(*roots: Expr) -> int:
    """Nodes to evaluate; a division counts as several."""
    return len(postorder(*roots)) + 4 * _divisions(*roots)


def plan_part(part: IntegerSet, context: IntegerSet, known: Expr) -> Piece:
    """The part as one piece; `known` are the conditions of `context`.

    Raises:
        Unsolved: no loops cover the part.
    """
    piece: Piece | None = None
    with suppress(Unsolved):
        piece = _plan(part, context, known)
    if piece is not None and piece.residual is TRUE:
        return piece
    lifted = part.lifted()
    if lifted is not None:
        better: Piece | None = None
        with suppress(Unsolved):
            better = _plan(lifted, IntegerSet.of(lifted.space, known), known)
        if better is not None and (piece is None or better.residual is TRUE):
            own = dict.fromkeys(part.space.dims)
            values = {old: e for old, e in better.values.items() if old in own}
            return Piece(better.guard, better.axes, values, better.residual)
    if piece is None:
        raise Unsolved("no loops cover the part")
    return piece


def _plan(part: IntegerSet, context: IntegerSet, known: Expr) -> Piece:
    whole = DomainNest()
    for group in part.components():
        nest = _choose(part.restrict_to(group), known)
        whole.loops += nest.loops
        whole.values.update(nest.values)
    return _certified(part, context, whole)


def _choose(own: IntegerSet, known: Expr) -> DomainNest:
    """The best exact nest for dims that depend on each other; else one that visits more."""
    context = IntegerSet.of(own.space, known)
    best: DomainNest | None = None
    loose: DomainNest | None = None
    more = _FEW
    for kept in islice(_candidates(own), _MANY):
        if best is not None and (more == 0 or len(kept) > len(best.loops)):
            break
        more -= best is not None
        try:
            nest = _nest(own, kept, known)
        except Unsolved:
            continue
        if best is not None and nest.cost() >= best.cost():
            continue
        if _is_exact(own, context, nest):
            best = nest
            if not kept:
                break
        elif loose is None:
            loose = nest
    chosen = best or loose
    if chosen is None:
        raise Unsolved(", ".join([a.name for a in own.space.dims]))
    return chosen


def _candidates(own: IntegerSet) -> Iterator[tuple[Axis, ...]]:
    """Dims to keep, outermost first, such that the others are determined; fewest first."""
    dims = own.space.dims
    if own.is_singleton():
        yield ()
        return
    if len(dims) == 1 or len(dims) > _MOST_DIMS:
        yield dims
        return
    size = {a: _range_size(own, a) for a in dims}
    fewest: list[tuple[Axis, ...]] = []
    larger: list[tuple[Axis, ...]] = []
    for count in range(1, len(dims) + 1):
        sets = sorted(combinations(dims, count), key=lambda kept: prod(size[a] for a in kept))
        good = [kept for kept in sets if _determines(own, kept)]
        if fewest:
            larger = good
            break
        fewest = good
    yield from fewest
    for kept in fewest:
        yield from islice(permutations(kept), 1, None)
    for kept in larger:
        yield from permutations(kept)


def _determines(own: IntegerSet, kept: Sequence[Axis]) -> bool:
    inside = dict.fromkeys(kept)
    rest = [a for a in own.space.dims if a not in inside]
    return not rest or own.restrict_to(rest, kept).is_singleton()


def _range_size(own: IntegerSet, a: Axis) -> float:
    bounds = own.static_range(a)
    return float("inf") if bounds is None else bounds[1] - bounds[0] + 1


def _nest(own: IntegerSet, kept: Sequence[Axis], known: Expr) -> DomainNest:
    nest = DomainNest()
    for n, a in enumerate(kept):
        nest.loops.append(_loop(own.restrict_to([a], kept[:n]), a, known))
        known = logical_and(known, nest.loops[-1].condition())
    inside = dict.fromkeys(kept)
    for a in own.space.dims:
        if a not in inside:
            nest.values[a] = _value(own.restrict_to([a], kept), a)
    return nest


def _is_exact(own: IntegerSet, context: IntegerSet, nest: DomainNest) -> bool:
    """Whether the nest reaches the points of `own` only, once a guard keeps it to parameters
    that have points."""
    claimed = context.intersect(IntegerSet.of(own.space, *nest.conditions()))
    return claimed.equals(own) or claimed.where_parameters_of(own).equals(own)


def _loop(own: IntegerSet, a: Axis, known: Expr) -> Loop:
    """A tight loop over the only dim of `own`."""
    lowers, uppers = own.simplify().bounds(a)
    if not lowers or not uppers:
        raise Unsolved(str(a))
    context = IntegerSet.of(own.space, known)
    lowers, uppers = _needed("ge", lowers, context), _needed("le", uppers, context)
    step, start = own.stride(a)
    widths = [own.largest(sub(a, low)) for low in lowers]
    width = min([float("inf") if w is None else w // step + 1 for w in widths])
    forms = [[linear_form(e) for e in bounds] for bounds in (lowers, uppers)]
    offset = common_terms([*forms[0], *forms[1]])
    starts = [f.plus(offset, -1) for f in forms[0]]
    if step > 1:
        starts = [_aligned(f, linear_form(start).plus(offset, -1), step) for f in starts]
    lower = _fold("maximum", [f.to_expr() for f in starts])
    upper = _fold("minimum", [f.plus(offset, -1).plus(_ONE).to_expr() for f in forms[1]])
    position = sub(a, offset.to_expr())
    most, least = own.largest(position), own.largest(sub(ZERO, position))
    span = float("inf") if most is None or least is None else most + least + 1
    return Loop(a, lower, upper, step, offset.to_expr(), width, span)


def _aligned(bound: Linear, start: Linear, step: int) -> Linear:
    """The first value at or after a bound that is the start modulo the step."""
    gap = start.plus(bound, -1)
    rest = Linear({e: c % step for e, c in gap.terms.items()}, gap.constant % step)
    if not rest.terms:
        return bound.plus(rest)
    return bound.plus(Linear({mod(rest.to_expr(), int_const(step)): 1}, 0))


def _needed(op: str, bounds: Sequence[Expr], context: IntegerSet) -> list[Expr]:
    """The bounds that are not implied by another one."""
    left = list(bounds)
    for b in sorted(bounds, key=lambda e: -complexity(e)):
        others = [c for c in left if c is not b]
        if any(context.implies(call(op, c, b)) for c in others):
            left = others
    return left


def _fold(op: str, bounds: Sequence[Expr]) -> Expr:
    ordered = sorted(bounds, key=lambda e: not isinstance(e, Const))
    result = ordered[0]
    for b in ordered[1:]:
        result = call(op, result, b)
    return result


def _value(own: IntegerSet, a: Axis) -> Expr:
    """The simplest bound that the dim always equals."""
    lowers, uppers = own.simplify().bounds(a)
    candidates = sorted(dict.fromkeys([*lowers, *uppers]), key=complexity)
    for e in candidates:
        if own.implies(a == e):
            return e
    value = own.value_of(a)
    if value is None:
        raise Unsolved(str(a))
    return value


def _certified(part: IntegerSet, context: IntegerSet, nest: DomainNest) -> Piece:
    """Rebuild the set from the plan's own expressions and compare it with the part."""
    claimed = context.intersect(IntegerSet.of(part.space, *nest.conditions()))
    guard: Expr = TRUE
    if not claimed.equals(part):
        guard = part.parameter_guard(context)
        claimed = claimed.intersect(IntegerSet.of(part.space, guard))
    residual: Expr = TRUE
    if not claimed.equals(part):
        if not part.is_subset(claimed):
            raise Unsolved("the rebuilt domain misses points")
        residual = part.gist_condition(claimed)
    axes, images = _written(nest.loops)
    mapping = dict(images)
    for old, e in nest.values.items():
        mapping[old] = substitute(e, images)
    return Piece(guard, axes, mapping, substitute(residual, mapping))


def _written(loops: Sequence[Loop]) -> tuple[tuple[Axis, ...], dict[Expr, Expr]]:
    """The loops as axes that start near 0, and each dim as an expression of them."""
    axes: list[Axis] = []
    images: dict[Expr, Expr] = {}
    for loop in loops:
        lower, upper, offset = [
            substitute(e, images) for e in (loop.lower, loop.upper, loop.offset)
        ]
        axes.append(axis(loop.dim.name, lower, upper, loop.step))
        images[loop.dim] = add(offset, axes[-1])
    return tuple(axes), images
