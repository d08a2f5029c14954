"""Folds and reductions over ragged loops of symbolic sizes: what derivatives store has a shape."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.ir.expr import Axis, Expr
from tensorad.ir.reference.interpret import interpret

N, M = te.size("n"), te.size("m")
X = te.placeholder((N, M), "float64", name="X")
V = te.placeholder((N,), "float64", name="V")
P = te.placeholder((N,), "int64", name="P")
Q = te.placeholder((N,), "int32", name="Q")
SIZES = ((0, 0), (0, 2), (1, 1), (2, 0), (3, 5), (5, 3), (1, 4), (7, 7))


def along(lower: object, upper: object, name: str = "k") -> Axis:
    return te.reduce_axis((lower, upper), name)


def prefix(i: Axis) -> Expr:
    k = along(0, i + 1)
    return te.prod(V[k], axis=k)


def suffix(i: Axis) -> Expr:
    k = along(i, N)
    return te.prod(V[k], axis=k)


def before(i: Axis) -> Expr:
    k = along(0, i)
    return te.prod(V[k], axis=k)


def inner_rows(i: Axis) -> Expr:
    k = along(1, N - 1)
    return te.prod(V[k] * V[i], axis=k)


def up_to_a_square(i: Axis) -> Expr:
    k = along(0, i * i)
    return te.prod(V[k % te.maximum(N, 1)], axis=k)


def of_two_axes(i: Axis) -> Expr:
    k, j = along(0, i + 1), along(te.minimum(i, M), M, "j")
    return te.prod(X[k, j], axis=(j, k))


def largest_of_two_axes(i: Axis) -> Expr:
    k, j = along(0, i + 1), along(te.minimum(i, M), M, "j")
    return te.maximum(te.max(X[k, j], axis=(j, k)), -1.0)


def bounded_by_data(i: Axis) -> Expr:
    k = along(0, te.minimum(te.maximum(P[i], 0), M))
    return te.prod(X[i, k], axis=k)


def bounded_by_narrow_data(i: Axis) -> Expr:
    k = along(0, te.minimum(te.maximum(Q[i], 0), M))
    return te.prod(X[i, k], axis=k)


def rows_up_to_data(i: Axis) -> Expr:
    k, j = along(0, te.minimum(te.maximum(P[i], 0), N)), te.reduce_axis(M, "j")
    return te.sum(te.tanh(te.sum(X[k, j], axis=j)), axis=k)


def rows_before(i: Axis) -> Expr:
    k, j = along(0, i + 1), te.reduce_axis(M, "j")
    return te.sum(te.tanh(te.sum(X[k, j] * V[i], axis=j)), axis=k)


def last_rows(i: Axis) -> Expr:
    k, j = along(te.maximum(N - 2, 0), N), te.reduce_axis(M, "j")
    return te.sum(te.tanh(te.sum(X[k, j] * V[i], axis=j)), axis=k)


def triangle_of_sums(i: Axis) -> Expr:
    k = along(i, N)
    j = along(0, k + 1, "j")
    return te.sum(te.tanh(te.sum(V[j] * V[k] * V[i], axis=j)), axis=k)


def product_of_sums(i: Axis) -> Expr:
    k = along(i, N)
    j = along(k // 2, k + 1, "j")
    return te.prod(te.tanh(te.sum(V[j] * V[k] * V[i], axis=j)), axis=k)


FORMULAS = (
    *(prefix, suffix, before, inner_rows, up_to_a_square, of_two_axes, largest_of_two_axes),
    *(bounded_by_data, bounded_by_narrow_data, rows_up_to_data),
    *(rows_before, last_rows, triangle_of_sums, product_of_sums),
)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("formula", FORMULAS, ids=lambda f: f.__name__)
def test_both_modes_are_the_interpreter_s_and_the_difference(
    formula: Callable[[Axis], Expr],
) -> None:
    y = te.compute((N,), formula, name="Y")
    h = te.placeholder((N,), "float64", name="H")
    moved = {t: te.placeholder(t.shape, "float64", name=f"d{t.name}") for t in (X, V)}
    made, taken = [y, *ta.vjp(y, [X, V], h), ta.jvp(y, moved)], [X, V, P, Q, h, *moved.values()]
    f = ta.build(made, taken)
    for n, m in SIZES:
        rng = np.random.default_rng((n, m))
        at, by = ([rng.normal(size=(n, m)), rng.normal(size=n)] for _ in range(2))
        bounds, head = rng.integers(-1, m + 2, size=n), rng.normal(size=n)

        def args(step: float) -> list[np.ndarray]:
            x = [a + step * b for a, b in zip(at, by, strict=True)]
            return [*x, bounds, bounds.astype("int32"), head, *by]

        given = dict(zip(taken, args(0.0), strict=True))
        found = f(*args(0.0))
        for a, b in zip(found, interpret(made, given, {"n": n, "m": m}), strict=True):
            np.testing.assert_allclose(a, b, 1e-9, 1e-12)
        forward = found[3] @ head
        reverse = sum(np.vdot(g, d) for g, d in zip(found[1:3], by, strict=True))
        differences = (f(*args(1e-6))[0] - f(*args(-1e-6))[0]) / 2e-6
        np.testing.assert_allclose(forward, reverse, 1e-9, 1e-10)
        np.testing.assert_allclose(forward, differences @ head, 1e-5, 1e-6)
