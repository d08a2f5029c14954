"""Reductions inside formulas: where their stages are computed, whatever guards their uses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.bound import bound
from tensorad.errors import BoundsError
from tensorad.ir.expr import Expr
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Tensor, outputs
from tensorad.ir.visit import topological_ops


def stage_points(y: Tensor, x: Tensor, name: str) -> int:
    """What the stage of that name, or its adjoint computed with it, visits in the gradient."""
    (dx,) = ta.vjp(y, [x], te.placeholder(y.shape, dtype="float64", name="H"))
    assert ta.work(dx).iterations <= bound(y, [x])
    stage = next(op for op in topological_ops([dx]) if op.name in (name, f"d{name}"))
    return int(ta.work(list(outputs(stage))).iterations)


def test_a_stage_is_computed_only_where_its_guard_holds() -> None:
    x = te.placeholder((5, 3, 4), dtype="float64", name="X")
    k = te.reduce_axis(4, "k")
    y = te.compute(
        (5, 3),
        lambda i, j: te.select(j > 0, 1.0, te.exp(te.prod(x[i, j, k], axis=k))),
        name="Y",
    )
    h = te.placeholder((5, 3), dtype="float64", name="H")
    (dx,) = ta.vjp(y, [x], h)
    assert ta.work(dx).iterations <= bound(y, [x])
    assert ta.work(dx).iterations == 3 * 20 + 60, "three passes where j is 0, then dX"


@pytest.mark.parametrize("of", [te.exp, lambda v: v * 3.0], ids=["exp", "linear"])
def test_a_guard_over_other_axes_does_not_multiply_a_stage(of: Any) -> None:
    x = te.placeholder((4, 5), dtype="float64", name="X")
    p = te.placeholder((3,), dtype="int64", name="P")
    m = te.placeholder((6, 3), dtype="float64", name="M")
    h = te.placeholder((6, 3), dtype="float64", name="H")
    k = te.reduce_axis(5, "k")
    y = te.compute(
        (6, 3),
        lambda i, j: te.select(m[i, j] > 0.0, of(te.prod(x[p[j], k], axis=k)), 1.0),
        name="Y",
    )
    (dx,) = ta.vjp(y, [x], h)
    assert ta.work(dx).iterations <= bound(y, [x])
    rng = np.random.default_rng(1)
    arrays = {x: rng.uniform(1, 2, (4, 5)), m: rng.normal(size=(6, 3)), p: np.array([3, 9, 0])}
    arrays[m][:, 1] = -1
    assert ta.gradcheck(y, [x], arrays=arrays, order=2)
    arrays[h] = rng.normal(size=(6, 3))
    np.testing.assert_allclose(ta.evaluate(dx, arrays), interpret(dx, arrays))
    arrays[m][2, 1] = 1
    for evaluate in (ta.evaluate, interpret):
        with pytest.raises(BoundsError, match="X is read"):
            evaluate(dx, arrays)


def test_a_guarded_position_is_found_once_for_all_guards() -> None:
    x = te.placeholder((4, 5), dtype="float64", name="X")
    p = te.placeholder((3,), dtype="int64", name="P")
    m = te.placeholder((6, 3), dtype="float64", name="M")
    k = te.reduce_axis(5, "k")
    y = te.compute(
        (6, 3),
        lambda i, j: te.select(
            m[i, j] > 0.0, m[i, j] ** te.argmax(x[p[j], k], axis=k).astype("float64"), 1.0
        ),
        name="Y",
    )
    (dm,) = ta.vjp(y, [m], 1.0)
    assert ta.work(dm).iterations == 15 + 18, "the positions, then dM"


def test_an_unsafe_stage_is_computed_where_its_guard_holds_for_some_use() -> None:
    x = te.placeholder((5, 4), dtype="float64", name="X")
    p = te.placeholder((3,), dtype="int64", name="P")
    k, q = te.reduce_axis(5, "k"), te.reduce_axis(3, "q")
    y = te.compute(
        (5,),
        lambda i: te.max(
            te.sum(x[i, p[q]] ** 2, axis=q) * 0.1, axis=k, where=te.select(k > i, i > 0, False)
        ),
        name="Y",
    )
    assert stage_points(y, x, "Y.sum") == 3 * 3, "rows 1 to 3"


def test_a_stage_of_a_reduction_over_nothing_is_never_computed() -> None:
    x = te.placeholder((5, 4), dtype="float64", name="X")
    k, q = te.reduce_axis(4, "k"), te.reduce_axis(4, "q")
    y = te.compute(
        (5,),
        lambda i: x[i, 0] * te.max(te.exp(te.sum(x[i, q] * x[i, k], axis=q)), axis=k, where=i != i),
        name="Y",
    )
    assert stage_points(y, x, "Y.max.sum") == 0


def test_indices_are_tested_before_data() -> None:
    x = te.placeholder((5, 4), dtype="float64", name="X")
    p = te.placeholder((4,), dtype="int64", name="P")
    k = te.reduce_axis(4, "k")
    y = te.compute(
        (5,),
        lambda i: te.select(i > 2, te.sum(x[p[i - 1], k], axis=k, where=x[i, p[k]] > 0) ** 2, 1.0),
        name="Y",
    )
    assert stage_points(y, x, "Y.sum") == 2 * 4


def test_a_stage_over_an_axis_without_values_is_never_computed() -> None:
    x = te.placeholder((5, 2), dtype="float64", name="X")
    k, q = te.reduce_axis((2, 2), "k"), te.reduce_axis(4, "q")
    y = te.compute(
        (5,),
        lambda i: te.prod(te.exp(te.max(x[q, k] * x[i, 0], axis=q)), axis=k) * x[i, 1],
        name="Y",
    )
    assert stage_points(y, x, "Y.prod.max") == 0
    assert ta.gradcheck(y, [x])


def test_what_an_alternative_rules_out_is_no_part_of_a_stage() -> None:
    x = te.placeholder((4, 5), dtype="float64", name="X")
    m = te.placeholder((4, 6), dtype="float64", name="M")
    k = te.reduce_axis(5, "k")
    y = te.compute(
        (4, 6),
        lambda i, j: te.select(
            (i % 2 == 0) | (j < 4) | (m[i, j] > 0.0), 1.0, te.exp(te.max(x[i, k], axis=k))
        ),
        name="Y",
    )
    assert stage_points(y, x, "Y.max") == 2 * 5, "rows 1 and 3"


@pytest.mark.parametrize(("fold", "order"), [("max", 2), ("sum", 1), ("any", 1)])
def test_a_stage_whose_unsafe_index_varies_remembers_where_it_left(fold: str, order: int) -> None:
    x = te.placeholder((4, 5), dtype="float64", name="X")
    p = te.placeholder((3, 5), dtype="int64", name="P")
    m = te.placeholder((6, 3), dtype="float64", name="M")
    h = te.placeholder((6, 3), dtype="float64", name="H")

    def value(i: Expr, j: Expr) -> Expr:
        k = te.reduce_axis(5, "k")
        e = te.select(k > 0, x[p[j, k], k], 1.0) ** 2
        reduced = {
            "max": lambda: te.max(e, axis=k),
            "sum": lambda: te.sum(e, axis=k),
            "any": lambda: te.any_of(e > 2.0, axis=k).astype("float64") + 1.0,
        }
        return te.select(m[i, j] > 0.0, te.exp(reduced[fold]()) * m[i, j], 1.0)

    y = te.compute((6, 3), value, name="Y")
    dx, dm = ta.vjp(y, [x, m], h)
    assert ta.work([dx, dm]).iterations <= bound(y, [x, m])
    stages = [op for op in topological_ops([dx, dm]) if op.name == f"Y.{fold}"]
    assert [op.shape for op in stages] == [(3,)], "no axis i"
    rng = np.random.default_rng(1)
    arrays = {x: rng.uniform(1, 2, (4, 5)), m: rng.normal(size=(6, 3)), h: np.ones((6, 3))}
    arrays[p] = np.array([[9, 1, 2, 3, 0], [0, 1, 0, 7, 4], [-1, 0, 3, 3, 3]])
    arrays[m][:, 1] = -1
    assert ta.gradcheck(y, [x, m], arrays={t: arrays[t] for t in (x, p, m)}, order=order)
    expected = interpret([dx, dm], arrays)
    for a, b in zip(ta.evaluate([dx, dm], arrays), expected, strict=True):
        np.testing.assert_allclose(a, b)
    arrays[m][2, 1] = 1
    for evaluate in (ta.evaluate, interpret):
        with pytest.raises(BoundsError, match="X is read"):
            evaluate([dx, dm], arrays)
