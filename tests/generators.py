"""Random tensor programs from a seed: the inputs of the property tests.

Every value carries a bound of its magnitude, so that sums, products and exponentials stay far
from overflow, and every index an interval, so that each read is in bounds or stands in a guard.
Discontinuous choices (conditions, argmax) look only at inputs and indices: rounding cannot
change them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tensorad import te
from tensorad.ir.combiner import max_combiner, prod_combiner, sum_combiner
from tensorad.ir.dtypes import BOOL, INT64, DType, to_dtype
from tensorad.ir.expr import (
    TRUE,
    Axis,
    Const,
    Expr,
    axis,
    call,
    cast,
    const,
    logical_and,
    select,
)
from tensorad.ir.tensor import Dim, Scan, Scatter, Tensor, Update, outputs
from tests.generator_combiners import CUSTOM, Valued, damp
from tests.generator_indices import Index, Indices, axis_index

EXTENTS = (0, 1, 2, 3, 4, 5, 7)
WIDE = (1, 2, 3, 8, 16, 17, 33)
"""Extents with whole vectors and tails."""
Array = np.ndarray


@dataclass
class Program:
    """A DAG: `inputs`, then `tensors` in order; `outputs` are those nobody reads."""

    seed: int
    dtype: DType
    inputs: list[Tensor] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    bounds: dict[Tensor, int] = field(default_factory=dict)
    """Integer inputs used as indices: values lie in [0, bound)."""
    used: set[Tensor] = field(default_factory=set)

    @property
    def outputs(self) -> list[Tensor]:
        free = [t for t in self.tensors if t not in self.used]
        return free or self.tensors[-1:]

    @property
    def float_inputs(self) -> list[Tensor]:
        return [t for t in self.inputs if t.dtype.is_float]

    def arrays(self, sizes: dict[str, int] | None = None, seed: int = 0) -> dict[Tensor, Array]:
        """Random values for the inputs, away from zero and from each other."""
        rng = np.random.default_rng([self.seed, seed])
        return {t: self._array(t, concrete_shape(t, sizes or {}), rng) for t in self.inputs}

    def _array(self, t: Tensor, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        if t in self.bounds:
            return np.asarray(rng.integers(0, self.bounds[t], shape), t.dtype)
        if t.dtype is BOOL:
            return np.asarray(rng.random(shape) < 0.5)
        if t.dtype.is_integer:
            low = -9 if t.dtype.kind == "int" else 0
            return np.asarray(rng.integers(low, 10, shape), t.dtype)
        values = rng.uniform(0.2, 1.8, shape) * rng.choice([-1.0, 1.0], shape)
        return np.asarray(values, t.dtype)


def concrete_shape(t: Tensor, sizes: dict[str, int]) -> tuple[int, ...]:
    """The shape of an input when its symbolic extents (plain sizes) have the given values."""
    return tuple([n if isinstance(n, int) else sizes[str(n.name)] for n in t.shape])


def random_program(
    seed: int,
    dtype: str = "float64",
    computes: int = 8,
    data_conditions: bool = True,
    extents: Sequence[int] = EXTENTS,
) -> Program:
    """A program of 1 to `computes` operations over 1 to 3 inputs of constant shapes.

    Without `data_conditions`, every condition is one of indices.
    """
    rng = random.Random(seed)
    made = Writer(rng, Program(seed, to_dtype(dtype)), extents)
    made.data_conditions = data_conditions
    made.write(rng.randint(1, 3), rng.randint(1, computes))
    return made.program


def random_symbolic_program(
    seed: int, dtype: str = "float64", computes: int = 5, data_conditions: bool = True
) -> Program:
    """A program whose extents are the sizes n and m, expressions of them, and constants."""
    rng = random.Random(seed)
    n, m = te.size("n"), te.size("m")
    made = Writer(rng, Program(seed, to_dtype(dtype)), (n, n, m, 3), (n + 1, n * 2, m // 2 + 1))
    made.data_conditions = data_conditions
    made.add_input((n, m))
    made.write(rng.randint(1, 2), rng.randint(1, computes))
    return made.program


class Writer:
    """Writes one program; all randomness comes from `rng`."""

    def __init__(
        self,
        rng: random.Random,
        program: Program,
        extents: Sequence[Dim],
        derived: Sequence[Dim] = (),
    ) -> None:
        self.rng = rng
        self.program = program
        self.indices = Indices(rng)
        self.extents = extents
        self.derived = derived
        self.mags: dict[Tensor, float] = {}
        self.reductions = 0
        self.data_conditions = True
        self.names = iter(range(1 << 30))

    # programs

    def write(self, inputs: int, computes: int) -> None:
        """Inputs first, then operations."""
        for _ in range(inputs):
            self.add_input(self.shape(self.extents))
        if self.rng.random() < 0.3 and self.program.dtype.is_float:
            self.add_index_input()
        for _ in range(computes):
            self.add_operation()

    def add_input(self, shape: tuple[Dim, ...]) -> None:
        t = te.placeholder(shape, dtype=str(self.program.dtype), name=f"X{next(self.names)}")
        self.program.inputs.append(t)
        self.mags[t] = 1.8 if t.dtype.is_float else 9.0

    def add_index_input(self) -> None:
        """An integer tensor whose values may be used as indices."""
        t = te.placeholder(self.shape(self.extents, 1), dtype="int64", name=f"P{next(self.names)}")
        self.program.inputs.append(t)
        self.program.bounds[t] = self.rng.randint(1, 5)

    def shape(self, extents: Sequence[Dim], low: int = 0) -> tuple[Dim, ...]:
        rank = self.rng.choice((low, 1, 1, 2, 2, 3))
        some = tuple([self.rng.choice(extents) for _ in range(rank)])
        while math.prod([n for n in some if isinstance(n, int)]) > 600:
            largest = max([n for n in some if isinstance(n, int)])
            some = tuple([2 if n is largest else n for n in some])
        empty = some.count(0) if all(isinstance(n, int) for n in some) else 0
        return some if empty == 0 or self.rng.random() < 0.15 else tuple([n or 2 for n in some])

    def add_operation(self) -> None:
        choice = self.rng.random()
        floats = self.program.dtype.is_float
        if floats and ((choice < 0.06 and self.scan()) or (choice < 0.1 and self.scatter())):
            return
        shape = self.shape((*self.extents, *self.derived))
        custom = self.rng.choice(CUSTOM) if floats and choice < 0.2 else None
        mags: list[float] = []
        self.reductions = 0

        def body(*axes: Axis) -> object:
            scope = [axis_index(a) for a in axes]
            if custom is not None:
                values = self.custom(custom, scope)
                mags.extend(m for _, m in values)
                return tuple([e for e, _ in values])
            value, mag = damp(self.value(scope, self.rng.randint(1, 3)), 30.0)
            mags.append(mag)
            return value

        made = te.compute(shape, body, name=f"T{next(self.names)}")
        tensors = made if isinstance(made, tuple) else (made,)
        for t, mag in zip(tensors, mags, strict=True):
            self.define(t, mag)

    def define(self, t: Tensor, mag: float) -> None:
        self.program.tensors.append(t)
        self.mags[t] = mag

    def pick(self, *, inputs_only: bool = False) -> Tensor:
        """A tensor to read, the newest ones more often."""
        known = [t for t in self.program.inputs if t not in self.program.bounds]
        if not inputs_only and self.rng.random() < 0.75:
            known = [*known, *self.program.tensors][-3:]
        t = self.rng.choice(known)
        self.program.used.add(t)
        return t

    # reads

    def read(self, t: Tensor, scope: Sequence[Index]) -> Expr:
        """t at random indices; guarded, with a constant outside, where they may leave it."""
        indices, conditions = [], []
        for n in t.shape:
            e, condition = self.indices.index(n, scope)
            gathered = self.gathered(n, scope) if self.program.bounds else None
            if gathered is not None:
                e, condition = gathered
            indices.append(e)
            conditions.append(condition)
        outside = const(self.rng.choice((0, 1)), t.dtype)
        return select(logical_and(*conditions), t[tuple(indices)], outside)

    def gathered(self, n: Dim, scope: Sequence[Index]) -> tuple[Expr, Expr] | None:
        """P[f(i)] as an index, when the values of the integer input P fit."""
        fitting = [
            p
            for p, bound in self.program.bounds.items()
            if isinstance(n, int) and bound <= n and isinstance(p.shape[0], int)
        ]
        if not fitting or self.rng.random() < 0.5:
            return None
        p = self.rng.choice(fitting)
        indices, conditions = zip(*[self.indices.index(m, scope) for m in p.shape], strict=True)
        condition = logical_and(*conditions)
        return select(condition, p[tuple(indices)], const(0, INT64)), TRUE

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
        operations = _FLOAT if self.program.dtype.is_float else _INTEGER
        arity, make = rng.choice(operations)
        return make(*[damp(self.value(scope, depth - 1), 8.0) for _ in range(arity)])

    def leaf(self, scope: Sequence[Index]) -> Valued:
        dtype, rng = self.program.dtype, self.rng
        choice = rng.random()
        if choice < 0.1 or (dtype is BOOL and choice < 0.2):
            value = rng.choice((0.5, -1.25, 2.0, 1.0)) if dtype.is_float else rng.randint(0, 1)
            return const(value, dtype), 2.0
        if choice < 0.15 and scope and dtype is not BOOL:
            s = rng.choice(scope)
            small = s.expr % 5 if s.lo is None else s.expr
            return cast(small, dtype), 8.0
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
        simple = rng.choice((a <= b, a < b + 1, a - b >= 1, a % 2 == 0, a != 1, a + b < 5))
        if rng.random() < 0.2:
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
        axes, points = self.reduce_axes()
        inner = [*scope, *[axis_index(a) for a in axes]]
        where = self.condition(inner) if rng.random() < 0.25 else None
        kind = rng.choice(("sum", "sum", "sum", "prod", "max", "min", "arg", "custom"))
        if not self.program.dtype.is_float and kind in ("arg", "custom"):
            kind = "sum"
        if kind == "arg":
            return self.argmax(inner, axes, where)
        if kind == "custom":
            return rng.choice(self.custom(rng.choice(CUSTOM), scope))
        source, mag = self.value(inner, rng.choice((0, 1, 1, 2)))
        if kind == "prod":
            source, mag = damp((source, mag), 1.6)
            growth = min(max(1.0, mag), 1e3)
            return te.prod(source, axis=axes, where=where), growth ** min(points, 64)
        if kind == "sum":
            return te.sum(source, axis=axes, where=where), mag * max(1, points)
        folded = (te.max if kind == "max" else te.min)(source, axis=axes, where=where)
        if not source.dtype.is_float:
            return cast(folded, self.program.dtype), mag
        limit = const(-3 if kind == "max" else 3, folded.dtype)  # an empty fold is infinite
        return call("maximum" if kind == "max" else "minimum", folded, limit), max(mag, 3.0)

    def argmax(self, inner: Sequence[Index], axes: list[Axis], where: Expr | None) -> Valued:
        """An element of an input at the position of the largest element of another."""
        source = self.read(self.pick(inputs_only=True), inner)
        position = te.argmax(source, axis=axes, where=where)
        t = self.pick(inputs_only=True)
        scope = inner[: len(inner) - len(axes)]
        flat = [n for n in t.shape if isinstance(n, int) and n > 0]
        if not flat or len(flat) != len(t.shape):
            return cast(position % 7, self.program.dtype), 7.0
        indices = [self.indices.index(n, scope) for n in t.shape]
        spot = self.rng.randrange(len(flat))
        at = [e for e, _ in indices]
        at[spot] = position % flat[spot]
        guards = [g for n, (_, g) in enumerate(indices) if n != spot]
        value = select(logical_and(*guards), t[tuple(at)], const(0, t.dtype))
        return cast(value, self.program.dtype), self.mags[t]

    def custom(self, make: Callable[..., list[Valued]], scope: Sequence[Index]) -> list[Valued]:
        """All components of a fold with a combiner of the user's."""
        axes, points = self.reduce_axes()
        inner = [*scope, *[axis_index(a) for a in axes]]
        where = self.condition(inner) if self.rng.random() < 0.2 else None
        first = damp(self.value(inner, self.rng.choice((0, 1))), 1.5)
        key = self.read(self.pick(inputs_only=True), inner)
        return make(first, key, axes, where, points)

    # scans and scatters

    def scan(self) -> bool:
        """A prefix sum, product or maximum of an earlier tensor, if one has axes."""
        known = [t for t in [*self.program.inputs, *self.program.tensors] if t.ndim]
        known = [t for t in known if t.dtype is self.program.dtype]
        if not known:
            return False
        t = self.rng.choice(known)
        fold = self.rng.choice((sum_combiner, prod_combiner, max_combiner))
        exclusive = fold is not max_combiner and self.rng.random() < 0.5
        if fold is prod_combiner and self.mags[t] > 1.9:
            return False
        where = self.rng.randrange(t.ndim)
        name = f"S{next(self.names)}"
        op = Scan(name, (t,), where, fold(t.dtype), exclusive, self.rng.random() < 0.5)
        self.program.used.add(t)
        self.define(outputs(op)[0], self.mags[t] * 8 if fold is sum_combiner else 80.0)
        return True

    def scatter(self) -> bool:
        """Values of the points of a domain, summed at computed indices."""
        shape = tuple([self.rng.choice((1, 2, 3, 5)) for _ in range(self.rng.randint(1, 2))])
        axes = tuple([axis(n, 0, self.rng.choice((1, 3, 4))) for n in "uv"])
        scope = [axis_index(a) for a in axes]
        self.reductions = 2  # a scatter's value holds no reduction
        value, mag = damp(self.value(scope, 1), 8.0)
        indices = tuple([self.indices.affine(scope).expr % n for n in shape])
        combiner = sum_combiner(value.dtype)
        update = Update(indices, value)
        op = Scatter(f"C{next(self.names)}", shape, value.dtype, axes, (update,), combiner)
        self.define(outputs(op)[0], mag * 16)
        return True


