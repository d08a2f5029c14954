"""Demands of nGraph (S001), PyTorch (S002), Relay (S004); what others lack (T) or get wrong (W)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import topi
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.lower import lower_program
from tensorad.errors import UserError
from tensorad.ir.text.parser import parse_program
from tensorad.ir.visit import op_inputs
from tests.seeds.support.differences import check_gradient

RNG = np.random.default_rng(0)


def newton(a: Any) -> Any:
    """The square root, by as many steps as it takes."""
    return ta.while_loop(lambda x: abs(x * x - a) > 1e-13 * a, lambda x: (x + a / x) * 0.5, a)


def test_s001_09_parameters_by_each_other_are_identity_and_zero() -> None:
    x, y = np.arange(3.0), np.arange(2.0)
    by_x, by_y = ta.jacobian(lambda x, y: x, argnums=(0, 1))(x, y)
    assert (by_x == np.eye(3)).all() and (by_y == 0).all() and by_y.shape == (3, 2)
    a, b = (ta.placeholder((n,), "float64", name="p") for n in (3, 2))
    for found in (ta.jacobian(a, a), ta.jacobian(a, b)):
        assert not op_inputs(found.op), "by structure: nothing is read"


def test_s001_13_adjoints_of_the_polynomial() -> None:
    def f(a: Any, b: Any, c: Any, x: Any) -> Any:
        t10, t11 = x * x, b * x
        t20, t21 = a * t10, t11 + c
        return t20 + t21

    at = [np.float64(v) for v in (2.0, 3.0, 5.0, 7.0)]
    found = ta.grad(f, argnums=(0, 1, 2, 3))(*at)
    assert [float(v) for v in found] == [49.0, 7.0, 1.0, 2 * 2 * 7 + 3]
    for a, b, c, x in RNG.standard_normal((5, 4)):
        found = ta.grad(f, argnums=(0, 1, 2, 3))(a, b, c, x)
        np.testing.assert_allclose(found, [x * x, x, 1.0, 2 * a * x + b], rtol=1e-13)


def test_s001_24_rules_that_were_wrong_there() -> None:
    def entropy(y: Any, t: Any) -> Any:
        return -(t * ta.log(y) + (1.0 - t) * ta.log(1.0 - y)).sum()

    y, t = RNG.uniform(0.2, 0.8, 4), RNG.uniform(0.2, 0.8, 4)
    np.testing.assert_allclose(ta.grad(entropy, argnums=1)(y, t), np.log(1 - y) - np.log(y))
    zero = np.array([0.0, 2.0])
    assert (ta.grad(lambda x: (x / np.array([4.0, 4.0])).sum())(zero) == 0.25).all()
    assert (ta.grad(lambda y: (zero / y).sum())(np.array([4.0, 4.0])) == [0.0, -0.125]).all()
    assert (ta.grad(lambda x: (x**2).sum())(zero) == [0.0, 4.0]).all()
    powers = ta.grad(lambda x, y: topi.power(x, y).sum(), argnums=(0, 1))(zero, zero + 3.0)
    np.testing.assert_allclose(powers, [[0.0, 80.0], [0.0, 32 * np.log(2)]])
    assert not ta.grad(lambda x, y: x.sum(), argnums=1)(zero, zero).any(), "zeros, if asked for"
    tied = np.array([3.0, 3.0, 1.0])
    assert ta.grad(lambda x: x.max())(tied).tolist() == [1.0, 0.0, 0.0]
    assert ta.grad(lambda x: topi.maximum(x, tied).sum())(tied).tolist() == [1.0, 1.0, 1.0]


def test_s002_23_complex_arrays_are_refused_and_pairs_are_right() -> None:
    def squared(re: Any, im: Any) -> Any:
        return re * re - im * im, 2.0 * re * im

    z = 1.5 - 0.5j
    out, tangents = ta.jvp(
        squared, (np.float64(z.real), np.float64(z.imag)), (np.float64(1), np.float64(0))
    )
    assert complex(*map(float, out)) == z * z and complex(*map(float, tangents)) == 2 * z
    with pytest.raises(UserError):
        ta.function(lambda x: x * x)(np.array([z]))


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "f",
    [
        lambda x: ta.sqrt(x), lambda x: abs(x), lambda x: topi.nn.relu(x),
        lambda x: topi.maximum(x, 0.0), lambda x: topi.minimum(x, 0.0), lambda x: x**2,
        lambda x: ta.select(x > 0, ta.log(x), 0.0), lambda x: ta.sign(x),
        lambda x: ta.select(x > 0, ta.sqrt(x), x), lambda x: topi.clip(x, 0.0, 1.0),
        lambda x: ta.select(x > 0, ta.function(ta.log)(x), 0.0),
        lambda x: ta.select(x > 0, ta.cond(x.sum() < 1.0, ta.sqrt, abs, x), x),
        lambda x: ta.select(x > 0, ta.for_loop(0, 3, lambda t, c: 1.0 / c, x), x),
        lambda x: ta.select(x > 0, ta.function(lambda y: y * 2.0)(ta.sqrt(x)), 0.0),
    ],
)  # fmt: skip
def test_s002_33_both_modes_agree_at_kinks_and_poles(f: Any) -> None:
    x = np.zeros(3)
    (_, forward) = ta.jvp(f, (x,), (np.ones(3),))
    reverse = ta.grad(lambda x: f(x).sum())(x)
    np.testing.assert_array_equal(forward, reverse)


def test_s004_01_an_update_is_assembled_from_functions() -> None:
    network = ta.function(lambda w, x: ta.tanh(x @ w))
    loss = ta.function(lambda w, x, y: ((network(w, x) - y) ** 2).mean())

    @ta.function
    def update(w: Any, x: Any, y: Any) -> Any:
        return w - 0.1 * ta.grad(loss)(w, x, y)

    w, x, y = RNG.standard_normal((3, 2)), RNG.standard_normal((5, 3)), np.zeros((5, 2))
    h = np.tanh(x @ w)
    expected = w - 0.1 * x.T @ (2 * h / h.size * (1 - h * h))
    np.testing.assert_allclose(update(w, x, y), expected, rtol=1e-12)
    trace = update.trace(w, x, y)
    whole = parse_program(str(trace))
    assert str(whole) == str(trace) and "call" in str(whole)
    given = [t for _, t in whole[trace.name].params]
    found = ta.interpret(whole[trace.name].results, dict(zip(given, (w, x, y), strict=True)))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.slow
def test_s004_05_control_flow_that_data_decide() -> None:
    def f(x: Any, n: Any) -> Any:
        def step(t: Any, c: Any) -> Any:
            inner = ta.while_loop(lambda v: (v * v).sum() > 1.0, lambda v: v * 0.7, c)
            c = ta.switch(t % 3, [lambda: inner + x, lambda: inner * x, lambda: ta.sin(inner)])
            last, every = ta.scan(lambda s, e: (s * 0.5 + e, s * e), x.sum(), c)
            return ta.cond(c[0] > 0.3, lambda: c * last, lambda: c - every)

        return ta.for_loop(0, n, step, x).sum()

    x = RNG.standard_normal(3) * 2
    for n in (0, 4):
        check_gradient(lambda x, n=n: f(x, n), x)
    hessian = ta.hessian(lambda x: f(x, 4))(x)
    h = 1e-6
    slope = ta.grad(lambda x: f(x, 4))
    columns = [(slope(x + h * e) - slope(x - h * e)) / (2 * h) for e in np.eye(3)]
    np.testing.assert_allclose(hessian, np.stack(columns, 1), rtol=1e-5, atol=1e-6)
    e = RNG.standard_normal(3)
    moved = ta.jvp(slope, (x,), (e,))[1]
    back = ta.grad(lambda x: ta.jvp(lambda x: f(x, 4), (x,), (e,))[1])(x)
    for found in (moved, back):
        np.testing.assert_allclose(found, hessian @ e, rtol=1e-9, atol=1e-11)


def test_s004_32_one_trace_runs_any_number_of_iterations() -> None:
    traces = []

    @ta.function
    def power(x: Any, n: Any) -> Any:
        traces.append(n)
        return ta.for_loop(0, n, lambda t, c: c * x, x * 0.0 + 1.0)

    for n in (0, 1, 7, 1000):
        np.testing.assert_allclose(power(np.float64(1.001), np.int64(n)), 1.001**n, rtol=1e-12)
    assert len(traces) == 1


def test_t_01_adjoint_programs_are_printed_parsed_and_run() -> None:
    def f(x: Any) -> Any:
        return ta.for_loop(0, 3, lambda t, c: ta.sin(c) * x, x).sum()

    x = RNG.standard_normal(4)
    trace = ta.value_and_grad(f).trace(x)
    program = parse_program(str(trace))
    assert str(program) == str(trace)
    again = program[trace.name]
    (leaf,) = [t for _, t in again.params]
    found = ta.interpret(list(again.results), {leaf: x})
    for a, b in zip(found, ta.value_and_grad(f)(x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_t_02_cotangents_have_any_structure() -> None:
    def f(x: Any) -> Any:
        return {"double": x * 2.0, "rest": (x * x, x.sum())}

    x, c = np.arange(3.0), np.array([1.0, 10.0, 100.0])
    _, pullback = ta.vjp(f, x)
    (found,) = pullback({"double": c, "rest": (c, np.float64(5.0))})
    np.testing.assert_allclose(found, 2 * c + 2 * x * c + 5)


@pytest.mark.slow
def test_t_06_reverse_goes_through_a_while_that_data_end() -> None:
    first = ta.grad(newton)
    second, third = ta.grad(first), ta.grad(ta.grad(first))
    along = ta.function(lambda a: ta.jvp(newton, (a,), (1.0,))[1])
    for a in (np.float64(2.0), np.float64(9.0), np.float64(0.3)):
        np.testing.assert_allclose(newton_value(a), a**0.5, rtol=1e-12)
        np.testing.assert_allclose(first(a), 0.5 * a**-0.5, rtol=1e-12)
        np.testing.assert_allclose(second(a), -0.25 * a**-1.5, rtol=1e-11)
        np.testing.assert_allclose(third(a), 0.375 * a**-2.5, rtol=1e-10)
        _, ahead = ta.jvp(newton, (a,), (1.0,))
        _, mixed = ta.jvp(first, (a,), (1.0,))
        _, twice = ta.jvp(along, (a,), (1.0,))
        np.testing.assert_allclose(ahead, 0.5 * a**-0.5, rtol=1e-12)
        np.testing.assert_allclose([mixed, twice], [-0.25 * a**-1.5] * 2, rtol=1e-11)


newton_value = ta.function(newton)


@pytest.mark.slow
def test_t_09_the_root_of_10000_steps_is_stored() -> None:
    steps, n = 10_000, 64

    def f(way: dict[str, Any]) -> Any:
        def g(x: Any, w: Any) -> Any:
            h = ta.for_loop(0, steps, lambda t, h: ta.tanh(w * h + h * 0.9), x, **way)
            return (h * h).sum()

        return ta.function(ta.value_and_grad(g, (0, 1)))

    x, w = RNG.normal(size=n), RNG.normal(size=n)

    def same(one: Any, two: Any) -> bool:
        pairs = zip((one[0], *one[1]), (two[0], *two[1]), strict=True)
        return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)

    plain = f({})(x, w)
    assert f({}).memory(x, w).temporaries > steps * n * 8
    for way in ({"checkpoint": "sqrt"}, {"memory": 100 * n * 8}):
        again = f(way)
        assert same(again(x, w), plain) and same(again(x, w), plain)
        assert again.memory(x, w).peak <= 3 * 100 * n * 8, way


def test_t_10_index_formulas_differentiate_by_themselves() -> None:
    def f(x: Any, w: Any) -> Any:
        k = ta.reduce_axis(3, name="k")
        y = ta.compute((6,), lambda i: ta.max(x[i + k] + w[(i * k) % 3], axis=k), name="y")
        return (y * y).sum()

    check_gradient(f, RNG.standard_normal(8), RNG.standard_normal(3))


def test_w_01_calls_of_other_functions_have_derivatives() -> None:
    inner = ta.function(lambda x: ta.exp(x).sum())
    x = RNG.standard_normal(4)
    np.testing.assert_allclose(ta.grad(lambda x: inner(x) * 2.0)(x), 2 * np.exp(x), rtol=1e-12)


def test_w_02_broadcasting_select_and_filled_tensors() -> None:
    def f(c: Any, row: Any, fill: Any) -> Any:
        full = ta.compute((4, 3), lambda i, j: fill(), name="full")
        return (ta.select(c > 0, row, full) * np.arange(12.0).reshape(4, 3)).sum()

    c, row = RNG.standard_normal((4, 1)), RNG.standard_normal(3)
    found = ta.grad(f, argnums=(1, 2))(c, row, np.float64(0.5))
    weights = np.arange(12.0).reshape(4, 3)
    np.testing.assert_allclose(found[0], (weights * (c > 0)).sum(0))
    np.testing.assert_allclose(found[1], (weights * (c <= 0)).sum())


def test_w_03_integers_have_no_adjoint() -> None:
    with pytest.raises(UserError):
        ta.grad(lambda n: (n * 2).sum())(np.arange(3))


def test_w_04_a_value_from_before_a_loop_is_used_after_it() -> None:
    def f(x: Any, n: Any) -> Any:
        before = x * x
        out = ta.for_loop(0, n, lambda t, c: ta.for_loop(0, n, lambda u, d: d + x, c), x)
        ended = ta.while_loop(lambda v: (v * v).sum() > 1.0, lambda v: v * 0.5, out)
        return (ended + before).sum()

    for n in (0, 3):
        check_gradient(lambda x, n=n: f(x, n), RNG.standard_normal(3))


def test_w_05_several_layers_in_one_scan() -> None:
    def stacked(weights: Any, x: Any) -> Any:
        def layers(h: Any, w: Any) -> Any:
            h = ta.tanh(h @ w[0])
            return ta.tanh(h @ w[1]), h

        last, every = ta.scan(layers, x, weights)
        return last.sum() + every.sum()

    def unrolled(weights: Any, x: Any) -> Any:
        total: Any = 0.0
        for t in range(4):
            h = ta.tanh(x @ weights[t][0])
            x, total = ta.tanh(h @ weights[t][1]), total + h.sum()
        return x.sum() + total

    weights, x = RNG.standard_normal((4, 2, 3, 3)), RNG.standard_normal(3)
    for a, b in zip(
        ta.grad(stacked, argnums=(0, 1))(weights, x),
        ta.grad(unrolled, argnums=(0, 1))(weights, x),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_w_06_a_carry_that_is_updated_by_parts_takes_constant_work_per_step() -> None:
    def f(x: Any) -> Any:
        n = x.shape[0]
        return ta.for_loop(1, n, lambda t, y: y.at[t].set(ta.sin(y[t - 1]) + x[t]), x).sum()

    check_gradient(f, RNG.standard_normal(6))
    visits = []
    for n in (10, 20, 40):
        trace = ta.value_and_grad(f).trace(np.zeros(n))
        program = lower_program(list(trace.results), list(trace.parameters), schedule=False)
        visits.append(interpret_loops(program, {trace.parameters[0]: np.zeros(n)})[1])
    assert visits[2] - visits[1] == 2 * (visits[1] - visits[0])


def test_w_08_guarded_logarithms() -> None:
    def f(x: Any) -> Any:
        return ta.select(x > 0, ta.log(x), 0.0)

    x = np.array([-1.0, 0.0, 2.0])
    expected = [0.0, 0.0, 0.5]
    assert ta.grad(lambda x: f(x).sum())(x).tolist() == expected
    assert ta.jvp(f, (x,), (np.ones(3),))[1].tolist() == expected


def test_w_11_probabilities_of_both_signs() -> None:
    def entropy(z: Any, t: Any) -> Any:
        return -(t * topi.nn.log_softmax(z)).sum()

    z, t = RNG.standard_normal(5), np.eye(5)[2]
    p = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
    np.testing.assert_allclose(ta.grad(entropy)(z, t), p - t, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ta.grad(entropy, argnums=1)(z, t), -np.log(p), rtol=1e-9)
