"""`x.at[...]`: copies of tensors with other elements, against NumPy's assignments."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorad as ta
from tensorad.errors import BoundsError
from tensorad.ir.arrays.tracing import tracing
from tensorad.ir.expr import local_size
from tensorad.ir.tensor import Scatter, Tensor, dim_expr
from tests.support.programs.keys import Key, keys, numbered

UFUNCS: Final = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}


def changed(method: str, a: np.ndarray, key: Any, v: Any) -> np.ndarray:
    """What NumPy makes of it."""
    result = np.array(a)
    if method == "set":
        result[key] = v
    else:
        UFUNCS[method].at(result, key, v)
    return result


@given(keys(), st.sampled_from(["set", *UFUNCS]), st.sampled_from(["number", "all", "last"]))
def test_any_index_changes_what_numpy_changes(key: Key, method: str, of: str) -> None:
    x = ta.placeholder(key.shape, "float64", name="x")
    a = numbered(key.shape)
    selected = a[key.plain].shape
    own = {"number": (), "all": selected, "last": selected[-1:]}[of]
    v = ta.placeholder(own, "float64", name="v")
    values = numbered(own) % 5 - 1.5
    y = x.at[key.traced].__getattribute__(method)(v)
    found = ta.interpret(y, {x: a, v: values, **key.arrays})
    assert np.array_equal(found, changed(method, a, key.plain, values))


@given(keys(), st.sampled_from(["set", "add"]))
def test_the_gradient_goes_to_what_was_kept_and_to_the_values(key: Key, method: str) -> None:
    x = ta.placeholder(key.shape, "float64", name="x")
    a = numbered(key.shape)
    places = numbered(key.shape)[key.plain].astype(int)
    v = ta.placeholder(places.shape, "float64", name="v")
    head = ta.placeholder(key.shape, "float64", name="h")
    y = x.at[key.traced].__getattribute__(method)(v)
    dx, dv = ta.vjp(y, [x, v], head)
    h = numbered(key.shape) + 1.0
    arrays = {x: a, v: numbered(places.shape), head: h, **key.arrays}
    kept = changed("set", h, key.plain, 0.0) if method == "set" else h
    assert np.array_equal(ta.interpret(dx, arrays), kept)
    last = {int(p): n for n, p in enumerate(places.flat)}  # of equal places the last one stays
    stays = np.array([last[int(p)] == n for n, p in enumerate(places.flat)], bool)
    taken = h[key.plain]
    if method == "set":
        taken = taken * stays.reshape(places.shape)
    assert np.array_equal(ta.interpret(dv, arrays), taken)


@pytest.mark.parametrize("method", ["set", *UFUNCS])
@pytest.mark.parametrize("key", [np.s_[1], np.s_[::2, 1:], np.s_[[2, 0, 2]]])
def test_compiled_changes_are_numpys(method: str, key: Any) -> None:
    x, v = ta.placeholder((3, 4), name="x"), ta.placeholder((), name="v")
    a = numbered((3, 4)).astype(np.float32)
    y = x.at[key].__getattribute__(method)(v)
    found = ta.evaluate(y, {x: a, v: np.float32(2.5)})
    assert np.array_equal(found, changed(method, a, key, np.float32(2.5)))


def test_arrays_numbers_and_sizes_are_values() -> None:
    x, n = ta.placeholder((3, 4), "float64", name="x"), ta.size("n")
    a = numbered((3, 4))
    row = np.array([1.0, 2.0, 3.0, 4.0], np.float32)
    for value in (row, [1, 2, 3, 4], 2, np.float32(0.5), np.array(7)):
        y = x.at[1].set(value)
        assert y.dtype is x.dtype
        assert np.array_equal(ta.interpret(y, {x: a}), changed("set", a, 1, value))
    found = ta.interpret(x.at[:, 0].add(n), {x: a}, sizes={"n": 3})
    assert np.array_equal(found, changed("add", a, np.s_[:, 0], 3))
    m = ta.placeholder((3,), "int8", name="m")
    assert np.array_equal(
        ta.interpret(m.at[0].add(5), {m: np.array([1, 2, 3], np.int8)}), [6, 2, 3]
    )


def test_a_window_is_a_choice_at_each_index_and_data_scatters() -> None:
    x, t = ta.placeholder((6, 2), name="x"), local_size("t", dim_expr(6))
    i = ta.placeholder((), "int64", name="i")
    row = x.at[t].set(0.0)
    assert str(row).splitlines()[-1].strip() == f"select(i0 == {t}, 0.0, x[i0, i1])"
    assert isinstance(x.at[i].set(0.0).op, Scatter)
    assert isinstance(x.at[[0, 0]].add(1.0).op, Scatter)


def test_places_are_checked_though_nothing_is_read_there() -> None:
    n = ta.size("n")
    x = ta.placeholder((n,), name="x")
    y = x.at[3].set(1.0)
    a = np.zeros(5, np.float32)
    assert np.array_equal(ta.evaluate(y, {x: a}), [0, 0, 0, 1, 0])
    with pytest.raises(BoundsError):
        ta.evaluate(y, {x: a[:3]})
    p = ta.placeholder((2,), "int64", name="p")
    with pytest.raises(BoundsError):
        ta.evaluate(x.at[p].set(1.0), {x: a, p: np.array([0, 5])})


def test_a_running_state_by_at() -> None:
    x = ta.placeholder((5,), "float64", name="x")
    with tracing():
        y = x
        for t in range(1, len(x)):
            y = y.at[t].add(y[t - 1])
    assert isinstance(y, Tensor)
    a = numbered((5,)) + 1.0
    assert np.array_equal(ta.interpret(y, {x: a}), a.cumsum())
    (dx,) = ta.vjp(y, [x], ta.compute((5,), lambda i: ta.const(1.0, "float64")))
    assert np.array_equal(ta.interpret(dx, {x: a}), [5, 4, 3, 2, 1])
