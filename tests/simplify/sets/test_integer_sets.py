"""Integer sets against brute force over small boxes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest

from tensorad.ir.expr import Expr, axis, call, int_const, logical_and, logical_or, mod
from tensorad.simplify.sets.integer_set import IntegerSet, find_point
from tensorad.simplify.sets.space import BudgetExceeded, NotAffine, Space, budget
from tensorad.simplify.sets.visit_points import (
    Loop,
    Point,
    Scanning,
    are_disjoint,
    count_points,
    scan_in_order,
    subtract,
)
from tensorad.simplify.sets.visit_points import (
    Test as Branch,
)
from tests.support.oracles import evaluate

P, Q = axis("i", 0, 6), axis("j", 0, 5)
BOX = logical_and(P >= 0, P < 6, Q >= 0, Q < 5)
SPACE = Space([], [P, Q])
CONDITIONS = {
    "all": P >= 0,
    "none": P > Q + 9,
    "below": Q <= P,
    "even": call("eq", mod(P + Q, int_const(2)), int_const(0)),
    "band": logical_and(P - Q <= 1, Q - P <= 1),
    "two parts": logical_or(P < 2, Q > 3),
}


def made(condition: Expr) -> IntegerSet:
    return IntegerSet.of(SPACE, BOX, condition)


def listed(condition: Expr) -> set[tuple[int, int]]:
    """By enumeration."""
    return {(i, j) for i, j in product(range(6), range(5)) if evaluate(condition, {P: i, Q: j})}


@pytest.mark.parametrize("name", CONDITIONS)
def test_points_are_counted_and_found(name: str) -> None:
    s, want = made(CONDITIONS[name]), listed(CONDITIONS[name])
    assert count_points(s) == len(want)
    assert s.is_empty() == (not want)
    first = s.sample()
    assert (None if first is None else (first[P], first[Q])) == min(want, default=None)
    point = find_point([P, Q], CONDITIONS[name])
    assert (point is None) == (not want)
    if want:
        assert s.static_range(P) == (min(i for i, _ in want), max(i for i, _ in want))
        assert int(s.largest(P + Q) or 0) == max(i + j for i, j in want)


@pytest.mark.parametrize("first", CONDITIONS)
@pytest.mark.parametrize("second", ["below", "band", "none"])
def test_set_operations_are_those_of_points(first: str, second: str) -> None:
    a, b = made(CONDITIONS[first]), made(CONDITIONS[second])
    x, y = listed(CONDITIONS[first]), listed(CONDITIONS[second])
    assert count_points(subtract(a, b)) == len(x - y)
    assert count_points(a.intersect(b)) == len(x & y)
    assert count_points(a.minus(b)) == len(x - y)
    assert are_disjoint(a, b) == (not x & y)
    assert a.is_subset(b) == (x <= y)
    assert a.equals(b) == (x == y)
    assert a.implies(CONDITIONS[second]) == (x <= y)


@pytest.mark.parametrize("name", CONDITIONS)
def test_pieces_and_conditions_describe_the_same_points(name: str) -> None:
    s, want = made(CONDITIONS[name]), listed(CONDITIONS[name])
    assert listed(s.to_condition()) == want
    pieces = s.disjoint_pieces()
    assert sum([count_points(p) for p in pieces]) == len(want)
    assert count_points(s.restrict_to([P])) == len({i for i, _ in want})


def visited(block: Sequence[Scanning], at: dict[Expr, int]) -> list[tuple[int, ...]]:
    """Run the loops: (number of the set, its point) in order."""
    found: list[tuple[int, ...]] = []
    for s in block:
        match s:
            case Point():
                found.append((s.number, *[evaluate(v, at) for v in s.values]))
            case Loop():
                a = s.axis
                bounds = [evaluate(b, at) for b in (a.lower, a.upper, a.step)]
                for v in range(*bounds):
                    found.extend(visited(s.body, {**at, a: v}))
            case Branch():
                found.extend(visited(s.then if evaluate(s.condition, at) else s.orelse, at))
    return found


@pytest.mark.parametrize("separated", [0, 1])
def test_points_of_several_sets_are_visited_in_order(separated: int) -> None:
    names = ["below", "two parts"]
    with budget():
        loops = scan_in_order([made(CONDITIONS[n]) for n in names], separated)
    found = visited(loops, {})
    for number, n in enumerate(names):
        assert [p[1:] for p in found if p[0] == number] == sorted(listed(CONDITIONS[n]))
    assert [p[1:] for p in found] == sorted([p[1:] for p in found])


def test_products_of_axes_are_no_sets() -> None:
    with pytest.raises(NotAffine):
        made(P * Q < 3)


def test_a_budget_holds_again_after_one_inside_of_it() -> None:
    with pytest.raises(BudgetExceeded, match="7 operations"), budget(7):
        with budget():
            made(CONDITIONS["below"])
        for _ in range(8):
            made(CONDITIONS["two parts"])
