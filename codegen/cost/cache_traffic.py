"""How many bytes the loops of a nest move through the caches, and which order moves the fewest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, prod

from tensorad.codegen.loops.index_ranges import Ranges, among
from tensorad.codegen.model import MODEL, Model
from tensorad.codegen.nest.access import Access, extent_of, fold_accesses, outer_accesses
from tensorad.codegen.nest.ir import Nest
from tensorad.ir.analysis.sizes import assumed_elements
from tensorad.ir.expr import Axis

CLEARLY_LESS = 0.8
"""The written order of the loops is kept unless another moves this share of its bytes."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """What a choice of lanes, width and tile costs."""

    cost: float
    vector: Axis | None
    width: int
    jam: Mapping[Axis, int]


def extent_product(axes: Iterable[Axis]) -> float:
    """How many points the axes span, at most; symbolic extents count as assumed."""
    axes = list(axes)
    ranges = Ranges(axes)
    return prod(float(extent_of(a, ranges)) for a in axes)


def bytes_moved(nest: Nest) -> float:
    """Bytes the nest touches, each counted once per access."""
    every = [*nest.axes, *[a for f in nest.folds for a in f.axes]]
    ranges = Ranges(every)
    sizes = {a: extent_of(a, ranges) for a in every}
    return sum(_footprint(x, sizes) for x in (*outer_accesses(nest), *fold_accesses(nest)))


def best_order(nest: Nest, choice: Estimate, model: Model) -> tuple[Axis, ...]:
    """The output axes in the order that moves the fewest bytes through the caches."""
    base = [a for a in nest.axes if a is not choice.vector]
    if among(choice.vector, nest.axes):
        base.append(choice.vector)  # type: ignore[arg-type]  # it is an axis here
    orders = [tuple(base)]
    for a in base[1:]:
        orders.append((a, *[b for b in base if b is not a]))
    accesses = fold_accesses(nest) + outer_accesses(nest)
    costs = [_traffic(nest, o, choice, accesses, model) for o in orders]
    best = min(range(len(orders)), key=costs.__getitem__)
    return orders[best] if costs[best] < CLEARLY_LESS * costs[0] else orders[0]


def _traffic(
    nest: Nest, order: Sequence[Axis], choice: Estimate, accesses: Sequence[Access], model: Model
) -> float:
    """Bytes from memory, and a quarter of those from the last cache."""
    reduced = [a for f in nest.folds for a in f.axes]
    ranges = Ranges([*order, *reduced])
    sizes = {a: extent_of(a, ranges) for a in [*order, *reduced]}
    steps = {a: sizes[a] / choice.jam.get(a, 1) for a in order}
    if choice.vector in steps:
        steps[choice.vector] = sizes[choice.vector] / max(1, choice.width)
    total = 0.0
    for capacity, weight in model.kept:
        trips = 1.0
        for depth in range(len(order) + 1):
            inside = {a: sizes[a] for a in [*order[depth:], *reduced]}
            for a in order[:depth]:
                inside[a] = choice.jam.get(a, choice.width if a is choice.vector else 1)
            footprint = [_footprint(x, inside) for x in accesses]
            if sum(footprint) <= capacity or depth == len(order):
                total += weight * trips * sum(footprint)
                break
            trips *= max(1.0, steps[order[depth]])
    return total


def _footprint(x: Access, extents: Mapping[Axis, int]) -> float:
    """Bytes an access touches while the axes run over these extents, in whole cache lines."""
    size = x.tensor.dtype.size_bytes
    line = MODEL.line // size
    span, count, elements = 1, 1, 1.0
    for a, n in extents.items():
        if a not in x.uses:
            continue
        n = max(n, 1)  # an empty loop touches nothing, whatever its order
        elements *= n
        stride = x.stride(a)
        if stride and abs(stride) < line:  # neighbours share lines
            span += (n - 1) * abs(stride)
            count *= n
    touched = elements / count * ceil(span / line) * line
    return min(touched, max(float(assumed_elements(x.tensor.shape)), 1.0)) * size
