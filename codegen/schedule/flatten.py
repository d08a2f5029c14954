"""Elementwise loops over neighbouring axes become one loop over both.

Two axes can be one where every read and store moves along the outer by as much as along all of
the inner: rows without gaps. A register then runs across the ends of rows, which matters where
rows are short. The joined axis counts both; each axis is a digit of it, and the code generator
puts the digits of an address together again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tensorad.codegen.directives import Choices
from tensorad.codegen.loops.index_ranges import among
from tensorad.codegen.nest.access import Access, extent_of, outer_accesses
from tensorad.codegen.nest.ir import Nest, substitute_nest
from tensorad.ir.expr import ONE, ZERO, Axis, Expr, Read, axis, floordiv, int_const, mod, mul
from tensorad.ir.order import READ, occurs, postorder_along
from tensorad.ir.visit import children, free_leaves

LONG: Final = 2048
"""Rows of at least this many elements stay loops of their own."""


def flattened(nest: Nest, choices: Choices) -> Nest:
    """The nest with its short contiguous axes joined; without folds, by itself or if asked for."""
    able = not nest.folds and len(nest.axes) > 1 and not choices.axes()
    if not able or choices.flat is False or (not choices.flat and _is_long(nest.axes[-1])):
        return nest
    while True:
        pair = _joinable(nest)
        if pair is None or (not choices.flat and _is_long(pair[1])):
            return nest
        nest = _joined(nest, *pair)


def _is_long(a: Axis) -> bool:
    return extent_of(a) >= LONG


def _joinable(nest: Nest) -> tuple[Axis, Axis] | None:
    """The innermost pair of axes that every access runs through as one."""
    accesses = outer_accesses(nest)
    others = _outside_of_addresses(nest)
    bounds = free_leaves(*[b for a in nest.axes for b in (a.lower, a.upper, a.step)])
    for outer, inner in list(zip(nest.axes, nest.axes[1:], strict=False))[::-1]:
        plain = all(_from_zero(a) and a not in others and a not in bounds for a in (outer, inner))
        if plain and inner.extent is not None and _in_step(accesses, outer, inner, inner.extent):
            return outer, inner
    return None


def _from_zero(a: Axis) -> bool:
    return a.lower is ZERO and a.step is ONE


def _in_step(accesses: Sequence[Access], outer: Axis, inner: Axis, extent: int) -> bool:
    for x in accesses:
        big, small = x.stride(outer), x.stride(inner)
        if big is None or small is None or big != extent * small:
            return False
    return any(x.stride(inner) for x in accesses)


def _outside_of_addresses(nest: Nest) -> dict[Expr, None]:
    """Axes whose value is needed otherwise than in the indices of reads and stores."""
    every = postorder_along(nest.values, lambda e: () if isinstance(e, Read) else children(e))
    data = [i for e in every if isinstance(e, Read) for i in e.indices if occurs(READ, i)]
    return {**free_leaves(*data), **{e: None for e in every if isinstance(e, Axis)}}


def _joined(nest: Nest, outer: Axis, inner: Axis) -> Nest:
    size = int_const(inner.extent or 1)
    both = axis(inner.name, 0, mul(outer.upper, size))
    digits: dict[Expr, Expr] = {outer: floordiv(both, size), inner: mod(both, size)}
    axes = [both if a is inner else a for a in nest.axes if not among(a, (outer,))]
    return substitute_nest(nest, digits, axes)
