"""Reverse mode through calls and branches: their blocks, reversed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from tensorad.autodiff.control.activity import Around, active_inside, reached, within
from tensorad.autodiff.control.heads import (
    Given,
    Head,
    Seed,
    Sent,
    Switch,
    read_among,
    switch_like,
    the_same,
)
from tensorad.autodiff.control.pieces import like, unread, with_dtype
from tensorad.autodiff.control.residuals import note_stored, own_sizes, residuals
from tensorad.autodiff.control.rows import Places, from_parts, parts_of
from tensorad.autodiff.local.records import nothing
from tensorad.ir.analysis.blocks import block_ops
from tensorad.ir.arrays.checkpoints import Checkpoint
from tensorad.ir.expr import FALSE, TRUE
from tensorad.ir.records import is_record
from tensorad.ir.tensor import Block, Branch, Control, FunctionCall, Shape, Tensor, outputs, saved

Slot = tuple[object, ...]
"""Which operand of a reversed branch it is, whatever it is in a block."""
Parts = Mapping[tuple[int, Places], Tensor]
"""Parts of adjoints, by number of the operand of the branch and places in it."""
Bound = dict[Slot, tuple[Tensor, Tensor]]
"""(param, operand) of a reversed block, by slot."""


@dataclass(frozen=True)
class _Swept:
    """What the sweep over a block of a branch found.

    Attributes:
        ends: (tensor of the block with its head, this head outside) by slot.
        adjoints: by number of the operand of the branch, and so are `switches`: where they are
            on, of one block of several as far as indices decide, too.
        starts: params that some adjoints have been added to.
    """

    ends: Mapping[Slot, tuple[Seed, Head]]
    adjoints: Mapping[int, Tensor]
    switches: Mapping[int, Switch]
    starts: Mapping[int, Tensor] = field(default_factory=dict)

    @property
    def params(self) -> list[Tensor]:
        """The heads inside."""
        return [s.head for s, _ in self.ends.values()]

    @property
    def told(self) -> dict[Tensor, tuple[Slot, Head]]:
        """Params that tell where heads are on."""
        return {s.on: (slot, h) for slot, (s, h) in self.ends.items() if s.on is not None}

    @property
    def may_be_off(self) -> bool:
        """Whether data switch heads off."""
        return any(h.on() is not None for _, h in self.ends.values())

    @property
    def has_poles(self) -> bool:
        """Whether heads that data switch off meet infinite partial derivatives."""
        return any(s.is_asked and h.on() is not None for s, h in self.ends.values())


class BranchAdjoints:
    """A branch of as many blocks, by the same index; so for a call, which has one."""

    def __init__(self, op: Control, given: Given) -> None:
        self.op = op
        self.given = given
        self.around = Around.of(op, given.rules)
        self.inside = active_inside(op, given.active, given.rules)
        self.swept = [self._sweep(n, told=False) for n in range(len(op.blocks))]
        self._told: dict[int, _Swept] = {}

    def run(self) -> list[Sent]:
        """What the operands receive."""
        operands, batch = self.around.operands, self.given.batch
        swept = [self._with_switches(n) if s.has_poles else s for n, s in enumerate(self.swept)]
        parts = _in_parts(self.op, swept, batch)
        bound = [
            {**_heads(s), **self._bound(n, s, [*parts[n].values()])} for n, s in enumerate(swept)
        ]
        moving = sorted({key: None for p in parts for key in p}, key=lambda key: key[0])
        if not moving:
            return []
        nothing = {key: _nothing_at(operands[key[0]], key[1], batch) for key in moving}
        results = [[p.get(key, nothing[key]) for key in moving] for p in parts]
        made = self._operation([f"d{operands[k].name}" for k, _ in moving], bound, results)
        found = []
        for (k, at), t in zip(moving, made, strict=True):
            whole = from_parts(t, at, batch, operands[k]) if at else t
            begun = k in self.starts and any(k in s.starts for s in swept)
            found.append(Sent(operands[k], whole, partial(self.switch, k), begun))
        return found

    @cached_property
    def starts(self) -> dict[int, Tensor]:
        """Where the sums for operands of a checkpoint begin, by number, each once."""
        operand = {t: k for k, t in enumerate(self.around.operands)}
        starts = self.given.starts if isinstance(self.op, Checkpoint) else {}
        return {operand[t]: start for t, start in starts.items() if t in operand}

    def switch(self, k: int) -> Tensor | None:
        """Where what operand k receives is on."""
        return self.switches.get(k)

    @cached_property
    def switches(self) -> dict[int, Tensor]:
        """By operand; nothing of those that receive something from everywhere."""
        operands, batch = self.around.operands, self.given.batch
        swept = [self._with_switches(n) if s.may_be_off else s for n, s in enumerate(self.swept)]
        found = [{k: on() for k, on in s.switches.items()} for s in swept]
        every = sorted({k: None for f in found for k in f})
        moving = [k for k in every if any(k not in f or f[k] is not None for f in found)]
        if not moving:
            return {}
        results = []
        for f in found:
            on = [f.get(k) for k in moving]
            others = [the_same(operands[k], batch, TRUE if k in f else FALSE) for k in moving]
            results.append([o if t is None else t for t, o in zip(on, others, strict=True)])
        bound = [self._bound(n, s, results[n]) for n, s in enumerate(swept)]
        names = [f"d{operands[k].name}.on" for k in moving]
        return dict(zip(moving, self._operation(names, bound, results, "_on"), strict=True))

    def _with_switches(self, n: int) -> _Swept:
        """The sweep over a block that knows where data switch heads off."""
        if n not in self._told:
            self._told[n] = self._sweep(n, told=True)
        return self._told[n]

    def _sweep(self, n: int, *, told: bool) -> _Swept:
        op, given, active = self.op, self.given, self.inside[n]
        params, block, batch = self.around.params(n), op.blocks[n], given.batch
        found: dict[Slot, tuple[Tensor, Head]] = {}
        for k, t in enumerate(outputs(op)):
            if t in given.heads and block.results[k] in active:
                found["output", k] = (block.results[k], given.heads[t])
        for inner, head in given.saved_heads(n):
            if inner in active:
                found["saved", inner, n] = (inner, head)
        ends = {
            slot: (Seed(t, like(t, batch), _told(t, h, batch) if told else None), h)
            for slot, (t, h) in found.items()
        }
        seeds = [s for s, _ in ends.values()]
        wrt = [p for p in reached(params, [s.of for s in seeds], given.rules) if p in active]
        if not wrt:
            return _Swept(ends, {}, {})
        place = {p: k for k, p in enumerate(params)}
        summed = [p for p in wrt if not is_record(p.dtype)]
        starts = {p: like(p, batch) for p in summed if place[p] in self.starts}
        made = given.vjp(seeds, wrt, batch, within(params, given.rules), starts)
        adjoints: dict[int, Tensor] = {}
        switches: dict[int, Switch] = {}
        on = made.reached if len(op.blocks) > 1 else made.switches
        for p, part, switch in zip(wrt, made.adjoints, on, strict=True):
            if part is not None:
                adjoints[place[p]] = with_dtype(part, p.dtype)
                switches[place[p]] = switch
        return _Swept(ends, adjoints, switches, {place[p]: starts[p] for p in made.begun})

    def _bound(self, n: int, swept: _Swept, made: Sequence[Tensor]) -> Bound:
        """What tensors made in a reversed block read, but heads."""
        told = swept.told
        own = [*swept.params, *told, *swept.starts.values()]
        bound = read_of_block(self.around, n, made, own)
        for p in read_among(made, told):
            slot, head = told[p]
            on = head.on()
            assert on is not None  # it is told
            bound["on", *slot] = (p, on)
        begun = {p: k for k, p in swept.starts.items()}
        for p in read_among(made, begun):
            bound["start", begun[p]] = (p, self.starts[begun[p]])
        return bound

    def _operation(
        self,
        names: Sequence[str],
        bound: Sequence[Bound],
        results: Sequence[Sequence[Tensor]],
        suffix: str = "",
    ) -> tuple[Tensor, ...]:
        op = of_slots(self.op, names, bound, results, suffix)
        return outputs(replace(op, again=True) if isinstance(op, Checkpoint) else op)


def _seen(op: Control, t: Tensor, n: int) -> Tensor:
    """A tensor of block n from outside; what a checkpoint keeps is an output."""
    first = len(op.results) - (op.keeps if isinstance(op, Checkpoint) else 0)
    kept = dict(zip(op.results[first:], outputs(op)[first:], strict=True))
    return kept[t] if t in kept else saved(op, t, n)


def read_of_block(
    around: Around,
    n: int,
    made: Sequence[Tensor],
    own: Sequence[Tensor],
    *,
    store_all: bool = False,
) -> Bound:
    """What tensors made of block n read of the operation: operands, and what is saved of it.

    Args:
        own: placeholders of the tensors made.
        store_all: whether a checkpoint stores what is read.
    """
    op, params, at = around.op, around.params(n), around.operands
    place = {p: k for k, p in enumerate(params)}
    needed = residuals(op, n, made, own, op.blocks[n].params, store_all=store_all)
    note_stored(op, needed.stored)
    bound: Bound = {("operand", place[p]): (p, at[place[p]]) for p in needed.params}
    bound.update({("inner", t, n): (t, _seen(op, t, n)) for t in needed.stored})
    bound.update({("outside", t): (t, t) for t in needed.outside})
    return bound


def of_slots(
    op: Control,
    names: Sequence[str],
    bound: Sequence[Bound],
    results: Sequence[Sequence[Tensor]],
    suffix: str = "",
) -> Control:
    """A call or branch like another one, whose blocks read what is bound in them."""
    slots = {slot: operand for b in bound for slot, (_, operand) in b.items()}
    blocks = []
    for b, made in zip(bound, results, strict=True):
        params = [b[s][0] if s in b else unread(t) for s, t in slots.items()]
        blocks.append(Block(tuple(params), tuple(made)))
    return like_operation(op, tuple(names), tuple(slots.values()), tuple(blocks), suffix)


def _told(t: Tensor, head: Head, batch: Shape) -> Tensor | None:
    return None if head.on() is None else switch_like(t, batch)


def _heads(swept: _Swept) -> Bound:
    return {slot: (s.head, h.value) for slot, (s, h) in swept.ends.items()}


def _nothing_at(operand: Tensor, at: Places, batch: Shape) -> Tensor:
    """A part of an adjoint that is 0."""
    places = dict(at)
    shape = [n for d, n in enumerate(operand.shape) if d not in places]
    return nothing(f"d{operand.name}", (*batch, *shape), operand.dtype)


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


def like_operation(
    op: Control,
    names: tuple[str, ...],
    operands: tuple[Tensor, ...],
    blocks: tuple[Block, ...],
    suffix: str = "",
) -> Control:
    """A call or branch of other blocks, by the same index."""
    if isinstance(op, FunctionCall):
        name = f"d{op.function}{suffix}"
        if isinstance(op, Checkpoint):
            return Checkpoint(
                names, operands, blocks, source=op.source, function=name, again=op.again
            )
        return FunctionCall(names, operands, blocks, source=op.source, function=name)
    return Branch(names, (*op.operands[:1], *operands), blocks, source=op.source)
