"""Proofs that a formula is 0 for all data: an exact normal form, no numbers tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorad.ir.expr import TRUE, Axis, Expr, Read, Reduce
from tensorad.ir.tensor import Tensor
from tensorad.simplify.dataflow import Definition
from tensorad.simplify.laurent import TooLong
from tensorad.simplify.normal import Interned, Normal
from tensorad.simplify.zeros import nonzero_body

Definitions = Mapping[Tensor, Definition]


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
