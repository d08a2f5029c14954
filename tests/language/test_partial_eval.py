"""Functions of Python with known arguments: loops, branches and calls by what is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import DefinitionError, LimitError
from tensorad.language import parse, partial_eval

X = np.arange(6.0).reshape(3, 2)


@ta.function
def power(x: Any, n: Any) -> Any:
    return ta.cond(n == 0, lambda: 1.0, lambda: x * power(x, n - 1))


@ta.function
def product(x: Any, n: Any) -> Any:
    return ta.cond(n < 1, lambda: 1.0, lambda: x * product(x, n - 1))


@ta.function
def endless(x: Any, n: Any) -> Any:
    return endless(x, n + 1)


def test_functions_are_unfolded_within_a_budget() -> None:
    found = partial_eval(lambda x, n: power(x, n), {"n": 3})
    assert found(np.float64(2)) == 8
    assert "call" not in str(found.steps(np.float64(2)).result)
    assert "a program only where it is evaluated" in str(found.steps(np.float64(2)))
    with pytest.raises(LimitError, match="power is unfolded more than 2 times"):
        partial_eval(lambda x, n: power(x, n), {"n": 3}, budget=2)(np.float64(2))
    beyond = partial_eval(lambda x, n: product(x, n), {"n": 5}, budget=2)
    assert beyond(np.float64(2)) == 32
    assert str(beyond.steps(np.float64(2)).result).count("recur product") == 2
    with pytest.raises(LimitError, match="endless is called inside of more than 1,000 calls"):
        partial_eval(lambda x: endless(x, 0))(np.float64(2))


@pytest.mark.parametrize("reverse", [False, True])
def test_scans_loops_and_switches(reverse: bool) -> None:
    def f(xs: Any, n: Any) -> Any:
        last, ys = ta.scan(lambda c, x: (c * 0.5 + x, c), xs[0] * 0.0, xs, reverse=reverse)
        doubled = ta.while_loop(lambda s: s < n, lambda s: s * 2, 1.0)
        chosen = ta.switch(n, [lambda: last, lambda: last * 2, lambda: last * 3])
        return last, ys, doubled, chosen

    found = partial_eval(f, {"n": 2})
    wanted = ta.function(lambda xs: f(xs, 2))(X)
    for a, b in zip(found(X), wanted, strict=True):
        assert a.dtype == b.dtype and a.tobytes() == b.tobytes()
    text = str(found.steps(X).result)
    assert "loop" not in text and "branch" not in text


def test_long_loops_stay() -> None:
    def f(x: Any, n: Any) -> Any:
        return ta.for_loop(0, n, lambda i, c: c * x, x)

    assert "loop" in str(partial_eval(f, {"n": 100}).steps(np.float64(2)).result)
    short = partial_eval(f, {"n": 100}, iterations=100).steps(np.float64(2)).result
    assert "loop" not in str(short)


def test_known_arrays_and_texts() -> None:
    y = np.array([1.0, 2.0])
    found = partial_eval(lambda x, y: x * y, {"y": y})
    np.testing.assert_array_equal(found(y), y * y)
    np.testing.assert_array_equal(ta.grad(lambda x: found(x).sum())(y), y)
    text = "def f(x, n, g) {\n  loop i in [0, n) carry (s = x) { s * x }\n}"
    f = partial_eval(parse(text)["f"], {"n": 2, "g": None})
    assert f(np.float64(3)) == 27


def test_what_is_static_must_be_a_parameter() -> None:
    with pytest.raises(DefinitionError, match="has no parameter z"):
        partial_eval(lambda x: x, {"z": 1})
    with pytest.raises(DefinitionError, match="must be a function, got int"):
        partial_eval(3)  # type: ignore[arg-type]  # as users do
