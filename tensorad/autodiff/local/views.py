"""What differentiation sees of an operation: its terms, by the tensors they read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from weakref import WeakKeyDictionary

from tensorad.autodiff.local.combiners import reduce_terms
from tensorad.autodiff.local.linear import Term, body_terms
from tensorad.autodiff.local.scan_forms import traced_scan
from tensorad.ir.expr import Expr, Read, Reduce
from tensorad.ir.tensor import Compute, Control, Op, Saved, Scan, Scatter, Tensor, outputs
from tensorad.ir.visit import reads, topological_ops
from tensorad.process import memo
from tensorad.simplify.zeros.reduction_stages import extract_reductions


def view(op: Op) -> Op:
    """The operation as derivatives read it.

    Nested reductions are stages of their own; selecting scans know whom they selected.
    """
    if isinstance(op, Scan):
        return traced_scan(op)
    return extract_reductions(op) if isinstance(op, Compute) else op


_known_inputs: WeakKeyDictionary[Op, tuple[Tensor, ...]] = memo(WeakKeyDictionary())


def differentiable_inputs(op: Op) -> tuple[Tensor, ...]:
    """The float tensors the values of a (viewed) operation depend on, in order of first read.

    Of calls, branches and loops: the float operands. What is saved of one comes after it.
    """
    known = _known_inputs.get(op)
    if known is None:
        known = _known_inputs[op] = _differentiable_inputs(op)
    return known


def _differentiable_inputs(op: Op) -> tuple[Tensor, ...]:
    found: dict[Tensor, None] = {}
    if isinstance(op, Scan):
        found.update(dict.fromkeys(_value_reads((*op.start, *op.sources))))
    elif isinstance(op, Scatter):
        if op.init is not None:
            found[op.init] = None
        found.update(dict.fromkeys(_value_reads([u.value for u in op.updates])))
    elif isinstance(op, Compute):
        values: list[Expr] = []
        for body in op.bodies:
            values += body.sources if isinstance(body, Reduce) else (body,)
        found.update(dict.fromkeys(_value_reads(values)))
    elif isinstance(op, Control):
        found.update(dict.fromkeys(op.operands))
    elif isinstance(op, Saved):
        return outputs(op.control)[:1]
    return tuple([t for t in found if t.dtype.is_differentiable])


def _value_reads(values: Iterable[Expr]) -> list[Tensor]:
    return [r.tensor for r in reads(*values)]


def derivation_order(root: Tensor) -> list[Op]:
    """The operations `root` depends on through views, producers first."""
    return topological_ops([root], inputs_of=lambda op: differentiable_inputs(view(op)))


def compute_terms(op: Compute, component: int, wanted: Callable[[Read], bool]) -> list[Term]:
    """The terms of one output of a viewed compute."""
    body = op.bodies[component]
    if not body.dtype.is_float:
        return []
    if isinstance(body, Reduce):
        return reduce_terms(op, component, wanted)
    return body_terms(component, body, wanted)
