"""The parts that derivatives of blocks are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tensorad as ta
from tensorad.autodiff.control.activity import active_inside, reached
from tensorad.autodiff.control.adjoints import control_adjoints
from tensorad.autodiff.control.branches import BranchAdjoints
from tensorad.autodiff.control.heads import Given, Head
from tensorad.autodiff.control.parts import in_parts
from tensorad.autodiff.control.pieces import batch_first, rows_first, with_dtype
from tensorad.autodiff.control.residuals import note_stored, residuals
from tensorad.autodiff.control.rows import rows_of
from tensorad.autodiff.control.tangents import Moving, control_tangents
from tensorad.autodiff.forward import block_jvp
from tensorad.autodiff.sweep import block_vjp
from tensorad.ir.analysis.blocks import block_ops
from tensorad.ir.analysis.decisions import Decision, listening
from tensorad.ir.dtypes import FLOAT32
from tensorad.ir.expr import Call, Expr, LocalSize, int_const, local_size
from tensorad.ir.tensor import Block, FunctionCall, Loop, Saved, Tensor, outputs, saved
from tensorad.ir.visit import op_expressions, op_inputs, placeholders, postorder, topological_ops
from tests.support.programs.build import branch, loop


def given(name: str, *shape: int) -> Tensor:
    return ta.placeholder(shape, "float64", name=name)


def _chain() -> tuple[Loop, list[Tensor]]:
    """The first carry receives the second one, which receives a fixed tensor."""
    a, b, w = given("a"), given("b"), given("w")
    op = loop(lambda t, p, q: [p * 2.0 + q, q + w], [a, b], fixed=[w], trips=3)
    return op, [a, b, w]


def test_activity_of_carries_is_a_fixed_point() -> None:
    op, (a, b, w) = _chain()
    p, q, _ = op.blocks[0].params
    for wrt, want in ((a, [p]), (b, [p, q]), (w, [p, q, w])):
        (active,) = active_inside(op, {wrt: None}, {})
        assert [t for t in (p, q, w) if t in active] == want


def test_derivatives_reach_the_params_that_are_read_smoothly() -> None:
    p, q = given("p", 3), given("q", 3)
    r = ta.compute((3,), lambda i: ta.select(q[i] > 0.0, p[i], 1.0), name="r")
    assert list(reached((p, q), [r], {})) == [p]


def test_what_decides_alone_gets_no_carry_of_the_reversed_loop() -> None:
    x, w, level = given("x", 3), given("w", 3), given("level", 3)

    def body(t: Expr, c: Tensor, d: Tensor) -> list[Tensor]:
        high = ta.compute((3,), lambda i: ta.select(d[i] > w[i], c[i] * x[i], c[i]), name="high")
        return [high, d * w]

    op = loop(body, [x, level], fixed=[x, w], trips=3)
    found = ta.vjp(outputs(op)[0], [x, w, level], np.ones(3))
    (reverse,) = {o: None for o in topological_ops(found) if isinstance(o, Loop) and o.reverse}
    assert [t.name for t in outputs(reverse)] == ["dc0", "dx"]
    assert all(not ta.interpret(t, {x: [1.0] * 3, w: [1.0] * 3, level: [2.0] * 3}).any()
               for t in found[1:])  # fmt: skip


def test_a_call_becomes_a_call_of_its_reverse() -> None:
    x, p = given("x", 2), given("p", 2)
    op = FunctionCall(("y", "z"), (x,), (Block((p,), (ta.topi.exp(p), p)),), function="f")
    y, z = outputs(op)
    head = given("head", 2)
    for t, want in ((y, lambda v: np.exp(v)), (z, lambda v: 1.0 + 0.0 * v)):
        heads = {t: Head(head)}
        ((operand, part, *_),) = control_adjoints(op, Given({x: None}, heads, (), {}, block_vjp))
        assert operand is x and isinstance(part.op, FunctionCall) and part.op.function == "df"
        value = np.array([0.3, -2.0])
        found = ta.interpret(part, {x: value, head: np.ones(2)})
        assert np.allclose(found, want(value))
    given_heads = Given({}, {y: Head(head)}, (), {}, block_vjp)
    assert control_adjoints(op, given_heads) == BranchAdjoints(op, given_heads).run() == []


def test_a_call_becomes_a_call_of_its_tangent() -> None:
    x, p, dx = given("x", 2), given("p", 2), given("dx", 2)
    square = p * p
    op = FunctionCall(("y",), (x,), (Block((p,), (p * square,)),), function="f")
    inner = saved(op, square)
    found = control_tangents(op, Moving({x: dx}, [inner.op], (), {}, block_jvp, ()))
    values = {x: np.array([2.0, 3.0]), dx: np.array([1.0, -1.0])}
    assert np.allclose(ta.interpret(found[outputs(op)[0]], values), [12.0, -27.0])
    assert np.allclose(ta.interpret(found[inner], values), [4.0, -6.0])


def test_short_formulas_are_computed_again_and_others_stored() -> None:
    x = given("x", 2)
    made: dict[str, Tensor] = {}

    def body(t: Expr, c: Tensor) -> list[Tensor]:
        made["twice"] = c * 2.0
        made["sine"] = ta.compute((2,), lambda i: ta.sin(made["twice"][i]), name="sine")
        return [made["sine"]]

    op = loop(body, [x], trips=3)
    params = op.blocks[0].params
    both = made["twice"] * made["sine"] * params[0]
    with listening(Decision) as heard:
        found = residuals(op, 0, [both], [], [])
        note_stored(op, found.stored)
    assert list(found.params) == [params[0]] and list(found.stored) == [made["sine"]]
    assert [(d.about[0].name, d.what) for d in heard] == [
        ("last0", "mul computed again"),
        ("last0", "sine stored"),
    ]
    assert list(residuals(op, 0, [made["twice"] * 3.0], [], []).stored) == [made["twice"]]


def test_what_has_a_size_of_the_block_is_computed_again() -> None:
    x, n = given("x"), ta.placeholder((), "int64", name="n")
    p, m = given("p"), ta.placeholder((), "int64", name="m")
    inner = loop(lambda t, c: [ta.topi.sin(c)], [p], trips=m)
    rows = saved(inner, inner.blocks[0].params[0])
    op = FunctionCall(("y",), (x, n), (Block((p, m), outputs(inner)),), function="f")
    found = residuals(op, 0, [rows * 2.0], [], [p, m])
    assert not found.stored and set(found.params) == {p, m}


def test_a_branch_without_an_adjoint_gives_zeros() -> None:
    x, w, index = given("x", 2), given("w", 2), ta.placeholder((), "int64", name="n")
    op = branch(index, [x, w], [x * w], [x + 1.0])
    dx, dw = ta.vjp(outputs(op)[0], [x, w], np.ones(2))
    values = {x: np.array([1.0, 2.0]), w: np.array([3.0, 4.0])}
    for n, want in ((0, ([3.0, 4.0], [1.0, 2.0])), (1, ([1.0, 1.0], [0.0, 0.0]))):
        found = ta.interpret([dx, dw], {**values, index: n})
        assert np.array_equal(found[0], want[0]) and np.array_equal(found[1], want[1])


def test_an_operand_that_stands_twice_receives_both_parts() -> None:
    x, p, q = given("x", 2), given("p", 2), given("q", 2)
    op = FunctionCall(("y",), (x, x), (Block((p, q), (p * q * q,)),), function="f")
    (dx,) = ta.vjp(outputs(op)[0], [x], np.ones(2))
    assert np.allclose(ta.interpret(dx, {x: [2.0, -3.0]}), [12.0, 27.0])


def test_rows_change_places_with_the_axes_of_a_batch() -> None:
    t = given("t", 2, 3, 4)
    a = np.arange(24.0).reshape(2, 3, 4)
    first = rows_first(t, (2,))
    assert np.array_equal(ta.interpret(first, {t: a}), a.transpose(1, 0, 2))
    assert rows_first(t, ()) is t and batch_first(t, (), 2) is t
    back = batch_first(first, (2,), 3)
    assert np.array_equal(ta.interpret(back, {t: a}), a)
    longer = ta.interpret(batch_first(t, (), 4), {t: a})
    assert np.array_equal(longer[:2], a) and not longer[2:].any()
    assert with_dtype(t, FLOAT32).dtype is FLOAT32 and with_dtype(t, t.dtype) is t


def _rows(*parts: Callable[[Any], Any]) -> tuple[Tensor, Loop]:
    """A loop over a fixed matrix that adds up what is read at some indices."""
    x, start = given("x", 5, 3), given("start", 3)

    def body(t: Expr, c: Tensor) -> list[Tensor]:
        return [ta.compute((3,), lambda j: c[j] + sum([x[p(t), j] for p in parts]), name="s")]

    op = loop(body, [start], fixed=[x], trips=4)
    (dx,) = ta.vjp(outputs(op)[0], [x], np.array([1.0, 2.0, 3.0]))
    (reverse,) = {o: None for o in topological_ops([dx]) if isinstance(o, Loop)}
    return dx, reverse


def test_rows_at_the_counter_are_saved_and_not_carried() -> None:
    for parts in ((lambda t: t,), (lambda t: t + 1,), (lambda t: t, lambda t: t + 1)):
        dx, reverse = _rows(*parts)
        assert [t.name for t in outputs(reverse)] == ["dc0"]
        want = np.bincount([p(k) for p in parts for k in range(4)], minlength=5)
        assert np.array_equal(ta.interpret(dx, {}), np.outer(want, [1.0, 2.0, 3.0]))


def test_rows_elsewhere_are_added_up_in_a_carry() -> None:
    dx, reverse = _rows(lambda t: t // 2, lambda t: t)
    assert [t.name for t in outputs(reverse)] == ["dc0", "dx"]
    want = np.array([3.0, 3.0, 1.0, 1.0, 0.0])
    assert np.array_equal(ta.interpret(dx, {}), np.outer(want, [1.0, 2.0, 3.0]))


def test_one_element_of_a_carry_is_stored_where_one_is_read() -> None:
    x, table = given("x", 5), given("table", 5)

    def body(t: Expr, c: Tensor) -> list[Tensor]:
        def element(r: Expr) -> Expr:
            before = ta.select(t > 0, c[ta.maximum(t - 1, 0)], 1.0)
            return ta.select(r == t, ta.sin(before) * x[t], c[r])

        return [ta.compute((5,), element, name="written")]

    op = loop(body, [table], fixed=[x], trips=5)
    found = ta.vjp(outputs(op)[0], [x, table], np.ones(5))
    rows = {o: o.shape for o in topological_ops(found) if isinstance(o, Saved)}
    assert rows and all(len(shape) == 1 for shape in rows.values())


def test_a_sum_inside_of_a_function_is_not_computed_again() -> None:
    w, start = given("w", 4, 4), given("start", 4)

    def body(t: Expr, h: Tensor) -> list[Tensor]:
        k = ta.reduce_axis((0, 4), name="k")
        return [ta.compute((4,), lambda i: ta.tanh(ta.sum(w[i, k] * h[k], axis=k)), name="h")]

    op = loop(body, [start], fixed=[w], trips=3)
    (dw,) = ta.vjp(outputs(op)[0], [w], np.ones(4))
    (reverse,) = {o: None for o in topological_ops([dw]) if isinstance(o, Loop) and o.reverse}
    formulas = [e for o in block_ops(reverse.blocks[0]) for e in op_expressions(o)]
    assert not any(isinstance(e, Call) and e.op == "tanh" for e in postorder(*formulas))


def _at_all(t: Tensor, counter: LocalSize, n: int, *fixed: Tensor) -> Tensor:
    """A tensor at all values of a counter."""
    k = given("k")
    op = Loop(
        ("k",), (given("zero"), *fixed), (Block((k, *fixed), (k,)),),
        counter=counter, trips=int_const(n), carries=1,
    )  # fmt: skip
    return ta.compute((n, *t.shape), lambda *i: saved(op, t)[i], name="rows")


def test_parts_are_0_where_a_tensor_has_no_elements() -> None:
    x, t = given("x", 3), local_size("t", int_const(3))
    y = ta.compute((2,), lambda i: ta.select(t > 0, x[t - 1], 0.0) * (i + 1), name="y")
    (found,), parts = in_parts([y], {x: None}, [x], t)
    (part,) = parts[x]
    assert part.shape == () and op_inputs(found.op) == (part,)
    rows = _at_all(part, t, 3, x)
    values = {x: [4.0, 5.0, 6.0], **{p: 0.0 for p in placeholders([rows]) if p is not x}}
    assert ta.interpret(rows, values).tolist() == [0.0, 4.0, 5.0]


def test_rows_of_adjoints_are_what_conditions_leave() -> None:
    d, t = given("d", 3), local_size("t", int_const(4))
    made = ta.compute((4, 3), lambda i, j: ta.select(i == t, d[j], 0.0) + d[j], name="made")
    ((row,), rest) = rows_of(made, (), t, 4)
    assert row.dim == 0 and row.value.shape == (3,) and rest is not None
    a = np.array([1.0, 2.0, 3.0])
    rows = _at_all(row.value, t, 4, d)
    values = {p: a if p is d else 0.0 for p in placeholders([rows])}
    assert np.array_equal(ta.interpret(rows, values), np.tile(a, (4, 1)))
    assert np.array_equal(ta.interpret(rest, {d: a}), np.tile(a, (4, 1)))
