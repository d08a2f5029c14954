"""What one read of a tensor contributes to its adjoint."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final, TypeVar

from tensorad.ir.analysis.levels import every_operand, loop_levels
from tensorad.ir.analysis.points import count_points, possible
from tensorad.ir.expr import TRUE, Axis, Expr, logical_and, summed
from tensorad.ir.order import DATA, PARAM, REDUCE, occurs, sizes_in
from tensorad.simplify.index.intervals import interval
from tensorad.simplify.zeros.lift import guarded, is_static, split_condition

K = TypeVar("K")
Weight = Callable[[Sequence[Expr]], Expr]
"""The value to accumulate, for given indices of the head's extra leading axes (or a condition)."""
_TYPICAL_SIZE: Final = 16
"""What a symbolic size counts as when plans are compared."""
_SMALL_SIZES: Final = (1, 2, 3, 5)
_MOST_COMBINED: Final = 2
"""Symbols whose small sizes are tried in every combination."""
_MOST_POINTS: Final = 1 << 24
"""Domains beyond this are not counted point by point."""


def everywhere(batch: Sequence[Expr]) -> Expr:
    """The condition that always holds."""
    return TRUE


@dataclass(frozen=True, eq=False)
class Contribution:
    """At all points of `axes` where condition and guard hold: adjoint[batch, indices] += weight.

    The condition belongs to the domain; the guard comes from selects and may ask for data.

    Attributes:
        sparse: the same contribution over fewer points that can only be scattered.
        kinds: of the nodes that the weight may have, as far as known.
        switch: what data say, beside the guard, of where selects let the weight through.
    """

    axes: tuple[Axis, ...]
    condition: Expr
    indices: tuple[Expr, ...]
    weight: Weight
    guard: Expr = TRUE
    sparse: Contribution | None = None
    kinds: int = -1
    switch: Weight = everywhere


def explicit(c: Contribution) -> Contribution:
    """The contribution; what its conditions on data say of indices stands beside them."""
    condition, guard = _explicit(c.condition), _explicit(c.guard)
    same = condition is c.condition and guard is c.guard
    return c if same else replace(c, condition=condition, guard=guard)


def _explicit(condition: Expr) -> Expr:
    index, data = split_condition(condition)
    implied = [possible(part) for part in data]
    if all(i is TRUE for i in implied):
        return condition
    return logical_and(index, *implied, *data)


def grouped(
    parts: Sequence[Contribution], key: Callable[[Contribution], K]
) -> dict[K, list[Contribution]]:
    """The contributions by what a key says of each."""
    groups: dict[K, list[Contribution]] = {}
    for c in parts:
        groups.setdefault(key(c), []).append(c)
    return groups


def by_read(parts: Sequence[Contribution]) -> list[list[Contribution]]:
    """The contributions to one element from one point, together."""
    return list(grouped(parts, lambda c: (c.axes, c.condition, c.indices)).values())


def merged(parts: Sequence[Contribution]) -> list[list[Contribution]]:
    """The contributions by read: those of one group are one sum over one domain."""
    groups = grouped(parts, lambda c: (c.axes, c.condition, c.indices, split_condition(c.guard)[0]))
    return list(groups.values())


def sum_of(members: Sequence[Contribution]) -> Contribution:
    """One contribution for a group."""
    first = members[0]
    if len(members) == 1:
        return first
    if all(c.guard is first.guard for c in members):
        shared = first.guard
        own: list[Expr] = [TRUE for _ in members]
    else:
        shared = split_condition(first.guard)[0]
        own = [logical_and(*split_condition(c.guard)[1]) for c in members]

    def weight(batch: Sequence[Expr]) -> Expr:
        parts = zip(members, own, strict=True)
        total = summed(guarded(guard, c.weight(batch)) for c, guard in parts)
        assert total is not None  # a group has members
        return total

    return replace(first, weight=weight, guard=shared)


