"""The derivative of a left fold with any combiner, in time linear in the fold.

With the prefix states P_t = fold(s_0 .. s_{t-1}) and the suffix products
Q_t = D1(P_{n-1}, s_{n-1}) ... D1(P_{t+1}, s_{t+1}) of the combiner's Jacobians by the state,
d y / d s_t = Q_t D2(P_t, s_t). Prefixes and suffixes are two scans.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import product
from weakref import WeakKeyDictionary

from tensorad.autodiff.box import Box
from tensorad.autodiff.linear import Term, body_terms, differentiate, merge_guards
from tensorad.ir.combiner import Combiner, make_combiner
from tensorad.ir.dtypes import INT64, DType
from tensorad.ir.elementwise import compute_axes, formula
from tensorad.ir.expr import (
    TRUE,
    Axis,
    Expr,
    Param,
    Read,
    Reduce,
    add,
    axis,
    cast,
    const,
    logical_and,
    mul,
    read,
    select,
)
from tensorad.ir.tensor import Compute, Scan, Tensor, outputs
from tensorad.ir.visit import copy_bodies, substitute

Matrix = list[list[Expr | None]]
"""Rows of structural entries: None is zero everywhere."""
At = Callable[[Expr], Expr]
"""A partial derivative of the combiner at one point of the fold."""


def fold_terms(
    op: Compute, component: int, e: Reduce, wanted: Callable[[Read], bool]
) -> list[Term]:
    """The linear terms of output `component`, the fold `e`."""
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
    prefix = _prefix_states(f"{op.name}.prefix", sources, combiner, live)
    dtype = max((c.dtype for c in combiner.identity if c.dtype.is_float), key=lambda d: d.bits)

    def stored(name: str, entry: Callable[[tuple[Axis, ...], At], Expr]) -> Tensor:
        axes = compute_axes(sources[0].shape)
        operands: dict[Expr, Expr] = {}
        for c in range(m):
            operands[combiner.lhs[c]] = read(prefix[c], axes)
            operands[combiner.rhs[c]] = read(sources[c], axes)
        body = entry(axes, lambda p: cast(substitute(p, operands), dtype))
        return formula(f"{op.name}.{name}", axes, cast(body, dtype), op.source)

    def step(c: int, d: int) -> Tensor:
        """d state_c after a step / d state_d before it; the identity where nothing counts."""

        def entry(axes: tuple[Axis, ...], at: At) -> Expr:
            partial = by_state[c][d]
            value = const(0, dtype) if partial is None else at(partial)
            if live is None:
                return value
            return select(read(live, axes) > 0, value, const(float(c == d), dtype))

        return stored("step", entry)

    steps = tuple([step(c, d) for c, d in product(range(m), repeat=2)])
    suffix = outputs(
        Scan(f"{op.name}.suffix", steps, len(op.axes), _after(m, dtype), True, True, op.source)
    )

    def factor(c: int, d: int) -> Tensor | None:
        column = [by_source[b][d] for b in range(m)]
        if all(partial is None for partial in column):
            return None

        def entry(axes: tuple[Axis, ...], at: At) -> Expr:
            row = [read(suffix[c * m + b], axes) for b in range(m)]
            return dot(row, [None if p is None else at(p) for p in column], dtype)

        return stored("factor", entry)

    return [[factor(c, d) for d in range(m)] for c in range(m)]


def dot(left: Sequence[Expr | None], right: Sequence[Expr | None], dtype: DType) -> Expr:
    """The sum of the products of entries that are both there."""
    total: Expr | None = None
    for a, b in zip(left, right, strict=True):
        if a is not None and b is not None:
            total = mul(a, b) if total is None else add(total, mul(a, b))
    return const(0, dtype) if total is None else total


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
        axes, (body,) = copy_bodies(full, (value,))
        return formula(f"{op.name}.{name}", axes, body, op.source)

    elements = [
        stored("elements", select(counted, substitute(s, new), c))
        for s, c in zip(e.sources, e.combiner.identity, strict=True)
    ]
    flag = None if counted is TRUE else stored("counted", cast(counted, INT64))
    return elements, flag


def _prefix_states(
    name: str, sources: Sequence[Tensor], combiner: Combiner, live: Tensor | None
) -> tuple[Tensor, ...]:
    """The states before each element; elements that do not count leave the state alone."""
    last = sources[0].ndim - 1
    if live is None:
        return outputs(Scan(name, tuple(sources), last, combiner, True, False))
    skipping = _skipping(combiner)
    return outputs(Scan(name, (*sources, live), last, skipping, True, False))[:-1]


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
