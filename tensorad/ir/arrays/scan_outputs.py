"""The tensors of a scan, by what they hold."""

from __future__ import annotations

from tensorad.ir.tensor import Scan, Tensor, outputs


def states_after(op: Scan) -> tuple[Tensor, ...]:
    """The states that steps leave, one tensor per component."""
    m = op.combiner.arity
    return outputs(op)[m : 2 * m] if op.exclusive else outputs(op)[:m]


def states_before(op: Scan) -> tuple[Tensor, ...]:
    """The states that steps find."""
    m = op.combiner.arity
    return outputs(op)[:m] if op.exclusive else outputs(op)[m : 2 * m]


def last_states(op: Scan) -> tuple[Tensor, ...]:
    """The states after all steps, over the axes around them."""
    return outputs(op)[2 * op.combiner.arity :]


def scan_results(op: Scan) -> tuple[Tensor, ...]:
    """What a scan is for: the states before its steps if it is exclusive, after them if not."""
    return outputs(op)[: op.combiner.arity]
