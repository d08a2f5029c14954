"""Intermediates that provably do not matter: proofs, and what is not proved."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tensorad import te, topi
from tensorad.autodiff import vjp
from tensorad.autodiff.adjoints.shifts import Shifts
from tensorad.checking import gradcheck
from tensorad.counting import work
from tensorad.ir.expr import TRUE, Axis, Expr, axis, call, logical_and, size_var
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import topological_ops
from tensorad.simplify.formula.indicators import indicator, least_value
from tensorad.simplify.formula.laurent import Ring, Sum, constant, rational
from tensorad.simplify.formula.zero_test import vanishes
from tensorad.simplify.index.linear import linear_form

Program = Callable[[Tensor], Tensor]
N, M = 4, 6


def matrix(*shape: int, name: str = "X") -> Tensor:
    return te.placeholder(shape or (N, M), dtype="float64", name=name)


def along(f: Callable[[Expr], Expr], n: int = M) -> Expr:
    k = te.reduce_axis((0, n), name="k")
    return te.sum(f(k), axis=k)


def largest(x: Tensor) -> Tensor:
    k = te.reduce_axis((0, M), name="k")
    return te.compute((N,), lambda i: te.max(x[i, k], axis=k), name="shift")


def rows(f: Callable[[Expr, Expr], Expr]) -> Tensor:
    return te.compute((N, M), f, name="Y")


def softmax_at_once(x: Tensor) -> Tensor:
    m = largest(x)
    return rows(lambda i, j: te.exp(x[i, j] - m[i]) / along(lambda k: te.exp(x[i, k] - m[i])))


def softmax_in_steps(x: Tensor) -> Tensor:
    m = largest(x)
    e = rows(lambda i, j: te.exp(x[i, j] - m[i]))
    s = te.compute((N,), lambda i: along(lambda k: e[i, k]))
    return rows(lambda i, j: e[i, j] / s[i])


def logsumexp(x: Tensor) -> Tensor:
    m = largest(x)
    s = te.compute((N,), lambda i: along(lambda k: te.exp(x[i, k] - m[i])))
    return te.compute((N,), lambda i: te.log(s[i]) + m[i])


def causal_softmax(x: Tensor) -> Tensor:
    """Row i over the columns j <= i, the shift found there too."""
    k, u = te.reduce_axis(M), te.reduce_axis(M)
    m = te.compute((N,), lambda i: te.max(x[i, k], axis=k, where=k <= i), name="shift")
    e = rows(lambda i, j: te.select(j <= i, te.exp(x[i, j] - m[i]), 0.0))
    s = te.compute((N,), lambda i: te.sum(e[i, u], axis=u, where=u <= i))
    return rows(lambda i, j: e[i, j] / s[i])


def any_shift(x: Tensor) -> Tensor:
    """The first element as the shift, multiplied by a constant that is no binary fraction."""
    m = te.compute((N,), lambda i: 0.1 * x[i, 0], name="shift")
    e = rows(lambda i, j: te.exp(x[i, j] - m[i]))
    return rows(lambda i, j: e[i, j] / along(lambda k: e[i, k]))


def normalised_weights(x: Tensor) -> Tensor:
    """A common factor of all weights does not change w / sum(w)."""
    m = te.compute((N,), lambda i: te.exp(x[i, 0]), name="shift")
    w = rows(lambda i, j: x[i, j] * m[i])
    return rows(lambda i, j: w[i, j] / along(lambda k: w[i, k]))


def centred_twice(x: Tensor) -> Tensor:
    """Subtracting a shift before the mean is subtracted."""
    m = largest(x)
    d = rows(lambda i, j: x[i, j] - m[i])
    return rows(lambda i, j: d[i, j] - along(lambda k: d[i, k]) * (1.0 / M))


SHIFTS: dict[str, Program] = {
    f.__name__: f
    for f in (
        softmax_at_once,
        softmax_in_steps,
        logsumexp,
        causal_softmax,
        any_shift,
        normalised_weights,
        centred_twice,
    )
}


def softmax_plus_one(x: Tensor) -> Tensor:
    m = largest(x)
    e = rows(lambda i, j: te.exp(x[i, j] - m[i]))
    return rows(lambda i, j: e[i, j] / (along(lambda k: e[i, k]) + 1.0))


def shift_below_alone(x: Tensor) -> Tensor:
    m = largest(x)
    return rows(lambda i, j: x[i, j] / along(lambda k: te.exp(x[i, k] - m[i])))


def logsumexp_wrong_sign(x: Tensor) -> Tensor:
    m = largest(x)
    s = te.compute((N,), lambda i: along(lambda k: te.exp(x[i, k] - m[i])))
    return te.compute((N,), lambda i: te.log(s[i]) - m[i])


def sum_over_fewer(x: Tensor) -> Tensor:
    """The exponentials are summed over one column less than there are."""
    m = largest(x)
    e = rows(lambda i, j: te.exp(x[i, j] - m[i]))
    s = te.compute((N,), lambda i: along(lambda k: e[i, k], M - 1))
    return rows(lambda i, j: e[i, j] * s[i])


def other_row(x: Tensor) -> Tensor:
    """Divided by the sum of another row."""
    m = largest(x)
    e = rows(lambda i, j: te.exp(x[i, j] - m[i]))
    return rows(lambda i, j: e[i, j] / along(lambda k: e[N - 1 - i, k]))


def centred_by_a_wrong_mean(x: Tensor) -> Tensor:
    m = largest(x)
    d = rows(lambda i, j: x[i, j] - m[i])
    return rows(lambda i, j: d[i, j] - along(lambda k: d[i, k]) * (1.0 / (M - 1)))


MATTER: dict[str, Program] = {
    f.__name__: f
    for f in (
        softmax_plus_one,
        shift_below_alone,
        logsumexp_wrong_sign,
        sum_over_fewer,
        other_row,
        centred_by_a_wrong_mean,
    )
}


def found_shifts(monkeypatch: pytest.MonkeyPatch, f: Program) -> list[str]:
    """The tensors whose adjoint is proved to be 0."""
    proved: list[str] = []
    is_shift = Shifts.is_shift

    def listen(self: Shifts, t: Tensor, *rest: object) -> bool:
        answer = is_shift(self, t, *rest)  # type: ignore[arg-type]  # passed on as given
        if answer:
            proved.append(t.name)
        return answer

    monkeypatch.setattr(Shifts, "is_shift", listen)
    x = matrix()
    y = f(x)
    vjp(y, [x], _head(y))
    return proved


def _head(y: Tensor) -> Tensor:
    return te.placeholder(y.shape, dtype=y.dtype, name="H")


@pytest.mark.parametrize("name", SHIFTS)
def test_a_shift_that_does_not_matter_gets_no_gradient(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found_shifts(monkeypatch, SHIFTS[name]) == ["shift"]


@pytest.mark.parametrize("name", MATTER)
def test_what_matters_keeps_its_gradient(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found_shifts(monkeypatch, MATTER[name]) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [*SHIFTS, *MATTER])
def test_derivatives_of_both_orders(name: str) -> None:
    x = matrix()
    y = (SHIFTS | MATTER)[name](x)
    arrays = {x: np.random.default_rng(3).uniform(0.5, 1.5, (N, M))}
    assert gradcheck(y, [x], arrays=arrays)
    assert gradcheck(y, [x], order=2, arrays=arrays)


def test_a_shift_asked_for_has_a_gradient_of_zeros() -> None:
    x = matrix()
    m = largest(x)
    e = rows(lambda i, j: te.exp(x[i, j] - m[i]))
    y = rows(lambda i, j: e[i, j] / along(lambda k: e[i, k]))
    h = _head(y)
    (dm,) = vjp(y, [m], h)
    from tensorad.ir.reference.interpret import interpret

    rng = np.random.default_rng(0)
    values = interpret(dm, {x: rng.standard_normal((N, M)), h: rng.standard_normal((N, M))})
    assert dm.shape == (N,)
    np.testing.assert_allclose(values, 0, atol=1e-12)


def test_the_maximum_is_not_searched_again() -> None:
    x = matrix()
    (dx,) = vjp(topi.nn.softmax(x), [x], _head(x))
    assert not any("winner" in op.name for op in topological_ops([dx]))
    assert work(dx).iterations == 5 * N * M + 2 * N
    assert work(dx).multiplications == 4 * N * M + 3 * N


def test_the_maximum_is_not_searched_where_the_value_is_read_again() -> None:
    """Weights of an average: its gradient by what is averaged needs them, stored."""
    x, v, t = matrix(), matrix(M, 3, name="V"), te.reduce_axis(M, name="t")
    p = topi.nn.softmax(x)
    y = te.compute((N, 3), lambda i, c: te.sum(p[i, t] * v[t, c], axis=t), name="Y")
    found = topological_ops(vjp(y, [x, v], _head(y)))
    assert any(op.name == "softmax" for op in found)
    assert not any("winner" in op.name for op in found)


# -- the normal form itself ----------------------------------------------------------------------


def read(name: str) -> Expr:
    return te.placeholder((), dtype="float64", name=name).as_scalar()


A, B, C = read("a"), read("b"), read("c")


@pytest.mark.parametrize(
    "e",
    [
        (A + B) * (A - B) - A * A + B * B,
        A / B - A * C / (B * C),
        1.0 / (1.0 + A * A) + A * A / (1.0 + A * A) - 1.0,
        (A + B) / C - A / C - B / C,
        A * 0.1 + A * 0.2 - A * 0.3,
        10.0 * (A * 0.1) - A,
        te.exp(A) * B / te.exp(A) - B,
        A**3 - A * A * A,
        te.select(A > 0, B, C) - te.select(A > 0, B, 0.0) - te.select(A > 0, 0.0, C),
    ],
    ids=str,
)
def test_zero_as_a_rational_function(e: Expr) -> None:
    assert vanishes((), e, {})


@pytest.mark.parametrize(
    "e",
    [
        A - B,
        (A + B) * (A + B) - A * A - B * B,
        A / B - B / A,
        te.exp(A + B) - te.exp(A) * te.exp(B),  # true, but functions are opaque
        call("abs", A) - A,
        A * 0.1 - A * 0.1000001,
        te.select(A > 0, B, C) - te.select(A >= 0, B, C),
        1.0 / (1.0 + A) - 1.0 / (1.0 + B),
    ],
    ids=str,
)
def test_not_proved(e: Expr) -> None:
    assert not vanishes((), e, {})


def test_long_formulas_are_given_up() -> None:
    e: Expr = A
    for n in range(2_000):
        e = e * B + float(n)
    assert not vanishes((), e - e, {})


def test_sums_are_equal_up_to_the_names_and_order_of_axes() -> None:
    x = matrix(5, 5)

    def total(first: int) -> Expr:
        p, q = te.reduce_axis(5, name="p"), te.reduce_axis((0, 3), name="q")
        if first:
            return te.sum(te.sum(x[p, q] * x[q, p], axis=q), axis=p)
        return te.sum(te.sum(x[q, p] * x[p, q], axis=p), axis=q)

    y = te.compute((), lambda: total(0) - total(1))
    assert vanishes((), y.op.bodies[0], {})
    z = te.compute((), lambda: te.sum(x[0, K0], axis=K0) - te.sum(x[K1, 0], axis=K1))
    assert not vanishes((), z.op.bodies[0], {})


K0, K1 = te.reduce_axis(5, name="k0"), te.reduce_axis(5, name="k1")


def test_constants_mean_the_simplest_rational() -> None:
    f64, f32 = A.dtype, te.placeholder((), name="f").dtype
    assert str(rational(0.1, f64)) == "1/10"
    assert str(rational(float(np.float32(0.1)), f32)) == "1/10"
    assert str(rational(1 / 12345, f64)) == "1/12345"
    assert rational(np.pi, f64) == np.pi
    assert rational(1e300, f64) == 1e300


def value_of(condition: Expr, *axes: Axis) -> Sum:
    return indicator(Ring(), condition, A.dtype)


def test_conditions_that_bounds_decide() -> None:
    n = size_var("n")
    i = axis("i", 0, n)
    j = axis("j", 0, i + 1)
    k = axis("k", j, j + 3)
    assert value_of(j <= i).terms == constant(1).terms
    assert value_of(i >= j).terms == constant(1).terms
    assert value_of(j > i).terms == {}
    assert value_of(k >= j).terms == constant(1).terms
    assert value_of(logical_and(k < j + 3, j <= i)).terms == constant(1).terms
    assert len(value_of(k <= i).terms) == 1
    assert value_of(TRUE).terms == constant(1).terms
    assert least_value(linear_form(k - j + 2)) == 2
    assert least_value(linear_form(j - i)) is None


def test_complements_add_up_to_one() -> None:
    i, j = axis("i", 0, 5), axis("j", 0, 5)
    for yes, no in ((i < j, j <= i), (i == j, i != j), (i + 2 >= j, i + 2 < j)):
        ring = Ring()
        total = indicator(ring, yes, A.dtype).plus(indicator(ring, no, A.dtype))
        assert total.terms == constant(1).terms, (str(yes), str(no))
