"""Sparse Jacobians: patterns against plain enumeration, values against dense Jacobians."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from benchmarks.suites import sparse as benchmark
from tensorad import topi
from tensorad.codegen.loops.ir import For, If, Store
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.loops.visit import statements
from tensorad.errors import BindError, BuildError, GradError, MissingPackageError, ShapeError
from tensorad.ir.combiner import sum_combiner
from tensorad.ir.dtypes import FLOAT64
from tensorad.ir.expr import Expr, axis, read
from tensorad.ir.tensor import Scan, Tensor, outputs
from tensorad.sparse.direct import Direct
from tensorad.sparse.matrix import KEPT_PLANS
from tests.random.generators import campaign
from tests.support.dependence import Dependence

Array = np.ndarray[Any, np.dtype[Any]]


def matrix(*shape: int, name: str = "X") -> Tensor:
    return ta.placeholder(shape, "float64", name=name)


def some(t: Tensor, seed: int = 0) -> Array:
    """Distinct positive numbers: no ties, no accidental zeros."""
    shape = tuple([n for n in t.shape if isinstance(n, int)])
    count = prod(shape)
    return (np.random.default_rng(seed).permutation(count).reshape(shape) + 1.0) / (count + 1)


def dense(y: Tensor, wrt: Sequence[Tensor], arrays: dict[Tensor, Array]) -> Array:
    """The Jacobian as the interpreter computes it."""
    rows = prod(n for n in y.shape if isinstance(n, int))
    blocks = [np.asarray(ta.interpret(ta.jacobian(y, x), arrays)) for x in wrt]
    sizes = [prod(n for n in x.shape if isinstance(n, int)) for x in wrt]
    return np.concatenate([b.reshape(rows, n) for b, n in zip(blocks, sizes, strict=True)], axis=1)


def check(
    y: Tensor, wrt: Sequence[Tensor], arrays: dict[Tensor, Array], kind: type = Direct
) -> ta.SparseJacobian:
    """The matrix has the pattern of the dependence, sorted rows and the dense values."""
    j = ta.sparse_jacobian(y, list(wrt))
    f = j.build(list(arrays))
    found = f(*arrays.values())
    assert type(j._plan({}).made) is kind
    for start, stop in zip(found.indptr, found.indptr[1:], strict=False):
        assert (np.diff(found.indices[start:stop]) > 0).all()
    expected = dense(y, wrt, arrays)
    assert found.shape == expected.shape == j.shape
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-9, atol=1e-12)
    if kind is Direct:
        pattern = np.zeros(found.shape, bool)
        pattern[np.repeat(np.arange(found.shape[0]), np.diff(found.indptr)), found.indices] = True
        np.testing.assert_array_equal(pattern, Dependence(wrt).pattern(y))
        assert j.nnz == found.nnz
        made = j._plan({}).made
        assert isinstance(made, Direct)
        verify_loops(made.program(list(arrays)))
    return j


def _stencil(x: Tensor) -> Tensor:
    n, m = (int(str(k)) for k in x.shape)

    def at(i: Expr, j: Expr) -> Expr:
        left = ta.select(j > 0, x[i, j - 1], 0.0)
        below = ta.select(i < n - 1, x[i + 1, j], 0.0)
        return x[i, j] ** 2 + left * x[i, j] + 3.0 * below

    return ta.compute((n, m), at)


def _banded(x: Tensor) -> Tensor:
    j = ta.reduce_axis(6)
    return ta.compute(
        (5,), lambda i: ta.sum(x[i, j] ** 2, axis=j, where=(j >= i - 1) & (j <= i + 2))
    )


def _triangular(x: Tensor) -> Tensor:
    j = ta.reduce_axis(6)
    return ta.compute((5,), lambda i: ta.sum(x[i, j] * x[0, j], axis=j, where=j <= i))


def _stages(x: Tensor) -> Tensor:
    squares = ta.compute((5, 6), lambda i, j: x[i, j] * x[4 - i, j])
    return ta.compute((4, 5), lambda i, j: squares[i, j] * squares[i + 1, j + 1] + x[i, j])


def _union(x: Tensor) -> Tensor:
    return ta.compute(
        (5, 6),
        lambda i, j: ta.select((i == j) | (i + j == 5), x[i, j], 0.0) * x[0, 0] + x[i, 5 - j],
    )


def _gram(x: Tensor) -> Tensor:
    k = ta.reduce_axis(6)
    return ta.compute((5, 5), lambda i, j: ta.sum(x[i, k] * x[j, k], axis=k))


def _holes(x: Tensor) -> Tensor:
    k = ta.reduce_axis(5)
    return ta.compute((5, 6), lambda i, j: ta.sum(x[k, j], axis=k, where=k != i))


def _divisions(x: Tensor) -> Tensor:
    return ta.compute((7, 9), lambda i, j: x[i // 2 + (j % 2), (5 * j + i) % 6] ** 2)


FORMULAS: dict[str, Callable[[Tensor], Tensor]] = {
    "stencil": _stencil,
    "banded": _banded,
    "triangular": _triangular,
    "stages": _stages,
    "union": _union,
    "gram": _gram,
    "holes": _holes,
    "divisions": _divisions,
    "reshape": lambda x: topi.reshape(x, (3, 10)),
    "flatten of products": lambda x: topi.reshape(x * x, (2, 15)),
    "concatenation": lambda x: topi.concatenate([x, x * x], 0),
    "flip": lambda x: ta.compute((5, 6), lambda i, j: x[4 - i, j] * x[i, 5 - j]),
    "softmax": topi.nn.softmax,
    "maximum": lambda x: ta.compute((5, 5), lambda i, j: ta.maximum(x[i, j], x[i, j + 1])),
    "no rows": lambda x: ta.compute((0, 6), lambda i, j: x[i, j]),
    "no dependence": lambda x: ta.compute((3,), lambda i: ta.const(1.0, "float64")),
    "scalar": lambda x: ta.compute((), lambda: x[1, 2] * x[3, 3]),
    "data decides": lambda x: ta.compute(
        (5, 6), lambda i, j: ta.select(x[i, j] > 0.5, x[i, j] * x[0, j], x[i, 0])
    ),
    "prefix sum": lambda x: ta.scan(x * x, 1, "sum"),
    "suffix sum": lambda x: ta.scan(x, 0, "sum", reverse=True, exclusive=True),
    "product": lambda x: _reduced(ta.prod, x),
    "largest": lambda x: _reduced(ta.max, x),
    "scatter": lambda x: ta.scatter((4,), (5, 6), lambda i, j: ((i + j) // 3, x[i, j] ** 2)),
}


def _reduced(fold: Callable[..., Expr], x: Tensor) -> Tensor:
    k = ta.reduce_axis(6)
    return ta.compute((5,), lambda i: fold(x[i, k], axis=k))


def _hidden(x: Tensor) -> Tensor:
    w = ta.const(np.arange(24.0).reshape(6, 4) / 10)
    return topi.tanh(topi.matmul(topi.tanh(topi.matmul(x, w)), topi.transpose(w)))


FORMULAS["hidden layers"] = _hidden


@pytest.mark.sampled(15)
@pytest.mark.parametrize("name", FORMULAS)
def test_patterns_and_values_of_formulas(name: str) -> None:
    x = matrix(5, 6)
    check(FORMULAS[name](x), [x], {x: some(x)})


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "options", [{"padding": 1}, {"strides": 2, "padding": 1}, {"dilation": 2}, {"groups": 2}]
)
def test_convolutions(options: dict[str, int]) -> None:
    groups = options.get("groups", 1)
    x, w = matrix(1, 2, 4, 5), matrix(2, 2 // groups, 2, 3, name="W")
    y = topi.nn.conv2d(x, w, **options)
    arrays = {x: some(x), w: some(w)}
    check(y, [w, x], arrays)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", ["max", "avg"])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(2, 2, 0), (3, 2, 1)])
def test_pools(mode: str, kernel: int, stride: int, padding: int) -> None:
    x = matrix(1, 2, 6, 5)
    check(topi.nn.pool(x, kernel, stride, padding, mode), [x], {x: some(x)})


def _random_formula(rng: random.Random, x: Tensor) -> Tensor:
    """Products and sums of guarded affine reads, in one or two stages, maybe under a sum."""
    rows, columns = rng.randint(1, 5), rng.randint(1, 5)

    def entry(t: Tensor, scope: Sequence[Expr]) -> Expr:
        indices = []
        for n in t.shape:
            terms = [rng.randint(-2, 2) * a for a in scope] + [rng.randint(-2, 4)]
            index: Any = sum(terms[1:], terms[0])
            indices.append(index // rng.choice((1, 1, 2)))
            assert isinstance(n, int)
        inside = ta.all_of(*[(i >= 0) & (i < n) for i, n in zip(indices, t.shape, strict=True)])
        return ta.select(inside, t[tuple(indices)], 0.0)

    def body(t: Tensor) -> Callable[[Expr, Expr], Expr]:
        def value(i: Expr, j: Expr) -> Expr:
            if rng.random() < 0.4:
                k = ta.reduce_axis(rng.randint(0, 4))
                where = rng.choice([k >= 0, k <= i, k != j, 2 * k < i + j])
                return ta.sum(entry(t, (i, j, k)) * (1.5 + entry(t, (i, j))), axis=k, where=where)
            return entry(t, (i, j)) * (2.0 + entry(t, (i, j))) + entry(t, (i, j))

        return value

    first = ta.compute((rows, columns), body(x))
    return ta.compute((columns, 3), body(first)) if rng.random() < 0.5 else first


def check_random(seed: int) -> None:
    rng = random.Random(seed)
    x = matrix(rng.randint(1, 5), rng.randint(1, 5))
    check(_random_formula(rng, x), [x], {x: some(x)})


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(6))
def test_random_formulas(seed: int) -> None:
    check_random(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", campaign(range(6, 206, 20), 3))
def test_many_random_formulas(first: int) -> None:
    for seed in range(first, first + 20):
        check_random(seed)


def test_several_outputs_and_inputs_are_blocks() -> None:
    x, v = matrix(4, 3), matrix(4, name="V")
    p = ta.compute((4,), lambda i: v[i] * x[i, 1])
    q = ta.compute((2, 2), lambda i, j: x[i, j] * v[3 - i])
    arrays = {v: some(v), x: some(x)}
    found = ta.sparse_jacobian([p, q], [v, x]).evaluate(arrays)
    expected = np.concatenate([dense(t, [v, x], arrays) for t in (p, q)])
    np.testing.assert_allclose(found.toarray(), expected)
    assert found.nnz == 16


def test_outputs_of_two_dtypes_give_the_wider_one() -> None:
    x = ta.placeholder((3,), "float32", name="X")
    narrow = ta.compute((3,), lambda i: x[i] ** 2)
    wide = ta.compute((3,), lambda i: x[2 - i].astype("float64") * 0.1)
    found = ta.sparse_jacobian([narrow, wide], x)(np.ones(3, np.float32))
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found.toarray()[:3], 2 * np.eye(3))
    np.testing.assert_allclose(found.toarray()[3:], 0.1 * np.eye(3)[::-1], rtol=1e-7)


def test_an_intermediate_tensor_is_an_input_like_any_other() -> None:
    x = matrix(4)
    h = ta.compute((4,), lambda i: ta.exp(x[i]))
    y = ta.compute((3,), lambda i: h[i] * h[i + 1] + x[i])
    f = ta.sparse_jacobian(y, h).build([h, x])
    np.testing.assert_allclose(
        f([1.0, 2.0, 3.0, 4.0], np.zeros(4)).toarray(), [[2, 1, 0, 0], [0, 3, 2, 0], [0, 0, 4, 3]]
    )


def rosenbrock(n: int) -> tuple[Tensor, Tensor]:
    x, i = matrix(n), ta.reduce_axis(n - 1)

    def total() -> Expr:
        return ta.sum(100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1.0 - x[i]) ** 2, axis=i)

    return ta.compute((), total), x


def test_the_hessian_of_a_chain_is_three_diagonals() -> None:
    y, x = rosenbrock(6)
    h = ta.sparse_hessian(y, x)
    at = some(x)
    found = h(at)
    assert h.nnz == found.nnz == 16
    inner = 1200 * at**2 + 2
    inner[:-1] -= 400 * at[1:]
    inner[0], inner[-1] = 1200 * at[0] ** 2 - 400 * at[1] + 2, 200.0
    inner[1:-1] += 200
    expected = np.diag(inner) + np.diag(-400 * at[:-1], 1) + np.diag(-400 * at[:-1], -1)
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-12)


def test_the_hessian_over_two_tensors_is_symmetric() -> None:
    x, v = matrix(4, 3), matrix(5, name="V")
    i, j = ta.reduce_axis(4), ta.reduce_axis(3)
    y = ta.compute((), lambda: ta.sum(x[i, j] ** 3 * v[i + j // 2] * v[4], axis=[i, j]))
    found = ta.sparse_hessian(y, [x, v]).evaluate({x: some(x), v: some(v)})
    assert found.nnz < found.shape[0] ** 2 / 2
    assert abs(found - found.T).max() < 1e-12


def test_entries_of_a_large_convolution_are_counted_not_made() -> None:
    x = ta.placeholder((8, 17, 28, 28), name="X")
    w = ta.placeholder((19, 17, 3, 3), name="W")
    j = ta.sparse_jacobian(topi.nn.conv2d(x, w, padding=1), x)
    assert j.shape == (119168, 106624)
    assert j.nnz == 8 * 19 * 17 * (28 * 3 - 2) ** 2 == 17_374_816
    made = j._plan({}).made
    assert isinstance(made, Direct) and made._pattern is None


def test_no_loop_over_entries_asks_where_it_is() -> None:
    n = 50
    u = matrix(2, n, n, name="U")

    def residual(s: Expr, i: Expr, j: Expr) -> Expr:
        around = ta.select(i > 0, u[s, i - 1, j] - u[s, i, j], 0.0)
        around += ta.select(j < n - 1, u[s, i, j + 1] - u[s, i, j], 0.0)
        return u[s, i, j] - 0.1 * around + u[0, i, j] * u[1, i, j] ** 2

    y = ta.compute((2, n, n), residual)
    made = ta.sparse_jacobian(y, u)._plan({}).made
    assert isinstance(made, Direct)
    body = made.program([u]).kernels[-1].body
    found = list(statements(body))
    assert not any(isinstance(s, If) for s in found)
    assert max(_depth(s) for s in body) == 2
    assert sum(isinstance(s, Store) for s in found) < 100
    assert made.nnz == 2 * (n * n * 2 + 2 * n * (n - 1))


def _depth(s: object) -> int:
    return 1 + max(map(_depth, s.body), default=0) if isinstance(s, For) else 0


def test_repeated_fills_share_the_pattern_and_write_where_asked() -> None:
    x = matrix(5, 6)
    f = ta.sparse_jacobian(_stencil(x), x).build(x)
    first = f(some(x))
    data = np.empty(first.nnz)
    second = f(some(x, 1), out=data)
    assert np.shares_memory(second.data, data)
    assert second.indices is first.indices or np.shares_memory(second.indices, first.indices)
    assert f.values(some(x), out=data) is data
    np.testing.assert_array_equal(data, first.data)


def test_symbolic_sizes_are_bound_by_the_call() -> None:
    n = ta.size("n")
    x = ta.placeholder((n,), "float64", name="X")
    y = ta.compute((n,), lambda i: x[i] ** 2 + ta.select(i > 0, x[i - 1], 0.0))
    j = ta.sparse_jacobian(y, x)
    assert j.at(n=10).nnz == 19 and j.at(n=10).shape == (10, 10)
    assert [str(k) for k in j.shape] == ["n", "n"]
    for m in (0, 1, 4):
        found = j(np.ones(m)).toarray()
        np.testing.assert_array_equal(found, 2 * np.eye(m) + np.eye(m, k=-1))
    f = j.build([x])
    for m in (4, 2, 4):
        np.testing.assert_array_equal(f.values(np.ones(m)), [2.0, *[1.0, 2.0] * (m - 1)])
    with pytest.raises(BindError) as problem:
        _ = j.nnz
    assert str(problem.value) == (
        "nnz depends on the symbolic sizes n.\n"
        "  in: <SparseJacobian d compute / d X: n x n>\n"
        "  hint: ask for numbers first: J.at(n=100).nnz"
    )


def test_the_picture_shows_the_pattern() -> None:
    y, x = rosenbrock(1000)
    html = ta.sparse_hessian(y, x)._repr_html_()
    assert "1,000 × 1,000" in html and "2,998 entries" in html
    assert html.count("<path") >= 1 and "<svg" in html
    at = ta.placeholder((3,), "int64", name="I")
    taken = ta.compute((3,), lambda i: x[at[i]])
    text = ta.sparse_jacobian(taken, x)._repr_html_()
    assert "the pattern depends on the data of I." in text and "<svg" not in text


def test_a_missing_scipy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    x = matrix(3)
    j = ta.sparse_jacobian(x * x, x)
    assert j.values(np.ones(3)).tolist() == [2, 2, 2]
    monkeypatch.setitem(sys.modules, "scipy.sparse", None)
    with pytest.raises(MissingPackageError) as problem:
        j(np.ones(3))
    assert str(problem.value) == (
        "sparse matrices need scipy, which is not installed.\n"
        "  hint: pip install 'tensorad[sparse]', or scipy itself."
    )


def test_the_benchmark_counts_its_entries() -> None:
    rows = benchmark.run(["prefix sums", "x[I[i]]"], rounds=1)
    assert [r.nnz for r in rows] == [r.expected for r in rows] == [2_001_000, 400_000]
    assert "fill/copy" in benchmark.table(rows)


def test_patterns_of_many_sizes_are_not_all_kept() -> None:
    n = ta.size("n")
    x = ta.placeholder((n,), "float64", name="X")
    j = ta.sparse_jacobian(ta.compute((n,), lambda i: x[i] ** 2), x)
    for m in range(1, 12):
        assert j(np.ones(m)).nnz == m
    assert len(j._plans) == KEPT_PLANS


def test_wrong_arguments_are_refused_in_words() -> None:
    x = matrix(3)
    with pytest.raises(GradError, match="there are no outputs"):
        ta.sparse_jacobian([], x)
    with pytest.raises(ShapeError, match="sparse_hessian needs a 0-d tensor"):
        ta.sparse_hessian(x, x)
    with pytest.raises(BindError, match="the call passes 2 of 1 arrays"):
        ta.sparse_jacobian(x * x, x)(1, 2)
    with pytest.raises(BuildError, match="input X is listed twice"):
        ta.sparse_jacobian(x * x, x).build([x, x])
    with pytest.raises(BindError, match="unknown size k"):
        ta.sparse_jacobian(x * x, x).at(k=3)


def test_functions_of_one_matrix_take_their_inputs_in_their_own_order() -> None:
    x, w = matrix(4), matrix(4, name="W")
    j = ta.sparse_jacobian(ta.compute((4,), lambda i: x[i] ** 3 * w[i]), x)
    one, two = some(x), some(w, 1)
    expected = 3 * one**2 * two
    np.testing.assert_allclose(j.build([x, w]).values(one, two), expected)
    np.testing.assert_allclose(j.build([w, x]).values(two, one), expected)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_states_after_and_before_steps_and_the_last_one(exclusive: bool, reverse: bool) -> None:
    x, k = matrix(4), axis("k", 0, 4)
    total = sum_combiner(FLOAT64)
    source, start = read(x, (k,)), total.identity
    op = Scan("S", (), (k,), (source * source,), total, start, (4,), (k,), exclusive=exclusive,
              reverse=reverse)  # fmt: skip
    for made in outputs(op):
        found = ta.sparse_jacobian(made, x)(some(x)).toarray()
        np.testing.assert_allclose(found, dense(made, [x], {x: some(x)}))
