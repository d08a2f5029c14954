"""Programs that passes over branches and loops could get wrong: native values are as written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import BoundsError
from tensorad.ir.analysis.blocks import inner_ops, ops_between
from tensorad.ir.expr import int_const, local_size
from tensorad.ir.tensor import Block, Branch, FunctionCall, Loop, Tensor, outputs, saved
from tensorad.ir.visit import op_inputs
from tensorad.simplify.control.levels import in_place_of
from tensorad.simplify.control.passes import simplified
from tests.support.programs.build import branch, loop

X = ta.placeholder((3,), "float64", name="x")
Y = ta.placeholder((3,), "float64", name="y")
N = ta.placeholder((), "int64", name="n")
VALUES: dict[Tensor, Any] = {
    X: np.array([0.5, -1.0, 2.0]),
    Y: np.array([1.5, 0.25, -0.5]),
    N: np.array(2),
}
sin, exp = ta.topi.sin, ta.topi.exp


def check(results: Sequence[Tensor], values: dict[Tensor, Any]) -> None:
    """Native values are those of the interpreter."""
    found = ta.build(list(results), list(values))(*values.values())
    wanted = ta.interpret(results, values)
    for a, b in zip(found if isinstance(found, list) else [found], wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_rows_that_are_given_need_not_be_equal() -> None:
    rows = ta.compute((4, 3), lambda t, i: Y[i], name="rows")
    op = loop(lambda t, a, r: [a * r + t], [X], scanned=[rows], trips=4)
    check(outputs(op), {X: VALUES[X], rows: np.arange(12.0).reshape(4, 3)})


def test_a_number_that_is_given_may_be_another_one() -> None:
    one = ta.compute((), lambda: ta.const(1, "int64"), name="one")
    check(outputs(branch(one, [X], [sin(X)], [exp(X)])), {X: VALUES[X], one: np.array(0)})
    twos = ta.compute((3,), lambda i: ta.const(2.0, "float64"), name="twos")
    op = loop(lambda t, a, b: [a * b, b], [X, twos], trips=3)
    check(outputs(op), {X: VALUES[X], twos: VALUES[Y]})


def test_equal_formulas_that_are_given_may_differ() -> None:
    one, two = [ta.compute((3,), lambda i: X[i] * 2.0, name=name) for name in "ab"]
    ops = [loop(lambda t, a: [sin(a)], [x], trips=4) for x in (one, two)]
    check([outputs(op)[0] for op in ops], {one: VALUES[X], two: VALUES[Y]})


def test_of_an_operation_one_output_may_be_given() -> None:
    p = ta.placeholder((3,), "float64", name="p")
    call = FunctionCall(("a", "b"), (X,), (Block((p,), (sin(p), exp(p))),), function="f")
    a, b = outputs(call)
    check([a * b], {X: VALUES[X], a: VALUES[Y]})
    one, two = ta.compute((3,), lambda i: (X[i] * 2.0, X[i] + 1.0), name="pair")
    assert in_place_of([one], {X: Y, one: X}) == [X]
    (total,) = in_place_of([one * two], {X: Y, one: X})
    assert X in op_inputs(total.op)


def test_reads_of_equal_numbers_are_checked() -> None:
    index = ta.placeholder((3,), "int64", name="index")
    twos = ta.compute((5,), lambda i: ta.const(2.0, "float64"), name="twos")
    first = ta.compute((3,), lambda i: twos[index[i]] * X[i], name="first")
    f = ta.build(outputs(loop(lambda t, a: [sin(a)], [first], trips=2)), [X, index])
    with pytest.raises(BoundsError, match="twos is read at index 9 of axis 0, which has extent 5"):
        f(VALUES[X], np.array([0, 9, 1]))
    check([first], {X: VALUES[X], index: np.array([4, 0, 1])})


def test_a_known_exponent_of_integers_may_be_negative() -> None:
    less = ta.compute((), lambda: ta.const(-1, "int64"), name="less")
    power = ta.compute((3,), lambda i: (i + 1) ** less() + 0.5, name="power")
    check(outputs(loop(lambda t, a: [a * power], [X], fixed=[power], trips=2)), {X: VALUES[X]})


def test_no_index_is_checked_for_a_loop_that_does_not_run() -> None:
    index = ta.placeholder((3,), "int64", name="index")
    size = ta.size("size")
    z = ta.placeholder((size,), "float64", name="z")
    rows = ta.compute((size, 3), lambda t, i: Y[index[i]], name="rows")
    scan = loop(lambda t, a, r: [a * r], [X], scanned=[rows], trips=size)

    def body(t: ta.Expr, a: Tensor) -> list[Tensor]:
        return [a * ta.compute((3,), lambda i: ta.sin(Y[index[i]]))]

    count = loop(body, [X], fixed=[Y, index], trips=N)
    nested = loop(
        lambda t, a: [outputs(loop(body, [Y], fixed=[Y, index], trips=2))[0] + a],
        [X], fixed=[Y, index], trips=N,
    )  # fmt: skip
    for op in (scan, count, nested):
        f = ta.build([outputs(op)[0]], [X, Y, index, N, z])
        wrong = VALUES[X], VALUES[Y], np.array([0, 9, 1])
        assert f(*wrong, np.array(0), np.zeros(0)).tolist() == VALUES[X].tolist()
        with pytest.raises(BoundsError, match="y is read at index 9"):
            f(*wrong, np.array(1), np.zeros(1))


def test_what_may_be_computed_everywhere_leaves_a_loop_that_may_not_run() -> None:
    op = loop(lambda t, a: [a * exp(Y)], [X], fixed=[Y], trips=N)
    (found,) = simplified(outputs(op), [X, Y, N])
    assert [o.name for o in inner_ops([found.op])] == ["mul"]


def _nested_loops() -> list[Tensor]:
    """The last carry, and rows of rows of a loop in a loop."""
    found: list[Tensor] = []

    def body(t: ta.Expr, a: Tensor) -> list[Tensor]:
        inner = loop(lambda s, b: [sin(b) * (s + 1)], [a], trips=3)
        found.append(saved(inner, inner.blocks[0].results[0]))
        found.append(saved(inner, exp(inner.blocks[0].params[0])))
        return [outputs(inner)[0] + Y]

    op = loop(body, [X], fixed=[Y], trips=2)
    return [outputs(op)[0], *[saved(op, t) for t in found], saved(op, sin(found[0]))]


def test_what_is_saved_of_loops_in_loops_that_are_equal_is_saved_once() -> None:
    one, two = _nested_loops(), _nested_loops()
    for results in ([one[0], *two], [*one, *two], [*one, two[0]]):
        check(results, {X: VALUES[X], Y: VALUES[Y]})
        found = simplified(results, [X, Y])
        assert sum([isinstance(op, Loop) for op in ops_between(found, [X, Y])]) == 1


def test_rows_with_the_counter_that_no_iteration_needs_keep_their_loop() -> None:
    def rows() -> Tensor:
        op = loop(lambda t, a: [sin(a) * (t + 1)], [X], trips=3)
        return saved(op, ta.compute((3,), lambda i: op.blocks[0].params[0][i] * op.counter))

    check([rows(), rows()], {X: VALUES[X]})


def test_params_of_blocks_are_told_apart_by_their_places() -> None:
    c, d = [ta.placeholder((), "float64", name=name) for name in "cd"]
    p, q = [ta.placeholder((), "float64", name=name) for name in "pq"]

    def chosen(*params: Tensor) -> Tensor:
        arms = [ta.compute((), lambda n=n: c() * 2 + ta.sin(d()) + n) for n in (0, 1)]
        blocks = Block((c, d), (arms[0],)), Block(params, (arms[1],))
        return outputs(Branch(("chosen",), (N, p, q), blocks))[0]

    check([chosen(c, d), chosen(d, c)], {N: VALUES[N], p: np.array(2.0), q: np.array(5.0)})


def test_params_that_are_formulas_of_other_params_stay() -> None:
    p, r = ta.placeholder((3,), "float64", name="p"), ta.placeholder((3,), "float64", name="r")
    of_p = p * 2.0
    equal = ta.compute((4, 3), lambda t, i: ta.const(3.0, "float64"), name="equal")
    block = Block((r, p, of_p), (sin(r) * p + of_p * exp(of_p),))
    op = Loop(
        ("last",), (X, equal, Y), (block,), counter=local_size("t", int_const(4)),
        trips=int_const(4), carries=1, scanned=1,
    )  # fmt: skip
    check(outputs(op), {X: VALUES[X], Y: VALUES[Y]})


def test_what_reads_a_formula_of_the_counter_stays_in_its_loop() -> None:
    def body(t: ta.Expr, a: Tensor) -> list[Tensor]:
        index = ta.compute((), lambda: t % 2, name="index")
        return [a * outputs(branch(index, [Y], [sin(Y)], [exp(Y)]))[0]]

    check(outputs(loop(body, [X], fixed=[Y], trips=3)), {X: VALUES[X], Y: VALUES[Y]})


def test_a_loop_whose_count_others_use_keeps_what_they_read_of_it() -> None:
    count = loop(lambda t, a, b: [a, sin(b)], [X, Y], trips=N)
    again = loop(lambda t, c: [c * 2.0], [Y], fixed=[outputs(count)[0]], trips=count.trips)
    check(outputs(again), {X: VALUES[X], Y: VALUES[Y], N: VALUES[N]})


@pytest.mark.slow
def test_blocks_may_be_nested_some_hundred_times() -> None:
    p = ta.placeholder((3,), "float64", name="p")
    block = Block((p,), (sin(p),))
    for _ in range(300):
        p = ta.placeholder((3,), "float64", name="p")
        trips = int_const(2)
        counter = local_size("t", trips)
        op = Loop(("y",), (p,), (block,), counter=counter, trips=trips, carries=1)
        block = Block((p,), outputs(op))
    call = FunctionCall(("y",), (X,), (block,), function="f")
    (found,) = simplified(outputs(call), [X])
    assert isinstance(found.op, Loop)
