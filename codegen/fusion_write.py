"""The loops of a group: one loop over rows around what each member does in its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tensorad.codegen.affine import among, substitutor
from tensorad.codegen.choices import OPEN, Choices
from tensorad.codegen.fusion_place import Place, moved
from tensorad.codegen.fusion_rows import Group
from tensorad.codegen.fusion_step import Step
from tensorad.codegen.fusion_tile import Tile
from tensorad.codegen.loopir import For, Kernel, LoopKind, Stmt
from tensorad.codegen.loopnest import Nest, map_nest
from tensorad.codegen.schedule_emit import Plan, emit_nest
from tensorad.codegen.schedule_flat import flattened
from tensorad.codegen.schedule_memory import is_large
from tensorad.codegen.schedule_plan import plan_nest
from tensorad.ir.expr import Axis, Expr, add, axis, int_const, mul
from tensorad.ir.tensor import Dim, Placeholder, Tensor, outputs


class _Writer:
    """One group with its tile and the scratch of its temporaries."""

    def __init__(self, group: Group, tile: Tile, outside: Mapping[Tensor, None]) -> None:
        self.group = group
        self.tile = tile
        self.first = group.steps[0]
        self.loops = [axis(row[self.first].name, 0, row[self.first].upper) for row in tile.rows]
        self.outside = outside
        again = {t: None for s in group.steps for t in s.reads if is_large(t)}
        self.homes = {
            t: (s, self.home(t, s))
            for s in group.steps
            for t in s.writes
            if t not in outside or t in again  # a row is read again, its stores pass the cache
        }

    def home(self, t: Tensor, s: Step) -> Tensor:
        """The scratch of a temporary: one block of its rows."""
        shape: list[Dim] = [t.shape[d] for d in self.kept(s)]
        blocked = self.blocked(s)
        if blocked is not None:
            shape[self.kept(s).index(blocked)] = self.tile.block
        return outputs(Placeholder(t.name, tuple(shape), t.dtype))[0]

    def kept(self, s: Step) -> list[int]:
        """The dimensions of a member's tensors that are no rows, and the one with blocks."""
        assert s.item is not None  # it has rows
        blocked = self.blocked(s)
        rows = [row[s] for row in self.tile.rows]
        axes = s.item.axes
        return [d for d, a in enumerate(axes) if d == blocked or not among(a, rows)]

    def blocked(self, s: Step) -> int | None:
        """The dimension that runs in blocks."""
        assert s.item is not None  # it has rows
        if self.tile.block == 1:
            return None
        return [a is self.tile.rows[-1][s] for a in s.item.axes].index(True)

    def kernel(self) -> Kernel:
        """All loops."""
        body = self.blocks()
        for a in reversed(self.loops[:-1]):
            body = (For(a, body, self.kind(a)),)
        made = [t for s in self.group.steps for t in s.writes if t in self.outside]
        read = dict.fromkeys(t for s in self.group.steps for t in s.reads if t not in self.homes)
        scratch = tuple([home for _, home in self.homes.values()])
        return Kernel(made[-1].name, body, tuple(made), tuple(read), scratch)

    def kind(self, a: Axis) -> LoopKind:
        """Of the loop over a row."""
        return "parallel" if a is self.loops[0] and self.tile.parallel else "serial"

    def blocks(self) -> tuple[Stmt, ...]:
        """The last loop: over values, or over whole blocks and then the rest."""
        last, block = self.loops[-1], self.tile.block
        if block == 1:
            return (For(last, self.members(last, None, None), self.kind(last)),)
        assert last.extent is not None  # only such rows have blocks
        whole, rest = divmod(last.extent, block)
        result: tuple[Stmt, ...] = ()
        if whole > 1:
            number = axis(last.name, 0, whole)
            body = self.run(mul(int_const(block), number), block)
            result = (For(number, body, self.kind(last)),)
        elif whole:
            result = self.once(int_const(0), block)
        if rest:
            result += self.once(int_const(whole * block), rest)
        return result

    def once(self, base: Expr, size: int) -> tuple[Stmt, ...]:
        """One block that is no part of a loop: scratch lives in a statement of its own."""
        return (For(axis(self.loops[-1].name, 0, 1), self.run(base, size)),)

    def run(self, base: Expr, size: int) -> tuple[Stmt, ...]:
        """The members on one block from `base` on."""
        inner = axis(f"{self.loops[-1].name}i", 0, size)
        return self.members(add(base, inner), inner, base)

    def members(self, last: Expr, inner: Axis | None, base: Expr | None) -> tuple[Stmt, ...]:
        """What every member does where the last row is `last`."""
        at = (*self.loops[:-1], last)
        body: list[Stmt] = []
        for s in self.group.steps:
            rows: dict[Expr, Expr] = {row[s]: e for row, e in zip(self.tile.rows, at, strict=True)}
            choices = OPEN if s.item is None else s.item.choices
            for nest, plan in s.planned:
                body.extend(_in_rows(nest, plan, rows, (self.tile.rows[-1][s], inner), choices))
        places = {
            t: Place(home, self.origins(s, base), t in self.outside)
            for t, (s, home) in self.homes.items()
        }
        return moved(tuple(body), places)

    def origins(self, s: Step, base: Expr | None) -> tuple[tuple[int, Expr | None], ...]:
        """The kept dimensions, each with where its block begins."""
        return tuple([(d, base if d == self.blocked(s) else None) for d in self.kept(s)])


def write_group(group: Group, tile: Tile, outside: Mapping[Tensor, None]) -> Kernel:
    """The kernel of a group."""
    return _Writer(group, tile, outside).kernel()


def _in_rows(
    nest: Nest,
    plan: Plan,
    rows: Mapping[Expr, Expr],
    last: tuple[Axis, Axis | None],
    choices: Choices,
) -> tuple[Stmt, ...]:
    """A piece for given rows, by its plan without their loops: its sums keep their order."""
    axes: dict[Expr, Axis | None] = dict.fromkeys(rows)
    axes[last[0]] = last[1]
    kept = [axes.get(a, a) for a in nest.axes]
    image = substitutor(rows)
    placed = map_nest(nest, image, [a for a in kept if a is not None])
    flat = flattened(placed, choices)
    if flat is not placed:
        return emit_nest(flat, replace(plan_nest(flat, choices), parallel=False))
    if plan.vector is not None and among(plan.vector, rows):  # no fold runs in lanes
        other = plan_nest(placed, choices)
        if other.vector is None or among(other.vector, placed.axes):
            return emit_nest(placed, replace(other, parallel=False))
    for f, g in zip(nest.folds, placed.folds, strict=True):
        axes.update(zip(f.axes, g.axes, strict=True))
    return emit_nest(placed, _placed_plan(plan, lambda a: axes.get(a, a)))


def _placed_plan(plan: Plan, image: Callable[[Axis], Axis | None]) -> Plan:
    """The plan over the axes that are left."""
    order = [image(a) for a in plan.order]
    jam = {image(a): f for a, f in plan.jam.items()}
    unroll = [image(a) for a in plan.unroll]
    return replace(
        plan,
        order=tuple([a for a in order if a is not None]),
        vector=None if plan.vector is None else image(plan.vector),
        jam={a: f for a, f in jam.items() if a is not None},
        unroll=frozenset([a for a in unroll if a is not None]),
        parallel=False,
    )
