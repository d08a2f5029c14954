"""Short rows that stream through buffers block by block, and rows that are preloaded one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import te, topi
from tensorad.building import build
from tensorad.codegen.caches import prefetch_rows, write_combining
from tensorad.codegen.cost.memory_model import PREFETCH_DISTANCE
from tensorad.codegen.loops.index_ranges import joined_digits
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.ir import For, Kernel, Prefetch, Store
from tensorad.codegen.loops.visit import statements
from tensorad.codegen.lower import lower_program
from tensorad.config import override
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import free_leaves
from tests.codegen.caches.test_memory_bound import RNG, SMALL_CACHES, array_at, pool, text_of
from tests.codegen.llvm.test_targets import HAS_AVX2
from tests.support.guarded import guarded
from tests.support.machines import described

CPUS = ("", *(("cpu=haswell",) if HAS_AVX2 else ()))
FAR = "l2=4096,l3=100000000"
STREAMING = ta.Schedule(streaming=True)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many blocks in arrays of a few kB."""
    monkeypatch.setattr(write_combining, "BLOCK", 900)
    monkeypatch.setattr(write_combining, "SMALLEST", 256)


def kernel_of(outputs: list[Tensor], inputs: list[Tensor], machine: str) -> Kernel:
    with described(machine):
        (kernel,) = lower_program(outputs, inputs).kernels
    return kernel


def loops_of(kernel: Kernel) -> list[For]:
    return [s for s in statements(kernel.body) if isinstance(s, For)]


def line_loops(kernel: Kernel) -> list[For]:
    """The loops over the lines of rows side by side."""
    return [s for s in loops_of(kernel) if any(isinstance(c, Prefetch) and c.now for c in s.body)]


def gradient_of_pool(shape: tuple[int, ...], dtype: str) -> tuple[Tensor, list[Tensor]]:
    x = te.placeholder(shape, dtype, name="X")
    y = topi.nn.pool(x, [2, 2], [2, 2], [0, 0, 0, 0], "max")
    head = te.placeholder(y.shape, dtype, name="H")
    (gradient,) = ta.vjp(y, [x], head)
    return gradient, [x, head]


def check_everywhere(out: Tensor, inputs: list[Tensor], cpu: str) -> None:
    """Streamed stores have the bits of plain ones at any address, and stay in their array."""
    arrays: list[Any] = []
    for t in inputs:
        draw = RNG.integers(-9, 9, t.shape)
        arrays.append(draw.astype(str(t.dtype)))
        arrays[-1].flat[3] = np.nan if t.dtype.is_float else 7
    want = build(out, inputs, schedule=ta.Schedule(streaming=False))(*arrays)
    with described(cpu):
        f = build(out, inputs, schedule=STREAMING)
    size = want.dtype.itemsize
    for offset in (0, size, 32, 64 - size):
        around = array_at((want.size + 2 * 16,), str(out.dtype), offset)
        before = around.copy()
        f(*arrays, out=around[16:-16].reshape(want.shape))
        np.testing.assert_array_equal(around[16:-16].reshape(want.shape), want)
        assert (around[:16].tobytes(), around[-16:].tobytes()) == (
            before[:16].tobytes(), before[-16:].tobytes(),
        )  # fmt: skip


@pytest.mark.sampled(9)
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", [2, 14, 30, 34, 66])
def test_blocks_go_on_where_the_last_line_ended(width: int, dtype: str, cpu: str) -> None:
    check_everywhere(*gradient_of_pool((2, 9, 26, width), dtype), cpu)


@pytest.mark.sampled(5)
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("dtype", ["int32", "uint8"])
@pytest.mark.parametrize("width", [1, 15, 16, 17, 65])
def test_rows_of_any_length_and_type_fill_blocks(width: int, dtype: str, cpu: str) -> None:
    x = te.placeholder((3, 40, width + 1), dtype, name="X")
    y = te.compute((3, 40, width), lambda n, i, j: x[n, i, j] + x[n, i, j + 1], "Y")
    check_everywhere(y, [x], cpu)


