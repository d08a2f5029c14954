"""Derivatives that users give for calls, where the call is one of all rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from tensorad.batching.level import Level
from tensorad.batching.rows import like
from tensorad.errors import GradError
from tensorad.ir.arrays.elementwise import compute_axes, formula
from tensorad.ir.combiner import sum_combiner
from tensorad.ir.expr import read, reduce_expr
from tensorad.ir.tensor import FunctionCall, Tensor, outputs


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

    def __call__(
        self, op: FunctionCall, heads: Sequence[Tensor | None], so_far: SoFar
    ) -> list[Tensor | None]:
        """The adjoints of the operands; those of operands without the axis are sums over rows.

        Raises:
            GradError: the rule asks what is collected of an operand that all rows share.
        """
        assert self.call.rule is not None, "a call without a rule needs none here"
        count = len(self.call.operands)
        params = [like(t, t.shape) for t in self.call.operands]
        one = replace(self.call, operands=tuple(params))
        own = self.level.empty()
        for k, (p, t) in enumerate(zip(params, op.operands, strict=False)):
            images = own.image if k in self.differ else own.plain
            images[p] = t
        given: list[Tensor | None] = []
        for inner, whole, head in zip(outputs(one), outputs(op), heads, strict=True):
            own.image[inner] = whole
            given.append(None if head is None else like(inner, inner.shape))
            if head is not None:
                own.image[given[-1]] = head  # type: ignore[index]  # it was just made
        found = self.call.rule(one, given, self.collected(params, op, own, so_far))
        own.run(own, [t for t in found if t is not None])
        made = [self.adjoint(k, t, own) for k, t in enumerate(found)]
        return [*made, *[None] * (len(op.operands) - count)]

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


SoFar = Callable[[Tensor], "Tensor | None"]


def _summed(t: Tensor) -> Tensor:
    """(rows, *shape) -> the sum of the rows."""
    k, *axes = compute_axes(t.shape)
    body = reduce_expr(sum_combiner(t.dtype), (read(t, (k, *axes)),), (k,))
    return formula(t.name, tuple(axes), body, "")
