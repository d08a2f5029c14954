"""One fold by itself: components, restricted combiners, and terms of sweeps beside slopes."""

from __future__ import annotations

import numpy as np
import pytest

from tensorad import te
from tensorad.autodiff.local.folds import (
    additive_terms,
    closure,
    fold_adjoint_terms,
    fold_outputs,
    fold_terms,
    is_one,
    restricted,
)
from tensorad.autodiff.local.linear import Term
from tensorad.ir.combiner import Combiner, make_combiner, max_combiner, prod_combiner, sum_combiner
from tensorad.ir.dtypes import FLOAT64
from tensorad.ir.expr import Expr, Read, Reduce, const, read, reduce_expr
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Compute, outputs

X = te.placeholder((4,), "float64", name="X")
VALUES = np.array([0.5, 2.0, -1.0, 1.5])
ZERO, ONE = const(0.0, FLOAT64), const(1.0, FLOAT64)


def every(e: Expr) -> bool:
    return isinstance(e, Read)


def pair() -> Combiner:
    """(the sum of squares, the product)."""
    return make_combiner("pair", lambda x, y: (x[0] + y[0] * y[0], x[1] * y[1]), (ZERO, ONE))


def folded(combiner: Combiner, *wanted: int) -> tuple[Compute, list[Reduce]]:
    """A compute of some components of a fold of X."""
    k = te.reduce_axis(4, name="k")
    sources = (read(X, (k,)),) * combiner.arity
    every_one = [reduce_expr(combiner, sources, (k,), index=c) for c in wanted]
    op = Compute("Y", (), tuple(every_one), "")
    return op, [e for e in every_one if isinstance(e, Reduce)]


def summed(terms: list[Term]) -> np.ndarray:
    """The derivative by X that the terms say, each at the one axis of its fold."""
    total = np.zeros(4)
    for t in terms:
        assert t.read.tensor is X
        assert t.read.indices == t.axes
        body = te.select(t.guard, t.coefficient, 0.0)
        total += interpret([outputs(Compute("D", t.axes, (body,), ""))[0]], {X: VALUES})[0]
    return total


def test_components_that_others_depend_on() -> None:
    c = make_combiner(
        "three", lambda x, y: (x[0] + y[0], x[1] * x[0] + y[1], x[2] * y[2]), (ZERO, ZERO, ONE)
    )
    assert [closure(c, [n]) for n in range(3)] == [(0,), (0, 1), (2,)]
    assert closure(c, [2, 1]) == (0, 1, 2)


def test_restricted_combiners_are_made_once() -> None:
    c = pair()
    last = restricted(c, (1,))
    assert restricted(c, (1,)) is last
    assert (last.arity, last.results, last.identity) == (1, c.results[1:], c.identity[1:])
    assert restricted(c, (0, 1)) is c


def test_outputs_of_one_fold() -> None:
    op, (product, _) = folded(pair(), 1, 0)
    assert fold_outputs(op, product) == {1: 0, 0: 1}
    other, (total,) = folded(sum_combiner(FLOAT64), 0)
    assert fold_outputs(other, product) == {}
    assert fold_outputs(other, total) == {0: 0}


@pytest.mark.parametrize("component", [0, 1])
def test_terms_of_a_component_are_its_slopes(component: int) -> None:
    op, (e,) = folded(pair(), component)
    expected = (2 * VALUES, VALUES.prod() / VALUES)[component]
    np.testing.assert_allclose(summed(fold_terms(op, 0, e, every)), expected)
    assert fold_terms(op, 0, e, lambda r: False) == []


def test_whole_adjoints_are_those_of_all_components_together() -> None:
    op, (e, _) = folded(pair(), 0, 1)
    heads = {0: lambda _: const(3.0, FLOAT64), 1: lambda _: const(-2.0, FLOAT64)}
    found = summed(fold_adjoint_terms(op, e, heads, every))
    np.testing.assert_allclose(found, 6 * VALUES - 2 * VALUES.prod() / VALUES)


def test_components_that_only_add_need_no_sweep() -> None:
    _, (squares, product) = folded(pair(), 0, 1)
    terms = additive_terms(0, squares, every)
    assert terms is not None
    np.testing.assert_allclose(summed(terms), 2 * VALUES)
    assert additive_terms(1, product, every) is None
    for c in (prod_combiner(FLOAT64), max_combiner(FLOAT64)):
        _, (e,) = folded(c, 0)
        assert additive_terms(0, e, every) is None


def test_ones() -> None:
    assert is_one(ONE)
    assert not is_one(ZERO)
