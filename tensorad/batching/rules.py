"""Derivatives that users give for calls, where the call is one of all rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from tensorad.batching.level import Level
from tensorad.batching.rows import like
from tensorad.errors import GradError
from tensorad.ir.arrays.elementwise import compute_axes, formula
from tensorad.ir.combiner import sum_combiner
from tensorad.ir.expr import read, reduce_expr
from tensorad.ir.tensor import CallRule, FunctionCall, MaybeTensors, SoFar, Tensor, outputs


@dataclass(frozen=True, eq=False)
class RowsRule:
    """The rule of a call of all rows: that of the call of one, with the axis.

    Attributes:
        call: of one row, which has a rule.
        differ: the operands that have the axis, by number.
        level: an empty one of these rows.
    """

    call: FunctionCall
    differ: Collection[int]
    level: Level

    @property
    def rule(self) -> CallRule:
        """What the call of all rows carries: the directions that the call of one has."""
        given = self.given
        adjoints = None if given.adjoints is None else self.adjoints
        return CallRule(adjoints, None if given.tangents is None else self.tangents)

    @property
    def given(self) -> CallRule:
        """The rule of one row."""
        assert self.call.rule is not None, "a call without a rule needs none here"
        return self.call.rule

    def adjoints(self, op: FunctionCall, heads: MaybeTensors, so_far: SoFar) -> MaybeTensors:
        """The adjoints of the operands; those of operands without the axis are sums over rows.

        Raises:
            GradError: the rule asks what is collected of an operand that all rows share.
        """
        assert self.given.adjoints is not None, "the call has no such rule otherwise"
        count = len(self.call.operands)
        one, own = self._one(op)
        given: list[Tensor | None] = []
        for inner, head in zip(outputs(one), heads, strict=True):
            given.append(None if head is None else like(inner, inner.shape))
            if head is not None:
                own.image[given[-1]] = head  # type: ignore[index]  # it was just made
        so_far_of_one = self.collected(one.operands, op, own, so_far)
        found = self.given.adjoints(one, given, so_far_of_one)
        own.run(own, [t for t in found if t is not None])
        made = [self.adjoint(k, t, own) for k, t in enumerate(found)]
        return [*made, *[None] * (len(op.operands) - count)]

    def tangents(self, op: FunctionCall, tangents: MaybeTensors) -> MaybeTensors:
        """The tangents of the outputs, from those of the operands."""
        assert self.given.tangents is not None, "the call has no such rule otherwise"
        one, own = self._one(op)
        given: list[Tensor | None] = []
        for k, (p, d) in enumerate(zip(one.operands, tangents, strict=False)):
            given.append(None if d is None else like(p, p.shape))
            if d is not None:
                images = own.image if k in self.differ else own.plain
                images[given[-1]] = d  # type: ignore[index]  # it was just made
        found = self.given.tangents(one, given)
        own.run(own, [t for t in found if t is not None])
        return [None if t is None else own.spread(t) for t in found]

    def _one(self, op: FunctionCall) -> tuple[FunctionCall, Level]:
        """A call of one row, and a level in which its operands and outputs are those of all."""
        params = [like(t, t.shape) for t in self.call.operands]
        one = replace(self.call, operands=tuple(params))
        own = self.level.empty()
        for k, (p, t) in enumerate(zip(params, op.operands, strict=False)):
            images = own.image if k in self.differ else own.plain
            images[p] = t
        own.image.update(zip(outputs(one), outputs(op), strict=True))
        return one, own

    def collected(
        self, params: Sequence[Tensor], op: FunctionCall, own: Level, so_far: SoFar
    ) -> SoFar:
        """What is collected of an operand of one row."""

        def of(t: Tensor) -> Tensor | None:
            k = next((n for n, p in enumerate(params) if p is t), None)
            if k is None:
                return None
            if k not in self.differ:
                raise GradError(
                    f"the rule of {self.call.function} asks for the adjoint so far of an argument "
                    "that all examples of vmap share.",
                    where=self.call.operands[k].described,
                    hint="map the argument too, or return the adjoint without what is there.",
                )
            before = so_far(op.operands[k])
            if before is None:
                return None
            found = like(t, t.shape)
            own.image[found] = before
            return found

        return of

    def adjoint(self, k: int, t: Tensor | None, own: Level) -> Tensor | None:
        """The adjoint of an operand, from that in one row."""
        if t is None:
            return None
        rows = own.spread(t)
        return rows if k in self.differ else _summed(rows)


def _summed(t: Tensor) -> Tensor:
    """(rows, *shape) -> the sum of the rows."""
    k, *axes = compute_axes(t.shape)
    body = reduce_expr(sum_combiner(t.dtype), (read(t, (k, *axes)),), (k,))
    return formula(t.name, tuple(axes), body, "")