@pytest.mark.usefixtures("small_blocks")
def test_blocks_of_a_symbolic_number_of_images() -> None:
    n = te.size("n")
    x, b = te.placeholder((n, 40, 18), name="X"), te.placeholder((40, 18), name="B")
    y = te.compute((n, 40, 17), lambda m, i, j: x[m, i, j] + b[i, j + 1], "Y")
    f = build(y, [x, b], schedule=STREAMING)
    w = RNG.standard_normal((40, 18)).astype("f")
    for images in (0, 1, 5):
        a = RNG.standard_normal((images, 40, 18)).astype("f")
        got = array_at((images, 40, 17), "float32", 20)
        np.testing.assert_array_equal(f(a, w, out=got), a[:, :, :17] + w[:, 1:])


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_share_chunks_of_blocks(threads: int) -> None:
    x = te.placeholder((1331, 2, 21), name="X")
    y = te.compute((1331, 2, 20), lambda n, i, j: x[n, i, j] * x[n, i, j + 1], "Y")
    shared = ta.Schedule(streaming=True, parallel=True)
    (kernel,) = lower_program([y], [x], choices=shared).kernels
    (chunks,) = [s for s in loops_of(kernel) if s.kind == "parallel"]
    assert write_combining.CHUNKS <= (chunks.axis.extent or 0) < 100
    (copies,) = [s for s in loops_of(kernel) if s.within is not None]
    assert copies.within is not None and chunks.axis in free_leaves(copies.within.lower)
    a = RNG.standard_normal((1331, 2, 21)).astype("f")
    want = a[:, :, :20] * a[:, :, 1:]
    with override(num_threads=threads):
        f = build(y, [x], schedule=shared)
        for offset in (0, 4, 60):
            got = array_at((want.size + 32,), "float32", offset)
            got[...] = 7
            f(a, out=got[16:-16].reshape(want.shape))
            np.testing.assert_array_equal(got[16:-16].reshape(want.shape), want)
            np.testing.assert_array_equal(got[[*range(16), *range(-16, 0)]], 7)


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
def test_the_loops_in_blocks_store_every_element() -> None:
    out, inputs = gradient_of_pool((2, 9, 26, 22), "float64")
    arrays = {t: RNG.standard_normal(t.shape) for t in inputs}
    program = lower_program([out], inputs, choices=STREAMING)
    assert [s for k in program.kernels for s in loops_of(k) if s.within is not None]
    (got,) = interpret_loops(program, arrays, {})[0]
    np.testing.assert_array_equal(got, build(out, inputs)(*arrays.values()))


def test_winners_stay_in_registers_where_their_rows_are_scattered() -> None:
    out, inputs = gradient_of_pool((32, 17, 280, 280), "float32")
    kernel = kernel_of([out], inputs, "l2=1000000,l3=30000000")
    assert [str(t.dtype) for t in kernel.scratch] == ["float32"]
    (blocks,) = [s for s in loops_of(kernel) if sum(isinstance(c, For) for c in s.body) == 3]
    assert [s.kind for s in blocks.body if isinstance(s, For)] == ["serial", "vector", "vector"]
    stored = [t for s in statements(kernel.body) if isinstance(s, Store) for t in s.tensors]
    assert {str(t.dtype) for t in stored} == {"float32"}


def test_lines_of_a_block_stream_to_its_end() -> None:
    out, inputs = gradient_of_pool((32, 17, 280, 280), "float32")
    text = text_of([out], inputs, "l2=1000000,l3=30000000")
    assert text.count("!nontemporal") == 5  # four registers at a time, then one


def test_rows_side_by_side_are_preloaded_in_the_order_of_memory() -> None:
    y, x = pool((2, 3, 64, 256), "max")
    text = text_of([y], [x], FAR)
    assert text.count("load volatile float") == 1 and "@llvm.prefetch" not in text
    (lines,) = line_loops(kernel_of([y], [x], FAR))
    assert lines.axis.extent == 32  # two rows of 1 kB are one stretch
    assert "volatile" not in text_of([y], [x], "l2=100000000,l3=100000000")
    y, x = pool((1, 1, 4, 16384), "max")  # more than a part of the first cache
    assert not line_loops(kernel_of([y], [x], FAR))
    assert "@llvm.prefetch" not in text_of([y], [x], FAR)  # the processor follows long rows


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
@pytest.mark.parametrize(("width", "few"), [(64, True), (80, False), (256, False)])
def test_long_rows_are_loaded_before_only_where_a_register_holds_a_line(
    width: int, few: bool, vector_bytes: int
) -> None:
    y, x = pool((2, 3, 64, width), "max")
    kernel = kernel_of([y], [x], f"{FAR},vector_bytes={vector_bytes}")
    assert bool(line_loops(kernel)) is (few or vector_bytes == 64)


