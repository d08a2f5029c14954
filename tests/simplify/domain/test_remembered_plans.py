"""What is remembered between programs is not taken for others: facts, tables, conditions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import tensorad as ta
from tensorad.ir.analysis.facts import assume, forget_facts
from tensorad.ir.arrays.constants import constant
from tensorad.ir.expr import TRUE, Expr, axis, call, int_const, read
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import placeholders
from tensorad.simplify.domain.listed_points import fold_constant_reads
from tensorad.simplify.domain.polyhedral import solve_affine
from tests.support.oracles import evaluate, points


@pytest.fixture(autouse=True)
def _no_facts_left() -> Iterator[None]:
    forget_facts()
    yield
    forget_facts()


def first_of(n: Expr) -> Tensor:
    """t[i] = A[i] if there is a k below n."""
    k = ta.reduce_axis(n, name="k")
    a = ta.placeholder((3,), "float64", name="A")
    t = ta.compute((3,), lambda i: ta.sum(ta.select(k == 0, a[i], 0.0), axis=k), name="t")
    return ta.OptimizeAndLiftNonzeronessConditions(t)


def guards(n: Expr) -> list[Expr]:
    k = axis("k", 0, n)
    return [p.guard for p in solve_affine([], [k], [call("eq", k, int_const(0))]).pieces]


def test_facts_are_used_and_given_up() -> None:
    n = ta.size("n")
    assert not any(g is TRUE for g in guards(n))
    assume(n >= 1)
    assert all(g is TRUE for g in guards(n))
    forget_facts()
    assert not any(g is TRUE for g in guards(n))


def test_a_body_derived_under_facts_is_not_used_without() -> None:
    n = ta.size("n")
    assume(n >= 1)
    first_of(n)
    forget_facts()
    t = first_of(n)
    (a,) = placeholders([t])
    for extent, want in ((0, [0.0] * 3), (2, [1.0, 2.0, 3.0])):
        (found,) = interpret([t], {a: np.array([1.0, 2.0, 3.0])}, sizes={"n": extent})
        assert found.tolist() == want


def taken(n: Expr) -> tuple[Tensor, Tensor]:
    """t[i] = X[i] for i < 4, 0 beyond, over n elements."""
    k = ta.reduce_axis(4, name="k")
    x = ta.placeholder((4,), "float64", name="X")
    t = ta.compute((n,), lambda i: ta.sum(ta.select(k == i, x[k], 0.0), axis=k), name="t")
    return ta.OptimizeAndLiftNonzeronessConditions(t), x


def test_facts_about_extents_alone_are_given_up() -> None:
    n = ta.size("n")
    assume(n <= 4)
    taken(n)
    forget_facts()
    t, x = taken(n)
    (found,) = interpret([t], {x: np.arange(1.0, 5.0)}, sizes={"n": 6})
    assert found.tolist() == [1, 2, 3, 4, 0, 0]


def test_tables_are_told_apart_by_their_values() -> None:
    k = ta.reduce_axis(4, name="k")
    x = ta.placeholder((4,), "float64", name="X")
    for values in ([0, 1, 2], [0, 1, 7], [3, -1, 2]):
        p = constant(np.array(values))
        t = ta.compute((3,), lambda i: ta.sum(ta.select(k == p[i], x[k], 0.0), axis=k), name="t")
        lifted = ta.OptimizeAndLiftNonzeronessConditions(t)
        found = ta.evaluate(lifted, {x: np.arange(1.0, 5.0)})
        assert np.asarray(found).tolist() == [v + 1.0 if 0 <= v < 4 else 0.0 for v in values]


def test_what_tables_make_true_is_not_true_of_others() -> None:
    k = ta.reduce_axis(4, name="k")
    x = ta.placeholder((4,), "float64", name="X")
    for values in ([3, 3, 3, 3], [0, 1, 2, 2], [0, 1, 7, 2]):
        p = constant(np.array(values))
        t = ta.compute(
            (4,),
            lambda i: ta.sum(ta.select((k == i) & (p[k] < 3), x[k], 0.0), axis=k),
            name="t",
        )
        lifted = ta.OptimizeAndLiftNonzeronessConditions(t)
        found = ta.evaluate(lifted, {x: np.arange(1.0, 5.0)})
        assert np.asarray(found).tolist() == [
            n + 1.0 if v < 3 else 0.0 for n, v in enumerate(values)
        ]


def test_points_that_a_table_lists_are_its_own() -> None:
    k = ta.reduce_axis(4, name="k")
    x = ta.placeholder((4,), "float64", name="X")
    for values in ([0, 1, 2, 2], [3, 1, 0, 0], [7, -1, 1, 1]):
        p = constant(np.array(values))
        t = ta.compute((4,), lambda i: ta.sum(x[k], axis=k, where=p[k] == i), name="t")
        lifted = ta.OptimizeAndLiftNonzeronessConditions(t)
        found = ta.evaluate(lifted, {x: np.arange(1.0, 5.0)})
        want = np.zeros(4)
        for n, v in enumerate(values):
            if 0 <= v < 4:
                want[v] += n + 1.0
        assert np.asarray(found).tolist() == want.tolist()


def test_conditions_on_data_stay_on_what_is_remembered() -> None:
    for names in ("XM", "ZQ"):
        k = ta.reduce_axis(4, name="k")
        x, m = (ta.placeholder((4,), "float64", name=name) for name in names)
        t = ta.compute(
            (4,),
            lambda i: ta.max(ta.select(k <= i, x[k], -9.0), axis=k, where=m[k] > 0),
            name="t",
        )
        lifted = ta.OptimizeAndLiftNonzeronessConditions(t)
        given = {x: np.array([1.0, 5.0, 2.0, 7.0]), m: np.array([1.0, -1.0, 1.0, -1.0])}
        assert np.asarray(ta.evaluate(lifted, given)).tolist() == [1, 1, 2, 2]


def test_tables_of_equal_numbers_are_told_apart_by_their_shapes() -> None:
    x, k = ta.placeholder((6,), "float64", name="X"), ta.reduce_axis(6, name="k")
    kept = []
    for rows, values in ((2, [0, 0, 0, 1, 1, 1]), (3, [0, 0, 1, 1, 2, 2])):
        p = constant(np.array(values))
        t = ta.compute((rows,), lambda i: ta.sum(x[k], axis=k, where=p[k] == i), name="t")
        kept.append(ta.OptimizeAndLiftNonzeronessConditions(t))
        found = ta.evaluate(kept[-1], {x: np.arange(1.0, 7.0)})
        assert found.tolist() == np.bincount(values, np.arange(1.0, 7.0)).tolist()


def test_plans_are_told_apart_by_how_many_axes_are_outside() -> None:
    for outside in (1, 2):
        x, *rest = axis("x", 0, 4), axis("y", 0, 3), axis("z", 0, 2)
        condition = call("eq", x, rest[0] + rest[1])
        outer, inner = [x, *rest][:outside], [x, *rest][outside:]
        pieces = solve_affine(outer, inner, [condition]).pieces
        for at in points(outer):
            found = [
                [evaluate(p.values[a], inside) for a in inner]
                for p in pieces
                if evaluate(p.guard, at)
                for inside in points(p.axes, at)
                if evaluate(p.residual, inside)
            ]
            every = [p for p in points(inner, at) if evaluate(condition, p)]
            assert sorted(found) == sorted([[p[a] for a in inner] for p in every])


def test_an_element_outside_of_its_table_is_no_number() -> None:
    table = constant(np.array([5, 6, 7]))
    assert fold_constant_reads(read(table, (int_const(2),))) is int_const(7)
    for n in (-1, 3):
        outside = read(table, (int_const(n),))
        assert fold_constant_reads(outside) is outside
