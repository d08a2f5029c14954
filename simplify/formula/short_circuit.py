"""Conditions on indices, tested one after the other instead of all at each point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tensorad.ir.elementary.table import is_costly
from tensorad.ir.expr import Call, Expr, Select, logical_and, select
from tensorad.ir.tensor import Compute, Op, Placeholder, Tensor, outputs
from tensorad.ir.visit import conjuncts, copy_bodies, postorder, rewrite, topological_ops
from tensorad.simplify.formula.dataflow import over_inputs
from tensorad.simplify.zeros.lift import is_index_condition, is_zero


def short_circuited(results: Sequence[Tensor], kept: Mapping[Op, None]) -> list[Tensor]:
    """select(a and b, x, 0) -> select(a, select(b, x, 0), 0), the part that multiplies least first.

    `and` evaluates both sides at all points: right where a test is cheap, but where most points
    of a tensor are zeros, testing may be all that they cost.

    Args:
        kept: operations that stay as they are, with all before them.
    """
    image: dict[Tensor, Tensor] = {}
    for op in topological_ops(results):
        new = op if op in kept or isinstance(op, Placeholder) else over_inputs(op, image)
        if isinstance(new, Compute) and op not in kept:
            bodies = [rewrite(b, _short_circuit) for b in new.bodies]
            if any(a is not b for a, b in zip(bodies, new.bodies, strict=True)):
                axes, copies = copy_bodies(new.axes, bodies)
                new = replace(new, axes=axes, bodies=copies)
        if new is not op:
            image.update(zip(outputs(op), outputs(new), strict=True))
    return [image.get(t, t) for t in results]


def _short_circuit(e: Expr) -> Expr | None:
    if not isinstance(e, Select) or not is_zero(e.orelse) or not is_index_condition(e.cond):
        return None
    parts = sorted(conjuncts(e.cond), key=_products)
    free = logical_and(*[p for p in parts if not _products(p)])
    tests = [free, *[p for p in parts if _products(p)]]
    if len(parts) < 2 or len(tests) < 2:
        return None
    value = e.then
    for test in reversed(tests):
        value = select(test, value, e.orelse)
    return value


def _products(e: Expr) -> int:
    return sum(isinstance(n, Call) and is_costly(n.op) for n in postorder(e))
