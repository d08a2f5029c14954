"""Elements at places that a list says, and nothing at others."""

from __future__ import annotations

from tensorad.ir.arrays.elementwise import compute_axes
from tensorad.ir.arrays.scan_outputs import scan_results
from tensorad.ir.combiner import set_combiner
from tensorad.ir.expr import Axis, Expr, axis, const, read
from tensorad.ir.tensor import Scan, Shape, Tensor


def kept_at(
    name: str, axes: tuple[Axis, ...], value: Expr, place: tuple[Expr, ...], shape: Shape
) -> Tensor:
    """A tensor of a shape that has values at some places, each at one of its own; what is elsewhere
    is unspecified, and not written: a scan of one step at each point."""
    zero = const(0, value.dtype)
    step, fold = axis("step", 0, 1), set_combiner(value.dtype)
    scan = Scan(name, axes, (step,), (value,), fold, (zero,), shape, place, source="")
    return scan_results(scan)[0]


def kept_rows(t: Tensor, at: Tensor) -> Tensor:
    """A tensor as it is in the rows whose numbers are in a list of different ones."""
    axes = compute_axes((at.shape[0], *t.shape[1:]))
    place = (read(at, (axes[0],)), *axes[1:])
    return kept_at(t.name, axes, read(t, place), place, t.shape)
