"""Derivatives of reductions with any combiner, each in time linear in the reduction.

Sums differentiate directly. A combiner that selects one operand (max, min, argmax-like
tuples) goes through the index of the winner. Every other one is the derivative of the left
fold: with the prefix states P_t = fold(s_0 .. s_{t-1}) and the suffix products
Q_t = D1(P_{n-1}, s_{n-1}) ... D1(P_{t+1}, s_{t+1}) of the Jacobians by the state,
d y / d s_t = Q_t D2(P_t, s_t).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from weakref import WeakKeyDictionary

from tensorad.autodiff.linear import Term, body_terms, differentiate, merge_guards
from tensorad.ir.combiner import Combiner, beats, make_combiner
from tensorad.ir.dtypes import INT64, DType
from tensorad.ir.expr import (
    ONE,
    TRUE,
    ZERO,
    Axis,
    Call,
    Expr,
    Param,
    Read,
    Reduce,
    Select,
    add,
    axis,
    call,
    cast,
    const,
    floordiv,
    int_const,
    logical_and,
    logical_not,
    logical_or,
    mod,
    mul,
    read,
    reduce_expr,
    select,
    sub,
)
from tensorad.ir.tensor import Compute, Scan, Tensor, outputs
from tensorad.ir.visit import copy_bodies, substitute
from tensorad.simplify.affine import axis_conditions
from tensorad.simplify.intervals import interval

Matrix = list[list[Expr | None]]
"""Rows of structural entries: None is zero everywhere."""


def reduce_terms(op: Compute, component: int, wanted: Callable[[Read], bool]) -> list[Term]:
    """The linear terms of output `component`, whose body is a reduction of plain sources."""
    e = op.bodies[component]
    if not isinstance(e, Reduce):
        raise TypeError(f"{e} is not a reduction")
    if e.combiner.is_sum:
        return body_terms(component, e.sources[0], wanted, e.axes, e.condition)
    if selection(e.combiner) is not None:
        return _selection_terms(op, component, e, wanted)
    return _fold_terms(op, component, e, wanted)


def is_selection(e: Reduce) -> bool:
    """Whether the reduction returns one of its operands."""
    return not e.combiner.is_sum and selection(e.combiner) is not None


# ---------------------------------------------------------------- selections


@lru_cache(maxsize=1024)
def selection(combiner: Combiner) -> Expr | None:
    """When the later operand y replaces the state x, if every component follows that choice."""
    found: Expr | None = None
    for x, y, result in zip(combiner.lhs, combiner.rhs, combiner.results, strict=True):
        take = _takes_later(x, y, result)
        if take is None or (found is not None and take is not found):
            return None
        found = take
    return found


def _takes_later(x: Param, y: Param, result: Expr) -> Expr | None:
    match result:
        case Call(op="maximum" | "minimum", args=(a, b)):
            if a is x and b is y:
                return beats(result.op, y, x)
            if a is y and b is x:
                return logical_not(beats(result.op, x, y))
        case Select(cond=c, then=a, orelse=b):
            if a is y and b is x:
                return c
            if a is x and b is y:
                return logical_not(c)
    return None


@dataclass(frozen=True)
class Box:
    """The row-major box around a reduction's axes."""

    axes: tuple[Axis, ...]
    starts: tuple[Expr, ...]
    extents: tuple[Expr, ...]

    @classmethod
    def around(cls, axes: Sequence[Axis]) -> Box:
        starts: list[Expr] = []
        extents: list[Expr] = []
        for a in axes:
            bounds = interval(a)
            fixed = bounds.lo is not None and bounds.hi is not None
            start = int_const(bounds.lo or 0) if fixed else a.lower
            starts.append(start)
            if fixed and bounds.hi is not None and bounds.lo is not None:
                extents.append(int_const(max(0, bounds.hi - bounds.lo + 1)))
            else:
                extents.append(sub(a.upper, start))
        return cls(tuple(axes), tuple(starts), tuple(extents))

    def position(self) -> Expr:
        """Where the axes stand in the box."""
        result: Expr = int_const(0)
        for a, start, n in zip(self.axes, self.starts, self.extents, strict=True):
            result = add(mul(result, n), sub(a, start))
        return result

    def size(self) -> Expr:
        result: Expr = int_const(1)
        for n in self.extents:
            result = mul(result, n)
        return result

    def at(self, position: Expr) -> dict[Expr, Expr]:
        """Each axis' value at a position in the box (an empty box has none to divide)."""
        values: dict[Expr, Expr] = {}
        rest = position
        for n, a in reversed(list(enumerate(self.axes))):
            extent = ONE if self.extents[n] is ZERO else self.extents[n]
            digit = mod(rest, extent) if n else rest
            values[a] = add(digit, self.starts[n])
            if n:
                rest = floordiv(rest, extent)
        return values

    def inside(self) -> Expr:
        """Which points of the box belong to the axes (TRUE if all)."""
        known = True
        for a, start, n in zip(self.axes, self.starts, self.extents, strict=True):
            known = known and a.lower is start and sub(a.upper, start) is n
            known = known and a.step is int_const(1)
        return TRUE if known else logical_and(*[axis_conditions(a) for a in self.axes])


