"""Terms of one form that are the same apart from the names of their loops are one term."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tensorad.ir.expr import Axis, Expr, axis
from tensorad.ir.visit import free_leaves, substitute_all
from tensorad.simplify.certify.outcomes import Undecided
from tensorad.simplify.readback.relations import Groups, Part, is_near, orders_of

_MOST_ORDERS: Final = 24


@dataclass(eq=False)
class Like:
    """A term and its number in two sums."""

    part: Part
    numbers: list[Fraction]
    largest: Fraction = Fraction(0)

    def is_equal(self) -> bool:
        return is_near(self.numbers[0], self.numbers[1], self.largest)

    def on(self, side: int) -> Part:
        p = self.part
        return Part(self.numbers[side], p.place, p.loops, p.where, p.atoms)


class Likes:
    """Keys of terms: equal terms over other loops have equal keys."""

    def __init__(self) -> None:
        self.loops: dict[tuple[object, ...], Axis] = {}
        self.axes: dict[Expr, tuple[Axis, ...]] = {}

    def differences(
        self, sides: tuple[Sequence[Part], Sequence[Part]], groups: Groups
    ) -> tuple[list[Part], list[Part]]:
        """What is left of two sums of one form when what they share goes."""
        one, other = self._left(sides, self._key)
        if not (one or other) or all(len(group) == 1 for group in groups):
            return one, other
        try:
            orders = orders_of(groups, _MOST_ORDERS)
        except Undecided:
            return one, other

        def least(p: Part, place: Sequence[Expr]) -> Hashable:
            """Factors of one form are in the order that has the least key."""
            return min([self._key(p, [place[k] for k in order]) for order in orders], key=hash)

        return self._left((one, other), least)

    def _left(
        self,
        sides: tuple[Sequence[Part], Sequence[Part]],
        key: Callable[[Part, Sequence[Expr]], Hashable],
    ) -> tuple[list[Part], list[Part]]:
        found: dict[Hashable, Like] = {}
        for side, parts in enumerate(sides):
            for p in parts:
                like = found.setdefault(key(p, p.place), Like(p, [Fraction(0), Fraction(0)]))
                like.numbers[side] += p.number
                like.largest = max(like.largest, abs(p.number))
        left = [like for like in found.values() if not like.is_equal()]
        one, other = ([k.on(n) for k in left if k.numbers[n]] for n in range(2))
        return one, other

    def _key(self, p: Part, place: Sequence[Expr]) -> Hashable:
        if not p.loops:
            return (), tuple(place), frozenset(p.where)
        new: dict[Expr, Expr] = {}
        for n, a in enumerate(self._in_order(p, place)):
            bounds = substitute_all((a.lower, a.upper, a.step), new)
            name = (n, *bounds)
            if name not in self.loops:
                self.loops[name] = axis(f"l{n}", *bounds)
            new[a] = self.loops[name]
        where = frozenset(substitute_all(p.where, new))
        some = tuple(dict.fromkeys(place))
        images = dict(zip(some, substitute_all(some, new), strict=True))
        return tuple(new.values()), tuple([images[e] for e in place]), where

    def _in_order(self, p: Part, place: Sequence[Expr]) -> list[Axis]:
        """The loops in the order in which they are used, each after those that it depends on."""
        left = dict.fromkeys(p.loops)
        order: list[Axis] = []

        def take(e: Expr) -> None:
            for a in self.axes_of(e):
                if a in left:
                    del left[a]
                    for bound in (a.lower, a.upper, a.step):
                        take(bound)
                    order.append(a)

        for e in dict.fromkeys((*place, *p.where, *p.loops)):
            take(e)
        return order

    def axes_of(self, e: Expr) -> tuple[Axis, ...]:
        """The axes that an expression depends on."""
        found = self.axes.get(e)
        if found is None:
            found = tuple([a for a in free_leaves(e) if isinstance(a, Axis)])
            self.axes[e] = found
        return found
