"""The row-major box around a reduction's axes: positions in it, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorad.ir.combiner import row_major_position
from tensorad.ir.expr import (
    ONE,
    TRUE,
    ZERO,
    Axis,
    Expr,
    add,
    floordiv,
    int_const,
    logical_and,
    mod,
    mul,
    sub,
)
from tensorad.ir.tensor import Shape, dim_of
from tensorad.simplify.index.quasi_affine import axis_conditions
from tensorad.simplify.zeros.stored import box_around, stored_box


@dataclass(frozen=True)
class Box:
    """The row-major box around a reduction's axes."""

    axes: tuple[Axis, ...]
    starts: tuple[Expr, ...]
    extents: tuple[Expr, ...]

    @classmethod
    def around(cls, axes: Sequence[Axis]) -> Box:
        starts: list[Expr] = []
        extents: list[Expr] = []
        for a in axes:
            start, extent = box_around(a) or (a.lower, sub(a.upper, a.lower))
            starts.append(start)
            extents.append(extent)
        return cls(tuple(axes), tuple(starts), tuple(extents))

    def position(self) -> Expr:
        """Where the axes stand in the box."""
        return row_major_position(self.place(), self.extents)

    def place(self) -> tuple[Expr, ...]:
        """Where the axes stand in the box, one index each."""
        return tuple([sub(a, s) for a, s in zip(self.axes, self.starts, strict=True)])

    def shape(self, name: str) -> Shape:
        """The shape of what the derivative of an operation stores for each point.

        Raises:
            GradError: no size bounds a loop.
        """
        return tuple([dim_of(stored_box(name, a)[1]) for a in self.axes])

    def size(self) -> Expr:
        result: Expr = int_const(1)
        for n in self.extents:
            result = mul(result, n)
        return result

    def at(self, position: Expr) -> dict[Expr, Expr]:
        """Each axis' value at a position in the box (an empty box has none to divide)."""
        values: dict[Expr, Expr] = {}
        rest = position
        for n, a in reversed(list(enumerate(self.axes))):
            extent = ONE if self.extents[n] is ZERO else self.extents[n]
            digit = mod(rest, extent) if n else rest
            values[a] = add(digit, self.starts[n])
            if n:
                rest = floordiv(rest, extent)
        return values

    def inside(self) -> Expr:
        """Which points of the box belong to the axes (TRUE if all)."""
        known = True
        for a, start, n in zip(self.axes, self.starts, self.extents, strict=True):
            known = known and a.lower is start and sub(a.upper, start) is n
            known = known and a.step is int_const(1)
        return TRUE if known else logical_and(*[axis_conditions(a) for a in self.axes])