_winners: WeakKeyDictionary[Compute, dict[tuple[object, ...], Tensor]] = WeakKeyDictionary()


def winner(op: Compute, e: Reduce) -> Tensor:
    """The position (in the box of its axes) of the selected element; -1 if there is none."""
    known = _winners.setdefault(op, {})
    key = (e.combiner, e.sources, e.axes, e.condition)
    if key not in known:
        known[key] = _make_winner(op, e)
    return known[key]


def _make_winner(op: Compute, e: Reduce) -> Tensor:
    dtypes = tuple([c.dtype for c in e.combiner.identity])
    combiner = _with_position(e.combiner, dtypes)
    sources = (*e.sources, Box.around(e.axes).position())
    whole = reduce_expr(combiner, sources, e.axes, e.condition, e.combiner.arity)
    axes, (body,) = copy_bodies(op.axes, (whole,))
    return outputs(Compute(f"{op.name}.winner", axes, (body,), op.source))[0]


@lru_cache(maxsize=1024)
def _with_position(combiner: Combiner, dtypes: tuple[DType, ...]) -> Combiner:
    """The combiner that carries the selected element's position along."""
    take = selection(combiner)
    if take is None:
        raise TypeError(f"{combiner.name} is not a selection")
    chosen = take
    m = combiner.arity

    def combine(x: tuple[Param, ...], y: tuple[Param, ...]) -> tuple[Expr, ...]:
        renamed: dict[Expr, Expr] = {}
        renamed.update(zip((*combiner.lhs, *combiner.rhs), (*x[:m], *y[:m]), strict=True))
        better = substitute(chosen, renamed)
        replace = logical_and(y[m] >= 0, logical_or(x[m] < 0, better))
        return tuple([select(replace, b, a) for a, b in zip(x, y, strict=True)])

    identity = (*combiner.identity, const(-1, INT64))
    name = f"{combiner.name} with position"
    return make_combiner(name, combine, identity, associative=combiner.associative)


def _selection_terms(
    op: Compute, component: int, e: Reduce, wanted: Callable[[Read], bool]
) -> list[Term]:
    """out[o] = source(o, winner[o]): the source's terms at the winner, where there is one."""
    position = read(winner(op, e), op.axes)
    at_winner = Box.around(e.axes).at(call("maximum", position, int_const(0)))
    source = substitute(e.sources[e.index], at_winner)
    chosen = position >= 0
    return [
        Term(t.component, t.coefficient, t.read, (), TRUE, logical_and(chosen, t.guard))
        for t in body_terms(component, source, wanted)
    ]


# ---------------------------------------------------------------- folds


def _fold_terms(
    op: Compute, component: int, e: Reduce, wanted: Callable[[Read], bool]
) -> list[Term]:
    factors = _fold_factors(op, e)[e.index]
    where = (*op.axes, Box.around(e.axes).position())
    terms: list[Term] = []
    for source, factor in zip(e.sources, factors, strict=True):
        if factor is not None:
            terms += body_terms(component, source, wanted, e.axes, e.condition, read(factor, where))
    return terms


_factors: WeakKeyDictionary[Compute, dict[tuple[object, ...], list[list[Tensor | None]]]] = (
    WeakKeyDictionary()
)


def _fold_factors(op: Compute, e: Reduce) -> list[list[Tensor | None]]:
    """factor[c][d][o, t] = d out_c[o] / d source_d at position t."""
    known = _factors.setdefault(op, {})
    key = (e.combiner, e.sources, e.axes, e.condition)
    if key not in known:
        known[key] = _make_fold_factors(op, e)
    return known[key]


