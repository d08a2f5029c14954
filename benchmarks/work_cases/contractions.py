"""Dense layers, matrix products, traces and other sums of products."""

from __future__ import annotations

from typing import Any

from benchmarks.work_cases.case import Case, Problem, by, inputs
from tensorad import te, topi


def _dense(g: int) -> tuple[Any, ...]:
    x, w, b = inputs((4 + g, 6), (5, 6), (5,))
    k = te.reduce_axis(6)
    y = te.compute((4 + g, 5), lambda i, j: te.sum(x[i, k] * w[j, k], axis=k) + b[j], name="Y")
    return y, x, w, b


def _dense_by(*which: int) -> Any:
    def make(g: int) -> Problem:
        parts = _dense(g)
        return by(parts[0], *[parts[n] for n in which])

    return make


def _dense_symbolic(g: int) -> Problem:
    n, m, p = te.size("n"), te.size("m"), te.size("p")
    x, w, b = inputs((n, p), (m, p), (m,))
    k = te.reduce_axis(p)
    y = te.compute((n, m), lambda i, j: te.sum(x[i, k] * w[j, k], axis=k) + b[j], name="Y")
    return by(y, x, w, b, n=4 + g, m=5, p=6)


def _two_layers(g: int) -> Problem:
    x, w, v = inputs((4 + g, 6), (5, 6), (3, 5))
    return by(topi.nn.dense(topi.tanh(topi.nn.dense(x, w)), v), x, w, v)


def _gram(g: int) -> Problem:
    (a,) = inputs((5 + g, 4))
    return by(topi.matmul(a, topi.transpose(a)), a)


def _square_product(g: int) -> Problem:
    (a,) = inputs((5 + g, 5 + g))
    return by(topi.matmul(a, a), a)


def _product_with_own_transpose(g: int) -> Problem:
    (a,) = inputs((5 + g, 5 + g))
    k = te.reduce_axis(5 + g)
    return by(te.compute((5 + g,), lambda i: te.sum(a[i, k] * a[k, i], axis=k)), a)


def _quadratic_form(g: int) -> Problem:
    a, x = inputs((5 + g, 5 + g), (5 + g,))
    i, j = te.reduce_axis(5 + g), te.reduce_axis(5 + g)
    return by(te.compute((), lambda: te.sum(x[i] * a[i, j] * x[j], axis=[i, j])), x, a)


def _trilinear(g: int) -> Problem:
    a, x, y = inputs((4, 5, 6 + g), (5, 3), (6 + g, 3))
    return by(topi.einsum("ijk,jr,kr->ir", a, x, y), a, x, y)


def _einsum(spec: str, *shapes: tuple[int, ...]) -> Any:
    def make(g: int) -> Problem:
        tensors = inputs(*[(s[0] + g, *s[1:]) for s in shapes])
        return by(topi.einsum(spec, *tensors), *tensors)

    return make


def _einsum_diagonal(g: int) -> Problem:
    (a,) = inputs((5 + g, 5 + g))
    return by(topi.einsum("ii->i", a), a)


def _bilinear_attention(g: int) -> Problem:
    q, k, v = inputs((2, 3 + g, 4), (2, 5, 4), (2, 5, 4))
    scores = topi.einsum("bqd,bkd->bqk", q, k)
    return by(topi.einsum("bqk,bkd->bqd", scores, v), q, k, v)


def _attention(g: int) -> Problem:
    q, k, v = inputs((2, 3 + g, 4), (2, 5, 4), (2, 5, 4))
    weights = topi.nn.softmax(topi.einsum("bqd,bkd->bqk", q, k))
    return by(topi.einsum("bqk,bkd->bqd", weights, v), q, k, v)


def _distances(g: int) -> Problem:
    x, z = inputs((4 + g, 3), (5, 3))
    k = te.reduce_axis(3)

    def entry(i: Any, j: Any) -> Any:
        return te.sum((x[i, k] - z[j, k]) * (x[i, k] - z[j, k]), axis=k)

    return by(te.compute((4 + g, 5), entry), x, z)


def _own_distances(g: int) -> Problem:
    (x,) = inputs((4 + g, 3))
    k = te.reduce_axis(3)

    def entry(i: Any, j: Any) -> Any:
        return te.sum((x[i, k] - x[j, k]) * (x[i, k] - x[j, k]), axis=k)

    return by(te.compute((4 + g, 4 + g), entry), x)


def _forces(g: int) -> Problem:
    (x,) = inputs((4 + g, 3))
    k = te.reduce_axis(3)
    n = 4 + g

    def squares(i: Any, j: Any) -> Any:
        return te.sum((x[i, k] - x[j, k]) * (x[i, k] - x[j, k]), axis=k)

    d = te.compute((n, n), squares)
    i, j = te.reduce_axis(n), te.reduce_axis(n)
    return by(te.compute((), lambda: te.sum(1.0 / d[i, j], axis=[i, j], where=i < j)), x)


CASES = [
    Case("dense dX", _dense_by(1), second=True),
    Case("dense dW", _dense_by(2)),
    Case("dense dB", _dense_by(3)),
    Case("dense dX dW dB", _dense_by(1, 2, 3)),
    Case("dense, all sizes symbolic", _dense_symbolic),
    Case("dense tanh dense", _two_layers, second=True),
    Case("A @ A.T", _gram, second=True),
    Case("A @ A", _square_product),
    Case("sum_k A[i,k] A[k,i]", _product_with_own_transpose, second=True),
    Case("quadratic form", _quadratic_form, second=True),
    Case("einsum ijk,jr,kr->ir", _trilinear),
    Case("einsum outer product", _einsum("i,j->ij", (4,), (4,))),
    Case("einsum bik,bkj->bij", _einsum("bik,bkj->bij", (2, 3, 4), (2, 4, 5))),
    Case("einsum ii->i", _einsum_diagonal),
    Case("attention without softmax", _bilinear_attention),
    Case("attention", _attention, second=True),
    Case("squared distances of X and Z", _distances),
    Case("squared distances within X", _own_distances, second=True),
    Case("energy of distances, i < j", _forces),
]
