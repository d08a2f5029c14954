"""Extents of which only the run tells something, taken apart."""

from __future__ import annotations

from tensorad.codegen.loops.run_sizes import NO_PRODUCTS, Products, and_more, at_most, unknown
from tensorad.codegen.loops.scratch import buffer
from tensorad.ir.analysis.sizes import product_over
from tensorad.ir.dtypes import FLOAT64
from tensorad.ir.expr import int_const, local_size, mul, size_var

N, M, TRIPS, K = local_size("n"), local_size("m"), local_size("trips"), size_var("k")


def test_extents_made_of_sizes_are_one_factor() -> None:
    whole, others = product_over((N // 2, 4, TRIPS, M, K), {N: None, M: None})
    assert whole is mul(N // 2, M) and others == (4, TRIPS, K)
    assert product_over((4, K), {N: None}) == (None, (4, K))
    told = local_size("told")
    products = Products({N: None, M: None}, {mul(N // 2, M): told})
    assert products.of((N // 2, 4, TRIPS, M)) == (told, (4, TRIPS))
    assert products.of((N, 4)) == (N, (4,))  # a size is a word already
    assert NO_PRODUCTS.of((N, 4)) == (None, (N, 4))


def test_what_is_added_and_the_most() -> None:
    assert and_more(TRIPS + 2) == (TRIPS, 2) and and_more(5) == (5, 0)
    t = local_size("t", int_const(7))
    assert at_most(t + 1) == 7 and at_most(TRIPS) is TRIPS
    assert "only the run of a loop tells" in str(unknown(buffer("x", (N, M), FLOAT64)))
