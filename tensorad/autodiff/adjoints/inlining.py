"""Which adjoints are left as formulas, to be evaluated where they are read."""

from __future__ import annotations

from dataclasses import dataclass

from tensorad.ir.elementary.table import is_elementary
from tensorad.ir.expr import TRUE, Call, Const, Expr, Read, Select
from tensorad.ir.order import REDUCE, occurs
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import postorder, reads
from tensorad.simplify.zeros.lift import guarded, is_static, lift

_INLINE_NODES = 40
"""An adjoint used once, point by point, is inlined up to this many nodes."""
_DELTA_NODES = 120
"""A delta used so costs nothing but text: stored, most of its points would be zeros."""


@dataclass(frozen=True)
class Uses:
    """How an adjoint will be read.

    Attributes:
        terms: by how many terms.
        pointwise: whether each point just once.
        inner: whether it is that of a reduction inside of a formula, which nothing stores.
        where: the sizes for which it is read at all.
    """

    terms: int
    pointwise: bool
    inner: bool = False
    where: Expr = TRUE


def where_read(body: Expr, uses: Uses) -> Expr:
    """A formula with sums, which are empty for sizes for which nothing reads it."""
    return guarded(uses.where, body) if occurs(REDUCE, body) else body


def is_of_a_formula(of: Tensor, body: Expr, uses: Uses) -> bool:
    """Whether a formula is the adjoint of a reduction inside of one, without its values.

    With them it would be computed where they are (`simplify/formula/joined.py`).
    """
    if not uses.inner or occurs(REDUCE, body) or len(postorder(body)) > _DELTA_NODES:
        return False
    return not any(r.tensor.op is of.op for r in reads(body))


def may_inline(body: Expr, uses: Uses) -> bool:
    """Whether recomputing a formula at its uses is cheaper than storing it."""
    if occurs(REDUCE, body):
        return False
    if isinstance(body, (Read, Const)) or uses.terms == 0:
        return True
    nodes = postorder(body)
    once = uses.terms == 1 and uses.pointwise
    if is_delta(body):
        return len(nodes) <= (_DELTA_NODES if once else _INLINE_NODES)
    if once or _is_read_in_bounds(body):
        return len(nodes) <= _INLINE_NODES
    heavy = [e for e in nodes if isinstance(e, Call) and e.dtype.is_float]
    cheap = len(heavy) <= 1 and not any(e.op == "div" or is_elementary(e.op) for e in heavy)
    selects = any(isinstance(e, Select) for e in nodes)
    return cheap and not selects and uses.terms == 1


def _is_read_in_bounds(body: Expr) -> bool:
    """Whether the formula is a read behind index conditions, which become bounds of loops."""
    condition, rest = lift(body)
    return isinstance(rest, Read) and is_static(condition) and not has_or(condition)


def has_or(condition: Expr) -> bool:
    return any(isinstance(e, Call) and e.op == "or" for e in postorder(condition))


def is_delta(body: Expr) -> bool:
    """Whether the formula is zero except on a set of indices (an identity head's image)."""
    condition, _ = lift(body)
    if condition is TRUE or has_or(condition):
        return False
    return any(isinstance(e, Call) and e.op == "eq" for e in postorder(condition))
