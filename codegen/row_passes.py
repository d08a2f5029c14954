"""Passes over the rows of one loop: neighbours that read each other become one, and the next
row is asked for while this one is computed.

The loops and the order of every sum are given. What is stored and read again at the same place
stays in a register; a row that several passes read comes from memory in the first of them, which
would wait for it: the pass that computes most asks for the row after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tensorad.codegen import machine
from tensorad.codegen.access import access
from tensorad.codegen.affine import substitutor
from tensorad.codegen.choices import Schedules
from tensorad.codegen.llvm_lanes import expressions, lanes_for, runs_in_lanes, statements
from tensorad.codegen.loop_place import placed
from tensorad.codegen.loopir import Assign, Check, Fetch, Fold, For, If, Kernel, Stmt, Store
from tensorad.codegen.schedule_memory import SHORT_ROWS, bytes_of
from tensorad.codegen.schedule_record import note
from tensorad.ir.expr import (
    BINARY_MATH,
    UNARY_MATH,
    Axis,
    Call,
    Const,
    Expr,
    Param,
    Read,
    add,
    int_const,
    mul,
    param,
)
from tensorad.ir.order import READ
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import free_leaves, postorder, reads

ELEMENTARY: Final = frozenset((*UNARY_MATH, *BINARY_MATH, "pow"))
MOST_ELEMENTARY: Final = 2
"""Elementary functions in the body of a pass; with more of them registers run out."""
MOST_STORES: Final = 3
"""Tensors that one pass stores."""
FUNCTION_COST: Final = 16
AHEAD: Final = 8192
"""Bytes of the rows between one and the one that is asked for."""
LANES: Final = 16
"""Elements that a pass of unknown width asks for at a time."""
ROW_PART: Final = 8
"""The part of the second cache that a row asked for ahead may fill."""


def with_row_passes(kernel: Kernel, schedules: Schedules) -> Kernel:
    """The kernel with neighbouring passes joined and the next rows asked for."""
    if not any(_has_passes(s) for s in statements(kernel.body)):
        return kernel
    made = _Passes(kernel, schedules)
    body = made.block(kernel.body)
    if made.joined:
        why = "what one stores the next reads at the same place"
        note(kernel.writes, "passes over a row as one", why)
    if made.fetched:
        names = ", ".join([t.name for t in made.fetched])
        note(kernel.writes, f"the next row of {names} is fetched", "several passes read a row")
    if made.joined:
        return _without_unread(replace(kernel, body=body))
    return replace(kernel, body=body) if made.fetched else kernel


def _without_unread(kernel: Kernel) -> Kernel:
    """The kernel without scratch that is stored only: all who read it have it in a register."""
    every = [*statements(kernel.body)]
    checked = [s.read for s in every if isinstance(s, Check)]
    found = reads(*_expressions(every), *checked)
    kept = dict.fromkeys([*kernel.writes, *[e.tensor for e in found]])
    scratch = tuple([t for t in kernel.scratch if t in kept])
    if len(scratch) == len(kernel.scratch):
        return kernel
    return replace(kernel, body=_storing(kernel.body, kept), scratch=scratch)


def _storing(body: Iterable[Stmt], kept: Mapping[Tensor, None]) -> tuple[Stmt, ...]:
    """The statements with the stores of these tensors only."""
    result: list[Stmt] = []
    for s in body:
        if isinstance(s, For):
            result.append(replace(s, body=_storing(s.body, kept)))
        elif isinstance(s, If):
            then, orelse = (_storing(part, kept) for part in (s.then, s.orelse))
            result.append(replace(s, then=then, orelse=orelse))
        elif isinstance(s, Store):
            pairs = [p for p in zip(s.tensors, s.values, strict=True) if p[0] in kept]
            if pairs:
                tensors, values = zip(*pairs, strict=True)
                result.append(replace(s, tensors=tensors, values=values))
        else:
            result.append(s)
    return tuple(result)


def _has_passes(s: Stmt) -> bool:
    return isinstance(s, For) and sum(runs_in_lanes(c) for c in s.body) > 1


class _Passes:
    """What changes in one kernel."""

    def __init__(self, kernel: Kernel, schedules: Schedules) -> None:
        self.schedules = schedules
        self.joined = 0
        self.fetched: dict[Tensor, None] = {}
        least = machine.current().l2
        written = dict.fromkeys(kernel.writes)
        self.far = [t for t in kernel.reads if t not in written and (bytes_of(t) or 0) > least]

    def block(self, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        """The statements with the loops inside of them changed."""
        return tuple([self.statement(s) for s in body])

    def statement(self, s: Stmt) -> Stmt:
        """One statement, the inner ones first."""
        if isinstance(s, If):
            return replace(s, then=self.block(s.then), orelse=self.block(s.orelse))
        if not isinstance(s, For) or runs_in_lanes(s):
            return s
        inner = self.block(s.body)
        if _has_passes(s):
            inner = self.ask_ahead(s.axis, self.join(inner))
        return replace(s, body=inner)

    def join(self, body: Sequence[Stmt]) -> list[Stmt]:
        """Every pass that may run with the one before it does."""
        result: list[Stmt] = []
        for s in body:
            at = _pass_before(result)
            last = result[at] if at >= 0 else None
            if isinstance(s, For) and isinstance(last, For):
                together = self._joined(last, s)
                if together is not None:
                    result[at:] = [*result[at + 1 :], together]
                    self.joined += 1
                    continue
            result.append(s)
        return result

    def _joined(self, first: For, second: For) -> For | None:
        """Both loops as one if they may be, and should."""
        stores = [s for s in (*first.body, *second.body) if isinstance(s, Store)]
        stored = dict.fromkeys([t for s in stores for t in s.tensors])
        wanted = [self.schedules.of(t.name).passes for t in stored]
        if False in wanted or not stored:
            return None
        crowded = len(stored) > MOST_STORES or _count(first, second) > MOST_ELEMENTARY
        return None if crowded and None in wanted else _joined(first, second)

    def ask_ahead(self, row: Axis, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        """The passes, each of which may ask for what others read in the next row."""
        passes = [s for s in body if isinstance(s, For) and runs_in_lanes(s)]
        if len(passes) < 2:
            return tuple(body)
        wanted: dict[For, dict[Fetch, None]] = {}
        for t in self.far:
            asked = _row_after(t, row, passes)
            if asked is not None:
                loop, fetch = asked
                wanted.setdefault(loop, {})[fetch] = None
                self.fetched[t] = None
        found: list[Stmt] = []
        for s in body:
            more = wanted.get(s) if isinstance(s, For) else None
            found.append(replace(s, body=(*s.body, *more)) if isinstance(s, For) and more else s)
        return tuple(found)


def _pass_before(body: Sequence[Stmt]) -> int:
    """Where the last loop is, with nothing but new sums behind it; -1 where it is not so."""
    at = len(body) - 1
    while at >= 0:
        s = body[at]
        if not isinstance(s, Assign):
            return at
        if not all(isinstance(v, Const) for v in s.values):
            return -1
        at -= 1
    return -1


# Passes that run together


def _joined(first: For, second: For) -> For | None:
    """Both loops as one; None where it would change a value, or saves nothing."""
    if not (_is_simple(first) and _is_simple(second)):
        return None
    a, b = first.axis, second.axis
    if a.lower is not b.lower or a.upper is not b.upper:
        return None
    width = _common_width(first, second)
    if width is None or _lanes(first) != _lanes(second):
        return None
    kept = _kept_values(first, placed(second.body, {b: a}))
    if kept is None:
        return None
    ahead = tuple(dict.fromkeys((*first.ahead, *second.ahead)))
    lanes = max(first.lanes, second.lanes)
    return For(a, kept, "vector", width, ahead=ahead, lanes=lanes)


def _is_simple(s: For) -> bool:
    """Whether it runs in lanes and only computes, folds, and stores to the caches."""
    if not runs_in_lanes(s) or s.within is not None:
        return False
    return all(
        isinstance(c, (Assign, Fold)) or (isinstance(c, Store) and not c.streaming) for c in s.body
    )


def _common_width(first: For, second: For) -> int | None:
    """Elements at a time: folds keep theirs, since it says how they are added up."""
    folding = [s.width for s in (first, second) if any(isinstance(c, Fold) for c in s.body)]
    if len(dict.fromkeys(folding)) > 1:
        return None
    return folding[0] if folding else max(first.width, second.width)


def _lanes(s: For) -> int:
    """How many make one register."""
    return s.lanes or lanes_for(postorder(*_expressions(s.body)))


def _count(*loops: For) -> int:
    nodes = postorder(*[e for s in loops for c in s.body for e in expressions(c)])
    return sum(isinstance(e, Call) and e.op in ELEMENTARY for e in nodes)


def _kept_values(first: For, second: Sequence[Stmt]) -> tuple[Stmt, ...] | None:
    """The statements of both: what is stored and read again stays in a scalar of the lane."""
    stores = [s for s in first.body if isinstance(s, Store)]
    made = [t for s in stores for t in s.tensors]
    after = [t for s in second if isinstance(s, Store) for t in s.tensors]
    set_before = _targets(first.body)
    used = _expressions(second)
    earlier = [e.tensor for e in reads(*_expressions(first.body))]
    if len(dict.fromkeys(made)) < len(made) or any(t in made for t in after):
        return None
    leaves = free_leaves(*used)
    if any(t in after for t in earlier) or any(p in leaves for p in set_before):
        return None
    if any(p in set_before for p in _targets(second)):
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


def _targets(body: Iterable[Stmt]) -> dict[Param, None]:
    """The scalars that statements set."""
    return {p: None for s in body if isinstance(s, (Assign, Fold)) for p in s.targets}


def _expressions(body: Iterable[Stmt]) -> list[Expr]:
    return [e for s in body for e in expressions(s)]


# The next row


def _row_after(t: Tensor, row: Axis, passes: Sequence[For]) -> tuple[For, Fetch] | None:
    """The pass that asks for a later row of a tensor, and what each of its steps asks for."""
    found = [(s, e) for s in passes for e in reads(*_expressions(s.body)) if e.tensor is t]
    if not found or not _is_row(found[0][1], found[0][0], row):
        return None
    first, e = found[0]
    able = [s for s in passes if _is_simple(s) and _same_bounds(s.axis, first.axis)]
    if not able:
        return None
    loop = max(able, key=_work)
    size_bytes = (first.axis.extent or 1) * t.dtype.size_bytes
    further = mul(int_const(-(-AHEAD // size_bytes)), row.step)
    image = substitutor({row: add(row, further), first.axis: loop.axis})
    indices = tuple([image(i) for i in e.indices])
    return loop, Fetch(t, indices, loop.width or LANES)


def _same_bounds(a: Axis, b: Axis) -> bool:
    return a.lower is b.lower and a.upper is b.upper


def _is_row(e: Read, loop: For, row: Axis) -> bool:
    """Whether a pass reads a row that lies together, and the loop around the rows."""
    extent = loop.axis.extent
    if extent is None or any(i.kinds & READ for i in e.indices):
        return False
    if any(isinstance(leaf, Param) for leaf in free_leaves(*e.indices)):
        return False
    where = access(e.tensor, e.indices)
    size_bytes = extent * e.dtype.size_bytes
    fits = SHORT_ROWS <= size_bytes <= machine.current().l2 // ROW_PART
    return fits and where.stride(loop.axis) == 1 and bool(where.stride(row))


def _work(s: For) -> int:
    nodes = postorder(*_expressions(s.body))
    calls = [e for e in nodes if isinstance(e, Call)]
    return len(calls) + FUNCTION_COST * sum(e.op in ELEMENTARY for e in calls)
