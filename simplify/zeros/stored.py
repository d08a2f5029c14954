"""What derivatives store for each step of a loop: the box around its axis."""

from __future__ import annotations

from tensorad.errors import GradError
from tensorad.ir.expr import ZERO, Axis, Expr, call, int_const, sub
from tensorad.ir.order import READ, occurs
from tensorad.simplify.index.algebra import simplify
from tensorad.simplify.index.extremes import FAR, extremes
from tensorad.simplify.index.intervals import interval
from tensorad.simplify.index.quasi_affine import free_parameters


def box_around(a: Axis) -> tuple[Expr, Expr] | None:
    """The first value and the number of values of a box around an axis, of sizes and numbers.

    None where no expression of sizes bounds the axis.
    """
    numbers = interval(a)
    if numbers.lo is not None and numbers.hi is not None and numbers.hi - numbers.lo < FAR - 1:
        return int_const(numbers.lo), int_const(max(0, numbers.hi - numbers.lo + 1))
    start, end = extremes(a.lower).lo, extremes(a.upper).hi
    if start is None or end is None:
        return None
    return start, simplify(call("maximum", ZERO, sub(end, start)))


def stored_box(name: str, a: Axis) -> tuple[Expr, Expr]:
    """The box of what each step of a loop finds, stored for the derivative of an operation.

    Raises:
        GradError: no size bounds the loop.
    """
    box = box_around(a)
    if box is None:
        axes = [e for e in free_parameters((), a) if isinstance(e, Axis)]
        data = any(occurs(READ, e.lower, e.upper) for e in axes)
        why = f"data alone bound {a.name}" if data else f"no sizes are known to bound {a.name}"
        bounds = "maximum(p[i], 0), minimum(p[i + 1], n)" if data else f"0, minimum({a.upper}, n)"
        raise GradError(
            f"the derivative of {name} stores what each step over {a.name} finds, but {why}.",
            where=f"{a.name} in [{a.lower}, {a.upper})",
            hint=f"bound it in the formula, too: reduce_axis(({bounds})).",
        )
    return box
