"""Statements over other axes: loops moved into others, strips joined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tensorad.codegen.loops.index_ranges import substitutor
from tensorad.codegen.loops.ir import Assign, For, Stmt, Store
from tensorad.codegen.loops.rewrite import rewrite
from tensorad.codegen.loops.visit import all_expressions, statements
from tensorad.ir.expr import TRUE, Axis, Call, Expr, Select, axis, logical_and, select
from tensorad.ir.visit import free_leaves, substitute
from tensorad.simplify.index.linear import linear_form


@dataclass(frozen=True, eq=False)
class JoinedStrips:
    """What a thread runs for the strips first, ..., last: one strip of them all."""

    first: Axis
    last: Axis
    body: tuple[Stmt, ...]


def joined_strips(s: For) -> JoinedStrips | None:
    """The strips of a loop as one; None where the loop has another form.

    Loops between would be run once per strip, each over parts of rows; and each strip of a loop
    that streams would begin and end with a part of a line.
    """
    if len(s.body) != 1:
        return None
    within = walked_range(s)
    if within is not None:
        first, last = _ends(s.axis)
        begun, ended = (substitute(e, {s.axis: a}) for e, a in zip(within.args, (first, last)))
        return JoinedStrips(first, last, placed(s.body, {within: logical_and(begun, ended)}))
    between: list[For] = []
    inner = s.body[0]
    while isinstance(inner, For) and inner.kind == "serial" and not _is_strip(s.axis, inner.axis):
        if len(inner.body) != 1 or s.axis in _bound_leaves(inner.axis):
            return None
        between.append(inner)
        inner = inner.body[0]
    if not isinstance(inner, For) or inner.within is not None:
        return None
    if not between and inner.kind != "vector":
        return None
    if not _is_strip(s.axis, inner.axis) or _uses(inner.body, s.axis):
        return None
    first, last = _ends(s.axis)
    lower = substitute(inner.axis.lower, {s.axis: first})
    lane = axis(inner.axis.name, lower, substitute(inner.axis.upper, {s.axis: last}))
    body: tuple[Stmt, ...] = (
        replace(inner, axis=lane, body=placed(inner.body, {inner.axis: lane})),
    )
    for loop in reversed(between):
        body = (replace(loop, body=body),)
    return JoinedStrips(first, last, body)


def _ends(number: Axis) -> tuple[Axis, Axis]:
    """The numbers of the first strip and of the last."""
    first, last = (axis(f"{number.name}{end}", number.lower, number.upper) for end in ("f", "l"))
    return first, last


def walked_range(s: For) -> Call | None:
    """Whether each iteration lists the points of a walk whose value is in its range, by that test.

    Iterations in a row may then walk once, for the range that theirs are together.
    """
    match s.body:
        case (
            For(
                body=(
                    Assign(),
                    For(body=(Store(), Assign(values=(Call(args=(_, chosen)),)))),
                    For(),
                )
            ),
        ):
            pass
        case _:
            return None
    match chosen:
        case Select(
            cond=Call(
                op="and", args=(Call(op="ge", args=(e, low)), Call(op="lt", args=(f, high)))
            ) as test
        ):
            pass
        case _:
            return None
    if e is not f or s.axis in free_leaves(e):
        return None
    if not _is_strip(s.axis, axis("range", low, high)):
        return None
    return None if _uses(placed(s.body, {test: TRUE}), s.axis) else test


def _is_strip(number: Axis, a: Axis) -> bool:
    """[w*number, min(n, w*number + w)) by one."""
    start = linear_form(a.lower)
    width = start.terms.get(number, 0)
    if width <= 0 or len(start.terms) != 1 or start.constant or linear_form(a.step).terms:
        return False
    upper = a.upper
    ends = upper.args if isinstance(upper, Call) and upper.op == "minimum" else (upper,)
    moving = [linear_form(e) for e in ends if number in free_leaves(e)]
    if len(moving) != 1 or linear_form(a.step).constant != 1:
        return False
    return dict(moving[0].terms) == dict(start.terms) and moving[0].constant == width


def _bound_leaves(a: Axis) -> dict[Expr, None]:
    return free_leaves(a.lower, a.upper, a.step)


def _uses(body: tuple[Stmt, ...], a: Axis) -> bool:
    return a in free_leaves(*all_expressions(statements(body)))


def where(condition: Expr, s: For, *, run: bool) -> For:
    """The loop, without iterations unless the condition, which no loop changes, is `run`."""
    ends = (s.axis.upper, s.axis.lower) if run else (s.axis.lower, s.axis.upper)
    a = axis(s.axis.name, s.axis.lower, select(condition, *ends), s.axis.step)
    return replace(s, axis=a, body=placed(s.body, {s.axis: a}))


def placed(body: tuple[Stmt, ...], mapping: Mapping[Expr, Expr]) -> tuple[Stmt, ...]:
    """The statements with axes replaced, those of loops whose bounds change renewed."""
    return rewrite(body, expression=substitutor(mapping))
