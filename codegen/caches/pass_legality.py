"""Decides whether two loops over a row may be fused: dependences, registers, and what it saves.

No sum changes its order: lanes and registers of a loop that folds stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from tensorad.codegen.cost.operation_costs import takes_long
from tensorad.codegen.loops.ir import Assign, Check, Fold, For, Prefetch, Stmt, Store
from tensorad.codegen.loops.substitute import placed
from tensorad.codegen.loops.vector_loops import is_vectorised, lanes_for, registers_for
from tensorad.codegen.loops.visit import (
    all_expressions,
    params_of,
    statements,
    targets,
)
from tensorad.codegen.nest.access import access
from tensorad.codegen.target import machine
from tensorad.ir.expr import Axis, Call, Const, Param, Read, param
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import free_leaves, postorder, reads

MOST_FUNCTIONS: Final = 2
"""Functions in the body of a pass; with more of them registers run out."""
MOST_STORES: Final = 3
"""Tensors that one pass stores."""


def with_pass(before: Sequence[Stmt], s: For, free: bool) -> list[Stmt] | None:
    """Statements and a loop after them, the loop run with a pass among them; None where it may not.

    Args:
        free: whether passes may hold more than registers are thought to do.
    """
    at = _pass_before(before)
    last = before[at] if at >= 0 else None
    if isinstance(last, For) and (free or not _crowded(last, s)):
        together = _stored_and_read(last, s)
        if together is not None:
            return [*before[:at], *before[at + 1 :], together]
    for at in range(len(before) - 1, -1, -1):
        first = before[at]
        if not (isinstance(first, For) and is_vectorised(first)):
            continue
        starts = [c for c in before[at + 1 :] if _starts_sums_of(s, c)]
        between = [c for c in before[at:] if c not in starts]
        if not _has_no_dependence(between, s):
            return None
        together = _side_by_side(first, s, free)
        if together is not None:
            return [*before[:at], *starts, together, *between[1:]]
    return None


def _starts_sums_of(s: For, c: Stmt) -> bool:
    """Whether a statement only sets sums of a loop to where they begin."""
    sums = targets(s.body)
    return _is_start(c) and all(p in sums for p in targets([c]))


def _crowded(first: For, second: For) -> bool:
    stores = [s for s in (*first.body, *second.body) if isinstance(s, Store)]
    stored = dict.fromkeys([t for s in stores for t in s.tensors])
    return len(stored) > MOST_STORES or _count(first, second) > MOST_FUNCTIONS


def _count(*loops: For) -> int:
    nodes = postorder(*[e for s in loops for e in all_expressions(s.body)])
    return sum(isinstance(e, Call) and takes_long(e) for e in nodes)


def same_bounds(a: Axis, b: Axis) -> bool:
    """Whether two loops run over the same values."""
    return a.lower is b.lower and a.upper is b.upper


def is_simple(s: For) -> bool:
    """Whether it is vectorised and only computes, folds, and stores to the caches."""
    return only_computes(s) and not any(isinstance(c, Store) and c.streaming for c in s.body)


def only_computes(s: For) -> bool:
    """Whether it is vectorised and only computes, folds, stores, and prefetches."""
    plain = is_vectorised(s) and s.within is None
    return plain and all(isinstance(c, (Assign, Fold, Store, Prefetch)) for c in s.body)


def lanes_of_loop(s: For) -> int:
    """How many lanes make one register."""
    return s.lanes or lanes_for(postorder(*all_expressions(s.body)))


def _pass_before(body: Sequence[Stmt]) -> int:
    """Where the last loop is, with nothing but new sums behind it; -1 where it is not so."""
    at = len(body) - 1
    while at >= 0:
        s = body[at]
        if not isinstance(s, Assign):
            return at
        if not _is_start(s):
            return -1
        at -= 1
    return -1


def _is_start(s: Stmt) -> bool:
    """Whether it sets sums to where they begin."""
    return isinstance(s, Assign) and all(isinstance(v, Const) for v in s.values)


# The second reads what the first stores


def _stored_and_read(first: For, second: For) -> For | None:
    """Both loops as one; None where it would change a value, or saves nothing."""
    if not (is_simple(first) and is_simple(second)):
        return None
    a, b = first.axis, second.axis
    if not same_bounds(a, b):
        return None
    width = _common_width(first, second)
    if width is None or lanes_of_loop(first) != lanes_of_loop(second):
        return None
    kept = _kept_values(first, placed(second.body, {b: a}))
    return None if kept is None else _both(first, second, kept, width)


def _both(first: For, second: For, body: tuple[Stmt, ...], width: int) -> For:
    prefetched = tuple(dict.fromkeys((*first.prefetched, *second.prefetched)))
    lanes = max(first.lanes, second.lanes)
    return For(first.axis, body, "vector", width, prefetched=prefetched, lanes=lanes)


def _common_width(first: For, second: For) -> int | None:
    """Elements at a time: folds keep theirs, since it says how they are added up."""
    folding = [s.width for s in (first, second) if any(isinstance(c, Fold) for c in s.body)]
    if len(dict.fromkeys(folding)) > 1:
        return None
    return folding[0] if folding else max(first.width, second.width)


def _kept_values(first: For, second: Sequence[Stmt]) -> tuple[Stmt, ...] | None:
    """The statements of both: what is stored and read again stays in a scalar of the lane."""
    stores = [s for s in first.body if isinstance(s, Store)]
    made = [t for s in stores for t in s.tensors]
    after = [t for s in second if isinstance(s, Store) for t in s.tensors]
    set_before = targets(first.body)
    used = all_expressions(second)
    earlier = [e.tensor for e in reads(*all_expressions(first.body))]
    if len(dict.fromkeys(made)) < len(made) or any(t in made for t in after):
        return None
    leaves = free_leaves(*used)
    if any(t in after for t in earlier) or any(p in leaves for p in set_before):
        return None
    if any(p in set_before for p in targets(second)):
        return None
    homes = {t: s for s in stores for t in s.tensors}
    again = {e: homes[e.tensor] for e in reads(*used) if e.tensor in homes}
    if not again or not all(_same_place(e, s, first.axis) for e, s in again.items()):
        return None
    return _with_scalars(first.body, second, again)


def _same_place(e: Read, s: Store, lane: Axis) -> bool:
    """Whether a read sees what its own lane stores, and no other lane stores it."""
    same = len(e.indices) == len(s.indices) and all(
        x is y for x, y in zip(e.indices, s.indices, strict=True)
    )
    return same and bool(access(e.tensor, e.indices).stride(lane))


def _with_scalars(
    first: Sequence[Stmt], second: Sequence[Stmt], again: Mapping[Read, Store]
) -> tuple[Stmt, ...]:
    scalars: dict[Tensor, Param] = {e.tensor: param("v", e.dtype) for e in again}
    result: list[Stmt] = []
    for s in first:
        if isinstance(s, Store):
            values = [scalars.get(t, v) for t, v in zip(s.tensors, s.values, strict=True)]
            for t, v in zip(s.tensors, s.values, strict=True):
                if t in scalars:
                    result.append(Assign((scalars[t],), (v,)))
            result.append(replace(s, values=tuple(values)))
        else:
            result.append(s)
    result.extend(placed(tuple(second), {e: scalars[e.tensor] for e in again}))
    return tuple(result)


# Both read the same


def _has_no_dependence(before: Sequence[Stmt], s: For) -> bool:
    """Whether a loop may run before other statements."""
    every = [*statements(before)]
    if any(isinstance(c, Check) or (isinstance(c, Prefetch) and c.now) for c in every):
        return False
    mine = [*statements(s.body)]
    for part, rest in ((mine, every), (every, mine)):
        stored = dict.fromkeys([t for c in part if isinstance(c, Store) for t in c.tensors])
        used = [e.tensor for e in reads(*all_expressions(rest))]
        again = [t for c in rest if isinstance(c, Store) for t in c.tensors]
        if any(t in stored for t in (*used, *again)):
            return False
        changed = targets(part)
        if any(p in changed for c in rest for p in params_of(c)):
            return False
    return True


def _reads_alike(first: For, second: For) -> bool:
    """Whether two passes over the same elements read some of them both."""
    if not same_bounds(first.axis, second.axis):
        return False
    lane = first.axis
    mine = dict.fromkeys(reads(*all_expressions(first.body)))
    again = reads(*all_expressions(placed(second.body, {second.axis: lane})))
    return any(e in mine and bool(access(e.tensor, e.indices).stride(lane)) for e in again)


def _side_by_side(first: For, second: For, free: bool) -> For | None:
    """Both loops as one if they may be, and should."""
    if not (only_computes(first) and only_computes(second)) or not _reads_alike(first, second):
        return None
    if lanes_of_loop(first) != lanes_of_loop(second) or (not free and _crowded(first, second)):
        return None
    folding = [x for x in (first, second) if _lane_folds(x)]
    if folding and not (is_simple(first) and is_simple(second)):
        return None  # where stores stream, lanes begin where lines do
    if not is_simple(first) and not is_simple(second):
        return None  # lines of two tensors need not begin together
    if len(dict.fromkeys([x.width for x in folding])) > 1:
        return None
    width = folding[0].width if folding else 0
    body = (*first.body, *placed(second.body, {second.axis: first.axis}))
    both = _both(first, second, body, width)
    return both if free or _fits(both) else None


def _lane_folds(s: For) -> list[Fold]:
    """The folds into scalars that are set outside of a loop."""
    own = targets([c for c in s.body if isinstance(c, Assign)])
    return [c for c in s.body if isinstance(c, Fold) and c.targets[0] not in own]


def _fits(s: For) -> bool:
    """Whether the registers of all sums leave a quarter of them to what is added up."""
    lanes = lanes_of_loop(s)
    sums = [p for f in _lane_folds(s) for p in f.targets]
    target = machine.current()
    size_bytes = sum([p.dtype.size_bytes for p in sums]) * lanes * registers_for(s, lanes)
    return 4 * size_bytes <= 3 * target.registers * target.vector_bytes
