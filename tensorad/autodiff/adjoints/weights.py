"""Weights: what the reads of one formula contribute, computed in one pass over its points.

A gather evaluates the adjoint times a partial derivative at every point that reaches an element,
so a formula with many reads is evaluated once for each of them. Stored, the partial derivatives
share what they have in common, and the gathers only add.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tensorad.autodiff.adjoints.adjoint import Adjoint, Target
from tensorad.autodiff.adjoints.contributions import Contribution, gather_is_cheaper, grouped
from tensorad.autodiff.adjoints.gathers import gather_all
from tensorad.autodiff.adjoints.switched import product
from tensorad.autodiff.local.linear import Term
from tensorad.ir.analysis.points import depends_on_data, possible
from tensorad.ir.expr import ONE, TRUE, Axis, Expr, cast, read
from tensorad.ir.tensor import Compute, outputs
from tensorad.ir.visit import copy_bodies
from tensorad.simplify.zeros.lift import guarded

_TOGETHER: Final = "all reads of the formula take one pass together, and more apart"


@dataclass(eq=False)
class WeightedTarget(Target):
    """The adjoint of one tensor, to which formulas with many reads contribute."""

    def scattered_domains(self, axes: tuple[Axis, ...]) -> dict[tuple[Axis, ...], str]:
        """Besides, the domains whose reads, gathered one by one, visit more points."""
        found = super().scattered_domains(axes)
        for own, members in grouped(self.contributions, lambda c: c.axes).items():
            several = len(members) > 1 and own and not any(c.sparse for c in members)
            if several and not self._is_gathered(members, axes):
                found.setdefault(own, _TOGETHER)
        return found

    def _is_gathered(self, members: Sequence[Contribution], axes: tuple[Axis, ...]) -> bool:
        """Whether gathering what can be gathered visits no more points than scattering all."""
        inverted = [c for c in members if not depends_on_data(*c.indices)]
        body = gather_all(inverted, axes, len(self.batch)) if inverted else None
        beside = inverted if len(inverted) == len(members) else []
        return body is not None and gather_is_cheaper(body, axes, beside, len(self.batch))


def with_stored_weights(
    op: Compute, name: str, adjoint: Adjoint, terms: Sequence[Term], kept: bool
) -> tuple[Adjoint, list[Term]]:
    """The same contributions; those of the formula's own points read from tensors.

    Args:
        name: of the tensors.
        kept: whether the adjoint is stored in any case.
    Returns:
        the adjoint that the new terms are to be multiplied by: 1; both as they were if fewer
        than two terms share the formula's points.
    """
    if len(terms) < 2 or any(t.axes or t.condition is not TRUE for t in terms):
        return adjoint, list(terms)
    head = _formula(adjoint, kept)
    bodies = [guarded(t.guard, product(head, op.axes, t.coefficient, t.switch)) for t in terms]
    axes, copies = copy_bodies(op.axes, bodies)
    tensors = outputs(Compute(name, axes, copies))
    stored = [
        replace(t, coefficient=read(w, op.axes), guard=_still_asked(t))
        for t, w in zip(terms, tensors, strict=True)
    ]
    return replace(adjoint, body=cast(ONE, adjoint.body.dtype), tensor=None), stored


def _formula(adjoint: Adjoint, kept: bool) -> Adjoint:
    """The adjoint; not stored if only weights read it."""
    made = None if adjoint.tensor is None or kept else adjoint.tensor.op
    if isinstance(made, Compute) and len(made.bodies) == 1:
        return Adjoint(made.axes, made.bodies[0])
    return adjoint


def _still_asked(t: Term) -> Expr:
    """What a read's guard says of indices; all of it if it keeps an index from data inside."""
    return t.guard if depends_on_data(*t.read.indices) else possible(t.guard)
