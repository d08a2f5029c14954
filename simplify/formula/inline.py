"""Inlining computes into the formulas that read them."""

from __future__ import annotations

from collections.abc import Sequence

from tensorad.ir.arrays.arguments import check_tensor, check_tensors
from tensorad.ir.expr import Expr, Read
from tensorad.ir.order import REDUCE, occurs
from tensorad.ir.tensor import Compute, Tensor, outputs
from tensorad.ir.visit import copy_bodies, rewrite, substitute, with_fresh_reductions


def inline_reads(root: Expr, tensors: Sequence[Tensor]) -> Expr:
    """Reads of the given computes -> their bodies at the indices read."""
    wanted = dict.fromkeys(tensors)

    def inline(e: Expr) -> Expr | None:
        if not isinstance(e, Read) or e.tensor not in wanted:
            return None
        op = e.tensor.op
        if not isinstance(op, Compute):
            return None
        body = with_fresh_reductions(op.bodies[e.tensor.index])
        return substitute(body, dict(zip(op.axes, e.indices, strict=True)))

    return rewrite(root, inline)


def inline_non_reductions(t: Tensor, tensors: Sequence[Tensor]) -> Tensor:
    """`t` with those of the tensors that are computes without a reduction written into it."""
    check_tensor(t, "InlineNonReductions")
    if not isinstance(t.op, Compute):
        return t
    plain = [
        u
        for u in check_tensors(tensors, "InlineNonReductions")
        if isinstance(u.op, Compute) and not occurs(REDUCE, u.op.bodies[u.index])
    ]
    axes, bodies = copy_bodies(t.op.axes, t.op.bodies)
    inlined = tuple([inline_reads(b, plain) for b in bodies])
    return outputs(Compute(t.op.name, axes, inlined, t.op.source))[t.index]
