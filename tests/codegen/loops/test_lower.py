"""The plain loops: values, counted visits, well-formedness, kernels that compile once."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tensorad import te
from tensorad.codegen.directives import Choices
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.ir import For
from tensorad.codegen.loops.kernel_key import kernel_key
from tensorad.codegen.loops.printer import format_loops
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.lower import lower_program
from tensorad.counting import work
from tensorad.errors import BoundsError, BuildError, InternalError
from tensorad.ir.expr import Axis, Expr, axis
from tensorad.ir.reference.interpret import interpret
from tests.random.generators import random_program, random_symbolic_program, seeds
from tests.support.loops.loop_cases import CASES, Case, conv2d, dense, float_input, gathers, total


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", CASES)
def test_plain_loops_compute_the_reference(name: str) -> None:
    case = CASES[name]()
    program = lower_program(case.outputs, case.inputs, schedule=False)
    verify_loops(program)
    arrays = case.arrays()
    results, _ = interpret_loops(program, arrays)
    assert case.reference is not None
    for got, wanted in zip(results, case.reference(*arrays.values()), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-12)


def visits(case: Case, position: int) -> int:
    program = lower_program([case.outputs[position]], case.inputs, schedule=False)
    return interpret_loops(program, case.arrays())[1]


def test_visits_of_a_reduction_are_its_points() -> None:
    assert visits(dense(5, 7, 9), 0) == 5 * 7 * 9
    assert visits(conv2d(1, 2, 7, 8, 5, 3), 1) == 5 * 2 * (5 * 3) * (6 * 3)


def test_a_condition_inside_is_visited_and_a_guard_over_compute_axes_is_not() -> None:
    case = CASES["triangles"]()
    assert visits(case, 0) == 7 * 7
    assert visits(case, 1) == sum((i + 2) // 2 for i in range(7))
    assert visits(case, 2) == 4 * 7


def test_visits_of_scatters_and_scans() -> None:
    case = gathers()
    assert visits(case, 2) == 6 * 5 + 4 * 5
    assert visits(CASES["scans"](), 0) == 4 * 5


Chosen = Callable[[Expr, Expr], Expr]


@pytest.mark.parametrize(
    ("formula", "points"),
    [
        (lambda p, s: te.select(p > 0.0, te.select(s > 0.0, te.exp(s), 0.0), 1.0), 2 * 5),
        (lambda p, s: te.select(te.select(p > 0.0, s > 0.0, False), 2.0, te.sin(s)), 4 * 5),
        (lambda p, s: te.select(te.select(p > 0.0, s > 0.0, False), te.sin(s), 2.0), 2 * 5),
        (lambda p, s: te.select(p > 0.0, te.select(~((s > 0.0) | (s < -1)), s, 1.0), 1.0), 2 * 5),
    ],
)
def test_a_reduction_that_decides_whether_it_is_used_is_computed_once(
    formula: Chosen, points: int
) -> None:
    x, p, k = float_input("X", 4, 5), float_input("P", 4), te.reduce_axis(5, "k")
    y = te.compute((4,), lambda i: formula(p[i], te.min(x[i, k], axis=k)), name="Y")
    program = lower_program([y], [x, p], schedule=False)
    for low in (-2.0, -0.5, 0.5):
        rows = np.linspace(low, 2.0, 20).reshape(4, 5)
        arrays = {x: rows[[0, 3, 3, 0]], p: np.array([1.0, 1.0, -1.0, -1.0])}
        (found,), visited = interpret_loops(program, arrays)
        np.testing.assert_allclose(found, interpret(y, arrays))
        assert visited == points
    assert work(y).iterations == 4 * 5, "what data decides counts as true"


@pytest.mark.sampled(5)
@pytest.mark.parametrize("seed", seeds(16, 40))
def test_random_programs_agree_in_plain_and_scheduled_loops(seed: int) -> None:
    program = random_program(seed, computes=5)
    arrays = program.arrays()
    plain = lower_program(program.outputs, program.inputs, schedule=False)
    fast = lower_program(program.outputs, program.inputs)
    verify_loops(plain)
    verify_loops(fast)
    wanted, _ = interpret_loops(plain, arrays)
    got, _ = interpret_loops(fast, arrays)
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9, equal_nan=True)


@pytest.mark.parametrize("seed", seeds(5, 12))
def test_random_symbolic_programs_agree_at_every_size(seed: int) -> None:
    program = random_symbolic_program(seed, computes=4)
    plain = lower_program(program.outputs, program.inputs, schedule=False)
    fast = lower_program(program.outputs, program.inputs)
    verify_loops(fast)
    for n, m in ((0, 0), (1, 3), (3, 2), (4, 5)):
        sizes = {"n": n, "m": m}
        arrays = program.arrays(sizes)
        wanted, _ = interpret_loops(plain, arrays, sizes)
        got, _ = interpret_loops(fast, arrays, sizes)
        for a, b in zip(got, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9, equal_nan=True)


def test_a_saved_intermediate_is_read_not_computed() -> None:
    x = float_input("X", 4)
    doubled = x * 2.0
    program = lower_program([doubled + 1.0], [doubled], schedule=False)
    assert len(program.kernels) == 1
    (result,), _ = interpret_loops(program, {doubled: np.arange(4.0)})
    np.testing.assert_array_equal(result, np.arange(4.0) + 1)


def test_one_output_of_a_tuple_may_be_given() -> None:
    x = float_input("X", 4)
    low, high = te.compute((4,), lambda i: (x[i] - 1.0, x[i] + 1.0), name="T")
    program = lower_program([low * high], [x, high])
    verify_loops(program)
    arrays = {x: np.arange(4.0), high: np.full(4, 10.0)}
    (result,), _ = interpret_loops(program, arrays)
    np.testing.assert_array_equal(result, (np.arange(4.0) - 1) * 10)


def test_an_output_that_is_an_input_or_repeated_is_copied() -> None:
    x = float_input("X", 3)
    y = x + 1.0
    program = lower_program([x, y, y], [x])
    assert len(set(program.outputs)) == 3 and x not in dict.fromkeys(program.outputs)
    results, _ = interpret_loops(program, {x: np.arange(3.0)})
    for got, wanted in zip(results, (0, 1, 1), strict=True):
        np.testing.assert_array_equal(got, np.arange(3.0) + wanted)


def test_a_missing_placeholder_is_named() -> None:
    x, y = float_input("X", 3), float_input("Y", 3)
    with pytest.raises(BuildError, match="need the placeholder Y"):
        lower_program([x + y], [x])


def test_data_dependent_indices_are_checked_before_use() -> None:
    case = gathers()
    for position in range(4):
        program = lower_program([case.outputs[position]], case.inputs)
        arrays = case.arrays()
        arrays[case.inputs[1]] = np.array([0, 1, 2, 6])
        with pytest.raises(BoundsError):
            interpret_loops(program, arrays)
        assert program.kernels[0].writes == ()
    trusting = lower_program([case.outputs[0]], case.inputs, assume_in_bounds=True)
    assert len(trusting.kernels) == 1


def test_equal_loops_have_equal_keys() -> None:
    keys = set()
    for name in ("A", "B"):
        x, y = float_input(name, 4, 5), float_input("V", 5)
        k = axis(name, 0, 5)
        z = te.compute((4,), lambda i: total(x[i, k] * y[k], k), name=name)
        (kernel,) = lower_program([z], [x, y]).kernels
        text, tensors = kernel_key(kernel)
        keys.add(text)
        assert set(tensors) == {x, y, z}
    assert len(keys) == 1


def test_keys_tell_shapes_dtypes_and_operand_order_apart() -> None:
    def key(dtype: str, n: int, swap: bool) -> str:
        x, y = (te.placeholder((n,), dtype=dtype, name=c) for c in "XY")

        def body(i: Axis) -> Expr:
            product = x[i] * y[i]
            return product - x[i] if swap else x[i] - product

        (kernel,) = lower_program([te.compute((n,), body)], [x, y]).kernels
        return kernel_key(kernel)[0]

    texts = {key(d, n, s) for d in ("float32", "float64") for n in (3, 4) for s in (False, True)}
    assert len(texts) == 8


def test_the_verifier_refuses_a_tensor_read_before_it_is_written() -> None:
    x = float_input("X", 3)
    y = x + 1.0
    program = lower_program([y * 2.0], [x], choices=Choices(fuse=False))
    broken = type(program)(program.inputs, program.outputs, program.kernels[::-1])
    with pytest.raises(InternalError, match="read before it is written"):
        verify_loops(broken)


def test_the_verifier_refuses_a_loop_that_does_nothing() -> None:
    x = float_input("X", 3)
    program = lower_program([x + 1.0], [x], schedule=False)
    (kernel,) = program.kernels
    (loop,) = kernel.body
    assert isinstance(loop, For)
    empty = replace(kernel, body=(replace(loop, body=()),))
    with pytest.raises(InternalError, match=r"the loop over .* is empty"):
        verify_loops(replace(program, nodes=(empty,)))


def test_printed_loops() -> None:
    case = dense(5, 7, 9)
    program = lower_program([case.outputs[0]], case.inputs, schedule=False)
    assert format_loops(program) == (
        "# Y : float64 [5, 7]\n"
        "for i in [0, 5):\n"
        "  for j in [0, 7):\n"
        "    acc = 0.0\n"
        "    for k in [0, 9):\n"
        "      visit\n"
        "      acc += X[i, k]*W[j, k]\n"
        "    Y[i, j] = acc + B[j]\n"
    )


@pytest.mark.slow
def test_deep_expressions_and_long_chains_lower() -> None:
    x = float_input("X", 8)

    def deep(i: Axis) -> Expr:
        value: Expr = x[i]
        for n in range(20_000):
            value = value * 1.5 if n % 2 else value + 0.5
        return value

    program = lower_program([te.compute((8,), deep, name="Y")], [x])
    assert format_loops(program).count("\n") > 100
    assert kernel_key(program.kernels[0])[1]
    start = time.perf_counter()
    t = x
    for n in range(1_000):
        t = t * 2.0 if n % 2 else t + 1.0
    assert len(lower_program([t], [x], choices=Choices(fuse=False)).kernels) == 1_000
    assert len(lower_program([t], [x]).kernels) < 100
    assert time.perf_counter() - start < 20  # quadratic passes would take minutes
