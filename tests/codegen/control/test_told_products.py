"""Extents that no word has are told where the last of their sizes is known, and whenever it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import config
from tensorad.codegen.control import lower_control
from tensorad.codegen.control.counts import scalar, telling
from tensorad.codegen.control.told_products import told_products
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.ir import (
    ButLast,
    Choose,
    LoopProgram,
    Node,
    Place,
    Repeat,
    Reserve,
    Settle,
    inner_nodes,
)
from tensorad.codegen.loops.run_sizes import asked
from tensorad.codegen.loops.scratch import buffer
from tensorad.codegen.lower import lower_program
from tensorad.errors import InternalError, LimitError
from tensorad.ir.dtypes import FLOAT64, INT64
from tensorad.ir.expr import Expr, LocalSize, int_const, local_size
from tensorad.ir.tensor import Tensor

N, M = local_size("n"), local_size("m")
COUNT = buffer("count", (), INT64)
FLAG = buffer("flag", (), INT64)


def reserve(*shape: Expr | int) -> Reserve:
    return Reserve(buffer("t", shape, FLOAT64))


def loop(i: LocalSize, trips: LocalSize, *body: Node, **more: Any) -> Repeat:
    parts: dict[str, Any] = {"count": COUNT, "start": (), "test": (), "stores": (), **more}
    condition = FLAG if parts["count"] is None else None
    return Repeat(
        i, trips, parts["count"], parts["start"], parts["test"], condition, body, (),
        parts["stores"], False, "x.py:1",
    )  # fmt: skip


def tell(sizes: Mapping[Expr, LocalSize]) -> list[Node]:
    """Loops that do nothing, of counts that nothing computes."""
    return [telling(size, scalar("size", e)) for e, size in sizes.items()]


def told_in(nodes: Sequence[Node], sizes: Sequence[LocalSize] = ()) -> Any:
    """Nodes as lists: what is told as its formula, what is asked for as its shape."""
    found, words = told_products(nodes, sizes, tell)
    formulas = {size: e for e, size in words.items()}

    def shown(nodes: Sequence[Node]) -> list[Any]:
        return [s for n in nodes for s in one(n)]

    def one(n: Node) -> list[Any]:
        if isinstance(n, Repeat) and n.trips in formulas:
            return [formulas[n.trips]]
        if isinstance(n, Reserve):
            return [n.tensor.shape]
        return [[s for s in map(shown, parts(n)) if s]]

    return shown(found)


def parts(n: Node) -> list[tuple[Node, ...]]:
    if isinstance(n, Repeat):
        return [n.start, n.test, n.body]
    return list(n.arms) if isinstance(n, Choose) else [inner_nodes(n)]


def test_a_product_is_told_in_the_iteration_that_knows_it() -> None:
    i, j = local_size("i", N), local_size("j", M)
    of_both = reserve(N - i, 3)
    inner = loop(j, M, reserve(2, i * 2 + 1, j), reserve(N - i), count=int_const(3))
    twice, rest = i * 2 + 1, N - i
    assert told_in([loop(i, N, of_both, inner)]) == [
        [[rest, (rest, 3), twice, [[(2, twice, j), (rest,)]]]],
    ]  # fmt: skip


def test_a_product_is_told_outside_of_loops_that_it_does_not_rest_on() -> None:
    i, j = local_size("i", N), local_size("j", M)
    half = N // 2
    inner = loop(j, M, reserve(2, half))
    assert told_in([loop(i, N, inner)]) == [[[half], [[[(2, half)]]]]]
    assert told_in([loop(i, N), inner]) == [[], half, [[(2, half)]]]
    assert told_in([loop(i, local_size("others"), inner)], [N]) == [half, [[[[(2, half)]]]]]


def test_a_loop_that_a_condition_ends_tells_its_iterations_one_by_one() -> None:
    i = local_size("i", N)
    half = N // 2
    body = loop(i, N, reserve(half), count=None)
    assert told_in([body, reserve(half), body, reserve(half)]) == [
        [[half, (half,)]], half, (half,), [[half, (half,)]], half, (half,),
    ]  # fmt: skip


def test_what_changes_is_told_again() -> None:
    i, j = local_size("i", N), local_size("j", N)
    half = N // 2
    first = loop(i, N, reserve(half))
    assert told_in([first, first, reserve(half)]) == [
        [[half], [(half,)]], [[half], [(half,)]], half, (half,),
    ]  # fmt: skip
    nested = loop(local_size("k", M), M, loop(j, N), reserve(half))
    assert told_in([first, reserve(half), nested, reserve(half)]) == [
        [[half], [(half,)]], half, (half,), [[[], half, (half,)]], half, (half,),
    ]  # fmt: skip


def test_arms_and_nodes_that_may_be_left_out_find_it_told() -> None:
    i = local_size("i", N)
    half, rest = N // 2, N - i
    choose = Choose(FLAG, ((reserve(half),), (), (reserve(rest), reserve(half))))
    last = ButLast(i, N, False, (reserve(half),))
    settle = Settle(FLAG, COUNT, (reserve(rest),), False)
    assert told_in([loop(i, N, choose, last, settle)]) == [
        [[half], [rest, [[(half,)], [(rest,), (half,)]], [[(half,)]], [[(rest,)]]]],
    ]  # fmt: skip
    told = [loop(i, N, Choose(FLAG, ((loop(local_size("k", M), M, reserve(M // 2)),), ())))]
    assert told_in(told) == [[[[[[[M // 2], [(M // 2,)]]]]]]]


def test_stores_are_told_before_their_loop_and_nothing_else_changes() -> None:
    i, j = local_size("i", N), local_size("j", M)
    rows = buffer("rows", (M, N - i), FLOAT64)
    row = Place(buffer("row", (N - i,), FLOAT64), rows, j)
    inner = loop(j, M, row, stores=(rows,))
    found, words = told_products([loop(i, N, inner)], (), tell)
    (outer,) = found
    assert isinstance(outer, Repeat)
    telling_rest, same = outer.body
    assert same is inner and isinstance(telling_rest, Repeat)
    assert words == {N - i: telling_rest.trips}
    kept = (loop(i, N, reserve(3, N)), reserve(7))
    assert told_products(kept, (), tell) == (kept, {})


def halves(x: Any, n: Any) -> Any:
    """Inner loops that store as many values as outer ones say."""

    def outer(i: Any, v: Any) -> Any:
        w = ta.for_loop(0, (i + 1) // 2, lambda j, w: ta.sin(w * 1.5), v)
        return w + ta.for_loop(0, i * 2 + 1, lambda j, w: ta.sin(w * x), v * 0.5)

    return ta.for_loop(0, n, outer, x).sum()


X = np.array([0.4, -0.3])


def lowered() -> tuple[LoopProgram, tuple[Tensor, ...]]:
    traced = ta.grad(halves).trace(X, np.int64(1))
    return lower_program(traced.results, traced.parameters), traced.parameters


def test_the_words_have_the_values_of_the_products() -> None:
    """The interpreter of loops looks wherever memory is asked for."""
    program, given = lowered()
    assert {str(e) for e in program.products} == {"(i + 1)//2", "i*2 + 1"}
    asking = [n for n in program.all_nodes if asked(n)]
    assert all(e in program.products for n in asking for e in asked(n)) and len(asking) >= 2
    slope = ta.grad(halves)
    for n in (0, 1, 2, 5, 6):
        (found,), _ = interpret_loops(program, dict(zip(given, (X, np.int64(n)), strict=True)))
        np.testing.assert_allclose(found, slope(X, np.int64(n)), rtol=1e-12)


Made = tuple[tuple[Node, ...], Mapping[Expr, LocalSize]]


def one_more(nodes: Sequence[Node], sizes: Sequence[LocalSize], tell: Any) -> Made:
    """A mistake: products are told to be larger."""
    return told_products(nodes, sizes, lambda words: tell({e + 1: s for e, s in words.items()}))


def late(nodes: Sequence[Node], sizes: Sequence[LocalSize], tell: Any) -> Made:
    """A mistake: the last iteration has the products of the one before it."""
    found, words = told_products(nodes, sizes, tell)

    def changed(nodes: Sequence[Node], around: Repeat | None) -> tuple[Node, ...]:
        return tuple([one(n, around) for n in nodes])

    def one(n: Node, around: Repeat | None) -> Node:
        if not isinstance(n, Repeat):
            return n
        if n.trips not in dict.fromkeys(words.values()) or around is None:
            return replace(n, body=changed(n.body, n))
        return ButLast(around.counter, around.trips, around.reverse, (n,))

    return changed(found, None), words


@pytest.mark.parametrize("mistake", [one_more, late])
def test_a_mistake_is_found(mistake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower_control, "told_products", mistake)
    program, given = lowered()
    arrays = dict(zip(given, (X, np.int64(4)), strict=True))
    with pytest.raises(InternalError, match="was told to be"):
        interpret_loops(program, arrays)


def test_memory_is_that_of_the_longest_inner_loop() -> None:
    """Not that of all of them: 1,000 store 500,000 values one after the other."""
    f = ta.grad(lambda x, n: ta.for_loop(
        0, n, lambda i, v: ta.for_loop(0, i // 2 * 2 + 1, lambda j, w: ta.sin(w * 1.1), v), x
    ))  # fmt: skip
    f(np.float64(0.5), np.int64(3))
    with config.override(max_bytes=12_000), pytest.raises(LimitError) as caught:
        f(np.float64(0.5), np.int64(1000))
    assert "i//2*2 + 1" in str(caught.value) and "i = " in str(caught.value)
    with config.override(max_bytes=5 * 8 * 1000):
        assert np.isfinite(f(np.float64(0.5), np.int64(1000)))
