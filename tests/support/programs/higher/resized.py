"""Functions that call themselves with arrays of other extents, as plain Python says them too.

What Python and tensorad write differently is in the kit, and below: arrays by their elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

import tensorad as ta
from tests.support.programs.higher.kit import F64, I64, PYTHON, Cases, Kit

RESIZED = Cases()
SMOOTH: Final = ("sums", "rows", "products", "pyramid", "doubled", "in_turn", "swapped", "loops")
"""Those whose result is a float that derivatives are taken of, by the first argument."""
_rng = np.random.default_rng(7)
X: Final = _rng.standard_normal(7)
W: Final = _rng.standard_normal((3, 3)) / 2


def picked(k: Kit, n: Any, element: Callable[[Any], Any]) -> Any:
    """(n,): the elements by their index."""
    if k is PYTHON:
        return np.array([element(i) for i in range(n)]).reshape(n)
    return ta.compute((n,), element)


def chosen(condition: Any, yes: Any, no: Any) -> Any:
    """One of two numbers."""
    if isinstance(condition, (bool, np.bool_)):
        return yes if condition else no
    return ta.select(condition, yes, no)


def sine(x: Any) -> Any:
    """Of a number or a tensor."""
    return np.sin(x)


@RESIZED.run((X,), (X[:1],))
def sums(k: Kit) -> Any:
    """Divide and conquer, unevenly."""

    @k.function
    def f(x: Any) -> Any:
        n = x.shape[0]
        return k.cond(n < 2, lambda: (x * x).sum(), lambda: sine(f(x[: n // 2])) + f(x[n // 2 :]))

    return f


@RESIZED.run((_rng.standard_normal((4, 3)), W))
def rows(k: Kit) -> Any:
    """A recurrent cell from the last row to the first: arrays as results."""

    @k.function
    def f(x: Any, w: Any) -> Any:
        return k.cond(x.shape[0] < 1, lambda: w[0] * 0.0, lambda: sine(w @ f(x[1:], w) + x[0]))

    return lambda x, w: (f(x, w) * w[0]).sum()


@RESIZED.run((_rng.standard_normal((5, 2, 2)),))
def products(k: Kit) -> Any:
    """A product tree."""

    @k.function
    def f(m: Any) -> Any:
        h = m.shape[0] // 2
        return k.cond(m.shape[0] < 2, lambda: m[0], lambda: f(m[:h]) @ f(m[h:]))

    return lambda m: sine(f(m)).sum()


@RESIZED.run((X, W[0]))
def pyramid(k: Kit) -> Any:
    """Half as long each time, by a window that learns."""

    @k.function
    def f(x: Any, w: Any) -> Any:
        n = x.shape[0]

        def down() -> Any:
            half = picked(k, n // 2, lambda i: sine(x[2 * i] * w[0] + x[2 * i + 1] * w[1]))
            return (x * x).sum() + f(half, w)

        return k.cond(n < 2, lambda: x.sum(), down)

    return f


@RESIZED.run((X[:3], I64(3)))
def doubled(k: Kit) -> Any:
    """Longer each time: memory that the caller's sizes do not bound."""

    @k.function
    def f(x: Any, n: Any) -> Any:
        m = x.shape[0]
        return k.cond(
            n < 1,
            lambda: (x * x).sum(),
            lambda: f(picked(k, 2 * m, lambda i: x[i // 2] * (1.0 + i % 2)), n - 1),
        )

    return f


@RESIZED.run((X,), (X[:6],))
def in_turn(k: Kit) -> Any:
    """Two functions, each with its own way to shorten."""

    @k.function
    def even(x: Any) -> Any:
        return k.cond(x.shape[0] < 2, lambda: x.sum(), lambda: odd(x[1:] * x[0]))

    @k.function
    def odd(x: Any) -> Any:
        n = x.shape[0]
        return k.cond(n < 2, lambda: sine(x).sum(), lambda: even(x[: n - 1]) + x[0])

    return even


@RESIZED.run((X[:4], X[:4]), (X[:5], X[:3]))
def swapped(k: Kit) -> Any:
    """Two extents that are equal in the first call only."""

    @k.function
    def f(x: Any, y: Any) -> Any:
        n = x.shape[0]
        return k.cond(n < 2, lambda: x.sum() * y.sum(), lambda: sine(f(y, x[1:])) + x[0])

    return f


@RESIZED.run((X[:4],))
def loops(k: Kit) -> Any:
    """Loops inside with carries of other extents, and recursion inside of loops."""

    @k.function
    def f(x: Any) -> Any:
        n = x.shape[0]

        def go() -> Any:
            y = k.for_loop(0, 3, lambda i, c: sine(c) * (i + 1.0) + x, x)
            return k.for_loop(0, 2, lambda i, s: s + f(y[1:]) * (i + 1.0), (x * y).sum())

        return k.cond(n < 2, lambda: x.sum(), go)

    return f


@RESIZED.run((_rng.standard_normal((3, 3)),))
def determinant(k: Kit) -> Any:
    """Laplace's expansion: minors of a matrix, in a loop that says which column is left out."""

    @k.function
    def f(m: Any) -> Any:
        n = m.shape[0]

        def term(j: Any, s: Any) -> Any:
            def without(r: Any, c: Any) -> Any:
                return m[r + 1, c + chosen(c >= j, 1, 0)]

            minor = _square(k, n - 1, without)
            return s + chosen(j % 2 < 1, 1.0, -1.0) * m[0, j] * f(minor)

        return k.cond(n < 2, lambda: m[0, 0], lambda: k.for_loop(0, n, term, 0.0))

    return f


def _square(k: Kit, n: Any, element: Callable[[Any, Any], Any]) -> Any:
    if k is PYTHON:
        return np.array([[element(r, c) for c in range(n)] for r in range(n)]).reshape(n, n)
    return ta.compute((n, n), element)


@RESIZED.run((X,), (X[:4],))
def merge_sort(k: Kit) -> Any:
    """Results as long as the argument: places of both halves by counting."""

    @k.function
    def f(x: Any) -> Any:
        n = x.shape[0]
        h = n // 2

        def merged() -> Any:
            a, b = f(x[:h]), f(x[h:])

            def element(i: Any) -> Any:
                return chosen(i < h, a[_least(i, h - 1)], b[_most(i - h, 0)])

            return _ranked(k, picked(k, n, element), n)

        return k.cond(n < 2, lambda: picked(k, n, lambda i: x[i]), merged)

    return f


def _least(a: Any, b: Any) -> Any:
    return min(a, b) if isinstance(a, int) else ta.minimum(a, b)


def _most(a: Any, b: Any) -> Any:
    return max(a, b) if isinstance(a, int) else ta.maximum(a, b)


def _ranked(k: Kit, z: Any, n: Any) -> Any:
    """The elements in order, each at the number of those that are less."""
    if k is PYTHON:
        return np.sort(z)
    r = ta.reduce_axis(n)
    ranks = ta.compute((n,), lambda i: ta.sum((z[r] < z[i]).astype("int64"), axis=r))
    return picked(k, n, lambda i: z[i] * 0.0).at[ranks].set(z)


@RESIZED.run((X[:3], I64(3)))
def counters_around(k: Kit) -> Any:
    """A loop around whose counter is used inside, beside other extents."""

    def program(x: Any, n: Any) -> Any:
        def step(t: Any, s: Any) -> Any:
            @k.function
            def f(y: Any) -> Any:
                whole = lambda: y.sum() * (t + 1.0)  # noqa: E731  # one line of two
                return k.cond(
                    y.shape[0] < 2, whole, lambda: sine(f(y[1:])) * (t + 2.0) + y[0] * x[0]
                )

            return s + f(x)

        return k.for_loop(0, n, step, 0.0)

    return program


@RESIZED.run((F64(1.25), I64(4)))
def counters_without_arrays(k: Kit) -> Any:
    """The counter of a loop around a function that calls itself."""

    def program(x: Any, n: Any) -> Any:
        def step(i: Any, s: Any) -> Any:
            @k.function
            def f(y: Any, m: Any) -> Any:
                return k.cond(m < 1, lambda: y, lambda: f(y * (i + 0.5), m - 1))

            return s + f(x, i)

        return k.for_loop(0, n, step, 0.0)

    return program
