"""Prefetching of several rows that a loop reads side by side: row by row, as they lie in memory.

A processor's prefetcher follows one row to its end and goes on with the next; hops from row to row
stop it. So where a vector loop reads rows of a large tensor at the same time, each of its lines is
loaded once before, in the order of memory. One of several passes that computes much for each line
prefetches later ones instead, in the same order. No value depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod

from tensorad.codegen.cost.memory_model import LONGEST, MAX_STRIDE, PREFETCH_DISTANCE
from tensorad.codegen.cost.operation_costs import cost_of
from tensorad.codegen.loops.index_ranges import joined_digits, substitutor, unravelled
from tensorad.codegen.loops.ir import Assign, Fold, For, If, Prefetch, Stmt, Store
from tensorad.codegen.loops.vector_loops import is_vectorised, lanes_for
from tensorad.codegen.loops.visit import all_expressions, direct, expressions, nested
from tensorad.codegen.nest.access import FAR, strides
from tensorad.codegen.target import machine
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import (
    ONE,
    Axis,
    Call,
    Const,
    Expr,
    Read,
    Select,
    add,
    axis,
    sub,
)
from tensorad.ir.order import PARAM, READ, SELECT
from tensorad.ir.tensor import Tensor, dim_expr
from tensorad.ir.visit import free_leaves, postorder, reads
from tensorad.simplify.index.linear import Linear, linear_form

SHARE = 4
"""The part of the first cache that rows side by side may fill, and of the second that those of an
iteration may."""
OPERATIONS = 4
"""What one of several passes may compute for each line that it loads: with more it computes for
longer than memory takes, and prefetches."""
FEW_LINES = 5
"""Rows of fewer lines are loaded before whatever registers hold: a loop that hops between such rows
is followed through none of them."""


def row_preloads(
    s: For, beyond_l2: Mapping[Tensor, None], around: Sequence[Axis]
) -> dict[Tensor, list[Stmt]]:
    """Per tensor of which a loop reads rows side by side: loads of one element of each line.

    Not where the next iteration of a loop `around` it, the innermost last, reads some of the rows
    again: there is more to compute for each line, and those that are prefetched arrive meanwhile.
    Nor where a line of longer rows fills several registers: what is computed for it takes as many
    times as long, and nothing else is loaded then.
    """
    found: dict[Tensor, list[Stmt]] = {}
    m = machine.current()
    for t, places in direct_reads(s, beyond_l2).items():
        rows, stride = _rows(s, t, places, around)
        length = (s.axis.extent or 0) * stride * t.dtype.size_bytes
        waits = m.vector_bytes >= m.line or length < FEW_LINES * m.line or not is_vectorised(s)
        if len(rows) > 1 and waits:
            found[t] = _lines(s, rows, stride)
    return found


def row_prefetches(
    s: For, beyond_l2: Mapping[Tensor, None], around: Sequence[Axis]
) -> dict[Tensor, list[Stmt]]:
    """Per tensor of which a vectorised loop reads rows without gaps: prefetches of later ones, by
    each register of its part of all lines, in the order of memory.

    Only where much is computed for each line: loads that are waited for would keep the processor
    from computing, and prefetched lines arrive meanwhile.
    """
    found: dict[Tensor, list[Stmt]] = {}
    extent = s.axis.extent
    if not (is_vectorised(s) and extent) or any(isinstance(c, (For, If)) for c in s.body):
        return found
    computed = sum([_operations(c) for c in s.body])
    for t, places in direct_reads(s, beyond_l2).items():
        rows, stride = _rows(s, t, places, around)
        stretch = _without_gaps(s, rows, stride) if len(rows) > 1 else None
        if stretch is None:
            continue
        first, total = stretch
        each = -(-total // extent)
        lines = each * lanes_for([t]) * t.dtype.size_bytes / machine.current().line
        if computed > OPERATIONS * lines:
            iteration = linear_form(sub(s.axis, s.axis.lower))
            where = first.plus(iteration, each).plus(
                Linear({}, PREFETCH_DISTANCE // t.dtype.size_bytes)
            )
            found[t] = [Prefetch(t, digits(joined_digits(where).to_expr(), t), total)]
    return found


def _operations(s: Stmt) -> int:
    """What a statement computes for a register of lanes, without indices; functions by weight."""
    nodes = [e for e in postorder(*expressions(s)) if e.dtype is not INT64]
    if isinstance(s, Fold):
        nodes += postorder(*s.combiner.results)
    return sum([cost_of(e).weight if isinstance(e, Call) else isinstance(e, Select) for e in nodes])


def next_iteration_prefetches(
    s: For, large: Mapping[Tensor, None], around: Axis | None
) -> dict[Tensor, list[Stmt]]:
    """Per tensor of which a vector loop reads rows side by side: prefetches of those of the next
    iteration of the loop `around` where this one reads, since each row is followed only a short way
    ahead.

    The last iteration prefetches what lies behind its rows, in the tensor or not. Rows that are
    stored to memory side by side may become loops of their own: nothing is prefetched there.
    """
    streams = any(isinstance(c, Store) and c.streaming for c in s.body)
    if around is None or streams or not is_vectorised(s):
        return {}
    image = substitutor({around: add(around, around.step)})
    return {
        t: [_later(s, t, tuple([image(i) for i in e.indices])) for e in places]
        for t, places in direct_reads(s, large).items()
        if _follow_each_other(s, t, places, around)
    }


def _later(s: For, t: Tensor, indices: tuple[Expr, ...]) -> Prefetch:
    return Prefetch(t, indices, s.width or lanes_for([t]))


def _follow_each_other(s: For, t: Tensor, places: Sequence[Read], around: Axis) -> bool:
    """Whether the places are several long rows, the next iteration's rows come behind them, and the
    second cache has room for both."""
    forms = [offset(t, e.indices) for e in places]
    starts = sorted([f.constant for f in forms])
    advance = forms[0].terms.get(around, 0) * _step(around)
    if s.axis.extent is None or any(i.kinds & READ for e in places for i in e.indices):
        return False
    size = t.dtype.size_bytes
    alike = all(f.terms == forms[0].terms for f in forms) and forms[0].terms.get(s.axis) == 1
    long = s.axis.extent * size >= LONGEST
    apart = all(low + s.axis.extent <= high for low, high in pairwise(starts))
    behind = len(starts) > 1 and starts[-1] - starts[0] < advance
    fits = SHARE * advance * size <= machine.current().l2
    return alike and long and apart and behind and fits


def is_plain(s: For) -> bool:
    """Whether a loop that is not vectorised makes all of its reads, one element after the other."""
    if s.kind != "serial" or s.axis.step is not ONE:
        return False
    if not all(isinstance(c, (Assign, Fold, Store)) for c in s.body):
        return False
    every = all_expressions(s.body)
    indices = [i for e in reads(*every) for i in e.indices]
    return not (any(e.kinds & SELECT for e in every) or any(i.kinds & PARAM for i in indices))


def direct_reads(s: For, beyond_l2: Mapping[Tensor, None]) -> dict[Tensor, list[Read]]:
    """What a loop reads itself of large tensors, not in further loops or branches."""
    found: dict[Tensor, dict[Read, None]] = {}
    for c in direct(s.body):
        for e in reads(*expressions(c)):
            if e.tensor in beyond_l2:
                found.setdefault(e.tensor, {})[e] = None
    return {t: [*places] for t, places in found.items()}


def _rows(
    s: For, t: Tensor, places: Sequence[Read], around: Sequence[Axis]
) -> tuple[list[Read], int]:
    """One read for each row, as the rows lie in memory, and the elements between lanes; none
    where the places do not differ by numbers, or where they do not fit."""
    forms = [offset(t, e.indices) for e in places]
    stride = forms[0].terms.get(s.axis, 0)
    alike = all(f.terms == forms[0].terms for f in forms)
    if not alike or not 0 < stride <= MAX_STRIDE or not s.axis.extent:
        return [], stride
    if any(i.kinds & READ for e in places for i in e.indices):
        return [], stride
    if s.axis in free_leaves(*[leaf for leaf in forms[0].terms if leaf is not s.axis]):
        return [], stride  # rows are as long as the loop only where reads follow each other
    length = s.axis.extent * stride
    found: list[tuple[int, Read]] = []
    for at, e in sorted(zip([f.constant for f in forms], places, strict=True), key=_first):
        if not found or at >= found[-1][0] + length:
            found.append((at, e))
    size_bytes = len(found) * length * t.dtype.size_bytes
    fits = SHARE * size_bytes <= machine.current().l1
    if not fits or length * t.dtype.size_bytes > LONGEST:
        return [], stride
    if _comes_again(t, forms[0], found[-1][0] - found[0][0], around):
        return [], stride
    return [e for _, e in found], stride


Places = dict[tuple[Expr, ...], tuple[Axis, ...]]
"""Indices of elements, each with the axes of the loops that it is read or stored in."""


def _used_inside(s: For, beyond_l2: Mapping[Tensor, None]) -> dict[Tensor, Places]:
    """What a loop with others inside surely reads and stores, if the bounds are constant."""
    found: dict[Tensor, Places] = {}
    if not any(isinstance(c, For) for c in s.body):
        return found
    for c, around in nested((s,)):
        if isinstance(c, For):
            if c.axis.step is not ONE or not c.axis.extent or not isinstance(c.axis.lower, Const):
                return {}
            continue
        every = expressions(c)
        if not isinstance(c, (Assign, Fold, Store)) or any(e.kinds & SELECT for e in every):
            return {}
        used = [(e.tensor, e.indices) for e in reads(*every)]
        if isinstance(c, Store) and not c.streaming:
            used += [(t, c.indices) for t in c.tensors]
        for t, indices in used:
            if t in beyond_l2:
                axes = [x.axis for x in around if isinstance(x, For)]
                found.setdefault(t, {})[indices] = tuple(axes)
    return found


def with_row_prefetches(s: For, beyond_l2: Mapping[Tensor, None]) -> For:
    """The loop, prefetching rows of later iterations if its lanes take rows from end to end.

    Each iteration of the loop inside prefetches the next few lines, in the order of memory: no
    prefetcher follows as many rows as there are lanes.
    """
    inside = next((c for c in s.body if isinstance(c, For) and c.axis.extent), None)
    if inside is None:
        return s
    prefetches: list[Stmt] = []
    for t, places in _used_inside(s, beyond_l2).items():
        found = _whole_rows(s, t, places)
        if found is not None:
            first, total = found
            line = max(1, machine.current().line // t.dtype.size_bytes)
            part = -(-total // (inside.axis.extent or 1) // line) * line
            iterations = -(-PREFETCH_DISTANCE // (total * t.dtype.size_bytes))
            iteration = linear_form(sub(inside.axis, inside.axis.lower))
            where = first.plus(iteration, part).plus(Linear({}, iterations * total))
            prefetches.append(Prefetch(t, digits(joined_digits(where).to_expr(), t), part))
    again = replace(inside, body=(*prefetches, *inside.body))
    return (
        replace(s, body=tuple([again if c is inside else c for c in s.body])) if prefetches else s
    )


def _whole_rows(s: For, t: Tensor, places: Places) -> tuple[Linear, int] | None:
    """The first element of rows that lie end to end and are taken whole, and the number of all."""
    own = dict.fromkeys([a for axes in places.values() for a in axes])
    outside: list[dict[Expr, int]] = []
    ends: list[int] = []
    points = 0
    for indices, axes in places.items():
        form = offset(t, indices)
        outside.append({leaf: c for leaf, c in form.terms.items() if leaf not in own})
        mixed = any(a in own for leaf in outside[-1] for a in free_leaves(leaf))
        data = any(i.kinds & (READ | PARAM) for i in indices)
        if mixed or data or abs(form.terms.get(s.axis, 0)) <= MAX_STRIDE:
            return None
        for pick in (min, max):
            moved = [pick([c * n for n in _ends(a)]) for a, c in form.terms.items() if a in own]
            ends.append(form.constant + sum(moved))
        points += prod([a.extent or 1 for a in axes])
    low, total = min(ends), max(ends) - min(ends) + 1
    fits = SHARE * total * t.dtype.size_bytes <= machine.current().l2
    if not fits or total > points or any(x != outside[0] for x in outside):
        return None
    return Linear(outside[0], low), total


def _ends(a: Expr) -> tuple[int, int]:
    """The first and the last value of an axis of constant bounds."""
    assert isinstance(a, Axis) and isinstance(a.lower, Const)  # `_used_inside` has seen that
    first = int(a.lower.value)
    return first, first + (a.extent or 1) - 1


def _comes_again(t: Tensor, where: Linear, reach: int, around: Sequence[Axis]) -> bool:
    """Whether a later iteration of an outer loop reads rows again that are in the second cache.

    `reach` is how many elements the first of the rows and the last are apart.
    """
    room = machine.current().l2 // t.dtype.size_bytes
    for a in reversed(around):
        steps = [abs(n) for leaf, n in where.terms.items() if a in free_leaves(leaf)]
        further = min(steps, default=0) * _step(a)
        if a.extent != 1 and further <= reach <= room:
            return True
        if a.extent is None:
            return False
        reach += further * (a.extent - 1)
    return False


def _step(a: Axis) -> int:
    return int(a.step.value) if isinstance(a.step, Const) else 1


def _first(pair: tuple[int, Read]) -> int:
    return pair[0]


def _lines(s: For, rows: Sequence[Read], stride: int) -> list[Stmt]:
    """Load an element of each line of all rows, as one stretch if little lies between them."""
    t = rows[0].tensor
    step = max(1, machine.current().line // (stride * t.dtype.size_bytes))
    stretch = _without_gaps(s, rows, stride)
    if stretch is not None:
        return [_stretch(t, *stretch, stride)]
    found: list[Stmt] = []
    for e in rows:
        at = axis(s.axis.name, s.axis.lower, s.axis.upper, step)
        inside = substitutor({s.axis: at})
        found.append(For(at, (Prefetch(t, tuple([inside(i) for i in e.indices]), 1, now=True),)))
    return found


def _without_gaps(s: For, rows: Sequence[Read], stride: int) -> tuple[Linear, int] | None:
    """The first element of all rows and their number, if little lies between them."""
    t = rows[0].tensor
    length = (s.axis.extent or 0) * stride
    image = substitutor({s.axis: s.axis.lower})
    first, last = (offset(t, [image(i) for i in e.indices]) for e in (rows[0], rows[-1]))
    total = last.constant - first.constant + length - stride + 1
    near = total <= len(rows) * length + len(rows) * machine.current().line
    return (first, total) if near else None


def _stretch(t: Tensor, first: Linear, total: int, stride: int) -> For:
    """Load an element of each line of so many elements from an offset on."""
    step = max(1, machine.current().line // (stride * t.dtype.size_bytes))
    k = axis("k", 0, total, step * stride)
    where = digits(joined_digits(first.plus(Linear({k: 1}, 0))).to_expr(), t)
    return For(k, (Prefetch(t, where, 1, now=True),))


def digits(number: Expr, t: Tensor) -> tuple[Expr, ...]:
    """The indices of the element at an offset."""
    return unravelled(number, [dim_expr(n) for n in t.shape])


def offset(t: Tensor, indices: Sequence[Expr]) -> Linear:
    """Where an element lies, in elements from the start; {} where that is no number."""
    total: Linear = Linear({}, 0)
    for index, step in zip(indices, strides(t.shape), strict=True):
        if step == FAR:
            return Linear({}, 0)
        total = total.plus(linear_form(index), step)
    return total
