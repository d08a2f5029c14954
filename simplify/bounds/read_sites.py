"""Read sites: inside which loops, under which guard each read of a formula is evaluated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tensorad.ir.expr import (
    TRUE,
    Axis,
    Expr,
    Read,
    Reduce,
    Select,
    logical_and,
    logical_not,
    logical_or,
)
from tensorad.ir.order import READ, children, occurs


@dataclass(frozen=True, eq=False)
class ReadSite:
    """A read that is evaluated at the points of `axes` (outermost first) where `guard` holds."""

    read: Read
    axes: tuple[Axis, ...]
    guard: Expr


def read_sites(
    axes: Sequence[Axis], roots: Sequence[Expr], guard: Expr = TRUE
) -> Iterator[ReadSite]:
    """The reads under the roots, once for each nest of loops they stand in.

    Bounds of loops are read whatever guards what is inside of them.
    """
    todo = [(tuple(axes), tuple(roots), guard), *_bounds((), axes)]
    while todo:
        around, level, outside = todo.pop()
        order = _level(level)
        need = _needs(level, order)
        for e in order:
            here = logical_and(outside, need[e])
            if isinstance(e, Read):
                yield ReadSite(e, around, here)
            elif isinstance(e, Reduce):
                inner = (*around, *e.axes)
                todo.append((inner, (e.condition,), here))
                todo.append((inner, e.sources, logical_and(here, e.condition)))
                todo.extend(_bounds(around, e.axes))


def _bounds(
    around: Sequence[Axis], axes: Sequence[Axis]
) -> Iterator[tuple[tuple[Axis, ...], tuple[Expr, ...], Expr]]:
    """The bounds of a nest that read tensors, each with the loops outside of it."""
    for n, a in enumerate(axes):
        bounds = (a.lower, a.upper, a.step)
        if occurs(READ, *bounds):
            yield (*around, *axes[:n]), bounds, TRUE


def _level(roots: Sequence[Expr]) -> list[Expr]:
    """Post-order that does not enter reductions: what is evaluated in the same loops."""
    done: dict[Expr, None] = {}
    stack = list(reversed(roots))
    while stack:
        e = stack[-1]
        missing = () if isinstance(e, Reduce) else [c for c in children(e) if c not in done]
        if missing and e not in done:
            stack.extend(reversed(missing))
        else:
            done[e] = None
            stack.pop()
    return list(done)


def _needs(roots: Sequence[Expr], order: Sequence[Expr]) -> dict[Expr, Expr]:
    """The condition under which each node of a level is evaluated: its users' branches."""
    need: dict[Expr, Expr] = dict.fromkeys(roots, TRUE)

    def use(e: Expr, condition: Expr) -> None:
        known = need.get(e)
        need[e] = condition if known is None else _either(known, condition)

    for e in reversed(order):
        here = need[e]
        if isinstance(e, Select):
            use(e.cond, here)
            use(e.then, logical_and(here, e.cond))
            use(e.orelse, logical_and(here, logical_not(e.cond)))
        elif not isinstance(e, Reduce):
            for c in children(e):
                use(c, here)
    return need


def _either(a: Expr, b: Expr) -> Expr:
    if a is b or a is TRUE or b is TRUE:
        return TRUE if a is TRUE or b is TRUE else a
    return TRUE if logical_not(a) is b else logical_or(a, b)
