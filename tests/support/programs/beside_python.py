"""Programs of a number and a count that touch references, beside the same ones in plain Python.

A program is written once, over the names it uses, and made twice: of `ta` and of `Plain`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tensorad as ta
from tests.random.whole.plain import Plain

Make = Callable[[Any], Callable[[Any, Any], Any]]
"""The names that a program uses -> (x, n) -> its value and how often it wrote."""
X = np.float64(0.3)
TIMES = (0, 1, 4)


def check_first_order(make: Make) -> None:
    """Values, the number of writes, and both modes beside differences."""
    plain, own = make(Plain()), make(ta)
    f = ta.function(own)

    def slope(x: Any, n: Any) -> Any:
        return ta.jvp(lambda x: own(x, n)[0], (x,), (np.float64(1.0),))[1]

    grad, along = ta.grad(lambda x, n: own(x, n)[0]), ta.function(slope)
    for n in TIMES:
        value, count = f(X, np.int64(n))
        wanted, written = plain(X, n)
        np.testing.assert_allclose(value, wanted, rtol=1e-12)
        assert count == written
        np.testing.assert_allclose(ta.interpret(f, X, np.int64(n))[0], wanted, rtol=1e-12)
        ahead, behind = [plain(X + h, n)[0] for h in (1e-6, -1e-6)]
        first = grad(X, np.int64(n))
        np.testing.assert_allclose(first, (ahead - behind) / 2e-6, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(along(X, np.int64(n)), first, rtol=1e-10, atol=1e-12)


def check_second_order(make: Make) -> None:
    """Reverse over reverse and reverse over forward, beside differences of values."""
    plain, own = make(Plain()), make(ta)

    def loss(x: Any, n: Any) -> Any:
        return own(x, n)[0]

    def slope(x: Any, n: Any) -> Any:
        return ta.jvp(lambda x: loss(x, n), (x,), (np.float64(1.0),))[1]

    twice, mixed = ta.grad(ta.grad(loss)), ta.grad(slope)
    for n in TIMES:
        ahead, at, behind = [plain(X + h, n)[0] for h in (1e-4, 0.0, -1e-4)]
        second = twice(X, np.int64(n))
        np.testing.assert_allclose(second, (ahead - 2 * at + behind) / 1e-8, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(mixed(X, np.int64(n)), second, rtol=1e-9, atol=1e-10)
