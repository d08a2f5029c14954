"""Methods of tensors are NumPy's, in programs that are traced and elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import DefinitionError
from tensorad.ir.array_methods import _INSTEAD
from tensorad.ir.arrays.tracing import tracing

A = np.array([[3.0, 0.0, 2.0, 2.0], [1.0, 5.0, 5.0, 1.5], [4.0, 2.0, 7.0, 0.0]])

CASES: dict[str, Callable[[Any], Any]] = {
    "T": lambda x: x.T,
    "transpose": lambda x: x.transpose(),
    "transpose by numbers": lambda x: x.transpose(1, 0),
    "transpose by a tuple": lambda x: x.transpose((0, 1)),
    "reshape": lambda x: x.reshape(2, -1),
    "reshape to a tuple": lambda x: x.reshape((4, 3)),
    "reshape to a row": lambda x: x.reshape(-1),
    "sum": lambda x: x.sum(),
    "sum along": lambda x: x.sum(axis=-1, keepdims=True),
    "sum along both": lambda x: x.sum((0, 1)),
    "sum in": lambda x: x.sum(0, dtype="float32"),
    "mean": lambda x: x.mean(0),
    "mean in": lambda x: x.mean(1, dtype="float32"),
    "prod": lambda x: x.prod(1),
    "max": lambda x: x.max(axis=0),
    "min": lambda x: x.min(1, keepdims=True),
    "argmax": lambda x: x.argmax(1),
    "argmin": lambda x: x.argmin(),
    "any": lambda x: x.any(1),
    "all": lambda x: x.all(0),
    "all of conditions": lambda x: (x > 1.0).all(axis=1),
    "astype": lambda x: x.astype("int64"),
    "product": lambda x: x @ x.T,
    "abs": lambda x: abs(-x),
    "compared": lambda x: (x >= 2.0) & ~(x < 1.0),
    "arrays and numbers": lambda x: A[0] * x + 2 - np.float64(0.5) / (x + np.ones((3, 1))),
    "np.sum": lambda x: np.sum(x, axis=0),
    "np.mean": lambda x: np.mean(x),
    "np.max": lambda x: np.max(x, axis=1, keepdims=True),
    "np.any": lambda x: np.any(x, axis=1),
    "np.argmax": lambda x: np.argmax(x, axis=0),
    "np.transpose": lambda x: np.transpose(x, (1, 0)),
    "np.reshape": lambda x: np.reshape(x, (6, 2)),
}


@pytest.mark.parametrize("name", CASES)
def test_methods_are_numpys(name: str) -> None:
    x = ta.placeholder(A.shape, "float64", name="x")
    wanted = CASES[name](A)
    outside = CASES[name](x)
    with tracing():
        inside = CASES[name](x)
    for y in (outside, inside):
        found = np.asarray(ta.interpret(y, {x: A}))
        assert found.shape == wanted.shape == y.shape
        assert np.allclose(found, wanted) and str(y.dtype) == str(wanted.dtype)


def test_shapes_are_known_without_values() -> None:
    n = ta.size("n")
    x = ta.placeholder((3, 4), name="x")
    assert (x.ndim, x.size, x.shape) == (2, 12, (3, 4))
    assert ta.placeholder((n, 4), name="y").size is n * 4
    assert ta.placeholder((), name="z").size == 1


def test_results_are_not_written_into_arrays() -> None:
    x = ta.placeholder((3,), name="x")
    with pytest.raises(DefinitionError) as caught:
        x.sum(out=np.zeros(()))
    assert str(caught.value) == (
        "sum: a tensor has no out: x is a formula, not an array.\n"
        "  hint: use what is returned: y = x.sum(...)."
    )


def test_elements_are_in_row_major_order() -> None:
    x = ta.placeholder((3, 2), name="x")
    with pytest.raises(DefinitionError) as caught:
        x.reshape(6, order="F")
    assert str(caught.value) == (
        "reshape: order 'F' of x: elements are in row-major order.\n"
        "  hint: x.T.reshape(...) has them in column-major order."
    )


def test_what_to_write_for_methods_that_tensors_lack() -> None:
    x = ta.placeholder(A.shape, "float64", name="x")
    known = {
        "low": 1.0, "high": 4.0, "axis": 1, "n": 2, "order": (1, 0), "value": 3.0, "other": A.T,
        "indices": np.array([2, 0, 0]),
    }  # fmt: skip
    arguments = {
        "clip": (1.0, 4.0), "repeat": (2, 1), "take": (known["indices"], 1), "dot": (A.T,),
        "swapaxes": (0, 1), "cumsum": (1,), "cumprod": (1,), "var": (1,), "std": (1,),
    }  # fmt: skip
    for name, text in _INSTEAD.items():
        if name in ("copy", "fill", "squeeze"):  # in place, or of other shapes
            continue
        y = eval(text.format("x"), {"ta": ta, "topi": ta.topi, "x": x, **known})
        wanted = getattr(A, name)(*arguments.get(name, ()))
        assert np.allclose(ta.interpret(y, {x: A}), wanted), name
