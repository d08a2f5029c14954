"""The writer of random programs: inputs, operations, values, conditions and reductions."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np

from tensorad import te
from tensorad.ir.dtypes import BOOL, INT64, DType
from tensorad.ir.expr import Axis, Expr, call, cast, const, logical_and, select
from tensorad.ir.tensor import Dim, Tensor
from tests.random.generator_combiners import CUSTOM, Fold, Valued, at_least, at_most, damp
from tests.random.generator_indices import Index, Indices, axis_index
from tests.random.generator_scalars import FLOAT, INTEGER

SCATTERS = ("sum", "sum", "sum", "prod", "max", "min")


class Writer:
    """Writes one program; all randomness comes from `rng`."""

    def __init__(
        self,
        rng: random.Random,
        dtype: DType,
        extents: Sequence[Dim],
        derived: Sequence[Dim] = (),
        *,
        data_conditions: bool = True,
        sums: bool = False,
    ) -> None:
        self.rng = rng
        self.scatter_combines = ("sum",) if sums else SCATTERS
        self.dtype = dtype
        self.inputs: list[Tensor] = []
        self.tensors: list[Tensor] = []
        self.bounds: dict[Tensor, int] = {}
        self.used: set[Tensor] = set()
        self.features: set[str] = set()
        self.indices = Indices(rng)
        self.extents = extents
        self.derived = derived
        self.mags: dict[Tensor, float] = {}
        self.reductions = 0
        self.data_conditions = data_conditions
        self.last: Tensor | None = None
        self.names = iter(range(1 << 30))

    def name(self, letter: str) -> str:
        return f"{letter}{next(self.names)}"

    def add_input(self, shape: tuple[Dim, ...]) -> None:
        """A tensor of the program's dtype."""
        t = te.placeholder(shape, dtype=str(self.dtype), name=self.name("X"))
        self.inputs.append(t)
        self.mags[t] = 1.8 if t.dtype.is_float else 9.0

    def add_index_input(self) -> None:
        """An integer tensor whose values may be used as indices."""
        t = te.placeholder(self.shape(self.extents, 1), dtype="int64", name=self.name("P"))
        self.inputs.append(t)
        self.bounds[t] = self.rng.randint(1, 5)
        self.features.add("gather")

    def shape(self, extents: Sequence[Dim], low: int = 0) -> tuple[Dim, ...]:
        """A shape of few elements, rarely an empty one."""
        rank = self.rng.choice((low, 1, 1, 2, 2, 3))
        some = tuple([self.rng.choice(extents) for _ in range(rank)])
        while math.prod([n for n in some if isinstance(n, int)]) > 600:
            largest = max([n for n in some if isinstance(n, int)])
            some = tuple([2 if n is largest else n for n in some])
        empty = some.count(0) if all(isinstance(n, int) for n in some) else 0
        return some if empty == 0 or self.rng.random() < 0.15 else tuple([n or 2 for n in some])

    def define(self, t: Tensor, mag: float) -> None:
        self.tensors.append(t)
        self.mags[t] = mag

    def pick(self, *, inputs_only: bool = False) -> Tensor:
        """A tensor to read, the newest ones and the last one read more often."""
        known = [t for t in self.inputs if t not in self.bounds]
        if self.last is not None and not inputs_only and self.rng.random() < 0.2:
            known = [self.last]
        elif not inputs_only and self.rng.random() < 0.75:
            known = [*known, *self.tensors][-3:]
        t = self.rng.choice(known)
        self.used.add(t)
        self.last = t
        return t

    # reads

    def read(self, t: Tensor, scope: Sequence[Index]) -> Expr:
        """t at random indices; guarded, with a constant outside, where they may leave it."""
        indices, condition = self.indices.tuple_of(t.shape, scope)
        for d, n in enumerate(t.shape):
            gathered = self.gathered(n, scope) if self.bounds else None
            if gathered is not None:
                indices[d] = gathered
        outside = const(self.rng.choice((0, 1)), t.dtype)
        return select(condition, t[tuple(indices)], outside)

    def gathered(self, n: Dim, scope: Sequence[Index]) -> Expr | None:
        """P[f(i)] as an index, when the values of the integer input P fit."""
        fitting = [
            p
            for p, bound in self.bounds.items()
            if isinstance(n, int) and bound <= n and all(isinstance(m, int) for m in p.shape)
        ]
        if not fitting or self.rng.random() < 0.5:
            return None
        p = self.rng.choice(fitting)
        indices, condition = self.indices.tuple_of(p.shape, scope)
        return select(condition, p[tuple(indices)], const(0, INT64))

    def table(self, scope: Sequence[Index]) -> Expr:
        """An element of a constant tensor."""
        length = self.rng.randint(1, 4)
        numbers = [self.rng.randint(-6, 6) * 0.25 for _ in range(length)]
        self.features.add("constants")
        indices, condition = self.indices.tuple_of((length,), scope)
        t = te.const(np.array(numbers, dtype=str(self.dtype)))
        return select(condition, t[tuple(indices)], const(0, self.dtype))

    # values

    def value(self, scope: Sequence[Index], depth: int) -> Valued:
        """A random expression over the axes in scope."""
        rng = self.rng
        if depth <= 0 or rng.random() < 0.1:
            return self.leaf(scope)
        if self.reductions < 2 and rng.random() < 0.3:
            self.reductions += 1
            return self.reduction(scope)
        if rng.random() < 0.1:
            then, orelse = self.value(scope, depth - 1), self.value(scope, depth - 1)
            return select(self.condition(scope), then[0], orelse[0]), max(then[1], orelse[1])
        operations = FLOAT if self.dtype.is_float else INTEGER
        arity, make = rng.choice(operations)
        return make(*[damp(self.value(scope, depth - 1), 8.0) for _ in range(arity)])

    def leaf(self, scope: Sequence[Index]) -> Valued:
        """A constant, an axis, or a read."""
        dtype, rng = self.dtype, self.rng
        choice = rng.random()
        if choice < 0.08 or (dtype is BOOL and choice < 0.2):
            value = rng.choice((0.5, -1.25, 2.0, 1.0)) if dtype.is_float else rng.randint(0, 1)
            return const(value, dtype), 2.0
        if choice < 0.13 and scope and dtype is not BOOL:
            s = rng.choice(scope)
            small = s.expr % 5 if s.lo is None else s.expr
            return cast(small, dtype), 8.0
        if choice < 0.16 and dtype.is_float:
            return self.table(scope), 1.5
        t = self.pick()
        return cast(self.read(t, scope), dtype), self.mags[t]

    def condition(self, scope: Sequence[Index]) -> Expr:
        """On indices, or on an element of an input."""
        rng = self.rng
        if not self.data_conditions and not scope:
            return const(rng.random() < 0.5, BOOL)
        if self.data_conditions and (rng.random() < 0.3 or not scope):
            t = self.pick(inputs_only=True)
            x = self.read(t, scope)
            if t.dtype is BOOL:
                return x
            threshold = rng.choice((0.3, -0.7, 1.1)) if t.dtype.is_float else rng.randint(0, 3)
            return call(rng.choice(("lt", "ge", "gt", "le")), x, const(threshold, x.dtype))
        a, b = rng.choice(scope).expr, rng.choice(scope).expr
        simple = rng.choice(
            (a <= b, a < b + 1, a - b >= 1, a % 2 == 0, a != 1, a + b < 5, a != b, 2 * a - b > 0)
        )
        if rng.random() < 0.25:
            other = self.condition(scope)
            return rng.choice((simple & other, simple | other, ~other))
        return simple

    # reductions

    def reduce_axes(self) -> tuple[list[Axis], int]:
        """One or two reduce axes and a bound on their points (symbolic ones count as 8)."""
        rng, axes, points = self.rng, [], 1
        for name in ("k", "l")[: rng.choice((1, 1, 2))]:
            n = rng.choice(self.extents)
            if isinstance(n, int):
                n = n if points * n <= 64 else 2
                low = rng.choice((0, 0, 0, 1, 2))
                axes.append(te.reduce_axis((low, low + n) if low else n, name=name))
                points *= n
            else:
                axes.append(te.reduce_axis(n, name=name))
                points *= 8
        return axes, points

    def reduction(self, scope: Sequence[Index]) -> Valued:
        """sum, prod, max, min, argmax, or one component of a custom fold."""
        rng = self.rng
        kind = rng.choice(("sum", "sum", "sum", "prod", "max", "min", "arg", "custom"))
        if not self.dtype.is_float and kind in ("arg", "custom"):
            kind = "sum"
        if kind == "custom":
            return rng.choice(self.custom(rng.choice(CUSTOM), scope))
        axes, points = self.reduce_axes()
        inner = [*scope, *[axis_index(a) for a in axes]]
        where = self.condition(inner) if rng.random() < 0.25 else None
        self.features.add(kind)
        if kind == "arg":
            return self.argmax(inner, axes, where)
        source, mag = self.value(inner, rng.choice((0, 1, 1, 2)))
        if kind == "prod":
            source, mag = damp((source, mag), 1.6)
            growth = min(max(1.0, mag), 1e3)
            return te.prod(source, axis=axes, where=where), growth ** min(points, 64)
        if kind == "sum":
            return te.sum(source, axis=axes, where=where), mag * max(1, points)
        folded = (te.max if kind == "max" else te.min)(source, axis=axes, where=where)
        if not source.dtype.is_float:
            return cast(folded, self.dtype), mag
        finite = at_least(folded, -3) if kind == "max" else at_most(folded, 3)
        return finite, max(mag, 3.0)

    def argmax(self, inner: Sequence[Index], axes: list[Axis], where: Expr | None) -> Valued:
        """An element of an input at the position of the largest element of another."""
        source = self.read(self.pick(inputs_only=True), inner)
        position = (te.argmax, te.argmin)[self.rng.random() < 0.3](source, axis=axes, where=where)
        t = self.pick(inputs_only=True)
        scope = inner[: len(inner) - len(axes)]
        flat = [n for n in t.shape if isinstance(n, int) and n > 0]
        if not flat or len(flat) != len(t.shape):
            return cast(position % 7, self.dtype), 7.0
        indices = [self.indices.index(n, scope) for n in t.shape]
        spot = self.rng.randrange(len(flat))
        at = [e for e, _ in indices]
        at[spot] = position % flat[spot]
        guards = [g for n, (_, g) in enumerate(indices) if n != spot]
        value = select(logical_and(*guards), t[tuple(at)], const(0, t.dtype))
        return cast(value, self.dtype), self.mags[t]

    def custom(self, fold: Fold, scope: Sequence[Index]) -> list[Valued]:
        """All components of a fold with a combiner of the user's."""
        axes, points = self.reduce_axes()
        self.features.add(fold.name)
        inner = [*scope, *[axis_index(a) for a in axes]]
        where = self.condition(inner) if self.rng.random() < 0.2 else None
        first = damp(self.value(inner, self.rng.choice((0, 1))), 1.5)
        key = self.read(self.pick(inputs_only=True), inner)
        return fold.over(first, key, axes, where, points)
