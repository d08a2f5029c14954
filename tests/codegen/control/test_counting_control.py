"""`work` of programs with calls, branches and loops: what the interpreted loops execute."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.lower import lower_program
from tensorad.counting import Work, innermost, work
from tensorad.errors import UserError
from tensorad.ir.expr import int_const, local_size
from tensorad.ir.tensor import Block, Branch, Loop, Tensor, dim_expr, outputs, saved
from tests.support.programs.loops import (
    absolute_steps,
    cumulative,
    newton,
    scanned_cell,
    swapped,
    triangle,
)

RNG = np.random.default_rng(0)


def executed(
    tensors: list[Tensor], arrays: dict[Tensor, np.ndarray], sizes: dict[str, int] | None = None
) -> int:
    program = lower_program(tensors, list(arrays), schedule=False)
    return interpret_loops(program, arrays, sizes)[1]


@pytest.mark.parametrize("trips", [2, 3, 5])
def test_a_loop_counts_its_block_at_each_value_of_the_counter(trips: int) -> None:
    x, y = ta.placeholder((2,), name="x"), ta.placeholder((2,), name="y")
    made, _ = swapped(x, y, trips)
    arrays = {x: np.ones(2), y: np.ones(2)}
    assert work(made).iterations == executed(list(made), arrays)
    # a + b, and copies of the results, which go round three buffers
    assert work(made) == Work(4 + 2 * trips, 0, 4 + 2 * trips)


def test_rows_that_are_saved_are_stored_elements() -> None:
    x, w = ta.placeholder((6, 4), name="x"), ta.placeholder((4, 4), name="w")
    last, every, _ = scanned_cell(x, w)
    alone, both = work(last), work([last, every])
    assert both.elements == alone.elements + 4, "h lies in its row; the last one is copied"
    arrays = {x: RNG.standard_normal((6, 4)), w: RNG.standard_normal((4, 4))}
    assert both.iterations == executed([last, every], arrays)


def test_symbolic_numbers_of_iterations_make_polynomials() -> None:
    n, m = ta.size("n"), ta.size("m")
    x = ta.placeholder((n, m), name="x")
    total, loop = cumulative(x)
    rows = saved(loop, loop.blocks[0].results[0])
    found = work([total, rows])
    assert str(found.iterations) == "2*m + m*n"
    for sizes in ({"n": 1, "m": 1}, {"n": 4, "m": 3}):
        a = np.ones((sizes["n"], sizes["m"]))
        counted = work([total, rows], sizes).iterations
        assert counted == executed([total, rows], {x: a})


def test_loops_whose_bounds_are_counters_are_summed() -> None:
    n = ta.size("n")
    x = ta.placeholder((n,), name="x")
    s, r = ta.placeholder((), name="s"), ta.placeholder((), name="r")
    i = local_size("i", n)
    j = local_size("j", i + 1)
    k = ta.reduce_axis((0, j + 1), name="k")
    after = ta.compute((), lambda: r() + ta.sum(x[k] * x[i], axis=k), name="after")
    inner = Loop(("r",), (s, x), (Block((r, x), (after,)),), counter=j, trips=i + 1, carries=1)
    zero = ta.compute((), lambda: 0.0)
    outer = Loop(
        ("s",), (zero, x), (Block((s, x), outputs(inner)),), counter=i, trips=dim_expr(n), carries=1
    )
    (y,) = outputs(outer)
    for size in (1, 5):
        counted = work(y, {"n": size})
        assert counted.iterations == executed([y], {x: np.ones(size)})
        assert int(counted.multiplications) == size * (size + 1) * (size + 2) // 6
    assert str(work(y).multiplications) == "n/3 + n**2/2 + n**3/6"


def test_a_number_of_iterations_that_only_the_run_tells_is_a_size() -> None:
    a = ta.placeholder((), "float64", name="a")
    root, loop = newton(a)
    found = work(root)
    assert str(found.multiplications) == "2 + 4*n"
    trips = len(ta.interpret(saved(loop, loop.blocks[0].params[0]), {a: 2.0}))
    ran = executed([root], {a: np.array(2.0)})
    assert work(root, {"n": trips}).iterations - ran in (0, 1), "the root may lie where it should"

    n, x = ta.placeholder((), "int64", name="n"), ta.placeholder((), name="x")
    last, every, _ = triangle(n, x)
    given = {n: np.array(5), x: np.array(0.5)}
    assert work([last, every], {"rounds": 5}).iterations == executed([last, every], given)


def test_numbers_of_iterations_of_one_name_are_told_apart() -> None:
    n = ta.size("n")
    a = ta.placeholder((n,), "float64", name="a")
    first = newton(ta.compute((), lambda: a[0]))[0]
    k = ta.reduce_axis(n, name="k")
    second = newton(ta.compute((), lambda: ta.sum(a[k], axis=k)))[0]
    assert str(work([first, second]).multiplications) == "4 + 4*n_1 + 4*n_2"
    assert work([first, second], {"n": 3, "n_1": 2, "n_2": 4}).multiplications == 28


def test_a_branch_costs_its_most_expensive_block() -> None:
    x = ta.placeholder((3,), name="x")
    index = ta.placeholder((), "int64", name="index")
    k = ta.reduce_axis(3, name="k")
    squares = ta.compute((3,), lambda i: ta.sum(ta.tanh(x[k] + x[i]), axis=k), name="squares")
    op = Branch(("y",), (index, x), (Block((x,), (x,)), Block((x,), (squares,))))
    (y,) = outputs(op)
    most = work(y)
    assert most.multiplications == 9
    cheap, dear = [executed([y], {index: np.array(n), x: np.ones(3)}) for n in (0, 1)]
    assert cheap < dear == most.iterations


def test_each_count_is_that_of_the_block_where_it_is_largest() -> None:
    x = ta.placeholder((3,), name="x")
    index = ta.placeholder((), "int64", name="index")
    k = ta.reduce_axis((0, 8), name="k")
    long = ta.compute((3,), lambda i: ta.sum(x[i] + k, axis=k))
    dear = ta.compute((3,), lambda i: x[i] * x[i] * x[i])
    op = Branch(("y",), (index, x), (Block((x,), (long,)), Block((x,), (dear,))))
    assert work(outputs(op)) == Work(24 + 1, 6, 3 + 1)


def test_blocks_that_sizes_compare_are_refused_without_them() -> None:
    n, m = ta.size("n"), ta.size("m")
    x, z = ta.placeholder((n,), name="x"), ta.placeholder((m,), name="z")
    index = ta.placeholder((), "int64", name="index")
    k, j = ta.reduce_axis(n, name="k"), ta.reduce_axis(m, name="j")
    first = ta.compute((), lambda: ta.sum(x[k], axis=k))
    second = ta.compute((), lambda: ta.sum(z[j], axis=j))
    blocks = (Block((x, z), (first,)), Block((x, z), (second,)))
    (y,) = outputs(Branch(("y",), (index, x, z), blocks))
    with pytest.raises(UserError) as caught:
        work(y)
    assert str(caught.value) == (
        "sizes decide which block of a branch is the most expensive.\n"
        "  in: n or m\n"
        '  hint: give their values: work(tensors, sizes={"n": 8, "m": 8}).'
    )
    assert work(y, {"n": 3, "m": 7}).iterations == 1 + 7


def test_branches_and_calls_in_loops() -> None:
    x = ta.placeholder((3,), name="x")
    last, doubled, _ = absolute_steps(x, 9)
    for tensors in ([last], [last, doubled]):
        counted = work(tensors).iterations
        assert counted == executed(tensors, {x: np.array([3.0, -1.0, 2.0])})


def test_innermost_loops_of_blocks_are_looked_into() -> None:
    x = ta.placeholder((6,), name="x")
    p = ta.placeholder((6,), name="p")
    t = local_size("t", int_const(4))
    after = ta.compute((6,), lambda i: ta.select(i < t, p[i] * 2.0, x[5 - i]), name="after")
    op = Loop(("y",), (x, x), (Block((p, x), (after,)),), counter=t, trips=int_const(4), carries=1)
    assert innermost(outputs(op)).guards == 4 * 6
    assert work(outputs(op)).multiplications == 0 + 1 + 2 + 3
