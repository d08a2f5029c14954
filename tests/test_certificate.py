"""Certificates: true for every plan, refused for every plan that is wrong."""

from __future__ import annotations

import pytest

from tensorad import config, te
from tensorad.errors import InternalError
from tensorad.ir.expr import Axis, Expr, axis, int_const, logical_and, size_var
from tensorad.ir.visit import fresh_axes
from tensorad.simplify.certificate import certify, check, checked
from tensorad.simplify.domain import Piece, Solution
from tensorad.simplify.eliminate import eliminate
from tensorad.simplify.record import Elimination, listening
from tests.mutants import mutants
from tests.oracles import box, check_solution
from tests.test_eliminate import CASES, Problem, _random_problem


def solved(problem: Problem) -> Elimination:
    """The elimination as it was made."""
    outer, inner, condition = problem
    return Elimination(
        tuple(outer), tuple(inner), condition, eliminate(outer, inner, condition)
    )


def is_right(e: Elimination) -> bool:
    """By brute force: the plan visits each contribution once."""
    try:
        check_solution(e.outer, e.inner, e.condition, e.solution)
    except AssertionError:
        return False
    return True


def judge(e: Elimination, counts: dict[str, int]) -> None:
    """Every mutant is refused, or does the same."""
    assert check(e).holds
    for name, mutant in mutants(e):
        verdict = check(mutant)
        assert verdict.proof != "none", name
        right = is_right(mutant)
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
    for seed in range(100):
        judge(solved(_random_problem(seed)), counts)
    print(counts)
    assert counts["refused"] >= 500
