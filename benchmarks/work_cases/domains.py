"""Diagonals, triangles, bands, holes, lattices: domains that are no boxes, several reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.work_cases.case import Case, Problem, by, inputs
from tensorad import te
from tensorad.ir.tensor import Tensor

Make = Callable[[int], Problem]


def _square(f: Callable[[Tensor, int], Any], n: int = 6) -> Make:
    def make(g: int) -> Problem:
        (a,) = inputs((n + g, n + g))
        return by(f(a, n + g), a)

    return make


def _symmetric(a: Tensor, n: int) -> Any:
    return te.compute((n, n), lambda i, j: a[i, j] + a[j, i])


def _symmetric_product(a: Tensor, n: int) -> Any:
    return te.compute((n, n), lambda i, j: a[i, j] * a[j, i])


def _antisymmetric_square(a: Tensor, n: int) -> Any:
    return te.compute((n, n), lambda i, j: (a[i, j] - a[j, i]) * (a[i, j] - a[j, i]))


def _diagonal(a: Tensor, n: int) -> Any:
    return te.compute((n,), lambda i: a[i, i] * a[i, i])


def _antidiagonal(a: Tensor, n: int) -> Any:
    return te.compute((n,), lambda i: a[i, n - 1 - i])


def _diagonal_matrix(g: int) -> Problem:
    (x,) = inputs((5 + g,))
    n = 5 + g
    return by(te.compute((n, n), lambda i, j: te.select(i == j, x[i], 0.0)), x)


def _trace(a: Tensor, n: int) -> Any:
    k = te.reduce_axis(n)
    return te.compute((), lambda: te.sum(a[k, k], axis=k))


def _superdiagonal(a: Tensor, n: int) -> Any:
    return te.compute((n - 2,), lambda i: a[i, i + 2])


def _triangular(a: Tensor, n: int) -> Any:
    k = te.reduce_axis(n)
    return te.compute((n,), lambda i: te.sum(a[i, k] * a[i, k], axis=k, where=k <= i))


def _triangular_product(g: int) -> Problem:
    n = 6 + g
    a, x = inputs((n, n), (n,))
    k = te.reduce_axis(n)
    return by(te.compute((n,), lambda i: te.sum(a[i, k] * x[k], axis=k, where=k <= i)), a, x)


def _triangular_bounds(g: int) -> Problem:
    """The same triangle in the bounds of the reduction."""
    n = 6 + g
    a, x = inputs((n, n), (n,))

    def row(i: Any) -> Any:
        k = te.reduce_axis((0, i + 1))
        return te.sum(a[i, k] * x[k], axis=k)

    return by(te.compute((n,), row), a, x)


def _triangular_outer(g: int) -> Problem:
    n = 6 + g
    a, x = inputs((n, n), (n, n))
    j = te.reduce_axis(n)

    def entry(i: Any, k: Any) -> Any:
        return te.sum(a[i, j] * x[j, k], axis=j, where=te.all_of(k <= j, j <= i))

    return by(te.compute((n, n), entry), a, x)


def _banded(g: int) -> Problem:
    n = 12 + g
    a, x = inputs((n, n), (n,))
    k = te.reduce_axis(n)

    def where(i: Any) -> Any:
        return te.all_of(k - i <= 2, i - k <= 1)

    return by(te.compute((n,), lambda i: te.sum(a[i, k] * x[k], axis=k, where=where(i))), a, x)


def _banded_storage(g: int) -> Problem:
    n = 12 + g
    a, x = inputs((n, 4), (n,))
    k = te.reduce_axis(4)

    def row(i: Any) -> Any:
        j = i + k - 1
        return te.sum(a[i, k] * x[j], axis=k, where=te.all_of(j >= 0, j < n))

    return by(te.compute((n,), row), a, x)


def _hole(g: int) -> Problem:
    n = 8 + g
    a, x = inputs((n, n), (n,))
    k = te.reduce_axis(n)
    return by(te.compute((n,), lambda i: te.sum(a[i, k] * x[k], axis=k, where=k != i)), a, x)


def _two_parts(g: int) -> Problem:
    n = 12 + g
    (x,) = inputs((n,))
    k = te.reduce_axis(n)

    def row(i: Any) -> Any:
        return te.sum(x[k] * x[k], axis=k, where=te.any_of(k < i - 2, k > i + 3))

    return by(te.compute((n,), row), x)


def _piecewise(g: int) -> Problem:
    n = 9 + g
    x, z = inputs((n,), (n,))
    return by(te.compute((2 * n,), lambda i: te.select(i < n, x[i % n], z[2 * n - 1 - i])), x, z)


def _block_diagonal(g: int) -> Problem:
    n = 12 + g
    a, x = inputs((n, n), (n,))
    k = te.reduce_axis(n)
    return by(
        te.compute((n,), lambda i: te.sum(a[i, k] * x[k], axis=k, where=i // 3 == k // 3)), a, x
    )


def _block_sparse(g: int) -> Problem:
    """Blocks in a chessboard pattern."""
    n = 8 + g * 2
    a, x = inputs((n, n), (n,))
    k = te.reduce_axis(n)

    def row(i: Any) -> Any:
        return te.sum(a[i, k] * x[k], axis=k, where=(i // 2 + k // 2) % 2 == 0)

    return by(te.compute((n,), row), a, x)


def _causal(which: str) -> Make:
    def make(g: int) -> Problem:
        n = 6 + g
        q, k, v = inputs((2, n, 3), (2, n, 3), (2, n, 3), names="QKV")
        d = te.reduce_axis(3)
        t = te.reduce_axis(n)
        scores = te.compute((2, n, n), lambda b, i, j: te.sum(q[b, i, d] * k[b, j, d], axis=d))

        def mix(b: Any, i: Any, c: Any) -> Any:
            return te.sum(scores[b, i, t] * v[b, t, c], axis=t, where=t <= i)

        y = te.compute((2, n, 3), mix)
        return by(y, *[{"Q": q, "K": k, "V": v}[c] for c in which])

    return make


def _causal_softmax(g: int) -> Problem:
    n = 6 + g
    q, k, v = inputs((n, 3), (n, 3), (n, 3), names="QKV")
    d, t, u, w = te.reduce_axis(3), te.reduce_axis(n), te.reduce_axis(n), te.reduce_axis(n)

    def score(i: Any, j: Any) -> Any:
        return te.select(j <= i, te.sum(q[i, d] * k[j, d], axis=d), 0.0)

    s = te.compute((n, n), score, name="scores")
    m = te.compute((n,), lambda i: te.max(s[i, t], axis=t, where=t <= i), name="largest")
    e = te.compute((n, n), lambda i, j: te.select(j <= i, te.exp(s[i, j] - m[i]), 0.0), name="e")
    z = te.compute((n,), lambda i: te.sum(e[i, u], axis=u, where=u <= i), name="total")

    def mix(i: Any, c: Any) -> Any:
        return te.sum(e[i, w] * v[w, c], axis=w, where=w <= i) / z[i]

    return by(te.compute((n, 3), mix), q, k, v)


def _window_attention(g: int) -> Problem:
    n = 8 + g
    q, k = inputs((n, 3), (n, 3), names="QK")
    d = te.reduce_axis(3)

    def entry(i: Any, t: Any) -> Any:
        j = i + t - 1
        inside = te.all_of(j >= 0, j < n)
        return te.select(inside, te.sum(q[i, d] * k[j, d], axis=d, where=inside), 0.0)

    return by(te.compute((n, 3), entry), q, k)


def _double_correlation(g: int) -> Problem:
    n = 5 + g
    (x,) = inputs((3 * n,))
    a, b = inputs((n, n), (n,), names="AB")
    i, j = te.reduce_axis(n), te.reduce_axis(n)
    y = te.compute((n,), lambda k: te.sum(x[i + j + k] * a[i, j] * b[j], axis=[i, j]))
    return by(y, x)


def _three_strides(g: int) -> Problem:
    n = 4 + g
    (x,) = inputs((31 * n,))
    j, k = te.reduce_axis(n), te.reduce_axis(n)
    return by(te.compute((n,), lambda i: te.sum(x[6 * i + 10 * j + 15 * k], axis=[j, k])), x)


def _lattice(g: int) -> Problem:
    n = 5 + g
    (x,) = inputs((6 * n, 6 * n))
    k = te.reduce_axis(n)

    def entry(i: Any, j: Any) -> Any:
        return te.sum(x[i + 2 * j + 2 * k, 2 * i + j + 3 * k], axis=k)

    return by(te.compute((n, n), entry), x)


def _negative_strides(g: int) -> Problem:
    n = 6 + g
    x, w = inputs((3 * n,), (4,))
    k = te.reduce_axis(4)
    return by(te.compute((n,), lambda i: te.sum(x[3 * n - 1 - 2 * i - k] * w[k], axis=k)), x, w)


def _laplacian(g: int) -> Problem:
    n = 6 + g
    (u,) = inputs((n, n))

    def entry(i: Any, j: Any) -> Any:
        inside = te.all_of(i > 0, i < n - 1, j > 0, j < n - 1)
        around = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]
        return te.select(inside, around - 4.0 * u[i, j], u[i, j])

    return by(te.compute((n, n), entry), u)


def _nonlinear_stencil(g: int) -> Problem:
    n = 10 + g
    (u,) = inputs((n,))

    def entry(i: Any) -> Any:
        return u[i] * u[i + 1] * u[i + 1] + te.exp(u[i + 2] - u[i])

    return by(te.compute((n - 2,), entry), u)


def _rosenbrock(g: int) -> Problem:
    n = 9 + g
    (x,) = inputs((n,))
    i = te.reduce_axis(n - 1)

    def total() -> Any:
        a = x[i + 1] - x[i] * x[i]
        b = 1.0 - x[i]
        return te.sum(100.0 * (a * a) + b * b, axis=i)

    return by(te.compute((), total), x)


def _scatter_odd(g: int) -> Problem:
    n = 9 + g
    (x,) = inputs((n,))
    return by(te.scatter((2 * n,), (n,), lambda i: (2 * i + 1, x[i] * x[i])), x)


def _symbolic_band(g: int) -> Problem:
    n = te.size("n")
    a, x = inputs((n, n), (n,))
    k = te.reduce_axis(n)

    def where(i: Any) -> Any:
        return te.all_of(k <= i + 1, i <= k + 1)

    y = te.compute((n,), lambda i: te.sum(a[i, k] * x[k], axis=k, where=where(i)))
    return by(y, a, x, n=9 + g)


def _symbolic_triangle(g: int) -> Problem:
    n = te.size("n")
    a, x = inputs((n, n), (n,))
    k = te.reduce_axis(n)
    y = te.compute((n,), lambda i: te.sum(a[i, k] * x[k], axis=k, where=k <= i))
    return by(y, a, x, n=6 + g)


CASES = [
    Case("A[i,j] + A[j,i]", _square(_symmetric)),
    Case("A[i,j] * A[j,i]", _square(_symmetric_product), second=True),
    Case("(A[i,j] - A[j,i])^2", _square(_antisymmetric_square), second=True),
    Case("diagonal", _square(_diagonal), second=True),
    Case("antidiagonal", _square(_antidiagonal)),
    Case("superdiagonal", _square(_superdiagonal)),
    Case("diagonal matrix", _diagonal_matrix),
    Case("trace", _square(_trace)),
    Case("triangular sum of squares", _square(_triangular)),
    Case("triangular product", _triangular_product, second=True),
    Case("triangular product, in the bounds", _triangular_bounds),
    Case("triangular times triangular", _triangular_outer),
    Case("banded product", _banded, second=True),
    Case("banded storage", _banded_storage),
    Case("not-equal hole", _hole),
    Case("two half lines", _two_parts),
    Case("piecewise", _piecewise),
    Case("block diagonal", _block_diagonal),
    Case("block chessboard", _block_sparse),
    Case("causal attention dQ", _causal("Q")),
    Case("causal attention dK", _causal("K")),
    Case("causal attention dV", _causal("V")),
    Case("causal attention dQ dK dV", _causal("QKV")),
    Case("causal softmax attention", _causal_softmax),
    Case("window attention", _window_attention),
    Case("correlation, two free axes", _double_correlation),
    Case("three strides 6 10 15", _three_strides),
    Case("lattice of two equations", _lattice, growth=()),
    Case("negative strides", _negative_strides),
    Case("Laplacian 5 points", _laplacian),
    Case("nonlinear stencil", _nonlinear_stencil, second=True),
    Case("Rosenbrock", _rosenbrock, second=True),
    Case("scatter to odd places", _scatter_odd),
    Case("symbolic band", _symbolic_band),
    Case("symbolic triangle", _symbolic_triangle),
]
