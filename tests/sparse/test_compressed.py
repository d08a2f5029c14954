"""Jacobians whose pattern is found at run time, or whose entries are compressed."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad import topi
from tensorad.errors import BindError, ShapeError
from tensorad.sparse.compressed import Compressed
from tests.sparse.test_sparse import _stencil, _union, check, matrix, some


def test_indices_from_data_are_compressed() -> None:
    x, at = matrix(6, 4), ta.placeholder((5,), "int64", name="I")
    y = ta.compute((5, 4), lambda i, j: x[at[i], j] * x[i, j])
    positions = np.array([3, 0, 0, 5, 2])
    j = check(y, [x], {x: some(x), at: positions}, Compressed)
    assert j._plan({}).made.directions == 2  # rows of x are read in pairs
    with pytest.raises(BindError) as problem:
        _ = j.nnz
    assert str(problem.value) == (
        "the pattern depends on the data of I.\n"
        "  in: the index I[i] between X and compute is not affine\n"
        "  hint: pass the arrays of a call: J.pattern(*arrays)."
    )
    indptr, indices = j.build([x, at]).pattern(some(x), positions)
    assert len(indptr) == 21 and len(indices) == 40


def test_a_pattern_by_data_follows_the_data() -> None:
    x, at = matrix(4), ta.placeholder((3,), "int64", name="I")
    f = ta.sparse_jacobian(ta.compute((3,), lambda i: x[at[i]] ** 2), x).build([x, at])
    with pytest.raises(ShapeError, match=r"out\[0\] has shape \(2,\), expected \(3,\)"):
        f.values(some(x), [0, 1, 2], out=np.empty(2))
    for positions in ([0, 1, 2], [3, 3, 0]):
        expected = np.zeros((3, 4))
        expected[range(3), positions] = 2 * some(x)[positions]
        np.testing.assert_allclose(f(some(x), positions).toarray(), expected)


def test_a_dense_row_is_compressed_by_rows() -> None:
    x, at = matrix(40), ta.placeholder((40,), "int64", name="I")
    k = ta.reduce_axis(40)
    y = ta.compute((2,), lambda i: ta.sum(x[at[k]] * (x[at[k]] + i), axis=k))
    j = check(y, [x], {x: some(x), at: np.arange(40)[::-1].copy()}, Compressed)
    assert j._plan({}).made.directions == 2


def test_a_triangle_packed_in_a_vector_is_found_at_run_time() -> None:
    x = matrix(21)
    y = ta.compute((6, 6), lambda i, j: ta.select(j <= i, x[i * (i + 1) // 2 + j] ** 2, 0.0))
    j = check(y, [x], {x: some(x)}, Compressed)
    assert j.nnz == 21


def test_scatters_at_positions_from_data() -> None:
    x, at = matrix(5, 3), ta.placeholder((5,), "int64", name="I")
    y = ta.scatter((4,), (5,), lambda p: (at[p], x[p, 1] * x[p, 2]))
    check(y, [x], {x: some(x), at: np.array([1, 1, 3, 0, 1])}, Compressed)


@pytest.mark.parametrize("fold", ["prod", "max"])
def test_other_prefix_folds_are_compressed(fold: str) -> None:
    x = matrix(3, 4)
    j = check(ta.scan(x, 1, fold), [x], {x: some(x)}, Compressed)
    assert j.nnz == 3 * 10


@pytest.mark.slow
def test_deep_sums_are_compressed() -> None:
    x = matrix(2, 9)
    w = ta.const(np.cos(np.arange(81.0)).reshape(9, 9))
    y = x
    for _ in range(3):
        y = topi.tanh(topi.matmul(y, w))
    j = check(y, [x], {x: some(x)}, Compressed)
    assert j._plan({}).made.reason == "its entries are long sums"
    assert j.nnz == 2 * 81


def test_without_short_loops_columns_are_compressed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensorad.sparse.direct.MOST_POINTS", 3)
    x = matrix(5, 6)
    j = check(_stencil(x), [x], {x: some(x)}, Compressed)
    assert j._plan({}).made.reason == "isl found no short loops over the entries"


def test_entries_of_too_many_kinds_are_compressed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensorad.sparse.cells.MOST_CELLS", 3)
    x = matrix(5, 6)
    j = check(_union(x), [x], {x: some(x)}, Compressed)
    assert "kinds" in j._plan({}).made.reason


def test_patterns_by_data_are_found_again_where_an_array_was_changed() -> None:
    """By columns, by rows, and by columns again; the array of positions is one."""
    x, at, k = matrix(4), ta.placeholder((2, 2), "int64", name="I"), ta.reduce_axis(2)
    y = ta.compute((2,), lambda i: ta.sum(x[at[i, k]] ** 2, axis=k))
    f = ta.sparse_jacobian(y, x).build([x, at])
    positions = np.zeros((2, 2), np.int64)
    for new in ([[0, 1], [2, 3]], [[0, 0], [0, 0]], [[1, 1], [2, 2]], [[3, 2], [0, 1]]):
        positions[:] = new
        expected = np.zeros((2, 4))
        np.add.at(expected, (np.arange(2)[:, None], positions), 2 * some(x)[positions])
        np.testing.assert_allclose(f(some(x), positions).toarray(), expected)
