"""Tables of constants written out: where they decide on divisions, cuts see their numbers.

(x - shift[s]) % n has no border that a cut could find, as long as s runs in a loop: its elements
are collected one by one. For one value of s the shift is a number, and all but the border is
contiguous.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tensorad.codegen.loops.index_ranges import among
from tensorad.codegen.nest.ir import Nest, simplify_nest
from tensorad.codegen.splitting.index_sets import most_pieces, switches
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import ONE, Axis, Const, Expr, Read, int_const
from tensorad.ir.order import reads
from tensorad.ir.tensor import Constant
from tensorad.ir.visit import free_leaves

LONGEST: Final = 12
"""Values of an axis that are written out."""


def write_tables(nest: Nest) -> list[Nest]:
    """One piece for each value of a short axis through which divisions read constants.

    Requires and ensures: simplified nests; the pieces cover the points once, in order.
    """
    a = next(_deciding(nest), None) if not nest.folds else None
    if a is None or a.extent is None or a.extent > min(LONGEST, most_pieces(nest)):
        return [nest]
    others = tuple([b for b in nest.axes if b is not a])
    pieces = []
    first = int(a.lower.value) if isinstance(a.lower, Const) else 0
    for v in range(first, first + a.extent):
        mapping: dict[Expr, Expr] = {**_known(nest, a, v), a: int_const(v)}
        pieces.append(simplify_nest(nest, mapping, others))
    return [p for p in pieces if p is not None] or [nest]


def _deciding(nest: Nest) -> Iterator[Axis]:
    """Output axes that divisions of sums with other axes use through a table alone."""
    for e in switches(nest):
        found = free_leaves(e)
        for r in _tables(e) if e.op in ("floordiv", "mod") else ():
            (i,) = r.indices
            others = any(isinstance(b, Axis) and b is not i for b in found)
            if others and isinstance(i, Axis) and among(i, nest.axes) and _counts(i):
                yield i


def _counts(a: Axis) -> bool:
    """Whether an axis takes every number from a constant on."""
    return isinstance(a.lower, Const) and a.step is ONE


def _tables(e: Expr) -> list[Read]:
    """The reads of constants at one index, whole numbers all of them."""
    found = [r for r in reads(e) if isinstance(r.tensor.op, Constant)]
    return [r for r in found if len(r.indices) == 1 and r.dtype is INT64]


def _known(nest: Nest, a: Axis, v: int) -> dict[Expr, Expr]:
    """What tables hold at a value of the axis; shorter ones are not read there, it is guarded."""
    found: dict[Expr, Expr] = {}
    for r in [r for e in nest.expressions() for r in _tables(e)]:
        op = r.tensor.op
        if r.indices[0] is a and isinstance(op, Constant) and v < len(op.array):
            found[r] = int_const(int(op.array[v]))
    return found
