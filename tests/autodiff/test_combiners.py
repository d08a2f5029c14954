"""Reductions with any combiner: exact derivatives at the cost of a few forward passes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from benchmarks.suites import combiners
from benchmarks.workloads.combiner_cases import CASES, Case, coarse, program
from tensorad import te
from tensorad.bound import bound
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Scan, Tensor
from tensorad.ir.visit import topological_ops
from tests.support.dual_numbers import oracle

SIZES = (64, 128, 256, 512)
BY_NAME = {case.name: case for case in CASES}
NAMES = list(BY_NAME)
TOLERANCE = 1e-10


def draw(case: Case, n: int, seed: int = 0) -> tuple[list[np.ndarray], list[float]]:
    """Inputs and weights of the components."""
    rng = np.random.default_rng(seed)
    return [case.draw(rng, n) for _ in range(case.inputs)], list(rng.normal(size=9))[
        : len(case.looked_at)
    ]


def evaluate(tensors: list[Tensor], given: dict[Tensor, Any], compiled: bool) -> list[np.ndarray]:
    """The tensors by machine code or by the reference semantics."""
    if not compiled:
        return interpret(tensors, given)
    result = ta.evaluate(tensors, {t: np.asarray(a, dtype="float64") for t, a in given.items()})
    return result if isinstance(result, list) else [result]


def agree(found: np.ndarray, expected: np.ndarray, size: np.ndarray) -> bool:
    """Equal to 1e-10 of sum|terms|."""
    return bool(np.all(np.abs(found - expected) <= TOLERANCE * size))


def check_first(case: Case, n: int, compiled: bool) -> None:
    """Reverse and forward mode against the oracle."""
    inputs, weights = draw(case, n)
    p = program(case, n)
    gradients = ta.vjp(p.outputs, p.inputs, p.heads)
    directions = np.random.default_rng(1).normal(size=(case.inputs, n))
    moved = {x: te.placeholder((n,), dtype="float64", name=f"d{x.name}") for x in p.inputs}
    tangents = ta.jvp(p.outputs, moved)
    given = {
        **dict(zip(p.inputs, inputs, strict=True)),
        **dict(zip(p.heads, weights, strict=True)),
        **dict(zip(moved.values(), directions, strict=True)),
    }
    results = evaluate([*gradients, *tangents], given, compiled)
    found, forward = np.stack(results[: case.inputs]), results[case.inputs :]
    _, expected, size = oracle(case, inputs, weights)
    assert agree(found, expected, size), np.abs(found - expected).max()
    pushed = sum(w * float(t) for w, t in zip(weights, forward, strict=True))
    scale = float((size * np.abs(directions)).sum())
    assert abs(pushed - float((expected * directions).sum())) <= TOLERANCE * scale


def check_second(case: Case, n: int) -> None:
    """The derivative of <gradient, v> along u, against differences of gradients."""
    if case.draw is coarse:  # at ties the gradient jumps
        inputs, weights = (
            [np.random.default_rng(5).normal(size=n) for _ in range(case.inputs)],
            [1.0, -0.5][: len(case.looked_at)],
        )
    else:
        inputs, weights = draw(case, n)
    p = program(case, n)
    gradients = ta.vjp(p.outputs, p.inputs, p.heads)
    rng = np.random.default_rng(2)
    v, u = rng.normal(size=(2, case.inputs, n))
    heads = [te.placeholder((n,), dtype="float64", name=f"V{m}") for m in range(case.inputs)]
    second = ta.vjp(gradients, [*p.inputs, *p.heads], heads)
    values = [*inputs, *[np.asarray(w) for w in weights], *v]
    first = ta.build(gradients, [*p.inputs, *p.heads])
    found = ta.build(second, [*p.inputs, *p.heads, *heads])(*values)

    def shifted(step: float) -> float:
        moved = [a + step * b for a, b in zip(inputs, u, strict=True)]
        result = first(*moved, *values[case.inputs : case.inputs + len(weights)])
        parts = result if isinstance(result, list) else [result]
        return float(sum((g * w).sum() for g, w in zip(parts, v, strict=True)))

    step = 1e-4
    wide = (shifted(step) - shifted(-step)) / (2 * step)
    narrow = (shifted(step / 2) - shifted(-step / 2)) / step
    numeric = (4 * narrow - wide) / 3
    exact = float(sum((g * d).sum() for g, d in zip(found[: case.inputs], u, strict=True)))
    scale = 1.0 + sum(float(np.abs(g * d).sum()) for g, d in zip(found, u, strict=False))
    assert abs(exact - numeric) <= 1e-6 * scale
    by_weight = [float(g) for g in found[case.inputs :]]
    total = sum(a * w for a, w in zip(by_weight, weights, strict=True))
    assert abs(total - shifted(0.0)) <= 1e-9 * (1 + abs(total)), "gradients are linear in heads"


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", NAMES)
def test_first_derivatives(name: str) -> None:
    check_first(BY_NAME[name], 7, compiled=False)


@pytest.mark.parametrize("name", ["prod", "top two", "Welford", "quaternions", "sin(x) + y"])
def test_compiled_derivatives(name: str) -> None:
    check_first(BY_NAME[name], 33, compiled=True)


@pytest.mark.parametrize("name", ["prod", "online logsumexp", "affine composition"])
def test_second_derivatives(name: str) -> None:
    check_second(BY_NAME[name], 12)


@pytest.mark.slow
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_compiled_derivatives_of_all(name: str, n: int) -> None:
    check_first(BY_NAME[name], n, compiled=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_second_derivatives_of_all(name: str) -> None:
    check_second(BY_NAME[name], 64)


@pytest.mark.sampled(15)
@pytest.mark.parametrize("name", NAMES)
def test_work_is_linear(name: str) -> None:
    (row,) = [r for r in combiners.run([name]) if r.name == name]
    assert row.steady, "passes do not depend on the number of elements"
    assert row.first <= min(4, row.limit) and row.second <= 16


def test_the_table_shows_rules_that_are_broken() -> None:
    good = combiners.Row("good", 2.0, 5.0, 3.0, 1.0, True)
    bad = [replace(good, first=3.5), replace(good, second=17.0), replace(good, steady=False)]
    assert "breaks" not in combiners.table([good])
    assert all("breaks a rule" in combiners.table([row]) for row in bad)


# Zeros, ties, infinities and NaN


def gradient(name: str, values: list[float], compiled: bool = True) -> list[float]:
    """The gradient of the first component of a case with one input."""
    case, n = BY_NAME[name], len(values)
    p = program(case, n)
    (g,) = ta.vjp(p.outputs[0], p.inputs, 1.0)
    return evaluate([g], {p.inputs[0]: np.array(values)}, compiled)[0].tolist()


INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("prod", [2.0, 3.0, 4.0], [12.0, 8.0, 6.0]),
        ("prod", [2.0, 0.0, 3.0], [0.0, 6.0, 0.0]),
        ("prod", [0.0, 2.0, 0.0, 3.0], [0.0, 0.0, 0.0, 0.0]),
        ("max", [1.0, 3.0, 3.0, 2.0], [0.0, 1.0, 0.0, 0.0]),
        ("max", [-INF, -INF, -INF], [1.0, 0.0, 0.0]),
        ("max", [1.0, NAN, INF, NAN], [0.0, 1.0, 0.0, 0.0]),
        ("min", [INF, INF], [1.0, 0.0]),
        ("min", [2.0, 1.0, NAN], [0.0, 0.0, 1.0]),
        ("argmax pair", [-INF, 2.0, 2.0], [0.0, 1.0, 0.0]),
        ("max from zero", [-1.0, -2.0], [0.0, 0.0]),
        ("max from zero", [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]),
        ("absmax", [1.0, -3.0, 3.0], [0.0, 1.0, 0.0]),
        ("top two", [-INF, -INF, -INF], [1.0, 0.0, 0.0]),
        ("second largest", [5.0, 2.0, 3.0], [0.0, 0.0, 1.0]),
        ("second largest", [5.0, 5.0, 1.0], [1.0, 0.0, 0.0]),  # min(5, 5) is the left one
        ("logsumexp", [0.0, -INF, 0.0], [0.5, 0.0, 0.5]),
        ("sum", [INF, 1.0], [1.0, 1.0]),
        ("x + y + x*y", [-1.0, 2.0, -1.0], [0.0, 0.0, 0.0]),
    ],
)
def test_special_values(name: str, values: list[float], expected: list[float]) -> None:
    assert gradient(name, values) == expected
    assert gradient(name, values, compiled=False) == expected


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("name", ["prod", "max", "affine composition"])
def test_short_folds(name: str, n: int) -> None:
    check_first(BY_NAME[name], n, compiled=True)


def test_what_is_not_finite_stays_where_it_is() -> None:
    found = np.array(gradient("hypot", [0.0, 3.0, 4.0]))
    assert np.isnan(found[0]) and np.allclose(found[1:], [0.6, 0.8])


# Shapes of reductions


@pytest.mark.parametrize("reducer", [te.prod, te.max])
def test_folds_over_ragged_axes_keep_no_more_than_their_points(reducer: Any) -> None:
    x = te.placeholder((6, 6), dtype="float64", name="X")
    h = te.placeholder((6,), dtype="float64", name="H")
    k = te.reduce_axis(6, "k")
    y = te.compute((6,), lambda i: reducer(x[i, k], axis=k, where=k <= i), name="Y")
    (dx,) = ta.vjp(y, [x], h)
    a, b = np.random.default_rng(0).normal(size=(6, 6)), np.random.default_rng(1).normal(size=6)
    expected = np.zeros((6, 6))
    for i in range(6):
        row = a[i, : i + 1]
        if reducer is te.max:
            expected[i, np.argmax(row)] = b[i]
        else:
            expected[i, : i + 1] = [b[i] * np.delete(row, j).prod() for j in range(i + 1)]
    np.testing.assert_allclose(ta.evaluate(dx, {x: a, h: b}), expected, rtol=1e-12)
    assert ta.work(dx).iterations <= bound(y, [x])


@pytest.mark.slow
def test_windows_with_guards_stay_within_the_bound() -> None:
    for reducer in (te.prod, te.max, te.min):
        for kernel, stride, pad in [(2, 1, 1), (3, 2, 1), (2, 3, 0), (3, 1, 0), (1, 1, 0)]:
            x = te.placeholder((4, 5), dtype="float64", name="X")
            size = [(n + 2 * pad - kernel) // stride + 1 for n in x.shape]
            a, b = te.reduce_axis(kernel, "a"), te.reduce_axis(kernel, "b")

            def window(i: Any, j: Any, stride: int = stride, pad: int = pad) -> Any:
                p, q = i * stride + a - pad, j * stride + b - pad  # used at once
                inside = (p >= 0) & (p < 4) & (q >= 0) & (q < 5)
                return reducer(x[p, q], axis=[a, b], where=inside)

            y = te.compute(tuple(size), window, name="Y")
            h = te.placeholder(y.shape, dtype="float64", name="H")
            (dx,) = ta.vjp(y, [x], h)
            assert ta.work(dx).iterations <= bound(y, [x]), (reducer, kernel, stride, pad)
            if kernel + pad == 3:
                assert ta.gradcheck(y, [x])


def test_one_sweep_serves_all_components_of_a_tuple() -> None:
    p = program(BY_NAME["2x2 matrices"], 5)
    gradients = ta.vjp(p.outputs, p.inputs, p.heads)
    scans = [op for op in topological_ops(gradients) if isinstance(op, Scan)]
    assert len(scans) == 2
    assert {t.op for t in gradients} == {scans[1]}, "the sweep's own outputs, not copies"


def test_no_state_is_kept_that_no_partial_mentions() -> None:
    p = program(BY_NAME["decaying sum"], 5)
    gradients = ta.vjp(p.outputs, p.inputs, p.heads)
    assert [type(op).__name__ for op in topological_ops(gradients)] == ["Placeholder", "Scan"]


def test_jacobians_share_one_sweep_between_heads() -> None:
    x = te.placeholder((4, 6), dtype="float64", name="X")
    k = te.reduce_axis(6, "k")
    y = te.compute((4,), lambda i: te.prod(x[i, k], axis=k), name="Y")
    j = ta.jacobian(y, x)
    assert ta.work(j).iterations <= 2 * 24 + 4 * 24
    a = np.random.default_rng(3).normal(size=(4, 6))
    expected = np.zeros((4, 4, 6))
    for i in range(4):
        expected[i, i] = [np.delete(a[i], c).prod() for c in range(6)]
    np.testing.assert_allclose(ta.evaluate(j, {x: a}), expected)


def test_states_are_stored_as_the_folded_tensor_is() -> None:
    x = te.placeholder((6, 4), dtype="float64", name="X")
    h = te.placeholder((4,), dtype="float64", name="H")
    k = te.reduce_axis(6, "k")
    y = te.compute((4,), lambda i: te.prod(x[k, i], axis=k), name="Y")
    (dx,) = ta.vjp(y, [x], h)
    assert ta.work(dx).iterations == 2 * 24
    a, b = np.random.default_rng(3).normal(size=(6, 4)), np.arange(1.0, 5.0)
    expected = [[b[i] * np.delete(a[:, i], c).prod() for i in range(4)] for c in range(6)]
    np.testing.assert_allclose(ta.evaluate(dx, {x: a, h: b}), expected)


@pytest.mark.parametrize("reducer", [te.max, te.prod, te.logsumexp])
def test_reductions_of_nothing_pass_nothing_on(reducer: Any) -> None:
    x = te.placeholder((3,), "float64", name="X")
    k = te.reduce_axis(0, name="k")
    y = te.compute((5,), lambda i: te.tanh(te.maximum(reducer(x[k], axis=k), -3.0)))
    (dx,) = ta.vjp(y, [x], te.placeholder((5,), "float64", name="H"))
    assert ta.work(dx).iterations == 3
    assert interpret(dx, {x: np.ones(3)}).tolist() == [0, 0, 0]


def test_a_component_that_does_not_move_has_no_adjoint() -> None:
    """Welford's count depends on no element: the gradient does without its share."""
    x, k = te.placeholder((6,), "float64", name="X"), te.reduce_axis(6, name="k")

    def combine(x: Any, y: Any) -> Any:
        total = x[1] + y[1]
        return x[0] + (y[0] - x[0]) * y[1] / te.maximum(total, 1.0), total

    welford = ta.comm_reducer(combine, lambda *_: (0.0, 0.0), name="welford")
    mean, count = te.compute((), lambda: welford((x[k], 1.0), axis=k), name="M")
    y = te.compute((), lambda: count[()] / (mean[()] * mean[()] + 1.0), name="Y")
    (dx,) = ta.vjp(y, [x])
    assert "dM.1" not in ta.PrintTensorRecursively(dx)
    assert ta.work(dx).iterations <= bound(y, [x])
    assert ta.gradcheck(y, x)


