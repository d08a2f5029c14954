"""Sparse matrices as HTML: what they are, and where their entries lie."""

from __future__ import annotations

from html import escape
from typing import Any, Final

import numpy as np

from tensorad.display.style import page
from tensorad.errors import BindError, MissingPackageError
from tensorad.sparse import matrix
from tensorad.sparse.matrix import SparseJacobian

_CELLS: Final = 96
"""Cells of the picture along the longer side, at most."""
_PIXELS: Final = 288
"""Length of the longer side."""
_THINNEST: Final = 12
"""Length of the shorter side, at least."""
_LEVELS: Final = 6
"""Shades; the darkest is the densest cell."""
_CURVE: Final = 0.4
"""Exponent from density to shade: single entries stay visible in large matrices."""
_MOST_ENTRIES: Final = 50_000_000
"""Larger patterns are counted, not drawn."""

Grid = np.ndarray[Any, np.dtype[Any]]


def sparsity_html(matrix: SparseJacobian) -> str:
    """Shape, entries and a picture of the pattern, if sizes and data are known."""
    y, x = (", ".join([t.name for t in ts]) for ts in (matrix.outputs, matrix.wrt))
    rows, columns = (f"{n:,}" if isinstance(n, int) else str(n) for n in matrix.shape)
    shape = f"{matrix.dtype} [{escape(rows)} × {escape(columns)}]"
    head = f'<div class="head"><b>d {escape(y)} / d {escape(x)}</b> : {shape} sparse</div>'
    return page(f'<div class="op">{head}{"".join(map(_line, _body(matrix)))}</div>')


def _line(html: str) -> str:
    return f'<div class="line">{html}</div>'


def _body(matrix: SparseJacobian) -> list[str]:
    try:
        nnz = matrix.nnz
    except (BindError, MissingPackageError) as problem:
        return [f'<span class="dim">{escape(str(problem).splitlines()[0])}</span>']
    rows, columns = matrix.shape
    assert isinstance(rows, int) and isinstance(columns, int)  # there is a number of entries
    share = nnz / max(1, rows * columns)
    each = nnz / max(1, rows)
    lines = [f"{nnz:,} entries, {each:.3g} per row, {100 * share:.2g} % of the matrix"]
    if 0 < nnz <= _MOST_ENTRIES:
        indptr, indices = matrix.pattern()
        lines.append(picture(density(indptr, indices, rows, columns), rows, columns))
    return lines


def density(indptr: Grid, indices: Grid, rows: int, columns: int) -> Grid:
    """How many entries lie in each cell of a coarse grid."""
    height, width = _cells(rows, columns)
    of_row = np.arange(rows, dtype=np.int64) * height // rows
    lines = np.repeat(of_row, np.diff(indptr))
    cells = lines * width + indices.astype(np.int64) * width // columns
    return np.bincount(cells, minlength=height * width).reshape(height, width)


def _cells(rows: int, columns: int) -> tuple[int, int]:
    longest = max(rows, columns)
    most = min(longest, _CELLS)
    fit = [min(n, max(1, round(most * n / longest), min(n, 4))) for n in (rows, columns)]
    return fit[0], fit[1]


def picture(counts: Grid, rows: int, columns: int) -> str:
    """Cells with entries as shaded squares, runs of one shade as one."""
    height, width = counts.shape
    longest = max(rows, columns)
    tall, wide = (max(_THINNEST, round(_PIXELS * n / longest)) for n in (rows, columns))
    shade = np.ceil((counts / counts.max()) ** _CURVE * _LEVELS).astype(int)
    paths = []
    for level in range(1, _LEVELS + 1):
        runs = "".join(_runs(shade == level))
        if runs:
            opacity = f"{level / _LEVELS:.2f}"
            paths.append(f'<path d="{runs}" fill="var(--ta-c0)" fill-opacity="{opacity}"/>')
    return (
        f'<svg role="img" aria-label="pattern" width="{wide}" height="{tall}" '
        f'viewBox="0 0 {width} {height}" preserveAspectRatio="none" shape-rendering="crispEdges" '
        f'style="border: 1px solid var(--ta-line); display: block; margin: 4px 0">'
        f"{''.join(paths)}</svg>"
    )


def _runs(cells: Grid) -> list[str]:
    """Horizontal runs of true cells as rectangles of an SVG path."""
    found = []
    for line, row in enumerate(cells):
        edges = np.flatnonzero(np.diff(np.concatenate([[False], row, [False]])))
        for start, stop in zip(edges[::2], edges[1::2], strict=True):
            found.append(f"M{start} {line}h{stop - start}v1h-{stop - start}z")
    return found


matrix.as_html.fill(sparsity_html)
