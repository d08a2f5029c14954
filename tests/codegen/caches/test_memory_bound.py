"""Loops over large arrays: streaming stores, shared loads, transposed blocks, prefetches."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import te, topi
from tensorad.building import build
from tensorad.codegen.caches.write_combining import with_write_combining
from tensorad.codegen.directives import Choices
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.ir import Assign, For, Kernel, LoopProgram, Store
from tensorad.codegen.loops.kernel_key import kernel_key
from tensorad.codegen.loops.visit import statements
from tensorad.codegen.lower import lower_program
from tensorad.codegen.runtime.kernel_cache import kernel_text
from tensorad.ir.expr import Expr, add, axis, const, int_const, param, read
from tensorad.ir.tensor import Tensor
from tests.support.machines import described

RNG = np.random.default_rng(5)
SMALL_CACHES = "l2=4096,l3=16384"


def text_of(outputs: list[Tensor], inputs: list[Tensor], machine: str = SMALL_CACHES) -> str:
    """The LLVM text of all kernels, for a machine whose caches are small."""
    with described(machine):
        kernels = lower_program(outputs, inputs).kernels
        return "\n".join([kernel_text(k, kernel_key(k)[1])[0] for k in kernels])


def array_at(shape: tuple[int, ...], dtype: str, offset: int) -> Any:
    """An array whose first byte lies `offset` bytes behind a multiple of 64."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    block = np.full(size + 128, 255, np.uint8)
    start = -block.ctypes.data % 64 + offset
    return block[start : start + size].view(dtype).reshape(shape)


def pool(shape: tuple[int, ...], kind: str) -> tuple[Tensor, Tensor]:
    x = te.placeholder(shape, name="X")
    return topi.nn.pool(x, [2, 2], [2, 2], [0, 0, 0, 0], kind), x


def test_only_outputs_beyond_the_last_cache_are_streamed() -> None:
    a, b = (te.placeholder((64, 256), name=n) for n in "AB")
    y = te.compute((64, 256), lambda i, j: a[i, j] + b[i, j], "Y")
    text = text_of([y], [a, b], f"{SMALL_CACHES},vector_bytes=64,registers=32")
    assert text.count("!nontemporal") == 4 + 1  # groups of registers, then single ones
    assert text.count("fence seq_cst") == 1
    assert "!nontemporal" not in text_of([y], [a, b], "l3=100000000")


def test_what_is_read_again_is_not_streamed() -> None:
    table, place = te.placeholder((64, 256), name="T"), te.placeholder((999,), "int64", name="P")
    y = te.compute((999, 256), lambda i, j: table[place[i], j], "Y")
    head = te.placeholder((999, 256), name="H")
    (gradient,) = ta.vjp(y, [table], head)
    assert "!nontemporal" in text_of([y], [table, place])
    assert "!nontemporal" not in text_of([gradient], [place, head])


def test_rows_of_a_loop_inside_do_not_stream_as_the_last_one_could() -> None:
    """An odd row is stored by the vector loop itself, and begins at another place of a line."""
    a, b = te.placeholder((61, 256), name="A"), te.placeholder((256, 500), name="B")
    k = te.reduce_axis(256, name="k")
    y = te.compute((61, 500), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "Y")
    chosen = Choices(contract=False, streaming=True, parallel=False)
    (kernel,) = lower_program([y], [a, b], choices=chosen).kernels
    (lanes,) = [s for s in kernel.body if isinstance(s, For)]
    stored = [s for s in statements(lanes.body) if isinstance(s, Store)]
    assert lanes.kind == "vector" and any(s in stored for s in lanes.body)
    assert any(s not in lanes.body for s in stored)
    assert "!nontemporal" not in kernel_text(kernel, kernel_key(kernel)[1])[0]
    given = [RNG.integers(-9, 9, t.shape).astype("f4") for t in (a, b)]
    assert np.array_equal(build(y, [a, b], schedule=chosen)(*given), given[0] @ given[1])


