"""The rewriter of loop programs reaches all that a statement holds, and changes nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import get_args

import pytest

from tensorad.codegen.loops.ir import Assign, Fold, For, If, Prefetch, Stmt, Store, Visit
from tensorad.codegen.loops.rewrite import (
    Around,
    Block,
    each_once,
    rewrite,
    rewrite_blocks,
    storing,
)
from tensorad.codegen.loops.scratch import buffer
from tensorad.codegen.loops.visit import statements
from tensorad.ir.combiner import sum_combiner
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import Axis, Expr, add, axis, int_const, mul, param
from tensorad.ir.visit import postorder, rewriter
from tests.support.statement_samples import BLOCK, P, T, X, sample

Y = param("y", INT64)
SET = Assign((P,), (X,))
KINDS = get_args(Stmt)


def held(value: object) -> Iterator[Expr]:
    """All expressions in a statement, at whatever depth."""
    if isinstance(value, Axis):
        yield from postorder(value.lower, value.upper, value.step)
    elif isinstance(value, Expr):
        yield from postorder(value)
    elif isinstance(value, tuple):
        for v in value:
            yield from held(v)
    elif isinstance(value, KINDS):
        for f in fields(value):
            yield from held(getattr(value, f.name))


def renamed(e: Expr) -> Expr | None:
    return Y if e is X else None


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_all_that_a_statement_evaluates_is_reached(kind: type) -> None:
    s = sample(kind)
    (made,) = rewrite((s,), expression=rewriter(renamed))
    before, after = [*held(s)], [*held(made)]
    assert isinstance(made, kind)
    assert [e is X for e in before] == [e is Y for e in after]
    assert not any(e is X for e in after)
    assert sum(e is P for e in before) == sum(e is P for e in after)  # targets stay


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_what_is_no_expression_stays(kind: type) -> None:
    s = sample(kind)
    (made,) = rewrite((s,), expression=rewriter(renamed))
    for f in fields(s):
        value = getattr(s, f.name)
        if not [*held(value)]:
            assert getattr(made, f.name) is value


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_the_same_objects_where_nothing_changes(kind: type) -> None:
    body = (sample(kind), Visit())
    assert rewrite(body) is body
    assert rewrite(body, lambda _: None, lambda e: e) is body
    assert rewrite(body, lambda s: s) is body


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_every_statement_is_asked_about_inner_ones_first(kind: type) -> None:
    s, asked = sample(kind), list[Stmt]()
    rewrite((s,), lambda c: asked.append(c))
    blocks = [getattr(s, f.name) for f in fields(s) if getattr(s, f.name) is BLOCK]
    assert asked == [c for b in blocks for c in b] + [s]


def test_statements_are_deleted_and_spliced() -> None:
    i = axis("i", 0, 8)
    store = Store((T,), (i, i), (X,))
    body = (SET, For(i, (Visit(), If(X < Y, (Visit(), store), (Visit(),)))))

    def rule(s: Stmt) -> list[Stmt] | None:
        if isinstance(s, Visit):
            return []
        return [Prefetch(T, s.indices, 1), s] if isinstance(s, Store) else None

    first, loop = rewrite(body, rule)
    assert first is SET
    assert isinstance(loop, For) and loop.axis is i
    (branch,) = loop.body
    assert isinstance(branch, If) and branch.orelse == ()
    fetch, last = branch.then
    assert isinstance(fetch, Prefetch) and last is store


def test_statements_in_several_places_are_copied() -> None:
    i = axis("i", 0, 8)
    loop = For(i, (SET,))
    apart = (For(i, (Assign((P,), (Y,)),)), SET)
    assert each_once(apart) is apart
    body = each_once((loop, SET, loop))
    found = [*statements(body)]
    assert len(found) == len(dict.fromkeys(found)) == 5
    assert [*map(type, found)] == [For, Assign, Assign, For, Assign]
    assert all(s.values == (X,) for s in found if isinstance(s, Assign))


def test_a_rule_sees_what_its_statement_has_become() -> None:
    i = axis("i", 0, 8)
    seen: list[Stmt] = []

    def rule(s: Stmt) -> Stmt | tuple[()] | None:
        seen.append(s)
        return () if isinstance(s, Assign) or (isinstance(s, For) and not s.body) else None

    assert rewrite((For(i, (SET,)),), rule, rewriter(renamed)) == ()
    assert isinstance(seen[0], Assign) and seen[0].values == (Y,)
    assert isinstance(seen[1], For) and seen[1].body == ()


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_blocks_are_rewritten_from_the_outside_in(kind: type) -> None:
    s, seen = sample(kind), list[tuple[Block, tuple[Stmt, ...]]]()

    def rule(block: Block, around: Around) -> list[Stmt]:
        seen.append((block, around.outer))
        return [around.inside(c) for c in block]

    body = (s, Visit())
    assert rewrite_blocks(body, rule) is body
    blocks = [getattr(s, f.name) for f in fields(s) if getattr(s, f.name) is BLOCK]
    assert seen == [(body, ()), *[(b, (s,)) for b in blocks]]


def test_a_rule_of_blocks_joins_neighbours_and_says_what_is_looked_into() -> None:
    i, j = axis("i", 0, 8), axis("j", 0, 8)
    pair = (For(i, (SET,)), For(j, (Visit(),)))
    left_alone, other = For(i, pair, "vector"), For(j, pair)

    def joined(block: Block, around: Around) -> list[Stmt]:
        if block is pair:
            return [For(i, (*pair[0].body, *pair[1].body))]
        return [s if s is left_alone else around.inside(s) for s in block]

    first, second = rewrite_blocks((left_alone, other), joined)
    assert first is left_alone
    assert isinstance(second, For) and second.axis is j
    (both,) = second.body
    assert isinstance(both, For) and both.axis is i
    assert both.body == (SET, *pair[1].body)


def test_shared_expressions_are_rewritten_once() -> None:
    shared, asked = mul(X, X), list[Expr]()
    body = (Assign((P,), (shared,)), Fold((P,), sum_combiner(INT64), (add(shared, X),)))
    rewrite(body, expression=rewriter(lambda e: asked.append(e)))
    assert sum(e is shared for e in asked) == 1 and sum(e is X for e in asked) == 1


def test_axes_are_renewed_where_bounds_change_and_there_only() -> None:
    i = axis("i", 0, X)
    j = axis("j", i, add(i, int_const(4)))
    k = axis("k", 0, 8)
    inner = For(k, (Store((T,), (k, add(j, i)), (k,)),))
    (loop,) = rewrite((For(i, (For(j, (inner,)),)),), expression=rewriter(renamed))
    assert isinstance(loop, For) and loop.axis is not i and loop.axis.upper is Y
    (second,) = loop.body
    assert isinstance(second, For) and second.axis.lower is loop.axis
    (third,) = second.body
    assert isinstance(third, For) and third.axis is k
    (store,) = third.body
    assert isinstance(store, Store) and store.indices[1] is add(second.axis, loop.axis)
    assert store.values[0] is k


def test_a_store_is_left_to_the_tensors_that_are_kept() -> None:
    i, other = axis("i", 0, 8), buffer("other", (8, 8), INT64)
    both = Store((T, other), (i, i), (X, Y), streaming=True)
    assert storing(both, lambda t: True) == [both]
    assert storing(both, lambda t: False) == []
    (made,) = storing(both, lambda t: t is other)
    assert made.tensors == (other,) and made.values == (Y,)
    assert made.indices is both.indices and made.streaming
