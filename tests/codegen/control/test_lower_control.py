"""Trees of nodes: loops and native calls give what the reference interpreter gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import tensorad as ta
from tensorad import config
from tensorad.codegen.control.carries import is_dynamic
from tensorad.codegen.control.lower_control import has_control, lower_tree
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.ir import Place, Repeat
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.lower import lower_program
from tensorad.errors import BoundsError, BuildError, InternalError, LimitError
from tensorad.ir.expr import Expr, int_const, local_size
from tensorad.ir.tensor import Block, Branch, FunctionCall, Loop, Tensor, outputs, saved
from tensorad.simplify.control.renew import renewed
from tests.support.programs.linear import row_from_row_before
from tests.support.programs.loops import (
    absolute_steps,
    cumulative,
    newton,
    scanned_cell,
    swapped,
    triangle,
)
from tests.support.refusals import placed

RNG = np.random.default_rng(0)
Program = tuple[list[Tensor], dict[Tensor, np.ndarray]]


def _cumulative() -> Program:
    x = ta.placeholder((5, 3), name="x")
    total, loop = cumulative(x, reverse=True)
    return [total, saved(loop, loop.blocks[0].results[0])], {x: RNG.standard_normal((5, 3))}


def _newton() -> Program:
    a = ta.placeholder((), "float64", name="a")
    root, loop = newton(a)
    trail = saved(loop, loop.blocks[0].params[0])
    doubled = ta.compute((loop.trips,), lambda i: trail[i] * 2.0, name="doubled")
    k = ta.reduce_axis(loop.trips, name="k")
    return [root, ta.compute((), lambda: ta.sum(doubled[k], axis=k))], {a: np.array(1e9)}


def _cell() -> Program:
    x, w = ta.placeholder((6, 4), name="x"), ta.placeholder((4, 4), name="w")
    last, every, _ = scanned_cell(x, w)
    return [last, every], {x: RNG.standard_normal((6, 4)), w: RNG.standard_normal((4, 4))}


def _triangle() -> Program:
    n, x = ta.placeholder((), "int64", name="n"), ta.placeholder((), name="x")
    last, every, loop = triangle(n, x)
    k = ta.reduce_axis(loop.trips, name="k")
    return [last, ta.compute((), lambda: ta.sum(every[k], axis=k))], {
        n: np.array(5), x: np.array(0.5),
    }  # fmt: skip


def _swapped() -> Program:
    x, y = ta.placeholder((2,), name="x"), ta.placeholder((2,), name="y")
    made, _ = swapped(x, y, 7)
    return list(made), {x: np.array([0.0, 1.0]), y: np.array([1.0, 2.0])}


def _branches() -> Program:
    x = ta.placeholder((3,), name="x")
    last, _, _ = absolute_steps(x, 9)
    return [last], {x: np.array([3.0, -1.0, 2.0])}


PROGRAMS: dict[str, Callable[[], Program]] = {
    "cumulative": _cumulative, "newton": _newton, "cell": _cell,
    "triangle": _triangle, "swapped": _swapped, "branches": _branches,
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("schedule", [False, True])
def test_the_loops_of_a_program_give_what_it_says(name: str, schedule: bool) -> None:
    wanted, arrays = PROGRAMS[name]()
    program = lower_program(wanted, list(arrays), schedule=schedule)
    verify_loops(program)
    found, _ = interpret_loops(program, arrays)
    for value, reference in zip(found, ta.interpret(wanted, arrays), strict=True):
        np.testing.assert_allclose(value, reference, rtol=1e-12)


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_native_call_gives_what_it_says(name: str) -> None:
    wanted, arrays = PROGRAMS[name]()
    f = ta.build(wanted, list(arrays))
    given = [a.astype(str(t.dtype)) for t, a in arrays.items()]
    for _ in range(3):  # addresses that moved are back where they were
        made = f(*given)
        found = made if isinstance(made, list) else [made]
        for value, reference in zip(found, ta.interpret(wanted, arrays), strict=True):
            np.testing.assert_allclose(value, reference, rtol=2e-6, atol=1e-6)


def test_a_program_with_as_many_kernels_as_nodes_is_not_straight() -> None:
    wanted, arrays = _cell()
    program = lower_program(wanted, list(arrays))
    repeat = next(n for n in program.nodes if isinstance(n, Repeat))
    place = next(n for n in repeat.body if isinstance(n, Place))
    count = len(replace(program, nodes=(repeat,)).kernels)
    made = replace(program, nodes=(repeat, *[place] * (count - 1)))
    assert len(made.kernels) == len(made.nodes) and not made.is_straight
    assert replace(program, nodes=program.kernels).is_straight


def test_one_trace_runs_any_number_of_iterations() -> None:
    n, x = ta.placeholder((), "int64", name="n"), ta.placeholder((), name="x")
    last, every, loop = triangle(n, x)
    k = ta.reduce_axis(loop.trips, name="k")
    f = ta.build([last, ta.compute((), lambda: ta.sum(every[k], axis=k))], [n, x])
    for count in (0, 1, 7, 1000, 3, -5):
        value = np.float32(0.0)
        total, seen = 0.0, np.float32(0.0)
        for i in range(count):
            for j in range(i + 1):
                value = value * np.float32(0.5) + np.float32(j)
            total, seen = total + float(value), value
        last_value, sums = f(np.array(count), np.float32(0.5))
        np.testing.assert_allclose(last_value, seen, rtol=1e-5)
        np.testing.assert_allclose(sums, total, rtol=1e-5)


def test_a_loop_is_one_node_however_often_it_runs() -> None:
    x, y = ta.placeholder((2,), name="x"), ta.placeholder((2,), name="y")
    lengths = {len(str(ta.lower(list(swapped(x, y, n)[0]), [x, y]))) for n in (10, 99)}
    assert len(lengths) == 1
    (repeat,) = [
        n for n in lower_program(list(swapped(x, y, 9)[0]), [x, y]).nodes if isinstance(n, Repeat)
    ]
    assert len(repeat.moves) == 4, "a, b and two places for the sum that come"


def test_indices_from_data_are_checked_in_each_iteration() -> None:
    places = ta.placeholder((4,), "int64", name="places")
    x = ta.placeholder((3,), name="x")
    p = ta.placeholder((), name="p")
    picked = ta.placeholder((), "int64", name="place")
    after = ta.compute((), lambda: p() + x[picked()], name="after")
    zero = ta.compute((), lambda: 0.0)
    op = Loop(
        ("s",), (zero, places, x), (Block((p, picked, x), (after,)),), source="user.py:7",
        counter=local_size("t", int_const(4)), trips=int_const(4), carries=1, scanned=1,
    )  # fmt: skip
    f = ta.build(outputs(op), [places, x])
    values = np.array([1.0, 2.0, 4.0], np.float32)
    assert f(np.array([0, 1, 2, 2]), values) == 11.0
    with pytest.raises(BoundsError) as caught:
        f(np.array([0, 1, 5, 2]), values)
    assert "in iteration 2 of the loop at user.py:7" in str(caught.value)


def test_what_iterations_store_is_within_the_limit() -> None:
    n, x = ta.placeholder((), "int64", name="n"), ta.placeholder((), name="x")
    _, every, loop = triangle(n, x)
    k = ta.reduce_axis(loop.trips, name="k")
    f = ta.build(ta.compute((), lambda: ta.sum(every[k], axis=k)), [n, x])
    with config.override(max_bytes=4000):
        assert np.isfinite(f(np.array(500), np.float32(0.1)))
        with pytest.raises(LimitError) as caught:
            f(np.array(2000), np.float32(0.1))
    assert placed(caught.value) == (
        "what the loop at HERE stores of its iterations exceeds 3.9 KiB.\n"
        "  in: r_last : float32 (rounds,), rounds = 2,000\n"
        "  hint: run fewer iterations, store less of each, or raise the limit with the environment "
        "variable TENSORAD_MAX_BYTES."
    )


@pytest.mark.parametrize("times", [2**60, 2**62, 2**63 - 1])
def test_counts_beyond_all_memory_are_refused(times: int) -> None:
    f = ta.function(lambda n: ta.scan(lambda c, _: (c + 1.0, c), 0.0, length=n)[1].sum())
    with pytest.raises(LimitError) as caught:
        f(np.array(times))
    assert f"  in: c : float32 (trips,), trips = {times:,}" in str(caught.value)


def test_a_block_that_runs_twice_has_tensors_of_its_own_each_time() -> None:
    p, x = ta.placeholder((2,), name="p"), ta.placeholder((2,), name="x")
    block = Block((p,), (p * 3.0,))
    once = outputs(FunctionCall(("y",), (x,), (block,), function="f"))
    twice = outputs(FunctionCall(("z",), once, (block,), function="f"))
    f = ta.build([*once, *twice], [x])
    y, z = f(np.array([1.0, 2.0], np.float32))
    assert y.tolist() == [3.0, 6.0] and z.tolist() == [9.0, 18.0]
    image = renewed(block, [x])
    assert image[p] is x and image[block.results[0]] is not block.results[0]


def test_only_programs_with_control_become_trees() -> None:
    x = ta.placeholder((5, 3), name="x")
    total, loop = cumulative(x)
    assert has_control([total], {}) and not has_control([x * 2.0], {})
    assert not has_control([total * 2.0], {total: None})
    assert is_dynamic(ta.placeholder((loop.counter, 2))) and not is_dynamic(x)
    program = lower_tree([total * 2.0], [x], lower_program)
    assert program.outputs[0].shape == (3,) and program.repeats


def test_choices_by_name_reach_formulas_in_blocks() -> None:
    x = ta.placeholder((5, 64), name="x")
    total, _ = cumulative(x)
    wide, narrow = (ta.Schedule(vector=v) for v in ("j", False))
    texts = [str(ta.lower([total], [x], schedule={"after": s})) for s in (wide, narrow)]
    assert "  for j in [0, 64) vector:\n    after[j]" in texts[0]
    assert "  for j in [0, 64):\n    after[j]" in texts[1]
    f = ta.build([total], [x], schedule={"after": narrow})
    np.testing.assert_allclose(f(np.ones((5, 64), np.float32)), 5.0)
    with pytest.raises(BuildError) as caught:
        ta.build([total], [x], schedule={"behind": narrow})
    assert "names the tensor 'behind', which no loop computes" in str(caught.value)
    assert "tensors with loops are" in str(caught.value) and "after" in str(caught.value)


def test_programs_with_loops_are_tuned_and_reported() -> None:
    x = ta.placeholder((5, 64), name="x")
    total, _ = cumulative(x)
    f = ta.build([total], [x], tune=0)
    np.testing.assert_allclose(f(np.ones((5, 64), np.float32)), 5.0)
    assert "after" in str(ta.lower([total], [x], schedule=True).report())


@pytest.mark.parametrize("flag", ["verify", "check"])
def test_programs_with_loops_are_checked_while_they_are_lowered(flag: str) -> None:
    x = ta.placeholder((4, 3), name="x")
    total, _ = cumulative(x)
    rows, _ = row_from_row_before(x, x)
    with config.override(debug=(flag,)):
        f = ta.build([total, rows], [x])
    sums, last = f(np.ones((4, 3), np.float32))
    np.testing.assert_allclose(sums, 4.0)
    np.testing.assert_allclose(last[:, 0], [1.5, 1.75, 1.875, 1.9375])


def test_blocks_of_other_dtypes_are_no_program() -> None:
    p, x = ta.placeholder((), "bool", name="p"), ta.placeholder((), "float64", name="x")
    y = ta.placeholder((), "float32", name="y")
    blocks = (Block((y,), (y,)), Block((y,), (y * 2.0,)))
    with pytest.raises(InternalError) as caught:
        ta.build(outputs(Branch(("d",), (p, x), blocks)), [p, x])
    assert str(caught.value) == (
        "y has another shape or dtype than x\nTensor(d, shape=(), dtype=float32)"
    )


def test_rows_of_a_number_that_the_run_tells_need_no_scratch() -> None:
    def powers(x: ta.Tensor, n: ta.Tensor) -> ta.Tensor:
        return ta.scan(lambda c, _: (c * x, c * x), x, length=n)[1]

    x = np.linspace(0.5, 1.0, 3)
    found = ta.hessian(lambda x, n: powers(x, n).sum())(x, 3)
    np.testing.assert_allclose(found, np.diag(2 + 6 * x + 12 * x**2), rtol=1e-14)
    x = np.linspace(0.5, 1.0, 300)
    across = ta.function(lambda x, n: (ta.topi.softmax(powers(x, n).T) ** 2).sum())(x, 3)
    e = np.exp(x[:, None] ** np.arange(2, 5))
    np.testing.assert_allclose(across, ((e / e.sum(1, keepdims=True)) ** 2).sum(), rtol=1e-14)


def test_tensors_have_as_many_elements_as_counters_say() -> None:
    def triangle(x: ta.Tensor) -> ta.Tensor:
        n = x.shape[0]

        def row(i: Expr, s: ta.Tensor) -> ta.Tensor:
            return ta.for_loop(i + 1, n, lambda j, s: s + ta.sin(x[j] * s), s)

        return ta.for_loop(0, n, row, x[0])

    def expected(x: np.ndarray) -> float:
        s = x[0]
        for i in range(len(x)):
            for j in range(i + 1, len(x)):
                s += np.sin(x[j] * s)
        return float(s)

    slope = ta.grad(triangle)
    for n in (4, 7):
        x = np.linspace(-0.3, 0.4, n)
        steps = np.eye(n) * 1e-6
        slopes = [(expected(x + h) - expected(x - h)) / 2e-6 for h in steps]
        np.testing.assert_allclose(slope(x), slopes, rtol=1e-7, atol=1e-8)


def test_parts_from_a_counter_on_are_stored() -> None:
    def tails(x: ta.Tensor) -> ta.Tensor:
        n = x.shape[0]
        row = lambda i, s: s.at[i].set(ta.topi.softmax(x[None, i:])[0, 0])  # noqa: E731
        return ta.for_loop(0, n, row, x)

    for x in (np.linspace(-1.0, 1.0, 5), np.linspace(0.0, 1.0, 40)):
        e = np.exp(x)
        sums = np.cumsum(e[::-1])[::-1]
        np.testing.assert_allclose(ta.function(tails)(x), e / sums, rtol=1e-14)
