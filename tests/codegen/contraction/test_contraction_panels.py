"""Panels of deep products: how deep and wide, and what their reduce steps ask for ahead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

import numpy as np
import pytest

from tensorad import te, topi
from tensorad.autodiff import vjp
from tensorad.building import build
from tensorad.codegen.contraction.register_tiles import (
    LEAST_DEPTH,
    SUMS_AGAIN,
    block_depth,
    even_lanes,
)
from tensorad.codegen.directives import Choices
from tensorad.codegen.loops.ir import Fold, For, If, Kernel, Prefetch, Stmt, Store
from tensorad.codegen.loops.kernel_key import kernel_key
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.loops.visit import statements
from tensorad.codegen.lower import lower_program
from tensorad.codegen.runtime.kernel_cache import kernel_text
from tensorad.ir.expr import Axis, Const, Expr, Size, int_const
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import free_leaves, substitute
from tests.support.machines import described

LARGE = "registers=32,vector_bytes=64,cores=1,l2=1048576"
SMALL = "registers=32,vector_bytes=64,cores=1,l2=65536"
AVX2 = "registers=16,vector_bytes=32,cores=2,l2=65536"


def product(n: int, k: int, m: int, dtype: str = "float32") -> tuple[Tensor, list[Tensor]]:
    a, b = te.placeholder((n, k), dtype, name="A"), te.placeholder((k, m), dtype, name="B")
    r = te.reduce_axis(k, name="k")
    y: Tensor = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="Y")
    return y, [a, b]


def packed(y: Tensor, inputs: list[Tensor], machine: str) -> Kernel:
    with described(machine):
        program = lower_program([y], inputs, choices=Choices(contract=True, pack="panel"))
    verify_loops(program)
    (kernel,) = program.kernels
    return kernel


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [512, 1024, 2048])
def test_panels_fill_the_second_cache_whatever_the_last_one_is(n: int, dtype: str) -> None:
    shapes = []
    for l3 in (1 << 21, 1 << 26):
        (panel,) = packed(*product(n, n, n, dtype), f"{LARGE},l3={l3}").scratch
        shapes.append(panel.shape)
    assert shapes[0] == shapes[1]
    slivers, depth, lanes = [int(e) for e in shapes[0] if isinstance(e, int)]
    assert (1 << 18) < slivers * depth * lanes * panel.dtype.size_bytes <= 3 << 18
    assert depth == min(n, 1024)  # few blocks: results are read and stored again for each


def reduce_loops(body: tuple[Stmt, ...]) -> Iterator[tuple[For, list[Prefetch], int]]:
    """The reduce loops that ask for something, what they ask for, and the rows of their tile."""
    for s in statements(body):
        if isinstance(s, For) and s.kind != "vector":
            inner = [c for c in s.body if isinstance(c, Fold)]
            asked = [c for c in s.body if isinstance(c, Prefetch)]
            inner = inner or [c for c in statements(s.body) if isinstance(c, Fold)]
            loops = [c for c in s.body if isinstance(c, For)]
            if asked and inner and all(c.kind != "vector" for c in loops):
                yield s, asked, len({c.targets for c in inner})


def value(index: Expr, known: dict[Expr, Expr]) -> int:
    """An index where some axes are known and the others are 0."""
    rest: dict[Expr, Expr] = {a: int_const(0) for a in free_leaves(index) if a not in known}
    found = substitute(index, {**rest, **known})
    assert isinstance(found, Const)
    return int(found.value)


def test_sums_of_the_next_rows_are_prefetched_line_by_line() -> None:
    y, inputs = product(60, 600, 256)
    kernel = packed(y, inputs, SMALL)
    (panel,) = kernel.scratch
    depth, lanes = panel.shape[1:]
    assert isinstance(depth, int) and isinstance(lanes, int) and depth < 600
    found = 0
    for loop, asked, rows in reduce_loops(kernel.body):
        if any(f.tensor is not y for f in asked):
            continue
        assert all(f.count == 1 for f in asked)
        lines = {
            tuple([value(i, {loop.axis: int_const(k)}) for i in f.indices])
            for k in range(0, depth, 4)
            for f in asked
        }
        first = min(row for row, _ in lines)
        wanted = {(first + r, at) for r in range(rows) for at in range(0, lanes, 16)}
        assert wanted <= lines and len(lines) <= 2 * len(wanted)
        found += 1
    assert found


def test_slivers_share_what_the_next_rows_read() -> None:
    y, inputs = product(60, 600, 256)
    kernel = packed(y, inputs, SMALL)
    slivers = kernel.scratch[0].shape[0]
    assert isinstance(slivers, int)
    for loop, fetches, rows in reduce_loops(kernel.body):
        if any(f.tensor is not inputs[0] for f in fetches):
            continue
        assert loop.axis.step is int_const(16)  # a line has 16 elements
        axes = [a for a in free_leaves(fetches[0].indices[0]) if isinstance(a, Axis)]
        meets = [a for a in axes if a.name == "s"]
        found = {
            value(f.indices[0], dict.fromkeys(meets, int_const(s)))
            for f in fetches
            for s in range(slivers)
        }
        assert set(range(rows, 2 * rows)) <= {r - min(found) + rows for r in found}
        assert len(fetches) <= -(-rows // slivers)
        assert value(fetches[0].indices[1], {loop.axis: int_const(7)}) == 7


def packing(kernel: Kernel) -> list[tuple[list[For], Prefetch | None]]:
    """The loops around what is packed into panels, and what the innermost asks for."""
    found: list[tuple[list[For], Prefetch | None]] = []

    def visit(s: Stmt, around: list[For]) -> None:
        if isinstance(s, If):
            for c in (*s.then, *s.orelse):
                visit(c, around)
        if isinstance(s, For):
            for c in s.body:
                visit(c, [*around, s])
        elif isinstance(s, Store) and any(s.tensors[0] is t for t in kernel.scratch):
            asked = [f for f in around[-1].body if isinstance(f, Prefetch)]
            found.append((around, asked[0] if asked else None))

    for s in kernel.body:
        visit(s, [])
    return found


@pytest.mark.parametrize(("n", "dtype"), [(512, "float32"), (512, "float64"), (2048, "float64")])
def test_packing_takes_all_slivers_of_a_step_and_prefetches_later_steps(n: int, dtype: str) -> None:
    kernel = packed(*product(n, n, n, dtype), f"{LARGE},l3=16777216")
    (panel,) = kernel.scratch
    slivers, _, lanes = panel.shape
    assert isinstance(slivers, int) and isinstance(lanes, int)
    around, asked = packing(kernel)[0]
    assert [s.axis.name for s in around[-3:]] == ["k", "s", "l"]
    assert asked is not None and asked.tensor.name == "B" and asked.count == lanes
    step = around[-3].axis
    first = value(asked.indices[0], {step: int_const(0)})
    row_bytes = slivers * lanes * panel.dtype.size_bytes
    assert first == 8192 // row_bytes  # so many bytes before they are packed
    assert value(asked.indices[0], {step: int_const(7)}) == first + 7
    meets = {around[-2].axis: int_const(1), around[-1].axis: int_const(2)}
    assert value(asked.indices[1], dict(meets)) == lanes + 2


def test_what_stays_in_half_of_the_second_cache_is_packed_without_asking() -> None:
    for columns, asked in ((256, False), (512, True)):
        kernel = packed(*product(512, 512, columns), LARGE)
        fetched = [s.tensor.name for s in statements(kernel.body) if isinstance(s, Prefetch)]
        assert ("B" in fetched) is asked


def test_lanes_across_rows_are_packed_sliver_by_sliver() -> None:
    a, b = te.placeholder((600, 600), name="A"), te.placeholder((600, 600), name="B")
    r = te.reduce_axis(600, name="k")
    y: Tensor = te.compute((600, 600), lambda i, j: te.sum(a[i, r] * b[j, r], axis=r), name="Y")
    found = packing(packed(y, [a, b], SMALL))
    assert found
    assert all(around[-3].axis.name != "k" for around, _ in found)


def test_many_slivers_are_packed_one_by_one() -> None:
    """A reduce step would store in as many places at once."""
    y, inputs = product(3000, 32, 10000)
    with described(f"{LARGE},l3=33554432"):
        kernels = lower_program([y], inputs, choices=Choices(parallel=True)).kernels
    loops = [s for k in kernels for s in statements(k.body) if isinstance(s, For)]
    outer = [s for s in loops if s.kind == "parallel" and s.axis.name == "s"]
    assert outer and outer[0].axis.extent and outer[0].axis.extent > 100


def picked(batch: bool) -> tuple[Tensor, list[Tensor]]:
    """Data says which row of A each row of results is made of, or which rows each of a batch."""
    a, b = te.placeholder((60, 60, 600), name="A"), te.placeholder((60, 600, 256), name="B")
    places = te.placeholder((60,), "int64", name="P")
    r = te.reduce_axis(600, name="k")

    def body(s: Expr, i: Expr, j: Expr) -> Expr:
        row = a[places[s], i, r] if batch else a[s, places[i], r]
        return te.sum(row * b[s, r, j], axis=r)

    return te.compute((60, 60, 256), body, name="Y"), [a, b, places]


@pytest.mark.parametrize("batch", [False, True])
def test_rows_that_data_names_are_not_prefetched(batch: bool) -> None:
    """Which one comes after the last is not there; products of a batch have all their rows."""
    y, inputs = picked(batch)
    with described(SMALL):
        program = lower_program([y], inputs, choices=Choices(contract=True, pack="panel"))
    asked = {s.tensor for s in statements(program.kernels[-1].body) if isinstance(s, Prefetch)}
    assert asked - {inputs[1]} == ({y, inputs[0]} if batch else {y})


def batched(count: int | Size, columns: int) -> tuple[Tensor, list[Tensor]]:
    a = te.placeholder((count, 64, 64), name="A")
    b = te.placeholder((count, 64, columns), name="B")
    r = te.reduce_axis(64, name="r")

    def body(s: Expr, i: Expr, j: Expr) -> Expr:
        return te.sum(a[s, i, r] * b[s, r, j], axis=r)

    return te.compute((count, 64, columns), body, name="Y"), [a, b]


@pytest.mark.parametrize("count", [64, te.size("n")])
@pytest.mark.parametrize("columns", [64, 1024])
def test_a_product_of_a_batch_prefetches_the_next_one(count: int | Size, columns: int) -> None:
    """For its results, too, where half of the second cache has room for all."""
    y, (a, b) = batched(count, columns)
    with described(LARGE):
        (kernel,) = lower_program([y], [a, b]).kernels
    asked = {s.tensor for s in statements(kernel.body) if isinstance(s, Prefetch)}
    assert asked == ({a, b, y} if columns == 64 else {a, b})


def without(body: tuple[Stmt, ...], t: Tensor) -> tuple[Stmt, ...]:
    """The same, but `t` is not asked for."""
    kept = [s for s in body if not isinstance(s, Prefetch) or s.tensor is not t]
    inner = [replace(s, body=without(s.body, t)) if isinstance(s, For) else s for s in kept]
    return tuple(inner)


@pytest.mark.parametrize("columns", [256, 512])
def test_results_that_pass_the_caches_are_not_prefetched(columns: int) -> None:
    """Shorter rows are stored as usual: their ends, in parts of lines, take as long as a tile."""
    y, inputs = batched(32, columns)
    with described("registers=32,vector_bytes=64,cores=1,l2=1048576,l3=1048576"):
        (kernel,) = lower_program([y], inputs).kernels
        assert y in {s.tensor for s in statements(kernel.body) if isinstance(s, Prefetch)}
        kernels = kernel, replace(kernel, body=without(kernel.body, y))
        one, other = (kernel_text(k, kernel_key(k)[1])[0] for k in kernels)
    assert (one == other) is ("!nontemporal" in one) is (columns == 512)


@pytest.mark.parametrize(
    ("flat", "most", "outer", "cores", "lanes"),
    [
        (512, 384, 1, 1, 256),  # two even panels, not 384 and 128
        (2048, 192, 1, 1, 192),
        (576, 512, 1, 1, 320),  # five units and four
        (2048, 192, 1, 2, 128),  # 16, which two cores share evenly, not 11
        (1280, 256, 1, 2, 128),
        (192, 192, 1, 64, 64),  # fewer units than cores
        (40, 192, 1, 2, 64),
        (2048, 192, 3, 32, 64),
        (2048, 192, 1, 6, 192),  # 11: two for a core are as much as six of one unit
        (2112, 192, 1, 2, 128),  # 17: 17 units for one core, 18 if panels had three
    ],
)
def test_panels_are_even(flat: int, most: int, outer: int, cores: int, lanes: int) -> None:
    assert even_lanes(flat, 64, most, outer, cores) == lanes


def cheapest_depth(depth: int, flat: int, unit: int, room: int) -> int:
    """Of all numbers of blocks, the steps of those for which the fewest elements are moved."""
    found: list[tuple[int, int]] = []
    for blocks in range(1, max(1, depth // LEAST_DEPTH) + 1):
        steps = -(-depth // blocks)
        lanes = room // (steps * unit) * unit
        if lanes:
            moved = -(-flat // lanes) * depth + SUMS_AGAIN * (blocks - 1) * flat
            found.append((moved, -steps))
    return -min(found)[1] if found else max(1, room // unit)


def test_the_depth_of_blocks_is_the_cheapest_of_all() -> None:
    rng = np.random.default_rng(3)
    for depth, flat, room in (2 ** rng.uniform(0, (16, 14, 21), (500, 3))).astype(int).tolist():
        for unit in (4, 48, 64):
            found = block_depth(depth, flat, unit, room)
            assert found == cheapest_depth(depth, flat, unit, room), (depth, flat, unit, room)


@pytest.mark.parametrize("steps", [1 << 16, 1 << 40])
def test_sums_of_any_length_are_contractions(steps: int) -> None:
    y, inputs = product(256, steps, 256)
    with described(LARGE):
        (kernel,) = lower_program([y], inputs).kernels
    (panel,) = kernel.scratch
    assert (1 << 18) < prod([int(n) for n in panel.shape if isinstance(n, int)]) * 4 <= 3 << 18


def test_few_depths_are_looked_at_however_long_a_sum_is() -> None:
    assert block_depth(1 << 60, 1 << 40, 64, 3 << 16) == 1536


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("n", "k", "m"), [(61, 600, 250), (7, 1031, 129), (50, 500, 64)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("scaled", [False, True])
def test_bits_are_those_of_other_ways(n: int, k: int, m: int, dtype: str, scaled: bool) -> None:
    """Sums wait in the result, or in scratch where something else is stored."""
    y, inputs = product(n, k, m, dtype)
    if scaled:
        one = y
        y = te.compute((n, m), lambda i, j: one[i, j] * 2.0 + 1.0, name="Z")
    rng = np.random.default_rng(n)
    given = [rng.normal(size=t.shape).astype(dtype) for t in inputs]
    found = []
    for machine, pack in ((SMALL, "panel"), (AVX2, "panel"), (LARGE, "place")):
        with described(machine):
            schedule = Choices(contract=True, pack=pack)  # type: ignore[arg-type]  # two of four
            found.append(build(y, inputs, schedule=schedule)(*given))
    expected = given[0] @ given[1]
    assert np.allclose(found[0], expected * 2 + 1 if scaled else expected, rtol=1e-4, atol=1e-3)
    assert all(np.array_equal(found[0], other) for other in found[1:])


@pytest.mark.parametrize(
    ("lanes", "depth", "rows", "shape"),
    [
        (32, 10000, 900, (1, 10000, 32)),  # a little beyond the second cache
        (32, 20000, 450, (1, 5000, 32)),  # twice as deep: in blocks
        (16, 20000, 450, (1, 10000, 16)),  # one register of lanes
        (32, 10000, 800, (1, 5000, 32)),  # rows that the last cache holds
    ],
)
def test_one_sliver_is_packed_once_for_long_rows_from_memory(
    lanes: int, depth: int, rows: int, shape: tuple[int, ...]
) -> None:
    x, w = te.placeholder((lanes, depth), name="X"), te.placeholder((rows, depth), name="W")
    r = te.reduce_axis(depth, name="r")
    y: Tensor = te.compute((lanes, rows), lambda i, j: te.sum(x[i, r] * w[j, r], axis=r), name="Y")
    kernel = packed(y, [x, w], f"{LARGE},l3={1 << 25}")
    held, buffers = [t for t in kernel.writes if t is not y], kernel.scratch
    whole = shape[1] == depth
    assert [t.shape for t in (held if whole else buffers[1:])] == [shape]
    assert (len(held), len(buffers)) == ((1, 0) if whole else (0, 2))  # the sums of blocks


def test_packed_lanes_of_a_dense_layer_lie_in_the_gradient_by_its_weights() -> None:
    """No byte beside the results, on one core as on two."""
    x, w = te.placeholder((32, 10000), name="X"), te.placeholder((900, 10000), name="W")
    b, head = te.placeholder((900,), name="B"), te.placeholder((32, 900), name="H")
    y = topi.nn.dense(x, w, b)
    outputs = [y, *vjp(y, [w, b], head)]
    for cores in (1, 2):
        machine = f"registers=32,vector_bytes=64,cores={cores},l2=1048576,l3=33554432"
        with described(machine, num_threads=cores):
            memory = build(outputs, [x, w, b, head]).memory
        assert (memory.temporaries, memory.scratch) == (0, 0)