def _make_fold_factors(op: Compute, e: Reduce) -> list[list[Tensor | None]]:
    combiner = e.combiner
    m = combiner.arity
    by_state = combiner_jacobian(combiner, combiner.lhs)
    by_source = combiner_jacobian(combiner, combiner.rhs)
    sources, live = _stored_sources(op, e)
    prefix = scan_tensors(f"{op.name}.prefix", sources, combiner, live, exclusive=True)
    dtype = max((c.dtype for c in combiner.identity if c.dtype.is_float), key=lambda d: d.bits)
    along = len(op.axes)

    def at_points(name: str, entry: Callable[[dict[Expr, Expr]], Expr]) -> Tensor:
        axes = tuple([axis(f"i{n}", 0, _extent(sources[0], n)) for n in range(along + 1)])
        operands: dict[Expr, Expr] = {}
        for c in range(m):
            operands[combiner.lhs[c]] = read(prefix[c], axes)
            operands[combiner.rhs[c]] = read(sources[c], axes)
        return outputs(Compute(f"{op.name}.{name}", axes, (entry(operands),), op.source))[0]

    def step(c: int, d: int) -> Tensor:
        unit = const(1 if c == d else 0, dtype)

        def entry(operands: dict[Expr, Expr]) -> Expr:
            partial = by_state[c][d]
            value = const(0, dtype) if partial is None else substitute(partial, operands)
            if live is None:
                return cast(value, dtype)
            first = operands[combiner.rhs[0]]
            where = first.indices if isinstance(first, Read) else ()
            return select(read(live, where) > 0, cast(value, dtype), unit)

        return at_points("step", entry)

    steps = tuple([step(c, d) for c, d in product(range(m), range(m))])
    suffix = outputs(
        Scan(f"{op.name}.suffix", steps, along, _after(m, dtype), True, True, op.source)
    )

    def factor(c: int, d: int) -> Tensor | None:
        if not any(by_source[b][d] is not None for b in range(m)):
            return None

        def entry(operands: dict[Expr, Expr]) -> Expr:
            first = operands[combiner.rhs[0]]
            where = first.indices if isinstance(first, Read) else ()
            total: Expr | None = None
            for b in range(m):
                partial = by_source[b][d]
                if partial is not None:
                    part = mul(
                        read(suffix[c * m + b], where), cast(substitute(partial, operands), dtype)
                    )
                    total = part if total is None else add(total, part)
            return const(0, dtype) if total is None else total

        return at_points("factor", entry)

    return [[factor(c, d) for d in range(m)] for c in range(m)]


def _extent(t: Tensor, n: int) -> Expr:
    extent = t.shape[n]
    return int_const(extent) if isinstance(extent, int) else extent


def combiner_jacobian(combiner: Combiner, operands: Sequence[Param]) -> Matrix:
    """entry[c][d] = d result_c / d operand_d."""
    inputs = dict.fromkeys(operands)
    rows: Matrix = []
    for result in combiner.results:
        found = differentiate(result, lambda e: e in inputs) if result.dtype.is_float else {}
        row: list[Expr | None] = []
        for operand in operands:
            if operand in found:
                guard, value = merge_guards(found[operand])
                row.append(select(guard, value, const(0, value.dtype)))
            else:
                row.append(None)
        rows.append(row)
    return rows


def _stored_sources(op: Compute, e: Reduce) -> tuple[list[Tensor], Tensor | None]:
    """The folded elements as tensors over (compute axes, position), and which of them count."""
    box = Box.around(e.axes)
    along = axis("t", 0, box.size())
    digits = box.at(along)
    new: dict[Expr, Expr] = {}
    for a in e.axes:  # a start may use the axes before it
        new[a] = substitute(digits[a], new)
    counted = substitute(logical_and(box.inside(), e.condition), new)
    full = (*op.axes, along)

    def stored(name: str, value: Expr) -> Tensor:
        axes, bodies = copy_bodies(full, (value,))
        return outputs(Compute(f"{op.name}.{name}", axes, bodies, op.source))[0]

    elements = [
        stored("elements", select(counted, substitute(s, new), c))
        for s, c in zip(e.sources, e.combiner.identity, strict=True)
    ]
    flag = None if counted is TRUE else stored("counted", cast(counted, INT64))
    return elements, flag


def scan_tensors(
    name: str, sources: Sequence[Tensor], combiner: Combiner, live: Tensor | None, exclusive: bool
) -> tuple[Tensor, ...]:
    """Prefix states along the last axis; elements that do not count leave the state alone."""
    last = sources[0].ndim - 1
    if live is None:
        return outputs(Scan(name, tuple(sources), last, combiner, exclusive, False))
    skipping = _skipping(combiner)
    return outputs(Scan(name, (*sources, live), last, skipping, exclusive, False))[:-1]


@lru_cache(maxsize=1024)
def _skipping(combiner: Combiner) -> Combiner:
    """The combiner with a last component that says whether an element counts."""
    m = combiner.arity

    def combine(x: tuple[Param, ...], y: tuple[Param, ...]) -> tuple[Expr, ...]:
        names: dict[Expr, Expr] = {}
        names.update(zip((*combiner.lhs, *combiner.rhs), (*x[:m], *y[:m]), strict=True))
        folded = [substitute(r, names) for r in combiner.results]
        return (*[select(y[m] > 0, f, a) for f, a in zip(folded, x, strict=False)], y[m])

    identity = (*combiner.identity, const(0, INT64))
    return make_combiner(f"{combiner.name} where counted", combine, identity)


@lru_cache(maxsize=64)
def _after(m: int, dtype: DType) -> Combiner:
    """Products of m x m matrices from the end: state S and earlier step M give S M."""

    def combine(x: tuple[Param, ...], y: tuple[Param, ...]) -> tuple[Expr, ...]:
        entries: list[Expr] = []
        for c, d in product(range(m), range(m)):
            total: Expr = mul(x[c * m], y[d])
            for b in range(1, m):
                total = add(total, mul(x[c * m + b], y[b * m + d]))
            entries.append(total)
        return tuple(entries)

    identity = tuple([const(float(c == d), dtype) for c, d in product(range(m), range(m))])
    return make_combiner("matrix product", combine, identity, associative=True)
