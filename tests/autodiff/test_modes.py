"""Modes and orders: several outputs and heads, batches, rules, Jacobians, higher derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import topi
from tensorad.config import override
from tensorad.errors import LimitError
from tensorad.ir.tensor import Tensor
from tests.support.refusals import Refusals, check

RNG = np.random.default_rng(7)
X = ta.placeholder((5,), name="X", dtype="float64")
W = ta.placeholder((7, 5), name="W", dtype="float64")
V = ta.placeholder((3, 7), name="V", dtype="float64")
K, L = ta.reduce_axis(5, name="k"), ta.reduce_axis(7, name="l")
Z = ta.compute((7,), lambda i: ta.tanh(ta.sum(W[i, K] * X[K], axis=K)), name="Z")
Y = ta.compute((3,), lambda i: ta.sum(V[i, L] * Z[L], axis=L), name="Y")
S = ta.compute((), lambda: ta.sum(Z[L] * Z[L] * Z[L], axis=L), name="S")
x, w, v = (RNG.standard_normal(s) for s in ((5,), (7, 5), (3, 7)))
BOUND = {X: x, W: w, V: v}
SLOPE = 1 - np.tanh(w @ x) ** 2
DZ = SLOPE[:, None] * w
DY = v @ DZ


def value(t: Tensor, **more: Any) -> np.ndarray:
    return np.asarray(ta.evaluate(t, dict(BOUND)))


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)


# Jacobians


@pytest.mark.parametrize("mode", ["reverse", "forward", None])
def test_a_jacobian_is_the_same_in_every_mode(mode: str | None) -> None:
    close(value(ta.jacobian(Y, X, mode=mode)), DY)
    by_w = ta.jacobian(Y, W, mode=mode)
    close(value(by_w), np.einsum("ij,j,k->ijk", v, SLOPE, x))


def test_the_cheaper_mode_is_chosen_by_counted_work() -> None:
    n = 40
    a, wide = ta.placeholder((n,), name="A"), ta.placeholder((2,), name="P")
    narrow = ta.compute((2,), lambda i: ta.sum(a[K0] * (K0 + i), axis=K0), name="narrow")
    tall = ta.compute((n,), lambda i: wide[0] * i + wide[1], name="tall")
    k = ta.reduce_axis(n, name="k")
    mixed = ta.compute((n,), lambda i: ta.sum(tall[k] * (k - i), axis=k), name="mixed")
    few = ta.compute((2,), lambda i: narrow[i] * narrow[1 - i], name="few")
    for y, x0, best in ((mixed, wide, "forward"), (few, a, "reverse")):
        work = {m: total(ta.work(ta.jacobian(y, x0, mode=m))) for m in ("forward", "reverse")}
        assert work[best] < max(work.values())
        assert total(ta.work(ta.jacobian(y, x0))) == work[best]


def total(w: ta.Work) -> int:
    counts = (w.iterations, w.multiplications, w.elements)
    return sum([n for n in counts if isinstance(n, int)])


K0 = ta.reduce_axis(40, name="k")


def test_a_forward_jacobian_visits_its_nonzeros_only() -> None:
    a = ta.placeholder((100,), name="A")
    twice = ta.compute((100,), lambda i: a[i] * a[i], name="twice")
    shifted = ta.compute((98,), lambda i: twice[i] + twice[i + 2], name="shifted")
    j = ta.jacobian(shifted, a, mode="forward")
    assert ta.work(j).iterations == 98 * 100  # one compute: its elements, no sums over deltas
    assert "sum(" not in str(j)


def test_jacobians_of_scans_scatters_and_of_a_tensor_itself() -> None:
    running = ta.scan(X, 0, "prod", name="running")
    table = ta.const(np.array([2, 0, 2, 1, 0]))
    spread = ta.scatter(3, 5, lambda p: (table[p], running[p] * X[p]), name="spread")
    for y in (running, spread, X):
        close(value(ta.jacobian(y, X, mode="forward")), value(ta.jacobian(y, X, mode="reverse")))
    close(value(ta.jacobian(Y, V, mode="forward")), value(ta.jacobian(Y, V, mode="reverse")))


def test_an_unrelated_tensor_has_a_zero_jacobian() -> None:
    other = ta.placeholder((2,), name="O", dtype="float64")
    for mode in ("forward", "reverse", None):
        assert value(ta.jacobian(Y, other, mode=mode)).tolist() == np.zeros((3, 2)).tolist()


# Several outputs, heads and tangents


def test_several_outputs_add_up() -> None:
    (dx,) = ta.vjp([Y, Z, S], X, [1.0, 2.0, None])
    ds = 3 * (np.tanh(w @ x) ** 2) @ DZ
    close(value(dx), DY.sum(0) + 2 * DZ.sum(0) + ds)
    h, g = RNG.standard_normal((4, 3)), RNG.standard_normal((4, 7))
    close(value(ta.vjp([Y, Z], [X], [h, g])[0]), h @ DY + g @ DZ)
    close(value(ta.vjp((S,), [X])[0]), ds)
    close(value(ta.vjp([Y, Z], [X], 1.0)[0]), DY.sum(0) + DZ.sum(0))


def test_an_output_may_be_asked_for() -> None:
    dz, dx = ta.vjp([Y, Z], [Z, X], [1.0, 2.0])
    close(value(dz), v.sum(0) + 2)
    close(value(dx), DY.sum(0) + 2 * DZ.sum(0))


def test_tuples_leave_their_integers_out() -> None:
    pair = ta.compute((5,), lambda i: (X[i] * X[i], i, ta.exp(X[i])), name="pair")
    (dx,) = ta.vjp(pair, X, 1.0)
    close(value(dx), 2 * x + np.exp(x))
    (dx,) = ta.vjp(pair, X, [2.0, None, 1.0])
    close(value(dx), 4 * x + np.exp(x))
    tangents = ta.jvp(pair, {X: 1.0})
    assert len(tangents) == 2
    close(value(tangents[1]), np.exp(x))


def test_tangents_come_in_batches() -> None:
    d, e = RNG.standard_normal((2, 3, 5)), RNG.standard_normal((2, 3, 7, 5))
    both = ta.jvp(Y, {X: d, W: e})
    assert both.shape == (2, 3, 3)
    expected = d @ DY.T + np.einsum("ij,j,abjk,k->abi", v, SLOPE, e, x)
    close(value(both), expected)
    dz, dy = ta.jvp([Z, Y], {X: d, W: 0.0})
    close(value(dz), d @ DZ.T)
    close(value(dy), d @ DY.T)


def test_batches_pass_scans_scatters_and_winners() -> None:
    running = ta.scan(X, 0, "max", name="running")
    table = ta.const(np.array([2, 0, 2, 1, 0]))
    spread = ta.scatter(3, 5, lambda p: (table[p], running[p] * X[p]), init=1.0, name="spread")
    top = ta.compute((2,), lambda i: ta.max(X[K] * (K - 2 * i), axis=K), name="top")
    d = RNG.standard_normal((4, 5))
    for y in (running, spread, top):
        one = ta.jvp(y, {X: d})
        close(value(one), np.stack([value(ta.jvp(y, {X: row})) for row in d]))
        heads = RNG.standard_normal((2, *y.shape))
        (batch,) = ta.vjp(y, X, heads)
        close(value(batch), np.stack([value(ta.vjp(y, X, h)[0]) for h in heads]))


# Rules in place of formulas


def straight_through(t: Tensor, deps: Sequence[Tensor], head: Tensor) -> list[Tensor]:
    """As if Z were W X, without the tanh."""
    return [topi.tensordot(head, W, 1)]


def test_a_rule_replaces_a_formula_in_both_modes() -> None:
    given = {Z: ([X], straight_through)}
    close(value(ta.vjp(Y, X, 1.0, override=given)[0]), (v @ w).sum(0))
    close(value(ta.jvp(Y, {X: 1.0}, override=given)), (v @ w).sum(1))
    close(value(ta.jacobian(Y, X, override=given)), v @ w)
    close(value(ta.jacobian(Y, X, override=given, mode="forward")), v @ w)
    assert value(ta.vjp(Y, W, 1.0, override=given)[0]).tolist() == np.zeros((7, 5)).tolist()


def test_directions_of_an_intermediate_join_those_that_reach_it() -> None:
    given = {Z: ([X], straight_through)}
    for rules, slope in ((None, DZ), (given, w)):
        both = ta.jvp(Y, {X: 1.0, Z: 2.0}, override=rules)
        close(value(both), v @ (slope.sum(1) + 2))
        dx, dz = ta.vjp(Y, [X, Z], 1.0, override=rules)
        close(value(both).sum(), value(dx).sum() + 2 * value(dz).sum())


def test_second_derivatives_use_rules_twice() -> None:
    given = {Z: ([X], straight_through)}
    t = np.tanh(w @ x)
    expected = w.T @ np.diag(6 * t) @ w
    close(value(ta.hessian(S, X, override=given)), expected)
    close(value(ta.hvp(S, X, 1.0, override=given)), expected.sum(1))


def test_a_forward_rule_is_transposed() -> None:
    def along(t: Tensor, deps: list[Tensor], tangents: list[Tensor | None]) -> Tensor:
        (dx,) = tangents
        assert dx is not None
        return topi.tensordot(dx, topi.transpose(W, (1, 0)), 1)

    given = {Z: ta.DerivativeRule([X], jvp=along)}
    close(value(ta.jvp(Y, {X: 1.0}, override=given)), (v @ w).sum(1))
    close(value(ta.vjp(Y, X, 1.0, override=given)[0]), (v @ w).sum(0))


def test_a_rule_sees_the_tensors_that_its_formula_reads() -> None:
    seen: list[Any] = []

    def rule(t: Tensor, deps: list[Tensor], head: Tensor) -> list[Tensor | None]:
        seen.append((t, deps, head.shape))
        return [None, topi.tensordot(head, W, 1)]

    close(value(ta.vjp(Y, X, np.ones((2, 3)), override={Z: rule})[0]), [(v @ w).sum(0)] * 2)
    assert seen == [(Z, [W, X], (2, 7))]


def test_rules_of_one_output_leave_the_others_alone() -> None:
    a, b = ta.compute((5,), lambda i: (X[i] * 2.0, X[i] * 3.0), name="pair")
    y = ta.compute((5,), lambda i: a[i] + b[i], name="sum")
    given = {a: lambda t, deps, head: head}
    close(value(ta.vjp(y, X, 1.0, override=given)[0]), np.full(5, 4.0))
    close(value(ta.jvp(y, {X: 1.0}, override=given)), np.full(5, 4.0))


CASES = Refusals()


@CASES.refused(
    ta.errors.GradError,
    "override names the input X; it holds rules for computed tensors.",
    "  hint: name the tensor whose derivative by the tensors behind it is to be replaced.",
)
def a_rule_for_an_input() -> None:
    ta.vjp(Y, X, override={X: straight_through})


@CASES.refused(
    ta.errors.GradError,
    "override must be a dict from tensors to rules, got list.",
    "  hint: write override={T: lambda t, deps, head: [adjoint of each dep]}.",
)
def rules_in_a_list() -> None:
    ta.jvp(Y, {X: 1.0}, override=[Z])  # type: ignore[call-overload]


@CASES.refused(
    ta.errors.GradError,
    "the rule given for Z is no function but float.",
    "  hint: give rule(t, deps, head) -> adjoints, a pair (deps, rule), or a DerivativeRule.",
)
def a_number_as_rule() -> None:
    ta.vjp(Y, X, override={Z: 1.0})  # type: ignore[dict-item]


@CASES.refused(
    ta.errors.GradError,
    "the rule given for Z flows to a tensor that depends on Z.",
    "  hint: name tensors behind it.",
)
def a_rule_that_flows_forward() -> None:
    ta.vjp(Y, X, override={Z: ([Y], straight_through)})


@CASES.refused(
    ta.errors.GradError,
    "the rule given for Z names no list of tensors to flow to.",
    "  hint: write override={T: ([X, W], rule)}.",
)
def a_rule_for_names() -> None:
    ta.vjp(Y, X, override={Z: ("X", straight_through)})  # type: ignore[dict-item]


@CASES.refused(
    ta.errors.GradError,
    "the rule given for Z flows to I of dtype int64.",
    "  hint: integers and booleans have no derivative: leave it out.",
)
def a_rule_for_an_integer() -> None:
    index = ta.placeholder((3,), "int64", name="I")
    ta.vjp(Y, X, override={Z: ([index], straight_through)})


@CASES.refused(
    ta.errors.GradError,
    "the rule given for Z must return 2 adjoints, got 1.",
    "  in: Z by W, X",
    "  hint: return a list with one adjoint per tensor; None is zero.",
)
def too_few_adjoints() -> None:
    ta.vjp(Y, X, 1.0, override={Z: straight_through})


@CASES.refused(
    ta.errors.ShapeError,
    "the rule given for Z returned shape (7,) as adjoint of X; it must be (5,).",
    "  hint: extra leading axes of the head lead every adjoint.",
)
def an_adjoint_of_another_shape() -> None:
    ta.vjp(Y, X, 1.0, override={Z: ([X], lambda t, deps, head: head)})


@CASES.refused(
    ta.errors.GradError,
    "the rule given for Z returned ndarray as adjoint of X.",
    "  hint: return tensors: topi and compute make them.",
)
def an_array_as_adjoint() -> None:
    ta.vjp(Y, X, 1.0, override={Z: ([X], lambda t, deps, head: [np.ones(5)])})


@CASES.refused(
    ta.errors.DTypeError,
    "the rule given for Z returned dtype int32 as adjoint of X.",
    "  hint: convert it: .astype('float32').",
)
def an_integer_adjoint() -> None:
    rows = ta.placeholder((5,), "int32")
    ta.vjp(Y, X, 1.0, override={Z: ([X], lambda t, deps, head: [rows])})


@CASES.refused(
    ta.errors.GradError,
    "the vjp given for Z is not linear, so it has no transpose.",
    "  hint: a rule multiplies its head (or tangents) by values that do not depend on it; "
    "or give both vjp and jvp: DerivativeRule(deps, vjp=..., jvp=...).",
)
def a_rule_that_is_not_linear() -> None:
    ta.jvp(
        Y, {X: 1.0}, override={Z: ([X], lambda t, deps, head: [topi.tensordot(head * head, W, 1)])}
    )


@CASES.refused(
    ta.errors.GradError,
    "'backward' is no mode.",
    '  hint: use mode="reverse", "forward" or None.',
)
def an_unknown_mode() -> None:
    ta.jacobian(Y, X, mode="backward")


@CASES.refused(
    ta.errors.GradError,
    "hvp by 2 tensors needs 2 vectors, got 1.",
    "  hint: pass a list with one vector per tensor.",
)
def too_few_vectors() -> None:
    ta.hvp(S, [X, W], [1.0])


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.attempt.__name__)
def test_refusals(case: Any) -> None:
    check(case)


# Orders


def test_hessians_are_symmetric_and_the_same_in_every_mode() -> None:
    found = [value(ta.hessian(S, X, mode=m)) for m in ("forward", "reverse", None)]
    for h in found:
        close(h, found[0].T)
    (xx, xw), (wx, ww) = ta.hessian(S, [X, W])
    close(value(xx), found[0])
    close(value(xw), np.moveaxis(value(wx), 2, 0))
    full = value(ww).reshape(35, 35)
    close(full, full.T)


def test_second_derivatives_agree_in_every_order_of_modes() -> None:
    d, e = RNG.standard_normal(5), RNG.standard_normal(5)
    (g,) = ta.vjp(S, X)
    over = {
        "forward over reverse": ta.jvp(g, {X: d}),
        "reverse over reverse": ta.vjp(g, X, d)[0],
        "reverse over forward": ta.vjp(ta.jvp(S, {X: d}), X)[0],
        "hvp": ta.hvp(S, X, d),
    }
    expected = value(ta.hessian(S, X)) @ d
    for t in over.values():
        close(value(t), expected)
    close(value(ta.jvp(ta.jvp(S, {X: d}), {X: e})), e @ expected)


def test_hvp_by_several_tensors_and_vectors() -> None:
    d, e = RNG.standard_normal((2, 5)), RNG.standard_normal((2, 7, 5))
    along_x, along_w = ta.hvp(S, [X, W], [d, e])
    blocks = [[value(b) for b in row] for row in ta.hessian(S, [X, W])]
    close(value(along_x), d @ blocks[0][0] + np.einsum("ijk,ajk->ai", blocks[0][1], e))
    expected = np.einsum("jki,ai->ajk", blocks[1][0], d)
    close(value(along_w), expected + np.einsum("jklm,alm->ajk", blocks[1][1], e))


def test_third_and_fourth_derivatives() -> None:
    y = ta.compute((5,), lambda i: ta.sin(X[i]) * ta.exp(-2.0 * X[i]), name="wave")
    derivatives = [y]
    for _ in range(4):
        derivatives.append(ta.vjp(derivatives[-1], X, 1.0)[0])
    z = (1j - 2) ** np.arange(5)[:, None] * np.exp((1j - 2) * x)
    for t, expected in zip(derivatives, z.imag, strict=True):
        np.testing.assert_allclose(value(t), expected, rtol=1e-9)
    pushed = y
    for _ in range(3):
        pushed = ta.jvp(pushed, {X: 1.0})
    np.testing.assert_allclose(value(pushed), z.imag[3], rtol=1e-9)


def test_third_derivatives_of_a_network_are_differences_of_second_ones() -> None:
    third = ta.jacobian(ta.hessian(S, X), X)
    t = value(third)
    for order in ((0, 2, 1), (1, 0, 2), (2, 1, 0)):
        close(t, t.transpose(order))
    d, h = RNG.standard_normal(5), 1e-5
    hessian = ta.build(ta.hessian(S, X), [X, W])
    difference = (hessian(x + h * d, w) - hessian(x - h * d, w)) / (2 * h)
    np.testing.assert_allclose(t @ d, difference, rtol=1e-7, atol=1e-8)


# The limit of dense Jacobians


def test_a_large_jacobian_is_printed_but_not_stored() -> None:
    a = ta.placeholder((200,), name="A")
    y = ta.compute((300,), lambda i: a[i % 200] * a[i // 2], name="Y")
    j = ta.jacobian(y, a)
    assert j.shape == (300, 200)
    head = ta.compute((300,), lambda i: j[i, 0], name="column")
    with override(dense_jacobian_elements=59_999):
        with pytest.raises(LimitError) as caught:
            ta.build(j, [a])
        assert str(caught.value) == (
            "the Jacobian of Y of shape (300, 200) has 60,000 elements, more than the 59,999 of "
            "TENSORAD_DENSE_JACOBIAN_ELEMENTS.\n"
            "  in: dA : float32 (300, 200)\n"
            "  hint: ta.sparse_jacobian stores its nonzeros only; vjp and jvp multiply by it "
            "without storing it."
        )
        with pytest.raises(LimitError, match="the Jacobian of Y"):
            ta.build(head, [a])
        with pytest.raises(LimitError):
            ta.evaluate(ta.jacobian(y, a, mode="forward"), {a: np.ones(200, "float32")})
        ta.build(ta.vjp(y, a, 1.0)[0], [a])
    with override(dense_jacobian_elements=60_000):
        ta.build(j, [a])


def test_a_symbolic_jacobian_is_judged_when_it_is_called() -> None:
    n = ta.size("n")
    a = ta.placeholder((n,), name="A")
    y = ta.compute((n,), lambda i: a[i] * a[0], name="Y")
    f = ta.build(ta.jacobian(y, a), [a])
    with override(dense_jacobian_elements=100):
        assert f(np.ones(10, "float32")).shape == (10, 10)
        with pytest.raises(LimitError, match=r"the Jacobian of Y of shape \(11, 11\) has 121"):
            f(np.ones(11, "float32"))
