"""Inputs of calls by name."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import BindError
from tests.support.refusals import Refusals, check

X: Final = ta.placeholder((2, 3), "float64", name="X")
W: Final = ta.placeholder((3,), "float64", name="W")
f: Final = ta.build(ta.compute((2, 3), lambda i, j: X[i, j] * 2.0 + W[j], name="Y"), [X, W])
n: Final = ta.size("n")
P: Final = ta.placeholder((n,), "float64", name="P")
g: Final = ta.build(ta.compute((n,), lambda i: P[i] + n, name="Q"), [P])
M: Final = ta.placeholder((n, 2), "float64", name="n")
h: Final = ta.build(ta.compute((n, 2), lambda i, j: M[i, j] * 3.0, name="R"), [M])


x: Final = np.arange(6.0).reshape(2, 3)
w: Final = np.array([1.0, -1.0, 0.5])
WANTED: Final = x * 2.0 + w
CALL: Final = "  in: Y(X, W)"
REFUSED: Final = Refusals()
refused = REFUSED.refused


@pytest.mark.parametrize("native", [True, False])
def test_inputs_by_name(native: bool) -> None:
    with ta.config.override(native_calls=native):
        y = ta.compute((2, 3), lambda i, j: X[i, j] * 2.0 + W[j], name="Y")
        own = ta.build(y, [X, W])
    out = np.empty((2, 3))
    for found in (own(X=x, W=w), own(W=w, X=x), own(x, W=w), own(x, w), own(W=w, X=x, out=out)):
        np.testing.assert_array_equal(found, WANTED)
    np.testing.assert_array_equal(out, WANTED)


def test_a_size_wins_over_an_input_of_its_name() -> None:
    np.testing.assert_array_equal(h(np.ones((4, 2)), n=4), np.full((4, 2), 3.0))
    np.testing.assert_array_equal(g(P=np.ones(2), n=2), [3.0, 3.0])
    s = ta.placeholder((2,), "float64", name="self")
    np.testing.assert_array_equal(ta.build(s * 2.0, [s])(self=np.ones(2)), [2.0, 2.0])


@refused(
    BindError,
    "Y is called without its argument W.",
    CALL,
    "  hint: pass it by position, or by name: W=array.",
)
def one_is_missing() -> None:
    f(X=x)


@refused(
    BindError,
    "unknown keyword argument 'V'.",
    CALL,
    "  hint: keywords are `out`, the inputs (X, W) and the symbolic sizes (none).",
)
def an_unknown_name() -> None:
    f(x, W=w, V=w)


@refused(
    BindError,
    "unknown keyword argument 'w'.",
    CALL,
    "  hint: did you mean W? keywords are `out`, the inputs (X, W) and the symbolic sizes (none).",
)
def a_name_in_small_letters() -> None:
    f(x, w=w)


@refused(
    BindError,
    "unknown keyword argument 'V'.",
    "  in: Q(P)",
    "  hint: keywords are `out`, the inputs (P) and the symbolic sizes (n).",
)
def an_unknown_name_alone() -> None:
    g(V=np.ones(2))


@refused(
    BindError,
    "argument X of Y is given by position and by name.",
    CALL,
    "  hint: pass it once.",
)
def given_twice() -> None:
    f(x, w, X=x)


@refused(
    BindError,
    "Y takes 2 arrays, got 3.",
    CALL,
    "  hint: pass one array per input, in the order given to build.",
)
def too_many() -> None:
    f(x, w, w, X=x)


@refused(
    BindError,
    "n is an input of R and a symbolic size, and the keyword is the size.",
    "  in: R(n)",
    "  hint: pass the input by position.",
)
def the_name_of_a_size() -> None:
    h(n=np.ones((4, 2)))


@refused(
    BindError,
    "R is called without its argument n.",
    "  in: R(n)",
    "  hint: the keyword n is the symbolic size: pass the input by position.",
)
def a_size_in_place_of_an_input() -> None:
    h(n=4)


@pytest.mark.parametrize("case", REFUSED, ids=lambda c: c.attempt.__name__)
def test_refusals(case: Any) -> None:
    check(case)
