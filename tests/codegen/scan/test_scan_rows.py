"""Scans side by side and one after the other: values, loops and what stays in scratch."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.ir import Fold, For, If, Store
from tensorad.codegen.loops.kernel_key import kernel_key
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.lower import lower_program
from tensorad.codegen.runtime.kernel_cache import kernel_text
from tensorad.codegen.scan.schedule import side_by_side
from tensorad.ir.expr import axis, const, int_const, read, size_var
from tensorad.ir.tensor import Tensor
from tests.codegen.schedule.test_schedule import loops


def product_gradient(n: int, m: int) -> tuple[Tensor, list[Tensor]]:
    """dX of the products of X's rows, and what it reads."""
    x, h = te.placeholder((n, m), name="X"), te.placeholder((n,), name="H")
    k = te.reduce_axis((0, m), "k")
    y = te.compute((n,), lambda i: te.prod(x[i, k], axis=k), "Y")
    (dx,) = ta.vjp(y, [x], h)
    return dx, [x, h]


def test_rows_are_repeated_inside_of_loops_and_on_both_sides_of_branches() -> None:
    x, y = te.placeholder((4, 8), name="X"), te.placeholder((4, 8), name="Y")
    row, i = axis("r", 0, 4), axis("i", 0, 8)
    copied = Store((y,), (row, i), (read(x, (row, i)),))
    cleared = Store((y,), (row, int_const(0)), (const(0.0, y.dtype),))
    branch = If(size_var("n") > 3, (For(i, (copied,)),), (cleared,))
    (made,) = side_by_side((branch,), [{row: int_const(0)}, {row: int_const(1)}])
    assert isinstance(made, If) and made.cond is branch.cond
    (loop,) = made.then
    assert isinstance(loop, For) and loop.axis is i
    for block, column in ((loop.body, i), (made.orelse, int_const(0))):
        stored = [s.indices for s in block if isinstance(s, Store)]
        assert stored == [(int_const(0), column), (int_const(1), column)]


def test_the_scan_backwards_follows_its_states_in_cache() -> None:
    dx, inputs = product_gradient(64, 12)
    program = lower_program([dx], inputs)
    verify_loops(program)
    (kernel,) = program.kernels
    (kept,) = kernel.scratch
    assert kept.shape == (4, 12)
    assert kernel.writes == (dx,)
    (rows,) = kernel.body
    assert isinstance(rows, For)
    walks = [s for s in rows.body if isinstance(s, For)]
    assert [sum(isinstance(s, Fold) for s in w.body) for w in walks] == [4, 4]


def test_long_rows_of_a_chain_run_in_lanes_and_are_turned_in_registers() -> None:
    dx, inputs = product_gradient(64, 256)
    (kernel,) = lower_program([dx], inputs).kernels
    assert [t.shape for t in kernel.scratch] == [(256, 16)] * 3
    text = kernel_text(kernel, kernel_key(kernel)[1])[0]
    assert text.count("= call <16 x float> @llvm.masked.gather") <= 1  # left of a strip
    assert text.count("shufflevector") >= 2 * 64  # what is read and what is stored, 16 x 16 each


def test_chains_stay_apart_where_it_was_asked_for() -> None:
    dx, inputs = product_gradient(64, 256)
    apart = lower_program([dx], inputs, choices=ta.Schedule(fuse=False))
    assert len(apart.kernels) == 2


def test_states_that_are_wanted_are_stored_beside_their_chain() -> None:
    dx, inputs = product_gradient(6, 9)
    apart = lower_program([dx], inputs, choices=ta.Schedule(fuse=False))
    states = next(t for t in apart.kernels[0].writes)
    program = lower_program([dx, states], inputs)
    verify_loops(program)
    (kernel,) = program.kernels
    assert {dx, states} == {*kernel.writes} and not kernel.scratch
    rng = np.random.default_rng(0)
    given = dict(zip(inputs, (rng.uniform(size=(6, 9)), rng.uniform(size=6)), strict=True))
    plain = lower_program([dx, states], inputs, choices=ta.Schedule(fuse=False))
    for found, expected in zip(*[interpret_loops(p, given)[0] for p in (program, plain)]):
        np.testing.assert_array_equal(found, expected)


CASES = [*product((1, 2, 3, 4, 5, 8, 11), (1, 2, 7)), (16, 16), (37, 21)]


@pytest.mark.sampled(15)
@pytest.mark.parametrize(("n", "m"), CASES)
def test_any_number_of_rows(n: int, m: int) -> None:
    dx, inputs = product_gradient(n, m)
    rng = np.random.default_rng([n, m])
    x, h = rng.uniform(0.5, 1.5, (n, m)), rng.uniform(size=n)
    wanted = h[:, None] * x.prod(1)[:, None] / x
    for given in (None, ta.Schedule(tile=(3, 1)), ta.Schedule(fuse=False)):
        program = lower_program([dx], inputs, choices=given)
        verify_loops(program)
        (found,), _ = interpret_loops(program, dict(zip(inputs, (x, h), strict=True)))
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
        compiled = ta.build(dx, inputs, schedule=given)
        got = compiled(x.astype(np.float32), h.astype(np.float32))
        np.testing.assert_allclose(got, wanted, rtol=1e-5)


def test_rows_on_several_threads_have_the_same_bits() -> None:
    dx, inputs = product_gradient(2051, 64)
    assert loops(lower_program([dx], inputs), "parallel")
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(0.9, 1.1, t.shape).astype(np.float32) for t in inputs]
    function = ta.build(dx, inputs)
    results = set()
    for threads in (1, 2, 3, 8):
        with ta.config.override(num_threads=threads):
            results.add(function(*arrays).tobytes())
    assert len(results) == 1


def test_a_symbolic_number_of_rows() -> None:
    n = te.size("n")
    x, h = te.placeholder((n, 8), name="X"), te.placeholder((n,), name="H")
    k = te.reduce_axis((0, 8), "k")
    y = te.compute((n,), lambda i: te.prod(x[i, k], axis=k), "Y")
    function = ta.build(ta.vjp(y, [x], h)[0], [x, h])
    for size in (0, 1, 4, 6):
        a = np.random.default_rng(size).uniform(0.5, 1.5, (size, 8)).astype(np.float32)
        b = np.ones(size, np.float32)
        np.testing.assert_allclose(function(a, b), a.prod(1)[:, None] / a, rtol=1e-5)


def test_rows_that_decide_their_own_steps_go_one_by_one() -> None:
    x, h = te.placeholder((8, 8), name="X"), te.placeholder((8,), name="H")
    k = te.reduce_axis((0, 8), "k")
    y = te.compute((8,), lambda i: te.prod(x[i, k], axis=k, where=k <= i), "Y")
    dx = ta.vjp(y, [x], h)[0]
    program = lower_program([dx], [x, h])
    verify_loops(program)
    values = np.random.default_rng(3).uniform(0.5, 1.5, (8, 8))
    (found,), _ = interpret_loops(program, {x: values, h: np.ones(8)})
    kept = np.tril(np.ones((8, 8)))
    wanted = kept * np.where(kept, values, 1).prod(1)[:, None] / values
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_scans_along_different_axes_are_no_chain() -> None:
    x = te.placeholder((5, 6), name="X")
    y = te.scan(te.scan(x, 1), 0)
    program = lower_program([y], [x])
    verify_loops(program)
    assert len(program.kernels) == 2
    array = np.arange(30, dtype="f4").reshape(5, 6)
    np.testing.assert_array_equal(ta.build(y, [x])(array), array.cumsum(1).cumsum(0))
