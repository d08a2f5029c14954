"""Facts about indices beside each other, or made of neighbouring elements, are tested as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from tensorad.codegen.index_checks.facts import (
    Elements,
    Fact,
    Form,
    counts,
    elements_of,
    short_circuit_and,
)
from tensorad.ir.cached import cached_property
from tensorad.ir.expr import ZERO, Axis, Expr, axis, read
from tensorad.ir.visit import free_leaves
from tensorad.simplify.index.linear import Linear, linear_form

Range = tuple[Linear, Linear]
"""The first index and the one behind the last."""
Box = tuple[Range, ...]


@dataclass(frozen=True, eq=False)
class Joint:
    """Facts that hold if and only if low <= value < end at the points of `axes`.

    Attributes:
        guards: each is evaluated only where those before it hold.
        value: without a constant.
    """

    facts: tuple[Fact, ...]
    axes: tuple[Axis, ...]
    guards: tuple[Expr, ...]
    value: Linear
    low: int
    end: Linear

    @property
    def index(self) -> Expr:
        """The value counted from `low`, as indices are modulo 2**64: it lies in [0, limit)."""
        return self.value.plus(Linear({}, -self.low)).to_expr()

    @property
    def limit(self) -> Expr:
        return self.end.plus(Linear({}, -self.low)).to_expr()

    @property
    def guard(self) -> Expr:
        """The guards as one condition."""
        return short_circuit_and(self.guards)

    @cached_property
    def form(self) -> Form:
        """The value in terms that its own axes do not occur in."""
        return Form(self.axes, self.guards, self.value.to_expr())

    @cached_property
    def elements(self) -> Elements | None:
        """The value as one that is made of each element of a tensor in a box, if it is."""
        return elements_of(self.axes, self.guards, self.value.to_expr(), ZERO)


Part = tuple[tuple[Joint, ...], Box]
"""Tests, and the box of all elements they are about."""


def joined(facts: Sequence[Fact]) -> list[Joint]:
    """The facts, those together that one test decides, in the order of the first of each.

    n[i], n[i] + 1 and n[i] + k for all k < 4 lie inside if the least and the largest of them do.
    If p[i, 0], p[i, 1] and p[i, 2] have to be in one range, all elements of p have to be.
    """
    order = {f: n for n, f in enumerate(facts)}
    families: dict[object, list[Joint]] = {}
    for j in map(_alone, facts):
        key = (j.form.shape, frozenset(j.form.guards), frozenset(j.end.terms.items()))
        families.setdefault(key, []).append(j)
    alike: dict[object, list[Joint]] = {}
    for family in families.values():
        j = _widest(family)
        e = j.elements
        ends = (j.low, j.end.constant, frozenset(j.end.terms.items()))
        alike.setdefault(j if e is None else (e.value, *ends), []).append(j)
    found = [j for group in alike.values() for j in _united(group)]
    in_order = [replace(j, facts=tuple(sorted(j.facts, key=order.__getitem__))) for j in found]
    return sorted(in_order, key=lambda j: order[j.facts[0]])


def _alone(f: Fact) -> Joint:
    """The test of one fact; an axis that its index counts along is no loop of it."""
    form, axes = linear_form(f.index), f.axes
    first = last = form.constant
    if axes and _is_range(f, axes[-1]):
        *_, a = axes
        low, above = linear_form(a.lower).constant, linear_form(a.upper).constant
        first, last, axes = first + low, last + above - 1, axes[:-1]
        form = form.plus(linear_form(a), -1)
    value, extent = Linear(form.terms, 0), linear_form(f.extent)
    return Joint((f,), axes, f.guards, value, -first, extent.plus(Linear({}, -last)))


def _is_range(f: Fact, a: Axis) -> bool:
    """Whether the index takes all of a range along an axis, the same wherever its loop runs."""
    return bool(a.extent) and counts(f.index, a) and a not in free_leaves(*f.guards)


def _widest(family: Sequence[Joint]) -> Joint:
    """The test of all that are about one value in equal loops, as the first of them has it."""
    first, *_ = family
    facts = tuple([f for j in family for f in j.facts])
    end = min([j.end for j in family], key=lambda e: e.constant)
    return replace(first, facts=facts, low=max(j.low for j in family), end=end)


def _united(alike: Sequence[Joint]) -> list[Joint]:
    """Tests that ask the same of elements in boxes side by side, as one of all these elements."""
    boxes = [(j, _box(j.elements)) for j in alike]
    parts: list[Part] = [((j,), box) for j, box in boxes if box is not None]
    todo = [*combinations(parts, 2)]
    while todo:
        a, b = todo.pop(0)
        whole = _union(a[1], b[1])
        if whole is None:
            continue
        parts = [p for p in parts if p is not a and p is not b]
        todo = [pair for pair in todo if not any(p is a or p is b for p in pair)]
        joint: Part = ((*a[0], *b[0]), whole)
        todo.extend([(p, joint) for p in parts])
        parts.append(joint)
    alone = [j for j, box in boxes if box is None]
    return [*alone, *[j for members, box in parts for j in _over(members, box)]]


def _box(e: Elements | None) -> Box | None:
    """The box of elements that are all there is in the value, and meet no guard."""
    if e is None or not e.complete or any(e.rest):
        return None
    found = [(first, end) for first, end in e.box if first is not None and end is not None]
    return tuple(found) if len(found) == len(e.box) else None


def _union(a: Box, b: Box) -> Box | None:
    """The elements of two boxes as one, if one ends in one dimension where the other begins."""
    differ = [d for d, (p, q) in enumerate(zip(a, b, strict=True)) if not _is_equal(p, q)]
    if len(differ) != 1:
        return None
    (d,) = differ
    for (first, middle), (begin, end) in ((a[d], b[d]), (b[d], a[d])):
        if _is_same(middle, begin):
            return (*a[:d], (first, end), *a[d + 1 :])
    return None


def _over(members: Sequence[Joint], box: Box) -> Sequence[Joint]:
    """One test of a box in the place of several of its parts, if no row was cut into them.

    A row that is whole again is as good: it goes on with the next one.
    """
    first, *others = members
    e = first.elements
    if not others or e is None:
        return members
    row, cut = box[-1], [p for j in members for p in (_box(j.elements) or box)[-1:]]
    whole = _is_equal(row, (Linear({}, 0), e.shape[-1]))
    if not whole and not all(_is_equal(p, row) for p in cut):
        return members
    tensor, factor, _ = e.value
    axes = tuple([axis(f"i{d}", *[b.to_expr() for b in ends]) for d, ends in enumerate(box)])
    value = Linear({e.of(read(tensor, axes)): factor}, 0)
    facts = tuple([f for j in members for f in j.facts])
    return (replace(first, facts=facts, axes=axes, value=value),)


def _is_equal(a: Range, b: Range) -> bool:
    return all(map(_is_same, a, b))


def _is_same(a: Linear, b: Linear) -> bool:
    difference = a.plus(b, -1)
    return not difference.terms and not difference.constant
