"""Reduce loops of register tiles: several steps unrolled, and one prefetch for each line.

Every sum takes its terms one by one in the order of the loops as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Final

from tensorad.codegen.cost.operation_costs import cycles
from tensorad.codegen.loops.index_ranges import substitutor
from tensorad.codegen.loops.ir import Fold, For, Prefetch, Stmt
from tensorad.codegen.loops.rewrite import mapped, serial
from tensorad.ir.elementary.cost import FUNCTION
from tensorad.ir.expr import ZERO, Axis, Expr, add, axis, floordiv, int_const, mod, mul, sub
from tensorad.simplify.index.linear import linear_form

STEPS: Final = 4
"""Of a long loop, written out together: panels come faster from the second cache."""
TAPS: Final = 9
"""Steps at most of loops that are written out whole."""

Step = Prefetch | Fold


@dataclass(frozen=True)
class Prefetches:
    """What a tile prefetches while it computes.

    Attributes:
        some: a part of something, by how many steps pass until the next part is prefetched.
        lines: the first elements of lines that so many steps of the innermost loop read.
    """

    some: Callable[[int], tuple[Prefetch, ...]]
    lines: tuple[Prefetch, ...] = ()
    steps: int = 0


def are_load_bound(terms: Sequence[Expr]) -> bool:
    """Whether terms take few operations: of others arithmetic takes longer than loads."""
    return cycles(terms) < FUNCTION.cycles


def reduce_loops(
    loops: Sequence[Axis], body: Sequence[Step], prefetches: Prefetches, *, unrolled: bool
) -> tuple[Stmt, ...]:
    """Loops around the step of a tile.

    Args:
        unrolled: whether several steps are written out, a longer text.
    """
    outer = list(loops)
    made: tuple[Stmt, ...]
    if not unrolled:
        made = (*prefetches.some(1), *body)
    elif taps := _taps(outer):
        places = product(*[range(a.extent or 0) for a in taps])
        copies: list[Mapping[Expr, Expr]] = []
        copies.extend([dict(zip(taps, map(int_const, p), strict=True)) for p in places])
        del outer[-len(taps) :]
        made = (*_moved(prefetches.some(len(copies)), copies[0]), *_written(body, copies))
    else:
        made = _by_steps(outer.pop(), body, prefetches)
    return serial(outer, made)


def _taps(loops: Sequence[Axis]) -> list[Axis]:
    """The innermost loops that have few steps together, at least two."""
    for first in range(len(loops)):
        inner = loops[first:]
        known = all(a.extent is not None and a.lower is ZERO for a in inner)
        if known and 1 < prod(a.extent or 0 for a in inner) <= TAPS:
            return list(inner)
    return []


def _by_steps(k: Axis, body: Sequence[Step], prefetches: Prefetches) -> tuple[Stmt, ...]:
    """A loop of which some steps are unrolled, in one over the prefetched lines, and the rest."""
    count = linear_form(sub(k.upper, k.lower)).to_expr()
    apart = STEPS * max(1, prefetches.steps // STEPS) if prefetches.lines else STEPS
    whole = add(k.lower, mul(floordiv(count, int_const(apart)), int_const(apart)))
    line = axis(k.name, k.lower, whole, apart)
    four = line if apart == STEPS else axis(k.name, line, add(line, int_const(apart)), STEPS)
    copies: list[Mapping[Expr, Expr]] = [{k: add(four, int_const(n))} for n in range(STEPS)]
    inner: tuple[Stmt, ...] = (*_moved(prefetches.some(STEPS), copies[0]), *_written(body, copies))
    inner = inner if four is line else (For(four, inner),)
    inner = (*_moved(prefetches.lines, {k: line}), *inner)
    if mod(count, int_const(apart)) is ZERO:
        return (For(line, inner),)
    rest = axis(k.name, whole, k.upper)
    return For(line, inner), For(rest, tuple(_moved(body, {k: rest})))


def _written(body: Sequence[Step], copies: Sequence[Mapping[Expr, Expr]]) -> Iterator[Step]:
    """The statements once for each place."""
    for mapping in copies:
        yield from _moved(body, mapping)


def _moved(body: Sequence[Step], mapping: Mapping[Expr, Expr]) -> list[Step]:
    image = substitutor(mapping)
    return [mapped(s, image) for s in body]
