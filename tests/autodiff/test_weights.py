"""Formulas with many reads: what they contribute is computed once, in one pass."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.autodiff.adjoints.weights import WeightedTarget
from tensorad.autodiff.heads import pair_heads, seeds
from tensorad.autodiff.sweep import Sweep
from tensorad.bound import bound
from tensorad.errors import BoundsError
from tensorad.ir.analysis.decisions import Decision, Record, listening
from tensorad.ir.expr import Expr
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Tensor, outputs
from tensorad.ir.visit import topological_ops
from tests.random.test_random_programs import choose, differentiate
from tests.support.program_checks import SIZES, like


def stored(y: Tensor, wrt: list[Tensor], head: Tensor) -> list[Tensor]:
    starts, batch = seeds(pair_heads([y], [head]))
    sweep = Sweep([y], wrt, batch, {}, WeightedTarget)
    return sweep.tidied(sweep.run(starts, strict=False))


def mixed(x: Tensor) -> Tensor:
    """Y = a formula of five reads of X, which has six elements."""

    def value(i: Expr) -> Expr:
        here = te.tanh(x[i] * x[5 - i])
        there = te.tanh(x[(i + 1) % 6] * x[(i + 2) % 6])
        return te.tanh(here * there * x[(i + 3) % 6])

    return te.compute((6,), value, name="Y")


def test_a_formula_with_many_reads_is_evaluated_once() -> None:
    x = te.placeholder((6,), dtype="float64", name="X")
    y = mixed(x)
    h = like(y, "H")
    with listening(Record) as heard:
        (dx,) = ta.vjp(y, [x], h)
    assert "weights stored" in [r.what for r in heard if isinstance(r, Decision)]
    found = ta.work(dx)
    assert found.iterations == 6 + 6, "the weights, then dX"
    assert bound(y, [x]) == 5 * 6
    assert found.multiplications == 186, "at most 5 * (60 + 30); read by read 480"
    assert ta.gradcheck(y, [x], order=2)


def test_the_adjoint_is_computed_with_the_weights() -> None:
    x = te.placeholder((6,), dtype="float64", name="X")
    inner = mixed(x)
    y = te.compute((6,), lambda i: te.sin(inner[i] * inner[(i + 1) % 6]), name="Z")
    (dx,) = stored(y, [x], like(y, "H"))
    assert [op.name for op in topological_ops([dx])] == [*"HXY", "dZ.weights", "dY.weights", "dX"]


def test_reads_that_visit_less_together_are_scattered_together() -> None:
    x = te.placeholder((2, 2), dtype="float64", name="X")
    w = te.placeholder((8, 3), dtype="float64", name="W")

    def value(i: Expr, j: Expr) -> Expr:
        here = te.tanh(x[i % 2, (j + 1) % 2] * w[i, j])
        there = te.tanh(x[(i + j) % 2, 1] * w[7 - i, 2 - j])
        return te.tanh(here * there * x[1, j % 2])

    y = te.compute((8, 3), value, name="Y")
    (dx,) = stored(y, [x], like(y, "H"))
    assert ta.work(dx).iterations == 24 + 4 + 24, "the weights, zeros, then all reads in one pass"
    assert bound(y, [x]) == 3 * 24
    assert ta.work(dx).multiplications < ta.work(ta.vjp(y, [x], like(y, "H"))[0]).multiplications
    assert ta.gradcheck(y, [x, w])


def test_values_behind_false_guards_stay_out_of_weights() -> None:
    x = te.placeholder((6,), dtype="float64", name="X")
    p = te.placeholder((6,), dtype="int64", name="P")
    y = te.compute(
        (6,),
        lambda i: (
            te.select(x[i] > 0.0, te.log(x[i]) * x[5 - i], 1.0)
            * te.select(p[i] >= 0, x[p[i]], x[(i + 1) % 6])
        ),
        name="Y",
    )
    h = like(y, "H")
    found = stored(y, [x], h)
    arrays = {
        x: np.array([1.0, -2.0, 0.0, 3.0, 0.5, -1.0]),
        p: np.array([2, -1, -7, 0, 0, 5]),
        h: np.arange(1.0, 7.0),
    }
    expected = interpret(ta.vjp(y, [x], h), arrays)
    np.testing.assert_allclose(interpret(found, arrays), expected)
    np.testing.assert_allclose(ta.evaluate(found[0], arrays), expected[0])
    arrays[p][3] = 6
    with pytest.raises(BoundsError, match="X is read"):
        interpret(found, arrays)


@pytest.mark.parametrize("seed", (8, 19, 21, 40))
def test_stored_weights_of_random_programs_are_right(seed: int) -> None:
    program, rng = choose(seed)
    of = differentiate(program, rng)
    symbolic = any(not isinstance(n, int) for t in program.inputs for n in t.shape)
    sizes = SIZES[0] if symbolic else {}
    values = of.values(sizes)
    found = stored(of.y, of.wrt, of.h)
    assert any(".weights" in t.name for op in topological_ops(found) for t in outputs(op))
    for a, b in zip(
        interpret(found, values, sizes), interpret(of.gradients, values, sizes), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
