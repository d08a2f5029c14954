"""Blocks are looked through outer statements first, with what stands around each."""

from __future__ import annotations

from typing import get_args

import pytest

from tensorad.codegen.loops.ir import Assign, For, If, Stmt, Store, Visit
from tensorad.codegen.loops.scratch import buffer
from tensorad.codegen.loops.visit import (
    all_expressions,
    direct,
    expressions,
    inside,
    nested,
    params_of,
    statements,
    targets,
)
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import axis, param
from tests.support.statement_samples import sample

P, X = param("p", INT64), param("x", INT64)
T = buffer("T", (8,), INT64)
ROW = axis("row", 0, X)
LANE = axis("lane", ROW, 8)
FIRST, LAST = Assign((P,), (X,)), Visit()
THEN, ELSE = Store((T,), (LANE,), (P,)), Visit()
BRANCH = If(X < LANE, (THEN,), (ELSE,))
INNER = For(LANE, (BRANCH,))
OUTER = For(ROW, (INNER, LAST))
BODY = (FIRST, OUTER)


def test_statements_in_the_order_of_the_text() -> None:
    assert [*statements(BODY)] == [FIRST, OUTER, INNER, BRANCH, THEN, ELSE, LAST]
    assert [s for s, _ in nested(BODY)] == [*statements(BODY)]
    assert direct(BODY) == [FIRST]
    assert inside(OUTER) == (INNER, LAST)
    assert inside(BRANCH) == (THEN, ELSE)
    assert inside(THEN) == ()


def test_what_stands_around_a_statement() -> None:
    around = dict(nested(BODY))
    assert around[FIRST] == around[OUTER] == ()
    assert around[THEN] == around[ELSE] == (OUTER, INNER, BRANCH)
    assert around[LAST] == (OUTER,)


@pytest.mark.parametrize("kind", get_args(Stmt), ids=lambda k: k.__name__)
def test_every_kind_says_what_it_evaluates(kind: type) -> None:
    assert bool(expressions(sample(kind))) == (kind is not Visit)


def test_scalars_that_are_read_and_set() -> None:
    assert [*targets(statements(BODY))] == [P]
    assert params_of(FIRST) == [X, P]
    assert params_of(OUTER) == [X]  # of its own bounds, not of what is inside
    assert [e for e in all_expressions((FIRST, OUTER)) if e is X] == [X, X]
