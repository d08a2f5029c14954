"""Parts of the solver on small systems, judged point by point."""

from __future__ import annotations

import pytest

from tensorad.ir.expr import TRUE, Expr, axis, call, floordiv, int_const, logical_and, mod
from tensorad.simplify.domain.convex_loops import complexity, plan_part
from tensorad.simplify.domain.identities import solve_identities
from tensorad.simplify.domain.quotients import Quotients
from tensorad.simplify.index.quasi_affine import axis_conditions
from tensorad.simplify.sets.integer_set import IntegerSet
from tensorad.simplify.sets.space import Space
from tests.support.oracles import evaluate, points

X, Y, Z = axis("x", 0, 5), axis("y", 0, 3), axis("z", 0, 2)
V = axis("v", 0, 30)


def equals(a: Expr, b: Expr | int) -> Expr:
    return call("eq", a, int_const(b) if isinstance(b, int) else b)


def test_equal_axes_and_digits_need_no_sets() -> None:
    w = axis("w", 0, 5)
    solved, left, rest = solve_identities([X], [w, V], [equals(w, X), V < 7])
    assert (solved[w], left, rest) == (X, [V], [V < 7])
    parts = [
        equals(X, floordiv(V, int_const(6))),
        equals(Y, mod(floordiv(V, int_const(2)), int_const(3))),
        equals(Z, mod(V, int_const(2))),
    ]
    solved, left, rest = solve_identities([X, Y, Z], [V], parts)
    assert (left, rest) == ([], [])
    for at in points([X, Y, Z]):
        assert evaluate(solved[V], at) == 6 * at[X] + 2 * at[Y] + at[Z]


@pytest.mark.parametrize("part", [equals(X, mod(V, int_const(5))), equals(X, V)])
def test_other_equations_are_left_to_sets(part: Expr) -> None:
    solved, left, rest = solve_identities([X], [V], [part])
    assert (solved, left, rest) == ({}, [V], [part])


def test_quotients_become_axes_of_their_own() -> None:
    found = Quotients([V])
    linear = found.linear(floordiv(V, int_const(6)) * 2 + mod(V, int_const(6)))
    (t,) = found.axes
    (definition,) = found.definitions
    for v in range(30):
        at = {V: v, t: v // 6}
        assert evaluate(linear, at) == v // 6 * 2 + v % 6
        assert evaluate(definition, at)
        assert not evaluate(definition, {V: v, t: v // 6 + 1})
    assert found.linear(floordiv(X, int_const(2))) is floordiv(X, int_const(2))


def test_divisions_are_complex() -> None:
    assert complexity(floordiv(V, int_const(2))) > complexity(V + 2)


@pytest.mark.parametrize(
    "condition",
    [
        equals(V, X * 3 + 1),
        logical_and(V >= X, V < X + 4),
        equals(mod(V - X, int_const(4)), 0),
    ],
)
def test_loops_over_a_part_visit_its_points(condition: Expr) -> None:
    space = Space([X], [V])
    known = logical_and(axis_conditions(X), TRUE)
    part = IntegerSet.of(space, known, axis_conditions(V), condition)
    piece = plan_part(part, IntegerSet.of(space, known), known)
    for x in range(5):
        found = []
        for at in points(piece.axes, {X: x}):
            if evaluate(piece.guard, {X: x}) and evaluate(piece.residual, at):
                found.append(evaluate(piece.values[V], at))
        want = [v for v in range(30) if evaluate(condition, {X: x, V: v})]
        assert sorted(found) == want
