"""Temporaries of a group go to scratch: each thread holds the rows it works on."""

from __future__ import annotations

import pytest

from tensorad import te
from tensorad.codegen.loops.ir import For, Store
from tensorad.codegen.loops.relocate import Place, moved
from tensorad.codegen.loops.vector_loops import statements
from tensorad.ir.expr import axis, read
from tests.support.loops.small_loops import check_stores, inputs_of

X = te.placeholder((6, 5), "float64", name="X")


@pytest.mark.parametrize("beside", [False, True])
def test_rows_of_a_temporary_are_where_their_thread_is(beside: bool) -> None:
    d = te.compute((6, 5), lambda i, j: X[i, j] * 2.0, name="D")
    y = te.compute((6, 5), lambda i, j: d[i, 4 - j] + 1.0, name="Y")
    row = te.placeholder((5,), "float64", name="R")
    i, j, k = axis("i", 0, 6), axis("j", 0, 5), axis("k", 0, 5)
    fill = For(j, (Store((d,), (i, j), (read(X, (i, j)) * 2.0,)),))
    use = For(k, (Store((y,), (i, k), (read(d, (i, 4 - k)) + 1.0,)),))
    place = Place(row, ((1, None),), beside)
    body = moved((For(i, (fill, use)),), {d: place})
    stored = [t for s in statements(body) if isinstance(s, Store) for t in s.tensors]
    assert stored == ([d, row, y] if beside else [row, y])
    assert d not in inputs_of(body)
    assert moved((fill,), {}) == (fill,)
    if not beside:
        check_stores(body, y, X, scratch=[row])


def test_indices_are_counted_from_where_rows_begin() -> None:
    i, j, begin = axis("i", 0, 6), axis("j", 0, 5), axis("b", 0, 6)
    place = Place(X, ((0, begin), (1, None)))
    first, second = place.indices((begin + 2, j))
    assert str(first) == "2"
    assert second is j
    assert str(place.indices((i, j))[0]) == "i - b"
