"""The block of a loop, copied for the place where it runs, and how its values go on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from tensorad.codegen.control.carries import (
    Around,
    Chain,
    Layout,
    Layouts,
    chains,
    copy_of,
    is_dynamic,
)
from tensorad.codegen.loops.scratch import buffer
from tensorad.ir.records import Fields, Tag
from tensorad.ir.tensor import (
    Compute,
    Control,
    Loop,
    Op,
    Saved,
    Scan,
    Scatter,
    Tensor,
    outputs,
)
from tensorad.simplify.control.renew import renewed


@dataclass
class Body:
    """A copy of a loop's block.

    Attributes:
        carried, scanned: the copy's params.
        sources: what the scanned ones are parts of.
        results: next carries: computed, given, or carries.
        made: those that an iteration computes, in memory that they are given.
        chains: how values go from carry to carry.
        saves: by chain, its values that are saved where it lies -> their rows.
        rows: (what else is saved of an iteration, its rows).
    """

    carried: tuple[Tensor, ...]
    scanned: tuple[Tensor, ...]
    sources: tuple[Tensor, ...]
    results: tuple[Tensor, ...]
    made: dict[Tensor, None]
    chains: list[Chain] = field(default_factory=list)
    saves: list[dict[Tensor, Tensor]] = field(default_factory=list)
    rows: list[tuple[Tensor, Tensor]] = field(default_factory=list)

    @staticmethod
    def of(op: Loop, kept: Sequence[Saved], delivered: Collection[Tensor]) -> Body:
        """The block, copied.

        Args:
            delivered: of what is saved, that of which all rows have memory of their own.
        """
        block, last = op.blocks[0], op.carries + op.scanned
        moving = [buffer(p.name, p.shape, p.dtype) for p in block.params[:last]]
        image = renewed(block, (*moving, *op.operands[last:]), [s.inner for s in kept])
        outside = dict.fromkeys((*moving, *op.operands))
        made: dict[Tensor, None] = {}
        results: list[Tensor] = []
        passed: dict[Tensor, None] = {}
        carried = dict.fromkeys(moving[: op.carries])
        for t in block.results:
            found = image.get(t, t)
            if found in passed or found not in outside:
                found = own(found, (made, outside))
                made[found] = None
            results.append(found)
            passed.update({found: None} if found in carried else {})
        body = Body(
            tuple(moving[: op.carries]), tuple(moving[op.carries :]),
            op.operands[op.carries : last], tuple(results), made,
        )  # fmt: skip
        body.chains = chains(body.carried, results, made)
        saved: dict[Tensor, Tensor] = {}
        more: list[tuple[Tensor, Tensor]] = []
        for s in kept:
            t, (stored,) = image.get(s.inner, s.inner), outputs(s)
            if saved.setdefault(t, stored) is not stored:
                more.append((t, stored))
        known = op.count is not None or len(op.blocks) == 1
        for c in body.chains:
            body.saves.append(body.kept_where_it_lies(c, saved, known, delivered))
        taken = dict(made)
        done = {t for s in body.saves for t in s}
        for t, stored in (*[(t, r) for t, r in saved.items() if t not in done], *more):
            found = own(t, (taken, outside))
            taken[found] = None
            body.rows.append((found, stored))
        return body

    def kept_where_it_lies(
        self, c: Chain, saved: dict[Tensor, Tensor], known: bool, delivered: Collection[Tensor]
    ) -> dict[Tensor, Tensor]:
        """What is saved of a chain without a copy of it."""
        if c.result is None or not c.own:
            return {}
        values = [c.result, *[self.carried[k] for k in c.carries]]
        found = {t: saved[t] for t in values if t in saved}
        if known and len(found) == 1 and (c.result in found or len(c.carries) == 1):
            return found
        return {} if any(rows in delivered for rows in found.values()) else found

    def left(self, used: Collection[int]) -> list[Tensor]:
        """What the last iteration has to leave.

        Args:
            used: carries whose last value is read.
        """
        found = [t for t, _ in self.rows]
        for c, saves in zip(self.chains, self.saves, strict=True):
            found += [self.carried[k] for k in c.carries if k in used]
            if c.result is not None and (c.carries[0] in used or c.result in saves):
                found.append(c.result)
        return found

    @property
    def may_be_in_place(self) -> list[tuple[Tensor, Tensor]]:
        """Pairs of a carry and the next one, of which no other value is used afterwards."""
        return [
            (self.carried[c.carries[0]], c.result)
            for c, saves in zip(self.chains, self.saves, strict=True)
            if c.result is not None and c.own and len(c.carries) == 1 and not saves
        ]

    def layout(self, around: Around, changed: Collection[Tensor]) -> Layout:
        """Where carries lie.

        Args:
            changed: results that are made where the carries lie.
        """
        to = Layouts(around)
        for c, saves in zip(self.chains, self.saves, strict=True):
            if c.result is not None and c.result in changed:
                to.in_place(c.carries[0])
            elif not c.own:
                to.follow(c)
            elif not saves:
                to.ring(c)
            elif c.result is not None and around.known and len(saves) == 1 and c.result in saves:
                self.rows.append((c.result, saves[c.result]))
                to.follow(c)
            elif around.known and len(saves) == 1 == len(c.carries):
                to.own_rows(c, *saves.values())
            else:
                to.rows(c, saves)
        return to.found


def own(t: Tensor, others: Sequence[Collection[Tensor]]) -> Tensor:
    """The tensor, or a copy of it where it may not be computed into memory that it is given.

    Args:
        others: tensors that have memory already.
    """
    op = t.op
    if any(t in o for o in others) or not is_made(op):
        return copy_of(t)
    return copy_of(t) if is_dynamic(t) and not isinstance(op, (Compute, Scatter, Scan)) else t


def is_made(op: Op) -> bool:
    """Whether an operation stores its outputs; what is in a record lies there."""
    if isinstance(op, Saved):
        return isinstance(op.control, Loop)
    made = isinstance(op, (Compute, Scatter, Scan, Control))
    return made and not isinstance(op, (Tag, Fields))
