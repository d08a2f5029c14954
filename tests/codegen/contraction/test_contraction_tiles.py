"""Tiles that are all alike: the last one is moved back over elements of the one before."""

from __future__ import annotations

from math import ceil

import numpy as np
import pytest

import tensorad as ta
from tensorad import topi
from tensorad.codegen.contraction.register_tiles import (
    covering_tile,
    first_row,
    lane_tiles,
    row_tiles,
    step_cycles,
)
from tensorad.codegen.directives import Choices
from tensorad.codegen.loops.ir import Fold, For
from tensorad.codegen.loops.printer import format_loops
from tensorad.codegen.loops.visit import statements
from tensorad.codegen.lower import lower_program
from tensorad.config import override
from tensorad.ir.expr import Const, int_const
from tensorad.ir.tensor import Tensor
from tests.support.machines import described

MOST = (0, 30, 14, 9, 6, 5, 4)
"""Rows by registers on a machine of 32 registers."""


def product(m: int, n: int, k: int) -> tuple[Tensor, list[Tensor]]:
    a, b = ta.placeholder((m, k), name="A"), ta.placeholder((k, n), name="B")
    r = ta.reduce_axis(k, name="k")
    return ta.compute((m, n), lambda i, j: ta.sum(a[i, r] * b[r, j], axis=r), name="C"), [a, b]


def register_tiles(m: int, n: int, k: int, choices: Choices | None = None) -> list[For]:
    """The vector loops with sums."""
    y, inputs = product(m, n, k)
    kernels = lower_program([y], inputs, choices=choices).kernels
    found = [s for kernel in kernels for s in statements(kernel.body)]
    loops = [s for s in found if isinstance(s, For) and s.kind == "vector"]
    return [s for s in loops if any(isinstance(i, Fold) for i in statements(s.body))]


@pytest.mark.parametrize(
    ("machine", "rows", "lanes"),
    [
        ("vector_bytes=32,registers=16,multiply_adds=2", 6, 16),  # 2 x 4 registers would wait
        ("vector_bytes=64,registers=32,multiply_adds=1", 6, 64),
        ("vector_bytes=64,registers=32,multiply_adds=2", 6, 64),
    ],
)
@pytest.mark.parametrize(("m", "n", "k"), [(512, 512, 512), (3000, 1024, 1024)])
def test_two_units_need_more_sums_than_one(
    machine: str, rows: int, lanes: int, m: int, n: int, k: int
) -> None:
    with described(f"{machine},cores=1,l1=32768,l2=524288,l3=33554432"):
        tiles = register_tiles(m, n, k)
    sums = [{s.targets for s in statements(t.body) if isinstance(s, Fold)} for t in tiles]
    assert max(len(targets) for targets in sums) == rows and {t.width for t in tiles} == {lanes}


@pytest.mark.parametrize("spare", [0.0, 1 / 64, 1 / 32])
def test_groups_of_a_covering_tile_have_all_lanes_and_cost_little_more(spare: float) -> None:
    covered = 0
    for lanes in range(1, 400):
        for registers in (1, 3, 4, 6):
            tiles = lane_tiles(lanes, 16, registers, 19, MOST)
            found = covering_tile(tiles, 16, 19, MOST, spare)
            if found is None:
                continue
            covered += 1
            unit = found.registers * 16
            assert len(tiles) > 1 and (found.start, found.stop) == (0, lanes)
            assert found.registers <= registers and unit < lanes
            groups = [min(n * unit, lanes - unit) for n in range(ceil(lanes / unit))]
            assert {n for g in groups for n in range(g, g + unit)} == set(range(lanes))
            cost = sum(
                ceil((t.stop - t.start) / (t.registers * 16))
                * step_cycles(t.rows, t.registers)
                / t.rows
                for t in tiles
            )
            mine = len(groups) * step_cycles(found.rows, found.registers) / found.rows
            assert mine <= cost * (1 + spare)
    assert covered > 20


