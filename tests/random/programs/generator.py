"""Random typed programs from a seed."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

import tensorad as ta
from tensorad.ir.tensor import Tensor
from tensorad.program.traces import traced
from tests.random.programs.arrays import STEPS
from tests.random.programs.forms import DEEPEST, FORMS
from tests.random.programs.writer import EXTENTS, Writer, wide
from tests.random.programs.written import Block, Mode, Value

SIZES = {"n": 3, "m": 2}
Array = np.ndarray[Any, np.dtype[Any]]


@dataclass
class TypedProgram:
    """A program with its inputs.

    Attributes:
        sizes: names of its symbolic sizes.
        features: what is in it.
    """

    seed: int
    inputs: list[Value]
    block: Block
    sizes: tuple[str, ...]
    features: set[str]

    def __str__(self) -> str:
        shown = [f"{v} : {v.dtype}{list(v.shape)}" for v in self.inputs]
        return "\n".join([f"seed {self.seed}: {', '.join(shown)}", *self.block.lines("  ")])

    @property
    def results(self) -> tuple[Value, ...]:
        return self.block.results

    def plain(self, arrays: list[Array], sizes: Mapping[str, int]) -> list[Array]:
        """The results by NumPy in float64."""
        pairs = zip(self.inputs, arrays, strict=True)
        env = {v.number: np.asarray(a, wide(v.dtype)) for v, a in pairs}
        with np.errstate(all="ignore"):
            return [np.asarray(a) for a in self.block.run(Mode(sizes, False), env)]

    def traced(self) -> tuple[list[Tensor], list[Tensor]]:
        """(results, inputs) written down."""
        sizes = {s: ta.size(s) for s in self.sizes}
        mode = Mode(sizes, True)
        given = [ta.placeholder(mode.shape(v.shape), v.dtype, name=str(v)) for v in self.inputs]

        def whole(params: Any) -> Any:
            return self.block.run(
                mode, {v.number: p for v, p in zip(self.inputs, params, strict=True)}
            )

        return list(traced(f"program{self.seed}", whole, given).results), given

    def arrays(self, sizes: Mapping[str, int], seed: int = 0) -> list[Array]:
        """Values of the inputs: floats away from 0 and from each other."""
        rng = np.random.default_rng([self.seed, seed])
        mode = Mode(sizes, False)
        made = []
        for v in self.inputs:
            shape = mode.shape(v.shape)
            if v.is_float:
                a = rng.uniform(0.3, 1.7, shape) * rng.choice([-1.0, 1.0], shape)
                made.append(np.asarray(a, v.dtype).astype(v.dtype))
            elif v.dtype == "bool":
                made.append(np.asarray(rng.random(shape) < 0.5))
            else:
                made.append(np.asarray(rng.integers(0, 5, shape), v.dtype))
        return made


def fill(w: Writer, steps: int) -> None:
    """So many steps, fewer of them with blocks the deeper they are."""
    for _ in range(steps):
        if w.depth < DEEPEST and w.rng.random() < (0.3, 0.3, 0.2)[w.depth]:
            w.rng.choice(FORMS)(w, fill)
        else:
            w.rng.choice(STEPS)(w)


def typed_program(seed: int, steps: int = 8) -> TypedProgram:
    """The program of a seed: a third of them with symbolic sizes, a third in float32."""
    rng = random.Random(seed)
    dtype = rng.choice(("float64", "float64", "float32"))
    sizes = rng.choice(((), (), ("n",), ("n", "m")))
    w = Writer(rng, dtype, sizes, count())
    extents = (*EXTENTS, *sizes, *sizes)
    for n in range(rng.randint(2, 3)):
        rank = 1 if n == 0 else rng.choice((0, 1, 1, 2, 2, 3))
        x = w.parameter(dtype, [rng.choice(extents) for _ in range(rank)], 1.7)
        w.exact[x] = None
    w.exact[w.parameter(dtype, (), 1.7)] = None
    w.parameter("int64", (), 4)
    w.parameter(rng.choice(("int64", "int32")), [rng.choice((1, 3, 4))], 4)
    if sizes:  # each has an argument that tells it
        w.exact[w.parameter(dtype, sizes, 1.7)] = None
    if rng.random() < 0.3:
        w.parameter("bool", (rng.choice((1, 3)),), 1)
    inputs = list(w.seen)
    rng.choice(FORMS)(w, fill) if rng.random() < 0.5 else None
    fill(w, rng.randint(2, steps))
    rng.choice(FORMS)(w, fill)
    made = [v for v in w.seen if v not in inputs]
    results = [v for v in made if v.is_float][-4:] + [v for v in made if not v.is_float][-1:]
    return TypedProgram(seed, inputs, w.done(results), sizes, w.features)
