"""Sums of one form compared as relations between elements and places, by isl."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import permutations, product
from typing import Any, Final

import islpy as isl

from tensorad import config
from tensorad.ir.analysis.facts import facts_about
from tensorad.ir.expr import Axis, Expr
from tensorad.simplify.certify.outcomes import Refuted, Undecided
from tensorad.simplify.readback.isl_texts import Scope, Texts
from tensorad.simplify.readback.places import Place

_thread = threading.local()
_PATIENCE: Final = 4
_ROUNDING: Final = Fraction(1, 10**5)
"""Numbers are equal up to this: those of formulas are rounded when they are multiplied."""
MOST_ORDERS: Final = 6

Orders = list[tuple[int, ...]]
Groups = Sequence[Sequence[Sequence[int]]]


@dataclass(frozen=True, eq=False)
class Part:
    """number * the values at these places, summed over the loops' points that meet conditions."""

    number: Fraction
    place: Place
    loops: tuple[Axis, ...]
    where: tuple[Expr, ...]
    atoms: Mapping[Expr, int] = field(default_factory=dict)
    """The factors that have these places, and their powers."""


def compare_relations(
    outer: Sequence[Axis],
    one: Sequence[Part],
    other: Sequence[Part],
    groups: Groups,
) -> None:
    """Whether two sums of values of one form are the same for each value of the outer axes.

    Args:
        groups: the positions in places that belong to each factor; equal factors' together.
    Raises:
        Undecided: isl cannot tell.
        Refuted: they visit other places, or with other numbers.
    """
    context = _context()
    limit = _PATIENCE * config.current().isl_operations
    context.reset_operations()
    context.set_max_operations(limit)
    try:
        _compare(context, outer, one, other, orders_of(groups))
    except (
        isl.Error,
        TypeError,
        AttributeError,
    ) as error:  # islpy may use what isl did not give it
        raise Undecided(f"isl gives up: {error}") from None
    finally:
        context.set_max_operations(0)
        context.reset_operations()


def _context() -> Any:
    if not hasattr(_thread, "context"):
        _thread.context = isl.Context()
        _thread.context.set_on_error(isl.on_error.CONTINUE)
    return _thread.context


def orders_of(groups: Groups, most: int = MOST_ORDERS) -> Orders:
    """The orders in which factors of one form may be written.

    Raises:
        Undecided: they are too many.
    """
    found: list[tuple[int, ...]] = []
    for choice in product(*map(permutations, groups)):
        found.append(tuple([n for group in choice for own in group for n in own]))
        if len(found) > most:
            raise Undecided("many factors have one form")
    return found


def _compare(
    context: Any, outer: Sequence[Axis], one: Sequence[Part], other: Sequence[Part], orders: Orders
) -> None:
    texts = Texts(outer)
    width = len((*one, *other)[0].place)
    bodies = [_body(texts, p) for p in (*one, *other)]
    around = texts.scope(())
    used = [around.within(a) for a in outer]
    facts = [*used, *around.defined]
    known: dict[Expr, None] = {}
    while len(known) < len(texts.sizes):
        known = dict.fromkeys(texts.sizes)
        for f in facts_about(known):
            try:
                facts.append(around.truth(f))
            except Undecided:
                continue  # less is known
    facts += [f"{n} >= 0" for n in texts.sizes.values()]
    params = ", ".join([*texts.sizes.values(), *texts.named.values()])
    names = [*texts.outer.values(), *[f"v{n}" for n in range(width)]]
    whole = _set(context, params, names, facts, around.variables)
    weighted = []
    for n, (p, body) in enumerate(zip((*one, *other), bodies, strict=True)):
        sign = 1 if n < len(one) else -1
        for order in orders:
            made = body.set(context, params, names, order).intersect(whole)
            weighted.append((sign, p.number, made))
    for body in bodies:
        body.demand_injective(context, params, names, whole)
    try:
        _overlay(weighted)
    except Refuted as reason:
        if texts.named:  # wrong for some value of a name, perhaps not for its own
            raise Undecided(str(reason)) from None
        raise


