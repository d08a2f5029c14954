"""The fork's names: each does what it did, through this library's functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.ir.tensor import Compute, Tensor
from tests.support.refusals import Case, Refusals, check

RNG = np.random.default_rng(3)
X = ta.placeholder((4,), name="X", dtype="float64")
W = ta.placeholder((3, 4), name="W", dtype="float64")
K = ta.reduce_axis(4, name="k")
Z = ta.compute((3,), lambda i: ta.sum(W[i, K] * X[K], axis=K), name="Z")
Y = ta.compute((3,), lambda i: ta.tanh(Z[i]) * X[i] + Z[i], name="Y")
H = ta.placeholder((3,), name="H", dtype="float64")
x, w, h = RNG.standard_normal(4), RNG.standard_normal((3, 4)), RNG.standard_normal(3)
BOUND = {X: x, W: w, H: h}


def value(t: Tensor) -> Any:
    return ta.evaluate(t, dict(BOUND))


def close(a: Any, b: Any) -> None:
    np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


def test_differentiate_gives_results_adjoints_and_summands() -> None:
    found = ta.differentiate(Y, [X, W], H)
    dx, dw = found
    assert len(found) == 2 and found[0] is dx and found.result == [dx, dw]
    expected = ta.vjp(Y, [X, W], H)
    close(value(dx), value(expected[0]))
    close(value(dw), value(expected[1]))
    assert set(found.adjoints) == {X, W, Z, Y}
    close(value(found.adjoints[Y]), h)
    close(value(found.adjoints[X]), value(dx))
    parts = found.adjoint_summands
    assert list(parts[X]) == [Y, Z] and list(parts[Z]) == [Y] and parts[Y] == {}
    close(value(parts[X][Y]) + value(parts[X][Z]), value(dx))
    t = np.tanh(w @ x)
    close(value(parts[X][Y]), [*(h * t), 0.0])
    close(value(parts[Z][Y]), h * ((1 - t * t) * x[:3] + 1))


def test_differentiate_without_inputs_has_adjoints_only() -> None:
    found = ta.differentiate(Y, head=H)
    assert found.result == []
    for attempt in (lambda: len(found), lambda: list(found), lambda: found[0]):
        with pytest.raises(ValueError, match="called without inputs"):
            attempt()
    close(value(found.adjoints[W]), value(ta.vjp(Y, W, H)[0]))


def test_differentiate_takes_overrides_and_local_rules() -> None:
    def halved(t: Tensor, deps: list[Tensor], head: Tensor) -> list[Tensor]:
        return [ta.compute((4,), lambda k: ta.sum(head[I] * W[I, k], axis=I) * 0.5, name="half")]

    (dx,) = ta.differentiate(Y, [X], H, override={Z: ([X], halved)})
    full = ta.differentiate(Y, [X], H).adjoint_summands[X]
    close(value(dx), value(full[Y]) + 0.5 * value(full[Z]))
    asked: list[tuple[str, str]] = []

    def local(output: Tensor, input: Tensor, head: Tensor) -> Tensor:
        asked.append((output.name, input.name))
        return ta.DiffBuildingBlock(output, input, head)

    (dx,) = ta.differentiate(Y, [X], H, fdiff=local)
    close(value(dx), value(ta.vjp(Y, X, H)[0]))
    assert asked == [("Y", "Z"), ("Y", "X"), ("Z", "W"), ("Z", "X")]


I = ta.reduce_axis(3, name="i")  # noqa: E741  # the index of rows


def test_the_jacobian_of_a_scalar_is_its_gradient() -> None:
    s = ta.compute((), lambda: ta.sum(X[K] * X[K], axis=K), name="S")
    (dx,) = ta.differentiate(s, [X])
    close(value(dx), 2 * x)
    (full,) = ta.differentiate(Y, [X])
    assert full.shape == (3, 4)


def test_derivative_of_a_scalar_expression() -> None:
    i = ta.reduce_axis(4, name="i")
    e = ta.exp(X[i]) * X[i] + X[3 - i]
    assert str(ta.Derivative(e, X[i])) == "exp(X[i]) + X[i]*exp(X[i])"
    assert str(ta.Derivative(e, X[3 - i])) == "1.0"
    assert str(ta.Derivative(e, X[0])) == "0.0"
    bent = ta.select(X[i] > 0, X[i] * 2.0, 1.0)
    assert str(ta.Derivative(bent, X[i])) == "select(X[i] > 0.0, 2.0, 0.0)"


def test_unused_axes_are_dropped_through_the_program() -> None:
    wide = ta.compute((5, 4, 6), lambda a, b, c: X[b] * 2.0, name="wide")
    wider = ta.compute((5, 7, 4), lambda a, b, c: wide[a, c, 1] + 1.0, name="wider")
    y = ta.compute((7, 4), lambda i, j: wider[i // 2, i, j] * X[j], name="Y")
    made = ta.RemoveUnusedDimsRecursively(y)
    assert made.shape == (7, 4)
    close(value(made), value(y))
    text = ta.PrintTensorRecursively(made)
    assert "tensor wider : float64 [4]" in text and "tensor wide : float64 [4]" in text
    assert ta.RemoveUnusedDimsRecursively([Y, Z]) == [Y, Z]
    fixed = ta.RemoveUnusedDimsRecursively([y, wide])
    assert fixed[1] is wide


def test_unused_axes_are_dropped_before_scatters_and_scans() -> None:
    wide = ta.compute((4, 6), lambda b, c: X[b] * 2.0, name="wide")
    start = ta.compute((2,), lambda i: 1.0 * X[0], name="start")
    spread = ta.scatter(2, 4, lambda p: (p % 2, wide[p, p]), init=start, name="spread")
    running = ta.scan(spread, 0, "sum", name="running")
    made = ta.RemoveUnusedDimsRecursively(running)
    close(value(made), value(running))
    text = ta.PrintTensorRecursively(made)
    assert "tensor wide : float64 [4]" in text
    assert "tensor start : float64 [2]" in text


def test_tensors_are_inlined() -> None:
    a = ta.compute((4,), lambda i: X[i] + 1.0, name="a")
    b = ta.compute((4,), lambda i: a[i] * a[3 - i], name="b")
    tail = ta.compute((2, 2), lambda i, j: b[i * 2 + j], name="tail")
    whole = ta.InlineTensors(tail)
    assert str(whole).endswith("(X[i*2 + j] + 1.0)*(X[3 - (i*2 + j)] + 1.0)")
    close(value(whole), value(tail))
    only_b = ta.InlineTensors(tail, [b])
    assert str(only_b).endswith("a[i*2 + j]*a[3 - (i*2 + j)]")
    assert ta.InlineTensors(X) is X
    called = ta.InlineTailCall(tail)
    assert str(called).endswith("a[i*2 + j]*a[3 - (i*2 + j)]")
    assert ta.InlineTailCall(b) is b and ta.InlineTailCall(X) is X
    kept = ta.InlineTensors(Y)
    assert "Z[i]" in str(kept)
    inside = ta.InlineTensors(Y, inline_reductions=True)
    assert isinstance(inside.op, Compute) and "sum(W[i, k]*X[k]" in str(inside)
    close(value(inside), value(Y))


def test_performance_is_counted() -> None:
    estimate = ta.estimate_performance(Z)
    assert estimate == ta.PerformanceEstimate(iterations=12, multiplications=12, memory=3)
    assert estimate.as_tuple() == (12, 12, 3)
    n = ta.size("n")
    a = ta.placeholder((n,), name="A")
    y = ta.compute((n,), lambda i: a[i] * 2.0, name="Y")
    assert ta.estimate_performance([y], {"n": 5}).as_tuple() == (5, 5, 5)


def test_numerical_gradients_of_any_function() -> None:
    f = ta.build(Y, [X, W])
    dx, dw = (value(t) for t in ta.vjp(Y, [X, W], 1.0))
    ta.check_numerical_grads(f, [x, w], [dx, dw], delta=1e-5, atol=1e-8, rtol=1e-8)
    dw[2, 1] += 0.1
    with pytest.raises(ta.errors.GradError, match=r"gradient 1\[2, 1\] is .*, but the difference"):
        ta.check_numerical_grads(f, [x, w], [dx, dw], delta=1e-5, atol=1e-8, rtol=1e-8)


CASES = Refusals()


@CASES.refused(
    ta.errors.GradError,
    "Y does not read W directly.",
    "  in: Y reads Z, X",
    "  hint: use vjp, which goes through intermediate tensors.",
)
def a_block_by_a_stranger() -> None:
    ta.DiffBuildingBlock(Y, W, H)


@CASES.refused(
    ta.errors.GradError,
    "Derivative takes a float expression and a leaf of it, got X[0]*2.0 by X[0] + 1.0.",
    "  hint: e.g. Derivative(ta.exp(X[i]) * 2, X[i]).",
)
def a_derivative_by_a_sum() -> None:
    ta.Derivative(X[0] * 2.0, X[0] + 1.0)


@CASES.refused(
    ta.errors.GradError,
    "Derivative works on expressions without reductions.",
    "  in: sum(X[k], axes (k : [0, 3]))",
    "  hint: define a tensor with compute and use jacobian or vjp.",
)
def a_derivative_of_a_sum() -> None:
    ta.Derivative(ta.sum(X[K], axis=K), X[0])


@CASES.refused(
    ta.errors.DefinitionError,
    "1 inputs have 2 gradients.",
    "  hint: pass one gradient per input.",
)
def too_many_gradients() -> None:
    ta.check_numerical_grads(np.sin, [x], [x, x])


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.attempt.__name__)
def test_refusals(case: Case) -> None:
    check(case)
