"""Random tensor programs: the inputs of the property tests.

All choices come from one source of randomness: a seed, or hypothesis, which then shrinks what
fails. Every value carries a bound of its magnitude, so that sums, products and exponentials
stay far from overflow, and every index an interval, so that each read is in bounds or stands in
a guard. Discontinuous choices (conditions, argmax) look only at inputs and indices: rounding
cannot change them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from tensorad import te
from tensorad.ir.dtypes import BOOL, DType, to_dtype
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import topological_ops
from tests.random.generator_operations import write_program
from tests.random.generator_writer import Writer

EXTENTS = (0, 1, 2, 3, 4, 5, 7)
WIDE = (1, 2, 3, 8, 16, 17, 33)
"""Extents with whole vectors and tails."""
SOAK = settings.default.max_examples >= 1000
"""Whether HYPOTHESIS_PROFILE=soak looks further."""
Array = np.ndarray[Any, np.dtype[Any]]


class Choices(random.Random):
    """Another source's choices, every chance as likely as it says and shrinking to "no".

    Hypothesis draws floats with a preference for special ones; its integers are even.
    """

    def __init__(self, source: random.Random) -> None:
        super().__init__(0)
        self.source = source

    def random(self) -> float:
        return 1.0 - (self.source.randint(0, 999) + 1) / 1000

    def randint(self, a: int, b: int) -> int:
        return self.source.randint(a, b)

    def choice(self, seq: Any) -> Any:
        return seq[self.source.randint(0, len(seq) - 1)]

    def sample(self, population: Any, k: int, *, counts: Any = None) -> list[Any]:
        rest = list(population)
        return [rest.pop(self.source.randint(0, len(rest) - 1)) for _ in range(k)]

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return self.source.randint(0, start - 1) if stop is None else super().randrange(start, stop)


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
    features: set[str] = field(default_factory=set)
    """What the program contains: index forms, kinds of operations, names of folds."""

    @property
    def outputs(self) -> list[Tensor]:
        free = [t for t in self.tensors if t not in self.used]
        return free or self.tensors[-1:]

    @property
    def float_inputs(self) -> list[Tensor]:
        return [t for t in self.inputs if t.dtype.is_float]

    def intermediates(self, y: Tensor) -> list[Tensor]:
        """Float tensors between the inputs and y."""
        behind = topological_ops([y])
        return [t for t in self.tensors if t.dtype.is_float and t is not y and t.op in behind]

    def arrays(
        self, sizes: dict[str, int] | None = None, seed: int = 0, *, ties: bool = False
    ) -> dict[Tensor, Array]:
        """Random values for the inputs: away from zero and from each other, or full of ties."""
        rng = np.random.default_rng([self.seed, seed])
        return {t: self._array(t, concrete_shape(t, sizes or {}), rng, ties) for t in self.inputs}

    def _array(
        self, t: Tensor, shape: tuple[int, ...], rng: np.random.Generator, ties: bool
    ) -> Array:
        if t in self.bounds:
            return np.asarray(rng.integers(0, self.bounds[t], shape), t.dtype)
        if t.dtype is BOOL:
            return np.asarray(rng.random(shape) < 0.5)
        if t.dtype.is_integer:
            low = -9 if t.dtype.kind == "int" else 0
            return np.asarray(rng.integers(low, 10, shape), t.dtype)
        if ties:
            return np.asarray(rng.choice([-1.0, -0.5, 0.0, 0.5, 1.0], shape), t.dtype)
        values = rng.uniform(0.2, 1.8, shape) * rng.choice([-1.0, 1.0], shape)
        return np.asarray(values, t.dtype)


def seeds(fast: int, count: int) -> list[Any]:
    """The seeds of a test, of which all but the first so many are slow."""
    return [*range(fast), *[pytest.param(n, marks=pytest.mark.slow) for n in range(fast, count)]]


def campaign(every: range, few: int) -> range:
    """The first few seeds of a slow test; all of them with HYPOTHESIS_PROFILE=soak."""
    return every if SOAK else every[:few]


def concrete_shape(t: Tensor, sizes: dict[str, int]) -> tuple[int, ...]:
    """The shape of an input when its symbolic extents (plain sizes) have the given values."""
    return tuple([n if isinstance(n, int) else sizes[str(n.name)] for n in t.shape])


def random_program(
    seed: int,
    dtype: str = "float64",
    computes: int = 8,
    data_conditions: bool = True,
    extents: Sequence[int] = EXTENTS,
    rng: random.Random | None = None,
    sums: bool = False,
) -> Program:
    """A program of 1 to `computes` operations over 1 to 3 inputs of constant shapes.

    Args:
        data_conditions: whether conditions may ask for data, not only for indices.
        rng: where all choices but the values of the inputs come from; default: the seed.
        sums: whether scatters only sum.
    """
    rng = rng or random.Random(seed)
    flags = {"data_conditions": data_conditions, "sums": sums}
    made = Writer(rng, to_dtype(dtype), extents, **flags)
    write_program(made, rng.randint(1, 3), rng.randint(1, computes))
    return _program(seed, made)


def random_symbolic_program(
    seed: int,
    dtype: str = "float64",
    computes: int = 5,
    data_conditions: bool = True,
    rng: random.Random | None = None,
    sums: bool = False,
) -> Program:
    """A program whose extents are the sizes n and m, expressions of them, and constants."""
    rng = rng or random.Random(seed)
    n, m = te.size("n"), te.size("m")
    extents, derived = (n, n, m, 3), (n + 1, n * 2, m // 2 + 1)
    flags = {"data_conditions": data_conditions, "sums": sums}
    made = Writer(rng, to_dtype(dtype), extents, derived, **flags)
    made.add_input((n, m))
    write_program(made, rng.randint(1, 2), rng.randint(1, computes))
    return _program(seed, made)


def _program(seed: int, made: Writer) -> Program:
    features = made.features | made.indices.features
    return Program(seed, made.dtype, made.inputs, made.tensors, made.bounds, made.used, features)
