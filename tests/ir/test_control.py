"""Calls, branches and loops of tensors: their shapes, and what the interpreter makes of them."""

from __future__ import annotations

import pickle

import numpy as np

import tensorad as ta
from tensorad.ir.analysis.blocks import captures, op_sizes, ops_between
from tensorad.ir.analysis.facts import facts_about
from tensorad.ir.expr import local_size
from tensorad.ir.tensor import Block, Branch, FunctionCall, dim_of, outputs, saved
from tensorad.simplify.formula.dataflow import over_inputs
from tests.support.programs.loops import cumulative, newton


def test_a_loop_runs_its_block_for_each_value_of_the_counter() -> None:
    x = ta.placeholder((5, 3), name="x")
    total, loop = cumulative(x)
    a = np.arange(15.0).reshape(5, 3)
    assert np.array_equal(ta.interpret(total, {x: a}), a.sum(0))
    sums = saved(loop, loop.blocks[0].results[0])
    assert sums.shape == (5, 3)
    assert np.array_equal(ta.interpret(sums, {x: a}), a.cumsum(0))


def test_rows_of_a_loop_that_runs_backwards_lie_at_its_counter() -> None:
    x = ta.placeholder((4, 2), name="x")
    total, loop = cumulative(x, reverse=True)
    a = np.arange(8.0).reshape(4, 2)
    sums = ta.interpret(saved(loop, loop.blocks[0].results[0]), {x: a})
    assert np.array_equal(sums, a[::-1].cumsum(0)[::-1])
    assert np.array_equal(ta.interpret(total, {x: a}), a.sum(0))


def test_a_loop_with_a_condition_ends_when_it_is_false() -> None:
    a = ta.placeholder((), "float64", name="a")
    root, loop = newton(a)
    for value in (2.0, 9.0, 1.0):
        assert abs(ta.interpret(root, {a: value}) - value**0.5) < 1e-12
    (x,) = loop.blocks[0].params[:1]
    trail, _ = ta.interpret([saved(loop, x), root], {a: 2.0})
    assert np.allclose(trail[:3], [1.0, 1.5, 17 / 12], rtol=1e-15)


def test_a_branch_runs_one_block() -> None:
    index = ta.placeholder((), "int64", name="n")
    x = ta.placeholder((3,), name="x")
    double, square = x * 2.0, x * x
    blocks = (Block((x,), (double,)), Block((x,), (square,)))
    op = Branch(("y",), (index, x), blocks)
    (y,) = outputs(op)
    a = np.array([1.0, 2.0, 3.0])
    for n, wanted in ((0, a * 2), (1, a * a), (7, a * a), (-1, a * 2)):
        assert np.array_equal(ta.interpret(y, {index: n, x: a}), wanted)
    inside = ta.interpret([saved(op, double), saved(op, square, 1)], {index: 0, x: a})
    assert np.array_equal(inside[0], a * 2) and np.isnan(inside[1]).all()


def test_a_call_evaluates_its_block_on_its_operands() -> None:
    p = ta.placeholder((2,), name="p")
    x = ta.placeholder((2,), name="x")
    op = FunctionCall(("y", "z"), (x,), (Block((p,), (p + 1.0, p)),), function="f")
    y, z = outputs(op)
    found = ta.interpret([y, z], {x: [1.0, 2.0]})
    assert found[0].tolist() == [2.0, 3.0] and found[1].tolist() == [1.0, 2.0]


def test_pickles_keep_loops() -> None:
    x = ta.placeholder((5, 3), name="x")
    total, loop = cumulative(x)
    sums = saved(loop, loop.blocks[0].results[0])
    total, sums, x = pickle.loads(pickle.dumps((total, sums, x)))
    assert sums.op.control is total.op
    a = np.arange(15.0).reshape(5, 3)
    assert np.array_equal(ta.interpret(sums, {x: a}), a.cumsum(0))


def test_counters_are_below_their_extents() -> None:
    n = ta.size("n")
    t = local_size("t", n)
    u = local_size("u", t + 1)
    assert [str(f) for f in facts_about([u])] == [f"{u} < {t} + 1", f"{t} < n"]


def test_operations_know_the_sizes_in_their_blocks() -> None:
    n = ta.size("n")
    x = ta.placeholder((n, 3), name="x")
    _, loop = cumulative(x)
    after = loop.blocks[0].results[0]
    assert list(op_sizes(loop)) == [n] == list(op_sizes(saved(loop, after).op))
    assert set(op_sizes(after.op)) == {loop.counter}


def test_captures_are_what_a_block_reads_from_outside() -> None:
    x, w = ta.placeholder((3,), name="x"), ta.placeholder((3,), name="w")
    p = ta.placeholder((3,), name="p")
    scaled = w * 2.0
    result = p * scaled + x
    assert captures([result], [p], lambda op: False) == [scaled, x]
    assert captures([result], [p], lambda op: op is scaled.op) == [w, x]
    assert [op.name for op in ops_between([result], {p, scaled, x})] == ["mul", "add"]


def test_a_loop_is_inside_if_what_is_saved_of_it_is() -> None:
    x = ta.placeholder((4, 3), name="x")
    _, loop = cumulative(x)
    rows = saved(loop, loop.blocks[0].results[0])
    assert captures([rows], [], lambda op: op is rows.op) == [x]


def test_what_has_a_size_that_a_loop_tells_comes_after_the_loop() -> None:
    a = ta.placeholder((), "float64", name="a")
    root, loop = newton(a)
    ones = ta.compute((dim_of(loop.trips),), lambda i: 1.0, name="ones")
    order = ops_between([ones, root], {})
    assert order.index(loop) < order.index(ones.op)
    found = ta.interpret([ones, root], {a: 1.0})
    assert found[0].shape == (0,)


def test_operations_with_blocks_are_made_again_over_other_operands() -> None:
    x, y = ta.placeholder((5, 3), name="x"), ta.placeholder((5, 3), name="y")
    total, loop = cumulative(x)
    sums = saved(loop, loop.blocks[0].results[0])
    image = {x: y}
    for op in (loop, sums.op):
        image.update(zip(outputs(op), outputs(over_inputs(op, image)), strict=True))
    assert image[sums].op.control is image[total].op is not loop
    a = np.arange(15.0).reshape(5, 3)
    assert np.array_equal(ta.interpret(image[sums], {y: a}), a.cumsum(0))
