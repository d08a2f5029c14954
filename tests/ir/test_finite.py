"""Which values are finite if all inputs are: facts from formulas, against values at edges."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.ir.analysis.finite import may_be_infinite, value_of
from tensorad.ir.elementary.rows import FUNCTIONS
from tensorad.ir.elementary.table import Sign
from tensorad.ir.expr import axis

X = te.placeholder((2, 3), "float64", name="X")
U = te.placeholder((2,), "float64", name="U")
N = te.placeholder((2,), "int64", name="N")
ROW, J = axis("i", 0, 2), axis("j", 0, 3)
EDGES = (-3.0, -1.0, -0.5, -0.0, 0.0, 0.3, 1.0, 2.5, 20.0)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_functions_are_as_their_rows_say(name: str) -> None:
    row = FUNCTIONS[name]
    signs = {
        Sign.ANY: lambda x: True,
        Sign.NONNEGATIVE: lambda x: x >= 0,
        Sign.POSITIVE: lambda x: x > 0,
    }
    for args in itertools.product(EDGES, repeat=row.arity):
        with np.errstate(all="ignore"):
            value = float(row.value(*map(np.float64, args)))
        if row.finite_from is not None and all(map(signs[row.finite_from], args)):
            assert np.isfinite(value), args
            assert signs[row.sign](value), args
        if row.keeps_sign and not np.isnan(value):
            assert all(test(value) for test in signs.values() if all(map(test, args))), args


def test_formulas() -> None:
    mean = te.compute((2,), lambda i: te.sum(X[i, J] * X[i, J], axis=J) / 3.0, name="mean")
    scaled = te.compute((2, 3), lambda i, j: X[i, j] / te.sqrt(mean[i] + 1e-5), name="scaled")
    total = te.compute((2,), lambda i: te.sum(te.exp(X[i, J]), axis=J), name="total")
    some = te.compute(
        (2,), lambda i: te.sum(te.exp(X[i, J]), axis=J, where=X[i, J] > 0), name="some"
    )
    logs = te.compute((2,), lambda i: te.log(U[i]), name="logs")
    largest = te.compute((2,), lambda i: te.max(te.exp(X[i, J]), axis=J), name="largest")
    product = te.compute((2,), lambda i: te.prod(X[i, J], axis=J), name="product")
    sums = te.scan(U, 0)
    quotients = te.scan(U, 0, te.comm_reducer(lambda a, b: a / b, lambda t: 1.0, name="quotient"))
    added = te.scatter((2,), (2,), lambda i: (N[i], U[i]), init=U)
    roots = te.scatter((2,), (2,), lambda i: (N[i], te.rsqrt(U[i])))
    table = ta.const(np.array([1.0, 2.0]))
    finite = [
        X[ROW, J],
        te.exp(U[ROW]) * 2.0,
        U[ROW] / 3.0,
        U[ROW] ** 3,
        te.abs(U[ROW]) ** 0.5,
        N[ROW].astype("float64"),
        te.select(U[ROW] > 0, te.tanh(U[ROW]), 1.0),
        scaled[ROW, J],
        te.exp(X[ROW, J]) / total[ROW],
        te.log(total[ROW]),
        1.0 / largest[ROW],
        product[ROW],
        sums[ROW],
        added[ROW],
        U[ROW] / table[ROW],
        te.log1p(te.exp(-te.abs(U[ROW]))),
        te.maximum(U[ROW], 0.5) ** -2.0,
        te.floor(U[ROW]),
    ]
    infinite = [
        1.0 / U[ROW],
        te.sqrt(U[ROW]),
        te.log(U[ROW]),
        U[ROW] ** 0.5,
        X[ROW, J] * (2.0 / U[ROW]),
        logs[ROW] * X[ROW, J],
        1.0 / some[ROW],
        1.0 / mean[ROW],
        quotients[ROW],
        roots[ROW],
        U[ROW] / (table[ROW] - 1.0),
        te.floor(U[ROW]) ** -1.0,
        te.select(U[ROW] > 0, te.log(U[ROW]), 0.0),
        U[ROW] / 0.0,
    ]
    assert [str(e) for e in finite if may_be_infinite(e)] == []
    assert [str(e) for e in infinite if not may_be_infinite(e)] == []
    assert [value_of(e[ROW]).sign for e in (total, some, largest, product)] == [2, 1, 2, 0]


def test_loops_are_as_finite_as_their_blocks() -> None:
    halves = ta.for_loop(0, 3, lambda t, h: te.compute((2,), lambda i: h[i] * 0.5, name="half"), U)
    inverse = ta.for_loop(0, 3, lambda t, h: te.compute((2,), lambda i: 1.0 / h[i], name="inv"), U)
    assert not may_be_infinite(halves[ROW])
    assert may_be_infinite(inverse[ROW])
    logs = te.compute((2,), lambda i: te.log(U[i]), name="logs")
    begun = ta.for_loop(
        0, 3, lambda t, h: te.compute((2,), lambda i: h[i] * 0.5, name="half"), logs
    )
    assert may_be_infinite(begun[ROW])
