"""One operation by itself: the linear terms of its reads, judged by differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tensorad import te
from tensorad.autodiff.local.box import Box
from tensorad.autodiff.local.combiners import fold_groups, is_empty, is_fold, reduce_terms
from tensorad.autodiff.local.linear import body_terms, differentiate, times
from tensorad.autodiff.local.scan_forms import scatter_scan, steps_of, traced_scan
from tensorad.autodiff.local.steps import jacobian_entries, plus, product_sum
from tensorad.autodiff.local.views import compute_terms, differentiable_inputs, view
from tensorad.ir.combiner import max_combiner, prod_combiner, sum_combiner
from tensorad.ir.dtypes import FLOAT64
from tensorad.ir.expr import TRUE, Axis, Expr, Read, Reduce, axis, const, read
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Compute, Scan, Scatter, Tensor, Update, outputs
from tensorad.ir.visit import reads
from tests.support.loops.small_loops import op_of
from tests.support.oracles import evaluate

X = te.placeholder((4,), "float64", name="X")
Z = te.placeholder((4,), "float64", name="Z")


def every(e: Expr) -> bool:
    return isinstance(e, Read)


def value_of(e: Expr, arrays: dict[Tensor, np.ndarray], i: Axis) -> np.ndarray:
    """An expression over one axis."""
    t = outputs(Compute("value", (i,), (e,), ""))[0]
    used = dict.fromkeys([r.tensor for r in reads(e)])
    return interpret([t], {t: arrays[t] for t in used})[0]


FORMULAS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "product": lambda x, z: x * z * x,
    "quotient": lambda x, z: x / z,
    "chosen": lambda x, z: te.select(x > z, x * 3.0, z),
    "function": lambda x, z: te.exp(x) - te.sqrt(z),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_partial_derivatives_are_slopes(name: str) -> None:
    i = axis("i", 0, 4)
    reads_ = (read(X, (i,)), read(Z, (i,)))
    root = FORMULAS[name](*reads_)
    terms = body_terms(0, root, every)
    arrays = {X: np.array([0.5, 2.0, 1.0, 3.0]), Z: np.array([1.5, 1.0, 4.0, 2.5])}
    for wanted in reads_:
        total = np.zeros(4)
        for t in terms:
            if t.read is wanted:
                total += value_of(te.select(t.guard, t.coefficient, 0.0), arrays, i)
        step = {wanted.tensor: arrays[wanted.tensor] + 1e-6}
        back = {wanted.tensor: arrays[wanted.tensor] - 1e-6}
        slope = value_of(root, arrays | step, i) - value_of(root, arrays | back, i)
        np.testing.assert_allclose(total, slope / 2e-6, rtol=1e-6, atol=1e-8)
    assert set(differentiate(root, every)) == set(reads_)


def test_factors_as_one_would_write_them() -> None:
    i = axis("i", 0, 4)
    x, z = read(X, (i,)), read(Z, (i,))
    assert str(times(x, const(-1.0, FLOAT64))) == "-X[i]"
    assert str(times(x, const(1.0, FLOAT64) / z)) == "X[i]/Z[i]"
    assert plus(None, x) is x
    assert plus(x, None) is x
    assert plus(None, None) is None
    assert product_sum([], x) is None


def folded(fold: Callable[..., Expr]) -> Compute:
    k = te.reduce_axis(4, name="k")
    return op_of(te.compute((), lambda: fold(X[k] * Z[k], axis=k), name="Y"))


def test_sums_have_terms_and_products_are_swept() -> None:
    found = reduce_terms(folded(te.sum), 0, every)
    assert sorted([(t.read.tensor.name, str(t.coefficient)) for t in found]) == [
        ("X", "Z[k]"), ("Z", "X[k]"),
    ]  # fmt: skip
    assert not is_fold(folded(te.sum), 0)
    assert fold_groups(folded(te.sum)) == []
    product = folded(te.prod)
    assert is_fold(product, 0)
    ((e, swept, beside),) = fold_groups(product)
    assert (e, swept, beside) == (product.bodies[0], {0: 0}, {})
    assert isinstance(e, Reduce)
    assert not is_empty(e)


def test_derivatives_of_one_step() -> None:
    c = prod_combiner(FLOAT64)
    ((by_state, by_element),) = jacobian_entries(c, (*c.lhs, *c.rhs))
    assert by_state is not None
    assert by_element is not None
    assert by_state[1] is c.rhs[0]
    assert by_element[1] is c.lhs[0]


def test_positions_in_the_box_of_the_axes() -> None:
    p, q = axis("p", 2, 5), axis("q", 0, 4)
    box = Box.around([p, q])
    assert evaluate(box.size(), {}) == 12
    places = box.at(box.position())
    for a in (2, 3, 4):
        for b in range(4):
            at = {p: a, q: b}
            assert evaluate(box.position(), at) == (a - 2) * 4 + b
            assert [evaluate(places[e], at) for e in (p, q)] == [a, b]
    assert box.inside() is TRUE


def test_what_differentiation_sees() -> None:
    k, m = te.reduce_axis(4, name="k"), te.reduce_axis(4, name="m")
    nested = te.compute((), lambda: te.exp(te.sum(X[k], axis=k)) * te.sum(Z[m], axis=m), name="Y")
    viewed = view(op_of(nested))
    assert isinstance(viewed, Compute)
    assert not any(isinstance(b, Reduce) for b in viewed.bodies)
    assert X not in differentiable_inputs(viewed)  # its sum is a stage
    assert len(compute_terms(viewed, 0, every)) == 2
    plain = op_of(te.compute((4,), lambda i: X[i] * 2.0, name="P"))
    assert view(plain) is plain
    assert differentiable_inputs(plain) == (X,)


def test_scatters_as_scans_and_origins_of_maxima() -> None:
    a = axis("a", 0, 4)
    update = Update((a % 2,), read(X, (a,)))
    op = Scatter("S", (2,), FLOAT64, (a,), (update,), prod_combiner(FLOAT64))
    scan = scatter_scan(op)
    arrays = {X: np.array([2.0, 3.0, 4.0, 5.0])}
    np.testing.assert_array_equal(interpret([outputs(scan)[-1]], arrays)[0], [8.0, 15.0])
    assert evaluate(steps_of(scan), {}) == 4
    for c, traced in ((sum_combiner(FLOAT64), False), (max_combiner(FLOAT64), True)):
        t = te.scan(X, 0, "sum" if c.is_sum else "max")
        assert isinstance(t.op, Scan)
        assert (traced_scan(t.op) is not t.op) == traced
