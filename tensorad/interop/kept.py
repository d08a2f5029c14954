"""What a backward should keep of the values of its forward, and what it should compute again.

A backward reads values that do not depend on its cotangents. Each is kept, or computed again of
others, that are needed then. The cheapest choice is a minimal cut of the graph of these values:
a tensor is needed or not, an operation is run or not, and each pair of these costs what it costs
(Jain et al., Checkmate, 2020, without the order of time; the form as a cut is that of activation
checkpointing in PyTorch's partitioner).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tensorad.autodiff.counting.cost import costs_by_op, elements_of
from tensorad.interop.cuts import Cut
from tensorad.interop.shapes import symbols_of
from tensorad.ir.analysis.blocks import op_sizes, tells_trips
from tensorad.ir.expr import Expr
from tensorad.ir.order import sizes_in
from tensorad.ir.records import is_record
from tensorad.ir.tensor import Constant, Op, Placeholder, Saved, Tensor, dim_expr, outputs
from tensorad.ir.visit import op_inputs, topological_ops
from tensorad.simplify.formula.dataflow import over_inputs

_READ: Final = 1
_WRITTEN: Final = 4
"""What an element costs that is kept: an output is there anyway; others are written first, to
memory that the call takes for them, whose pages may cost more than writing and reading."""


def worth_keeping(
    results: Sequence[Tensor],
    inputs: Sequence[Tensor],
    adjoints: Sequence[Tensor],
    heads: Sequence[Tensor],
) -> list[Tensor]:
    """The tensors behind results that their adjoints should read, not compute again.

    Args:
        adjoints: of inputs, by heads of the results.
    Returns:
        results, and tensors that are computed for these.
    """
    moving = dict.fromkeys(heads)
    order = topological_ops(adjoints)
    fixed: list[Op] = []
    for op in order:
        if any(t in moving for t in op_inputs(op)):
            moving.update(dict.fromkeys(outputs(op)))
        elif not isinstance(op, (Placeholder, Constant)):
            fixed.append(op)
    if not fixed:
        return []
    still = dict.fromkeys(fixed)
    read = [t for op in order if op not in still for t in op_inputs(op) if t.op in still]
    read += [t for t in adjoints if t.op in still]
    prices = _prices(fixed, results, inputs)
    kept = _chosen(fixed, dict.fromkeys(read), prices)
    image = {t: outputs(Placeholder(t.name, t.shape, t.dtype))[0] for t in kept}
    return kept if _tells_all(with_values(adjoints, image)) else []


def with_values(tensors: Sequence[Tensor], image: Mapping[Tensor, Tensor]) -> list[Tensor]:
    """The tensors, with others in place of some that they are computed from."""
    if not image:
        return list(tensors)
    found = dict(image)
    for op in topological_ops(tensors):
        new = over_inputs(op, found)
        if new is not op:
            for old, t in zip(outputs(op), outputs(new), strict=True):
                found.setdefault(old, t)
    return [found.get(t, t) for t in tensors]


def _prices(
    fixed: Sequence[Op], results: Sequence[Tensor], inputs: Sequence[Tensor]
) -> dict[Tensor, int]:
    """What tensors cost that may be kept: those that computing the results makes."""
    made = dict.fromkeys(topological_ops(results))
    own = dict.fromkeys(results)
    sizes = {s for t in inputs for s in symbols_of(t)}
    found: dict[Tensor, int] = {}
    for op in fixed:
        source = op.control if isinstance(op, Saved) else op
        if source not in made or tells_trips(source):
            continue
        for t in outputs(op):
            if not is_record(t.dtype) and sizes.issuperset(sizes_in(*map(dim_expr, t.shape))):
                found[t] = (_READ if t in own else _WRITTEN) * elements_of(t)
    return found


def _chosen(
    fixed: Sequence[Op], read: Mapping[Tensor, None], prices: Mapping[Tensor, int]
) -> list[Tensor]:
    """The tensors to keep, by the cut between what is needed, and run, and what is not."""
    still = dict.fromkeys(fixed)
    cut = Cut()
    for t in read:
        cut.always(t)
    costs = costs_by_op(fixed)
    for op in fixed:
        cut.charge(op, costs[op])
        for t in outputs(op):
            if t in prices:
                cut.charge_between(t, op, prices[t])
            else:
                cut.implies(t, op)
        if isinstance(op, Saved):
            cut.implies(op, op.control)
        for t in op_inputs(op) if not isinstance(op, Saved) else ():
            if t.op in still:
                cut.implies(op, t)
    chosen = cut.chosen()
    every = [t for op in fixed for t in outputs(op)]
    return [t for t in every if t in chosen and t.op not in chosen]


def _tells_all(tensors: Sequence[Tensor]) -> bool:
    """Whether loops that tell sizes are there with those that use them."""
    order = topological_ops(tensors)
    used = {s for op in order for s in op_sizes(op)}
    given: set[Expr] = {s for op in order for s in _shape_sizes(op)}
    told = {op.trips for op in order if tells_trips(op)}
    return all(s in told or s in given for s in used)


def _shape_sizes(op: Op) -> Sequence[Expr]:
    return sizes_in(*map(dim_expr, op.shape)) if isinstance(op, Placeholder) else ()
