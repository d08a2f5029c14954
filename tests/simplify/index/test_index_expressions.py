"""Which index expressions are quasi-affine, and products of sizes."""

from __future__ import annotations

import pytest

from tensorad import te
from tensorad.ir.dtypes import INT8
from tensorad.ir.expr import Expr, axis, call, cast, floordiv, int_const, mod, size_var
from tensorad.simplify.index.quasi_affine import (
    axis_conditions,
    free_parameters,
    is_affine,
    widens,
)
from tensorad.simplify.index.size_products import (
    Names,
    equation,
    is_linear,
    is_of_sizes,
    moduli,
    of_sizes,
    to_expr,
)
from tests.support.oracles import evaluate

P, Q = axis("p", 1, 10, 3), axis("q", 0, 5)
N, M = size_var("n"), size_var("m")
DATA = te.placeholder((10,), "int64", name="D")


@pytest.mark.parametrize(
    ("e", "affine"),
    [
        (P * 3 + Q - N, True),
        (floordiv(P, int_const(3)) + mod(Q, int_const(2)), True),
        (call("maximum", P, Q) < 4, True),
        (P * Q, False),
        (P * N, False),
        (floordiv(P, N), False),
        (DATA[P], False),
    ],
)
def test_what_sets_understand(e: Expr, affine: bool) -> None:
    assert is_affine(e, [P, Q, N]) == affine


def test_leaves_are_those_that_are_named() -> None:
    assert not is_affine(P + Q, [P])
    assert free_parameters([P], P + Q + N) == [Q, N]


def test_an_axis_stands_for_its_values() -> None:
    condition = axis_conditions(P)
    assert [v for v in range(-3, 15) if evaluate(condition, {P: v})] == [1, 4, 7]


def test_conversions_that_lose_nothing() -> None:
    small = te.placeholder((10,), "int8", name="S")[P]
    assert widens(small, cast(small, P.dtype))
    assert not widens(P, cast(P, INT8))


def test_products_of_sizes_are_polynomials() -> None:
    product = N * (M + 1) * 2
    assert is_of_sizes(product)
    assert not is_of_sizes(N * P)
    back = to_expr(of_sizes(product))
    for n, m in ((1, 2), (3, 5), (7, 1)):
        assert evaluate(back, {N: n, M: m}) == 2 * n * (m + 1)
    both = equation(of_sizes(N * M), of_sizes(M * N))
    assert evaluate(both, {N: 2, M: 3})
    assert [to_expr(m) for m in moduli(of_sizes(P * N + Q))] == [N]
    assert moduli(of_sizes(P + Q)) == []
    assert is_linear(of_sizes(N * M))


def test_names_stand_for_products() -> None:
    names = Names()
    linear = names.linear(P + N * M)
    assert is_affine(linear, [P, *free_parameters([P], linear)])
    assert names.linear(P + N * M) is linear
    assert names.linear(P + N) is P + N
    bounded = names.axis(axis("r", 0, N * M))
    assert is_affine(bounded.upper, free_parameters([], bounded.upper))


def test_names_in_what_is_named_stand_for_what_it_is_written_with() -> None:
    names = Names()
    inner = floordiv(N, M)
    for e in (mod(inner, N), mod(mod(inner + 1, N) + 1, N)):
        assert names.linear(e) is names.sizes[e]
    assert inner in names.sizes and set(free_parameters([], *names.sizes)) == {N, M}
