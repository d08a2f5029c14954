"""Axes that equations of known form determine: no sets are needed for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tensorad.ir.expr import TRUE, Axis, Call, Const, Expr, mod, sub
from tensorad.ir.visit import free_leaves, substitute, uses_any
from tensorad.simplify.index.linear import Linear, linear_form
from tensorad.simplify.index.quasi_affine import starts_at_zero


def solve_identities(
    outer: Sequence[Axis], inner: Sequence[Axis], parts: list[Expr]
) -> tuple[dict[Expr, Expr], list[Axis], list[Expr]]:
    """(values of solved inner axes, the other axes, the other conditions).

    v == x with x an outer axis of the same bounds: v is x. (Most maps are no more.) An axis of
    extent 1 is its only value. x == v // 6, y == v // 2 % 3 and z == v % 2, where v is in [0, 30)
    and x, y, z have 5, 3 and 2 values: v is 6*x + 2*y + z. x == (v + e) % n with v and x both in
    [0, n) for a symbolic n: v is (x - e) % n, where e may use axes that are not solved.
    """
    single: dict[Expr, Expr] = {a: a.lower for a in outer if a.extent == 1}
    parts = [p for p in [substitute(p, single) for p in parts] if p is not TRUE]
    solved: dict[Expr, Expr] = {a: a.lower for a in inner if a.extent == 1}
    inside = dict.fromkeys(inner)
    outside = dict.fromkeys(outer)
    rest: list[Expr] = []
    for p in parts:
        pair = _axis_pair(p, inside, outside)
        if pair is not None and pair[0] not in solved and _same_bounds(*pair):
            solved[pair[0]] = pair[1]
        else:
            rest.append(p)
    for a in inner:
        packed = None if a in solved else _packed(a, outside, rest)
        if packed is not None:
            solved[a], rest = packed
    if _in_bounds(inner, solved):
        return {}, list(inner), parts
    if solved:
        rest = [substitute(p, solved) for p in rest]
    left = [a for a in inner if a not in solved]
    return _solve_rotations(outside, left, solved, rest)


def _in_bounds(inner: Sequence[Axis], solved: dict[Expr, Expr]) -> bool:
    """Whether the bounds of an axis that stays use one that is solved."""
    left = [a for a in inner if a not in solved]
    return any(uses_any(b, solved) for a in left for b in (a.lower, a.upper, a.step))


def _axis_pair(
    p: Expr, inside: dict[Axis, None], outside: dict[Axis, None]
) -> tuple[Axis, Axis] | None:
    if isinstance(p, Call) and p.op == "eq":
        a, b = p.args
        for v, x in ((a, b), (b, a)):
            if isinstance(v, Axis) and isinstance(x, Axis) and v in inside and x in outside:
                return v, x
    return None


def _same_bounds(v: Axis, x: Axis) -> bool:
    return v.lower is x.lower and v.upper is x.upper and v.step is x.step


def _packed(
    v: Axis, outside: dict[Axis, None], parts: Sequence[Expr]
) -> tuple[Expr, list[Expr]] | None:
    """(value, the other conditions) of an axis all of whose digits are outer axes."""
    if not starts_at_zero(v) or v.extent is None:
        return None
    places: dict[int, tuple[Axis, int, Expr]] = {}
    for p in parts:
        if isinstance(p, Call) and p.op == "eq":
            for x, e in (p.args, p.args[::-1]):
                found = _digit(e, v) if isinstance(x, Axis) and x in outside else None
                if found is not None and isinstance(x, Axis) and starts_at_zero(x):
                    places[found[0]] = x, found[1] or v.extent, p
    weights: dict[Expr, int] = {}
    used: dict[Expr, None] = {}
    at = 1
    while at in places:
        x, end, p = places.pop(at)
        if x in weights or x.extent is None or x.extent * at != end:
            return None
        weights[x], used[p] = at, None
        at = end
    if at != v.extent or len(weights) < 2:
        return None
    value = Linear(dict(list(weights.items())[::-1]), 0).to_expr()
    return value, [p for p in parts if p not in used]


def _digit(e: Expr, v: Axis) -> tuple[int, int] | None:
    """(a, b) with e = v % b // a; b is 0 for v // a."""
    if e is v:
        return 1, 0
    if not isinstance(e, Call) or e.op not in ("floordiv", "mod"):
        return None
    number, divisor = e.args
    inner = _digit(number, v)
    if inner is None or not isinstance(divisor, Const) or divisor.value <= 0:
        return None
    low, high = inner
    end = low * int(divisor.value)
    if high % end:
        return None
    return (end, high) if e.op == "floordiv" else (low, end)


def _solve_rotations(
    outside: dict[Axis, None], inner: list[Axis], solved: dict[Expr, Expr], parts: list[Expr]
) -> tuple[dict[Expr, Expr], list[Axis], list[Expr]]:
    for p in parts:
        others = [q for q in parts if q is not p]
        bounds = [b for a in inner for b in (a.lower, a.upper, a.step)]
        found = _rotation(p, outside, inner, free_leaves(*others, *bounds))
        if found is not None:
            v, value = found
            inner = [a for a in inner if a is not v]
            solved, parts = {**solved, v: value}, others
    return solved, inner, parts


def _rotation(
    p: Expr, outside: dict[Axis, None], inner: Sequence[Axis], used: Iterable[Expr]
) -> tuple[Axis, Expr] | None:
    """(v, value) from x == (v + e) % n, if nothing else speaks of v."""
    if not isinstance(p, Call) or p.op != "eq":
        return None
    taken = dict.fromkeys(used)
    for x, m in (p.args, p.args[::-1]):
        if not isinstance(x, Axis) or x not in outside:
            continue
        if not isinstance(m, Call) or m.op != "mod" or isinstance(m.args[1], Const):
            continue
        form, extent = linear_form(m.args[0]), m.args[1]
        for v in inner:
            c = form.terms.get(v, 0)
            if abs(c) == 1 and v not in taken and runs_to(v, extent) and runs_to(x, extent):
                form.drop(v)
                e = form.to_expr()
                if not uses_any(e, (v,)):
                    return v, mod(sub(x, e) if c == 1 else sub(e, x), extent)
    return None


def runs_to(a: Axis, extent: Expr) -> bool:
    """Whether an axis takes the values 0, 1, ... below an extent."""
    return starts_at_zero(a) and a.upper is extent