def test_two_outputs_stream_where_both_are_aligned() -> None:
    a = te.placeholder((64, 256), name="A")
    outputs = [te.compute((64, 256), lambda i, j: a[i, j] * c, f"Y{c}") for c in (2.0, 3.0)]
    f = build(outputs, [a], schedule=ta.Schedule(streaming=True))
    x = RNG.standard_normal((64, 256)).astype("f")
    for offsets in ((0, 0), (4, 4), (4, 8), (60, 0)):
        got = [array_at((64, 256), "float32", at) for at in offsets]
        f(x, out=got)
        np.testing.assert_array_equal(got[0], x * 2)
        np.testing.assert_array_equal(got[1], x * 3)


@pytest.mark.parametrize("offset", [0, 4, 60])
@pytest.mark.parametrize("n", [5, 301])
def test_streamed_rows_start_anywhere(n: int, offset: int) -> None:
    a, v = te.placeholder((6, n), name="A"), te.placeholder((n,), name="V")
    y = te.compute((6, n), lambda i, j: a[i, j] * v[j], "Y")
    f = build(y, [a, v], schedule=ta.Schedule(streaming=True))
    x, w = RNG.standard_normal((6, n)).astype("f"), RNG.standard_normal(n).astype("f")
    around = array_at((6 * n + 32,), "float32", offset)
    before = around.copy()
    f(x, w, out=around[16:-16].reshape(6, n))
    np.testing.assert_array_equal(around[16:-16].reshape(6, n), x * w)
    outside = np.r_[0:16, 6 * n + 16 : 6 * n + 32]
    np.testing.assert_array_equal(around[outside].view("i"), before[outside].view("i"))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("width", [280, 600])
