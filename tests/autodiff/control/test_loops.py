"""Derivatives of loops: differences, both modes, the same program written out, further orders."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import tensorad as ta
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Loop, Tensor, outputs, saved
from tensorad.ir.visit import topological_ops
from tests.support.programs.build import branch, loop
from tests.support.programs.loops import newton
from tests.support.programs.oracles import Arrays, check_both_modes

RNG = np.random.default_rng(3)


def given(name: str, *shape: int) -> Tensor:
    return ta.placeholder(shape, "float64", name=name)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def zeros(*shape: int) -> Tensor:
    return ta.compute(shape, lambda *i: ta.const(0.0, "float64"), name="zero")


Case = tuple[Tensor, list[Tensor], Arrays]


def _products(n: int = 4) -> Case:
    """Running products whose factors are read at the counter."""
    x, start = given("x", n, 3), given("start", 3)
    op = loop(lambda t, c: [ta.compute((3,), lambda j: c[j] * x[t, j], name="p")], [start],
              fixed=[x], trips=n)  # fmt: skip
    return outputs(op)[0], [x, start], {x: normal(n, 3), start: normal(3)}


def _running_sums() -> Case:
    x = given("x", 4, 3)
    op = loop(lambda t, c: [ta.compute((3,), lambda j: c[j] + x[t, j], name="sums")],
              [zeros(3)], fixed=[x], trips=4)  # fmt: skip
    sums = saved(op, op.blocks[0].results[0])
    return sums * sums, [x], {x: normal(4, 3)}


def _cell() -> Case:
    """A recurrent cell: gates of the carried state and of scanned rows, weights fixed."""
    xs, w, u = given("xs", 3, 2), given("w", 4, 2), given("u", 4, 2)
    h0, c0 = given("h0", 2), given("c0", 2)

    def body(t: Expr, h: Tensor, c: Tensor, x: Tensor) -> Sequence[Tensor]:
        gates = w @ x + u @ h
        keep = ta.compute((2,), lambda i: ta.sigmoid(gates[i]), name="keep")
        new = ta.compute((2,), lambda i: ta.tanh(gates[i + 2]), name="new")
        cell = ta.compute((2,), lambda i: keep[i] * c[i] + (1.0 - keep[i]) * new[i], name="cell")
        return [ta.compute((2,), lambda i: ta.tanh(cell[i]) * keep[i], name="h"), cell]

    op = loop(body, [h0, c0], [xs], [w, u], 3)
    states = saved(op, op.blocks[0].results[0])
    last = outputs(op)[1]
    y = ta.compute((3, 2), lambda t, i: states[t, i] * last[i], name="y")
    at = {xs: normal(3, 2), w: normal(4, 2), u: normal(4, 2), h0: normal(2), c0: normal(2)}
    return y, [xs, w, u, h0, c0], at


def _branch_inside() -> Case:
    """A branch by the counter, then by data, inside of a loop."""
    x, start = given("x", 4, 2), given("start", 2)

    def body(t: Expr, c: Tensor, row: Tensor) -> Sequence[Tensor]:
        odd = ta.compute((), lambda: t % 2, name="odd")
        grown, shrunk = c * row, ta.compute((2,), lambda i: ta.sin(c[i]) + row[i], name="s")
        (way,) = outputs(branch(odd, [c, row], [grown], [shrunk]))
        high = ta.compute((), lambda: row[0] > 0.0, name="high")
        return outputs(branch(high, [way], [way], [way * way]))

    op = loop(body, [start], [x], trips=4)
    return outputs(op)[0], [x, start], {x: normal(4, 2), start: normal(2)}


def _loop_inside() -> Case:
    """A loop whose inner loop runs as often as data say."""
    x, start, counts = given("x", 3, 2), given("start", 2), ta.placeholder((3,), "int64", name="n")

    def body(t: Expr, c: Tensor, row: Tensor) -> Sequence[Tensor]:
        n = ta.compute((), lambda: counts[t], name="nt")
        inner = loop(lambda s, d: [ta.compute((2,), lambda i: ta.sin(d[i]) * row[i], name="in")],
                     [c], fixed=[row], trips=n)  # fmt: skip
        inside = saved(inner, inner.blocks[0].results[0])
        s = ta.reduce_axis((0, inside.shape[0]), name="s")
        return [outputs(inner)[0] + ta.compute((2,), lambda i: ta.sum(inside[s, i], axis=s))]

    op = loop(body, [start], [x], [counts], 3)
    at = {x: normal(3, 2), start: normal(2), counts: np.array([2, 0, 3])}
    return outputs(op)[0], [x, start], at


def _linear_inside() -> Case:
    """An inner loop of which the reverse needs nothing but how often it ran."""
    start, count = given("start", 2), ta.placeholder((), "int64", name="n")

    def body(t: Expr, c: Tensor) -> Sequence[Tensor]:
        op = loop(lambda s, d: [d * 1.5], [c], trips=count)
        rows = saved(op, op.blocks[0].results[0])
        s = ta.reduce_axis((0, rows.shape[0]), name="s")
        total = ta.compute((2,), lambda i: ta.sum(rows[s, i] * 0.5, axis=s), name="total")
        return [ta.topi.sin(outputs(op)[0]) + total]

    op = loop(body, [start], fixed=[count], trips=2)
    return outputs(op)[0], [start], {start: normal(2), count: np.array(3)}


def _fixed_inside() -> Case:
    """A loop in a loop, both of known length; the inner one reads at both counters."""
    x, start = given("x", 3, 4), given("start")

    def body(t: Expr, c: Tensor) -> Sequence[Tensor]:
        return outputs(
            loop(lambda s, d: [ta.compute((), lambda: d() * x[t, s] + ta.cos(d()), name="in")],
                 [c], fixed=[x], trips=4)
        )  # fmt: skip

    op = loop(body, [start], fixed=[x], trips=3)
    return outputs(op)[0], [x, start], {x: normal(3, 4), start: normal()}


def _rows_stored() -> Case:
    """A carry of which one row is written at a time, and the row before it is read."""
    x, table = given("x", 5), given("table", 5)

    def body(t: Expr, c: Tensor) -> Sequence[Tensor]:
        def element(r: Expr) -> Expr:
            before = ta.select(t > 0, c[ta.maximum(t - 1, 0)], 1.0)
            return ta.select(r == t, ta.sin(before) * x[t], c[r])

        return [ta.compute((5,), element, name="written")]

    op = loop(body, [table], fixed=[x], trips=5)
    return outputs(op)[0], [x, table], {x: normal(5), table: normal(5)}


def _integers() -> Case:
    """An integer carry decides which element is read."""
    x, start = given("x", 5), given("start")
    first = ta.compute((), lambda: ta.const(2, "int64"), name="first")

    def body(t: Expr, k: Tensor, c: Tensor) -> Sequence[Tensor]:
        after = ta.compute((), lambda: (k() * 3 + t) % 5, name="k")
        return [after, ta.compute((), lambda: c() * x[k()], name="c")]

    op = loop(body, [first, start], fixed=[x], trips=4)
    return outputs(op)[1], [x, start], {x: normal(5), start: normal()}


def _tuples() -> Case:
    """Folds with a combiner of two components inside of a loop."""
    x, start = given("x", 3, 4), given("start", 4)
    largest = ta.comm_reducer(
        lambda a, b: (ta.select(a[0] >= b[0], a[0], b[0]), ta.select(a[0] >= b[0], a[1], b[1])),
        lambda s, t: (float("-inf"), 0),
        name="largest",
    )

    def body(t: Expr, c: Tensor, row: Tensor) -> Sequence[Tensor]:
        k = ta.reduce_axis((0, 4), name="k")
        top, where = ta.compute((), lambda: largest((c[k] * row[k], k), axis=k), name="top")
        return [ta.compute((4,), lambda i: ta.sin(c[i]) + top() * row[i] + where() * c[i])]

    op = loop(body, [start], [x], trips=3)
    return outputs(op)[0], [x, start], {x: normal(3, 4), start: normal(4)}


def _passed_on() -> Case:
    """Carries that change places, one result twice, and one that is a param."""
    a, b = given("a"), given("b")

    def body(t: Expr, p: Tensor, q: Tensor, r: Tensor) -> Sequence[Tensor]:
        both = p * q
        return [q, both, both]

    op = loop(body, [a, b, a], trips=3)
    p, q, r = outputs(op)
    return p * q + r, [a, b], {a: normal(), b: normal()}


def _backwards() -> Case:
    x, start = given("x", 3, 2), given("start", 2)
    op = loop(lambda t, c, row: [ta.compute((2,), lambda i: ta.exp(c[i] * 0.1) * row[i])],
              [start], [x], trips=3, reverse=True)  # fmt: skip
    rows = saved(op, op.blocks[0].params[0])
    return rows + outputs(op)[0], [x, start], {x: normal(3, 2), start: normal(2)}


def _no_carry() -> Case:
    """Only what is saved depends on the input."""
    x = given("x", 3, 2)
    first = ta.compute((), lambda: ta.const(0, "int64"), name="first")
    made: list[Tensor] = []

    def body(t: Expr, k: Tensor, row: Tensor) -> Sequence[Tensor]:
        made.append(ta.compute((2,), lambda i: ta.sin(row[i]), name="sines"))
        return [k + 1]

    op = loop(body, [first], [x], trips=3)
    return saved(op, made[0]), [x], {x: normal(3, 2)}


CASES: dict[str, Callable[[], Case]] = {
    "running sums": _running_sums,
    "products": _products,
    "no iterations": lambda: _products(0),
    "one iteration": lambda: _products(1),
    "cell": _cell,
    "branch inside": _branch_inside,
    "loop inside": _loop_inside,
    "linear loop inside": _linear_inside,
    "fixed loop inside": _fixed_inside,
    "rows stored": _rows_stored,
    "integers": _integers,
    "tuples": _tuples,
    "passed on": _passed_on,
    "backwards": _backwards,
    "no carry": _no_carry,
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("case", CASES)
def test_both_modes_agree_with_differences(case: str) -> None:
    y, wrt, at = CASES[case]()
    check_both_modes(y, wrt, at)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("case", CASES)
def test_second_derivatives_agree(case: str) -> None:
    y, wrt, at = CASES[case]()
    head = ta.placeholder(y.shape, "float64", name="h")
    bound = {**at, head: RNG.standard_normal(np.shape(ta.interpret(y, at)))}
    gradient = ta.vjp(y, [wrt[0]], head)[0]
    check_both_modes(gradient, [*wrt, head], bound)
    along = ta.placeholder(wrt[0].shape, "float64", name="along")
    moved = ta.jvp(y, {wrt[0]: along})
    check_both_modes(moved, wrt, {**at, along: RNG.standard_normal(along.shape)})


@pytest.mark.sampled(5)
@pytest.mark.parametrize("case", CASES)
def test_jacobians_have_a_batch_of_heads(case: str) -> None:
    y, wrt, at = CASES[case]()
    for x in wrt:
        by_rows = ta.interpret(ta.jacobian(y, x, mode="reverse"), at)
        by_columns = ta.interpret(ta.jacobian(y, x, mode="forward"), at)
        assert np.allclose(by_rows, by_columns, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("n", [0, 1, 7])
def test_a_loop_of_newton_has_derivatives_of_three_orders(n: int) -> None:
    """Compared with its steps written out."""
    a, count = given("a"), ta.placeholder((), "int64", name="count")
    one = ta.compute((), lambda: ta.const(1.0, "float64"), name="one")
    op = loop(lambda t, x: [ta.compute((), lambda: (x() + a() / x()) * 0.5, name="step")],
              [one], fixed=[a], trips=count)  # fmt: skip
    plain = one
    for _ in range(n):
        plain = ta.compute((), lambda x=plain: (x() + a() / x()) * 0.5, name="step")
    have, want = outputs(op)[0], plain
    for _ in range(3):
        (have,), (want,) = ta.vjp(have, [a]), ta.vjp(want, [a])
        found = ta.interpret(have, {a: 2.0, count: n})
        assert abs(found - ta.interpret(want, {a: 2.0})) < 1e-12


def test_a_loop_that_ends_by_a_condition_has_derivatives_of_three_orders() -> None:
    a = given("a")
    reverse = forward = newton(a)[0]
    for want in (0.5 * 2**-0.5, -0.25 * 2**-1.5, 0.375 * 2**-2.5):
        (reverse,), forward = ta.vjp(reverse, [a]), ta.jvp(forward, {a: 1.0})
        assert abs(ta.interpret(reverse, {a: 2.0}) - want) < 1e-12
        assert abs(ta.interpret(forward, {a: 2.0}) - want) < 1e-12


def test_rows_of_a_loop_that_ends_by_a_condition_have_heads() -> None:
    a = given("a")
    _, op = newton(a)
    trail = saved(op, op.blocks[0].params[0])
    t = ta.reduce_axis((0, trail.shape[0]), name="t")
    y = ta.compute((), lambda: ta.sum(trail[t], axis=t), name="y")
    check_both_modes(y, [a], {a: np.array(2.0)})


@pytest.mark.parametrize("by", ["count", "test"])
def test_an_inner_loop_that_tells_its_trips_and_stores_nothing(by: str) -> None:
    x, w, n = given("x"), given("w"), ta.placeholder((), "int64", name="n")

    def step(t: Expr, c: Tensor) -> list[Tensor]:
        if by == "count":
            return list(outputs(loop(lambda t, a: [a + w], [c], fixed=[w], trips=n)))
        inner = loop(lambda t, a, k: [a + w, k - 1], [c, n], fixed=[w], test=lambda a, k: k > 0)
        return list(outputs(inner)[:1])

    y = outputs(loop(step, [x], fixed=[w, n], trips=2))[0]
    check_both_modes(y, [x, w], {x: np.array(1.5), w: np.array(0.8), n: np.array(3)})


def test_of_a_loop_and_its_tangent_the_one_that_is_read_tells_the_trips_again() -> None:
    """Both count to the same number; the reverse of the branch reads but one of them."""
    x, n = given("x"), ta.placeholder((), "int64", name="n")

    def case() -> Tensor:
        count, last = ta.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 0.9), (0, x))
        ended = ta.function(lambda _: last)
        return ta.for_loop(0, 2, lambda t, c: ta.sin(ended(c)) * 0.6, last) + count * 0.0

    y = ta.cond(n >= 0, case, lambda: x)
    check_both_modes(ta.jvp(y, {x: 1.0}), [x], {x: np.array(0.4), n: np.array(3)})


def test_what_does_not_depend_on_a_tensor_makes_no_loop() -> None:
    x, w = given("x", 3), given("w")
    op = loop(lambda t, c, d: [c + 1.0, d * w], [w, w], [], [w], 3)
    (dx,) = ta.vjp(outputs(op)[0], [x])
    assert not any(isinstance(o, Loop) for o in topological_ops([dx]))
