"""Interval arithmetic: bounds of integer expressions over all axes, sizes and data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

from tensorad.ir.combiner import Combiner
from tensorad.ir.dtypes import DType
from tensorad.ir.expr import (
    FALSE,
    TRUE,
    Axis,
    Call,
    Cast,
    Const,
    Expr,
    LocalSize,
    Read,
    Reduce,
    Select,
    Size,
)
from tensorad.ir.order import reads
from tensorad.ir.tensor import Compute, Constant, Op, Scan, Scatter, Tensor, outputs
from tensorad.ir.visit import children, op_expressions
from tensorad.process import memo


@dataclass(frozen=True)
class Interval:
    """lo <= x <= hi; None is "no bound"."""

    lo: int | None
    hi: int | None

    def hull(self, other: Interval) -> Interval:
        """The smallest interval around both."""
        lo = None if self.lo is None or other.lo is None else min(self.lo, other.lo)
        hi = None if self.hi is None or other.hi is None else max(self.hi, other.hi)
        return Interval(lo, hi)

    def within(self, other: Interval) -> bool:
        """Whether every value lies in `other`."""
        low = other.lo is None or (self.lo is not None and self.lo >= other.lo)
        return low and (other.hi is None or (self.hi is not None and self.hi <= other.hi))


ANY: Final = Interval(None, None)
_BOOLEAN: Final = Interval(0, 1)
_NATURAL: Final = Interval(0, None)
_ranges: dict[DType, Interval] = {}
_tensors: WeakKeyDictionary[Op, tuple[Interval, ...]] = memo(WeakKeyDictionary())


def range_of(dtype: DType) -> Interval:
    """Every value of an integer or boolean dtype."""
    if dtype not in _ranges:
        if dtype.is_float:
            _ranges[dtype] = ANY
        elif dtype.is_integer:
            _ranges[dtype] = Interval(int(dtype.lowest), int(dtype.highest))
        else:
            _ranges[dtype] = _BOOLEAN
    return _ranges[dtype]


def interval(e: Expr, env: Mapping[Expr, Interval] | None = None) -> Interval:
    """Bounds of an integer or boolean expression; `env` gives those of chosen nodes."""
    return intervals((e,), env)[e]


def surely_false(condition: Expr) -> bool:
    """Whether a condition holds nowhere, as far as the ranges of its parts tell."""
    return condition is FALSE or (condition is not TRUE and interval(condition).hi == 0)


def intervals(
    roots: Sequence[Expr], env: Mapping[Expr, Interval] | None = None
) -> dict[Expr, Interval]:
    """The bounds of every node under the roots, and of the axes they use."""
    memo: dict[Expr, Interval] = dict(env or {})
    for e in parts_first(roots, memo):
        memo[e] = ANY if e.dtype.is_float else _bounds(e, memo)
    return memo


def parts_first(roots: Sequence[Expr], memo: Mapping[Expr, object]) -> Iterator[Expr]:
    """The nodes under the roots and in the bounds of axes, each after its parts.

    Requires: whoever asks for the next node has put this one into `memo`.
    """
    stack = list(reversed(roots))
    while stack:
        e = stack[-1]
        if e in memo:
            stack.pop()
            continue
        parts = (e.lower, e.upper, e.step) if type(e) is Axis else children(e)
        if type(e) is LocalSize and e.extent is not None:
            parts = (e.extent,)
        missing = [c for c in parts if c not in memo]
        if missing:
            stack.extend(reversed(missing))
        else:
            stack.pop()
            yield e


def overflows(e: Expr, memo: Mapping[Expr, Interval]) -> bool:
    """Whether integer arithmetic at this node might wrap around."""
    if not isinstance(e, Call) or not e.dtype.is_integer:
        return False
    if any(a not in memo for a in e.args):
        return False  # its bounds were given, its operands never looked at
    found = _call(e.op, [memo[a] for a in e.args])
    return found is None or not _fits(found, e.dtype)


def _fits(found: Interval, dtype: DType) -> bool:
    """None stands for sizes, whose arithmetic is taken not to wrap."""
    allowed = range_of(dtype)
    low = found.lo is None or allowed.lo is None or found.lo >= allowed.lo
    return low and (found.hi is None or allowed.hi is None or found.hi <= allowed.hi)


def _bounds(e: Expr, memo: Mapping[Expr, Interval]) -> Interval:
    match e:
        case Const(value=v):
            return Interval(int(v), int(v))
        case Axis():
            return _axis(e, memo)
        case LocalSize(extent=n) if n is not None:
            most = memo[n].hi
            return Interval(0, None if most is None else max(0, most - 1))
        case Size():
            return _NATURAL
        case Read():
            return tensor_interval(e.tensor)
        case Select() if memo[e.cond].lo == memo[e.cond].hi:
            return memo[e.then] if memo[e.cond].lo else memo[e.orelse]
        case Select():
            then = _where(e.then, memo[e.then], e.cond, memo)
            return then.hull(memo[e.orelse])
        case Cast(value=v):
            widens = v.dtype.bits <= e.dtype.bits or None not in (memo[v].lo, memo[v].hi)
            keeps = widens and not v.dtype.is_float and _fits(memo[v], e.dtype)
            return memo[v] if keeps else range_of(e.dtype)
        case Reduce():
            return _reduce(e, memo)
        case Call(op=op):
            found = _call(op, [memo[a] for a in e.args])
            return found if found is not None and _fits(found, e.dtype) else range_of(e.dtype)
    return range_of(e.dtype)


def _axis(a: Axis, memo: Mapping[Expr, Interval]) -> Interval:
    """[lower, upper - 1], and an empty axis counts as its lower bound."""
    lo, hi = memo[a.lower].lo, memo[a.upper].hi
    if hi is not None:
        hi -= 1
        if a.extent and lo is not None and memo[a.step].lo is not None:
            hi = lo + (a.extent - 1) * int(memo[a.step].lo or 1)
        if lo is not None:
            hi = max(lo, hi)
    return Interval(lo, hi)


def _where(e: Expr, found: Interval, cond: Expr, memo: Mapping[Expr, Interval]) -> Interval:
    """`found` cut by comparisons of `e` itself in a conjunction."""
    stack = [cond]
    while stack:
        c = stack.pop()
        if not isinstance(c, Call):
            continue
        if c.op == "and":
            stack.extend(c.args)
        elif c.op in ("ge", "gt", "le", "lt", "eq") and c.args[0] is e:
            found = cut(found, c.op, memo[c.args[1]])
    return found


def cut(found: Interval, op: str, bound: Interval) -> Interval:
    """The part of `found` where `x op bound` can hold; `found` itself if that is empty."""
    lo, hi = found.lo, found.hi
    if op in ("ge", "gt", "eq") and bound.lo is not None:
        least = bound.lo + (op == "gt")
        lo = least if lo is None else max(lo, least)
    if op in ("le", "lt", "eq") and bound.hi is not None:
        most = bound.hi - (op == "lt")
        hi = most if hi is None else min(hi, most)
    return found if lo is not None and hi is not None and lo > hi else Interval(lo, hi)


def _call(op: str, args: Sequence[Interval]) -> Interval | None:
    rule = _RULES.get(op)
    return None if rule is None else rule(*args)


def _add(a: Interval, b: Interval) -> Interval:
    lo = None if a.lo is None or b.lo is None else a.lo + b.lo
    hi = None if a.hi is None or b.hi is None else a.hi + b.hi
    return Interval(lo, hi)


def _neg(a: Interval) -> Interval:
    return Interval(None if a.hi is None else -a.hi, None if a.lo is None else -a.lo)


def _mul(a: Interval, b: Interval) -> Interval:
    if a.lo is None or a.hi is None or b.lo is None or b.hi is None:
        return _mul_unbounded(a, b)
    products = [x * y for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
    return Interval(min(products), max(products))


def _mul_unbounded(a: Interval, b: Interval) -> Interval:
    """Two nonnegative factors, or a constant one of either sign."""
    if a.lo is not None and b.lo is not None and a.lo >= 0 and b.lo >= 0:
        return Interval(a.lo * b.lo, None)
    for c, x in ((a, b), (b, a)):
        if c.lo is not None and c.lo == c.hi:
            ends = (x.lo, x.hi) if c.lo >= 0 else (x.hi, x.lo)
            lo, hi = (None if v is None else v * c.lo for v in ends)
            return Interval(lo, hi) if c.lo else Interval(0, 0)
    return ANY


def _floordiv(a: Interval, b: Interval) -> Interval:
    """By zero is 0; a quotient by d >= 1 lies between its ends, and keeps their signs."""
    if b.lo is None or b.lo < 0:
        return _by_any_divisor(a)
    divisors = [d for d in (max(b.lo, 1), b.hi) if d is not None and d > 0]
    lo, hi = a.lo, a.hi
    if lo is not None:
        lo = min(lo // d for d in divisors) if b.hi is not None else min(lo, 0)
    if hi is not None:
        hi = max(hi // d for d in divisors) if b.hi is not None else max(hi // divisors[0], -1)
    return Interval(lo, hi).hull(Interval(0, 0)) if b.lo == 0 else Interval(lo, hi)


def _by_any_divisor(a: Interval) -> Interval:
    if a.lo is None or a.hi is None:
        return ANY
    largest = max(abs(a.lo), abs(a.hi))
    return Interval(-largest, largest)


def _mod(a: Interval, b: Interval) -> Interval:
    """In [0, d) for d >= 1; a smaller nonnegative operand is its own remainder."""
    if b.lo is not None and b.lo >= 0:
        if a.lo is not None and a.lo >= 0:
            if a.hi is not None and a.hi < b.lo:
                return a
            below = Interval(0, None if b.hi is None else max(b.hi - 1, 0))
            return Interval(0, _minimum(a, below).hi)
        return Interval(0, None if b.hi is None else max(b.hi - 1, 0))
    if b.lo is not None and b.hi is not None:
        return Interval(min(b.lo + 1, 0), max(b.hi - 1, 0))
    return ANY


def _minimum(a: Interval, b: Interval) -> Interval:
    lo = None if a.lo is None or b.lo is None else min(a.lo, b.lo)
    his = [h for h in (a.hi, b.hi) if h is not None]
    return Interval(lo, min(his) if his else None)


def _maximum(a: Interval, b: Interval) -> Interval:
    return _neg(_minimum(_neg(a), _neg(b)))


def _abs(a: Interval) -> Interval:
    if a.lo is not None and a.lo >= 0:
        return a
    highest = None if a.lo is None or a.hi is None else max(-a.lo, a.hi)
    return Interval(0 if a.hi is None or a.hi >= 0 else -a.hi, highest)


def _sign(a: Interval) -> Interval:
    lo = -1 if a.lo is None else max(-1, min(1, a.lo))
    return Interval(lo, 1 if a.hi is None else max(-1, min(1, a.hi)))


def _truth(holds: bool, fails: bool) -> Interval:
    """A condition that is known to hold, known to fail, or open."""
    return Interval(int(holds), int(not fails))


def _less(a: Interval, b: Interval) -> Interval:
    holds = a.hi is not None and b.lo is not None and a.hi < b.lo
    return _truth(holds, a.lo is not None and b.hi is not None and a.lo >= b.hi)


def _equal(a: Interval, b: Interval) -> Interval:
    apart = _less(a, b).lo == 1 or _less(b, a).lo == 1
    return _truth(a.lo is not None and a.lo == a.hi == b.lo == b.hi, apart)


def _not(a: Interval) -> Interval:
    return _add(Interval(1, 1), _neg(a))


_RULES: Final[dict[str, Callable[..., Interval]]] = {
    "add": _add,
    "sub": lambda a, b: _add(a, _neg(b)),
    "neg": _neg,
    "mul": _mul,
    "floordiv": _floordiv,
    "mod": _mod,
    "minimum": _minimum,
    "maximum": _maximum,
    "abs": _abs,
    "sign": _sign,
    "lt": _less,
    "gt": lambda a, b: _less(b, a),
    "ge": lambda a, b: _not(_less(a, b)),
    "le": lambda a, b: _not(_less(b, a)),
    "eq": _equal,
    "ne": lambda a, b: _not(_equal(a, b)),
    "not": _not,
    "and": _minimum,
    "or": _maximum,
}


def tensor_interval(t: Tensor) -> Interval:
    """Bounds of every element of an integer or boolean tensor, from how it is defined."""
    if t.dtype.is_float:
        return ANY
    known = _tensors.get(t.op)
    return (_settled(t.op) if known is None else known)[t.index]


def _settled(op: Op) -> tuple[Interval, ...]:
    """The bounds of its elements; producers first, without recursion."""
    found: tuple[Interval, ...] | None = None
    stack = [op]
    while stack:
        op = stack[-1]
        found = _tensors.get(op)
        if found is not None:
            stack.pop()
            continue
        missing = [t.op for t in _integer_inputs(op) if t.op not in _tensors]
        if missing:
            stack.extend(missing)
        else:
            found = _tensors[op] = _op_intervals(op)
            stack.pop()
    assert found is not None  # the first of the stack is settled last
    return found


def _integer_inputs(op: Op) -> list[Tensor]:
    """Tensors whose bounds those of `op` depend on."""
    found: list[Tensor] = []
    if isinstance(op, Scatter) and op.init is not None:
        found.append(op.init)
    found += [e.tensor for e in reads(*op_expressions(op))]
    return [t for t in found if not t.dtype.is_float]


def _op_intervals(op: Op) -> tuple[Interval, ...]:
    if isinstance(op, Compute):
        memo = intervals(op.bodies)
        return tuple([memo[b] for b in op.bodies])
    if isinstance(op, Constant):
        if op.dtype.is_float or op.array.size == 0:
            return (range_of(op.dtype),)
        return (Interval(int(op.array.min()), int(op.array.max())),)
    if not isinstance(op, (Scan, Scatter)):
        return tuple([range_of(t.dtype) for t in outputs(op)])
    if isinstance(op, Scan):
        return _scan_intervals(op)
    memo = intervals([u.value for u in op.updates])
    added = [memo[u.value] for u in op.updates]
    if op.init is not None:
        added.append(tensor_interval(op.init))
    value = added[0]
    for other in added[1:]:
        value = value.hull(other)
    return _fold_bounds(op.combiner, [value], nonempty=False)


def _scan_intervals(op: Scan) -> tuple[Interval, ...]:
    memo = intervals((*op.start, *op.sources))
    folded, start = [memo[s] for s in op.sources], [memo[s] for s in op.start]
    anywhere = _fold_bounds(op.combiner, folded, False, start)
    after = _fold_bounds(op.combiner, folded, True, start)
    kept = (*anywhere, *after) if op.exclusive else (*after, *anywhere)
    return (*kept, *anywhere)


def _reduce(e: Reduce, memo: Mapping[Expr, Interval]) -> Interval:
    if e.combiner.is_sum:
        return _sum(e, memo)
    nonempty = e.condition is TRUE and all(a.extent for a in e.axes)
    return _fold_bounds(e.combiner, [memo[s] for s in e.sources], nonempty)[e.index]


def _sum(e: Reduce, memo: Mapping[Expr, Interval]) -> Interval:
    """At most as many terms as the box around the axes has points."""
    points: Interval = Interval(0, 1)
    for a in e.axes:
        lower, upper = memo[a.lower].lo, memo[a.upper].hi
        many = None if lower is None or upper is None else max(0, upper - lower)
        points = _mul(points, Interval(0, many))
    total = _mul(points, memo[e.sources[0]])
    return total if _fits(total, e.dtype) else range_of(e.dtype)


def _fold_bounds(
    combiner: Combiner,
    sources: Sequence[Interval],
    nonempty: bool,
    start: Sequence[Interval] | None = None,
) -> tuple[Interval, ...]:
    """Bounds of the state that one more step does not leave.

    A fold of at least one element starts from what the identity and an element give, so
    that argmax cannot be the -1 of its identity. A component that keeps growing is open.
    """
    ranges = [range_of(c.dtype) for c in combiner.identity]
    identity = [
        ANY if c.dtype.is_float else Interval(int(c.value), int(c.value)) for c in combiner.identity
    ]
    state = identity if start is None else list(start)
    if nonempty:
        state = _step(combiner, state, sources)
    for patience in range(2 + combiner.arity, -1, -1):
        after = [s.hull(r) for s, r in zip(state, _step(combiner, state, sources), strict=True)]
        if after == state:
            return tuple(state)
        if patience < combiner.arity:
            after = [a if a == s else r for a, s, r in zip(after, state, ranges, strict=True)]
        state = after
    return tuple(ranges)


def _step(
    combiner: Combiner, state: Sequence[Interval], sources: Sequence[Interval]
) -> list[Interval]:
    """Bounds of combine(state, element)."""
    operands = (*combiner.lhs, *combiner.rhs)
    memo = intervals(combiner.results, dict(zip(operands, (*state, *sources), strict=True)))
    return [memo[r] for r in combiner.results]
