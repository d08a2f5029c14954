"""Derivatives that use how often a loop runs: what tells it is behind them, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorad.ir.analysis.blocks import op_sizes, ops_between, tells_trips
from tensorad.ir.arrays.elementwise import compute_axes, formula
from tensorad.ir.arrays.told_sizes import tell
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import ZERO, Expr, LocalSize, call, cast, const, read, select
from tensorad.ir.tensor import Op, Tensor
from tensorad.simplify.readback import compare


def returned(swept: Sequence[Tensor], made: Sequence[Tensor], known: Sequence[Op]) -> list[Tensor]:
    """What a derivation gives back: its results read back (`compare.returned`), each behind what
    tells the sizes that it uses.

    Args:
        swept: the results as they were found; `made`: the same with less work.
        known: the operations that were differentiated. Of their loops, those that have a number of
            iterations by data give it to an extent, which an adjoint may use without the loop. That
            of a loop that ends by a condition is the extent of what its iterations have stored.
    """
    results = compare.returned(swept, made, known)
    counts = {op.trips: op.count for op in known if tells_trips(op) and op.count is not None}
    return [_with_sizes(t, counts) for t in results] if counts else results


def _with_sizes(t: Tensor, counts: Mapping[Expr, Tensor]) -> Tensor:
    """The tensor, which comes after the numbers of iterations that it is computed with."""
    ops = ops_between([t], ())
    told = dict.fromkeys([op.trips for op in ops if tells_trips(op)])
    used = dict.fromkeys([s for op in ops for s in op_sizes(op) if s in counts and s not in told])
    if not used or not t.dtype.is_float:
        return t
    axes = compute_axes(t.shape)
    body: Expr = read(t, axes)
    for s in used:
        assert isinstance(s, LocalSize), "a count has a size of its own"
        number = call("maximum", cast(read(counts[s], ()), INT64), ZERO)
        count = tell(s, formula("trips", (), number, ""))
        there = call("eq", read(count, ()), s)  # always so; what is read comes first
        body = select(there, body, const(0, t.dtype))
    return formula(t.name, axes, body, "")
