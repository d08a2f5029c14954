"""Stencils that follow each other run together, block of rows by block of rows.

Each reads rows around its own of the one before. In one loop over blocks of rows a stage makes the
rows of its block and those around it that later stages read, in scratch: the rows between two
blocks are made twice, and what lies between the stages never leaves the second cache. This is
overlapped tiling (Krishnamoorthy et al., PLDI 2007, pages 235 to 244).
Every element is computed as before, whichever blocks make it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from tensorad.codegen.cost.memory_model import BYTES_PER_CYCLE
from tensorad.codegen.cost.parallel_work import loop_work
from tensorad.codegen.directives import Schedules
from tensorad.codegen.fusion.steps import may_fuse
from tensorad.codegen.fusion.tile import FEW_BLOCKS, NEAR
from tensorad.codegen.loops.ir import Assign, Fold, For, If, Kernel, LoopKind, Stmt, Store
from tensorad.codegen.loops.relocate import Place, moved
from tensorad.codegen.loops.scratch import buffer
from tensorad.codegen.loops.substitute import placed
from tensorad.codegen.loops.visit import all_expressions, params_of, statements
from tensorad.codegen.target import machine
from tensorad.ir.analysis.decisions import Decision, note
from tensorad.ir.analysis.sizes import bytes_text, fixed_bytes
from tensorad.ir.cached import cached_property
from tensorad.ir.expr import (
    ONE,
    Const,
    Expr,
    Read,
    add,
    axis,
    call,
    int_const,
    logical_and,
    mul,
    read,
    sub,
)
from tensorad.ir.order import READ, occurs
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import reads
from tensorad.simplify.index.linear import Linear, linear_form

MOST_STAGES = 4
"""Stages of one loop: more save little, and there is more to compile."""
FAR = 4
"""Times a tensor that the last cache does not keep beside another one from stage to stage."""
TWICE = 8
"""Of so many rows one may be made again."""


@dataclass(frozen=True, eq=False)
class _Piece:
    """Statements that store rows of one tensor: a loop over rows, or all those of one row."""

    rows: For | int
    body: tuple[Stmt, ...]

    def row(self) -> Linear:
        """The index of the row."""
        return linear_form(int_const(self.rows) if isinstance(self.rows, int) else self.rows.axis)


@dataclass(frozen=True, eq=False)
class _Stage:
    """A kernel that makes one tensor row by row.

    Attributes:
        cycles: of all its rows, about.
    """

    kernel: Kernel
    pieces: tuple[_Piece, ...]
    cycles: int

    @cached_property
    def reach(self) -> dict[Tensor, tuple[int, int] | None]:
        """Per tensor, the least and the largest distance of rows read from the row made; None
        where rows are read otherwise."""
        found: dict[Tensor, list[Linear]] = {t: [] for t in self.kernel.reads}
        for p in self.pieces:
            for e in reads(*all_expressions(statements(p.body))):
                if e.indices and e.tensor in found:
                    found[e.tensor].append(linear_form(e.indices[0]).plus(p.row(), -1))
        return {t: _ends(distances) for t, distances in found.items()}

    @property
    def made(self) -> Tensor:
        """What it stores."""
        return self.kernel.writes[0]

    @property
    def count(self) -> int:
        """Its rows."""
        extent = self.made.shape[0]
        assert isinstance(extent, int)  # a stage has a known size
        return extent

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return (fixed_bytes(self.made) or 0) // self.count


@dataclass(frozen=True, eq=False)
class _Group:
    """Stages in order, rows around a block that each has to make, and the rows of a block.

    Attributes:
        halos: per stage, rows before the block and after it.
        homes: per stage but the last, the scratch of its rows, by number.
        saved: bytes that need not move.
    """

    stages: tuple[_Stage, ...]
    halos: tuple[tuple[int, int], ...] = ((0, 0),)
    homes: tuple[int, ...] = ()
    block: int = 0
    saved: int = 0

    @property
    def made_twice(self) -> int:
        """Rows of all stages in a block that other blocks make, too."""
        return sum(low + high for low, high in self.halos)


def join_stencils(
    kernels: Iterable[Kernel],
    readers: Mapping[Tensor, Mapping[Tensor, None]],
    kept: Mapping[Tensor, None],
    schedules: Schedules,
) -> Iterator[Kernel]:
    """The kernels, stencils that follow each other in one loop over blocks of rows.

    Args:
        readers: by tensor, what is made of it.
        kept: tensors to be stored although nothing may read them.
    """
    group: _Group | None = None
    for k in kernels:
        stage = _stage(k, schedules) if group is not None or _is_large(k) else None
        grown = None if group is None or stage is None else _grown(group, stage, readers, kept)
        if group is not None and grown is None:
            yield _written(group, readers, kept)
        if stage is None:
            yield k
        group = _Group((stage,)) if grown is None and stage is not None else grown
    if group is not None:
        yield _written(group, readers, kept)


def _is_large(k: Kernel) -> bool:
    """Whether another stage may read what it stores from scratch instead."""
    return any(FAR * (fixed_bytes(t) or 0) >= machine.current().l3 for t in k.writes)


def _stage(k: Kernel, schedules: Schedules) -> _Stage | None:
    """The kernel as a stage, if its statements store rows of one tensor of a known size."""
    if len(k.writes) != 1 or k.scratch:
        return None
    (made,) = k.writes
    choices = schedules.of(made.name)
    if choices.fuse is False or not may_fuse(choices):
        return None
    pieces = _pieces(k, made) if (fixed_bytes(made) or 0) and made.ndim > 1 else None
    if pieces is None or _reads_its_own(k):
        return None
    work = [loop_work(s) for s in k.body if isinstance(s, For)]
    cycles = sum([int(w.value) for w in work if isinstance(w, Const)])
    return _Stage(k, tuple(pieces), cycles)


def _reads_its_own(k: Kernel) -> bool:
    """Whether the kernel reads what it stores: rows of other blocks may be among that."""
    every = all_expressions(statements(k.body))
    return any(e.tensor in k.writes for e in reads(*every))


def _pieces(k: Kernel, made: Tensor) -> list[_Piece] | None:
    found: list[_Piece] = []
    before: list[Stmt] = []
    for s in k.body:
        if isinstance(s, Assign):
            before.append(s)
            continue
        rows = _rows(s, made)
        if rows is None or (before and isinstance(rows, For)):
            return None
        last = found[-1] if found else None
        if isinstance(rows, For):
            found.append(_Piece(rows, rows.body))
        elif last is not None and isinstance(last.rows, int) and last.rows == rows:
            found[-1] = _Piece(rows, (*last.body, *before, s))
        else:
            found.append(_Piece(rows, (*before, s)))
        before = []
    closed = all(_sets_what_it_uses(p) for p in found)
    return found if found and closed and not before else None


def _rows(s: Stmt, made: Tensor) -> For | int | None:
    """The rows that a statement stores: it is a loop over them, or the number of one."""
    inside = [*statements((s,))]
    if not all(isinstance(c, (Assign, Fold, For, If, Store)) for c in inside):
        return None
    stores = [c for c in inside if isinstance(c, Store)]
    first = {c.indices[0]: None for c in stores if c.tensors == (made,)}
    if len(first) != 1 or any(c.tensors != (made,) for c in stores):
        return None
    if any(occurs(READ, *c.indices) for c in stores):  # checks speak of the tensor, too
        return None
    (row,) = first
    if isinstance(row, Const):
        return int(row.value)
    if not isinstance(s, For) or row is not s.axis or s.covering or s.within is not None:
        return None
    return s if s.axis.step is ONE else None


def _sets_what_it_uses(p: _Piece) -> bool:
    inside = [*statements(p.body)]
    own = {t for s in inside if isinstance(s, Assign) for t in s.targets}
    return all(u in own for s in inside for u in params_of(s))


def _ends(distances: Sequence[Linear]) -> tuple[int, int] | None:
    """The least and the largest; None without any, or if one is no number."""
    if not distances or any(d.terms for d in distances):
        return None
    numbers = [d.constant for d in distances]
    return min(numbers), max(numbers)


def _grown(
    group: _Group,
    stage: _Stage,
    readers: Mapping[Tensor, Mapping[Tensor, None]],
    kept: Mapping[Tensor, None],
) -> _Group | None:
    """The group with one more stage; None where that cannot be or does not pay."""
    stages = (*group.stages, stage)
    made = {s.made: n for n, s in enumerate(group.stages)}
    inside = [t for t in stage.kernel.reads if t in made]
    if not inside or len(stages) > MOST_STAGES or stage.count != stages[0].count:
        return None
    if FAR * min(fixed_bytes(t) or 0 for t in inside) < machine.current().l3:
        return None
    if any(stage.reach[t] is None for t in inside):
        return None
    halos = _halos(stages)
    found = _Group(stages, halos, _homes(stages), saved=_saved(stages, readers, kept))
    rows = _block(found)
    if rows < 1 or found.made_twice * TWICE > rows * len(stages):
        return None
    again = sum(s.cycles * sum(h) for s, h in zip(stages, halos, strict=True)) / rows
    if again * BYTES_PER_CYCLE > found.saved - group.saved:
        return None
    return _Group(stages, halos, found.homes, rows, found.saved)


def _halos(stages: Sequence[_Stage]) -> tuple[tuple[int, int], ...]:
    """Rows before and after a block that each stage makes for those that read it."""
    found: dict[Tensor, tuple[int, int]] = {}
    for s in reversed(stages):
        own = found.setdefault(s.made, (0, 0))
        for t, reach in s.reach.items():
            if reach is not None:
                low, high = found.get(t, (0, 0))
                found[t] = max(low, own[0] - reach[0]), max(high, own[1] + reach[1])
    return tuple([found[s.made] for s in stages])


def _homes(stages: Sequence[_Stage]) -> tuple[int, ...]:
    """The scratch of each stage but the last, by number: one serves again after its last reader."""
    alike: list[tuple[object, int]] = []
    found: list[int] = []
    for n, s in enumerate(stages[:-1]):
        last = max([m for m, r in enumerate(stages) if s.made in r.reach], default=n)
        kind = (s.made.dtype, s.made.shape[1:])
        free = [i for i, (k, until) in enumerate(alike) if k == kind and until < n]
        if free:
            alike[free[0]] = kind, last
        else:
            alike.append((kind, last))
        found.append(free[0] if free else len(alike) - 1)
    return tuple(found)


def _block(g: _Group) -> int:
    """The most rows of a block whose scratch stays in the second cache, some for each thread."""
    target, count = machine.current(), g.stages[0].count
    around = max(sum(h) for h in g.halos)
    widths = {home: s.row_bytes for home, s in zip(g.homes, g.stages, strict=False)}
    rows = int(NEAR * target.l2) // sum(widths.values()) - around
    if target.cores > 1:
        rows = min(rows, count // FEW_BLOCKS)
    return ceil(count / ceil(count / rows)) if rows > 0 else 0


def _saved(
    stages: Sequence[_Stage],
    readers: Mapping[Tensor, Mapping[Tensor, None]],
    kept: Mapping[Tensor, None],
) -> int:
    """Bytes that need not move: what is read again, and what nobody else reads."""
    total = 0
    outside = _outside(stages, readers, kept)
    for s in stages[:-1]:
        size = fixed_bytes(s.made) or 0
        total += size * sum(s.made in r.reach for r in stages)
        total += 0 if s.made in outside else size
    return total


def _outside(
    stages: Sequence[_Stage],
    readers: Mapping[Tensor, Mapping[Tensor, None]],
    kept: Mapping[Tensor, None],
) -> dict[Tensor, None]:
    """What stays in memory: outputs, and what others read."""
    made = dict.fromkeys([s.made for s in stages])
    return {
        t: None
        for t in made
        if t in kept or t is stages[-1].made or any(r not in made for r in readers.get(t, {}))
    }


def _written(
    g: _Group, readers: Mapping[Tensor, Mapping[Tensor, None]], kept: Mapping[Tensor, None]
) -> Kernel:
    if len(g.stages) == 1:
        return g.stages[0].kernel
    outside = _outside(g.stages, readers, kept)
    last = g.stages[-1]
    number = axis("block", 0, ceil(last.count / g.block))
    base = mul(int_const(g.block), number)
    most: dict[int, int] = {}
    for n, halo in zip(g.homes, g.halos, strict=False):
        most[n] = max(most.get(n, 0), g.block + sum(halo))
    buffers: dict[int, Tensor] = {}
    places: dict[Tensor, Place] = {}
    body: list[Stmt] = []
    for s, (low, high), home in zip(g.stages, g.halos, (*g.homes, None), strict=True):
        first, end = sub(base, int_const(low)), add(base, int_const(g.block + high))
        if home is not None:
            t = s.made
            if home not in buffers:
                buffers[home] = buffer(t.name, (most[home], *t.shape[1:]), t.dtype)
            others = [(d, None) for d in range(1, t.ndim)]
            places[t] = Place(buffers[home], ((0, first), *others))
        for p in s.pieces:
            body.extend(moved((_between(p, first, end),), places))
        if home is not None and s.made in outside:
            body.append(_copy(s, places[s.made], base, g.block))
    shared = any(isinstance(c, For) and c.kind == "parallel" for c in last.kernel.body)
    loop = For(number, tuple(body), "parallel" if shared else "serial")
    made = tuple([s.made for s in g.stages if s.made in outside])
    inside = dict.fromkeys([s.made for s in g.stages])
    given = dict.fromkeys([t for s in g.stages for t in s.kernel.reads if t not in inside])
    note(
        Decision(
            tuple([s.made for s in g.stages]),
            f"{len(g.stages)} stencils in one loop over blocks of {g.block} rows",
            f"they read rows around their own; {bytes_text(g.saved)} need not move, "
            f"{g.made_twice} rows for {g.block * len(g.stages)} are made twice",
        )
    )
    return Kernel(last.kernel.name, (loop,), made, tuple(given), tuple(buffers.values()))


def _between(p: _Piece, first: Expr, end: Expr) -> Stmt:
    """The rows of a piece from `first` on, before `end`."""
    if isinstance(p.rows, For):
        a = p.rows.axis
        row = axis(a.name, call("maximum", a.lower, first), call("minimum", a.upper, end))
        return replace(p.rows, axis=row, body=placed(p.body, {a: row}), kind=_alone(p.rows))
    row_number = int_const(p.rows)
    inside = logical_and(call("le", first, row_number), call("lt", row_number, end))
    return If(
        inside, tuple([replace(s, kind=_alone(s)) if isinstance(s, For) else s for s in p.body])
    )


def _alone(s: For) -> LoopKind:
    """The kind of a loop inside of the blocks: threads share those."""
    return "serial" if s.kind == "parallel" else s.kind


def _copy(s: _Stage, place: Place, base: Expr, block: int) -> For:
    """The block's own rows to memory."""
    t = s.made
    rows = axis("i", base, call("minimum", int_const(s.count), add(base, int_const(block))))
    axes = (rows, *[axis("j", 0, n) for n in t.shape[1:]])
    value: Read = read(place.tensor, place.indices(axes))
    body: Stmt = Store((t,), axes, (value,))
    for a in axes[:0:-1]:
        body = For(a, (body,), "vector" if a is axes[-1] else "serial")
    return For(rows, (body,))