def gather_is_cheaper(
    body: Expr, axes: Sequence[Axis], sparse: Sequence[Contribution], n_batch: int
) -> bool:
    """Whether the loops of a gathered body visit no more points than filling and scattering.

    For symbolic sizes scattering must save at the typical one and be no dearer at any small
    one: a gather never visits more than the forward program's reads, a scatter of few points
    also fills all elements.

    Args:
        body: one element of the adjoint, over `axes` (the first `n_batch` lead the head).
        sparse: what would be scattered instead.
    """
    _, sites = loop_levels((body,), axes, every_operand, conditions=True)
    if not sites:
        return True
    nests = [s.points for s in sites]
    scattered = [(*axes[:n_batch], *c.axes) for c in sparse[:1]]
    items = [*axes, *[i for nest in nests for i in nest]]
    symbols = sizes_in(*_with_bounds(items))
    for sizes in _samples(symbols if sparse else ()):
        here = _total([points_of(n, sizes) for n in nests])
        filled = points_of(axes, sizes)
        there = _total([filled, *[points_of(n, sizes) for n in scattered]])
        if here is None or there is None or filled is None:
            return False
        first = all(n == _TYPICAL_SIZE for n in sizes.values())
        if here <= there if first else max(here, filled) < there:
            return True
    return False


def _samples(names: Sequence[Expr]) -> list[dict[Expr, int]]:
    """The typical sizes, then small ones in every combination (all alike if they are many)."""
    typical: dict[Expr, int] = dict.fromkeys(names, _TYPICAL_SIZE)
    if len(names) > _MOST_COMBINED:
        alike = [dict.fromkeys(names, n) for n in _SMALL_SIZES]
        return [typical, *alike]
    combined = product((*_SMALL_SIZES, _TYPICAL_SIZE), repeat=len(names))
    return [typical, *[dict(zip(names, values, strict=True)) for values in combined]]


def scattered_along(
    parts: Sequence[Contribution], axes: Sequence[Axis], n_batch: int
) -> dict[tuple[Axis, ...], None]:
    """The domains in which some part must be scattered and the others are cheaper if they are.

    The adjoint (over `axes`) is filled anyway, and its elements are more than the points.
    """
    found: dict[tuple[Axis, ...], None] = {}
    for own, members in grouped(parts, lambda c: c.axes).items():
        rest = [c for c in members if not occurs(DATA | REDUCE | PARAM, *c.indices)]
        if not 0 < len(rest) < len(members):
            continue
        guards = [(c.condition, split_condition(c.guard)[0]) for c in rest]
        points = _total([points_of((*axes[:n_batch], *own, *g)) for g in guards])
        elements = points_of(axes)
        if points is not None and elements is not None and points < elements:
            found[own] = None
    return found


def _total(counts: Sequence[int | None]) -> int | None:
    known = [n for n in counts if n is not None]
    return sum(known) if len(known) == len(counts) else None


def _with_bounds(items: Sequence[Expr]) -> list[Expr]:
    axes = [a for a in items if isinstance(a, Axis)]
    return [*items, *[b for a in axes for b in (a.lower, a.upper, a.step)]]


def points_of(items: Sequence[Expr], given: Mapping[Expr, int] | None = None) -> int | None:
    """How often the innermost body runs; None if data decides or it is too much to count."""
    axes = [a for a in items if isinstance(a, Axis)]
    roots = _with_bounds(items)
    if not all(is_static(e) for e in roots):
        return None
    bounds = [interval(a) for a in axes]
    extents = [_TYPICAL_SIZE if b.lo is None or b.hi is None else b.hi - b.lo + 1 for b in bounds]
    if math.prod(extents) > _MOST_POINTS:
        return None
    sizes: dict[Expr, int] = dict.fromkeys(sizes_in(*roots), _TYPICAL_SIZE)
    sizes.update(given or {})
    return count_points(tuple([i for i in items if i is not TRUE]), sizes)
