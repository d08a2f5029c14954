"""Dual numbers that nest: forward mode of any order over NumPy, the oracle of derivatives.

Each derivative has a tag of its own, newer ones have larger tags, and the newest is outermost: a
number's value is one of older tags. So no perturbation is taken for another one (J. M. Siskind,
B. A. Pearlmutter, "Perturbation confusion and referential transparency", 2005).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np


def tag_of(a: Any) -> int:
    """The newest tag of a number, -1 without one."""
    return a.tag if isinstance(a, Dual) else -1


def split(a: Any, tag: int) -> tuple[Any, Any]:
    """(value, tangent) of the tag; a number without it has the tangent 0."""
    if isinstance(a, Dual) and a.tag == tag:
        return a.value, a.tangent
    return a, np.zeros(shape_of(a))


def primal(a: Any) -> Any:
    """The number without tangents."""
    while isinstance(a, Dual):
        a = a.value
    return a


def without(a: Any, tag: int) -> Any:
    """The number without this tag and newer ones."""
    while isinstance(a, Dual) and a.tag >= tag:
        a = a.value
    return a


def tangent_of(a: Any, tag: int) -> Any:
    """The tangent of a tag, newer ones being over."""
    return split(without(a, tag + 1), tag)[1]


def shape_of(a: Any) -> tuple[int, ...]:
    return np.shape(primal(a))


def _linear(f: Callable[..., Any], *args: Any) -> Any:
    """A function that is linear in all arguments together."""
    tag = max([tag_of(a) for a in args])
    if tag < 0:
        return f(*args)
    values, tangents = zip(*[split(a, tag) for a in args], strict=True)
    return Dual(tag, _linear(f, *values), _linear(f, *tangents))


def through(f: Callable[[Any], Any], slope: Callable[[Any], Any], a: Any) -> Any:
    """f(a) by its values and slopes."""
    if not isinstance(a, Dual):
        return f(a)
    return Dual(a.tag, through(f, slope, a.value), slope(a.value) * a.tangent)


def sin(a: Any) -> Any:
    return through(np.sin, cos, a)


def cos(a: Any) -> Any:
    return through(np.cos, lambda b: -sin(b), a)


def exp(a: Any) -> Any:
    return through(np.exp, exp, a)


def tanh(a: Any) -> Any:
    return through(np.tanh, lambda b: 1.0 - tanh(b) * tanh(b), a)


def stack(rows: Sequence[Any]) -> Any:
    return _linear(lambda *r: np.stack(r), *rows)


def placed(a: Any, at: Any, v: Any) -> Any:
    """A copy of `a` with `v` at an index."""

    def put(a: Any, v: Any) -> Any:
        made = np.array(a, float)
        made[at] = v
        return made

    return _linear(put, a, v)


class Dual:
    """A value and its tangent, of one shape."""

    __array_ufunc__: ClassVar[None] = None
    __slots__ = ("tag", "tangent", "value")

    def __init__(self, tag: int, value: Any, tangent: Any) -> None:
        self.tag, self.value, self.tangent = tag, value, tangent

    def __add__(self, other: Any) -> Any:
        return _linear(lambda a, b: a + b, self, other)

    def __sub__(self, other: Any) -> Any:
        return _linear(lambda a, b: a - b, self, other)

    def __rsub__(self, other: Any) -> Any:
        return _linear(lambda a, b: b - a, self, other)

    def __neg__(self) -> Any:
        return _linear(lambda a: -a, self)

    def __mul__(self, other: Any) -> Any:
        tag = max(self.tag, tag_of(other))
        (a, da), (b, db) = split(self, tag), split(other, tag)
        return Dual(tag, a * b, da * b + a * db)

    def __truediv__(self, other: Any) -> Any:
        return quotient(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return quotient(other, self)

    __radd__, __rmul__ = __add__, __mul__

    def __matmul__(self, other: Any) -> Any:
        return (self * other).sum()

    def __rmatmul__(self, other: Any) -> Any:
        return (self * other).sum()

    def __gt__(self, other: Any) -> bool:
        return bool(primal(self) > primal(other))

    def __lt__(self, other: Any) -> bool:
        return bool(primal(self) < primal(other))

    def __getitem__(self, key: Any) -> Any:
        return _linear(lambda a: a[key], self)

    def sum(self) -> Any:
        return _linear(np.sum, self)


def quotient(a: Any, b: Any) -> Any:
    tag = max(tag_of(a), tag_of(b))
    if tag < 0:
        return a / b
    (a, da), (b, db) = split(a, tag), split(b, tag)
    q = quotient(a, b)
    return Dual(tag, q, quotient(da - q * db, b))
