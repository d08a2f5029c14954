"""Reverse mode in binding form: a tensor for the adjoint of each value, each made from others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tensorad.autodiff.control.heads import Seed
from tensorad.autodiff.control.missing import check_complete
from tensorad.autodiff.local.flows import derivation_inputs, derivation_order
from tensorad.autodiff.local.overrides import Rules
from tensorad.autodiff.sweep import block_vjp
from tensorad.ir.tensor import Tensor, outputs
from tensorad.process import deep_calls


@deep_calls.changed()
def bound_adjoints(
    heads: Mapping[Tensor, Tensor],
    wrt: Sequence[Tensor],
    values: Sequence[Tensor],
    rules: Rules,
    passed: Collection[Tensor] = (),
) -> dict[Tensor, Tensor]:
    """The adjoints of `wrt` and of those `values` between them and the outputs.

    The adjoint of a value reads those of its users, which are tensors, never formulas in formulas.

    Args:
        heads: of the outputs, by output: tensors of their shapes, which stay variables.
        passed: values that have no adjoints of their own: what they receive goes straight on.
    Returns:
        by value; nothing where no derivative flows. An output that no other one depends on has
        its head.
    Raises:
        GradError: a foreign function between them has no rule.
    """
    check_complete(list(heads), wrt, rules)
    order = derivation_order(list(heads), rules)
    moving = dict.fromkeys(wrt)
    inner: dict[Tensor, None] = {}
    for op in order:
        inputs = derivation_inputs(op, rules)
        inner.update(dict.fromkeys(inputs))
        if any(t in moving for t in inputs):
            moving.update(dict.fromkeys([t for t in outputs(op) if t.dtype.is_differentiable]))
    named = [t for t in dict.fromkeys((*values, *wrt)) if t in moving and t not in passed]
    found = {y: head for y, head in heads.items() if y in moving and y not in inner}
    others = [t for t in named if t not in found]
    seeds = [Seed(t, h) for t, h in heads.items()]
    made = block_vjp(seeds, others, (), rules, passed=passed).adjoints if others else []
    found.update({t: a for t, a in zip(others, made, strict=True) if a is not None})
    return found