def test_rows_of_loops_that_compute_much_are_prefetched_in_the_order_of_memory() -> None:
    machine = "l2=1000000,l3=30000000"
    out, (x, head) = gradient_of_pool((32, 17, 280, 280), "float32")
    kernel = kernel_of([out], [x, head], machine)
    assert not line_loops(kernel)
    (rows,) = [s for s in loops_of(kernel) if any(isinstance(c, Prefetch) for c in s.body)]
    (band,) = [c for c in rows.body if isinstance(c, Prefetch)]
    where = joined_digits(prefetch_rows.offset(x, band.indices))
    assert (where.terms[rows.axis], where.constant, band.count) == (
        4,
        PREFETCH_DISTANCE // 4,
        559,
    )
    assert rows.prefetched == (head,)  # the processor follows no row beside what is asked for
    text = text_of([out], [x, head], machine)
    asked = text.count("call void @llvm.prefetch")
    assert asked == 2 * (4 + 1)  # the lines of each register, whole ones and the last


def test_a_pass_with_no_other_beside_it_preloads_its_rows() -> None:
    """Images as small as a block: the winners of one are all found before its gradient is."""
    out, (x, head) = gradient_of_pool((9, 17, 32, 32), "float32")
    kernel = kernel_of([out], [x, head], "l2=100000,l3=200000")
    assert line_loops(kernel)
    asked = [c for s in loops_of(kernel) for c in s.body if isinstance(c, Prefetch) and not c.now]
    assert not asked


def of_two_rows(x: Tensor, i: Any, j: Any) -> Any:
    """Much that is computed from a band."""
    v = te.maximum(x[i, 0, j], x[i, 1, j])
    for n in range(6):
        v = te.maximum(v * 0.5 + x[i, n % 2, j], te.minimum(v, 2.0))
    return v


@pytest.mark.parametrize("cpu", CPUS)
def test_passes_that_prefetch_their_rows_are_joined(cpu: str) -> None:
    """A pass stores terms that the next one adds up: both read a band, and ask for a later one."""
    x = te.placeholder((40, 2, 300), name="X")
    k, k1 = (te.reduce_axis(300, name=n) for n in ("k", "k1"))
    a = te.compute((40,), lambda i: te.max(of_two_rows(x, i, k), axis=k), name="A")
    e = te.compute((40, 300), lambda i, j: of_two_rows(x, i, j) - a[i], name="E")
    b = te.compute((40,), lambda i: te.sum(e[i, k1] + x[i, 1, k1], axis=k1), name="B")
    y = te.compute((40, 300), lambda i, j: e[i, j] * b[i], name="Y")
    machine = ",".join(filter(None, [cpu, SMALL_CACHES]))
    found = []
    for passes in (False, None):
        choices = ta.Schedule(fuse=True, siblings=False, passes=passes)
        with described(machine):
            (kernel,) = lower_program([y], [x], choices=choices).kernels
            f = build(y, [x], schedule=choices)
        lanes = [s for s in loops_of(kernel) if s.kind == "vector"]
        asks = [(s, c) for s in lanes for c in s.body if isinstance(c, Prefetch)]
        assert all(s.axis in free_leaves(*c.indices) for s, c in asks)
        found.append((len(lanes), len(asks)))
        array = RNG.standard_normal(x.shape).astype("f")
        given, out = guarded(array.shape, "float32", True), guarded((40, 300), "float32", True)
        given[...] = array
        f(given, out=out)
        want = build(y, [x], schedule=ta.Schedule(passes=False, streaming=False))(array)
        np.testing.assert_array_equal(out, want)
    assert found == [(4, 2), (3, 2)]


def test_the_last_of_several_passes_prefetches_and_is_joined() -> None:
    x = te.placeholder((40, 2, 300), name="X")
    k, k1 = (te.reduce_axis(300, name=n) for n in ("k", "k1"))
    a = te.compute((40,), lambda i: te.max(of_two_rows(x, i, k), axis=k), name="A")
    e = te.compute((40, 300), lambda i, j: of_two_rows(x, i, j) - a[i], name="E")
    b = te.compute((40,), lambda i: te.sum(e[i, k1] * of_two_rows(x, i, k1), axis=k1), name="B")
    y = te.compute((40,), lambda i: a[i] + b[i], name="Y")
    given = guarded((40, 2, 300), "float32", True)
    given[...] = RNG.standard_normal(given.shape)
    found, results = [], []
    for passes in (False, None):
        choices = ta.Schedule(fuse=True, siblings=False, passes=passes)
        with described(SMALL_CACHES):
            (kernel,) = lower_program([y], [x], choices=choices).kernels
            results.append(build(y, [x], schedule=choices)(given))
        lanes = [s for s in loops_of(kernel) if s.kind == "vector"]
        found.append((len(lanes), len(line_loops(kernel))))
    assert found == [(3, 0), (2, 0)]
    np.testing.assert_array_equal(*results)


