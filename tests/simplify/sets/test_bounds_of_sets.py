"""Bounds, strides, values and points of integer sets, point by point; sizes may be 0."""

from __future__ import annotations

from typing import Final

import pytest

from tensorad.ir.dtypes import INT8
from tensorad.ir.expr import (
    FALSE,
    TRUE,
    Expr,
    axis,
    call,
    cast,
    int_const,
    logical_and,
    logical_or,
    mod,
    select,
    size_var,
)
from tensorad.ir.visit import free_leaves
from tensorad.simplify.domain import polyhedral
from tensorad.simplify.domain.convex_loops import Unsolved
from tensorad.simplify.domain.polyhedral import solve_affine
from tensorad.simplify.domain.solution import Piece, as_given
from tensorad.simplify.sets.integer_set import IntegerSet, find_point
from tensorad.simplify.sets.space import NotAffine, Space
from tests.support.oracles import check_solution, evaluate

P, I = axis("p", 0, 9), axis("i", -9, 20)  # noqa: E741
SPACE: Final = Space([P], [I])
N = size_var("n")


def equals(a: Expr, b: Expr | int) -> Expr:
    return call("eq", a, int_const(b) if isinstance(b, int) else b)


SETS: Final = {
    "halves": logical_and(2 * I >= P, 3 * I <= 17 + P),
    "double": equals(2 * I, P),
    "sum": equals(I + P, 4),
    "two ranges": logical_or(
        logical_and(I >= P, I <= P + 1), logical_and(I >= 2 * P + 3, I <= 2 * P + 5)
    ),
}


@pytest.mark.parametrize("name", SETS)
def test_bounds_hold_and_are_met(name: str) -> None:
    inside = logical_and(P >= 0, P < 9, I >= -9, I < 20)
    lowers, uppers = IntegerSet.of(SPACE, inside, SETS[name]).bounds(I)
    for p in range(9):
        met = [i for i in range(-9, 20) if evaluate(SETS[name], {P: p, I: i})]
        if met:
            low = max(evaluate(e, {P: p}) for e in lowers)
            high = min(evaluate(e, {P: p}) for e in uppers)
            assert low <= met[0] and high >= met[-1]
            if name != "two ranges":
                assert (low, high) == (met[0], met[-1])
    assert lowers and uppers


def test_a_value_by_cases() -> None:
    by_case = logical_or(
        logical_and(P < 3, equals(I, P + 7)), logical_and(P >= 3, equals(I, 2 * P))
    )
    value = IntegerSet.of(SPACE, P >= 0, P < 9, by_case).value_of(I)
    assert value is not None
    assert [evaluate(value, {P: p}) for p in range(9)] == [7, 8, 9, 6, 8, 10, 12, 14, 16]


CONDITIONS: Final = {
    "remainder by -3": equals(mod(I, int_const(-3)), -2),
    "quotient by -3": equals(call("floordiv", I, int_const(-3)), -2),
    "choice": select(P < 4, I < 2, I > 5),
    "choice of none": select(P < 4, FALSE, I > 5),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_are_what_they_say(name: str) -> None:
    made = IntegerSet.of(SPACE, CONDITIONS[name])
    for p in range(9):
        for i in range(-9, 20):
            at = IntegerSet.of(SPACE, equals(P, p), equals(I, i))
            assert at.is_subset(made) == bool(evaluate(CONDITIONS[name], {P: p, I: i}))


def test_a_conversion_that_wraps_is_not_affine() -> None:
    with pytest.raises(NotAffine):
        IntegerSet.of(SPACE, equals(cast(I + 120, INT8), -128))


def test_sizes_may_be_0() -> None:
    found = find_point([], N < 1)
    assert found is not None and found[N] == 0
    assert find_point([], N < 1, N >= 1) is None
    assert find_point([axis("a", 0, N)], N < 1) is None


def test_plans_know_which_axes_are_outer() -> None:
    x, k = axis("x", 0, 5), axis("k", 0, 7)
    same = equals(x, k)
    check_solution([x], [k], same, solve_affine([x], [k], [same]))
    check_solution([], [x, k], same, solve_affine([], [x, k], [same]))
    check_solution([x], [k], same, solve_affine([x], [k], [same]))


def test_many_pieces_are_tested_point_by_point() -> None:
    k = axis("k", 0, 400)
    squares = logical_or(*[equals(k, n * n) for n in range(20)])
    solution = solve_affine([], [k], [squares])
    check_solution([], [k], squares, solution)
    assert not solution.exact and "pieces" in solution.reason


def test_empty_sizes_have_no_points() -> None:
    x, k = axis("x", 0, 3), axis("k", 0, N)
    first = equals(k, 0)
    for n in (0, 1, 4):
        check_solution([x], [k], first, solve_affine([x], [k], [first]), {N: n})
    assert any(p.guard is not TRUE for p in solve_affine([x], [k], [first]).pieces)


def test_parts_without_loops_of_their_own_are_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    x, k = axis("x", 0, 6), axis("k", 0, 11)
    condition = logical_and(2 * k >= x, k <= x + 1, equals(mod(k, int_const(2)), 0))

    def unsolved(*_: object) -> Piece:
        raise Unsolved("k")

    monkeypatch.setattr(polyhedral, "plan_part", unsolved)
    solution = solve_affine([x], [k], [condition])
    check_solution([x], [k], condition, solution)
    assert not solution.exact and solution.reason == "k"


def test_a_plan_that_tests_its_points_is_not_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    x, k = axis("x", 0, 6), axis("k", 0, 12)
    condition = logical_and(2 * k >= x, k <= x + 1, equals(mod(k, int_const(3)), 0))
    monkeypatch.setattr(polyhedral, "plan_part", lambda *_: as_given([k], condition))
    solution = solve_affine([x], [k], [condition])
    check_solution([x], [k], condition, solution)
    assert not solution.exact and "loop bounds" in solution.reason


@pytest.mark.parametrize("turned", [False, True])
def test_an_equation_of_two_dims_bounds_both(turned: bool) -> None:
    j = axis("j", -30, 30)
    dims = [j, I] if turned else [I, j]
    inside = logical_and(I >= 0, I < 6, j >= -30, j < 30)
    made = IntegerSet.of(Space([], dims), inside, equals(j, 2 * I - 3))
    for a, other in ((I, j), (j, I)):
        lowers, uppers = made.bounds(a)
        for i in range(6):
            at = {I: i, j: 2 * i - 3}
            point = {other: at[other]}
            free = [e for e in lowers if a not in free_leaves(e)]
            assert max(evaluate(e, point) for e in free) == at[a]
            assert min(evaluate(e, point) for e in uppers) == at[a]
