"""Tensors of arrays that are looked at outside of functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import topi
from tensorad.errors import DefinitionError, GradError

X, V = np.linspace(0.2, 1.1, 4), np.linspace(1.0, -1.0, 4)


def unpacked() -> tuple[Any, Any]:
    with ta.dual_level():
        return ta.unpack_dual((ta.make_dual(X, V) ** 2).sum())


def test_numpy_and_python_see_numbers() -> None:
    value, tangent = unpacked()
    total = float((X * X).sum())
    assert math.isclose(float(value), total) and math.isclose(math.sqrt(value), total**0.5)
    assert np.isclose(np.asarray(tangent), (2 * X * V).sum())
    assert np.asarray(value, "float32").dtype == np.float32
    assert f"{value:.2f}" == f"{total:.2f}"
    assert value.item() == float(value) and ta.const(X).tolist() == X.tolist()
    assert bool(value) and int(value) == int(total)
    assert str(value) == str(np.float64(total))
    assert repr(value) == "Tensor(sum, shape=(), dtype=float64)"


def test_elements_are_copies() -> None:
    value = ta.const(X) * 2.0
    first = np.asarray(value)
    first[0] = 7.0
    np.testing.assert_array_equal(value, 2 * X)


def test_integers_count_and_choose() -> None:
    n = topi.argmax(ta.const(X), 0)
    assert list(range(n)) == [0, 1, 2] and "abcd"[n] == "d"
    with ta.dual_level():
        d = ta.make_dual(X, V)
        assert d.sum() > 1
        assert len(d) == 4 and len([*d]) == 4
        np.testing.assert_array_equal(ta.unpack_dual(d[1:])[1], V[1:])


def test_loops_that_data_end_are_known() -> None:
    y = ta.while_loop(lambda c: c.sum() < 100.0, lambda c: c * 2.0, ta.const(X))
    np.testing.assert_allclose(y, X * 64)


def test_what_has_a_tangent_is_not_given_away() -> None:
    with ta.dual_level():
        d = ta.make_dual(X, V)
        for look in (np.asarray, lambda t: t.tolist(), lambda t: float(t.sum())):
            with pytest.raises((GradError, TypeError)):
                look(d)
        value, tangent = ta.unpack_dual(d)
        np.testing.assert_array_equal(value, X)
        np.testing.assert_array_equal(tangent, V)


def test_what_is_not_known_is_refused_as_ever() -> None:
    x = ta.placeholder((), "float64", name="x")
    n = ta.compute((3,), lambda i: x() * i, name="n")
    for look in (float, bool, int, np.asarray):
        with pytest.raises(DefinitionError):
            look(x)
    with pytest.raises(DefinitionError, match="no elements for NumPy"):
        np.asarray(n)
    sized = ta.compute((ta.size("k"),), lambda i: 1.0, name="sized")
    with pytest.raises(DefinitionError, match="no elements for NumPy"):
        np.asarray(sized)


def test_formulas_are_printed_as_formulas() -> None:
    assert str(ta.const(X) * 2.0).startswith("tensor mul")
    value, _ = unpacked()
    assert str(value + 1).startswith("tensor add")


def test_what_is_unpacked_together_is_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[int] = []

    def evaluate(ts: Any, given: Any) -> Any:
        built.append(len(ts))
        return ta.evaluate(ts, given)

    monkeypatch.setattr("tensorad.levels.looking.evaluate", evaluate)
    value, tangent = unpacked()
    assert not built
    assert float(tangent) and float(value) and np.asarray(value) and built == [2]
