"""Programs that random testing found: each once had a wrong or missing derivative."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.ir.expr import Expr
from tensorad.ir.interpret import interpret


def test_a_read_behind_several_conditions_on_data_stays_guarded() -> None:
    n = te.size("n")
    x = te.placeholder((), dtype="float64", name="X")
    v = te.placeholder((n,), dtype="float64", name="L")

    def body() -> Expr:
        inner = ta.select(x() >= 1.1, ta.select(n > 0, v[0], 0.0), ta.select(n > 0, v[0], 1.0))
        other = ta.select(n > 0, v[0], 0.0)
        return ta.minimum(ta.select(x() < 1.1, 2.0, inner), other)

    y = te.compute((), body, name="Y")
    d = te.placeholder((n,), dtype="float64", name="dL")
    f = ta.build([y, ta.jvp(y, {v: d})], [x, v, d])
    assert f(1.5, np.zeros(0), np.zeros(0))[1] == 0.0
    for value in (1.0, 1.5):
        assert f(value, np.array([0.25]), np.array([3.0]))[1] == 3.0


@pytest.mark.parametrize("limit", [1.1, -9.0])
def test_a_scatter_behind_several_conditions_on_data_stays_inside(limit: float) -> None:
    x = te.placeholder((2, 2), dtype="float64", name="X")
    k = te.reduce_axis((2, 6), name="k")

    def body(i: Expr, j: Expr, h: Expr) -> Expr:
        at = k % 4 - h
        above = ta.select(2 * j + i >= 2, x[2 * j + i - 2, h], 1.0)
        below = ta.select((at >= 0) & (at < 2), x[at, (j * 2 + k // 3) // 4], 0.0)
        return ta.sum(ta.tanh(ta.select(x[i, (k - h) % 2] > limit, above, below)), axis=k)

    y = te.compute((2, 2, 2), body, name="Y")
    rng = np.random.default_rng(0)
    head, direction = rng.standard_normal((2, 2, 2)), rng.standard_normal((2, 2))
    d, h = te.placeholder((2, 2), "float64", "dX"), te.placeholder((2, 2, 2), "float64", "H")
    second = ta.vjp(ta.jvp(y, {x: d}), [x], h)
    arrays = {x: rng.uniform(-2, 2, (2, 2)), d: direction, h: head}
    np.testing.assert_allclose(
        ta.build(second, list(arrays))(*arrays.values()), interpret(second, arrays)[0], rtol=1e-12
    )
