"""Independent parts of a domain: axes that no condition links are solved apart and multiplied."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tensorad.ir.expr import TRUE, Axis, Expr, logical_and
from tensorad.ir.visit import free_leaves
from tensorad.simplify.domain.solution import Piece, Solution, as_given, rename_piece

MOST_PIECES = 32
"""A product of more pieces is not written out."""
Group = tuple[list[Axis], list[Expr]]


def linked(inner: Sequence[Axis], parts: Sequence[Expr]) -> tuple[list[Expr], list[Group]]:
    """(conditions on outer axes alone, groups of inner axes that share conditions or bounds).

    Groups are in the order of their first axes, each with its conditions.
    """
    leader: dict[Axis, Axis] = {a: a for a in inner}

    def find(a: Axis) -> Axis:
        while leader[a] is not a:
            a = leader[a]
        return a

    around: list[Expr] = []
    anchored: list[tuple[Axis, Expr]] = []
    roots: list[tuple[Expr, ...]] = [(p,) for p in parts]
    roots += [(a, a.lower, a.upper, a.step) for a in inner]
    for n, expressions in enumerate(roots):
        used = [e for e in free_leaves(*expressions) if isinstance(e, Axis) and e in leader]
        for a in used[1:]:
            leader[find(a)] = find(used[0])
        if n < len(parts) and used:
            anchored.append((used[0], parts[n]))
        elif n < len(parts):
            around.append(parts[n])
    groups: dict[Axis, Group] = {}
    for a in inner:
        groups.setdefault(find(a), ([], []))[0].append(a)
    for a, p in anchored:
        groups[find(a)][1].append(p)
    return around, list(groups.values())


def unconstrained(axes: Sequence[Axis]) -> Solution:
    """The axes as they are."""
    return Solution((as_given(axes),), True, "identity")


def product(
    inner: Sequence[Axis], conditions: Sequence[Expr], solutions: Sequence[Solution]
) -> Solution:
    """Independent solutions together: every piece of one with every piece of the others.

    If that is too much to write out, the axes stay and all conditions are tested.
    """
    if len(solutions) == 1:
        return solutions[0]
    count = prod(len(s.pieces) for s in solutions)
    if count > MOST_PIECES:
        reason = f"the domain falls apart into {count} pieces"
        return Solution((as_given(inner, logical_and(*conditions)),), False, "none", reason)
    pieces = [Piece(TRUE, (), {})]
    for s in solutions:
        pieces = [_joined(p, q) for p in pieces for q in s.pieces]
    if count > 1:  # a loop has one binder
        pieces = [rename_piece(p, {a: a for a in p.values}) for p in pieces]
    known = {s.method for s in solutions}
    method = next((m for m in ("none", "table", "isl") if m in known), "identity")
    reason = next((s.reason for s in solutions if not s.exact), "")
    return Solution(tuple(pieces), not reason, method, reason)


def _joined(p: Piece, q: Piece) -> Piece:
    guard = logical_and(p.guard, q.guard)
    residual = logical_and(p.residual, q.residual)
    return Piece(guard, (*p.axes, *q.axes), {**p.values, **q.values}, residual)
