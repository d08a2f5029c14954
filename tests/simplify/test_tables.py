"""Index maps inverted while compiling: constant tables, and formulas beyond affine arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from tensorad import config, te
from tensorad.autodiff import vjp
from tensorad.building import evaluate
from tensorad.checking import gradcheck
from tensorad.counting import work
from tensorad.ir.expr import Axis, Expr, axis, logical_and
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Compute, Scatter, Tensor
from tensorad.ir.visit import postorder
from tensorad.simplify.domain import listed_points
from tensorad.simplify.zeros.eliminate import eliminate
from tests.support.oracles import box, check_solution

Problem = tuple[list[Axis], list[Axis], Expr]


def _table(*values: int) -> Tensor:
    return te.const(np.array(values))  # type: ignore[no-any-return]


def _cases() -> dict[str, Problem]:
    cases: dict[str, Problem] = {}
    t = _table(3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5)
    x, v = box(x=10), box(i=11)
    cases["gather"] = (x, v, x[0] == t[v[0]])
    x, v = box(x=10, y=4), box(i=11, j=4)
    cases["gather rows"] = (x, v, logical_and(x[0] == t[v[0]], x[1] == v[1]))
    x, v = box(x=16), box(i=11, j=3)
    cases["windows at table entries"] = (x, v, x[0] == t[v[0]] + 2 * v[1])
    x, v = box(x=11), box(i=11, j=11)
    cases["triangle below a table"] = (x, v, logical_and(x[0] == v[1], v[1] <= t[v[0]]))
    p = _table(2, 0, 3, 1)
    x, v = box(x=4), box(i=4)
    cases["permutation"] = (x, v, x[0] == p[v[0]])
    x, v = box(x=36), box(i=8, j=8)
    i, j = v
    cases["triangular packing"] = (x, v, logical_and(x[0] == i * (i + 1) // 2 + j, j <= i))
    x, v = box(x=30), box(i=6)
    cases["squares"] = (x, v, x[0] == v[0] * v[0])
    x, v = box(x=6), box(i=9, j=9)
    cases["products"] = (x, v, x[0] == v[0] * v[1] % 7)
    x, v = box(x=8), box(i=8, k=6)
    cases["table and window"] = (x, v, logical_and(x[0] == v[0], p[v[1] % 4] != v[0] % 3))
    x = [axis("x", 0, 5)]
    k = axis("k", 0, x[0] + 1)
    cases["rows of unequal length"] = (x, [k], k * k <= x[0] * 2)
    return cases


CASES = _cases()


@pytest.mark.parametrize("name", CASES)
def test_tables_list_the_points(name: str) -> None:
    outer, inner, condition = CASES[name]
    solution = eliminate(outer, inner, condition)
    assert solution.exact
    assert solution.method == "table"
    visited, wanted = check_solution(outer, inner, condition, solution)
    assert visited <= wanted


def test_permutations_need_no_loop() -> None:
    (piece,) = eliminate(*CASES["permutation"]).pieces
    assert piece.axes == ()
    assert [str(v) for v in piece.values.values()] == ["i_at[x]"]


def _nodes(n: int) -> int:
    table = te.const(np.arange(n) * 7 % 5)
    x = te.placeholder((5,), name="X")
    y = te.compute((n,), lambda i: x[table[i]], name="Y")
    (dx,) = vjp(y, [x], te.placeholder((n,), name="H"))
    assert isinstance(dx.op, Compute)
    return len(postorder(*dx.op.bodies))


def test_size_of_the_gradient_does_not_depend_on_the_table() -> None:
    assert _nodes(8) == _nodes(803)


def test_sums_over_tables_are_right_and_visit_each_point_once() -> None:
    x = te.placeholder((10, 3), dtype="float64", name="X")
    table = te.const(np.array([[3, 1, 4], [1, 5, 9], [2, 6, 5], [3, 5, 8]]))
    k = te.reduce_axis(3)
    y = te.compute((4, 3), lambda i, j: te.sum(te.sin(x[table[i, k], j]), axis=k), name="Y")
    h = te.placeholder((4, 3), dtype="float64", name="H")
    (dx,) = vjp(y, [x], h)
    assert work(dx).iterations == 36
    rng = np.random.default_rng(1)
    values = {x: rng.standard_normal((10, 3)), h: rng.standard_normal((4, 3))}
    np.testing.assert_allclose(evaluate(dx, values), interpret(dx, values), rtol=1e-12)
    assert gradcheck(y, [x], order=2)


def test_tables_too_large_to_list_scatter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listed_points, "MAX_ROWS", 5)
    table = te.const(np.array([3, 1, 4, 1, 5, 9, 2, 6]))
    x = te.placeholder((10,), name="X")
    y = te.compute((8,), lambda i: x[table[i]], name="Y")
    (dx,) = vjp(y, [x], te.placeholder((8,), name="H"))
    assert isinstance(dx.op, Scatter)
    assert work(dx).iterations == 18


def test_sizes_leave_formulas_unlisted() -> None:
    n = te.size("n")
    outer, inner = [axis("x", 0, n * n)], [axis("i", 0, n)]
    condition = outer[0] == inner[0] * inner[0]
    solution = eliminate(outer, inner, condition)
    assert not solution.exact
    check_solution(outer, inner, condition, solution, {n: 4})


@pytest.mark.parametrize("operations", [30, 100, 300])
def test_a_condition_without_inner_axes_stays(operations: int) -> None:
    x = box(i=8, j=6)
    with config.override(isl_operations=operations):
        check_solution(x, [], x[0] < 4, eliminate(x, [], x[0] < 4))
