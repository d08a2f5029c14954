"""Passes over branches and loops: what each leaves, and that values stay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.ir.analysis.blocks import inner_ops, op_sizes, ops_between
from tensorad.ir.expr import int_const, local_size
from tensorad.ir.reference.verify import verify
from tensorad.ir.tensor import (
    Block,
    Branch,
    Compute,
    Control,
    Loop,
    Op,
    Saved,
    Tensor,
    outputs,
    saved,
)
from tensorad.ir.visit import op_inputs
from tensorad.passes import Pass
from tensorad.simplify.control.equal_operations import share_operations
from tensorad.simplify.control.fixed_carries import fix_carries
from tensorad.simplify.control.invariants import hoist_invariants
from tensorad.simplify.control.known_blocks import choose_known, known_index, write_constants
from tensorad.simplify.control.levels import inner_first, outer_first, values_of
from tensorad.simplify.control.passes import CONTROL_PASSES, simplified
from tensorad.simplify.control.unused import drop_unused, live_carries, params_read
from tests.random.programs.generator import SIZES, typed_program
from tests.support.programs.build import branch, loop

X = ta.placeholder((3,), "float64", name="x")
Y = ta.placeholder((3,), "float64", name="y")
N = ta.placeholder((), "int64", name="n")
VALUES = {X: np.array([0.5, -1.0, 2.0]), Y: np.array([1.5, 0.25, -0.5]), N: np.array(2)}
GIVEN = list(VALUES)
sin, exp = ta.topi.sin, ta.topi.exp


def number(value: float, dtype: str = "float64") -> Tensor:
    return ta.compute((), lambda: ta.const(value, dtype), name="number")


def behind(results: Sequence[Tensor]) -> list[Op]:
    """The operations of results, and those in blocks."""
    ops = ops_between(results, dict.fromkeys(GIVEN))
    return [*ops, *inner_ops(ops)]


def same(before: Sequence[Tensor], after: Sequence[Tensor]) -> list[Op]:
    """Values are those of before; the operations after."""
    verify(after)
    both = ta.interpret([*before, *after], VALUES)
    for a, b in zip(both[: len(before)], both[len(before) :], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    found = ta.build(list(after), GIVEN)(*VALUES.values())
    for a, b in zip(both, found if isinstance(found, list) else [found], strict=False):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    return behind(after)


def controls(ops: Sequence[Op], kind: type[Control] = Control) -> list[Any]:
    return [op for op in ops if isinstance(op, kind)]


def test_carries_that_stay_are_fixed_operands() -> None:
    op = loop(lambda t, a, b, c: [a * b, c, b], [X, Y, Y], trips=3)
    before = [*outputs(op), saved(op, op.blocks[0].params[1]), saved(op, op.blocks[0].results[0])]
    after = inner_first(before, GIVEN, fix_carries)
    (made,) = controls(same(before, after))
    assert made.carries == 1 and after[1] is Y and after[2] is Y
    assert made.operands == (X, Y), "equal operands are one"
    assert isinstance(after[3].op, Compute), "rows of what stays are not stored"


def test_carries_that_change_places_and_differ_stay_carries() -> None:
    op = loop(lambda t, a, b: [b, a], [X, Y], trips=3)
    assert inner_first([*outputs(op)], GIVEN, fix_carries) == [*outputs(op)]
    only = loop(lambda t, a: [a], [X], trips=3)
    assert inner_first([*outputs(only)], GIVEN, fix_carries) == [*outputs(only)]


@pytest.mark.parametrize("value", [2.0, None])
def test_rows_that_are_equal_are_one_operand(value: float | None) -> None:
    known = number(1.0) if value is None else number(value)
    rows = ta.compute((4, 3), lambda t, i: Y[i] * known(), name="rows")
    op = loop(lambda t, a, r: [a * r], [X], scanned=[rows], trips=4)
    before = [*outputs(op), saved(op, op.blocks[0].params[1])]
    after = inner_first(before, GIVEN, fix_carries)
    (made,) = controls(same(before, after))
    assert made.scanned == 0 and after[1] is rows and [t.shape for t in made.operands] == [(3,)] * 2


def test_a_loop_that_ends_by_its_condition_keeps_the_carries_whose_rows_are_read() -> None:
    op = loop(
        lambda t, a, b, k: [a * b, b, k + 1], [X, Y, number(0, "int64")], fixed=[N],
        test=lambda a, b, k: ta.compute((), lambda: k() < N()),
    )  # fmt: skip
    rows = saved(op, op.blocks[0].params[1])
    total = ta.topi.sum(rows, axis=0)
    (kept,) = controls(same([total], inner_first([total], GIVEN, fix_carries)))
    (fixed,) = controls(same([*outputs(op)], inner_first([*outputs(op)], GIVEN, fix_carries)))
    assert (kept.carries, fixed.carries) == (3, 2)
    assert [len(b.params) for b in fixed.blocks] == [4, 4]


def test_numbers_are_written_into_formulas() -> None:
    two = number(2.0)
    op = loop(lambda t, a: [a * two], [X], trips=3)
    before = [outputs(op)[0] + two]
    after = outer_first(before, GIVEN, write_constants)
    assert two.op in behind(before) and two.op not in same(before, after)
    (kept,) = outer_first([outputs(op)[0] + two], [*GIVEN, two], write_constants)
    assert two in ops_inputs(kept), "what is given is read"


def ops_inputs(t: Tensor) -> list[Tensor]:
    return list(op_inputs(t.op))


def test_known_indices() -> None:
    assert known_index(number(7, "int64")) == 7
    assert known_index(ta.const(np.array(True))) == 1
    assert known_index(number(7, "int64").astype("int32")) is None, "reads a tensor"
    assert known_index(N) is None


@pytest.mark.parametrize(("index", "way"), [(-3, 0), (0, 0), (1, 1), (9, 1)])
def test_the_arm_of_a_known_index_takes_the_branchs_place(index: int, way: int) -> None:
    op = branch(number(index, "int64"), [X, Y], [sin(X), Y], [exp(X), X])
    inner = op.blocks[way].results[0]
    before = [*outputs(op), saved(op, inner, way)]
    after = inner_first(before, GIVEN, choose_known)
    assert not controls(same(before, after)) and after[1] is (Y, X)[way]
    other = saved(op, op.blocks[1 - way].results[0], 1 - way)
    (nothing,) = inner_first([other], GIVEN, choose_known)
    assert nothing.shape == other.shape and not controls(behind([nothing]))


def test_what_every_arm_passes_on_is_the_operand() -> None:
    op = branch(N, [X, Y], [sin(X), Y], [exp(X), Y])
    after = inner_first([*outputs(op)], GIVEN, choose_known)
    assert after == [outputs(op)[0], Y]
    same([*outputs(op)], after)


def test_params_are_not_what_they_were_made_of() -> None:
    """A block may have tensors as params that are numbers elsewhere."""
    way, ones = number(1.0, "int64"), ta.compute((3,), lambda i: ta.const(1.0, "float64"))
    inside = outputs(branch(way, [ones, X], [ones], [X * ones]))[0]
    carries = (ones, way)
    block = Block((*carries, X), (exp(ones) + inside, way - 1))
    op = Loop(
        ("last", "way"), (X, N, X), (block,), counter=(t := local_size("t", int_const(3))),
        trips=t.extent, carries=2,
    )  # fmt: skip
    before = [*outputs(op)]
    found = same(before, simplified(before, GIVEN))
    assert controls(found, Branch) and "exp" in [o.name for o in inner_ops(controls(found, Loop))]


def test_loops_of_no_iterations_are_their_first_values() -> None:
    op = loop(lambda t, a: [sin(a)], [X], trips=0)
    rows = saved(op, op.blocks[0].results[0])
    after = inner_first([*outputs(op), rows], GIVEN, choose_known)
    assert after[0] is X and after[1].shape == (0, 3)
    assert not controls(same([*outputs(op), rows], after))


def test_costly_formulas_that_stay_are_computed_before_their_loop() -> None:
    def body(t: ta.Expr, a: Tensor) -> list[Tensor]:
        return [a * exp(sin(Y)) + Y * 2.0 + exp(ta.compute((3,), lambda i: Y[i] * t))]

    op = loop(body, [X], fixed=[Y], trips=3)
    inner = next(o for o in inner_ops([op]) if o.name == "exp" and op.counter not in op_sizes(o))
    before = [*outputs(op), saved(op, outputs(inner)[0])]
    after = inner_first(before, GIVEN, hoist_invariants)
    found = same(before, after)
    (made,) = controls(found)
    inside = [o.name for o in inner_ops([made])]
    assert inside.count("exp") == 1 and "sin" not in inside, "what the counter decides stays"
    assert "mul" in inside, "a short formula stays"
    assert len(made.operands) == 3 and isinstance(after[1].op, Compute)


def test_inner_loops_that_stay_run_once() -> None:
    def body(t: ta.Expr, a: Tensor) -> list[Tensor]:
        inner = loop(lambda s, b: [sin(b)], [Y], fixed=[Y], trips=4)
        return [a + outputs(inner)[0]]

    op = loop(body, [X], fixed=[Y], trips=3)
    before = [*outputs(op)]
    found = same(before, inner_first(before, GIVEN, hoist_invariants))
    assert [len(inner_ops([o])) for o in controls(found, Loop)] == [1, 1]


def _sines(n: int = 4) -> Loop:
    return loop(lambda t, a, b: [sin(a) * (t + 1), a * 2.0 + b], [X * 2.0, Y], trips=n)


def test_equal_loops_run_once() -> None:
    one, two, other = _sines(), _sines(), _sines(5)
    rows = [saved(op, op.blocks[0].results[0]) for op in (one, two)]
    deeper = saved(two, sin(two.blocks[0].params[0] * 3.0))
    before = [*outputs(one), *outputs(two), *outputs(other), *rows, deeper]
    after = outer_first(before, GIVEN, share_operations)
    found = controls(same(before, after))
    assert len(found) == 2 and after[0] is after[2] and after[1] is after[3]
    assert after[6] is after[7]


def test_what_is_given_is_not_compared_by_its_formula() -> None:
    given = X * 2.0
    before = [outputs(loop(lambda t, a: [sin(a)], [x], trips=2))[0] for x in (given, X * 2.0)]
    assert outer_first(before, [X, given], share_operations) == before
    one, two = outer_first(before, [X], share_operations)
    assert one is two


@pytest.mark.parametrize(
    "change",
    [
        lambda: loop(lambda t, a, b: [sin(a) * (t + 2), a * 2.0 + b], [X * 2.0, Y], trips=4),
        lambda: loop(lambda t, a, b: [sin(a) * (t + 1), a * 2.0 + a], [X * 2.0, Y], trips=4),
        lambda: loop(lambda t, a, b: [sin(a) * (t + 1), a * 2.0 + b], [X * 2.0, X], trips=4),
        lambda: loop(lambda t, a, b: [sin(a) * (t + 1), a * 2.0 + b], [Y, X * 2.0], trips=4),
        lambda: loop(lambda t, a, b: [a * 2.0 + b, sin(a) * (t + 1)], [X * 2.0, Y], trips=4),
        lambda: loop(
            lambda t, a, b: [sin(a) * (t + 1), a * 2.0 + b], [X * 2.0, Y], trips=4, reverse=True
        ),
    ],
)
def test_loops_that_differ_stay_apart(change: Callable[[], Loop]) -> None:
    before = [*outputs(_sines()), *outputs(change())]
    after = outer_first(before, GIVEN, share_operations)
    assert len(controls(same(before, after))) == 2


def test_constants_of_equal_bytes_are_told_apart_by_their_shapes() -> None:
    numbers = np.arange(6.0)
    before = []
    for shape in ((2, 3), (3, 2)):
        c = ta.const(numbers.reshape(shape))

        def step(t: ta.Expr, a: Tensor, c: Tensor = c) -> list[Tensor]:
            return [ta.compute((3,), lambda i: sin(a)[i] + c[1, 0])]

        before += outputs(loop(step, [X], trips=2))
    after = outer_first(before, GIVEN, share_operations)
    assert len(controls(same(before, after))) == 2


def test_loops_in_loops_are_compared_with_their_counters() -> None:
    def nested(one: int, two: int) -> Loop:
        def outer(t: ta.Expr, a: Tensor) -> list[Tensor]:
            def inner(s: ta.Expr, b: Tensor) -> list[Tensor]:
                return [ta.compute((3,), lambda i: b[i] * (t * one + s * two))]

            return [outputs(loop(inner, [a], trips=3))[0]]

        return loop(outer, [X], trips=3)

    def run(*pairs: tuple[int, int]) -> int:
        before = [t for p in pairs for t in outputs(nested(*p))]
        after = outer_first(before, GIVEN, share_operations)
        return len(dict.fromkeys(op for op in ops_between(after, {}) if isinstance(op, Loop)))

    assert run((1, 2), (1, 2)) == 1 and run((1, 2), (2, 1)) == 2


def test_unused_carries_outputs_and_operands_go() -> None:
    rows = ta.compute((3, 3), lambda t, i: X[i] + t, name="rows")
    op = loop(lambda t, a, b, r: [a * 2.0, b * a * r], [X, Y], scanned=[rows], trips=3)
    (made,) = controls(same([outputs(op)[0]], outer_first([outputs(op)[0]], GIVEN, drop_unused)))
    assert (made.names, made.carries, made.scanned) == (("last0",), 1, 0)
    assert outer_first([*outputs(op)], GIVEN, drop_unused) == [*outputs(op)]
    arms = branch(N, [X, Y], [sin(X), Y], [exp(X), X * 2.0])
    (less,) = controls(
        same([outputs(arms)[0]], outer_first([outputs(arms)[0]], GIVEN, drop_unused))
    )
    assert less.operands == (N, X) and len(less.names) == 1


def test_what_is_saved_alone_needs_no_carry() -> None:
    op = loop(lambda t, a: [a * 2.0], [X], fixed=[Y], trips=3)
    inner = ta.compute((3,), lambda i: Y[i] * op.counter, name="inner")
    rows = saved(op, inner)
    (made,) = controls(same([rows], outer_first([rows], GIVEN, drop_unused)))
    assert made.names == ("nothing",) and made.operands[1:] == (Y,)
    arms = branch(N, [X, Y], [sin(X)], [exp(X)])
    (only,) = controls(behind(outer_first([saved(arms, exp(Y), 1)], GIVEN, drop_unused)))
    assert isinstance(only, Branch) and only.names == ("nothing",) and only.operands == (N, Y)


def test_live_carries() -> None:
    op = loop(lambda t, a, b, c: [a + b, b * 2.0, c * a], [X, Y, X], trips=3)
    assert list(live_carries(op, [1], [])) == [1]
    assert sorted(live_carries(op, [0], [])) == [0, 1]
    assert sorted(live_carries(op, [2], [])) == [0, 1, 2]
    assert params_read(op.blocks[0], op.blocks[0].results[1:2]) == [1]


def test_a_reversed_loop_runs_as_often_as_the_loop_before_it() -> None:
    f = ta.function(lambda x: ta.while_loop(lambda c: c.sum() < 40.0, lambda c: c * 3.0, x).sum())
    assert ta.grad(f)(np.ones(3)).tolist() == [27.0] * 3


def test_a_branch_whose_loop_runs_as_often_comes_after_the_loop_that_tells() -> None:
    def f(x: Any, n: Any) -> Any:
        def more(c: Any) -> Any:
            return ta.while_loop(lambda c: c.sum() < 40.0, lambda c: c * 3.0, c)

        return ta.cond(n > 0, lambda: more(x), lambda: x * 2.0).sum()

    def g(x: Any, n: Any) -> Any:
        y = ta.while_loop(lambda c: c.sum() < 40.0, lambda c: c * 3.0, x)
        return ta.cond(n > 0, lambda: ta.grad(lambda z: f(z, n))(y), lambda: y).sum() + f(x, n)

    by_f, by_g = ta.grad(f), ta.grad(g)
    for n, slope in ((1, 27.0), (0, 2.0)):
        assert by_f(np.ones(3), n).tolist() == [slope] * 3
        assert np.isfinite(by_g(np.ones(3), n)).all()


def test_a_program_and_its_gradient_have_one_loop_forward() -> None:
    def f(x: Any) -> Any:
        return ta.for_loop(0, 5, lambda t, c: ta.sin(c) * t, x).sum()

    both = ta.function(lambda x: (f(x), ta.grad(f)(x)))
    program = ta.lower(both, np.ones(3)).program
    assert len(program.repeats) == 2
    value, slope = both(np.ones(3))
    one, two = ta.value_and_grad(f)(np.ones(3))
    np.testing.assert_allclose(value, one)
    np.testing.assert_allclose(slope, two)


def test_operations_are_left_alone_where_nothing_changes() -> None:
    op = _sines()
    before = tuple(outputs(op))
    assert simplified(before, GIVEN) == [*before]
    for p in CONTROL_PASSES:
        assert p.run(GIVEN, before) is before, p.name
    assert inner_first([X], GIVEN, lambda op, saves, around: values_of(op, saves)) == [X]


@lru_cache(maxsize=1)  # the passes are the faster parameter
def with_gradients(seed: int) -> tuple[list[Tensor], list[Tensor], list[Tensor], dict[str, int]]:
    """Results of a program and their gradients, also simplified; inputs, sizes."""
    program = typed_program(seed, 6)
    results, inputs = program.traced()
    ys = [t for t in dict.fromkeys(results) if t.dtype.is_float and not t.shape]
    wrt = [t for t in inputs if t.dtype.is_float]
    before = [*results, *(ta.vjp(ys, wrt, [1.0] * len(ys)) if ys and wrt else [])]
    return before, simplified(before, inputs), inputs, {s: SIZES[s] for s in program.sizes}


@pytest.mark.sampled(7)
@pytest.mark.parametrize("p", CONTROL_PASSES, ids=[p.name for p in CONTROL_PASSES])
@pytest.mark.parametrize("seed", range(40))
def test_passes_keep_values_of_random_programs_and_their_gradients(
    p: Pass[Any, Any], seed: int
) -> None:
    before, shorter, inputs, sizes = with_gradients(seed)
    arrays = dict(zip(inputs, typed_program(seed, 6).arrays(sizes), strict=True))
    for after in (p.run(inputs, before), p.run(inputs, shorter)):
        verify(after)
        both = ta.interpret([*before, *after], arrays, sizes)
        for a, b in zip(both[: len(before)], both[len(before) :], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_saved_values_are_found_behind_operations() -> None:
    op = _sines()
    rows = saved(op, op.blocks[0].results[0])
    assert isinstance(rows.op, Saved) and values_of(op, [(0, rows.op.inner)])[-1] is rows
