"""Random programs of records for many rows: what one row gives, row by row; derivatives, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tensorad as ta
from tensorad.ir.records import Field, is_record, stand_ins
from tensorad.ir.reference.records import Record
from tensorad.ir.reference.verify import verify
from tensorad.ir.tensor import Tensor
from tests.random.records.compare import assert_same
from tests.random.records.derivatives import inner, random_tangent, total_of
from tests.random.records.generator import random_record_program, random_value

Array = np.ndarray[Any, np.dtype[Any]]


class Mapped:
    """A program of which some inputs have rows, or rows of rows.

    Attributes:
        shape: how many rows there are, along one axis or two.
        levels: at each, from the innermost, what is put in the place of what.
        values: of the program's inputs, for each row; `whole`: of what is in their place.
    """

    def __init__(self, seed: int, shape: tuple[int, ...]) -> None:
        self.program = random_record_program(seed)
        self.shape = shape
        rng = np.random.default_rng([seed, *shape])
        n = int(rng.integers(1, 4))
        self.levels: list[dict[Tensor, Tensor]] = [{} for _ in shape]
        self.values: dict[tuple[int, ...], dict[Tensor, Any]] = {at: {} for at in np.ndindex(shape)}
        self.whole: dict[Tensor, Any] = {}
        self.last: dict[Tensor, Tensor] = {}
        self.mapped: dict[Tensor, list[bool]] = {}
        inputs = self.program.inputs
        sure = inputs[rng.integers(len(inputs))]
        for x in inputs:
            axes = [bool(rng.random() < 0.6) or x is sure for _ in shape]
            own = tuple([r if m else 1 for r, m in zip(shape, axes, strict=True)])
            made = {at: random_value(x.shape, x.dtype, n, rng, 3) for at in np.ndindex(own)}
            for at in self.values:
                key = tuple([k if m else 0 for k, m in zip(at, axes, strict=True)])
                self.values[at][x] = made[key]
            t, lead = x, ()
            for k in reversed(range(len(shape))):
                if axes[k]:
                    lead = (shape[k], *lead)
                    t = self._given(f"{x.name}_{k}", (*lead, *x.shape), x, t, k)
            self.whole[t] = _stacked(list(made.values()), lead)
            self.last[x], self.mapped[x] = t, axes

    def _given(self, name: str, shape: Any, x: Tensor, t: Tensor, k: int) -> Tensor:
        (made,) = stand_ins([Field(name, shape, x.dtype)])
        self.levels[len(self.shape) - 1 - k][t] = made
        return made

    def batched(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Tensors for all rows, which are made to differ at each level."""
        found = list(tensors)
        for rows in self.levels:
            found = ta.batched(found, rows)
        verify(found)
        return found

    def check(self, tensors: Sequence[Tensor], *, native: bool) -> None:
        """Tensors for all rows are those of one row after the other."""
        found = self.batched(tensors)
        each = {at: ta.interpret(list(tensors), v) for at, v in self.values.items()}
        runs = [ta.interpret(found, self.whole)]
        if native:
            made = ta.build(found, list(self.whole))(*self.whole.values())
            runs.append(made if len(found) > 1 else [made])
        for arrays in runs:
            for n, (t, rows, a) in enumerate(zip(tensors, found, arrays, strict=True)):
                for at in self.values:
                    self._compare(t, rows, a, at, each[at][n])

    def _compare(self, t: Tensor, rows: Tensor, a: Array, at: tuple[int, ...], want: Any) -> None:
        missing = len(self.shape) - (rows.ndim - t.ndim)
        part = a if missing == len(self.shape) else None
        if part is None and not missing:
            part = a[at]
        if part is None:  # one level changes nothing: all rows of it are alike
            part = a[at[0]] if a.shape[0] == self.shape[0] and self._same(a, t) else a[at[1]]
        whole = np.empty((), object)
        whole[()] = part
        assert_same(whole if isinstance(part, Record) else part, want, 1e-5, str(t.dtype))

    def _same(self, a: Array, t: Tensor) -> bool:
        return self.shape[0] != self.shape[1] and a.ndim == t.ndim + 1

    def check_derivatives(self) -> int:
        """Both nestings: rows of derivatives, and the derivative of the sum of rows."""
        smooth = [t for t in self.program.outputs if t.dtype.is_float]
        inputs = [t for t in self.program.inputs if t.dtype.is_differentiable]
        if not smooth or not inputs:
            return 0
        y = total_of(smooth)
        slopes = ta.vjp(y, inputs)
        self.check(slopes, native=False)
        rng = np.random.default_rng(0)
        (rows,) = self.batched([y])
        if not rows.ndim:
            return 0
        count = int(np.prod(self.shape)) // int(np.prod(ta.interpret(rows, self.whole).shape))
        last = [self.last[x] for x in inputs]
        total = ta.vjp(rows.sum(), last)
        found = ta.interpret(total, self.whole)
        each = {at: ta.interpret(slopes, v) for at, v in self.values.items()}
        for k, x in enumerate(inputs):
            pushed, wanted = 0.0, 0.0
            along: dict[tuple[int, ...], Any] = {}
            for at in self.values:
                own = tuple([r for r, m in zip(at, self.mapped[x], strict=True) if m])
                if own not in along:
                    along[own] = random_tangent(x, self.values[at][x], rng)
                    part = found[k][own] if own else found[k]
                    pushed += inner(part, along[own])
                wanted += inner(each[at][k], along[own])
            np.testing.assert_allclose(pushed * count, wanted, 1e-6, 1e-7)
        self._check_direction(rows.sum(), last, total, rng)
        return len(inputs)

    def _check_direction(
        self, y: Tensor, wrt: list[Tensor], slopes: list[Tensor], rng: np.random.Generator
    ) -> None:
        """Forward mode through all rows agrees with reverse mode."""
        pairs = list(zip(wrt, slopes, strict=True))
        along = {t: stand_ins([Field(f"d{t.name}", t.shape, s.dtype)])[0] for t, s in pairs}
        tangents = [_tangent_of(t, self.whole[t], rng) for t in wrt]
        values = {**self.whole, **dict(zip(along.values(), tangents, strict=True))}
        pushed = ta.interpret(ta.jvp(y, along), values)
        pulled = ta.interpret(slopes, self.whole)
        wanted = sum([_inner(a, d) for a, d in zip(pulled, tangents, strict=True)])
        np.testing.assert_allclose(pushed, wanted, 1e-6, 1e-7)


def _inner(a: Any, b: Any) -> float:
    if not isinstance(b, np.ndarray) or b.dtype != object:
        return inner(a, b)
    return sum([inner(a[at], b[at]) for at in np.ndindex(b.shape)])


def _tangent_of(t: Tensor, value: Any, rng: np.random.Generator) -> Any:
    if not is_record(t.dtype):
        return rng.uniform(-1, 1, np.shape(value))
    if not t.shape:
        return random_tangent(t, value, rng)
    made = np.empty(value.shape, object)
    for at in np.ndindex(value.shape):
        made[at] = random_tangent(t, value[at], rng)
    return made


def _stacked(values: Sequence[Any], lead: tuple[int, ...]) -> Any:
    if not lead:
        return values[0]
    if isinstance(values[0], Record):
        made = np.empty(len(values), object)
        made[:] = values
        return made.reshape(lead)
    return np.stack(values).reshape((*lead, *np.shape(values[0])))
