"""Reductions inside of formulas: computed once, with what is computed from their elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.bound import bound
from tensorad.counting import work
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Compute, Tensor
from tensorad.ir.visit import topological_ops
from tests.support.program_checks import like


def matrix(name: str, *shape: int) -> Tensor:
    return te.placeholder(shape, "float64", name)


def check(y: Tensor, wrt: list[Tensor], points: int, *given: Tensor) -> list[Tensor]:
    """The gradients visit just so many points, B, and are right."""
    h = like(y, "H")
    found = ta.vjp(y, wrt, h)
    assert work(found).iterations == points == bound(y, wrt)
    assert ta.gradcheck(y, wrt, order=2)
    rng = np.random.default_rng(0)
    arrays = {t: rng.uniform(0.5, 1.5, [int(str(n)) for n in t.shape]) for t in (*wrt, *given, h)}
    for t, expected in zip(found, interpret(found, arrays), strict=True):
        np.testing.assert_allclose(ta.evaluate(t, arrays), expected, rtol=1e-8)
    return found


def dense(of: Any) -> tuple[Tensor, list[Tensor]]:
    x, w, k = matrix("X", 6, 8), matrix("W", 5, 8), te.reduce_axis(8, "k")
    y = te.compute((6, 5), lambda i, j: of(te.sum(x[i, k] * w[j, k], axis=k)), name="Y")
    return y, [x, w]


def test_the_adjoint_of_a_sum_is_computed_with_it() -> None:
    y, wrt = dense(te.tanh)
    found = check(y, wrt, 3 * 240)  # the sum with its adjoint, dX, dW
    assert work(found).multiplications == 3 * 240 + 3 * 30, "what tanh costs, once per element"


def test_an_adjoint_without_values_of_its_sum_is_written_into_its_readers() -> None:
    x, v, k = matrix("X", 9), matrix("V", 7), te.reduce_axis(3, "k")
    y = te.compute((7,), lambda i: v[i] * te.sum(x[i + k], axis=k), name="Y")
    check(y, [x], 21, v)


@pytest.mark.slow
def test_a_value_is_computed_with_the_sum_inside_of_it() -> None:
    y, wrt = dense(lambda s: te.tanh(s) * 30.0)
    z = te.compute((6, 5), lambda i, j: te.sin(y[i, j]), name="Z")
    found = ta.vjp(z, wrt, like(z, "H"))
    assert work(found).iterations == 3 * 240, "Y with its sum, dX, dW"
    assert ta.gradcheck(z, wrt, order=2)


def test_two_sums_of_one_formula_are_one_operation() -> None:
    x, k, m = matrix("X", 6, 8), te.reduce_axis(8, "k"), te.reduce_axis(8, "m")
    y = te.compute(
        (6,), lambda i: te.exp(-te.sum(x[i, k], axis=k) * te.sum(x[i, m] ** 2, axis=m)), name="Y"
    )
    (dx,) = ta.vjp(y, [x], like(y, "H"))
    assert work(dx).iterations == 3 * 48, "both sums, dX"
    assert work(dx).iterations <= bound(y, [x])
    assert len([op for op in topological_ops([dx]) if isinstance(op, Compute)]) == 2


def test_what_is_in_between_keeps_operations_apart() -> None:
    """dV needs the sum, the adjoint of the sum needs dV's operation: they stay apart."""
    x, k, n = matrix("X", 6, 8), te.reduce_axis(8, "k"), te.reduce_axis(6, "n")
    s = te.compute((6,), lambda i: te.tanh(te.sum(x[i, k], axis=k)), name="S")
    y = te.compute((6,), lambda i: te.sum(s[n] * s[i] * s[i], axis=n), name="Y")
    assert ta.gradcheck(y, [x], order=2)
    (dx,) = ta.vjp(y, [x], like(y, "H"))
    assert work(dx).iterations <= bound(y, [x])


