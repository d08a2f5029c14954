"""Tensors of a traced program are indexed, iterated over and computed with as NumPy's arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorad as ta
from tensorad import topi
from tensorad.errors import BoundsError
from tensorad.ir.arrays.tracing import in_formula, is_tracing, tracing
from tensorad.ir.expr import local_size
from tensorad.ir.tensor import Tensor, dim_expr
from tensorad.te.selection import selection
from tests.support.profiled import number_of_calls
from tests.support.programs.keys import Key, keys, numbered


def value(y: Tensor, arrays: dict[Tensor, Any]) -> np.ndarray:
    return np.asarray(ta.interpret(y, arrays))


@given(keys())
def test_any_index_selects_what_numpy_selects(key: Key) -> None:
    x = ta.placeholder(key.shape, name="x")
    with tracing():
        y = x[key.traced]
    assert isinstance(y, Tensor)
    a = numbered(key.shape)
    wanted = a[key.plain]
    assert y.shape == wanted.shape
    assert np.array_equal(value(y, {x: a, **key.arrays}), wanted)


@given(keys(), st.data())
def test_the_gradient_of_what_is_selected_adds_up_where_it_came_from(
    key: Key, data: st.DataObject
) -> None:
    x = ta.placeholder(key.shape, "float64", name="x")
    with tracing():
        y = x[key.traced]
    a, wanted = numbered(key.shape), np.zeros(key.shape)
    h = numbered(a[key.plain].shape) + 1.0
    np.add.at(wanted, key.plain, h)
    head = ta.placeholder(h.shape, "float64", name="h")
    (dx,) = ta.vjp(y, [x], head)
    assert np.array_equal(value(dx, {x: a, head: h, **key.arrays}), wanted)


@pytest.mark.parametrize("key", [np.s_[1], np.s_[:, ::-2], np.s_[[2, 0, -1]], np.s_[1:, None, 2]])
def test_compiled_parts_are_those_of_the_interpreter(key: Any) -> None:
    x = ta.placeholder((3, 5), name="x")
    with tracing():
        y = x[key]
    a = numbered((3, 5)).astype(np.float32)
    assert np.array_equal(ta.evaluate(y, {x: a}), a[key])


def test_places_that_are_data_count_from_the_end_and_are_checked() -> None:
    x = ta.placeholder((4, 3), name="x")
    i, p = ta.placeholder((), "int64", name="i"), ta.placeholder((2,), "int64", name="p")
    with tracing():
        y = x[p, i]
    a = numbered((4, 3)).astype(np.float32)
    found = ta.evaluate(y, {x: a, p: np.array([-1, 2]), i: np.array(-3)})
    assert np.array_equal(found, a[[-1, 2], -3])
    with pytest.raises(BoundsError):
        ta.evaluate(y, {x: a, p: np.array([0, 4]), i: np.array(0)})
    with pytest.raises(BoundsError):
        ta.evaluate(y, {x: a, p: np.array([0, 0]), i: np.array(-4)})


def test_sizes_and_counters_are_indices() -> None:
    n = ta.size("n")
    x = ta.placeholder((n, 3), name="x")
    t = local_size("t", dim_expr(n))
    with tracing():
        last, middle, row, backwards = x[-1], x[1:-1], x[t], x[n - 1 - t]
    assert middle.shape == (n - 2, 3)
    a = numbered((5, 3))
    assert np.array_equal(value(last, {x: a}), a[-1])
    assert np.array_equal(value(middle, {x: a}), a[1:-1])
    assert f"x[{t}, i0]" in str(row) and "select" not in str(backwards)


def test_a_counter_below_0_counts_from_the_end() -> None:
    x = ta.placeholder((6,), "float64", name="x")
    t = ta.size("k")
    with tracing():
        y = x[t - 2]
    for k in range(6):
        found = ta.interpret(y, {x: numbered((6,))}, sizes={"k": k})
        assert found == numbered((6,))[k - 2]


def test_a_window_at_a_counter_has_a_fixed_extent() -> None:
    x = ta.placeholder((9, 2), name="x")
    t = local_size("t", dim_expr(7))
    with tracing():
        assert x[t : t + 3].shape == (3, 2)
        assert x[2 * t + 4 : 2 * t : -2].shape == (2, 2)


def test_a_fixed_number_of_elements_from_a_place_that_is_data() -> None:
    x, i = ta.placeholder((9,), name="x"), ta.placeholder((), "int64", name="i")
    with tracing():
        y = x[i + topi.arange(3)]
    a = numbered((9,))
    assert np.array_equal(value(y, {x: a, i: np.array(4)}), a[4:7])


def test_an_index_tensor_that_is_a_formula_is_written_out() -> None:
    x = ta.placeholder((5,), name="x")
    with tracing():
        y = x[topi.arange(4) + 1]
        z = x[2 * topi.arange(2) + topi.arange(2)]
    assert "x[i0 + 1]" in str(y) and "arange" not in str(z)
    assert np.array_equal(value(z, {x: numbered((5,))}), numbered((5,))[[0, 3]])


def test_all_of_a_tensor_is_the_tensor() -> None:
    x = ta.placeholder((4, 3), name="x")
    with tracing():
        assert x[:] is x and x[...] is x and x[()] is x and x[0:4, :3] is x
        assert x[::-1] is not x and x[:, None] is not x


def test_names_say_what_is_selected_and_do_not_grow() -> None:
    x = ta.placeholder((4, 3), name="x")
    with tracing():
        assert [y.name for y in (x[0], x[1:], x[0, 0], x[[0, 1]])] == [
            "x_row", "x_part", "x_item", "x_gathered",
        ]  # fmt: skip
        assert x[1:][1:][0].name == "x_row"


def test_rows_and_length_are_those_of_an_array() -> None:
    x = ta.placeholder((2, 3), name="x")
    with tracing():
        a, b = x
        rows = list(x)
    assert len(rows) == 2 and a.shape == b.shape == (3,)
    assert np.array_equal(value(b, {x: numbered((2, 3))}), numbered((2, 3))[1])
    with tracing():
        assert len(x) == 2


def test_formulas_inside_of_a_program_read_elements() -> None:
    x = ta.placeholder((4, 3), name="x")
    k = ta.reduce_axis(3)
    with tracing():
        total = ta.compute((4,), lambda i: ta.sum(x[i, k], axis=k))
        moved = ta.scatter((4,), (4,), lambda i: (3 - i, x[i, 0]))
        outside = x[0, k]
        assert is_tracing()
        with in_formula():
            assert not is_tracing()
    assert not is_tracing() and str(outside) == "x[0, k]"
    a = numbered((4, 3))
    assert np.array_equal(value(total, {x: a}), a.sum(1))
    assert np.array_equal(value(moved, {x: a}), a[::-1, 0])


def test_sizes_beside_tensors_of_one_element_are_numbers() -> None:
    s, x = ta.placeholder((), "float64", name="s"), ta.placeholder((3,), "float64", name="x")
    n = ta.size("n")
    with tracing():
        made = [s * n, n * s, n - s, x * n, n / x, s + n * 0.5, ta.maximum(s, n), n < s]
        made += [ta.select(n > 2, s, 0.0), ta.select(s > 1.0, n, 2)]
    a = np.array([1.0, 2.0, 4.0])
    wanted = [6.0, 6.0, 1.0, a * 3, 3 / a, 3.5, 3.0, False, 2.0, 3]
    for y, w in zip(made, wanted, strict=True):
        assert isinstance(y, Tensor)
        found = ta.interpret(y, {s: 2.0, x: a}, sizes={"n": 3})
        assert np.array_equal(found, w)


def test_a_row_is_read_and_its_adjoint_written_once() -> None:
    x, t = ta.placeholder((64, 32), name="x"), ta.size("t")
    ta.assume(t < 64)
    with tracing():
        row = x[t]
    assert ta.work(row).iterations == 32
    (dx,) = ta.vjp(row, [x], ta.placeholder((32,), name="h"))
    assert ta.work(dx) == ta.Work(iterations=64 * 32, multiplications=0, elements=64 * 32)
    assert "sum" not in str(dx)


def test_parts_of_an_index_are_counted_once() -> None:
    """Twice the axes, twice the work."""
    given = [ta.placeholder((2,) * n, name="X") for n in (10, 20, 40, 80)]
    _, *counts = [number_of_calls(lambda x=x: selection(x, None)) for x in given]
    first, second = np.diff(counts)
    assert second <= 2.2 * first, counts
