"""In which order a product of many factors is summed: the one whose loops run least often.

A factor is the set of the letters it depends on; sets of letters, and of factors, are bit masks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

_MOST_EXACT: Final = 8
"""Of more factors the pairs that shrink most are joined first."""


@dataclass(frozen=True)
class ProductStep:
    """One nest of loops: the product of its parts, summed over the letters it does not keep.

    Attributes:
        parts: factors, by position, and results of other steps.
        letters: what its loops run over.
        kept: the letters of its result.
    """

    parts: tuple[int | ProductStep, ...]
    letters: int
    kept: int


@dataclass(frozen=True)
class _Found:
    """The best step for some operands: iterations, elements stored and steps, in this order."""

    cost: tuple[int, int, int]
    step: ProductStep


@dataclass(frozen=True)
class _Operand:
    """Factors that are always multiplied together, and their letters."""

    parts: tuple[int | ProductStep, ...]
    letters: int


def best_order(
    factors: Sequence[int], output: int, extents: Sequence[int], *, keeps_order: bool = False
) -> ProductStep:
    """The last step of the order with the fewest iterations, of those with the least to store.

    Of up to eight factors (not counting those whose letters another one has) none costs less.

    Args:
        factors: the letters of each.
        output: the letters of the result, which loop even where no factor has them.
        extents: of each letter.
        keeps_order: letters are summed in their order: none before one that comes after it.
    """
    count = _Points(extents)
    union = output | _union(factors)
    written = ProductStep(tuple(range(len(factors))), union, output)
    if 0 in extents:
        return written  # the loops as written run never
    operands = _operands([*factors, output & ~_union(factors)])
    if len(operands) > _MOST_EXACT:
        if keeps_order:
            return written
        operands = _joined(operands, output, count)
    found = _Search(operands, output, count, keeps_order).whole()
    return found if iterations(found, extents) < count(union) else written


def iterations(step: ProductStep, extents: Sequence[int]) -> int:
    """How often the bodies of the loops of a step, and of those it needs, run."""
    count = _Points(extents)
    return sum([count(s.letters) for s in steps(step)])


def steps(last: ProductStep) -> list[ProductStep]:
    """The step and those it needs, each before the one that reads it."""
    return [s for p in last.parts if isinstance(p, ProductStep) for s in steps(p)] + [last]


class _Points(dict[int, int]):
    """A set of letters -> the product of their extents."""

    def __init__(self, extents: Sequence[int]) -> None:
        super().__init__()
        self.extents = extents

    def __call__(self, letters: int) -> int:
        return self[letters]

    def __missing__(self, letters: int) -> int:
        product = 1
        for n in _bits(letters):
            product *= self.extents[n]
        self[letters] = product
        return product


def _operands(factors: Sequence[int]) -> list[_Operand]:
    """The factors; one whose letters another has as well is multiplied where that is read."""
    hosts: dict[int, list[int]] = {}
    for n, mask in enumerate(factors):
        if all(
            mask & ~other or (mask == other and m > n) for m, other in enumerate(factors) if m != n
        ):
            hosts[n] = []
    for n, mask in enumerate(factors[:-1]):  # the last one stands for letters without a factor
        next(own for host, own in hosts.items() if not mask & ~factors[host]).append(n)
    return [_Operand(tuple(own), factors[n]) for n, own in hosts.items()]


def _joined(operands: list[_Operand], output: int, count: _Points) -> list[_Operand]:
    """Eight operands: of more, the two whose product is smaller than they are by most are one."""
    found = list(operands)
    for n, o in enumerate(found):
        kept = o.letters & (output | _union([p.letters for p in found if p is not o]))
        if kept != o.letters:
            found[n] = _Operand((ProductStep(o.parts, o.letters, kept),), kept)
    while len(found) > _MOST_EXACT:
        best: tuple[int, int] | None = None
        chosen = found[0], found[1]
        for n, a in enumerate(found):
            for b in found[n + 1 :]:
                union = a.letters | b.letters
                rest = _union([o.letters for o in found if o is not a and o is not b])
                grown = count(union & (output | rest)) - count(a.letters) - count(b.letters)
                if best is None or (grown, count(union)) < best:
                    best, chosen = (grown, count(union)), (a, b)
        a, b = chosen
        found = [o for o in found if o is not a and o is not b]
        union, parts = a.letters | b.letters, (*a.parts, *b.parts)
        kept = union & (output | _union([o.letters for o in found]))
        if kept != union:
            parts = (ProductStep(parts, union, kept),)
        found.append(_Operand(parts, kept))
    return found


@dataclass(frozen=True, slots=True)
class _Way:
    """Some groups of a step.

    Attributes:
        left: operands without a group.
        letters: what the step loops over at least.
        points: iterations of the steps inside.
        elements: what these store.
        steps: how many there are, this one included.
        summed: the letters they sum over.
    """

    left: int
    letters: int
    points: int = 0
    elements: int = 0
    steps: int = 1
    summed: int = 0
    parts: tuple[int | ProductStep, ...] = ()


class _Search:
    """Dynamic programming over the sets of operands."""

    def __init__(
        self, operands: Sequence[_Operand], output: int, count: _Points, keeps_order: bool
    ) -> None:
        self.operands, self.count, self.keeps_order = operands, count, keeps_order
        self.all = (1 << len(operands)) - 1
        self.union = [0]
        """Sets of operands -> the letters they have."""
        for o in operands:
            self.union += [letters | o.letters for letters in self.union]
        rest = [letters | output for letters in reversed(self.union)]
        self.kept = [here & outside for here, outside in zip(self.union, rest, strict=True)]
        """Sets of operands -> the letters of their product that are needed outside of it."""
        self.found: dict[int, _Found] = {}

    def whole(self) -> ProductStep:
        """The step that makes the result."""
        return self._best(self.all).step

    def _best(self, members: int) -> _Found:
        if members not in self.found:
            self.found[members] = self._search(members)
        return self.found[members]

    def _search(self, members: int) -> _Found:
        """The cheapest way to cut the operands into groups that one step multiplies."""
        letters, kept = self.union[members], self.kept[members]
        flat = [p for n in _bits(members) for p in self.operands[n].parts]
        best = _Found((self.count(letters), 0, 1), ProductStep(tuple(flat), letters, kept))
        ways = [_Way(members, kept)]
        while ways:
            way = ways.pop()
            if self._cost(way) >= best.cost:
                continue
            if way.left:
                ways += [w for w in self._longer(way, members) if self._cost(w) < best.cost]
            elif not self.keeps_order or _is_before(way.letters & ~kept, way.summed):
                best = _Found(self._cost(way), ProductStep(way.parts, way.letters, kept))
        return best

    def _cost(self, way: _Way) -> tuple[int, int, int]:
        return (way.points + self.count(way.letters), way.elements, way.steps)

    def _longer(self, way: _Way, members: int) -> Iterator[_Way]:
        """The way with one more group: the first operand that is left and some others, or alone."""
        first = way.left & -way.left
        subset = rest = way.left ^ first
        operand = self.operands[first.bit_length() - 1]
        yield replace(
            way, left=rest, letters=way.letters | operand.letters, parts=way.parts + operand.parts
        )
        while True:
            group = first | subset
            kept = self.kept[group]
            summed = self.union[group] & ~kept
            if group != members and summed:
                inner = self._best(group)
                yield _Way(
                    way.left & ~group, way.letters | kept, way.points + inner.cost[0],
                    way.elements + inner.cost[1] + self.count(kept), way.steps + inner.cost[2],
                    way.summed | summed, (*way.parts, inner.step),
                )  # fmt: skip
            if not subset:
                return
            subset = (subset - 1) & rest


def _is_before(letters: int, others: int) -> bool:
    """Whether all letters come before all of the others."""
    return not others or letters < others & -others


def _union(masks: Sequence[int]) -> int:
    union = 0
    for mask in masks:
        union |= mask
    return union


def _bits(mask: int) -> list[int]:
    return [n for n in range(mask.bit_length()) if mask >> n & 1]
