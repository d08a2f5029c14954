"""Reverse mode through calls, branches and loops: operations whose blocks are theirs, reversed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tensorad.autodiff.adjoints.adjoint import zeros
from tensorad.autodiff.control.activity import (
    Around,
    active_inside,
    reached,
    reached_in_loop,
    within,
)
from tensorad.autodiff.control.parts import in_parts
from tensorad.autodiff.control.pieces import (
    batch_first,
    like,
    rows_first,
    with_dtype,
    zeros_like,
)
from tensorad.autodiff.control.residuals import Residuals, note_stored, own_sizes, residuals
from tensorad.autodiff.control.rows import (
    Places,
    Row,
    added_to,
    from_parts,
    from_rows,
    further_parts,
    parts_of,
    rows_of,
)
from tensorad.autodiff.local.overrides import Rules
from tensorad.errors import InternalError
from tensorad.ir.analysis.blocks import block_ops, tells_trips
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import LocalSize, const
from tensorad.ir.tensor import (
    Block,
    Branch,
    Compute,
    Control,
    FunctionCall,
    Loop,
    Placeholder,
    Saved,
    Shape,
    Tensor,
    dim_of,
    outputs,
    saved,
)
from tensorad.ir.visit import topological_ops

Seeds = Sequence[tuple[Tensor, Tensor]]
"""Tensors of a block, each with a head."""
BlockVjp = Callable[[Seeds, Sequence[Tensor], Shape, Rules], "list[Tensor | None]"]
"""(seeds, by which tensors, batch, rules) -> adjoints, None: zero everywhere."""
Pairs = list[tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Given:
    """What the adjoints of an operation's operands are made from.

    Attributes:
        active: tensors outside of the operation that derivatives flow to.
        heads: adjoints (*batch, ...) of its outputs, and of what is saved of it.
    """

    active: Mapping[Tensor, None]
    heads: Mapping[Tensor, Tensor]
    batch: Shape
    rules: Rules
    vjp: BlockVjp


def control_adjoints(op: Control, given: Given) -> Pairs:
    """(operand, part of its adjoint), for operands that receive something."""
    if isinstance(op, Loop):
        return _LoopAdjoints(op, given).run()
    if isinstance(op, (Branch, FunctionCall)):
        return _branch(op, given)
    raise InternalError(f"{type(op).__name__} has no derivative")


def _saved_heads(op: Control, n: int, given: Given) -> Pairs:
    """(inner tensor of block n, adjoint of what is saved of it)"""
    found = [(t.op, h) for t, h in given.heads.items() if isinstance(t.op, Saved)]
    return [(s.inner, h) for s, h in found if s.block == n]


# -- branches, calls --------------------------------------------------------------------------

Slot = tuple[object, ...]
"""Which operand of a reversed branch it is, whatever it is in a block."""
Parts = Mapping[tuple[int, Places], Tensor]
"""Parts of adjoints, by number of the operand of the branch and places in it."""


@dataclass(frozen=True)
class _Swept:
    """What the sweep over a block of a branch found.

    Attributes:
        ends: (tensor of the block, head of it outside) by slot; `heads`: what these are inside.
        adjoints: by number of the operand of the branch.
    """

    ends: Mapping[Slot, tuple[Tensor, Tensor]]
    heads: Mapping[Slot, Tensor]
    adjoints: Mapping[int, Tensor]


@dataclass(frozen=True)
class _Reversed:
    """A block of a branch, reversed.

    Attributes:
        bound: (param, operand) by slot.
        adjoints: of operands.
    """

    bound: Mapping[Slot, tuple[Tensor, Tensor]]
    adjoints: Parts


def _branch(op: Control, given: Given) -> Pairs:
    """A branch of as many blocks, by the same index."""
    inside = active_inside(op, given.active, given.rules)
    around = Around.of(op, given.rules)
    operands = around.operands
    swept = [_sweep_block(around, n, inside[n], given) for n in range(len(op.blocks))]
    parts = _in_parts(op, swept, given.batch)
    made = [_reversed(around, n, found, parts[n]) for n, found in enumerate(swept)]
    moving = sorted({key: None for m in made for key in m.adjoints}, key=lambda key: key[0])
    if not moving:
        return []
    slots = {slot: operand for m in made for slot, (_, operand) in m.bound.items()}
    nothing = {key: _nothing_at(operands[key[0]], key[1], given.batch) for key in moving}
    blocks = []
    for m in made:
        params = [m.bound[s][0] if s in m.bound else _unread(t) for s, t in slots.items()]
        results = [m.adjoints.get(key, nothing[key]) for key in moving]
        blocks.append(Block(tuple(params), tuple(results)))
    names = tuple([f"d{operands[k].name}" for k, _ in moving])
    reverse = like_operation(op, names, tuple(slots.values()), tuple(blocks))
    pairs = []
    for (k, at), t in zip(moving, outputs(reverse), strict=True):
        whole = from_parts(t, at, given.batch, operands[k]) if at else t
        pairs.append((operands[k], whole))
    return pairs


def _nothing_at(operand: Tensor, at: Places, batch: Shape) -> Tensor:
    """A part of an adjoint that is 0."""
    places = dict(at)
    shape = [n for d, n in enumerate(operand.shape) if d not in places]
    return zeros(f"d{operand.name}", (*batch, *shape), operand)


def _sweep_block(around: Around, n: int, active: Mapping[Tensor, None], given: Given) -> _Swept:
    op, params = around.op, around.params(n)
    block = op.blocks[n]
    ends: dict[Slot, tuple[Tensor, Tensor]] = {}
    for k, t in enumerate(outputs(op)):
        if t in given.heads and block.results[k] in active:
            ends["output", k] = (block.results[k], given.heads[t])
    for inner, head in _saved_heads(op, n, given):
        if inner in active:
            ends["saved", inner, n] = (inner, head)
    heads = {slot: like(t, given.batch) for slot, (t, _) in ends.items()}
    seeds = [(t, heads[slot]) for slot, (t, _) in ends.items()]
    wrt = [p for p in reached(params, [t for t, _ in seeds], given.rules) if p in active]
    found = given.vjp(seeds, wrt, given.batch, within(params, given.rules)) if wrt else []
    pairs = [(p, t) for p, t in zip(wrt, found, strict=True) if t is not None]
    place = {p: k for k, p in enumerate(params)}
    return _Swept(ends, heads, {place[p]: with_dtype(t, p.dtype) for p, t in pairs})


def _in_parts(op: Control, swept: Sequence[_Swept], batch: Shape) -> list[Parts]:
    """The adjoints of blocks in parts, but those of which some block has a part at all indices."""
    found: list[Parts] = []
    for n, block in enumerate(op.blocks):
        own = own_sizes(op, block_ops(block, [inner for inner, b in op.kept if b == n]))
        adjoints = swept[n].adjoints.items()
        split = [(k, part) for k, t in adjoints for part in parts_of(t, batch, own)]
        found.append({(k, part.at): part.value for k, part in split})
    whole = {k: None for parts in found for k, at in parts if not at}
    return [
        {
            **{key: t for key, t in parts.items() if key[0] not in whole},
            **{(k, ()): t for k, t in block.adjoints.items() if k in whole},
        }
        for parts, block in zip(found, swept, strict=True)
    ]


def _reversed(around: Around, n: int, swept: _Swept, adjoints: Parts) -> _Reversed:
    op, params, at = around.op, around.params(n), around.operands
    heads, place = swept.heads, {p: k for k, p in enumerate(params)}
    made = list(adjoints.values())
    needed = residuals(op, n, made, list(heads.values()), op.blocks[n].params)
    note_stored(op, needed.stored)
    bound: dict[Slot, tuple[Tensor, Tensor]]
    bound = {s: (heads[s], h) for s, (_, h) in swept.ends.items()}
    bound.update({("operand", place[p]): (p, at[place[p]]) for p in needed.params})
    bound.update({("inner", t, n): (t, saved(op, t, n)) for t in needed.stored})
    bound.update({("outside", t): (t, t) for t in needed.outside})
    return _Reversed(bound, adjoints)


def like_operation(
    op: Control, names: tuple[str, ...], operands: tuple[Tensor, ...], blocks: tuple[Block, ...]
) -> Control:
    """A call or branch of other blocks, by the same index."""
    if isinstance(op, FunctionCall):
        name = f"d{op.function}"
        return FunctionCall(names, operands, blocks, source=op.source, function=name)
    return Branch(names, (*op.operands[:1], *operands), blocks, source=op.source)


def _unread(operand: Tensor) -> Tensor:
    """A param for an operand that other blocks read."""
    return outputs(Placeholder(operand.name, operand.shape, operand.dtype))[0]


# -- loops ------------------------------------------------------------------------------------


@dataclass
class _Params:
    """Params of a reversed loop, with their operands, and the results of the carries among them."""

    carries: Pairs = field(default_factory=list)
    results: list[Tensor] = field(default_factory=list)
    scanned: Pairs = field(default_factory=list)
    fixed: Pairs = field(default_factory=list)


@dataclass(frozen=True)
class _Backwards:
    """The formulas of a reversed block.

    Attributes:
        heads: adjoints that it carries, by the param of the forward block; each
            has an adjoint.
        rows: (inner tensor, head of what is saved of it in this iteration).
        adjoints: of params, after this iteration.
        parts: of adjoints of fixed params, one row in this iteration.
    """

    heads: Mapping[Tensor, Tensor]
    rows: Pairs
    adjoints: Mapping[Tensor, Tensor]
    parts: Sequence[tuple[Tensor, Row]]


class _LoopAdjoints:
    """The loop backwards: carries are the adjoints of carries, and sums for what stays fixed."""

    def __init__(self, op: Loop, given: Given) -> None:
        self.op = op
        self.given = given
        self.batch = given.batch
        self.block = op.blocks[0]
        self.last = op.carries + op.scanned
        (self.active,) = active_inside(op, given.active, given.rules)
        self.around = Around.of(op, given.rules)
        self.rules = within(self.around.params(), given.rules)
        self.place = {p: k for k, p in enumerate(self.around.params())}
        self.rows = [(t, h) for t, h in _saved_heads(op, 0, given) if t in self.active]
        self.own = own_sizes(op, block_ops(self.block, [inner for inner, _ in op.kept]))

    def run(self) -> Pairs:
        found = self.reversed_block()
        if not found.adjoints and not found.parts:
            return []
        made = [*found.heads.values(), *[h for _, h in found.rows]]
        values = [*found.adjoints.values(), *[r.value for _, r in found.parts]]
        needed = residuals(self.op, 0, values, made, self.block.params[self.op.carries :])
        found, needed = self.in_parts(found, needed, made)
        carried = [p for p in needed.params if self.place[p] < self.op.carries]
        note_stored(self.op, [*carried, *needed.stored])
        reverse = self.loop(self.params(found, needed))
        last = dict(zip(found.heads, outputs(reverse), strict=False))
        pairs = []
        for p, t in found.adjoints.items():
            operand = self.around.operands[self.place[p]]
            rows = None if p in last else saved(reverse, t)
            whole = last[p] if rows is None else batch_first(rows, self.batch, operand.shape[0])
            pairs.append((operand, whole))
        for p, row in found.parts:
            pairs.append(
                (
                    self.around.operands[self.place[p]],
                    from_rows(saved(reverse, row.value), row, self.batch, p),
                )
            )
        return pairs

    def reversed_block(self) -> _Backwards:
        wrt = self.received()
        heads = {p: like(p, self.batch) for p in wrt if self.place[p] < self.op.carries}
        rows = [(t, like(t, self.batch)) for t, _ in self.rows]
        seeds = [*[(self.block.results[self.place[p]], h) for p, h in heads.items()], *rows]
        made = self.given.vjp(seeds, wrt, self.batch, self.rules) if wrt else []
        adjoints: dict[Tensor, Tensor] = {}
        parts: list[tuple[Tensor, Row]] = []
        for p, found in zip(wrt, made, strict=True):
            t = None if found is None else with_dtype(found, p.dtype)
            if self.place[p] >= self.last and t is not None:
                own, t = rows_of(t, self.batch, self.op.counter, dim_of(self.op.trips))
                parts += [(p, further_parts(r, self.batch, self.own)) for r in own]
                if t is not None:
                    heads[p] = like(p, self.batch)
                    adjoints[p] = added_to(heads[p], t)
            elif t is not None:
                adjoints[p] = t
            elif p in heads:
                adjoints[p] = zeros_like(p, self.batch)
        return _Backwards(heads, rows, adjoints, parts)

    def in_parts(
        self, found: _Backwards, needed: Residuals, own: Sequence[Tensor]
    ) -> tuple[_Backwards, Residuals]:
        """The same, with parts in place of what would be stored whole."""
        carried = [p for p in needed.params if self.place[p] < self.op.carries]
        given = dict.fromkeys((*own, *needed.params, *needed.stored, *needed.outside))
        values = [*found.adjoints.values(), *[r.value for _, r in found.parts]]
        stored = [*carried, *needed.stored]
        values, parts = in_parts(values, given, stored, self.op.counter)
        n = len(found.adjoints)
        changed = replace(
            found,
            adjoints=dict(zip(found.adjoints, values[:n], strict=True)),
            parts=[
                (p, replace(r, value=t)) for (p, r), t in zip(found.parts, values[n:], strict=True)
            ],
        )
        inner = [part for t in stored for part in parts.get(t, [t] * (t not in self.place))]
        left = [p for p in needed.params if p not in parts]
        return changed, Residuals(left, inner, needed.outside)

    def received(self) -> list[Tensor]:
        """The params that derivatives flow to."""
        made = enumerate(outputs(self.op))
        last = [k for k, t in made if t in self.given.heads and self.block.params[k] in self.active]
        found = reached_in_loop(self.around, last, [t for t, _ in self.rows], self.given.rules)
        return [p for p in self.place if p in found and p in self.active]

    def params(self, block: _Backwards, needed: Residuals) -> _Params:
        """What the reversed block is given."""
        op, found = self.op, _Params()
        made = outputs(op)
        for p, d in block.heads.items():
            k = self.place[p]
            start = self.given.heads.get(made[k]) if k < op.carries else None
            found.carries.append((d, zeros_like(p, self.batch) if start is None else start))
            found.results.append(block.adjoints[p])
        for (_, d), (_, head) in zip(block.rows, self.rows, strict=True):
            found.scanned.append((d, rows_first(head, self.batch)))
        for p in needed.params:
            k = self.place[p]
            operand = saved(op, p) if k < op.carries else op.operands[k]
            (found.scanned if k < self.last else found.fixed).append((p, operand))
        found.scanned += [(t, saved(op, t)) for t in needed.stored]
        found.fixed += [(t, t) for t in needed.outside]
        told = _telling(op)
        if told is not None:
            found.fixed.append((_unread(told), told))  # runs before
        if not found.carries:
            found.carries.append(_nothing())
            found.results.append(found.carries[0][0])
        return found

    def loop(self, given: _Params) -> Loop:
        op = self.op
        bound = [*given.carries, *given.scanned, *given.fixed]
        return Loop(
            tuple([p.name for p, _ in given.carries]),
            tuple([operand for _, operand in bound]),
            (Block(tuple([p for p, _ in bound]), tuple(given.results)),),
            source=op.source,
            counter=op.counter,
            trips=op.trips,
            carries=len(given.carries),
            scanned=len(given.scanned),
            reverse=not op.reverse,
        )


def _telling(op: Loop) -> Tensor | None:
    """An output of the loop that tells how often this one runs."""
    if not isinstance(op.trips, LocalSize):
        return None
    before = topological_ops(outputs(op))
    loops = [o for o in before if tells_trips(o) and o.trips is op.trips]
    return outputs(loops[0])[0] if loops else None


def _nothing() -> tuple[Tensor, Tensor]:
    """A carry of a loop that needs none."""
    zero = outputs(Compute("nothing", (), (const(0, INT64),)))[0]
    return _unread(zero), zero
