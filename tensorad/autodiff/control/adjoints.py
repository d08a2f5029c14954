"""Reverse mode through calls, branches and loops: operations whose blocks are theirs, reversed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property, partial

from tensorad.autodiff.control.activity import (
    Around,
    active_inside,
    reached_in_loop,
    within,
)
from tensorad.autodiff.control.backwards import Backwards, On, Pairs, Params, Swept
from tensorad.autodiff.control.branches import BranchAdjoints
from tensorad.autodiff.control.handles import handle_adjoints
from tensorad.autodiff.control.heads import (
    BlockAdjoints,
    Given,
    Head,
    Seed,
    Sent,
    Switch,
    read_among,
    switch_like,
    the_same,
    where_some,
)
from tensorad.autodiff.control.listed import in_lists
from tensorad.autodiff.control.parts import in_parts
from tensorad.autodiff.control.pieces import (
    batch_first,
    empty_carry,
    like,
    rows_first,
    unread,
    zeros_like,
)
from tensorad.autodiff.control.record_flows import fields_adjoints, inject_adjoints
from tensorad.autodiff.control.recursion import recursion_adjoints
from tensorad.autodiff.control.replayed import Replayed, replayed
from tensorad.autodiff.control.residuals import (
    Residuals,
    note_replayed,
    note_stored,
    own_sizes,
    residuals,
)
from tensorad.autodiff.control.rows import (
    added_to,
    from_rows,
    further_parts,
    in_order,
    read_offsets,
    rows_of,
    with_row,
)
from tensorad.errors import InternalError
from tensorad.ir.analysis.blocks import block_ops, tells_trips
from tensorad.ir.arrays.checkpoints import Checkpoint
from tensorad.ir.expr import FALSE, TRUE, Expr, LocalSize
from tensorad.ir.records import Fields, Inject, Recursion, is_record
from tensorad.ir.tensor import (
    Block,
    Branch,
    Compute,
    FunctionCall,
    Loop,
    Op,
    Tensor,
    dim_of,
    outputs,
    saved,
)
from tensorad.ir.visit import topological_ops
from tensorad.simplify.control.levels import in_place_of


def control_adjoints(op: Op, given: Given) -> list[Sent]:
    """What operands receive, those that receive something."""
    if isinstance(op, Loop):
        return _LoopAdjoints(op, given).run()
    if isinstance(op, (Branch, FunctionCall)):
        return BranchAdjoints(op, given).run()
    if not any(t in given.heads for t in outputs(op)):
        return []
    match op:
        case Compute():
            return handle_adjoints(op, given)
        case Inject():
            return inject_adjoints(op, given)
        case Fields():
            return fields_adjoints(op, given)
        case Recursion():
            return recursion_adjoints(op, given)
    raise InternalError(f"{type(op).__name__} has no derivative")


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
        self.rows = [(t, h) for t, h in given.saved_heads(0) if t in self.active]
        self.own = own_sizes(op, block_ops(self.block, [inner for inner, _ in op.kept]))

    def run(self) -> list[Sent]:
        """What the operands receive."""
        swept = self.with_switches if self.may_be_off(self.swept) else self.swept
        found = self.reversed_block(swept)
        if not found.adjoints and not found.parts:
            return []
        made = found.own
        needed = residuals(self.op, 0, found.values, made, self.block.params[self.op.carries :])
        again = self.replayed(needed)
        if again is None:
            found, needed = self.in_parts(found, needed, made)
            carried = [p for p in needed.params if self.place[p] < self.op.carries]
            note_stored(self.op, [*carried, *needed.stored])
        else:
            found = found.with_values(self.over(again, found.values))
        reverse = self.loop(self.params(found, needed, self.starts, again))
        last = dict(zip(found.heads, outputs(reverse), strict=False))
        sent = []
        for p, t in found.adjoints.items():
            whole = last[p] if p in last else self.all_rows(saved(reverse, t), p)
            sent.append(self.sent(p, whole, begun=p in self.starts))
        wholes: dict[Tensor, Tensor] = {}
        for p, row in found.parts:
            part = from_rows(saved(reverse, row.value), row, self.batch, p)
            before = wholes.get(p, self.starts.get(p))
            wholes[p] = part if before is None else added_to(before, part)
        return sent + [self.sent(p, whole, begun=p in self.starts) for p, whole in wholes.items()]

    def replayed(self, needed: Residuals) -> Replayed | None:
        """The carries of an iteration, if the loop stores some of them alone."""
        n = self.op.carries
        if self.op.replay is None or not any(self.place[p] < n for p in needed.params):
            return None
        note_replayed(self.op, self.op.replay)
        return replayed(self.op, self.op.replay)

    def over(self, again: Replayed, made: Sequence[Tensor]) -> list[Tensor]:
        """Tensors of a reversed block, from carries that are computed again."""
        return in_place_of(made, again.states, dict.fromkeys(self.block.params))

    def sent(self, p: Tensor, part: Tensor, *, begun: bool = False) -> Sent:
        """A part of the adjoint of what a param stands for."""
        return Sent(self.around.operands[self.place[p]], part, partial(self.switch, p), begun)

    @cached_property
    def starts(self) -> dict[Tensor, Tensor]:
        """Where the sums for fixed operands begin, each once."""
        fixed = list(self.place)[self.last :]
        operand = {self.around.operands[self.place[p]]: p for p in fixed}
        return {p: self.given.starts[t] for t, p in operand.items() if t in self.given.starts}

    def all_rows(self, t: Tensor, p: Tensor) -> Tensor:
        """What iterations have saved, as a tensor like the operand that a param is a row of."""
        return batch_first(t, self.batch, self.around.operands[self.place[p]].shape[0])

    # -- heads that are off -------------------------------------------------------------------

    def switch(self, p: Tensor) -> Tensor | None:
        """Where what the operand of a param receives is on."""
        return self.switches.get(p)

    @cached_property
    def swept(self) -> Swept:
        """The sweep over the block, all heads counting as on."""
        return self.sweep(told=False)

    @cached_property
    def with_switches(self) -> Swept:
        """The sweep that knows where heads are off."""
        return self.sweep(told=True)

    def head(self, p: Tensor) -> Head | None:
        """The head of a carry's last value."""
        return self.given.heads.get(outputs(self.op)[self.place[p]])

    def may_be_off(self, swept: Swept) -> bool:
        """Whether one of the heads that a pole asks for is off in some iteration."""
        if any(s.is_asked and h.on() is not None for s, h in swept.rows):
            return True
        done: dict[Tensor, None] = {}
        while True:
            asked = [p for p, s in swept.heads.items() if s.is_asked and p not in done]
            if not asked:
                return False
            for p in asked:
                done[p] = None
                head = self.head(p)
                if head is None or head.on() is not None or p not in swept.adjoints:
                    return True
                if swept.switch(p) is not None:
                    return True

    def carried_switches(self, swept: Swept, made: Sequence[Tensor]) -> list[On]:
        """The switches that tensors of the reversed block read, carried."""
        told = swept.told
        found: dict[Tensor, On] = {}
        todo = list(read_among(made, told))
        while todo:
            on = todo.pop(0)
            if on in found:
                continue
            p = told[on]
            head = self.head(p)
            first = self.told(p, None if head is None else head.on)
            result = self.told(p, partial(swept.switch, p) if p in swept.adjoints else None)
            found[on] = On(on, first, result)
            todo += read_among([result], told)
        return list(found.values())

    def told(self, p: Tensor, on: Switch | None) -> Tensor:
        """A switch as a tensor; None: off."""
        return self.same(p, FALSE) if on is None else self.known(p, on())

    def known(self, p: Tensor, on: Tensor | None) -> Tensor:
        """A switch as a tensor; None: on everywhere."""
        return self.same(p, TRUE) if on is None else on

    def same(self, p: Tensor, value: Expr) -> Tensor:
        """A switch that is the same everywhere."""
        return the_same(p, self.batch, value)

    def row_switches(self, swept: Swept, made: Sequence[Tensor]) -> Pairs:
        """Params for the switches of rows that tensors of the reversed block read."""
        told = swept.told_rows
        pairs = [(on, told[on].on()) for on in read_among(made, told)]
        return [(on, t) for on, t in pairs if t is not None]

    @cached_property
    def switches(self) -> dict[Tensor, Tensor]:
        """By param, from one more loop; nothing of those that are on everywhere."""
        by_data = isinstance(self.op.trips, LocalSize)  # it may have no iteration
        inside = [self.swept.switch(p) for p in self.swept.adjoints]
        if not by_data and all(on is None for on in inside) and not self.may_be_off(self.swept):
            return {}
        swept = self.with_switches
        made = {p: swept.switch(p, by_indices=by_data) for p in swept.adjoints}
        results = {p: self.known(p, t) for p, t in made.items() if by_data or t is not None}
        rows = range(self.op.carries, self.last)
        scanned = {p: on for p, on in results.items() if self.place[p] in rows}
        found = Backwards()
        for p in results:
            count = swept.number(p) if self.place[p] >= self.last else None
            if count is not None:
                self.add_fixed(p, count, found)
        heads = [on for on, p in swept.told.items() if p in swept.adjoints]
        read = [*found.values, *scanned.values()]
        carried = self.carried_switches(swept, [*read, *heads])
        read += [s.result for s in carried]
        found.rows, found.switches = self.row_switches(swept, read), carried
        needed = residuals(self.op, 0, read, found.own, self.block.params[self.op.carries :])
        again = self.replayed(needed)
        if again is not None:
            found = found.with_values(self.over(again, found.values))
            scanned = dict(zip(scanned, self.over(again, [*scanned.values()]), strict=True))
        reverse = self.loop(self.params(found, needed, {}, again))
        last = dict(zip(found.carries, outputs(reverse), strict=False))
        counts: dict[Tensor, list[Tensor]] = {p: [last[t]] for p, t in found.heads.items()}
        for p, row in found.parts:
            whole = from_rows(saved(reverse, row.value), row, self.batch, p)
            counts.setdefault(p, []).append(whole)
        result = {p: where_some(p, own) for p, own in counts.items()}
        result.update({swept.told[s.param]: last[s.param] for s in carried})
        result.update({p: self.all_rows(saved(reverse, on), p) for p, on in scanned.items()})
        return result

    # -- the reversed block -------------------------------------------------------------------

    def sweep(self, *, told: bool) -> Swept:
        """The block's own adjoints, from heads of next carries and of what is saved."""
        wrt, batch = self.received(), self.batch
        heads = {
            p: Seed(
                self.block.results[self.place[p]],
                like(p, batch),
                switch_like(p, batch) if told else None,
            )
            for p in wrt
            if self.place[p] < self.op.carries
        }
        rows = []
        for t, head in self.rows:
            off = told and head.on() is not None
            rows.append((Seed(t, like(t, batch), switch_like(t, batch) if off else None), head))
        seeds = [*heads.values(), *[s for s, _ in rows]]
        fixed = [p for p in wrt if self.place[p] >= self.last and not is_record(p.dtype)]
        starts = {p: like(p, batch) for p in fixed if self.in_segments}
        none = BlockAdjoints(())
        made = self.given.vjp(seeds, wrt, batch, self.rules, starts) if wrt else none
        return Swept(heads, rows, wrt, made, {p: starts[p] for p in made.begun})

    @cached_property
    def in_segments(self) -> bool:
        """Whether iterations compute again what theirs do: sums go on from one to the next."""
        return any(isinstance(o, Checkpoint) for o in block_ops(self.block))

    def reversed_block(self, swept: Swept) -> Backwards:
        heads = {p: s.head for p, s in swept.heads.items()}
        found = Backwards(heads, [(s.head, h.value) for s, h in swept.rows])
        for p in swept.wrt:
            t = swept.adjoints.get(p)
            if p in swept.starts and t is not None:
                found.heads[p], found.adjoints[p] = swept.starts[p], t
            elif self.place[p] >= self.last and t is not None:
                self.add_fixed(p, t, found)
            elif t is not None:
                found.adjoints[p] = t
            elif p in found.heads:
                found.adjoints[p] = zeros_like(p, self.batch)
        found.switches += self.carried_switches(swept, found.values)
        found.rows += self.row_switches(swept, found.values)
        return found

    def add_fixed(self, p: Tensor, t: Tensor, found: Backwards) -> None:
        """What an iteration adds to a sum for a fixed operand: rows, or what is carried.

        The sum is made in the order of iterations either way, so that segments of a loop, which go
        on from each other's sums, give the same bits.
        """
        trips = dim_of(self.op.trips)
        own, rest = rows_of(t, self.batch, self.op.counter, trips, self.offsets)
        rows = in_order(own, self.op.reverse)
        if rest is None and rows is not None:
            found.parts += [(p, further_parts(r, self.batch, self.own)) for r in rows]
            return
        found.heads[p] = total = like(p, self.batch)
        total = total if rest is None else added_to(total, rest)
        for row in own:
            total = with_row(total, row, self.batch, self.op.counter)
        found.adjoints[p] = total

    @cached_property
    def offsets(self) -> Collection[Expr]:
        """Where iterations read, less the counter."""
        return read_offsets(self.op)

    def in_parts(
        self, found: Backwards, needed: Residuals, own: Sequence[Tensor]
    ) -> tuple[Backwards, Residuals]:
        """The same, with parts in place of what would be stored whole."""
        carried = [p for p in needed.params if self.place[p] < self.op.carries]
        given = dict.fromkeys((*own, *needed.params, *needed.stored, *needed.outside))
        stored = [*carried, *needed.stored]
        results = {p: self.block.results[self.place[p]] for p in carried}
        values, listed = in_lists(found.values, given, results)
        given.update(dict.fromkeys(listed.values()))
        values, parts = in_parts(values, given, stored, self.op.counter)
        parts.update({p: [t] for p, t in listed.items()})
        changed = found.with_values(values)
        inner = [part for t in stored for part in parts.get(t, [t] * (t not in self.place))]
        left = [p for p in needed.params if p not in parts]
        return changed, Residuals(left, inner, needed.outside)

    def received(self) -> list[Tensor]:
        """The params that derivatives flow to."""
        made = enumerate(outputs(self.op))
        last = [k for k, t in made if t in self.given.heads and self.block.params[k] in self.active]
        found = reached_in_loop(self.around, last, [t for t, _ in self.rows], self.given.rules)
        return [p for p in self.place if p in found and p in self.active]

    def params(
        self,
        block: Backwards,
        needed: Residuals,
        starts: Mapping[Tensor, Tensor],
        again: Replayed | None,
    ) -> Params:
        """What the reversed block is given."""
        op, found = self.op, Params()
        for p, d in block.heads.items():
            head = self.head(p) if self.place[p] < op.carries else None
            first = starts.get(p) if head is None else head.value
            found.carries.append((d, zeros_like(p, self.batch) if first is None else first))
            found.results.append(block.adjoints[p])
        for s in block.switches:
            found.carries.append((s.param, s.first))
            found.results.append(s.result)
        if again is not None:
            found.carries += again.carries
            found.results += again.results
            there = dict.fromkeys(needed.params)
            found.fixed += [(p, t) for p, t in again.fixed if p not in there]
        found.scanned += [(d, rows_first(rows, self.batch)) for d, rows in block.rows]
        for p in needed.params:
            k = self.place[p]
            if again is not None and p in again.states:
                continue
            operand = saved(op, p) if k < op.carries else op.operands[k]
            (found.scanned if k < self.last else found.fixed).append((p, operand))
        found.scanned += [(t, saved(op, t)) for t in needed.stored]
        found.fixed += [(t, t) for t in needed.outside]
        told = _telling(op)
        if told is not None:
            found.fixed.append((unread(told), told))  # runs before
        if not found.carries:
            found.carries.append(empty_carry())
            found.results.append(found.carries[0][0])
        return found

    def loop(self, given: Params) -> Loop:
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
