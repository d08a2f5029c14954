"""Combiners: how a reduction folds a new element into its state, and the built-in ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, wraps
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

from tensorad.ir.dtypes import BOOL, INT64, DType
from tensorad.ir.expr import (
    Const,
    Expr,
    Param,
    add,
    call,
    const,
    int_const,
    logical_and,
    logical_not,
    logical_or,
    mul,
    param,
    select,
)
from tensorad.ir.nominal import Combiner as Combiner

T = TypeVar("T")


def per_combiner(function: Callable[[Combiner], T]) -> Callable[[Combiner], T]:
    """The function, its result remembered for as long as the combiner lives.

    Requires: the result does not hold the combiner.
    """
    known: WeakKeyDictionary[Combiner, T] = WeakKeyDictionary()

    @wraps(function)
    def remembered(combiner: Combiner) -> T:
        if combiner not in known:
            known[combiner] = function(combiner)
        return known[combiner]

    return remembered


def make_combiner(
    name: str,
    combine: Callable[[tuple[Param, ...], tuple[Param, ...]], tuple[Expr, ...]],
    identity: tuple[Const, ...],
    *,
    associative: bool = False,
) -> Combiner:
    """A combiner whose operands are called x, y (x0, x1, ... for tuples)."""

    def operands(letter: str) -> tuple[Param, ...]:
        if len(identity) == 1:
            return (param(letter, identity[0].dtype),)
        return tuple(param(f"{letter}{n}", c.dtype) for n, c in enumerate(identity))

    lhs, rhs = operands("x"), operands("y")
    return Combiner(name, lhs, rhs, combine(lhs, rhs), identity, associative)


@cache
def sum_combiner(dtype: DType) -> Combiner:
    """x + y from 0."""
    zero = const(0, dtype)
    return make_combiner("sum", lambda x, y: (add(x[0], y[0]),), (zero,), associative=True)


@cache
def set_combiner(dtype: DType) -> Combiner:
    """y: the last element, 0 without elements."""
    return make_combiner("set", lambda x, y: y, (const(0, dtype),), associative=True)


@cache
def prod_combiner(dtype: DType) -> Combiner:
    """x * y from 1."""
    one = const(1, dtype)
    return make_combiner("prod", lambda x, y: (mul(x[0], y[0]),), (one,), associative=True)


def _extremum(op: str, identity: Const) -> Combiner:
    name = "max" if op == "maximum" else "min"
    return make_combiner(name, lambda x, y: (call(op, x[0], y[0]),), (identity,), associative=True)


@cache
def max_combiner(dtype: DType) -> Combiner:
    """The larger; the first of equals; NaN wins (the first NaN)."""
    return _extremum("maximum", const(dtype.lowest, dtype))


@cache
def min_combiner(dtype: DType) -> Combiner:
    """The smaller; the first of equals; NaN wins (the first NaN)."""
    return _extremum("minimum", const(dtype.highest, dtype))


BY_NAME: Final = {
    "sum": sum_combiner,
    "prod": prod_combiner,
    "max": max_combiner,
    "min": min_combiner,
}
"""The built-in combiners of numbers."""


@cache
def any_combiner() -> Combiner:
    """x | y from False."""
    false = const(False, BOOL)
    return make_combiner("any", lambda x, y: (logical_or(x[0], y[0]),), (false,), associative=True)


@cache
def all_combiner() -> Combiner:
    """x & y from True."""
    true = const(True, BOOL)
    return make_combiner("all", lambda x, y: (logical_and(x[0], y[0]),), (true,), associative=True)


def beats(op: str, y: Expr, x: Expr) -> Expr:
    """Whether a later y replaces x in maximum/minimum: strictly better, or the first NaN."""
    better = call("gt" if op == "maximum" else "lt", y, x)
    if not x.dtype.is_float:
        return better
    first_nan = logical_and(call("isnan", y), logical_not(call("isnan", x)))
    return logical_or(better, first_nan)


@cache
def arg_combiner(op: str, dtype: DType) -> Combiner:
    """(value, position) of the first extremum; position -1 is "no operand yet"."""

    def combine(x: tuple[Param, ...], y: tuple[Param, ...]) -> tuple[Expr, ...]:
        (xv, xp), (yv, yp) = x, y
        take = logical_and(yp >= 0, logical_or(xp < 0, beats(op, yv, xv)))
        return (select(take, yv, xv), select(take, yp, xp))

    start = const(dtype.lowest if op == "maximum" else dtype.highest, dtype)
    name = "argmax" if op == "maximum" else "argmin"
    return make_combiner(name, combine, (start, const(-1, INT64)), associative=True)


def row_major_position(axes: Sequence[Expr], extents: Sequence[Expr]) -> Expr:
    """((a0 * n1 + a1) * n2 + a2) ...: the position of an index in row-major order."""
    position: Expr = int_const(0)
    for a, n in zip(axes, extents, strict=True):
        position = add(mul(position, n), a)
    return position