def _unary(op: str, inner: Callable[[Expr], Expr], bound: Callable[[float], float]) -> object:
    return 1, lambda x: (call(op, inner(x[0])), bound(x[1]))


def _binary(op: str, bound: Callable[[float, float], float]) -> object:
    return 2, lambda x, y: (call(op, x[0], y[0]), bound(x[1], y[1]))


def _divided(op: str, x: Expr, y: Expr) -> Expr:
    """x // y or x % y; a divisor that is zero at run time is part of the language."""
    return call(op, x, const(3, y.dtype) if isinstance(y, Const) and y.value == 0 else y)


_FLOAT = (
    _binary("add", lambda a, b: a + b),
    _binary("sub", lambda a, b: a + b),
    _binary("mul", lambda a, b: a * b),
    _binary("mul", lambda a, b: a * b),
    _binary("maximum", max),
    _binary("minimum", max),
    (2, lambda x, y: (x[0] / (y[0] * y[0] + 1.0), x[1])),
    (1, lambda x: (x[0] ** 2, x[1] ** 2)),
    (1, lambda x: (x[0] ** 3, x[1] ** 3)),
    (1, lambda x: (-x[0], x[1])),
    _unary("tanh", lambda x: x, lambda a: 1.0),
    _unary("sigmoid", lambda x: x, lambda a: 1.0),
    _unary("sin", lambda x: x, lambda a: 1.0),
    _unary("abs", lambda x: x, lambda a: a),
    _unary("exp", lambda x: -(x * x), lambda a: 1.0),
    _unary("log", lambda x: x * x + 0.5, lambda a: 5.0),
    _unary("sqrt", lambda x: x * x + 0.1, lambda a: a + 1.0),
)
_INTEGER = (
    _binary("add", lambda a, b: a + b),
    _binary("sub", lambda a, b: a + b),
    _binary("mul", lambda a, b: a * b),
    _binary("maximum", max),
    _binary("minimum", max),
    (2, lambda x, y: (_divided("floordiv", x[0], y[0]), x[1])),
    (2, lambda x, y: (_divided("mod", x[0], y[0]), y[1])),
    (1, lambda x: (-x[0], x[1])),
    (1, lambda x: (call("abs", x[0]), x[1])),
    (2, lambda x, y: (select(x[0] < y[0], x[0], y[0] * 2), 2 * x[1] + 2 * y[1])),
)