@pytest.mark.parametrize(
    ("rows", "most", "least", "spare", "tiles"),
    [
        (1000, 14, 1.0, 1 / 64, [(0, 1008, 14)]),
        (1000, 14, 1.0, 0.0, [(0, 896, 14), (896, 1000, 13)]),
        (61, 6, 1.0, 1 / 64, [(0, 36, 6), (36, 61, 5)]),
        (64, 6, 0.6, 1 / 32, [(0, 64, 4)]),  # equal tiles come first: nothing is done twice
        (64, 6, 0.8, 1 / 64, [(0, 64, 4)]),  # 66 rows would take longer than smaller tiles
        (64, 6, 0.8, 0.0, [(0, 54, 6), (54, 64, 5)]),
        (64, 6, 1.0, 1 / 64, [(0, 54, 6), (54, 64, 5)]),
        (5, 6, 1.0, 1.0, [(0, 5, 5)]),
    ],
)
def test_the_last_rows_are_met_twice_where_that_costs_little(
    rows: int, most: int, least: float, spare: float, tiles: list[tuple[int, int, int]]
) -> None:
    count = int_const(rows)
    found = row_tiles(count, most, least, spare)
    assert [(int(str(a)), int(str(b)), n) for a, b, n in found] == tiles
    met = set()
    for part in found:
        for row in range(int(str(part[0])), int(str(part[1])), part[2]):
            first = first_row(int_const(row), part, count)
            if not isinstance(first, Const):  # min(row, last)
                first = int_const(min(row, rows - part[2]))
            met.update(range(int(first.value), int(first.value) + part[2]))
    assert met == set(range(rows))


@pytest.mark.parametrize(
    ("m", "n", "k"), [(32, 1000, 1000), (1000, 32, 1000), (1000, 1000, 32), (64, 84, 120)]
)
def test_a_product_is_one_register_tile(m: int, n: int, k: int) -> None:
    assert len(register_tiles(m, n, k)) == 1


@pytest.mark.parametrize(("m", "n"), [(60, 120), (83, 128)], ids=["lanes", "rows"])
def test_sums_that_wait_in_memory_are_added_to_once(m: int, n: int) -> None:
    y, inputs = product(m, n, 64)
    with described("registers=32,vector_bytes=64,l2=1048576,l3=33554432"):
        moved = lower_program([y], inputs)
        kept = lower_program([y], inputs, choices=Choices(block=16, contract=True))
        assert len(register_tiles(m, n, 64)) == 1
        assert len(register_tiles(m, n, 64, Choices(block=16, contract=True))) > 1
    assert "min(" in format_loops(moved)  # where the last tile begins
    assert "min(" not in format_loops(kept)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("block", [None, 16])
@pytest.mark.parametrize("threads", [1, 3])
def test_elements_computed_twice_are_right(block: int | None, threads: int) -> None:
    rng = np.random.default_rng(0)
    sizes = (60, 120, 64), (61, 100, 64), (64, 84, 40), (200, 33, 50), (37, 131, 65)
    for m, n, k in sizes:
        y, inputs = product(m, n, k)
        chosen = Choices(contract=True, block=block, parallel=threads > 1)
        f = ta.build(y, inputs, schedule=chosen)
        a = rng.normal(size=(m, k)).astype(np.float32)
        b = rng.normal(size=(k, n)).astype(np.float32)
        exact = np.zeros((m, n))
        for r in range(k):  # one chain of fused multiply-adds per element, in order
            exact = np.float32(exact + np.float64(a[:, r : r + 1]) * np.float64(b[r])).astype(float)
        with override(num_threads=threads):
            np.testing.assert_array_equal(f(a, b), exact.astype(np.float32))


def test_panels_of_less_than_a_register_tile_stay_as_they_are() -> None:
    x, w = ta.placeholder((1, 17, 20, 5), name="X"), ta.placeholder((17, 17, 3, 3), name="W")
    y = topi.nn.conv2d(x, w, strides=2, padding=2)
    h = ta.placeholder(y.shape, name="H")
    (gradient,) = ta.JacobianRecursive(y, [w], h)
    with described("registers=16,vector_bytes=64,cores=2,l2=16384,l3=65536"):
        assert lower_program([gradient], [x, h], choices=Choices(contract=True)).kernels


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("tile", [(3, 2), (4, 4), (32, 8)])
def test_tiles_by_hand_fit_the_registers_there_are(dtype: str, tile: tuple[int, int]) -> None:
    """A machine of few registers has smaller tiles, and bits of the same contraction."""
    a, b = ta.placeholder((37, 513), dtype, name="A"), ta.placeholder((65, 513), dtype, name="B")
    k = ta.reduce_axis(513, name="k")
    c = ta.compute((37, 65), lambda i, j: ta.sum(a[i, k] * b[j, k], axis=k), name="C")
    rng = np.random.default_rng(4)
    given = [rng.normal(size=t.shape).astype(dtype) for t in (a, b)]
    want = ta.build(c, [a, b])(*given)
    for machine in ("registers=16,vector_bytes=16", "registers=32,vector_bytes=64"):
        with described(machine):
            found = ta.build(c, [a, b], schedule=Choices(tile=tile, contract=True))(*given)
        np.testing.assert_array_equal(found, want)
