"""Tests of indices, one after the other where a gradient does little else."""

from __future__ import annotations

import numpy as np

import tensorad as ta
from tensorad import te
from tensorad.ir.analysis.decisions import Decision, Record, listening
from tensorad.ir.tensor import Compute
from tensorad.simplify.formula.short_circuit import short_circuited
from tests.support.program_checks import like


def test_a_sparse_gradient_tests_its_indices_in_turn() -> None:
    x = te.placeholder((10, 10, 10), dtype="float64", name="X")
    y = te.compute(
        (3,),
        lambda i: (
            x[2 * i + 1, 3 * i, 9 - 2 * i]
            + x[3 * i, 2 * i + 1, 9 - 3 * i]
            + x[9 - 2 * i, 3 * i + 1, 4 * i]
            + x[4 * i, 9 - 3 * i, 2 * i]
        ),
        name="Y",
    )
    h = like(y, "H")
    with listening(Record) as heard:
        (dx,) = ta.vjp(y, [x], h)
    assert "tests in turn" in [r.what for r in heard if isinstance(r, Decision)]
    assert ta.work(dx).multiplications == 2382, "at most 5 * (9 + 1000); all at once 6012"
    assert ta.gradcheck(y, [x])


def test_only_conditions_that_multiply_are_taken_apart() -> None:
    x = te.placeholder((9, 9), dtype="float64", name="X")
    cheap = te.compute(
        (9, 9), lambda i, j: te.select((i > 2) & (j > i), x[i, j], 0.0), name="Cheap"
    )
    assert short_circuited([cheap], {}) == [cheap]
    dear = te.compute(
        (9, 9), lambda i, j: te.select((i * j % 5 == 2) & (j > i), cheap[i, j], 0.0), name="Dear"
    )
    assert short_circuited([dear], {dear.op: None}) == [dear]
    (turned,) = short_circuited([dear], {})
    assert isinstance(turned.op, Compute)
    assert str(turned.op.bodies[0]) == "select(j > i, select(i*j % 5 == 2, Cheap[i, j], 0.0), 0.0)"
    assert ta.work(dear).multiplications == 2 * 81
    assert ta.work(turned).multiplications == 2 * 36
    values = {x: np.random.default_rng(0).standard_normal((9, 9))}
    np.testing.assert_array_equal(ta.evaluate(turned, values), ta.evaluate(dear, values))
