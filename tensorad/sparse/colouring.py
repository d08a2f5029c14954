"""Columns that may share a direction: no row has entries in two columns of one colour.

Method: the greedy sequential colouring of A. R. Curtis, M. J. D. Powell and J. K. Reid, "On the
Estimation of Sparse Jacobian Matrices" (IMA J. Appl. Math. 13, 1974), as compiled loops.
"""

from __future__ import annotations

import numpy as np

from tensorad.codegen.loops.ir import Assign, For, If, Kernel, LoopProgram, Stmt, Store
from tensorad.codegen.runtime.arena import Array
from tensorad.compiled import CompiledFunction
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import ONE, ZERO, Axis, add, axis, call, int_const, param, read, select
from tensorad.ir.leaves import size_var
from tensorad.ir.tensor import Placeholder, Tensor, outputs
from tensorad.process import memoised


def colour_columns(pointers: Array, columns: Array, width: int) -> Array:
    """A colour per column of a CSR pattern, counted from 0.

    Two columns with entries in one row get different colours; columns without entries get 0.
    """
    if width == 0:
        return np.zeros(0, np.int64)
    starts, rows = transposed(pointers, columns, width)
    indptr, indices = pointers.astype(np.int64), columns.astype(np.int64)
    found: Array = _greedy()(indptr, indices, starts, rows)[0]
    return found


def transposed(pointers: Array, columns: Array, width: int) -> tuple[Array, Array]:
    """The CSR pattern of the transposed matrix, as 64-bit integers."""
    counts = np.bincount(columns, minlength=width)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
    rows = np.repeat(np.arange(len(pointers) - 1, dtype=np.int64), np.diff(pointers))
    return starts, rows[np.argsort(columns, kind="stable")]


@memoised()
def _greedy() -> CompiledFunction:
    """(indptr, indices, starts, rows) -> (colour per column, scratch)."""
    n_rows, n_columns, nnz = size_var("rows"), size_var("columns"), size_var("entries")
    indptr, indices = _integers("indptr", n_rows + 1), _integers("indices", nnz)
    starts, rows = _integers("starts", n_columns + 1), _integers("row_of", nnz)
    colour, seen = _integers("colour", n_columns), _integers("seen", n_columns)
    first = axis("j", 0, n_columns)
    column = axis("j", 0, n_columns)
    position = axis("p", read(starts, (column,)), read(starts, (add(column, ONE),)))
    row = read(rows, (position,))
    entry = axis("q", read(indptr, (row,)), read(indptr, (add(row, ONE),)))
    taken = read(colour, (read(indices, (entry,)),))
    used, best = param("used", INT64), param("best", INT64)
    candidate = axis("c", 0, used)
    free = call("ne", read(seen, (candidate,)), column)
    smaller = call("minimum", best, candidate)
    none = int_const(-1)
    body: tuple[Stmt, ...] = (
        For(first, (Store((colour,), (first,), (none,)), Store((seen,), (first,), (none,)))),
        Assign((used,), (ZERO,)),
        For(
            column,
            (
                _loop(
                    position, _loop(entry, If(taken >= 0, (Store((seen,), (taken,), (column,)),)))
                ),
                Assign((best,), (used,)),
                _loop(candidate, Assign((best,), (select(free, smaller, best),))),
                Store((colour,), (column,), (best,)),
                Assign((used,), (call("maximum", used, add(best, ONE)),)),
            ),
        ),
    )
    reads = (indptr, indices, starts, rows)
    kernel = Kernel("colouring", body, (colour, seen), reads)
    return CompiledFunction([colour, seen], LoopProgram(reads, (colour, seen), (kernel,)), "colour")


def _loop(a: Axis, *body: Stmt) -> For:
    return For(a, body)


def _integers(name: str, extent: object) -> Tensor:
    return outputs(Placeholder(name, (extent,), INT64))[0]  # type: ignore[arg-type]
