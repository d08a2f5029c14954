"""Random typed programs for many rows: what one row gives, stacked; and so for derivatives."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pytest

import tensorad as ta
from tensorad.ir.reference.verify import verify
from tensorad.ir.tensor import Tensor
from tests.random.programs.checks import TOLERANCE, check_near
from tests.random.programs.generator import SIZES, typed_program

PROGRAMS: Final = 1000 if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else 40
ROWS: Final = 3
Array = np.ndarray[Any, np.dtype[Any]]
Values = dict[Tensor, Array]


class Mapped:
    """A program some inputs of which have rows.

    Attributes:
        rows: inputs -> inputs with rows. values: of all, for all rows.
    """

    def __init__(self, seed: int, steps: int) -> None:
        self.program = typed_program(seed, steps)
        self.sizes = {s: SIZES[s] for s in self.program.sizes}
        self.results, self.inputs = self.program.traced()
        self.rng = np.random.default_rng([seed, 7])
        self.each = [self.program.arrays(self.sizes, k) for k in range(ROWS)]
        mapped = self.rng.random(len(self.inputs)) < 0.6
        mapped[self.rng.integers(len(mapped))] = True
        self.rows: dict[Tensor, Tensor] = {}
        self.values: Values = {}
        for k, x in enumerate(self.inputs):
            if mapped[k]:
                self.rows[x] = ta.placeholder((ROWS, *x.shape), x.dtype, name=f"{x.name}s")
                self.values[self.rows[x]] = np.stack([a[k] for a in self.each])
            else:
                self.values[x] = self.each[0][k]
        self.floats = [x for x in self.inputs if x.dtype.is_float]

    def one(self, tensors: Sequence[Tensor], row: int, more: Values) -> list[Array]:
        """Their elements for one row."""
        pairs = enumerate(self.inputs)
        own = {x: self.each[row if x in self.rows else 0][k] for k, x in pairs}
        return ta.interpret(list(tensors), {**own, **more}, self.sizes)

    def interpreted(self, tensors: Sequence[Tensor], more: Values) -> list[Array]:
        return ta.interpret(list(tensors), {**self.values, **more}, self.sizes)

    def check(self, tensors: Sequence[Tensor], more: Values, what: str, native: bool) -> None:
        """Tensors for all rows are those of one row, stacked."""
        found = ta.batched(list(tensors), self.rows)
        verify(found)
        wanted = [self.one(tensors, k, more) for k in range(ROWS)]
        runs = [(self.interpreted(found, more), 1e-8)]
        if native:
            made = ta.evaluate(found, {**self.values, **more})
            runs.append((made, 0.0))
        for arrays, tolerance in runs:
            for n, (t, rows) in enumerate(zip(tensors, found, strict=True)):
                stacked = np.stack([w[n] for w in wanted])
                allowed = tolerance or TOLERANCE.get(str(t.dtype), 1e-8)
                same = rows.ndim == t.ndim
                check_near(arrays[n], stacked[0] if same else stacked, allowed, f"{what} {t.name}")


def heads(of: Mapped, ys: Sequence[Tensor], shapes: Sequence[tuple[int, ...]]) -> Values:
    made = [ta.placeholder(y.shape, y.dtype, name=f"h{n}") for n, y in enumerate(ys)]
    return {
        h: np.asarray(of.rng.standard_normal(s)).astype(str(h.dtype))
        for h, s in zip(made, shapes, strict=True)
    }


def check_derivatives_of_rows(of: Mapped, ys: Sequence[Tensor], head: Values) -> None:
    """Reverse and forward mode through programs with rows."""
    found = dict(zip(ys, ta.batched(list(ys), of.rows), strict=True))
    differ = [y for y in ys if found[y].ndim > y.ndim]
    made = list(dict.fromkeys([found[y] for y in differ]))
    if len(made) < len(differ) or not made:
        return
    own = {h: a for (h, a), y in zip(head.items(), ys, strict=True) if y in differ}
    rows = {ta.placeholder((ROWS, *h.shape), h.dtype, name=f"{h.name}s"): a for h, a in own.items()}
    whole = {t: np.stack([a * (k + 1) for k in range(ROWS)]) for t, a in rows.items()}
    wrt = [of.rows.get(x, x) for x in of.floats]
    slopes = of.interpreted(ta.vjp(made, wrt, list(rows)), whole)
    single = ta.vjp(differ, of.floats, list(own))
    each = [of.one(single, k, {h: a * (k + 1) for h, a in own.items()}) for k in range(ROWS)]
    for n, x in enumerate(of.floats):
        stacked = np.stack([a[n] for a in each])
        check_near(slopes[n], stacked if x in of.rows else stacked.sum(0), 1e-7, f"d{x.name}")
    along = of.interpreted(ta.jvp(made, {w: w for w in wrt}), {})
    one = ta.jvp(differ, {x: x for x in of.floats})
    each = [of.one(one, k, {}) for k in range(ROWS)]
    for n, y in enumerate(differ):
        check_near(along[n], np.stack([a[n] for a in each]), 1e-7, f"tangent of {y.name}")


def check(seed: int, steps: int, native: bool) -> None:
    of = Mapped(seed, steps)
    print(of.program)  # pytest shows it with a failure
    of.check(of.results, {}, "values", native)
    ys = list(dict.fromkeys([t for t in of.results if t.dtype.is_float]))
    if not ys or not of.floats:
        return
    head = heads(of, ys, [a.shape for a in of.one(ys, 0, {})])
    slopes = ta.vjp(ys, of.floats, list(head))
    of.check(slopes, head, "slopes", native)
    check_derivatives_of_rows(of, ys, head)


@pytest.mark.sampled(30)
@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_mapped_programs(seed: int) -> None:
    """A third of them in machine code, too."""
    check(seed, 3 if seed % 30 == 0 else 8, native=seed % 3 == 0)
