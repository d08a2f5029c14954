"""Blocks of the reduce axes: how many there are, and the axes in terms of a block's number."""

from __future__ import annotations

from math import ceil

from tensorad.codegen.contraction.blocking import Blocking
from tensorad.codegen.contraction.digits import Mapping, digits, points
from tensorad.codegen.contraction.recognise import is_symbolic, size
from tensorad.ir.expr import (
    ONE,
    ZERO,
    Axis,
    Expr,
    add,
    axis,
    call,
    floordiv,
    int_const,
    mod,
    mul,
    select,
    sub,
)


def blocks(b: Blocking) -> Expr:
    """How many blocks there are, or strips: one, without steps, where an axis has no points."""
    if b.strip:
        return int_const(ceil(b.depth / b.strip))
    reduced = b.contraction.reduced
    found = mul(points(reduced[: b.split]), _parts(b))
    return call("maximum", ONE, found) if is_symbolic(reduced) else found


def _parts(b: Blocking) -> Expr:
    """How many blocks the split reduce axis is cut into."""
    upper = b.contraction.reduced[b.split].upper
    return floordiv(add(upper, int_const(b.block - 1)), int_const(b.block))


def in_block(b: Blocking, number: Expr) -> tuple[Mapping, list[Axis]]:
    """The reduce axes in terms of the block's number and axes inside the block."""
    reduced = b.contraction.reduced
    a, outside = reduced[b.split], reduced[: b.split]
    mapping: Mapping = {}
    start: Expr = ZERO
    upper = a.upper
    if not b.whole:
        parts, place = _parts(b), number
        if outside:
            parts = call("maximum", ONE, parts) if is_symbolic([a]) else parts
            mapping = digits(floordiv(number, parts), outside)
            place = mod(number, parts)
        start = mul(place, int_const(b.block))
        upper = int_const(b.block)
        if is_symbolic([a]) or size(a) % b.block:
            upper = call("minimum", upper, sub(a.upper, start))
        if is_symbolic(outside):
            upper = select(call("eq", points(outside), ZERO), ZERO, upper)
    local = axis(a.name, 0, upper)
    mapping[a] = add(start, local)
    inner = [axis(k.name, 0, k.upper) for k in reduced[b.split + 1 :]]
    mapping.update(zip(reduced[b.split + 1 :], inner, strict=True))
    return mapping, [local, *inner]