def test_a_saved_forward_value_is_still_read_where_others_read_it() -> None:
    x, k, m = matrix("X", 6, 8), te.reduce_axis(8, "k"), te.reduce_axis(64, "m")
    w = matrix("W", 64)
    s = te.compute((6,), lambda i: te.tanh(te.sum(x[i, k], axis=k)) * 2.0, name="S")
    t = te.compute((6,), lambda i: te.sum(te.tanh(s[i] * w[m]), axis=m), name="T")
    y = te.compute((6,), lambda i: te.exp(t[i]), name="Y")
    (dx,) = ta.vjp(y, [x], like(y, "H"))
    ops = topological_ops([dx])
    assert s.op in ops and t.op in ops, "T has more points than S: it is not computed twice"


@pytest.mark.parametrize("reducer", [te.max, te.prod])
def test_winners_and_sweeps_read_joined_adjoints(reducer: Any) -> None:
    x, k = matrix("X", 6, 8), te.reduce_axis(8, "k")
    y = te.compute((6, 1), lambda i, _: te.exp(reducer(x[i, k], axis=k)), name="Y")
    (dx,) = ta.vjp(y, [x], like(y, "H"))
    assert work(dx).iterations <= bound(y, [x])
    assert ta.gradcheck(y, [x], order=1 if reducer is te.max else 2)


def test_a_sum_over_nothing_stores_no_adjoint() -> None:
    n = te.size("n")
    x, k = te.placeholder((n, 3), "float64", "X"), te.reduce_axis(n, "k")
    y = te.compute((3, 4), lambda i, j: te.exp(te.sum(x[k, i], axis=k) * j), name="Y")
    (dx,) = ta.vjp(y, [x], like(y, "H"))
    assert [work(dx, {"n": m}).iterations for m in (0, 2)] == [0, 6 + 12 + 6]


def test_a_guard_by_an_axis_of_one_value_keeps_a_stage_small() -> None:
    x, k, m = matrix("X", 4, 5), te.reduce_axis(4, "k"), te.reduce_axis(5, "m")
    y = te.compute(
        (1,),
        lambda i: te.exp(te.sum(te.select(k - i >= 3, te.max(x[k, m], axis=m), 0.0), axis=k)),
        name="Y",
    )
    (dx,) = ta.vjp(y, [x], like(y, "H"))
    assert work(dx).iterations <= bound(y, [x]) == 20 + 5 + 4 + 5


def test_reads_that_scatter_under_unlike_conditions_have_loops_of_their_own() -> None:
    x, p = matrix("X", 4, 12), te.placeholder((12,), "int64", "P")

    def body(i: te.Expr, j: te.Expr) -> te.Expr:
        first = te.select((i < 2) & (j < 3), x[p[j] % 4, i], 0.0)
        return first + te.select((i >= 10) & (j >= 9), x[p[i] % 4, j], 0.0)

    y = te.compute((12, 12), body, name="Y")
    (dx,) = ta.vjp(y, [x], like(y, "H"))
    assert work(dx).iterations == bound(y, [x]) == 48 + 6 + 6


def test_a_reduction_beside_a_formula_over_it_is_computed_with_the_formula() -> None:
    x, k = matrix("X", 4, 6), te.reduce_axis(6, "k")
    both = ta.comm_reducer(
        lambda a, b: (te.maximum(a[0], b[0]), a[1] + b[1]), lambda *_: (float("-inf"), 0.0), "both"
    )

    def folded(i: te.Expr) -> tuple[te.Expr, te.Expr]:
        most, total = both((x[i, k], te.exp(x[i, k])), axis=k)
        return te.maximum(most, -4.0), total

    most, total = te.compute((4,), folded, name="T")
    y = te.compute((4,), lambda i: te.tanh(most[i]) * total[i], name="Y")
    found = ta.vjp(y, [x], like(y, "H"))
    assert work(found).iterations == 24 + 24 + 24 <= bound(y, [x]), "winners, T, dX"
    assert ta.gradcheck(y, [x], order=2)
