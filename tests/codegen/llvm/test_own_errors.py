"""Functions in float64 are as near to the exact value as they were made to be, piece by piece."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from tensorad.ir.expr import FUNCTIONS
from tests.codegen.llvm.test_vmath import apply, error_in_ulps

Piece = tuple[float, float]
COUNT = 300


def exp2(x: Any) -> Any:
    return mpmath.mpf(2) ** x


def erfinv(x: Any) -> Any:
    """By two of Newton's steps, twenty times as fast as mpmath's own."""
    z = mpmath.mpf(float(FUNCTIONS["erfinv"].value(float(x))))
    for _ in range(2):
        z -= (mpmath.erf(z) - x) * mpmath.exp(z * z) * mpmath.sqrt(mpmath.pi) / 2
    return z


PIECES: list[tuple[str, Callable[[Any], Any], float, tuple[Piece, ...]]] = [
    ("erf", mpmath.erf, 2.6, ((0, 0.5), (0.5, 0.6), (0.6, 0.8), (0.8, 3), (3, 6.5))),
    ("erfc", mpmath.erfc, 3.75, ((-1, 0.5), (0.5, 0.6), (0.6, 2), (2, 8), (8, 26.5), (26.5, 27.5))),
    (
        "erfinv", erfinv, 3.0,
        ((0, 0.5), (0.5, 0.7), (0.7, 0.998), (0.998, 0.9999), (0.9999, 1 - 1e-9), (1 - 1e-9, 1)),
    ),
    ("log", mpmath.log, 0.75, ((0.5, 0.7), (0.7, 1.5), (1.4, 2), (2, 100), (1e5, 1e300))),
    ("log1p", mpmath.log1p, 0.75, ((-0.9, -0.1), (-0.1, 0.1), (0.1, 2), (2, 100))),
    ("exp2", exp2, 1.01, ((-1, 1), (-100, 100), (-1022, -1000), (-1075, -1022), (1000, 1024))),
    ("cbrt", mpmath.cbrt, 0.502, ((0.5, 1), (1, 2), (2, 4), (4, 8), (1e-300, 1e-290))),
]  # fmt: skip
"""The function, the largest error there in units in the last place, and ranges of arguments."""


@pytest.mark.parametrize(("op", "exact", "ulps", "pieces"), PIECES, ids=[p[0] for p in PIECES])
def test_errors_of_every_piece(
    op: str, exact: Callable[[Any], Any], ulps: float, pieces: tuple[Piece, ...]
) -> None:
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.uniform(low, high, COUNT) for low, high in pieces])
    with mpmath.workprec(160):
        pairs = zip(apply(op, "float64", x).tolist(), x.tolist(), strict=True)
        errors = [error_in_ulps(y, exact(mpmath.mpf(a)), "float64") for y, a in pairs]
    worst = int(np.argmax(errors))
    assert errors[worst] <= ulps, f"{op}({x[worst]!r}) is off by {errors[worst]:.3f} units"


INF, TINY = float("inf"), 5e-324
ENDS: list[tuple[str, list[float], list[float]]] = [
    ("erf", [-INF, -9.0, -0.0, TINY, INF], [-1.0, -1.0, -0.0, TINY, 1.0]),
    ("erfc", [-INF, 26.6, 28.0, INF], [2.0, 1.088512588544227e-309, 0.0, 0.0]),
    ("erfinv", [-1.0, -0.0, 1.0], [-INF, -0.0, INF]),
    ("log", [0.0, TINY, INF], [-INF, -744.4400719213812, INF]),
    ("log1p", [-1.0, -0.0, 1e-300, TINY, INF], [-INF, -0.0, 1e-300, TINY, INF]),
    ("exp2", [-1076.0, -1074.0, 0.0, 1023.0, 1024.0], [0.0, TINY, 1.0, 2.0**1023, INF]),
    ("cbrt", [-INF, -0.0, 0.0, TINY * 8, INF], [-INF, -0.0, 0.0, 3.4063678720065206e-108, INF]),
]


@pytest.mark.parametrize(("op", "x", "y"), ENDS, ids=[e[0] for e in ENDS])
def test_ends(op: str, x: list[float], y: list[float]) -> None:
    found = apply(op, "float64", np.array(x))
    np.testing.assert_allclose(found, y, rtol=1e-4, atol=0)
    assert np.signbit(found).tolist() == np.signbit(y).tolist()
