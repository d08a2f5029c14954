"""Equal reductions in a program are computed once."""

from __future__ import annotations

from collections.abc import Container, Sequence

from tensorad.ir.analysis.alike import Key, Numbering, as_itself
from tensorad.ir.order import REDUCE, occurs
from tensorad.ir.tensor import Compute, Op, Tensor, outputs
from tensorad.ir.visit import op_inputs, topological_ops
from tensorad.simplify.formula.dataflow import over_inputs


def computed_once(
    results: Sequence[Tensor], given: Sequence[Tensor], named: Container[str] = ()
) -> list[Tensor]:
    """The results, where readers of equal formulas with reductions read the first of them.

    A gradient has formulas of the forward program again, beside what it needs of their
    reductions; where both are built, what follows need not be computed twice.

    Args:
        given: tensors that are read from the caller, whatever they were made of.
        named: names of tensors that are computed even where others are equal.
    Ensures: shapes, names and values stay, and results that were distinct are.
    """
    behind, kept = dict.fromkeys(given), dict.fromkeys(results)
    image: dict[Tensor, Tensor] = {}
    known: dict[Key, list[Tensor]] = {}
    """By shape and what is read: those that may be equal."""

    def inputs_of(op: Op) -> list[Tensor]:
        return [t for t in op_inputs(op) if t not in behind]

    for op in topological_ops(results, inputs_of=inputs_of):
        new = over_inputs(op, image)
        for t, made in zip(outputs(op), outputs(new), strict=True):
            if t in behind:
                continue
            beside = known.setdefault((made.shape, *op_inputs(new)), []) if _reduces(made) else []
            stays = t in kept or t.name in named or op.name in named
            equal = None if stays else _first_equal(made, beside)
            if equal is None:
                beside.append(made)
            if equal is not None or made is not t:
                image[t] = made if equal is None else equal
    return [image.get(t, t) for t in results]


def _reduces(t: Tensor) -> bool:
    return isinstance(t.op, Compute) and occurs(REDUCE, t.op.bodies[t.index])


def _first_equal(t: Tensor, others: Sequence[Tensor]) -> Tensor | None:
    """The first tensor with the same formula."""
    if not others:
        return None
    first: dict[Key, Tensor] = {}  # not compared by `==`, which builds formulas of their parts
    for other in others:
        first.setdefault(_key(other), other)
    return first.get(_key(t))


def _key(t: Tensor) -> Key:
    """What tells the formula of a tensor apart, which is read from the same tensors."""
    assert isinstance(t.op, Compute)
    numbering = Numbering(as_itself)
    numbering.axes(t.op.axes)
    return numbering.key(len(t.op.axes), *numbering.expressions((t.op.bodies[t.index],)))
