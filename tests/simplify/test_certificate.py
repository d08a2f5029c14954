"""Certificates: true for every plan, refused for every plan that is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from tensorad import config, te
from tensorad.autodiff import jacobian
from tensorad.errors import InternalError
from tensorad.ir.combiner import sum_combiner
from tensorad.ir.dtypes import FLOAT32, FLOAT64
from tensorad.ir.expr import (
    FALSE,
    TRUE,
    Axis,
    Expr,
    axis,
    cast,
    const,
    int_const,
    logical_and,
    read,
    reduce_expr,
    select,
    size_var,
)
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Compute
from tensorad.simplify.certify.certificate import certify, check, checked
from tensorad.simplify.domain import memoised
from tensorad.simplify.domain.elimination import Elimination
from tensorad.simplify.domain.solution import Piece, Solution
from tensorad.simplify.zeros.certified_steps import demand_lifting, demand_stage, nonzero_where
from tensorad.simplify.zeros.eliminate import eliminate
from tensorad.simplify.zeros.lift import lift
from tensorad.simplify.zeros.passes import nonzero_body
from tests.simplify.test_eliminate import CASES, Problem, _random_problem
from tests.support.mutants import mutants
from tests.support.oracles import box, check_solution


def solved(problem: Problem) -> Elimination:
    """The elimination as it was made."""
    outer, inner, condition = problem
    return Elimination(tuple(outer), tuple(inner), condition, eliminate(outer, inner, condition))


def is_right(e: Elimination, sizes: Mapping[Expr, int] | None = None) -> bool:
    """By brute force: the plan visits each contribution once."""
    try:
        check_solution(e.outer, e.inner, e.condition, e.solution, sizes)
    except AssertionError:
        return False
    return True


def judge(e: Elimination, counts: dict[str, int], sizes: Mapping[Expr, int] | None = None) -> None:
    """Every mutant is refused, or does the same."""
    assert check(e).holds
    for name, mutant in mutants(e):
        verdict = check(mutant)
        assert verdict.proof != "none", name
        right = is_right(mutant, sizes)
        assert verdict.holds == right, f"{name}:\n{certify(mutant)}"
        counts["harmless" if right else "refused"] += 1


SAMPLE = [
    "conv s2 p1 k3 d1 dx", "conv s3 p0 k2 d2 dw", "flatten", "cumsum", "hole", "or",
    "pad reflect", "pad wrap", "slice", "lattice", "dependent bounds",
]  # fmt: skip


@pytest.mark.parametrize("name", SAMPLE)
def test_wrong_plans_are_refused(name: str) -> None:
    counts = {"refused": 0, "harmless": 0}
    judge(solved(CASES[name]), counts)
    assert counts["refused"] > 0


@pytest.mark.slow
def test_every_wrong_plan_of_every_case_is_refused() -> None:
    counts = {"refused": 0, "harmless": 0}
    for problem in CASES.values():
        judge(solved(problem), counts)
    for seed in range(50):
        judge(solved(_random_problem(seed)), counts)
    assert counts["refused"] >= 500


def symbolic_flatten() -> Elimination:
    c, h, w = (size_var(s) for s in "chw")
    outer = [axis("c", 0, c), axis("h", 0, h), axis("w", 0, w)]
    k = axis("k", 0, c * h * w)
    hits = [outer[0] == k // (h * w), outer[1] == k // w % h, outer[2] == k % w]
    return solved((outer, [k], logical_and(*hits)))


def symbolic_causal() -> Elimination:
    n = size_var("n")
    x, i, k = axis("x", 0, n), axis("i", 0, n), axis("k", 0, n)
    return solved(([x], [i, k], logical_and(x == k, k <= i)))


def table() -> Elimination:
    source = te.const(np.array([3, 1, 4, 1, 5, 2]))
    (x,), (i,) = box(x=7), box(i=6)
    return solved(([x], [i], x == source[i]))


def triangle() -> Elimination:
    (x,), (i, j) = box(x=21), box(i=6, j=6)
    return solved(([x], [i, j], logical_and(x == i * (i + 1) // 2 + j, j <= i)))


PROOFS = {"digits": symbolic_flatten, "isl": symbolic_causal, "enumeration": table}


@pytest.mark.parametrize("proof", PROOFS)
def test_how_plans_are_proved(proof: str) -> None:
    e = PROOFS[proof]()
    verdict = check(e)
    assert verdict.is_proof
    assert verdict.proof == proof
    assert str(certify(e)).endswith(f"each contribution exactly once, by {proof}")


@pytest.mark.parametrize("make", [symbolic_flatten, symbolic_causal, table, triangle])
def test_wrong_plans_beyond_plain_boxes_are_refused(make: Callable[[], Elimination]) -> None:
    e = make()
    counts = {"refused": 0, "harmless": 0}
    judge(e, counts, {size_var(s): n for s, n in zip("chwn", (2, 3, 2, 5), strict=True)})
    assert counts["refused"] >= 4


def test_a_plan_left_as_it_was_is_proved_by_its_structure() -> None:
    (x,), i, j = box(x=200), axis("i", 0, size_var("n")), axis("j", 0, 31)
    with config.override(isl_operations=1):
        e = solved(([x], [i, j], x == (6 * i + 10 * j) % 199))
    assert e.solution.method == "none"
    assert "isl needs more than" in e.solution.reason
    assert check(e).proof == "structure"


def test_conditions_on_data_must_be_tested_where_the_domain_tests_them() -> None:
    a = te.placeholder((8,), name="A")
    outer, inner = box(x=8), box(i=8)
    e = solved((outer, inner, logical_and(outer[0] == inner[0], a[inner[0]] > 0)))
    (piece,) = e.solution.pieces
    assert check(e).holds
    for wrong in (TRUE, a[7 - outer[0]] > 0, a[outer[0]] >= 0):
        plan = Solution((replace(piece, residual=wrong),), True)
        verdict = check(replace(e, solution=plan))
        assert not verdict.holds
        assert "is not tested alike" in verdict.remark


def test_loops_that_visit_a_point_twice_are_refused() -> None:
    (x,), (i,) = box(x=12), box(i=12)
    p, q = axis("p", 0, 4), axis("q", 0, 4)
    condition = i - x >= 0
    plan = Solution((Piece(TRUE, (p, q), {i: x + 3 * p + q}, x + 3 * p + q < 12),), True)
    verdict = check(Elimination((x,), (i,), condition, plan))
    assert verdict.remark == "several points of the plan are the same contribution"
    digits = axis("q", 0, 3)
    plan = Solution(
        (Piece(TRUE, (p, digits), {i: x + 3 * p + digits}, x + 3 * p + digits < 12),), True
    )
    assert check(Elimination((x,), (i,), condition, plan)).holds


def test_a_demand_raises_with_the_certificate() -> None:
    (x,), (i,) = box(x=4), box(i=5)
    wrong = Solution((Piece(TRUE, (), {i: x + 1}),), True)
    with config.override(debug=()):
        assert checked([x], [i], x == i, wrong) is wrong
    with config.override(debug=("certify",)), pytest.raises(InternalError) as raised:
        checked([x], [i], x == i, wrong)
    assert str(raised.value).splitlines() == [
        "an elimination has no true certificate:",
        "contributions  { [i] : 0 <= i < 5 and x == i }",
        "for each       { [x] : 0 <= x < 4 }",
        "plan           i := x + 1",
        "certificate    refuted: the plan visits points that do not contribute",
    ]


def test_what_is_remembered_must_be_what_is_derived(monkeypatch: pytest.MonkeyPatch) -> None:
    def body(n: int) -> tuple[list[Axis], Expr]:
        x, k = te.placeholder((n,), name="X"), axis("k", 0, n)
        (i,) = box(i=n)
        value = select(i == k, x[k], const(0.0, FLOAT32))
        return [i], reduce_expr(sum_combiner(FLOAT32), (value,), (k,))

    first = nonzero_body(*body(17))
    assert str(first) == "X[i]"
    with config.override(debug=("certify",)):
        assert str(nonzero_body(*body(17))) == "X[i]"
        monkeypatch.setattr(memoised, "renamed", lambda root, mapping: root)
        with pytest.raises(InternalError, match="derived anew"):
            nonzero_body(*body(17))


def test_lifting_a_condition_needs_a_zero_wherever_it_fails() -> None:
    x = te.placeholder((8,), name="X")
    i, k = box(i=8, k=8)
    value = x[k] * select(i == k, x[i], const(0.0, FLOAT32))
    lifted = x[k] * x[i]
    demand_lifting([i, k], TRUE, value, i == k, lifted)
    assert nonzero_where(value) is (i == k)
    with pytest.raises(InternalError, match="may be nonzero where"):
        demand_lifting([i, k], TRUE, value, logical_and(i == k, k < 3), lifted)
    with pytest.raises(InternalError, match="is not"):
        demand_lifting([i, k], TRUE, value, i == k, x[k] * x[k])


def test_a_lifted_condition_may_decide_choices_in_its_own_indices() -> None:
    i, j, b = box(i=5, j=5, b=15)
    x = te.placeholder((5, 5), name="X")
    hit = b == te.select(j <= i, i * 5 + j, 0)
    value = te.select(j <= i, te.select(hit, 1.0, 0.0) * x[i, j], 0.0)
    lifted = logical_and(j <= i, hit)
    demand_lifting([i, j, b], TRUE, value, lifted, x[i, j])
    with pytest.raises(InternalError, match="is not"):
        demand_lifting([i, j, b], TRUE, value, lifted, x[i, j] * 2.0)
    with pytest.raises(InternalError, match="is not"):
        demand_lifting([i, j, b], TRUE, value, hit, x[i, j])


def test_conditions_on_data_are_lifted_past_in_any_form() -> None:
    i, j = box(i=3, j=3)
    x, m = te.placeholder((3, 3), "float64", name="X"), te.placeholder((3, 3), "int64", name="M")
    positive, small = m[i, j] > 0, m[j, i] < 2
    one, zero = const(1.0, FLOAT64), const(0.0, FLOAT64)
    for switched in (
        cast(positive, FLOAT64),
        select(positive, zero, one),
        select(logical_and(positive, small), one, zero),
        select(logical_and(i + j < 3, positive), zero, one),
    ):
        value = select(i >= j, x[i, j] * switched, zero)
        condition, rest = lift(value)
        assert condition is (i >= j)
        demand_lifting([i, j], TRUE, value, condition, rest)
        for wrong in (x[i, j], x[i, j] * cast(small, FLOAT64), rest * 2.0):
            with pytest.raises(InternalError, match="is not"):
                demand_lifting([i, j], TRUE, value, condition, wrong)


def test_packing_a_triangle_is_certified() -> None:
    x = te.placeholder((5, 5), name="X")

    def put(i: Expr, j: Expr) -> tuple[Expr, Expr]:
        return te.select(j <= i, i * (i + 1) // 2 + j, 0), te.select(j <= i, x[i, j] ** 2, 0.0)

    found = interpret(jacobian(te.scatter((15,), (5, 5), put), x), {x: np.ones((5, 5))})
    assert found.sum() == 30.0 and (found != 0).sum() == 15


def test_a_stage_must_be_the_reduction_it_stands_for() -> None:
    x = te.placeholder((8, 8), name="X")
    (i,) = box(i=8)
    k = axis("k", i, 8)
    e = reduce_expr(sum_combiner(FLOAT32), (x[i, k],), (k,), k != 3)
    (own,) = box(i=8)

    def stage(shift: int, condition: int) -> Compute:
        inner = axis("k", own + shift, 8)
        read_there = read(x, (own, inner))
        body = reduce_expr(e.combiner, (read_there,), (inner,), inner != condition)
        return Compute("stage", (own,), (body,))

    demand_stage([i], [int_const(0)], e, stage(0, 3))
    for wrong in (stage(1, 3), stage(0, 4)):
        with pytest.raises(InternalError, match="no true certificate"):
            demand_stage([i], [int_const(0)], e, wrong)
    with pytest.raises(InternalError, match="no true certificate"):
        demand_stage([i], [int_const(1)], e, stage(0, 3))


@pytest.mark.parametrize(("first", "holds"), [(9, True), (3, False)])
def test_nothing_is_a_plan_only_where_no_index_allows_the_data(first: int, holds: bool) -> None:
    a = te.placeholder((8,), name="A")
    (x,), (i,) = box(x=8), box(i=8)
    condition = logical_and(x == i, select(i >= first, a[i] > 0, FALSE))
    assert check(Elimination((x,), (i,), condition, Solution((), True))).holds is holds


def test_an_axis_of_one_value_may_decide_a_condition_on_data() -> None:
    a = te.placeholder((8,), name="A")
    (x,), (i,), k = box(x=8), box(i=8), axis("k", 2, 3)
    never = select(k < 2, a[i], const(0.0, FLOAT32)) > 1.0
    nothing = Solution((), True)
    assert check(Elimination((x,), (i, k), logical_and(x == i, never), nothing)).holds
    sometimes = select(k > 1, a[i], const(0.0, FLOAT32)) > 1.0
    assert not check(Elimination((x,), (i, k), logical_and(x == i, sometimes), nothing)).holds
