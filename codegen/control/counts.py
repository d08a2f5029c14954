"""Numbers that are computed before they decide: how often loops run, what sizes are in a call."""

from __future__ import annotations

from tensorad.codegen.loops.ir import Repeat
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import Const, Expr, LocalSize, Size, cast, local_size, read
from tensorad.ir.tensor import Compute, Loop, Tensor, outputs


def scalar(name: str, body: Expr) -> Tensor:
    """A 0-d tensor of a formula."""
    return outputs(Compute(name, (), (body,), ""))[0]


def count_of(op: Loop, own_trips: bool) -> tuple[Tensor | Expr | None, list[Tensor]]:
    """How often a loop runs, if that is known before; formulas that it needs."""
    if op.count is not None:
        if op.count.dtype is INT64:
            return op.count, []
        count = scalar(f"{op.name}_count", cast(read(op.count, ()), INT64))
    elif own_trips:
        return None, []
    elif isinstance(op.trips, (Const, Size)):
        return op.trips, []
    else:
        count = scalar(f"{op.name}_count", op.trips)
    return count, [count]


def telling(size: LocalSize, count: Tensor) -> Repeat:
    """A loop that does nothing, and gives a size the value of a 0-d int64 tensor."""
    counter = local_size("t", size)
    return Repeat(counter, size, count, (), (), None, (), (), (), False, "")
