"""Order and the largest elements, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tensorad import te, topi
from tensorad.building import build
from tensorad.checking import gradcheck
from tensorad.errors import DefinitionError

rng = np.random.default_rng(8)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_positions_in_order(axis: int, dtype: str) -> None:
    x = te.placeholder((7, 5), dtype, name="X")
    xs = rng.integers(-3, 3, (7, 5)).astype(dtype)
    found = build([topi.argsort(x, axis), topi.argsort(x, axis, True)], [x])(xs)
    assert found[0].tolist() == np.argsort(xs, axis, kind="stable").tolist()
    assert found[1].tolist() == np.argsort(-xs, axis, kind="stable").tolist()


def test_nan_comes_last() -> None:
    x = te.placeholder((5,), name="X")
    sorts = build([topi.argsort(x), topi.argsort(x, descending=True)], [x])
    nan, inf = np.nan, np.inf
    for values, order in (
        ([nan, 2, -inf, nan, 1], [2, 4, 1, 0, 3]),
        ([2, nan, -inf, nan, 1], [2, 4, 0, 1, 3]),
    ):
        xs = np.array(values, np.float32)
        rising, falling = sorts(xs)
        assert rising.tolist() == np.argsort(xs, kind="stable").tolist() == order
        assert falling.tolist() == [*order[3:], *order[2::-1]]


@pytest.mark.parametrize("largest", [True, False])
def test_the_largest_of_symbolic_rows(largest: bool) -> None:
    n = te.size("n")
    x = te.placeholder((n, n), name="X")
    values, places = topi.top_k(x, 2, 0, largest)
    xs = rng.standard_normal((6, 6)).astype(np.float32)
    order = np.argsort(-xs if largest else xs, 0)[:2]
    found = build([values, places], [x])(xs)
    assert found[1].tolist() == order.tolist()
    assert found[0].tolist() == np.take_along_axis(xs, order, 0).tolist()


def test_gradients_go_to_the_elements_that_are_chosen() -> None:
    x = te.placeholder((3, 4), "float64", name="X")
    xs = rng.permutation(12).reshape(3, 4).astype(float)
    gradcheck(topi.top_k(x, 2, 1)[0], [x], arrays={x: xs})


@pytest.mark.parametrize("descending", [False, True])
def test_elements_in_order(descending: bool) -> None:
    x = te.placeholder((4, 6), "float64", name="X")
    xs = rng.integers(-3, 3, (4, 6)).astype(float)
    y = topi.sort(x, 0, descending)
    want = -np.sort(-xs, 0) if descending else np.sort(xs, 0)
    assert build(y, [x])(xs).tolist() == want.tolist()
    gradcheck(y, [x], arrays={x: rng.permutation(24).reshape(4, 6).astype(float)})


def test_more_than_there_are() -> None:
    x = te.placeholder((3, 4), name="X")
    with pytest.raises(DefinitionError) as error:
        topi.top_k(x, 5, 1)
    assert str(error.value) == (
        "top_k: axis 1 of X has 4 elements, not 5.\n  hint: take at most as many as there are."
    )


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]),
        ("i...,i...", [(3, 2), (3, 2)]),
        ("...,...", [(3, 1), (2,)]),
        ("a...->...", [(3, 2, 2)]),
        ("...i->i...", [(1, 2, 3)]),
        ("ij,...", [(2, 3), (1,)]),
    ],
)
def test_products_over_axes_without_letters(subscripts: str, shapes: list[tuple[int, ...]]) -> None:
    tensors = [te.placeholder(s, "float64", name=f"T{n}") for n, s in enumerate(shapes)]
    arrays = [rng.standard_normal(s) for s in shapes]
    found = build(topi.einsum(subscripts, *tensors), tensors)(*arrays)
    np.testing.assert_allclose(found, np.einsum(subscripts, *arrays), rtol=1e-12)


@pytest.mark.parametrize("subscripts", ["..i,ij", "...i...,ij", "...ij->ij", "...ijkl,ij"])
def test_odd_ellipses(subscripts: str) -> None:
    x = te.placeholder((2, 2, 2), name="X")
    y = te.placeholder((2, 2), name="Y")
    with pytest.raises(DefinitionError, match=r"^einsum: "):
        topi.einsum(subscripts, *([x, y] if "," in subscripts else [x]))