def test_a_block_stores_little_at_a_time() -> None:
    x = te.placeholder((40, 300), name="X")
    y = te.compute((40, 2, 300), lambda i, p, j: x[i, j] + p, "Y")
    for burst, rows in ((write_combining.BURST, 1), (3 * 2400, 3), (10**6, 4)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(write_combining, "BURST", burst)
            (kernel,) = lower_program([y], [x], choices=STREAMING).kernels
        (lines,) = kernel.scratch
        assert lines.shape == (16 + rows * 600,)


def test_rows_that_lie_apart_are_loaded_one_by_one() -> None:
    x = te.placeholder((64, 3, 160), name="X")
    y = te.compute((64, 100), lambda i, j: x[i, 0, j] + x[i, 2, j + 3], "Y")
    rows = line_loops(kernel_of([y], [x], FAR))
    assert [r.axis.extent for r in rows] == [7, 7]
    for at_end in (False, True):
        a = guarded((64, 3, 160), "float32", at_end)
        a[...] = RNG.standard_normal(a.shape)
        with described(FAR):
            got = build(y, [x])(a)
        np.testing.assert_array_equal(got, a[:, 0, :100] + a[:, 2, 3:103])


def test_rows_that_are_long_or_read_again_are_not_loaded_before() -> None:
    x = te.placeholder((64, 600), name="X")
    p, i = te.reduce_axis(3, name="p"), 500
    again = te.compute((31, i), lambda y, j: te.sum(x[2 * y + p, j], axis=p), "Y")
    apart = te.compute((21, i), lambda y, j: te.sum(x[3 * y + p, j], axis=p), "Y")
    long = te.compute((21, 600), lambda y, j: te.sum(x[3 * y + p, j], axis=p), "Y")
    machine = "l2=16384,l3=100000000"
    found = [bool(line_loops(kernel_of([y], [x], machine))) for y in (again, apart, long)]
    assert found == [False, True, False]


@pytest.mark.parametrize(("l2", "loaded"), [(16384, False), (4096, True)])
def test_rows_that_an_outer_loop_reads_again_are_not_loaded_before(l2: int, loaded: bool) -> None:
    x, z = te.placeholder((8, 1024, 64), name="X"), te.placeholder((8, 1024, 64), name="Z")
    e = te.reduce_axis(64, name="e")
    y = te.compute(
        (8, 961, 64), lambda b, i, s: te.sum(z[b, i, e] * x[b, i + 63 - s, e], axis=e), "Y"
    )
    kernel = kernel_of([y], [z, x], f"l2={l2},l3=100000000")
    assert bool(line_loops(kernel)) is loaded  # 64 rows of i, all but one of them also of i + 1


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
@pytest.mark.parametrize("window", [2, 3])
def test_rows_are_preloaded_inside_of_their_array(
    window: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefetch_rows, "OPERATIONS", 100)  # loaded whatever is computed
    x = te.placeholder((5, 31, 45), dtype, name="X")
    p, q = (te.reduce_axis(window, name=n) for n in "pq")
    shape = (5, 31 // window, (45 - window) // 2 + 1)
    y = te.compute(shape, lambda c, i, j: te.max(x[c, window * i + p, 2 * j + q], axis=[p, q]), "Y")
    machine = "l2=1024,l3=100000000"
    assert line_loops(kernel_of([y], [x], machine))
    for at_end in (False, True):
        a = guarded((5, 31, 45), dtype, at_end)
        a[...] = RNG.integers(-99, 99, a.shape)
        with described(machine):
            got = build(y, [x])(a)
        rows = [a[:, k : window * shape[1] : window] for k in range(window)]
        parts = [r[:, :, k : k + 2 * shape[2] - 1 : 2] for r in rows for k in range(window)]
        np.testing.assert_array_equal(got, np.max(parts, axis=0))


def test_what_a_loop_computes_for_a_line_is_counted_by_weight() -> None:
    x = te.placeholder((64,), name="X")
    for body, weight in ((te.exp, 8), (lambda e: e + 1.0, 1), (lambda e: e, 0)):
        y = te.compute((64,), lambda i, body=body: body(x[i]), "Y")
        (stored,) = [s for s in statements(kernel_of([y], [x], FAR).body) if isinstance(s, Store)]
        assert prefetch_rows._operations(stored) == weight


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("rows", [4, 7])
def test_rows_of_a_scan_are_loaded_in_the_order_of_memory(rows: int, dtype: str) -> None:
    x = te.placeholder((rows, 45), dtype, name="X")
    y = te.scan(x, 1, "sum", name="Y")
    machine = "l2=64,l3=100000000"
    (lines,) = line_loops(kernel_of([y], [x], machine))
    line = 64 // np.dtype(dtype).itemsize
    assert lines.axis.extent == -(-4 * 45 // line)  # four rows are one stretch
    for at_end in (False, True):
        a = guarded((rows, 45), dtype, at_end)
        a[...] = RNG.integers(-99, 99, a.shape)
        with described(machine):
            got = build(y, [x])(a)
        np.testing.assert_array_equal(got, np.cumsum(a, axis=1, dtype=dtype))


def test_rows_of_a_symbolic_number_are_loaded_as_those_of_a_large_one() -> None:
    n = te.size("n")
    x = te.placeholder((n, 45), "int16", name="X")
    y = te.scan(x, 1, "sum", name="Y")
    (lines,) = line_loops(kernel_of([y], [x], ""))
    assert lines.axis.extent == -(-4 * 45 // 32)
    f = build(y, [x])
    for rows in (0, 1, 4, 11):
        for at_end in (False, True):
            a = guarded((max(rows, 1), 45), "int16", at_end)[:rows]
            a[...] = RNG.integers(-99, 99, a.shape)
            np.testing.assert_array_equal(f(a), np.cumsum(a, axis=1, dtype="int16"))


@pytest.mark.parametrize("summed", [False, True])
def test_rows_whose_reads_do_not_follow_each_other_are_not_loaded(summed: bool) -> None:
    """45 turns of the loop read 14 elements of a row: the last row ends before a stretch of 45."""
    x, k = te.placeholder((36, 14), name="X"), te.reduce_axis(45, name="k")

    def both(i: Any, j: Any) -> Any:
        return x[10 * i, j - j * j // 50] + x[10 * i + 5, j - j * j // 50]

    def all_of_row(i: Any) -> Any:
        return te.sum(both(i, k), axis=k)

    y = te.compute((4,), all_of_row, "Y") if summed else te.compute((4, 45), both, "Y")
    machine = "l2=64,l3=100000000"
    assert not line_loops(kernel_of([y], [x], machine))
    a = guarded((36, 14), "float32", True)
    a[...] = RNG.integers(-99, 99, a.shape)
    columns = np.array([j - j * j // 50 for j in range(45)])
    want = a[::10, columns] + a[5::10, columns]
    with described(machine):
        np.testing.assert_array_equal(build(y, [x])(a), want.sum(axis=1) if summed else want)


def test_rows_without_elements_are_not_loaded() -> None:
    x = te.placeholder((te.size("n"), 0), name="X")
    assert build(te.scan(x, 1, "sum"), [x])(np.ones((5, 0), "f")).shape == (5, 0)


def test_rows_that_a_step_may_not_read_are_not_loaded() -> None:
    x, b = te.placeholder((7, 45), name="X"), te.placeholder((7, 45), name="B")
    source = te.compute((7, 45), lambda i, j: te.select(b[i, j] > 0, x[i, j], 0.0), "S")
    machine = "l2=64,l3=100000000"
    for y, loaded in ((te.scan(x, 1, "max"), True), (te.scan(source, 1, "max"), False)):
        with described(machine):
            kernels = lower_program([y], [x, b]).kernels
        assert any(map(line_loops, kernels)) == loaded


def test_the_blocks_of_small_caches_are_those_of_large_ones() -> None:
    out, inputs = gradient_of_pool((4, 3, 64, 280), "float32")
    arrays = [RNG.standard_normal(t.shape).astype("f") for t in inputs]
    want = build(out, inputs)(*arrays)
    for machine in (SMALL_CACHES, FAR, "l1=1024,l2=2048,l3=4096"):
        with described(machine):
            np.testing.assert_array_equal(build(out, inputs)(*arrays), want)
