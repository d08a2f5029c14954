"""Random programs for many rows: the bits of one row after the other, and so many times the work.

HYPOTHESIS_PROFILE=soak looks at a thousand.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np
import pytest

import tensorad as ta
from tensorad import topi
from tensorad.counting import Work, work
from tensorad.ir.reference.interpret import interpret, shape_of
from tensorad.ir.reference.verify import verify
from tensorad.ir.tensor import Op, Placeholder, Scatter, Tensor
from tensorad.ir.visit import op_inputs, placeholders, topological_ops
from tests.random.generators import Array, campaign, concrete_shape
from tests.random.test_random_programs import choose

SEEDS: Final = campaign(range(1000), 200)
SIZES: Final = {"n": 4, "m": 3}
IN_ORDER: Final = ta.Schedule(
    vector=False, split=False, unroll=False, contract=False, blocks=False, siblings=False,
    terms=False, together=False,
)  # fmt: skip
"""Sums are added as they are written, whatever loops are around them."""


class Rows:
    """The outputs of a random program and their gradients; some of the inputs have rows.

    Attributes:
        tensors: outputs and gradients of one row. made: the same with rows.
        count: of rows; the tensors have it as a number, or as a size.
        each: values of the inputs, row by row. values: those of the inputs with rows, and shared.
    """

    def __init__(self, seed: int) -> None:
        program, _ = choose(seed, sums=False)
        rng = random.Random(seed)
        ys = list(dict.fromkeys(program.outputs))
        floats = [y for y in ys if y.dtype.is_float]
        heads = [ta.placeholder(y.shape, str(y.dtype), name=f"H{n}") for n, y in enumerate(floats)]
        self.tensors = list(dict.fromkeys([*ys, *ta.vjp(floats, program.float_inputs, heads)]))
        self.count = rng.choice((1, 2, 3))
        rows: Any = ta.size("rows") if rng.random() < 0.4 else self.count
        self.inputs = [*program.inputs, *heads]
        least = 1.0 if rng.random() < 0.4 else 0.6
        mapped = [x for x in self.inputs if rng.random() < least] or self.inputs[:1]
        self.rows = {
            x: ta.placeholder((rows, *x.shape), str(x.dtype), name=f"{x.name}s") for x in mapped
        }
        shapes = {t: concrete_shape(t, SIZES) for t in program.inputs}
        shapes |= {h: shape_of(y, shapes, SIZES) for h, y in zip(heads, floats, strict=True)}
        self.each: list[dict[Tensor, Array]] = []
        for row in range(self.count):
            draw = np.random.default_rng([seed, row])
            own = {**program.arrays(SIZES, row), **{h: draw.normal(size=shapes[h]) for h in heads}}
            shared = self.each[0] if self.each else own
            self.each.append({x: (own if x in self.rows else shared)[x] for x in self.inputs})
        self.values = {
            self.rows.get(x, x): np.stack([a[x] for a in self.each])
            if x in self.rows else self.each[0][x]
            for x in self.inputs
        }  # fmt: skip
        self.made = ta.batched(self.tensors, self.rows)
        verify(self.made)

    def pairs(self, found: Sequence[Array], wanted: Sequence[Sequence[Array]]) -> list[Any]:
        """(name, array of one row in all of them, array of that row by itself)."""
        return [
            (f"{t.name} in row {row}", found[n] if made is t else found[n][row], want[n])
            for n, (t, made) in enumerate(zip(self.tensors, self.made, strict=True))
            for row, want in enumerate(wanted)
        ]

    def check_bits(self, found: Sequence[Array], wanted: Sequence[Sequence[Array]]) -> None:
        """Results for all rows are those of one row after the other."""
        for name, have, want in self.pairs(found, wanted):
            assert have.shape == want.shape and have.tobytes() == want.tobytes(), name

    def work(self, tensors: Sequence[Tensor]) -> tuple[int, ...]:
        """Iterations, multiplications and elements."""
        sizes = {**SIZES, "rows": self.count}
        counts = work(tensors, sizes) if tensors else Work(0, 0, 0)
        return tuple([int(n) for n in (counts.iterations, counts.multiplications, counts.elements)])

    def shared(self) -> list[Tensor]:
        """What all rows have in common: results, and what is read for each row."""
        own: dict[Op, None] = dict.fromkeys(topological_ops(self.tensors))
        behind = topological_ops(self.made)
        read = [t for op in behind if op not in own for t in op_inputs(op)]
        found = dict.fromkeys([t for t in [*self.made, *read] if t.op in own])
        return [t for t in found if not isinstance(t.op, Placeholder)]

    def copied(self) -> int:
        """Elements of what all rows of scatters start from, where it is computed once."""
        shared = dict.fromkeys(self.shared())
        starts = [s.init for s in topological_ops(self.made) if isinstance(s, Scatter)]
        copies = [t for t in starts if t is not None and any(r in shared for r in op_inputs(t.op))]
        sizes = {**SIZES, "rows": self.count}
        return sum([prod(shape_of(t, {}, sizes)) for t in dict.fromkeys(copies)])

    def native(self, schedule: ta.Schedule | None) -> tuple[list[Array], list[list[Array]]]:
        """In machine code: all rows, and one after the other."""
        whole = ta.build(self.made, list(self.values), schedule=schedule)
        single = ta.build(self.tensors, self.inputs, schedule=schedule)
        named = {**SIZES, "rows": self.count}
        found = whole(*self.values.values(), **{s: named[s] for s in whole.sizes})
        own = {s: named[s] for s in single.sizes}
        wanted = [single(*given.values(), **own) for given in self.each]
        if isinstance(found, list):
            return found, wanted
        return [found], [[a] for a in wanted]


def check(seed: int) -> None:
    """Bits by the interpreter; counts: what differs so many times, what does not once."""
    of = Rows(seed)
    sizes = {**SIZES, "rows": of.count}
    of.check_bits(
        interpret(of.made, of.values, sizes), [interpret(of.tensors, a, SIZES) for a in of.each]
    )
    counts = zip(of.work(of.made), of.work(of.tensors), of.work(of.shared()), strict=True)
    more = [whole - of.count * (own - shared) - shared for whole, own, shared in counts]
    assert 0 <= more[0] <= of.copied() and more == [more[0], 0, more[0]]


def check_native(seed: int) -> None:
    """Bits where sums are added in the order of the formula; last digits where lanes add them."""
    of = Rows(seed)
    of.check_bits(*of.native(IN_ORDER))
    for name, have, want in of.pairs(*of.native(None)):
        scale = 1.0 + float(np.abs(want[np.isfinite(want)]).max(initial=0.0))
        np.testing.assert_allclose(have, want, 1e-9, 1e-9 * scale, err_msg=name)


@pytest.mark.parametrize("seed", (81, 83))
def test_rows_of_a_program(seed: int) -> None:
    """Scatters onto tensors and numbers, and a scan with a cell in a gradient."""
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, len(SEEDS), 50))
def test_rows_of_many_programs(first: int) -> None:
    for seed in SEEDS[first : first + 50]:
        check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS[::25])
def test_rows_in_machine_code(seed: int) -> None:
    check_native(seed)


def _matrix_and_vectors() -> tuple[list[Tensor], list[Tensor], dict[Tensor, Tensor]]:
    """Adjoints of a product whose matrix all rows share."""
    m, v, h = (ta.placeholder(s, name=n) for n, s in (("M", (96, 64)), ("v", (64,)), ("h", (96,))))
    rows = {t: ta.placeholder((5, *t.shape), name=f"{t.name}s") for t in (v, h)}
    return ta.vjp([topi.matmul(m, v)], [m, v], [h]), [m, v, h], rows


def _long_sum() -> tuple[list[Tensor], list[Tensor], dict[Tensor, Tensor]]:
    x = ta.placeholder((200_000,), name="x")
    return [topi.sum(x)], [x], {x: ta.placeholder((2, 200_000), name="xs")}


@pytest.mark.parametrize("case", [_matrix_and_vectors, _long_sum])
@pytest.mark.parametrize("schedule", [IN_ORDER, None])
def test_sums_whose_order_depends_on_rows(case: Any, schedule: ta.Schedule | None) -> None:
    """They have the bits of one row if they are added in order, and last digits if not."""
    tensors, inputs, rows = case()
    read = dict.fromkeys(placeholders(tensors))
    inputs = [t for t in inputs if t in read]
    draw = np.random.default_rng(3)
    given = {t: draw.normal(size=rows.get(t, t).shape).astype("float32") for t in inputs}
    whole = ta.build(ta.batched(tensors, rows), [rows.get(t, t) for t in inputs], schedule=schedule)
    single = ta.build(tensors, inputs, schedule=schedule)
    found = whole(*given.values())
    for row in range(len(next(a for t, a in given.items() if t in rows))):
        wanted = single(*[a[row] if t in rows else a for t, a in given.items()])
        for have, want in zip(*[a if isinstance(a, list) else [a] for a in (found, wanted)],
                              strict=True):  # fmt: skip
            if schedule is IN_ORDER:
                assert have[row].tobytes() == want.tobytes()
            np.testing.assert_allclose(have[row], want, rtol=1e-4, atol=1e-4)
