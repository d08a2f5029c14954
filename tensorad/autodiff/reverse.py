"""Reverse mode: adjoints from an output back to the tensors it depends on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from tensorad.autodiff.adjoints.adjoint import (
    Target,
)
from tensorad.autodiff.adjoints.plain import PlainTarget, UnstoredTarget
from tensorad.autodiff.adjoints.weights import WeightedTarget
from tensorad.autodiff.checks import check_outputs, check_wrt
from tensorad.autodiff.control.missing import check_complete
from tensorad.autodiff.counting.choice import Ways, derive_by_count, derive_tidied
from tensorad.autodiff.counting.dense import note_jacobian
from tensorad.autodiff.heads import Heads, pair_heads, seeds
from tensorad.autodiff.local.flows import are_ruled
from tensorad.autodiff.local.overrides import Override, check_override
from tensorad.autodiff.provenance import remember
from tensorad.autodiff.sweep import Sweep
from tensorad.ir.tensor import Tensor
from tensorad.process import deep_calls
from tensorad.progress import progress

_OTHERS: Final[dict[str, type[Target]]] = {
    "plain": PlainTarget,
    "weights stored": WeightedTarget,
    "nothing stored": UnstoredTarget,
}
"""Ways to collect adjoints that are compared where a gradient visits or multiplies much."""


@progress("differentiating")
@deep_calls.changed()
def vjp(
    y: Tensor | Sequence[Tensor],
    wrt: Sequence[Tensor] | Tensor,
    head: Heads = None,
    *,
    strict: bool = False,
    override: Override | None = None,
) -> list[Tensor]:
    """sum over o of head[..., o] * d y[o] / d x, for every x of `wrt`.

    Args:
        y: float tensor of any shape, or several (also the tuple that `compute` returned, whose
            integer tensors are left out): the sum over all of them.
        wrt: the tensors to differentiate by; inputs or intermediates, float.
        head: shape (*batch, *y.shape), an array or number (broadcast); omitted: 1 for a 0-d
            y, otherwise the identity (the full Jacobian, batch = y.shape). For several outputs
            a list with one head each, of one batch shape; None stands for 1 at a 0-d output.
        strict: raise where y does not depend on a tensor, instead of returning zeros.
        override: derivatives to use in place of those of the formulas: {tensor: rule}, a rule
            being f(tensor, deps, head) -> adjoints of the float tensors it reads (None: zero),
            a pair (deps, f) with deps anywhere behind the tensor, or a `DerivativeRule`.
    Returns:
        one tensor of shape (*batch, *x.shape) per x.
    Raises:
        GradError: an integer tensor, an unreachable one with `strict`, a bad argument.
        ShapeError: the head does not end in y's shape, or an adjoint of a rule in its tensor's.
    """
    pairs = pair_heads(check_outputs(y), head)
    ys = [t for t, _ in pairs]
    tensors = check_wrt(wrt)
    starts, batch = seeds(pairs)
    rules = check_override(override)
    check_complete(ys, tensors, rules)
    sweep = Sweep(ys, tensors, batch, rules)
    given = [h for _, h in pairs if isinstance(h, Tensor)]

    def anew(kind: type[Target]) -> list[Tensor]:
        other = Sweep(ys, tensors, batch, rules, kind)
        found = other.run(starts, strict)
        return other.joined(other.tidied(found) if kind is WeightedTarget else found, given)

    others = {plan: partial(anew, kind) for plan, kind in _OTHERS.items()}
    ways = Ways(
        sweep=lambda: sweep.run(starts, strict),
        tidy=sweep.tidied,
        join=lambda found: sweep.joined(found, given),
        apart=lambda found, *limits: sweep.points_per_contribution(found, given, *limits),
        others=others,
        known=[*sweep.order, *[h.op for h in given]],
    )
    if len(ys) > 1 or batch or rules or are_ruled(sweep.order):
        results = derive_tidied(ways)
    else:
        results = derive_by_count(ways, ys[0], tensors, given)
    again = partial(vjp, y, tensors, head, strict=strict, override=override)
    note_jacobian(results, pairs)
    return remember(results, ys, tensors, again)
