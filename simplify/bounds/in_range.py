"""Does an index stay in [0, extent)? Decided by isl, memoised by structure.

Small boxes in which the index is not affine are enumerated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tensorad.ir.analysis.facts import facts_about
from tensorad.ir.dtypes import BOOL, INT64
from tensorad.ir.expr import (
    COMPARISONS,
    TRUE,
    Axis,
    Call,
    Cast,
    Const,
    Expr,
    Read,
    Reduce,
    Select,
    Size,
    logical_not,
    logical_or,
    param,
)
from tensorad.ir.visit import children, conjuncts, substitute_all
from tensorad.process import memo
from tensorad.simplify.bounds.pointwise import NotEnumerable, first_point
from tensorad.simplify.index.intervals import Interval, cut, intervals, overflows
from tensorad.simplify.index.quasi_affine import axis_conditions, is_affine
from tensorad.simplify.sets.integer_set import IntegerSet
from tensorad.simplify.sets.space import BudgetExceeded, NotAffine, Space, budget

Point = dict[Expr, int]


@dataclass(frozen=True, eq=False)
class RangeVerdict:
    """ "in": always in range; "out": never possible to be right; "sizes": right for the sizes
    that meet `requirement`; "data": not decided by axes and sizes."""

    kind: Literal["in", "out", "sizes", "data"]
    requirement: Expr = TRUE


_IN = RangeVerdict("in")
_DATA = RangeVerdict("data")
MEMO_LIMIT = 8192
"""How many answers are memoised before starting anew."""
_memo: dict[object, RangeVerdict] = memo({})


class Query:
    """Is 0 <= index < extent wherever `guard` holds inside the bounds of the axes?"""

    def __init__(self, axes: Sequence[Axis], guard: Expr, index: Expr, extent: Expr) -> None:
        self.axes = tuple(axes)
        self.guard = guard
        self.index = index
        self.extent = extent

    def verdict(self) -> RangeVerdict:
        """The answer; equal questions about other axes are not asked again."""
        problem = _Problem(self)
        key = problem.key
        found = _memo.get(key)
        if found is None:
            try:
                found = problem.solve()
            except (NotAffine, BudgetExceeded):
                found = _DATA
            if len(_memo) >= MEMO_LIMIT:
                _memo.clear()
            _memo[key] = found
        return problem.by_enumeration() if found is _DATA else found

    def witness(self, sizes: Mapping[Expr, int] | None = None) -> Point | None:
        """A point (sizes first) where the index is outside, at the given sizes if any.

        It may cost isl more than the verdict did: beyond the budget it is looked for point by
        point, and in boxes too large for that an empty point stands for one that is not known.
        """
        problem = _Problem(self)
        problem.fixed = [s == v for s, v in (sizes or {}).items() if s in problem.sizes]
        if problem.unknowns:
            return problem.first_outside()
        try:
            with budget():
                return problem.outside().sample()
        except BudgetExceeded:
            try:
                return problem.first_outside()
            except NotEnumerable:
                return {}


class _Problem:
    """The question over sizes, axes and unknowns, in a form isl takes."""

    def __init__(self, query: Query) -> None:
        bounds = [b for a in query.axes for b in (a.lower, a.upper, a.step)]
        self.query = query
        self.roots = [*bounds, query.guard, query.index, query.extent]
        self.fixed: list[Expr] = []
        """Values of sizes, when only some are asked about."""
        self.ranges = intervals(self.roots, _known_from(query.guard))
        self.sizes: dict[Expr, int] = {}
        self.unknowns: dict[Expr, int] = {}
        self.number: dict[Expr, int] = {a: -1 - n for n, a in enumerate(query.axes)}
        tokens = self._tokens(self.roots)
        self.facts = [f for f in facts_about(self.sizes) if is_affine(f, ())]
        self.key = (len(query.axes), *tokens, *self._tokens(self.facts))

    def _tokens(self, roots: Sequence[Expr]) -> list[object]:
        """The text of the question, the same for equal ones; collects sizes and unknowns."""
        number, tokens = self.number, list[object]()
        stack = list(reversed(roots))
        while stack:
            e = stack[-1]
            if e in number:
                stack.pop()
                continue
            unknown = self._is_unknown(e)
            parts = () if unknown else children(e)
            missing = [c for c in parts if c not in number]
            if missing:
                stack.extend(reversed(missing))
                continue
            stack.pop()
            number[e] = len(number)
            if unknown:
                self.unknowns[e] = len(self.unknowns)
            elif isinstance(e, Size):
                self.sizes[e] = len(self.sizes)
            tokens.append(self._token(e, unknown, [number[c] for c in parts]))
        return [*tokens, *[number[r] for r in roots]]

    def _token(self, e: Expr, unknown: bool, parts: list[int]) -> object:
        if unknown:
            found = self.ranges[e]
            return ("unknown", e.dtype is BOOL, found.lo, found.hi)
        if isinstance(e, Const):
            return ("const", e.dtype is BOOL, e.value)
        if isinstance(e, Size):
            return e.name
        op = e.op if isinstance(e, Call) else type(e).__name__
        return (op, e.dtype is BOOL, *parts)

    def _is_unknown(self, e: Expr) -> bool:
        """Outside quasi-affine arithmetic, or where 64-bit arithmetic could wrap."""
        match e:
            case Const() | Size():
                return e.dtype.is_float
            case Call(op="and" | "or" | "not"):
                return False
            case Call(op="lt" | "le" | "gt" | "ge" | "eq" | "ne", args=(a, _)):
                return a.dtype.is_float or a.dtype is BOOL
            case Call(op="add" | "sub" | "neg" | "minimum" | "maximum" | "abs"):
                return not e.dtype.is_integer or overflows(e, self.ranges)
            case Call(op="mul", args=(a, b)):
                linear = isinstance(a, Const) or isinstance(b, Const)
                return not linear or not e.dtype.is_integer or overflows(e, self.ranges)
            case Call(op="floordiv" | "mod", args=(_, b)):
                return not isinstance(b, Const) or overflows(e, self.ranges)
            case Select():
                return e.dtype.is_float
            case Cast(value=v):
                widens = v.dtype.is_integer and v.dtype.bits < e.dtype.bits
                return v.dtype is not BOOL and not (widens and e.dtype.kind == "int")
        return True

    def solve(self) -> RangeVerdict:
        with budget():
            outside = self.outside()
            if outside.is_empty():
                return _IN
            if self.unknowns:
                return _DATA
            if not self.sizes:
                return RangeVerdict("out")
            context = IntegerSet.of(outside.space, *self._about_sizes())
            wrong = outside.parameter_guard(context)
            inside = self._set(logical_not(wrong))
            if inside.is_empty():
                return RangeVerdict("out")
            return RangeVerdict("sizes", logical_not(wrong))

    def by_enumeration(self) -> RangeVerdict:
        """What a small box of constant bounds tells; not memoised: unknowns look alike."""
        try:
            return _IN if self.first_outside() is None else RangeVerdict("out")
        except NotEnumerable:
            return _DATA

    def first_outside(self) -> Point | None:
        """The first bad point of a box of constant bounds."""
        loops = [axis_conditions(a) for a in self.query.axes]
        return first_point(self.query.axes, [*loops, self.query.guard, self._wrong()])

    def outside(self) -> IntegerSet:
        """The points where the index is evaluated and not in range."""
        return self._set(self._wrong())

    def _wrong(self) -> Expr:
        index, extent = self.query.index, self.query.extent
        return logical_or(index < 0, index >= extent)

    def _about_sizes(self) -> list[Expr]:
        return [*[s >= 0 for s in self.sizes], *self.facts, *self.fixed]

    def _set(self, condition: Expr) -> IntegerSet:
        loops = [axis_conditions(a) for a in self.query.axes]
        names = {  # for a condition the integer that is 1 where it holds
            e: param(f"u{n}", INT64 if e.dtype is BOOL else e.dtype)
            for e, n in self.unknowns.items()
        }
        image = {e: p if e.dtype is not BOOL else p >= 1 for e, p in names.items()}
        parts = substitute_all([*loops, *conjuncts(self.query.guard), condition], image)
        known = [c for e, p in names.items() for c in _within(p, self.ranges[e])]
        about_sizes = self._about_sizes()
        space = Space([*self.sizes, *names.values()], self.query.axes)
        return IntegerSet.of(space, *about_sizes, *known, *parts)


def _known_from(guard: Expr) -> dict[Expr, Interval]:
    """Tighter intervals of data where a guard compares it: W[i] >= 2 keeps W[i] - 2 from
    wrapping. Only points where the guard holds are asked about."""
    parts = [c for c in conjuncts(guard) if isinstance(c, Call) and c.op in COMPARISONS]
    operands = [a for c in parts for a in c.args if a.dtype.is_integer]
    if all(isinstance(a, (Axis, Const, Size)) for a in operands):
        return {}
    memo = intervals(operands)
    known: dict[Expr, Interval] = {}
    for c in parts:
        a, b = c.args
        if a.dtype.is_integer:
            for e, op, other in ((a, c.op, b), (b, _TURNED[c.op], a)):
                if isinstance(e, (Read, Reduce)):
                    known[e] = cut(known.get(e, memo[e]), op, memo[other])
    return known


_TURNED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
"""a op b, read from b."""


def _within(p: Expr, found: Interval) -> list[Expr]:
    """What an interval says."""
    low = [] if found.lo is None else [p >= found.lo]
    return low if found.hi is None else [*low, p <= found.hi]
