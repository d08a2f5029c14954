"""Which operations are done again rather than have their result stored and read."""

from __future__ import annotations

from typing import Final

from tensorad.ir.elementary.table import is_elementary
from tensorad.ir.expr import Call
from tensorad.ir.order import REDUCE, occurs
from tensorad.ir.tensor import Compute, Op
from tensorad.ir.visit import postorder

_CHEAP: Final = 8
"""Operations on floats of an element."""


def is_cheap(op: Op) -> bool:
    """Whether an operation is one short formula at each element."""
    if not isinstance(op, Compute) or occurs(REDUCE, *op.bodies):
        return False
    calls = [e for e in postorder(*op.bodies) if isinstance(e, Call) and e.dtype.is_float]
    return len(calls) <= _CHEAP and not any(is_elementary(e.op) for e in calls)
