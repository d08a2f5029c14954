"""Extents of which only the run tells something, taken apart."""

from __future__ import annotations

import itertools

import pytest

from tensorad.codegen.loops.ir import Kernel, Make, Place, Repeat, Reserve
from tensorad.codegen.loops.run_sizes import (
    NO_PRODUCTS,
    Memory,
    Products,
    asked,
    exact,
    is_told,
    local_sizes,
    memory_for,
    product_of,
    unknown,
)
from tensorad.codegen.loops.scratch import buffer
from tensorad.errors import BuildError
from tensorad.ir.analysis.sizes import size_value
from tensorad.ir.dtypes import FLOAT64, INT64
from tensorad.ir.expr import Expr, int_const, local_size, size_var
from tensorad.ir.tensor import Shape
from tests.support.records import List

N, M, TRIPS, K = local_size("n"), local_size("m"), local_size("trips"), size_var("k")
OUTER, INNER = local_size("i", N), local_size("j", int_const(7))


def test_one_size_is_a_word_and_what_is_added_beside_it() -> None:
    assert memory_for((TRIPS + 2, 4, K)) == Memory((4, K), TRIPS, 2)
    assert memory_for((4, TRIPS, M)) == Memory((4,), TRIPS, 0, M)
    assert memory_for((3, K)) == Memory((3, K))
    assert exact((4, TRIPS)) == ((4,), TRIPS) and exact((4, K)) == ((4, K), None)


def test_counters_are_as_large_as_they_get() -> None:
    """Where numbers, sizes of the call or those of a definition say how large that is."""
    assert memory_for((3, INNER * 2 + 1)) == Memory((3, 13))
    assert memory_for((3, K - local_size("c", K))) == Memory((3, K))
    assert memory_for((3, N - OUTER), {N: None}) == Memory((3,), N)
    halves = memory_for((3, N - OUTER))  # here nobody knows before the run
    assert halves == Memory((3,), others=N - OUTER)
    assert exact((3, INNER)) == ((3,), INNER), "a row is as far from the next one as it is large"


def test_all_else_is_one_product() -> None:
    shape = (OUTER * 2 + 1, TRIPS, 5, M, K)
    found = memory_for(shape)
    assert found.rest == (5, K) and (found.first, found.more) == (TRIPS, 0)
    assert found.others is product_of((OUTER * 2 + 1, M))
    rest, others = exact(shape)
    assert rest == (5, K) and others is product_of((OUTER * 2 + 1, TRIPS, M))
    for i, trips, m in itertools.product((0, 1, 6), (0, 2, 5), (0, 1, 3)):
        values: dict[Expr, int] = {OUTER: i, TRIPS: trips, M: m, K: 2}
        assert size_value(others, values) == (2 * i + 1) * trips * m
    assert product_of(()) is None


def test_products_do_not_wrap() -> None:
    """No memory has as many elements, and none is taken for less."""
    product = product_of((N, M, TRIPS))
    assert product is not None
    for n, m, trips in itertools.permutations((1 << 32, 1 << 32, 1), 3):
        assert size_value(product, {N: n, M: m, TRIPS: trips}) == 1 << 62
    assert size_value(product, {N: 1 << 32, M: 1 << 32, TRIPS: 0}) == 0
    assert size_value(product, {N: 1 << 31, M: 1 << 30, TRIPS: 2}) == 1 << 62


def test_what_nodes_ask_for() -> None:
    def of(*shape: int | Expr) -> Shape:
        return shape

    tensor = buffer("t", of(M, N, M + 1), FLOAT64)
    store = buffer("s", of(TRIPS + 1, N // 2), FLOAT64)
    count = buffer("count", (), INT64)
    loop = Repeat(OUTER, TRIPS, count, (), (), None, (), (), (store, tensor), False, "x.py:1")
    product = product_of((N, M + 1))
    assert asked(Reserve(tensor)) == [product] and asked(loop) == [N // 2, product]
    assert asked(Place(buffer("row", of(N // 2), FLOAT64), store, OUTER)) == [N // 2]
    assert asked(Place(buffer("part", of(3, N // 2), FLOAT64), store, OUTER)) == [N // 2]
    assert asked(Place(store, store)) == [] and asked(Reserve(buffer("p", of(N, M), FLOAT64))) == []
    assert asked(Make(buffer("h", (), List), List, 1, (tensor, count))) == [
        product_of((M, N, M + 1))
    ]
    assert asked(Kernel("k", (), (tensor,), ())) == []


def test_words_of_products() -> None:
    t = buffer("x", (N, M), FLOAT64)
    product = product_of((N, M))
    told = local_size("size")
    assert product is not None
    assert Products(told={product: told}).word(t, product) is told
    assert NO_PRODUCTS.word(t, N) is N and NO_PRODUCTS.word(t, None) == 1
    with pytest.raises(BuildError) as caught:
        NO_PRODUCTS.word(t, product)
    assert str(caught.value) == str(unknown(t))
    assert "x has the shape (n, m), which only the run of a loop tells" in str(unknown(t))


def test_what_only_the_run_tells() -> None:
    assert is_told(N + K) and not is_told(K * 2) and not is_told(7)
    assert local_sizes(N + K + OUTER) == [N, OUTER]
