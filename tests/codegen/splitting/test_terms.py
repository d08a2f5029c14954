"""Long sums of terms in parts: the bits are those of the whole, and equal parts are one kernel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.codegen.loops.kernel_key import kernel_key
from tensorad.codegen.lower import lower_program
from tensorad.codegen.splitting.term_parts import MOST_TERMS, TERMS, split_terms
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Compute, Tensor

ROWS = 5
Term = Callable[[Tensor, Expr], Expr]


def summed(
    count: int, term: Term = lambda x, i: x[i], signs: int = 1
) -> tuple[Tensor, list[Tensor]]:
    """x0 + x1 - x2 + ..., every `signs`th term with a minus if that is more than 1."""
    xs = [te.placeholder((ROWS,), name=f"X{n}") for n in range(count)]

    def body(i: Expr) -> Expr:
        total = term(xs[0], i)
        for n, x in enumerate(xs[1:], 1):
            minus = signs > 1 and n % signs == 0
            total = total - term(x, i) if minus else total + term(x, i)
        return total

    return te.compute((ROWS,), body, name="Y"), xs


def data(count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(count)
    return [
        (rng.standard_normal(ROWS) * 10.0 ** rng.integers(-4, 4)).astype("float32")
        for _ in range(count)
    ]


@pytest.mark.parametrize("count", [MOST_TERMS, MOST_TERMS + 1, 48, 49, 63, 64, 65, 200])
@pytest.mark.parametrize("signs", [1, 3])
def test_terms_are_added_from_left_to_right(count: int, signs: int) -> None:
    y, xs = summed(count, signs=signs)
    arrays = data(count)
    expected = arrays[0]
    for n, a in enumerate(arrays[1:], 1):
        expected = expected - a if signs > 1 and n % signs == 0 else expected + a
    assert np.array_equal(ta.build([y], xs)(*arrays), expected)


@pytest.mark.parametrize("count", [40, 70])
def test_parts_make_the_bits_of_the_whole(count: int) -> None:
    def term(x: Tensor, i: Expr) -> Expr:
        return te.select(i > 0, x[te.maximum(i - 1, 0)], 0.0) * x[i]

    y, xs = summed(count, term)
    arrays = data(count)
    whole = ta.build([y], xs, schedule={"Y": ta.Schedule(parallel=False)})
    assert np.array_equal(ta.build([y], xs)(*arrays), whole(*arrays))


def split(y: Tensor) -> list[Tensor]:
    assert isinstance(y.op, Compute)
    return split_terms(y.op, y.op.bodies[0])[0]


def test_few_terms_stay_one_formula() -> None:
    assert split(summed(MOST_TERMS)[0]) == []
    assert len(split(summed(MOST_TERMS + 2)[0])) == 2
    assert len(split(summed(10 * TERMS)[0])) == 9


def test_parts_have_fewer_terms_where_each_is_a_function() -> None:
    plain, costly = [
        len(split(summed(4 * TERMS, term)[0]))
        for term in (lambda x, i: -x[i], lambda x, i: te.exp(x[i]))
    ]
    assert (plain, costly) == (3, 6)  # 16 terms each, and 10: exp has the weight of 8 additions


def test_terms_that_share_what_they_compute_stay_one_formula() -> None:
    w = te.placeholder((ROWS,), name="W")

    def term(x: Tensor, i: Expr) -> Expr:
        shared = w[i]
        for _ in range(40):
            shared = te.tanh(shared)
        return x[i] * shared

    assert split(summed(50, term)[0]) == []


def test_long_terms_make_short_parts() -> None:
    def term(x: Tensor, i: Expr) -> Expr:
        value = x[i]
        for _ in range(20):
            value = te.tanh(value)
        return value

    assert len(split(summed(64, term)[0])) > len(split(summed(64)[0]))


def test_more_terms_make_no_more_code() -> None:
    counts = []
    for count in (4 * TERMS + 1, 8 * TERMS + 1):
        y, xs = summed(count)
        kernels = lower_program([y], xs).kernels
        counts.append(len({kernel_key(k)[0] for k in kernels}))
        assert max(len(k.reads) for k in kernels) <= MOST_TERMS
    assert counts[0] == counts[1] <= 3
