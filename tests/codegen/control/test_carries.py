"""Where carries and what is saved of a loop lie: nothing is stored twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.codegen.control.carries import Chain, chains
from tensorad.codegen.control.loop_body import Body, own
from tensorad.codegen.control.taken_over import taken_results
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.ir import Exchange, Place, Repeat, Settle
from tensorad.codegen.loops.scratch import buffer
from tensorad.codegen.lower import lower_program
from tensorad.ir.dtypes import FLOAT64
from tensorad.ir.tensor import Loop, Saved, Tensor, outputs, saved
from tensorad.ir.visit import topological_ops
from tests.support.programs.build import loop

X = ta.placeholder((3,), "float64", name="x")
Y = ta.placeholder((3,), "float64", name="y")
VALUES = {X: np.array([0.5, -1.0, 2.0]), Y: np.array([1.5, 0.25, -0.5])}


def _run(tensors: list[Tensor]) -> int:
    """The points that loops visit; values are those of the reference."""
    program = lower_program(tensors, [X, Y], schedule=False)
    found, visits = interpret_loops(program, VALUES)
    made = ta.build(tensors, [X, Y])(VALUES[X], VALUES[Y])
    native = made if isinstance(made, list) else [made]
    for a, b, c in zip(found, native, ta.interpret(tensors, VALUES), strict=True):
        assert np.allclose(a, c, rtol=1e-12) and np.allclose(b, c, rtol=1e-12)
    return visits


def test_values_go_from_carry_to_carry() -> None:
    a, b, c, d, e = (buffer(n, (), FLOAT64) for n in "abcde")
    made = buffer("r", (), FLOAT64)
    assert chains([a, b, c, d, e], [b, made, e, X, c], {made: None}) == [
        Chain(made, (1, 0), True), Chain(X, (3,), False), Chain(None, (2, 4), False),
    ]  # fmt: skip


@pytest.mark.parametrize("trips", [0, 1, 2, 3, 6])
def test_carries_that_exchange_their_values_are_not_copied(trips: int) -> None:
    op = loop(lambda t, a, b: [b, a], [X, Y], trips=trips)
    total = outputs(op)[0] - outputs(op)[1] * 2.0
    assert _run([total]) == 6, "what is made of the results"


@pytest.mark.parametrize("trips", [0, 1, 2, 3, 6])
@pytest.mark.parametrize("reverse", [False, True])
def test_saved_carries_share_their_rows(trips: int, reverse: bool) -> None:
    op = loop(lambda t, a, b: [a * b, a], [X, Y], trips=trips, reverse=reverse)
    (result, passed), (a, b) = op.blocks[0].results, op.blocks[0].params
    assert passed is a
    rows = [saved(op, t) for t in (result, a, b)]
    made = [ta.compute(r.shape, lambda *i, r=r: r[i] * 2.0, name="twice") for r in rows]
    copied = 2 * 3 * bool(trips)
    assert _run([outputs(op)[1] * 2.0, *made]) == copied + (1 + 3) * 3 * trips + 3
    nodes = lower_program(made, [X, Y]).nodes
    repeats = [n for n in nodes if isinstance(n, Repeat)]
    assert len(repeats) == bool(trips), "a loop of no iterations is known to be none"
    for repeat in repeats:
        assert [t.shape for t in repeat.stores] == [(trips + 2, 3)] and not repeat.moves


@pytest.mark.parametrize("trips", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("read", ["given", "read"])
def test_carries_of_one_chain_do_not_end_in_the_memory_of_each_other(trips: int, read: str) -> None:
    op = loop(lambda t, a, b, c: [a * b + c, a, b], [X, Y, X + Y], trips=trips)
    first, *others = outputs(op)
    _run([first, *[t if read == "given" else t * 2.0 for t in others]])
    _run([others[1], first, others[0] * 2.0])


@pytest.mark.parametrize("trips", [0, 1, 2, 5])
def test_results_are_made_where_the_caller_reads_them(trips: int) -> None:
    op = loop(lambda t, a: [a * Y], [X], fixed=[Y], trips=trips)
    assert _run([outputs(op)[0]]) == 3 * (trips or 1), "only what no iteration makes is copied"
    every = saved(op, op.blocks[0].results[0])
    assert _run([every]) == 3 * trips
    assert _run([every, outputs(op)[0]]) == 3 * trips + 3


@pytest.mark.parametrize("trips", [0, 1, 4])
def test_inner_loops_and_branches_leave_results_where_outer_loops_read_them(trips: int) -> None:
    def inner(t: ta.Expr, a: Tensor) -> list[Tensor]:
        branched = ta.cond(a[0] > 1.0, lambda: a * 0.5, lambda: a + Y)
        return [outputs(loop(lambda s, b: [b * Y], [branched], fixed=[Y], trips=2))[0]]

    made = outputs(loop(inner, [X], fixed=[Y], trips=trips))[0]
    assert _run([made]) == trips * (2 + 3 + 2 * 3) + 3 * (not trips)


def test_a_while_copies_only_what_lies_elsewhere() -> None:
    def steps(bound: float) -> int:
        n = ta.compute((), lambda: ta.const(0.0, "float64"), name="n")
        op = loop(
            lambda t, a, k: [a * Y, k + 1.0], [X, n], fixed=[Y],
            test=lambda a, k: ta.compute((), lambda: k() < bound),
        )  # fmt: skip
        return _run([outputs(op)[0]])

    assert [steps(b) - 4 * b for b in (0, 1, 2, 3)] == [5, 3, 7, 5]


def test_fills_are_made_in_the_memory_of_what_is_added_to() -> None:
    zero = ta.compute((3, 3), lambda i, j: ta.const(0.0, "float64"), name="zero")

    def body(t: ta.Expr, total: Tensor) -> list[Tensor]:
        new = ta.compute((3, 3), lambda i, j: ta.select(i == t, X[j], total[i, j]), name="row")
        return [new]

    op = loop(body, [zero], fixed=[X], trips=3)
    program = lower_program([outputs(op)[0]], [X])
    (repeat,) = [n for n in program.nodes if isinstance(n, Repeat)]
    assert not repeat.moves and not [n for n in program.nodes if isinstance(n, Settle)]
    assert _run([outputs(op)[0]]) == 9 + 3 * 3


@pytest.mark.parametrize("trips", [0, 1, 3])
def test_what_is_one_tensor_without_calls_may_be_saved_twice(trips: int) -> None:
    same = ta.function(lambda v: v)

    def step(c: Tensor, r: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        d = c * r
        return d, (d, same(d), same(c), c, same(r), r)

    rows = ta.compute((trips,), lambda i: X[i], name="rows")
    _, ys = ta.scan(step, ta.compute((), lambda: X[2], name="first"), rows)
    _run(list(ys))


def test_first_values_that_a_loop_reads_otherwise_are_there() -> None:
    twos = ta.compute((3,), lambda i: ta.const(2.0, "float64"), name="twos")
    three = ta.compute((), lambda: ta.const(3, "int64"), name="three")
    loops = [
        loop(lambda t, a, two: [a * two], [twos], scanned=[twos], trips=3),
        loop(lambda t, a: [a * twos], [twos], fixed=[twos], trips=3),
        loop(lambda t, n: [n + n], [three], trips=three),
    ]
    for op in loops:
        _run([outputs(op)[0]])


def test_what_a_body_may_compute_into_given_memory() -> None:
    op = loop(lambda t, a: [a * Y], [X], fixed=[Y], trips=2)
    made = X * 2.0
    assert own(made, ()) is made and own(made, ({made: None},)) is not made
    assert own(X, ()) is not X
    rows = saved(op, op.blocks[0].results[0]).op
    assert isinstance(op, Loop) and isinstance(rows, Saved)
    body = Body.of(op, [rows], ())
    assert [c.carries for c in body.chains] == [(0,)] and not body.may_be_in_place
    moves = lower_program([outputs(op)[0]], [X, Y]).nodes
    (repeat,) = [n for n in moves if isinstance(n, Repeat)]
    assert [type(m) for m in repeat.moves] == [Place, Exchange]


@pytest.mark.parametrize("delivered", [(), (0,), (1,), (0, 1, 2)])
@pytest.mark.parametrize("trips", [0, 1, 3])
def test_rows_of_a_copy_hold_what_is_copied(trips: int, delivered: tuple[int, ...]) -> None:
    copies: list[Tensor] = []

    def body(t: ta.Expr, a: Tensor) -> list[Tensor]:
        copies[:] = [ta.compute((3,), lambda j: a[j], name="copy") for _ in range(2)]
        return [a * a]

    op = loop(body, [X], trips=trips)
    rows = [saved(op, t) for t in (op.blocks[0].params[0], *copies)]
    twice = [ta.compute(r.shape, lambda *i, r=r: r[i] * 2.0, name="twice") for r in rows]
    _run([*twice, *[rows[k] for k in delivered]])


def test_rows_of_a_copy_hold_what_is_copied_as_long_as_a_condition_holds() -> None:
    def f(x: Tensor) -> Tensor:
        return ta.while_loop(lambda c: c > 0.5, lambda c: ta.sin(c) * x, x)

    for _ in range(4):
        f = ta.grad(f)
    x = ta.placeholder((), "float64", name="x")
    fourth = f(x)
    expected = ta.interpret(fourth, {x: np.array(0.8)})
    (found,), _ = interpret_loops(lower_program([fourth], [x], schedule=False), {x: np.array(0.8)})
    assert np.isclose(found, expected, rtol=1e-10)
    assert np.isclose(ta.build(fourth, [x])(np.array(0.8)), expected, rtol=1e-10)


@pytest.mark.parametrize("trips", [0, 1, 4])
def test_a_loop_changes_what_is_carried_through_it_where_it_lies(trips: int) -> None:
    """No iteration of the outer loop copies the rows; what a loop before has left is taken, too."""
    n, rows = 64, 100
    x = ta.placeholder((n,), "float64", name="x")

    def inner(t: Any, c: Any) -> Any:
        return c[0] * 1.5, c[1].at[(t * 7) % rows].set(c[0])

    def outer(i: Any, c: Any) -> Any:
        return ta.for_loop(0, 5, inner, c)

    begin = (x, ta.compute((rows, n), lambda i, j: ta.const(0.0, "float64"), name="rows"))
    first = ta.for_loop(0, 3, inner, begin)
    y, kept = ta.for_loop(0, trips, outer, first)
    result = ta.compute((n,), lambda j: y[j] + kept[14, j], name="result")
    f = ta.build(result, [x])
    assert f.memory.temporaries < (rows + 8) * n * 8
    value = np.linspace(-1.0, 1.0, n)
    np.testing.assert_allclose(f(value), ta.interpret(result, {x: value}), rtol=1e-12)
    (loop,) = [op for op in topological_ops([result]) if isinstance(op, Loop) and op is y.op]
    assert taken_results([kept], {x: None}, {}, {})[loop] == {1: None}
