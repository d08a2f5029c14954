"""SciPy's sparse arrays: the only importer of scipy, which is an optional dependency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorad.codegen.runtime.arena import Array
from tensorad.errors import MissingPackageError


def _sparse() -> Any:
    try:
        import scipy.sparse
    except ImportError as error:
        raise MissingPackageError(
            "sparse matrices need scipy, which is not installed.",
            hint="pip install 'tensorad[sparse]', or scipy itself.",
        ) from error
    return scipy.sparse


def csr_array(data: Array, indices: Array, indptr: Array, shape: tuple[int, int]) -> Any:
    """The matrix over these very arrays."""
    made = _sparse().csr_array((data, indices, indptr), shape=shape, copy=False)
    made.has_sorted_indices = True
    made.has_canonical_format = True
    return made


def ones_at(rows: Array, columns: Array, shape: tuple[int, int]) -> Any:
    """The boolean matrix that is true at these places (which may repeat)."""
    data = np.ones(len(rows), np.bool_)
    made = _sparse().csr_array((data, (rows, columns)), shape=shape)
    made.sum_duplicates()
    return made


def stacked_pattern(parts: Sequence[tuple[Any, int]], width: int) -> tuple[Array, Array]:
    """(indptr, indices) of boolean matrices (None: without entries) of given heights on top of
    each other, columns in order."""
    pointers: list[Array] = [np.zeros(1, np.int64)]
    columns: list[Array] = [np.zeros(0, np.int64)]
    for part, height in parts:
        at = pointers[-1][-1]
        if part is None:
            pointers.append(np.full(height, at, np.int64))
            continue
        part.sum_duplicates()
        pointers.append(part.indptr[1:].astype(np.int64) + at)
        columns.append(part.indices.astype(np.int64))
    return np.concatenate(pointers), np.concatenate(columns)
