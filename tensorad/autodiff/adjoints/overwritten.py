"""The adjoints of scatters whose updates take the place of what they find."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tensorad.autodiff.adjoints.adjoint import Adjoint, variable, whole
from tensorad.autodiff.adjoints.contributions import Contribution
from tensorad.autodiff.adjoints.transposed import given
from tensorad.autodiff.local.folds import closure, restricted
from tensorad.autodiff.local.scan_forms import scatter_scan, steps_of, traced_scan
from tensorad.ir.arrays.elementwise import compute_axes
from tensorad.ir.arrays.scan_outputs import last_states
from tensorad.ir.expr import Axis, call, cast, const, read
from tensorad.ir.tensor import Placeholder, Scan, Scatter, Shape, Tensor, Update, outputs
from tensorad.ir.visit import fresh_axes, substitute_all


def overwrites_once(op: Scatter) -> bool:
    """Whether each point's value takes the place of an element that no other point updates."""
    (u,) = op.updates
    own = dict.fromkeys([i for i in u.indices if isinstance(i, Axis)])
    return _overwrites(op) and (op.distinct or all(a in own or a.extent == 1 for a in op.axes))


def _overwrites(op: Scatter) -> bool:
    return op.combiner.results[0] is op.combiner.rhs[0]


def last_writers(scan: Scan) -> Tensor | None:
    """For each cell the number of the step that its state is from; None: of several.

    States that this does not depend on are left out.
    """
    traced = traced_scan(scan)
    if traced is scan:
        return None
    components = closure(traced.combiner, [1])
    alone = replace(
        traced,
        sources=tuple([traced.sources[c] for c in components]),
        combiner=restricted(traced.combiner, components),
        start=tuple([traced.start[c] for c in components]),
    )
    return last_states(alone)[components.index(1)]


def to_first_values(
    op: Scatter,
    init: Tensor,
    adjoint: Adjoint,
    writers: Tensor | None,
    batch: Shape,
    rules: Collection[Tensor],
) -> Contribution:
    """What goes on to `init`: the adjoint of the elements that no update took the place of.

    Where it goes further it is guarded, so that it stays known where it is switched off.

    Args:
        writers: `last_writers`, if they are there anyway.
        rules: tensors at which it ends, beside inputs.
    """
    if _overwrites(op) and (init in rules or isinstance(init.op, Placeholder)):
        body = cast(adjoint.body, op.dtype)
        head = variable(Adjoint(adjoint.axes, body), f"d{op.name}")
        made = whole(_cleared(op, head, batch))
        return given(made, compute_axes(op.shape))
    scan, own = scatter_scan(op), compute_axes(op.shape)
    writers = last_writers(scan) if writers is None else writers
    assert writers is not None, "each state is of one step"
    return given(adjoint, own, call("eq", read(writers, own), steps_of(scan)))


def _cleared(op: Scatter, head: Tensor, batch: Shape) -> Tensor:
    """The head (*batch, ...) with zeros at the elements that are updated."""
    (u,) = op.updates
    lead = compute_axes(batch)
    mapping = fresh_axes(op.axes)
    *indices, condition = substitute_all((*u.indices, u.condition), mapping)
    axes = tuple([a for a in mapping.values() if isinstance(a, Axis)])
    update = Update((*lead, *indices), const(0, head.dtype), condition)
    shape = (*batch, *op.shape)
    made = Scatter(f"d{op.name}", shape, head.dtype, (*lead, *axes), (update,), op.combiner, head)
    return outputs(made)[0]