def test_a_tuple_of_two_folds_with_one_combiner() -> None:
    x, k = te.placeholder((3, 4), "float64", name="X"), te.reduce_axis(4, name="k")
    horner = ta.comm_reducer(lambda a, b: a * 0.5 + b, lambda t: 0.0, name="horner")

    def folded(i: Any) -> Any:
        return horner(x[i, k], axis=k), horner(x[i, k] * x[i, k], axis=k)

    for y in te.compute((3,), folded, name="T"):
        assert ta.gradcheck(y, x, order=2)


def test_each_component_of_a_fold_has_a_gradient_of_its_own() -> None:
    x, k = te.placeholder((3,), "float64", name="X"), te.reduce_axis(3, name="k")

    def combine(x: Any, y: Any) -> Any:
        return x[0] * y[0], x[1] * 0.5 + y[1]

    pair = ta.comm_reducer(combine, lambda *_: (1.0, 0.0), name="pair")
    product, decayed = te.compute((), lambda: pair((x[k], x[k]), axis=k), name="P")
    given = {x: np.array([4.0, 1.0, 2.5])}
    np.testing.assert_array_equal(ta.evaluate(ta.vjp(product, [x])[0], given), [2.5, 10.0, 4.0])
    np.testing.assert_array_equal(ta.evaluate(ta.vjp(decayed, [x])[0], given), [0.25, 0.5, 1.0])
