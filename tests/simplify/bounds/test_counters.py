"""Reads at the counters of loops: proved, refused with the counter's value, or checked."""

from __future__ import annotations

import pytest

import tensorad as ta
from tensorad.ir.expr import Expr, LocalSize, int_const, local_size
from tensorad.ir.tensor import Compute, Tensor
from tensorad.simplify.bounds.polynomials import stays_below
from tensorad.simplify.bounds.reads import classify_reads, size_conditions
from tensorad.simplify.index.intervals import Interval, interval
from tests.support.programs.loops import cumulative

n, m = ta.size("n"), ta.size("m")
X = ta.placeholder((n, 3), name="X")
Y = ta.placeholder((5, 3), name="Y")
Z = ta.placeholder((n, 3), name="Z")
t = local_size("t", n)
u = local_size("u", int_const(5))
v = local_size("u", u + 1)


@pytest.mark.parametrize(
    ("x", "index"), [(X, t), (X, n - 1 - t), (Y, u), (Y, 4 - u), (Y, u - v), (Y, v)]
)
def test_reads_at_counters_are_proved(x: Tensor, index: Expr) -> None:
    op = ta.compute((3,), lambda j: x[index, j], name="Y").op
    assert set(classify_reads(op).values()) == {"always"}
    assert size_conditions(op) == ()


def test_a_guard_on_a_counter_counts() -> None:
    op = ta.compute((3,), lambda j: ta.select(t > 0, X[t - 1, j], 0.0)).op
    assert set(classify_reads(op).values()) == {"guarded"}


def test_rows_for_an_unknown_number_of_iterations_are_checked_in_the_call() -> None:
    rounds = local_size("rounds")
    i = local_size("i", rounds)
    op = ta.compute((3,), lambda j: Y[i, j]).op
    assert set(classify_reads(op).values()) == {"dynamic"}
    assert size_conditions(op) == ()


def test_products_of_sizes_are_bounded_by_counters() -> None:
    wide = local_size("w", n * m)
    assert stays_below(wide, n * m)
    row = local_size("r", n)
    i = ta.reduce_axis(m, name="i")
    assert stays_below(row * m + i, n * m)
    assert not stays_below(row * m + i + 1, n * m)
    assert stays_below(i, (row + 1) * m)


def test_intervals_of_counters() -> None:
    assert interval(u) == Interval(0, 4) and interval(v) == Interval(0, 4)
    assert interval(t) == Interval(0, None) and interval(local_size("k")) == Interval(0, None)


def test_a_loop_reads_its_rows_unchecked() -> None:
    total, loop = cumulative(X)
    body = loop.blocks[0].results[0].op
    assert isinstance(body, Compute) and isinstance(loop.counter, LocalSize)
    assert set(classify_reads(body).values()) == {"always"}
    assert "check" not in str(ta.lower(total, [X], schedule=False))
