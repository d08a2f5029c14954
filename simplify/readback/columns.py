"""Index expressions at many points at once, by numpy: points are rows, axes are columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from tensorad.ir.dtypes import BOOL
from tensorad.ir.expr import Axis, Call, Cast, Const, Expr, Read, Select, Size
from tensorad.ir.order import axes_in
from tensorad.ir.tensor import Constant
from tensorad.ir.visit import conjuncts
from tensorad.simplify.certify.outcomes import Undecided

Array = Any
_MOST_CODE: Final = 1 << 62
_OPERATIONS: Final[dict[str, Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "not": np.logical_not,
}


class TooManyPoints(Undecided):
    """Points are more than are listed."""


class Columns:
    """Values of expressions at points.

    Args:
        most: points that are too many.
    """

    def __init__(self, sizes: Mapping[Expr, int], most: int) -> None:
        self.sizes, self.most = sizes, most
        self.used: dict[Expr, tuple[Axis, ...]] = {}

    def values(self, e: Expr, rows: Rows) -> Array:
        """A column.

        Raises:
            Undecided: data decide.
        """
        found = rows.known.get(e)
        if found is None:
            found = rows.known[e] = self._value(e, rows)
        return found

    def _value(self, e: Expr, rows: Rows) -> Array:
        match e:
            case Const(value=v) if not e.dtype.is_float:
                return np.full(rows.count, int(v), dtype=bool if e.dtype is BOOL else np.int64)
            case Size() if e in self.sizes:
                return np.full(rows.count, self.sizes[e], dtype=np.int64)
            case Call(op="floordiv" | "mod", args=(a, b)):
                x, y = self.values(a, rows), self.values(b, rows)
                if (y == 0).any():
                    raise Undecided("a division by 0")
                return x // y if e.op == "floordiv" else x % y
            case Call(op=op, args=args) if op in _OPERATIONS and not args[0].dtype.is_float:
                return _OPERATIONS[op](*[self.values(a, rows) for a in args])
            case Select(cond=c, then=a, orelse=b) if not e.dtype.is_float:
                return np.where(self.values(c, rows), self.values(a, rows), self.values(b, rows))
            case Cast(value=v) if not e.dtype.is_float and not v.dtype.is_float:
                return self.values(v, rows).astype(str(e.dtype)).astype(np.int64)
            case Read():
                return self.read(e, rows)
        raise Undecided(f"{e} is not known")

    def read(self, e: Read, rows: Rows) -> Array:
        op = e.tensor.op
        if not isinstance(op, Constant) or e.dtype.is_float:
            raise Undecided("data decide")
        at = [self.values(i, rows) for i in e.indices]
        inside = [np.clip(i, 0, max(n - 1, 0)) for i, n in zip(at, op.array.shape, strict=True)]
        if 0 in op.array.shape:
            return np.zeros(rows.count, dtype=np.int64)
        found = op.array[tuple(inside)].astype(bool if e.dtype is BOOL else np.int64)
        return np.broadcast_to(found, (rows.count,))

    def begin(self, outer: Sequence[Axis]) -> Rows:
        """All points of the outer axes, each the origin of what is made of it."""
        return self.along(Rows({}, 1), outer, ()).from_here()

    def along(self, rows: Rows, loops: Sequence[Axis], where: Sequence[Expr]) -> Rows:
        """The points of loops inside of rows, where conditions hold."""
        waiting = [p for c in where for p in conjuncts(c)]
        left = list(loops)
        rows, waiting = self._kept(rows, waiting, left)
        while left:
            ready = [a for a in left if not self._uses(a, left)]
            a = max(ready, key=lambda b: self._decided(b, left, waiting))
            left = [b for b in left if b is not a]
            rows, waiting = self._kept(self._with(rows, a), waiting, left)
        return rows

    def _kept(
        self, rows: Rows, waiting: list[Expr], left: Sequence[Axis]
    ) -> tuple[Rows, list[Expr]]:
        missing = dict.fromkeys(left)
        later = [c for c in waiting if any(a in missing for a in self._axes(c))]
        open_ = dict.fromkeys(later)
        for c in waiting:
            if c not in open_:
                rows = rows.where(self.values(c, rows))
        return rows, later

    def _axes(self, e: Expr) -> tuple[Axis, ...]:
        found = self.used.get(e)
        if found is None:
            found = self.used[e] = tuple(axes_in(e))
        return found

    def _uses(self, a: Axis, left: Sequence[Axis]) -> bool:
        missing = dict.fromkeys(left)
        return any(b in missing for e in (a.lower, a.upper, a.step) for b in self._axes(e))

    def _decided(self, a: Axis, left: Sequence[Axis], waiting: Sequence[Expr]) -> int:
        """How many conditions can be tested once the axis has its values."""
        others = dict.fromkeys([b for b in left if b is not a])
        used = [self._axes(c) for c in waiting]
        return sum(
            any(b is a for b in axes) and not any(b in others for b in axes) for axes in used
        )

    def _with(self, rows: Rows, a: Axis) -> Rows:
        first, end, step = (self.values(e, rows) for e in (a.lower, a.upper, a.step))
        counts = np.maximum(0, -((first - end) // step))
        total = int(counts.sum())
        if total > self.most:
            raise TooManyPoints("there are too many points to list")
        parent = np.repeat(np.arange(rows.count), counts)
        starts = np.repeat(np.cumsum(counts) - counts, counts)
        column = first[parent] + step[parent] * (np.arange(total) - starts)
        found = rows.take(parent)
        found.known[a] = found.axes[a] = column
        return found


class Rows:
    """Points: a column for each axis.

    Attributes:
        origin: the row of the points begun with that each one belongs to.
        known: columns of index expressions.
        numbers: columns of numbers of values.
    """

    def __init__(self, axes: dict[Expr, Array], count: int, origin: Array = None) -> None:
        self.axes, self.count = axes, count
        self.origin = np.arange(count) if origin is None else origin
        self.known: dict[Expr, Array] = dict(axes)
        self.numbers: dict[Expr, Array] = {}

    def take(self, parent: Array) -> Rows:
        axes = {a: c[parent] for a, c in self.axes.items()}
        return Rows(axes, len(parent), self.origin[parent])

    def where(self, holds: Array) -> Rows:
        return self if holds.all() else self.take(np.flatnonzero(holds))

    def distinct(self, axes: Sequence[Axis]) -> tuple[Rows, Array]:
        """(a point for each value of some axes, which of them each row has)."""
        own: list[Expr] = [a for a in axes if a in self.axes]
        codes = codes_of([self.axes[a] for a in own], self.count)
        _, first, place = np.unique(codes, return_index=True, return_inverse=True)
        return Rows({a: self.axes[a][first] for a in own}, len(first)), place.ravel()

    def from_here(self) -> Rows:
        """The same points, as the ones begun with."""
        found = Rows(dict(self.axes), self.count)
        found.known = dict(self.known)
        return found


def codes_of(columns: Sequence[Array], count: int) -> Array:
    """A number for each row: equal rows have equal numbers."""
    found = np.zeros(count, dtype=np.int64)
    most = 1
    for column in columns if count else ():
        least = int(column.min())
        width = int(column.max()) - least + 1
        if most * width >= _MOST_CODE:
            found = np.unique(found, return_inverse=True)[1].ravel()
            most = int(found.max()) + 1
        if most * width >= _MOST_CODE:
            column = np.unique(column, return_inverse=True)[1].ravel()
            least, width = 0, int(column.max()) + 1
        found, most = found * width + (column - least), most * width
    return found
