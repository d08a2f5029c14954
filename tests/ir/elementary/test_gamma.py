"""The gamma functions: beside SciPy and the interpreter, and derivatives of every order."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy import special  # type: ignore[import-untyped]

import tensorad as ta
from tensorad.ir.reference.interpret import interpret

POINTS = np.concatenate(
    [np.linspace(0.05, 12, 41), [0.5, -0.5, 1, 2, 4, 1e3], -np.linspace(0.3, 7.3, 18) - 0.07]
)


@pytest.mark.parametrize("name", ["lgamma", "digamma", "trigamma"])
def test_they_are_those_of_scipy_and_the_interpreter(name: str) -> None:
    x = ta.placeholder(POINTS.shape, "float64", name="X")
    y = getattr(ta, name)(x)
    found = ta.evaluate(y, {x: POINTS})
    np.testing.assert_allclose(found, interpret(y, {x: POINTS}), rtol=1e-14, atol=1e-14)
    if name == "trigamma":  # SciPy's has no negative arguments
        np.testing.assert_allclose(
            found[POINTS > 0], special.polygamma(1, POINTS[POINTS > 0]), rtol=1e-14
        )
    else:
        theirs = special.gammaln if name == "lgamma" else special.psi
        np.testing.assert_allclose(found, theirs(POINTS), rtol=1e-13, atol=1e-13)


def test_derivatives_of_every_order_are_polygamma_functions() -> None:
    x = ta.placeholder(POINTS.shape, "float64", name="X")
    y = ta.lgamma(x)
    for order in range(4):
        (y,) = ta.vjp(y, [x], 1.0)
        with mpmath.workprec(100):
            want = [float(mpmath.psi(order, mpmath.mpf(float(p)))) for p in POINTS]
        np.testing.assert_allclose(ta.evaluate(y, {x: POINTS}), want, rtol=1e-11, atol=1e-11)
