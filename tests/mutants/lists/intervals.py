"""Bounds of integers: interval arithmetic, and the reads and checks that are left out by it."""
# ruff: noqa: E501  (texts of the source stay as they are)

from __future__ import annotations

from typing import Final

from tests.mutants.mistake import Mistake, Part, in_file

INTERVALS: Final = Part(
    "tests/simplify/index tests/simplify/bounds",
    "tests/simplify/test_bounds.py tests/codegen/index_checks tests/te/test_errors_bounds.py",
)

MISTAKES: Final[list[Mistake]] = [
    *in_file(
        "simplify/index/intervals.py",
        INTERVALS,
        [
            (
                "a quotient's upper end by an open divisor is the numerator's",
                "else max(hi // divisors[0], -1)",
                "else hi // divisors[0]",
            ),
            (
                "a quotient's upper end by one divisor alone",
                "hi = max(hi // d for d in divisors) if",
                "hi = hi // divisors[0] if",
            ),
            (
                "a quotient's lower end by one divisor alone",
                "lo = min(lo // d for d in divisors) if",
                "lo = lo // divisors[0] if",
            ),
            (
                "by zero is not 0",
                "return Interval(lo, hi).hull(Interval(0, 0)) if b.lo == 0 else Interval(lo, hi)",
                "return Interval(lo, hi)",
            ),
            ("> cuts like >=", 'least = bound.lo + (op == "gt")', "least = bound.lo"),
            (
                "< cuts one further",
                'most = bound.hi - (op == "lt")',
                'most = bound.hi - (op in ("lt", "le"))',
            ),
            (
                "an axis ends one too early",
                "hi = lo + (a.extent - 1) * int(memo[a.step].lo or 1)",
                "hi = lo + (a.extent - 2) * int(memo[a.step].lo or 1)",
            ),
            (
                "an axis with a step ends as one without",
                "hi = lo + (a.extent - 1) * int(memo[a.step].lo or 1)",
                "hi = lo + (a.extent - 1)",
            ),
            (
                "a select is what its first side is",
                "return then.hull(memo[e.orelse])",
                "return then",
            ),
            (
                "a select's condition cuts the other side",
                "then = _where(e.then, memo[e.then], e.cond, memo)\n            return then.hull(memo[e.orelse])",
                "then = _where(e.orelse, memo[e.orelse], e.cond, memo)\n            return then.hull(memo[e.then])",
            ),
            (
                "a condition cuts by an or as by an and",
                'if c.op == "and":',
                'if c.op in ("and", "or"):',
            ),
            (
                "arithmetic that wraps keeps its bounds",
                "return found if found is not None and _fits(found, e.dtype) else range_of(e.dtype)",
                "return found if found is not None else range_of(e.dtype)",
            ),
            (
                "a cast that wraps keeps its bounds",
                "keeps = widens and not v.dtype.is_float and _fits(memo[v], e.dtype)",
                "keeps = widens and not v.dtype.is_float",
            ),
            (
                "a product's ends by the ends of one factor",
                "products = [x * y for x in (a.lo, a.hi) for y in (b.lo, b.hi)]",
                "products = [a.lo * b.lo, a.hi * b.hi]",
            ),
            (
                "a half-open factor below 0 counts as at least 0",
                "if a.lo is not None and b.lo is not None and a.lo >= 0 and b.lo >= 0:",
                "if a.lo is not None and b.lo is not None and a.lo * b.lo >= 0:",
            ),
            (
                "a remainder may be the divisor at most, less nothing",
                "if a.hi is not None and a.hi < b.lo:\n                return a",
                "if a.hi is not None and a.hi <= b.lo:\n                return a",
            ),
            (
                "a remainder by a divisor of either sign is at least 0",
                "return Interval(min(b.lo + 1, 0), max(b.hi - 1, 0))",
                "return Interval(0, max(b.hi - 1, 0))",
            ),
            (
                "minimum is at most its first operand's largest",
                "his = [h for h in (a.hi, b.hi) if h is not None]\n    return Interval(lo, min(his) if his else None)",
                "return Interval(lo, a.hi)",
            ),
            (
                "an absolute value is at most its upper end's",
                "None if a.lo is None or a.hi is None else max(-a.lo, a.hi)",
                "a.hi",
            ),
            (
                "<= is known where < is",
                "a.lo is not None and b.hi is not None and a.lo >= b.hi)",
                "a.lo is not None and b.hi is not None and a.lo > b.hi - 2)",
            ),
            (
                "a sum has as many terms as its last axis",
                "points = _mul(points, Interval(0, many))",
                "points = Interval(0, many)",
            ),
            (
                "a sum of something has no empty case",
                "points = _mul(points, Interval(0, many))",
                "points = _mul(points, Interval(many, many))",
                "the product begins with [0, 1], which holds the empty case already",
            ),
            (
                "a fold under a condition is not empty",
                "nonempty = e.condition is TRUE and all(a.extent for a in e.axes)",
                "nonempty = all(a.extent for a in e.axes)",
            ),
            (
                "a fold that keeps growing is settled",
                "            after = [a if a == s else r for a, s, r in zip(after, state, ranges, strict=True)]\n        state = after\n    return tuple(ranges)",
                "            return tuple(after)\n        state = after\n    return tuple(ranges)",
            ),
            (
                "a scatter's start does not count",
                "        added.append(tensor_interval(op.init))\n",
                "        pass\n",
            ),
            (
                "an exclusive scan is never its start",
                "kept = (*anywhere, *after) if op.exclusive else (*after, *anywhere)",
                "kept = (*after, *anywhere)",
            ),
            (
                "a scan's elements do not count",
                "folded, start = [memo[s] for s in op.sources], [memo[s] for s in op.start]",
                "folded, start = [memo[s] for s in op.start], [memo[s] for s in op.start]",
            ),
            (
                "a constant's bounds are its ends",
                "return (Interval(int(op.array.min()), int(op.array.max())),)",
                "return (Interval(int(op.array.flat[0]), int(op.array.flat[-1])),)",
            ),
        ],
    ),
]