@pytest.mark.parametrize("kind", ["avg", "max"])
def test_pools_with_streamed_gradients(kind: str, width: int) -> None:
    y, x = pool((2, 3, 6, width), kind)
    head = te.placeholder(y.shape, name="H")
    outputs = [y, *ta.vjp(y, [x], head)]
    arrays = [RNG.standard_normal(t.shape).astype("f") for t in (x, head)]
    want = build(outputs, [x, head], schedule=ta.Schedule(streaming=False))(*arrays)
    blocks = arrays[0].reshape(2, 3, 3, 2, width // 2, 2)
    reference = blocks.mean((3, 5)) if kind == "avg" else blocks.max((3, 5))
    np.testing.assert_allclose(want[0], reference, rtol=1e-5, atol=1e-6)
    for offset in (16, 36):
        got = [array_at(w.shape, "float32", offset) for w in want]
        with described(SMALL_CACHES):
            build(outputs, [x, head], schedule=ta.Schedule(streaming=True))(*arrays, out=got)
        for g, w in zip(got, want, strict=True):
            np.testing.assert_array_equal(g, w)


def test_a_pool_loads_every_vector_once() -> None:
    y, x = pool((2, 3, 64, 256), "max")
    text = text_of([y], [x], "l2=100000000,l3=100000000")
    loads, stores = (text.count(what) for what in ("= load <16 x float>", "store <16 x float>"))
    assert loads == 4 * stores > 0  # two rows of 32 elements for 16 maxima
    assert text.count("llvm.prefetch") == 0


def test_short_rows_are_streamed_through_a_buffer() -> None:
    y, x = pool((2, 3, 64, 280), "avg")
    head = te.placeholder(y.shape, name="H")
    (gradient,) = ta.vjp(y, [x], head)
    with described(SMALL_CACHES):
        (kernel,) = lower_program([gradient], [head]).kernels
    (lines,) = kernel.scratch
    assert lines.shape == (16 + 2 * 560,)  # a line, then turns that store below a burst
    text = text_of([gradient], [head])
    assert text.count("!nontemporal") == 4 + 1  # one loop that copies, and the rest of it
    y, x = pool((2, 3, 64, 256), "avg")
    head = te.placeholder(y.shape, name="H")
    text = text_of(list(ta.vjp(y, [x], head)), [head])
    assert text.count("fadd") + text.count("!nontemporal") == 4 + 1  # the same for whole lines


@pytest.mark.parametrize("shape", [(3, 5, 7, 9), (1, 2, 31, 3), (2, 2, 13, 34)])
def test_rows_that_begin_anywhere_fill_their_buffers(shape: tuple[int, ...]) -> None:
    x = te.placeholder(shape, name="X")
    y = te.compute((*shape[:3], shape[3] - 1), lambda n, c, i, j: x[n, c, i, j] * x[n, c, i, j + 1])
    z = topi.nn.pool(x, [2, 1], [2, 1], [0, 0, 0, 0], "max")
    a = RNG.standard_normal(shape).astype("f")
    for out in (y, z):
        f, plain = (build(out, [x], schedule=ta.Schedule(streaming=s)) for s in (True, False))
        for offset in (0, 20):
            got = array_at(out.shape, "float32", offset)
            np.testing.assert_array_equal(f(a, out=got), plain(a))


@pytest.mark.parametrize("offsets", [(0, 1), (1, 2, 5), (0, 3, 4, 7)])
@pytest.mark.parametrize("stride", [2, 3, 4])
@pytest.mark.parametrize("dtype", ["float32", "bool"])
def test_neighbouring_reads_share_vectors(
    stride: int, offsets: tuple[int, ...], dtype: str
) -> None:
    n = 53
    x = te.placeholder((stride * n + 8,), dtype, name="X")
    outputs = [te.compute((n,), lambda i, c=c: x[stride * i + c], f"Y{c}") for c in offsets]
    a = RNG.integers(0, 2 if dtype == "bool" else 999, x.shape[0]).astype(dtype)
    for c, y in zip(offsets, build(outputs, [x])(a), strict=True):
        np.testing.assert_array_equal(y, a[c : c + stride * n : stride])


def transposed(shape: tuple[int, ...], dtype: str) -> tuple[Tensor, Tensor]:
    a = te.placeholder(shape, dtype, name="A")
    return te.compute((*shape[:-2], *shape[:-3:-1]), lambda *i: a[*i[:-2], i[-1], i[-2]], "Y"), a


@pytest.mark.sampled(5)
@pytest.mark.parametrize("shape", [(17, 33), (2, 40, 21)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int16", "bool"])
def test_transposed_copies(shape: tuple[int, ...], dtype: str) -> None:
    y, a = transposed(shape, dtype)
    x = RNG.integers(0, 2 if dtype == "bool" else 999, shape).astype(dtype)
    np.testing.assert_array_equal(build(y, [a])(x), np.swapaxes(x, -1, -2))


@pytest.mark.parametrize(
    ("register", "columns", "loads", "shuffles", "fences"),
    [
        (64, 80, {8: 32, 4: 0}, 16 + 3 * 16, 16),  # joins, then rounds of exchanges
        (32, 80, {8: 0, 4: 64}, 3 * 16 + 2 * 16, 0),  # none beyond 16 bytes
        (32, 1024, {8: 32, 4: 0}, 16 + 3 * 16, 16),  # rows 4 kB apart: fewer pieces of a line
        (16, 80, {8: 0, 4: 64}, 3 * 16 + 2 * 16, 0),
    ],
)
def test_a_transposed_block_is_loaded_by_pieces_of_rows_and_shuffled(
    register: int, columns: int, loads: dict[int, int], shuffles: int, fences: int
) -> None:
    y, a = transposed((64, columns), "float32")
    text = text_of([y], [a], f"l2=100000000,l3=100000000,vector_bytes={register}")
    assert "gather" not in text
    assert text.count("= load <16 x float>") == 0
    assert {n: text.count(f"= load <{n} x float>") for n in loads} == loads
    assert text.count("shufflevector") == shuffles
    assert text.count("= call <16 x float> @llvm.arithmetic.fence") == fences
    assert text.count("store <16 x float>") == 16


@pytest.mark.sampled(12)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
@pytest.mark.parametrize("columns", range(1, 34, 3))
def test_rows_of_few_columns_are_transposed(columns: int, dtype: str) -> None:
    y, a = transposed((37, columns), dtype)
    x = RNG.integers(-99, 99, (37, columns)).astype(dtype)
    np.testing.assert_array_equal(build(y, [a])(x), x.T)
    across = build(y, [a], schedule=ta.Schedule(across=True, streaming=True))
    np.testing.assert_array_equal(across(x), x.T)


def test_whole_tiles_stream_and_prefetch() -> None:
    y, a = transposed((256, 64), "float32")
    streamed = text_of([y], [a])
    assert streamed.count("!nontemporal") == 16
    assert streamed.count("call void @llvm.prefetch") >= 16


def test_the_transpose_of_a_formula_reads_rows_too() -> None:
    a, b = te.placeholder((50, 70), name="A"), te.placeholder((70, 50), name="B")
    y = te.compute((70, 50), lambda i, j: a[j, i] * b[i, j] + a[j, i], "Y")
    x, w = (RNG.standard_normal(t.shape).astype("f") for t in (a, b))
    np.testing.assert_allclose(build(y, [a, b])(x, w), x.T * w + x.T, rtol=1e-5, atol=1e-6)
    assert "gather" not in text_of([y], [a, b])


def test_short_contiguous_rows_are_one_loop() -> None:
    x, m = te.placeholder((8, 6, 7, 9), name="X"), te.placeholder((6,), name="M")
    y = te.compute((8, 6, 7, 9), lambda n, c, i, j: x[n, c, i, j] * m[c], "Y")
    text = text_of([y], [x, m], "l2=100000000,l3=100000000")
    assert "div" not in text and "rem" not in text  # the digits of addresses are joined
    assert "gather" not in text and "scatter" not in text
    extents = [s.axis.extent for s in statements(lower_program([y], [x, m]).kernels[0].body)
               if isinstance(s, For)]  # fmt: skip
    assert extents == [8, 6, 63]
    a, b = (RNG.standard_normal(t.shape).astype("f") for t in (x, m))
    np.testing.assert_array_equal(build(y, [x, m])(a, b), a * b[:, None, None])


@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 4, 5), (7, 1, 9), (0, 4)])
def test_flat_loops_store_what_rows_store(shape: tuple[int, ...]) -> None:
    x = te.placeholder(shape, name="X")
    a = RNG.standard_normal(shape).astype("f")
    number = lambda *i: x[i] + i[-1]  # noqa: E731  # an axis used as a number keeps its loop
    for formula, want in ((lambda *i: x[i] * 2.0, a * 2), (number, a + np.arange(shape[-1]))):
        y = te.compute(shape, formula, "Y")
        for flat in (None, True, False):
            got = build(y, [x], schedule=ta.Schedule(flat=flat))(a)
            np.testing.assert_array_equal(got, want.astype("f"))


