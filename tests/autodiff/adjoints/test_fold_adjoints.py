"""Adjoints of what a fold reads, from those of its components, beside slopes."""

from __future__ import annotations

import numpy as np
import pytest

from tensorad import te
from tensorad.autodiff.adjoints.adjoint import Adjoint
from tensorad.autodiff.adjoints.fold_adjoints import adjoint_terms
from tensorad.autodiff.local.linear import Term
from tensorad.ir.analysis.decisions import Decision, listening
from tensorad.ir.expr import Axis, Expr, Read, Reduce, const, read
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Compute, Tensor, outputs
from tests.support.loops.small_loops import op_of

X = te.placeholder((4,), "float64", name="X")
VALUES = np.array([0.5, 2.0, -1.0, 1.5])


def every(e: Expr) -> bool:
    return isinstance(e, Read)


def summed(terms: list[Term]) -> np.ndarray:
    """The adjoint of X: each term reads X at the one axis of the fold."""
    total = np.zeros(4)
    for t in terms:
        (a,) = t.axes
        assert t.read is read(X, (a,))
        assert isinstance(a, Axis)
        body = te.select(t.guard, t.coefficient, 0.0)
        total += interpret([outputs(Compute("D", (a,), (body,), ""))[0]], {X: VALUES})[0]
    return total


def fold_of(t: Tensor) -> Reduce:
    body = op_of(t).bodies[t.index]
    assert isinstance(body, Reduce)
    return body


@pytest.mark.parametrize("head", [1.0, -2.0])
def test_a_product_is_swept_backwards(head: float) -> None:
    k = te.reduce_axis(4, name="k")
    y = te.compute((), lambda: te.prod(X[k], axis=k), name="Y")
    heads = {0: Adjoint((), const(head, X.dtype))}
    with listening(Decision) as heard:
        terms = adjoint_terms(op_of(y), fold_of(y), heads, every)
    np.testing.assert_allclose(summed(terms), head * VALUES.prod() / VALUES)
    assert [d.what for d in heard] == ["sweep"]


def test_a_rescaled_sum_needs_no_sweep() -> None:
    def join(x: tuple[Expr, ...], y: tuple[Expr, ...]) -> tuple[Expr, ...]:
        top = te.maximum(x[0], y[0])
        return top, x[1] * te.exp(x[0] - top) + y[1] * te.exp(y[0] - top)

    k = te.reduce_axis(4, name="k")
    scaled = te.comm_reducer(join, lambda *_: (float("-inf"), 0.0), name="scaled")
    top, total = te.compute((), lambda: scaled((X[k], const(1.0, X.dtype)), axis=k), name="L")
    largest = VALUES.argmax() == np.arange(4)
    shares = np.exp(VALUES - VALUES.max())
    for heads, expected, steps in (
        ({1: 1.0}, shares - shares.sum() * largest, ["scaled sum", "winner"]),
        ({0: 1.0}, largest * 1.0, ["winner"]),
    ):
        given = {c: Adjoint((), const(h, X.dtype)) for c, h in heads.items()}
        with listening(Decision) as heard:
            terms = adjoint_terms(op_of(top), fold_of(total), given, every)
        np.testing.assert_allclose(summed(terms), expected, atol=1e-15)
        assert [d.what for d in heard] == steps
