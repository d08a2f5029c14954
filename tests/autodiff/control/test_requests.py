"""What may be asked of programs with loops: Hessians, intermediates, several outputs, own rules."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad.autodiff.counting.cost import cost
from tensorad.errors import GradError
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Dim, Loop, Tensor, outputs, saved
from tensorad.ir.visit import topological_ops
from tensorad.simplify.formula.common_reductions import computed_once
from tensorad.simplify.formula.short_circuit import short_circuited
from tensorad.simplify.formula.unused_axes import drop_unused_axes
from tests.support.programs.build import loop
from tests.support.programs.oracles import check_both_modes

RNG = np.random.default_rng(5)


def given(name: str, *shape: Dim) -> Tensor:
    return ta.placeholder(shape, "float64", name=name)


def _waves() -> tuple[Tensor, Loop, Tensor, Tensor]:
    """(last state, loop, rows, first state) of symbolic sizes."""
    n, m = ta.size("n"), ta.size("m")
    x, start = given("x", n, m), given("start", m)

    def body(t: Expr, c: Tensor, row: Tensor) -> list[Tensor]:
        return [ta.compute((m,), lambda j: ta.sin(c[j]) * row[j] + x[t, j], name="wave")]

    op = loop(body, [start], [x], [x], n)
    return outputs(op)[0], op, x, start


def _total(y: Tensor) -> Tensor:
    j = ta.reduce_axis((0, y.shape[0]), name="j")
    return ta.compute((), lambda: ta.sum(y[j] * y[j], axis=j), name="total")


@pytest.mark.parametrize("n", [0, 1, 4])
def test_sizes_may_be_symbols(n: int) -> None:
    y, _, x, start = _waves()
    values = {x: RNG.standard_normal((n, 3)), start: RNG.standard_normal(3)}
    check_both_modes(_total(y), [x, start], values)
    assert np.allclose(
        ta.interpret(ta.jacobian(y, x), values),
        ta.interpret(ta.jacobian(y, x, mode="forward"), values),
    )


def test_hessians_in_both_modes_agree_and_multiply_vectors() -> None:
    y, _, x, start = _waves()
    z, v = _total(y), given("v", start.shape[0])
    modes = [ta.hessian(z, start, mode=mode) for mode in ("reverse", "forward")]
    values = {x: RNG.standard_normal((4, 3)), start: RNG.standard_normal(3), v: [1.0, -2.0, 0.5]}
    found = ta.interpret([*modes, ta.hvp(z, start, v)], values)
    assert np.allclose(found[0], found[1]) and np.allclose(found[0] @ values[v], found[2])


def test_outputs_and_saved_rows_may_be_what_is_differentiated_by() -> None:
    last, op, x, start = _waves()
    rows = saved(op, op.blocks[0].results[0])
    y = ta.compute(rows.shape, lambda t, j: rows[t, j] * last[j], name="y")
    by_rows, by_last = ta.vjp(y, [rows, last], 1.0)
    values = {x: RNG.standard_normal((4, 3)), start: RNG.standard_normal(3)}
    found = ta.interpret([rows, last, by_rows, by_last, ta.jvp(y, {rows: 1.0, last: 1.0})], values)
    assert np.allclose(found[2], np.tile(found[1], (4, 1)))
    assert np.allclose(found[3], found[0].sum(0)) and np.allclose(found[4], found[0] + found[1])


def test_outputs_share_one_reversed_loop() -> None:
    x, start = given("x", 3), given("start")
    op = loop(lambda t, p, q, r: [p * r, q + p * r], [start, start], [x], trips=3)
    p, q = outputs(op)
    together = ta.vjp([p, q], [x, start])
    apart = ta.vjp(p + q, [x, start])
    values = {x: RNG.standard_normal(3), start: 0.7}
    for a, b in zip(ta.interpret(together, values), ta.interpret(apart, values), strict=True):
        assert np.allclose(a, b)


def test_rules_hold_inside_of_loops() -> None:
    x, start = given("x", 3), given("start")
    squares: list[Tensor] = []

    def body(t: Expr, c: Tensor, row: Tensor) -> list[Tensor]:
        squares.append(row * row)
        return [c + squares[0]]

    (y,) = outputs(loop(body, [start], [x], trips=3))
    rule = {squares[0]: lambda t, deps, head: [head * 10.0]}
    values = {x: np.ones(3), start: 1.0}
    (dx,), moved = ta.vjp(y, [x], override=rule), ta.jvp(y, {x: values[x]}, override=rule)
    assert ta.interpret(dx, values).tolist() == [10.0] * 3
    assert ta.interpret(moved, values) == 30.0


def test_gradients_stop_inside_of_loops() -> None:
    x, start = given("x", 3), given("start")

    def body(t: Expr, c: Tensor, row: Tensor) -> list[Tensor]:
        return [ta.compute((), lambda: ta.stop_gradient(c()) * row() + c(), name="c")]

    (y,) = outputs(loop(body, [start], [x], trips=3))
    (dx,) = ta.vjp(y, [x])
    assert ta.interpret(dx, {x: [1.0, 2.0, 3.0], start: 1.0}).tolist() == [1.0, 2.0, 6.0]


def test_what_no_output_depends_on_is_refused_if_strict() -> None:
    y, _, _, _ = _waves()
    with pytest.raises(GradError) as error:
        ta.vjp(y, [given("z")], 1.0, strict=True)
    assert str(error.value) == (
        "last0 does not depend on z.\n"
        "  hint: remove it from wrt, or leave out strict=True to get zeros."
    )


def test_passes_over_gradients_keep_loops() -> None:
    y, _, x, start = _waves()
    found = ta.vjp(_total(y), [x, start])
    values = {x: RNG.standard_normal((4, 3)), start: RNG.standard_normal(3)}
    want = ta.interpret(found, values)
    for shorter in (drop_unused_axes(found), computed_once(found, ()), short_circuited(found, {})):
        for a, b in zip(ta.interpret(shorter, values), want, strict=True):
            assert np.allclose(a, b)


def test_operands_of_loops_keep_axes_that_their_formulas_do_not_use() -> None:
    start = given("start", 3)
    rows = ta.compute((4, 3), lambda t, j: ta.sin(start[j]), name="rows")
    op = loop(lambda t, c, row: [c + row], [start], [rows], trips=4)
    y = outputs(op)[0] * 1.0
    (found,) = drop_unused_axes([y])
    assert any(o.shape == (3,) and o.name == "rows" for o in topological_ops([found]))
    a = np.array([0.1, 0.2, 0.3])
    assert np.allclose(ta.interpret(found, {start: a}), a + 4 * np.sin(a))


def test_gradients_through_loops_are_explained() -> None:
    y, _, x, _ = _waves()
    (dx,) = ta.vjp(_total(y), [x])
    (found,) = ta.explain(dx).gradients
    (told,) = [b for b in found.blocks if b.control is y.op]
    assert [s.name for s in told.saved] == ["c0"]
    assert "stores   c0 : " in str(ta.explain(dx))


def test_jacobians_are_made_in_the_mode_whose_loops_do_less() -> None:
    for wide, narrow, mode in ((30, 2, "reverse"), (2, 30, "forward")):
        x, w = given("x", wide), given("w", narrow, wide)
        product = w @ x
        op = loop(lambda t, c: [ta.topi.sin(c)], [product], trips=20)
        j = ta.jacobian(outputs(op)[0], x)
        loops = [o for o in topological_ops([j]) if isinstance(o, Loop)]
        assert any(o.reverse for o in loops) == (mode == "reverse")


def test_costs_count_blocks_as_often_as_they_run() -> None:
    x = given("x", 5)
    costs = [cost([outputs(loop(lambda t, c: [c * c], [x], trips=n))[0]]) for n in (1, 2, 7)]
    assert costs[2] == 7 * costs[0] == 7 * (costs[1] - costs[0]) > 0
