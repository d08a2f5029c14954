"""The scheduled loops: values as before, and the structure each pass promises."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tensorad import te, topi
from tensorad.autodiff import vjp
from tensorad.building import lower
from tensorad.codegen.directives import OPEN, Choices
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.ir import Fold, For, If, LoopProgram, Stmt, Store
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.lower import lower_program
from tensorad.codegen.schedule.plan import can_vectorise_fold
from tensorad.ir.combiner import arg_combiner, max_combiner, sum_combiner
from tensorad.ir.dtypes import FLOAT32, FLOAT64, INT64
from tensorad.ir.expr import Axis, Call, Expr, Select, axis, const, select
from tensorad.ir.tensor import Compute, Scatter, Update, outputs
from tensorad.ir.visit import postorder
from tests.support.loops.loop_cases import (
    CASES,
    ZERO,
    conv2d,
    dense,
    flatten,
    float_input,
    pools,
    total,
)

PLAIN = Choices(contract=False, flat=False)
"""Contractions have a schedule of their own: tests/codegen/contraction/test_contraction.py."""


def statements(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    for s in body:
        yield s
        if isinstance(s, For):
            yield from statements(s.body)
        if isinstance(s, If):
            yield from statements((*s.then, *s.orelse))


def all_statements(program: LoopProgram) -> list[Stmt]:
    return [s for kernel in program.kernels for s in statements(kernel.body)]


def expressions(program: LoopProgram) -> list[Expr]:
    roots: list[Expr] = []
    for s in all_statements(program):
        if isinstance(s, Fold):
            roots.extend(s.values)
        if isinstance(s, Store):
            roots.extend((*s.indices, *s.values))
    return postorder(*roots)


def scheduled(
    name: str, choices: Choices = OPEN
) -> tuple[LoopProgram, list[np.ndarray], list[np.ndarray]]:
    case = CASES[name]()
    program = lower_program(case.outputs, case.inputs, choices=choices)
    verify_loops(program)
    arrays = case.arrays()
    results, visits = interpret_loops(program, arrays)
    assert visits == 0
    assert case.reference is not None
    return program, results, case.reference(*arrays.values())


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", CASES)
def test_scheduled_loops_compute_the_reference(name: str) -> None:
    _, results, wanted = scheduled(name)
    for got, value in zip(results, wanted, strict=True):
        np.testing.assert_allclose(got, value, rtol=1e-9, atol=1e-12)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", [n for n, make in CASES.items() if make().unguarded])
def test_ordinary_operators_have_no_guards_and_no_divisions(name: str) -> None:
    program, _, _ = scheduled(name, PLAIN)
    assert not any(isinstance(s, If) for s in all_statements(program))
    for e in expressions(program):
        assert not isinstance(e, Select)
        assert not (isinstance(e, Call) and e.op in ("floordiv", "mod"))


def loops(program: LoopProgram, kind: str) -> list[For]:
    return [s for s in all_statements(program) if isinstance(s, For) and s.kind == kind]


@pytest.mark.parametrize("position", range(3))
def test_dense_at_full_size_is_tiled_in_lanes_and_parallel(position: int) -> None:
    case = dense(32, 3000, 10000)
    program = lower_program([case.outputs[position]], case.inputs, choices=PLAIN)
    assert len(loops(program, "parallel")) == 1
    (lanes,) = loops(program, "vector")
    folds = [s for s in statements((lanes,)) if isinstance(s, Fold)]
    registers = max(1, lanes.width // 8)
    assert 8 <= len(folds) * registers <= 16
    assert len({s.targets for s in folds}) == len(folds)


def test_a_convolution_gradient_has_an_interior_without_border() -> None:
    case = conv2d(32, 17, 28, 28, 19, 3)
    program = lower_program([case.outputs[1]], case.inputs, choices=PLAIN)
    interior = [f for f in loops(program, "vector") if f.axis.extent == 24]
    assert interior
    for f in interior:
        inner = [s.axis for s in statements(f.body) if isinstance(s, For)]
        assert all(f.axis is not e for a in inner for e in postorder(a.lower, a.upper))
    assert not any(isinstance(s, If) for s in all_statements(program))


def test_flatten_reads_rows_in_order() -> None:
    case = flatten(2, 3, 4, 32)
    program = lower_program([case.outputs[0]], case.inputs)
    (lanes,) = loops(program, "vector")
    assert lanes.axis.extent == 2 * 3 * 4 * 32
    plain = lower_program([case.outputs[0]], case.inputs, choices=PLAIN)
    assert [a.axis.extent for a in loops(plain, "vector")] == [32]


def test_an_odd_pooling_gradient_has_a_rest_piece() -> None:
    case = pools(2, 6, 8)
    x = case.inputs[1]
    back = te.compute((2, 5, 7), lambda b, i, j: x[b, i // 2, j // 2], name="dA")
    program = lower_program([back], [x])
    verify_loops(program)
    assert not any(isinstance(e, Call) and e.op == "floordiv" for e in expressions(program))
    h = np.random.default_rng(0).uniform(size=(2, 3, 4))
    (result,), _ = interpret_loops(program, {x: h})
    wanted = np.repeat(np.repeat(h, 2, 1), 2, 2)[:, :5, :7]
    np.testing.assert_array_equal(result, wanted)


def test_a_reduction_over_fewer_axes_is_a_stage_and_one_alone_is_not() -> None:
    x, k = float_input("X", 4, 9), axis("k", 0, 9)
    y = te.compute((4, 9), lambda i, j: x[i, j] / total(x[i, k], k), name="Y")
    assert [k.name for k in lower_program([y], [x]).kernels] == ["Y.sum", "Y"]
    k2 = axis("k", 0, 9)
    alone = te.compute((4,), lambda i: total(x[i, k2], k2) * 2.0, name="Z")
    assert [k.name for k in lower_program([alone], [x]).kernels] == ["Z"]


def test_a_guarded_stage_stays_lazy_when_its_reads_are_unsafe() -> None:
    x, k = float_input("X", 4, 9), axis("k", 0, 9)
    y = te.compute((4, 9), lambda i, j: select((i >= 1) & (j >= 2), total(x[i - 1, k], k), ZERO))
    program = lower_program([y], [x])
    verify_loops(program)
    assert len(program.kernels) == 1


def test_only_commutative_built_in_combiners_fold_in_lanes() -> None:
    assert can_vectorise_fold(sum_combiner(FLOAT32))
    assert can_vectorise_fold(max_combiner(FLOAT32))
    assert not can_vectorise_fold(arg_combiner("maximum", FLOAT32))


def test_pieces_store_every_element_once() -> None:
    for name in ("padding", "conv2d", "pools_odd", "folds"):
        case = CASES[name]()
        for t in case.outputs:
            program = lower_program([t], case.inputs)
            (result,), _ = interpret_loops(program, case.arrays())
            assert not np.isnan(np.asarray(result, float)).any()


def test_an_axis_of_one_value_needs_no_stage() -> None:
    x, k = float_input("X", 4, 9), axis("k", 0, 9)
    y = te.compute((4, 1), lambda i, j: total(x[i, k], k), name="Y")
    assert [k.name for k in lower_program([y], [x]).kernels] == ["Y"]


def test_large_bodies_are_not_written_out() -> None:
    x, k = float_input("X", 64, 70), axis("k", 0, 3)

    def source(i: Axis, j: Axis) -> Expr:
        value = x[i, k]
        for n in range(300):
            value = value * x[i, (n * 7) % 70] + x[n % 64, j]
        return total(value, k)

    program = lower_program([te.compute((64, 70), source, name="Y")], [x])
    assert len(expressions(program)) < 4_000


def test_symbolic_loops_split_at_symbolic_points() -> None:
    n = te.size("n")
    x = te.placeholder((n,), dtype="float64", name="X")
    y = te.compute((n + 2,), lambda i: select((i >= 1) & (i < n + 1), x[i - 1], ZERO), name="P")
    program = lower_program([y], [x])
    verify_loops(program)
    assert not any(isinstance(e, Select) for e in expressions(program))
    for extent in (0, 1, 5):
        values = np.arange(1.0, extent + 1)
        (result,), _ = interpret_loops(program, {x: values})
        np.testing.assert_array_equal(result, np.pad(values, 1))


def test_a_scatter_whose_index_is_guarded_stays_out_of_lanes() -> None:
    x, where = float_input("X", 3, 4), te.placeholder((2,), dtype="int64", name="I")
    a, b = axis("a", 0, 4), axis("b", 0, 3)
    row = select(a >= 2, where[a - 2], const(0, INT64))
    update = Update((b, row), x[b, a])
    (out,) = outputs(Scatter("S", (3, 4), FLOAT64, (a, b), (update,), sum_combiner(FLOAT64)))
    program = lower_program([out], [x, where])
    verify_loops(program)
    values = np.arange(12.0).reshape(3, 4)
    (result,), _ = interpret_loops(program, {x: values, where: np.array([3, 1])})
    wanted = np.zeros((3, 4))
    np.add.at(wanted.T, [0, 0, 3, 1], values.T)
    np.testing.assert_array_equal(result, wanted)


def test_an_empty_reduction_over_strided_neighbours_is_planned() -> None:
    x, k = float_input("X", 6, 0), axis("k", 0, 0)
    y = te.compute((6, 3), lambda i, j: total(x[i, k], k) + 1.0, name="Y")
    program = lower_program([y], [x])
    verify_loops(program)
    (result,), _ = interpret_loops(program, {x: np.zeros((6, 0))})
    np.testing.assert_array_equal(result, np.ones((6, 3)))


def test_a_reduction_whose_bounds_always_cross_is_planned() -> None:
    x, i, j = float_input("X", 3, 8), axis("i", 0, 3), axis("j", 0, 8)
    k = axis("k", i + 3, 3)
    (y,) = outputs(Compute("Y", (i, j), (total(x[i, k], k) + x[i, j],)))
    program = lower_program([y], [x])
    verify_loops(program)
    (result,), _ = interpret_loops(program, {x: np.ones((3, 8))})
    np.testing.assert_array_equal(result, np.ones((3, 8)))


def test_a_window_of_few_values_is_not_walked_in_lanes() -> None:
    """Its bounds depend on the element, but it never has more than three values."""
    x, w = te.placeholder((1, 4, 4, 4, 4), name="X"), te.placeholder((4, 4, 4, 4, 4), name="W")
    y = topi.nn.conv3d(x, w, padding=1)
    h = te.placeholder(y.shape, name="H")
    (dx,) = vjp(y, [x], h)
    text = str(lower(dx, [w, h], schedule=True))
    assert "vector" in text and "lanes are added up at the end" not in text
