"""Reads outside their tensors at the counters of loops: each refused with one whole text."""

from __future__ import annotations

import pytest

import tensorad as ta
from tensorad.errors import BoundsError
from tensorad.ir.expr import int_const, local_size
from tests.support.refusals import Case, Refusals, check

n = ta.size("n")
X = ta.placeholder((n, 3), name="X")
Y = ta.placeholder((5, 3), name="Y")
t = local_size("t", n)
u = local_size("u", int_const(5))
v = local_size("u", u + 1)

CASES = Refusals()


@CASES.refused(
    BoundsError,
    "X[n + t, j] reads index 1 of axis 0, whose extent n is 1.",
    "  in: Y, defined at HERE",
    "  hint: at n = 1, t = 0; guard the read with select(...) or change the axis.",
)
def past_all_rows() -> None:
    ta.compute((3,), lambda j: X[n + t, j], name="Y")


@CASES.refused(
    BoundsError,
    "Y[u + 5, j] reads index 5 of axis 0, whose extent is 5.",
    "  in: Y, defined at HERE",
    "  hint: at u = 0; guard the read with select(...) or change the axis.",
)
def past_the_end_in_each_iteration() -> None:
    ta.compute((3,), lambda j: Y[u + 5, j], name="Y")


@CASES.refused(
    BoundsError,
    "Y[u - u_1 - 1, j] reads index -1 of axis 0, whose extent is 5.",
    "  in: Y, defined at HERE",
    "  hint: at u = 0, u_1 = 0; guard the read with select(...) or change the axis.",
)
def two_counters_of_one_name() -> None:
    ta.compute((3,), lambda j: Y[v - u - 1, j], name="Y")


@pytest.mark.parametrize("case", CASES, ids=[c.attempt.__name__ for c in CASES])
def test_the_whole_text(case: Case) -> None:
    check(case)