def test_one_long_axis_is_shared_in_long_strips() -> None:
    x = te.placeholder((3_000_000,), name="X")
    kernel = lower_program([te.compute(x.shape, lambda i: x[i] + 1.0, "Y")], [x]).kernels[0]
    outer, inner = (s for s in statements(kernel.body) if isinstance(s, For))
    assert (outer.kind, inner.kind) == ("parallel", "vector")
    assert outer.axis.extent == -(-3_000_000 // 16384)


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("shape", [(48, 80), (45, 83)])
def test_strips_of_a_transpose_start_anywhere(shape: tuple[int, int], streaming: bool) -> None:
    y, a = transposed(shape, "float32")
    f = build(y, [a], schedule=ta.Schedule(across=True, streaming=streaming))
    n = shape[0] * shape[1]
    for source, target in ((0, 0), (4, 36), (60, 16)):
        x = array_at(shape, "float32", source)
        x[...] = RNG.standard_normal(shape)
        around = array_at((4 * n + 128,), "uint8", target)
        got = np.ndarray((*shape[::-1],), "f", around[64:-64])
        f(x, out=got)
        np.testing.assert_array_equal(got, x.T)
        assert (around[:64] == 255).all() and (around[-64:] == 255).all()


@pytest.mark.parametrize("register", ["none", "summed", "counted"])
def test_a_loop_whose_registers_another_uses_does_not_run_beside_it(register: str) -> None:
    x, y, z = (te.placeholder((64, 60), "float64", name=n) for n in "XYZ")
    first, i, j, last = axis("i", 0, 64), axis("i", 0, 64), axis("j", 0, 60), axis("j", 0, 60)
    total, count = param("total", x.dtype), param("count", x.dtype)
    zero, one = const(0.0, x.dtype), const(1.0, x.dtype)
    sums = {"none": (), "summed": (total,), "counted": (count,)}[register]
    adds = [Assign((p,), (add(p, read(x, (first, int_const(0)))),)) for p in sums]
    before = For(
        first,
        (*adds, For(last, (Store((z,), (first, last), (read(x, (first, last)),)),), "vector")),
    )
    value = add(read(z, (i, j)), total)
    body = (
        Assign((count,), (add(count, one),)),
        For(j, (Store((y,), (i, j), (value,)),), "vector"),
    )
    start = Assign((total, count), (zero, zero))
    rows, buffers = with_write_combining((start, before, For(i, body)), {y: None}, (z,))
    assert len(buffers) == 1
    assert len(rows) == (2 if register == "none" else 3)
    loops = LoopProgram((x,), (y,), (Kernel("Y", rows, (y, z), (x,), tuple(buffers)),))
    given = RNG.integers(-9, 10, (64, 60)) * 1.0
    (have,), _ = interpret_loops(loops, {x: given})
    np.testing.assert_array_equal(have, given + (given[:, 0].sum() if register == "summed" else 0))


def test_long_rows_are_transposed_in_strips_that_reach_whole_lines() -> None:
    y, a = transposed((2048, 100), "float32")
    loops = [s for s in statements(lower_program([y], [a]).kernels[0].body) if isinstance(s, For)]
    assert [s.covering for s in loops] == [False, True, False]
    assert [s.axis.extent for s in loops[:2]] == [8, 6]  # tiles start at 0, 16, .. 80, and at 84
    assert "gather" not in text_of([y], [a])
    plain = lower_program([y], [a], choices=ta.Schedule(across=False)).kernels[0].body
    assert not any(s.covering for s in statements(plain) if isinstance(s, For))


def test_short_rows_that_follow_each_other_are_not_prefetched() -> None:
    """The processor follows one stream by itself, and asking takes its time."""
    x, k = te.placeholder((8192, 256), name="X"), te.reduce_axis(128, name="k")
    halves = te.compute((8192,), lambda i: te.sum(x[i, k], axis=k), name="H")
    k1 = te.reduce_axis(256, name="k1")
    rows = te.compute((8192,), lambda i: te.sum(x[i, k1], axis=k1), name="S")
    texts = [text_of([t], [x], "l2=4096,l3=100000000") for t in (rows, halves)]
    found = [text.count("llvm.prefetch") for text in texts]
    assert found[0] == 0 and found[1] > 0


@pytest.mark.parametrize("window", [2, 13])
def test_narrow_winners_find_the_same_elements(window: int) -> None:
    x = te.placeholder((3, 5, 26, 39), name="X")
    y = topi.nn.pool(x, [window] * 2, [window] * 2, [0, 0, 0, 0], "max")
    head = te.placeholder(y.shape, name="H")
    (gradient,) = ta.vjp(y, [x], head)
    a = RNG.integers(0, 3, (3, 5, 26, 39)).astype("f")
    a[1, 2, 3:9, 4:20] = np.nan
    h = RNG.standard_normal(tuple(int(n) for n in y.shape)).astype("f")  # type: ignore[arg-type]
    plain = build(gradient, [x, head], schedule=ta.Schedule(vector=False, fuse=False))(a, h)
    for choices in (ta.Schedule(fuse=True), ta.Schedule(fuse=True, streaming=True)):
        np.testing.assert_array_equal(build(gradient, [x, head], schedule=choices)(a, h), plain)


def test_short_rows_are_stored_whole_where_others_are_read_across() -> None:
    """Lanes along the stored axis, though as many registers of the other one would be full."""
    b = te.placeholder((2, 30, 10, 11), name="B")
    y = te.compute((2, 10, 11, 30), lambda n, i, j, c: b[n, c, i, j], "Y")
    text = text_of([y], [b])
    assert "scatter" not in text and "gather" not in text.split("define")[1].split("done")[0]
    x = RNG.standard_normal((2, 30, 10, 11)).astype("f")
    for choices in (None, ta.Schedule(across=True), ta.Schedule(across=False)):
        got = build(y, [b], schedule=choices)(x)
        np.testing.assert_array_equal(got, x.transpose(0, 2, 3, 1))


def test_rows_that_lie_apart_are_not_prefetched_beyond_their_ends() -> None:
    b = te.placeholder((20, 300, 100), name="B")
    across = te.compute((300, 20, 100), lambda i, n, j: b[n, i, j], "Y")
    assert "llvm.prefetch" not in text_of([across], [b], "l2=4096,l3=100000000")


@pytest.mark.parametrize("dtype", ["int16", "uint8"])
def test_a_single_lane_left_stores_one_narrow_element(dtype: str) -> None:
    x = te.placeholder((33, 20), name="X")
    y = te.compute((20, 33), lambda i, j: x[j, i].astype(dtype), "Y")
    a = RNG.integers(0, 99, (33, 20)).astype("f")
    around = np.full(20 * 33 + 64, 7, dtype)
    got = around[:-64].reshape(20, 33)
    build(y, [x])(a, out=got)
    np.testing.assert_array_equal(got, a.T.astype(dtype))
    assert (around[-64:] == 7).all()


def test_windows_of_one_loop_are_not_those_of_a_loop_with_more_lanes() -> None:
    a, b = te.placeholder((10, 50), "int64", name="A"), te.placeholder((97, 10), "int64", name="B")
    k = te.reduce_axis(10, name="k")
    c = te.compute((50, 97), lambda i, j: te.sum(a[k, i] * b[j, k], axis=k), name="C")
    with described("l2=2048,l3=16384"):
        f = build(c, [a, b], schedule=ta.Schedule(contract=True, block=17))
    x, y = np.arange(500).reshape(10, 50), np.arange(970).reshape(97, 10)
    assert (f(x, y) == (y @ x).T).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "functions", [*[pytest.param(n, marks=pytest.mark.slow) for n in (0, 2)], 1]
)
def test_rows_that_are_long_computed_are_stored_without_copies(functions: int) -> None:
    """A copy of whole lines saves time where memory is waited for, and costs some elsewhere."""
    x, s = te.placeholder((512, 100), name="X"), te.placeholder((512,), name="S")

    def term(i: Expr, j: Expr) -> Expr:
        value = x[i, j]
        for _ in range(functions):
            value = te.exp(value)
        return value

    y = te.compute((512, 100), lambda i, j: term(i, j) * s[i], name="Y")
    with described("l2=4096,l3=65536"):
        program = lower_program([y], [x, s])
    (kernel,) = program.kernels
    assert ("Y.lines" in [t.name for t in kernel.scratch]) == (not functions)
    given, by = (RNG.integers(-9, 1, n) / 8 for n in ((512, 100), (512,)))
    (have,), _ = interpret_loops(program, {x: given.astype(np.float32), s: by.astype(np.float32)})
    want = given.astype(np.float32)
    for _ in range(functions):
        want = np.exp(want)
    np.testing.assert_allclose(have, want * by[:, None], rtol=1e-5)


def test_later_rows_are_prefetched_up_to_the_line_of_their_last_element() -> None:
    """Rows of whole lines that begin inside of one: their last line is nobody else's first soon."""
    x = te.placeholder((64, 2048), name="X")
    text = text_of([topi.nn.softmax(x)], [x], "l2=262144,l3=100000")
    asked = re.findall(r"llvm.prefetch.p0\(ptr (%\w+), i32 0, i32 2", text)
    found = [re.search(rf"{p} = getelementptr float, ptr %\w+, i64 (\d+)", text) for p in asked]
    assert [int(m.group(1)) for m in found if m] == [2048 + 16 * n + 15 for n in range(4)]