@dataclass(frozen=True, eq=False)
class _Body:
    scope: Scope
    conditions: list[str]
    place: list[str]

    def set(self, context: Any, params: str, names: Sequence[str], order: Sequence[int]) -> Any:
        at = [f"v{n} = {self.place[k]}" for n, k in enumerate(order)]
        inner = [*self.scope.loops.values(), *self.scope.variables]
        return _set(context, params, names, [*self.conditions, *at], inner)

    def demand_injective(self, context: Any, params: str, names: Sequence[str], whole: Any) -> None:
        """Each point of the loops has a place of its own."""
        left = [v for v in self.scope.loops.values() if v not in self.place]
        if not left:
            return
        at = [f"v{n} = {p}" for n, p in enumerate(self.place)]
        inner = [v for v in self.scope.loops.values() if v in self.place]
        variables = [*inner, *self.scope.variables]
        bound = f"exists ({', '.join(variables)} : " if variables else "("
        text = f"[{params}] -> {{ [{', '.join(names)}] -> [{', '.join(left)}] : "
        text += f"{bound}{' and '.join([*self.conditions, *at, '0 = 0'])}) }}"
        if not isl.Map(text, context).intersect_domain(whole).is_single_valued():
            raise Undecided("several points have one place")


def _body(texts: Texts, p: Part) -> _Body:
    scope = texts.scope(p.loops)
    conditions = [scope.within(a) for a in p.loops]
    conditions += [scope.truth(c) for c in p.where]
    place = [scope.number(e) for e in p.place]
    return _Body(scope, [*conditions, *scope.defined], place)


def _set(
    context: Any, params: str, names: Sequence[str], conditions: Sequence[str], inner: Sequence[str]
) -> Any:
    body = " and ".join([*conditions, "0 = 0"])
    bound = f"exists ({', '.join(inner)} : {body})" if inner else body
    return isl.Set(f"[{params}] -> {{ [{', '.join(names)}] : {bound} }}", context)


def _overlay(weighted: Sequence[tuple[int, Fraction, Any]]) -> None:
    """The signed sum of numbers on sets is 0 everywhere.

    Raises:
        Refuted: it is not.
    """
    sides: tuple[list[Any], list[Any]] = ([], [])
    for sign, _, s in weighted:
        sides[sign < 0].append(s)
    numbers = [n for _, n, _ in weighted]
    if close(min(numbers), max(numbers)) and all(map(_are_disjoint, sides)):
        first, second = map(_union, sides)
        if first is None or second is None:
            if not (first or second).is_empty():
                raise Refuted("a sum visits what the other does not")
        elif not first.is_subset(second):
            raise Refuted("places of the naive sum are not visited")
        elif not second.is_subset(first):
            raise Refuted("places are visited that the naive sum does not visit")
        return
    largest = max(abs(n) for n in numbers)
    pieces: list[tuple[Fraction, Any]] = []
    for sign, n, s in weighted:
        added: list[tuple[Fraction, Any]] = []
        rest = s
        for total, there in pieces:
            both = there.intersect(s)
            if both.is_empty():
                added.append((total, there))
                continue
            added += [(total + sign * n, both), (total, there.subtract(s))]
            rest = rest.subtract(there)
        pieces = [*added, (sign * n, rest)]
    for total, s in pieces:
        if abs(total) > _ROUNDING * largest and not s.is_empty():
            raise Refuted("places are visited with another factor")


def close(a: Fraction, b: Fraction) -> bool:
    return is_near(a, b, max(abs(a), abs(b)))


def is_near(a: Fraction, b: Fraction, largest: Fraction) -> bool:
    return abs(a - b) <= _ROUNDING * largest


def _are_disjoint(sets: Sequence[Any]) -> bool:
    return all(s.is_disjoint(t) for n, s in enumerate(sets) for t in sets[:n])


def _union(sets: Sequence[Any]) -> Any:
    total = None
    for s in sets:
        total = s if total is None else total.union(s)
    return total
