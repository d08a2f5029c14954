"""Calls with unusual arguments: the stub leaves them, and their errors, to Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tensorad.compiled import CompiledFunction
from tensorad.config import override
from tensorad.errors import BindError, DTypeError, ShapeError
from tests.codegen.entry.test_stub import Array, X, Y, adder, both, floats, python_calls


class Mine(np.ndarray):  # type: ignore[type-arg]
    """A subclass of arrays."""


def misaligned(values: Array) -> Array:
    block = np.zeros(values.nbytes + 1, np.uint8)
    view = block[1:].view(values.dtype)
    view[...] = values
    return view


INPUTS: list[tuple[str, Callable[[], object]]] = [
    ("list", lambda: [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
    ("subclass", lambda: X.view(Mine)),
    ("big-endian", lambda: X.astype(">f4")),
    ("other dtype", lambda: X.astype(np.float16)),
    ("strided", lambda: np.repeat(X, 2)[::2]),
    ("backwards", lambda: X[::-1].copy()[::-1]),
    ("misaligned", lambda: misaligned(X)),
    ("distinct dtype object", lambda: X.astype(np.dtype("f4", metadata={"a": 1}))),
]


@pytest.mark.parametrize(("name", "make"), INPUTS, ids=[n for n, _ in INPUTS])
def test_unusual_inputs_go_through_python(name: str, make: Callable[[], object]) -> None:
    f = adder(6)
    f(X, Y)
    for position in (0, 1):
        arguments: list[object] = [Y, Y]
        arguments[position] = make()
        assert python_calls(lambda a=arguments: f(*a)) > 0  # type: ignore[misc]
        result = f(*arguments)
        assert type(result) is np.ndarray
        np.testing.assert_array_equal(result, X + Y)


def test_read_only_inputs_are_fine() -> None:
    f, x = adder(6), X.copy()
    x.flags.writeable = False
    f(x, Y)
    assert python_calls(lambda: f(x, Y)) == 0


OUTPUTS: list[tuple[str, Callable[[], Any]]] = [
    ("strided", lambda: np.empty(12, "f")[::2]),
    ("misaligned", lambda: misaligned(X)),
    ("subclass", lambda: np.empty(6, "f").view(Mine)),
    ("list of a subclass", lambda: [np.empty(6, "f").view(Mine)]),
]


@pytest.mark.parametrize(("name", "make"), OUTPUTS, ids=[n for n, _ in OUTPUTS])
def test_unusual_outputs_go_through_python(name: str, make: Callable[[], Any]) -> None:
    f, out = adder(6), make()
    f(X, Y)
    assert python_calls(lambda: f(X, Y, out=out)) > 0
    np.testing.assert_array_equal(f(X, Y, out=out), X + Y)
    np.testing.assert_array_equal(np.ravel(out), X + Y)


def read_only() -> Array:
    out = np.empty(6, "f")
    out.flags.writeable = False
    return out


ERRORS: list[tuple[str, type[Exception], Callable[[CompiledFunction], object]]] = [
    ("too few", BindError, lambda f: f(X)),
    ("too many", BindError, lambda f: f(X, Y, Y)),
    ("none", BindError, lambda f: f()),
    ("unknown keyword", BindError, lambda f: f(X, Y, n=3)),
    ("two keywords", BindError, lambda f: f(X, Y, out=np.empty(6, "f"), n=3)),
    ("rank", ShapeError, lambda f: f(X, Y.reshape(2, 3))),
    ("shape", ShapeError, lambda f: f(X, floats(7))),
    ("dtype", DTypeError, lambda f: f(X, Y.astype(np.float64))),
    ("no array", BindError, lambda f: f(X, None)),
    ("read-only out", BindError, lambda f: f(X, Y, out=read_only())),
    ("out of another shape", ShapeError, lambda f: f(X, Y, out=np.empty(7, "f"))),
    ("out of another rank", ShapeError, lambda f: f(X, Y, out=np.empty((6, 1), "f"))),
    ("out of another dtype", DTypeError, lambda f: f(X, Y, out=np.empty(6))),
    ("no out", BindError, lambda f: f(X, Y, out=[])),
    ("two outs", BindError, lambda f: f(X, Y, out=[np.empty(6, "f"), np.empty(6, "f")])),
    ("a number as out", BindError, lambda f: f(X, Y, out=3)),
    ("None in out", BindError, lambda f: f(X, Y, out=[None])),
    ("overlap with an input", BindError, lambda f: (lambda a: f(a, Y, out=a))(X.copy())),
    ("overlap by an element", BindError,
     lambda f: (lambda a: f(X, a[:6], out=a[5:11]))(np.ones(11, "f"))),
]  # fmt: skip


@pytest.mark.parametrize(("name", "error", "act"), ERRORS, ids=[n for n, _, _ in ERRORS])
def test_errors_are_those_of_python(
    name: str, error: type[Exception], act: Callable[[CompiledFunction], object]
) -> None:
    with override(native_calls=False):
        slow = adder(6)
    fast = adder(6)
    fast(X, Y)
    texts = []
    for f in (slow, fast):
        with pytest.raises(error) as raised:
            act(f)
        texts.append(str(raised.value))
    assert texts[0] == texts[1]
    assert python_calls(lambda: fast(X, Y)) == 0


def test_outputs_must_not_overlap_each_other() -> None:
    f, block = both(), np.empty(11, "f")
    f(X, Y)
    with pytest.raises(BindError, match="overlaps"):
        f(X, Y, out=[block[:6], block[5:]])
    neighbours = np.empty(12, "f")
    f(X, Y, out=[neighbours[:6], neighbours[6:]])
    np.testing.assert_array_equal(neighbours, [*(X + Y), *(X - Y)])
    assert python_calls(lambda: f(X, Y, out=[neighbours[:6], neighbours[6:]])) == 0
