"""Proofs that a formula is 0 for all data: an exact normal form, no numbers tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tensorad.ir.expr import TRUE, Axis, Call, Expr, Read, Reduce
from tensorad.ir.tensor import Compute, Tensor
from tensorad.ir.visit import op_inputs, reads
from tensorad.simplify.formula.dataflow import Definition
from tensorad.simplify.formula.laurent import Sum, TooLong
from tensorad.simplify.formula.normal_form import Interned, Normal
from tensorad.simplify.zeros.passes import nonzero_body
from tensorad.simplify.zeros.reduction_stages import extract_reductions

Definitions = Mapping[Tensor, Definition]
_STEPS_BACK: Final = 3
"""Formulas of so many values before a sum's own are looked at."""


def vanishes(
    axes: Sequence[Axis], body: Expr, outer: Definitions, inner: Definitions | None = None
) -> bool:
    """Whether the formula is 0 as a rational function of its atoms.

    Atoms are reads, opaque operations (exp, select, ...) and sums; sums are equal if their
    formulas are. Reads of `outer` are unfolded, and those of `inner` that are sums; if that
    does not prove it, all reads of `inner`. False means "not proved".

    Ensures: a True holds in exact arithmetic wherever every part of the formula is finite,
        constants meaning the simplest rational that rounds to them.
    """
    values = {t: (a, _over_its_points(a, b)) for t, (a, b) in (inner or {}).items()}
    sums = {t: d for t, d in values.items() if isinstance(d[1], Reduce)}
    return _vanishes(axes, body, {**outer, **sums}) or (
        len(sums) < len(values) and _vanishes(axes, body, {**outer, **values})
    )


def _over_its_points(axes: Sequence[Axis], body: Expr) -> Expr:
    """A sum with a condition as one over the points where it holds, as gradients have it."""
    if isinstance(body, Reduce) and body.condition is not TRUE:
        return nonzero_body(axes, body)
    return body


def _vanishes(axes: Sequence[Axis], body: Expr, definitions: Definitions) -> bool:
    def define(e: Read) -> Definition | None:
        return definitions.get(e.tensor)

    normal = Normal(Interned(), define, proof=True)
    try:
        return normal.is_zero(normal.body(axes, body))
    except TooLong:
        return False


class ZeroSums:
    """Which sums of given values are 0: sum(x - mean), seen through the formulas behind them."""

    def __init__(self, values: Mapping[Tensor, object]) -> None:
        self.values = values
        self.known: dict[Expr, bool] = {}

    def left_out(self, total: Sum) -> Sum:
        """The terms without such a sum as a factor."""
        return Sum(
            {
                m: c
                for m, c in total.terms.items()
                if not any(isinstance(a, Reduce) and p > 0 and self._is_zero(a) for a, p in m)
            }
        )

    def _is_zero(self, atom: Reduce) -> bool:
        source = atom.sources[0]
        linear = isinstance(source, Read) or (
            isinstance(source, Call) and source.op in ("add", "sub")
        )
        if not linear or not all(r.tensor in self.values for r in reads(source)):
            return False
        if atom not in self.known:
            behind = _values_behind([r.tensor for r in reads(source)])
            self.known[atom] = vanishes((), atom, {}, behind)
        return self.known[atom]


def _values_behind(level: list[Tensor]) -> dict[Tensor, Definition]:
    """The formulas of values and of what they read, a few steps back."""
    found: dict[Tensor, Definition] = {}
    for _ in range(_STEPS_BACK):
        following: list[Tensor] = []
        for u in level:
            if isinstance(u.op, Compute) and u not in found:
                op = extract_reductions(u.op)
                found[u] = (op.axes, op.bodies[u.index])
                following += op_inputs(op)
        level = following
    return found
