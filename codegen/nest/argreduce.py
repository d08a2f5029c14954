"""Folds that keep the best element and its place, made cheap where there surely is an element.

An argmin starts from "no place yet" and asks at every step whether that still holds. It need not:
started from the place of the first point, with the worst of all values, its state after that point
is the same, for every value; this is proved by trying each case. What then asks for the sign of a
place is settled, and places of 32-bit values fit 32-bit integers, as many to a register as values.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise, product
from math import inf, isnan, nan
from typing import Final

from tensorad.codegen.loops.index_ranges import COMPARES, Ranges, among, fold_by_ranges
from tensorad.codegen.nest.folds import FoldLoop
from tensorad.codegen.nest.ir import Nest, substitute_nest
from tensorad.ir.combiner import Combiner, per_combiner
from tensorad.ir.dtypes import INT32, INT64, DType
from tensorad.ir.expr import (
    TRUE,
    Axis,
    Call,
    Const,
    Expr,
    Number,
    Param,
    Select,
    call,
    cast,
    const,
    logical_and,
    logical_not,
    logical_or,
    param,
    select,
)
from tensorad.ir.order import postorder_along
from tensorad.ir.visit import (
    children,
    free_leaves,
    postorder,
    rewrite,
    substitute,
    substitute_all,
)
from tensorad.simplify.index.linear import linear_form

LOGIC: Final = (*COMPARES, "isnan", "and", "or", "not")
INT32_HIGH: Final = 2**31 - 1


def start_selections(nest: Nest) -> Nest:
    """The nest with its folds of (value, place) started from the first place.

    Requires: reduce axes that are whole, as after all cuts.
    """
    groups: dict[Param, list[FoldLoop]] = {}
    for f in nest.folds:
        groups.setdefault(f.accumulators[0], []).append(f)
    made: dict[FoldLoop, FoldLoop] = {}
    images: dict[Expr, Expr] = {}
    for folds in groups.values():
        started = _started(nest, folds)
        if started is not None:
            made.update(zip(folds, started, strict=True))
            pairs = zip(folds[0].accumulators, started[0].accumulators, strict=True)
            images.update({p: cast(q, p.dtype) for p, q in pairs if q is not p})
    if not made:
        return nest
    values = substitute_nest(replace(nest, folds=()), images, nest.axes)
    return replace(values, folds=tuple([made.get(f, f) for f in nest.folds]))


def _started(nest: Nest, folds: Sequence[FoldLoop]) -> list[FoldLoop] | None:
    """The folds of one state with a start of their own."""
    first = folds[0]
    c = first.combiner
    if c.arity != 2 or len(c.rhs) != 2 or c.identity[1].dtype is not INT64:
        return None
    if any(f.condition is not TRUE or f.combiner is not c for f in folds):
        return None
    if not all(a.extent for a in first.axes):
        return None
    span = [_span(nest, f) for f in folds]
    low, high = min(s[0] for s in span), max(s[1] for s in span)
    if not 0 <= low <= high < inf:
        return None
    narrow = c.identity[0].dtype.bits == 32 and high <= INT32_HIGH
    begun = _begun(c)
    if begun is None:
        return None
    if narrow:
        begun = _narrow(begun)
    place = first.sources[1]
    for a in reversed(first.axes):
        place = substitute(place, {a: a.lower})
    dtype = begun.identity[1].dtype
    state = first.accumulators
    if narrow:
        state = (state[0], param(state[1].name, dtype))
    start = (c.identity[0], cast(place, dtype))
    merge = _merging(begun) if all(_is_ordered(f) for f in folds) else None
    result = []
    for f in folds:
        sources = (f.sources[0], cast(f.sources[1], dtype))
        made = replace(f, combiner=begun, sources=sources, accumulators=state)
        result.append(replace(made, start=start, merge=merge))
    return result


def _span(nest: Nest, fold: FoldLoop) -> tuple[float, float]:
    """The least and the greatest place."""
    return Ranges([*nest.axes, *fold.axes]).of(fold.sources[1])


@per_combiner
def _begun(c: Combiner) -> Combiner | None:
    """The combiner for places >= 0 that stays right from (identity, first place) on."""
    places = (c.lhs[1], c.rhs[1])
    ranges = Ranges(known=dict.fromkeys(places, (0, INT32_HIGH)))
    memo: dict[Expr, Expr] = {}
    results = tuple([_one_comparison(fold_by_ranges(r, ranges, memo)) for r in c.results])
    if not all(_is_choice(r, (x, y)) for r, x, y in zip(results, c.lhs, c.rhs, strict=True)):
        return None
    for value in _cases(c.identity[0], results):
        state: tuple[Number, ...] = (c.identity[0].value, 0)
        element: tuple[Number, ...] = (value, 0)
        for tried in ((c.results, (c.identity[0].value, c.identity[1].value)), (results, state)):
            env = dict(zip((*c.lhs, *c.rhs), (*tried[1], *element), strict=True))
            if not all(_same(_value(r, env), e) for r, e in zip(tried[0], element, strict=True)):
                return None
    return Combiner(c.name, c.lhs, c.rhs, results, c.identity, c.associative)


@per_combiner
def _narrow(c: Combiner) -> Combiner:
    """The combiner of 32-bit places."""
    lhs = (c.lhs[0], param(c.lhs[1].name, INT32))
    rhs = (c.rhs[0], param(c.rhs[1].name, INT32))
    renamed = substitute_all(c.results, {c.lhs[1]: lhs[1], c.rhs[1]: rhs[1]})
    identity = (c.identity[0], const(c.identity[1].value, INT32))
    return Combiner(c.name, lhs, rhs, renamed, identity, c.associative)


def _is_ordered(fold: FoldLoop) -> bool:
    """Whether the fold visits its places from the smallest to the greatest."""
    form = linear_form(fold.sources[1])
    reach = 0
    for a in reversed(fold.axes):
        c, by = form.terms.pop(a, 0), linear_form(a.step)
        bounds = free_leaves(a.lower, a.upper, a.step)
        if any(isinstance(e, Axis) for e in bounds) or by.terms or c * by.constant <= reach:
            return False
        reach += c * by.constant * ((a.extent or 1) - 1)
    return not any(b in free_leaves(t) for t in form.terms for b in fold.axes)


@per_combiner
def _merging(c: Combiner) -> Combiner | None:
    """The first of the best whatever the order of points: of equals the smaller place."""
    tests = [r.cond for r in c.results if isinstance(r, Select) and r.then in _set(c.rhs)]
    if len(tests) != 2 or tests[0] is not tests[1]:
        return None
    (x, p), (y, q) = c.lhs, c.rhs
    beats = tests[0]
    if not _is_order(beats, x, y, _cases(c.identity[0], c.results)):
        return None
    beaten = substitute(beats, {x: y, y: x})
    take = logical_or(beats, logical_and(logical_not(beaten), call("lt", q, p)))
    results = (select(take, y, x), select(take, q, p))
    far = const(INT32_HIGH if p.dtype is INT32 else INT64.highest, p.dtype)
    return Combiner(c.name, c.lhs, c.rhs, results, (c.identity[0], far), True)


def _set(params: Sequence[Param]) -> dict[Expr, None]:
    return dict.fromkeys(params)


def _is_order(beats: Expr, x: Param, y: Param, cases: Sequence[Number]) -> bool:
    """Whether it compares values alone, as a strict order in which equal means equally good."""
    if any(isinstance(e, Param) and e is not x and e is not y for e in postorder(beats)):
        return False
    several = [*cases, *[1.5, 2.5, 3.5]] if x.dtype.is_float else cases
    n = range(len(several))
    table = [[bool(_value(beats, {x: several[i], y: several[j]})) for j in n] for i in n]
    for i, j in product(n, n):
        if table[i][j] and table[j][i]:
            return False  # i = j: nothing beats itself
    for i, j, k in product(n, n, n):
        if table[i][j] and not table[i][k] and not table[k][j]:
            return False  # what is better than another is better than that, or worse than it
    return True


def _is_choice(result: Expr, operands: tuple[Param, Param]) -> bool:
    """Whether a result is one of its operands, chosen by comparisons alone."""
    every = postorder_along((result,), lambda e: (e.then, e.orelse) if type(e) is Select else ())
    if not all(type(e) is Select or among(e, operands) for e in every):
        return False
    tests = [e.cond for e in postorder(result) if isinstance(e, Select)]
    for e in postorder(*tests):
        known = isinstance(e, (Param, Const)) or (isinstance(e, Call) and e.op in LOGIC)
        if not known:
            return False
        if isinstance(e, Call) and e.op in COMPARES and not _is_plain(e):
            return False
    return True


def _is_plain(e: Call) -> bool:
    """A comparison of operands or constants, and of places with no other place."""
    if not all(isinstance(a, (Param, Const)) for a in e.args):
        return False
    return e.args[0].dtype is not INT64 or all(isinstance(a, Const) for a in e.args)


def _cases(identity: Const, results: Sequence[Expr]) -> list[Number]:
    """Values of which one compares with every constant as any value does."""
    known = {float(e.value) for e in postorder(*results) if isinstance(e, Const)}
    known = {v for v in known if not isnan(v)} | {float(identity.value)}
    if not identity.dtype.is_float:
        return _integer_cases(identity.dtype, known)
    ends = sorted({*known, -inf, inf})
    between = [_between(a, b) for a, b in pairwise(ends)]
    return [*ends, *between, nan]


def _integer_cases(dtype: DType, known: set[float]) -> list[Number]:
    low, high = int(dtype.lowest), int(dtype.highest)
    near = {int(v) + d for v, d in product(known, (-1, 0, 1))} | {low, high}
    return [v for v in sorted(near) if low <= v <= high]


def _between(a: float, b: float) -> float:
    if a == -inf:
        return 0.0 if b == inf else b - abs(b) - 1.0
    return a + abs(a) + 1.0 if b == inf else (a + b) / 2


_DECIDED: Final[dict[str, Callable[..., bool]]] = {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "eq": operator.eq, "ne": operator.ne, "isnan": isnan, "not": operator.not_,
    "and": lambda a, b: a and b, "or": lambda a, b: a or b,
}  # fmt: skip


def _value(root: Expr, env: dict[Param, Number]) -> Number:
    """A formula of comparisons for these operands."""
    memo: dict[Expr, Number] = dict(env.items())
    for e in postorder(root):
        if isinstance(e, Const):
            memo[e] = e.value
        elif isinstance(e, Select):
            memo[e] = memo[e.then] if memo[e.cond] else memo[e.orelse]
        elif isinstance(e, Call):
            memo[e] = _DECIDED[e.op](*[memo[a] for a in children(e)])
    return memo[root]


def _same(a: Number, b: Number) -> bool:
    return a == b or (a != a and b != b)


def _one_comparison(root: Expr) -> Expr:
    """x < y or (isnan(x) and not isnan(y)) -> not (x >= y) and not isnan(y); > likewise."""

    def rule(e: Expr) -> Expr | None:
        if not isinstance(e, Call) or e.op != "or":
            return None
        for better, other in (e.args, e.args[::-1]):
            if not isinstance(better, Call) or better.op not in ("lt", "gt"):
                continue
            x, y = better.args
            if other is logical_and(call("isnan", x), logical_not(call("isnan", y))):
                worse = call("ge" if better.op == "lt" else "le", x, y)
                return logical_and(logical_not(worse), logical_not(call("isnan", y)))
        return None

    return rewrite(root, rule)
