"""Sums over rows in the loop over those rows: one pass over memory, the same bits."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.autodiff import vjp
from tensorad.codegen.cost.parallel_work import loop_work
from tensorad.codegen.cost.predict import predict
from tensorad.codegen.fusion import fusion_passes
from tensorad.codegen.loops.ir import For, Kernel, LoopProgram, Prefetch, Store
from tensorad.codegen.loops.substitute import joined_strips, walked_range
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.loops.visit import statements
from tensorad.codegen.lower import lower_program
from tensorad.config import override
from tensorad.errors import BoundsError
from tensorad.ir.expr import Const
from tensorad.ir.order import reads
from tensorad.ir.tensor import Tensor
from tensorad.topi.nn import layer_norm
from tests.support.machines import described

SMALL_CACHE = "l2=262144"


def normalised(rows: int, columns: int) -> tuple[list[Tensor], list[Tensor]]:
    """A layer normalisation with all its gradients, and what they read."""
    x = te.placeholder((rows, columns), name="X")
    g, b = (te.placeholder((columns,), name=n) for n in "gb")
    y = layer_norm(x, g, b, axis=1)
    head = te.placeholder((rows, columns), name="head")
    return [y, *vjp(y, [x, g, b], head)], [x, g, b, head]


def lowered(rows: int, columns: int) -> LoopProgram:
    with described(SMALL_CACHE):
        program = lower_program(*normalised(rows, columns))
    verify_loops(program)
    return program


def readers(program: LoopProgram, name: str) -> list[Kernel]:
    return [k for k in program.kernels if any(t.name == name for t in k.reads)]


def test_sums_of_rows_read_them_beside_the_rows() -> None:
    program = lowered(2048, 256)
    assert len(readers(program, "X")) == 1
    assert len(readers(program, "head")) == 1
    assert [k.body[-1].kind for k in readers(program, "X")] == ["parallel"]  # type: ignore[union-attr]


def test_long_rows_are_added_in_the_pass_that_reads_them_last() -> None:
    """Four rows of X and of the head fill the first cache; the gradients add one row at a time."""
    with described(f"{SMALL_CACHE},l1=32768"):
        (kernel,) = readers(lower_program(*normalised(2048, 1024)), "X")
        (short,) = readers(lower_program(*normalised(2048, 256)), "X")
    for k, together in ((kernel, True), (short, False)):
        stored = [
            [t.name for c in s.body if isinstance(c, Store) for t in c.tensors]
            for s in statements(k.body)
            if isinstance(s, For) and s.kind == "vector"
        ]
        assert (["dX", "dg.blocks", "db.blocks"] in stored) is together


def test_sums_begin_inside_of_a_line_where_the_rows_do() -> None:
    """Whatever the line, the results are the same, and nothing beside them is written."""
    (_, *gradients), inputs = normalised(1024, 1024)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(t.shape).astype("f4") for t in inputs]
    with described(f"{SMALL_CACHE},l1=32768,l3=2097152", num_threads=2):
        program = lower_program(gradients, inputs)
        (kernel,) = readers(program, "X")
        assert [(s.name, s.shape, t.name) for s, t in kernel.beside] == [
            ("dg.blocks", (2048,), "dX"), ("db.blocks", (2048,), "dX"),
        ]  # fmt: skip
        assert any(isinstance(s, Store) and s.streaming for s in statements(kernel.body))
        f = ta.build(gradients, inputs)
        want = f(*arrays)
        for start in (0, 1, 4, 15):
            block = np.full(1024 * 1024 + 64, 7.0, "f4")
            start += -block.ctypes.data % 64 // 4
            rows = block[start : start + 1024 * 1024].reshape(1024, 1024)
            got = f(*arrays, out=[rows, np.empty(1024, "f4"), np.empty(1024, "f4")])
            for have, expected in zip(got, want, strict=True):
                assert np.array_equal(have, expected)
            assert np.all(block[:start] == 7) and np.all(block[start + 1024 * 1024 :] == 7)


def test_rows_that_do_not_fill_blocks_come_last() -> None:
    (kernel,) = readers(lowered(2053, 256), "X")
    main, *rest = kernel.body
    assert isinstance(main, For) and main.kind == "parallel" and main.axis.extent == 28
    assert rest


def test_columns_of_another_order_are_added_up_apart() -> None:
    x = te.placeholder((2048, 512), name="X")
    k = te.reduce_axis((0, 2048), "k")
    m = te.reduce_axis((0, 512), "m")
    rows = te.compute((2048,), lambda i: te.sum(x[i, m], axis=m), "R")
    late = te.compute((512,), lambda j: te.sum(x[k, j] * rows[2047 - k], axis=k), "Y")
    with described(SMALL_CACHE):
        program = lower_program([late], [x])
    assert len(readers(program, "X")) == 2  # the first rows need what the last ones make


@pytest.mark.parametrize(("rows", "columns"), [(2048, 256), (2053, 256), (2053, 1024)])
def test_sums_beside_their_rows_have_the_same_bits(
    rows: int, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs, inputs = normalised(rows, columns)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(t.shape).astype("f4") for t in inputs]
    with described(SMALL_CACHE, num_threads=2):
        joined = ta.build(outputs, inputs)(*arrays)
        monkeypatch.setattr(fusion_passes, "TILING_PASSES", ())
        apart = ta.build(outputs, inputs)(*arrays)
    for have, want in zip(joined, apart, strict=True):
        assert np.array_equal(have, want)


@pytest.mark.parametrize("rows", [2048, 2053])
def test_sums_wait_for_columns_that_a_later_loop_stores(rows: int) -> None:
    """The last columns of T are a loop of their own, after that over the others."""
    x, k = te.placeholder((rows, 256), name="X"), te.reduce_axis(rows, name="k")
    t = te.compute(
        (rows, 256), lambda i, j: x[i, j] + te.select(j < 253, x[i, j + 3], 0.0), name="T"
    )
    y = te.compute((256,), lambda j: te.sum(t[k, j] * x[k, j], axis=k), name="Y")
    want = np.where(np.arange(256) < 253, 2.0 * rows, rows)
    with described(SMALL_CACHE):
        (_, got) = ta.build([t, y], [x])(np.ones((rows, 256), "f4"))
    assert np.array_equal(got, want)


def test_checks_of_rows_stay_before_what_reads_by_them() -> None:
    index, w = te.placeholder((2048, 256), "int64", "idx"), te.placeholder((77,), name="W")
    k = te.reduce_axis(2048, name="k")
    t = te.compute(index.shape, lambda i, j: w[index[i, j]], name="T")
    y = te.compute((256,), lambda j: te.sum(index[k, j].astype("float32"), axis=k), name="Y")
    picked = np.arange(2048 * 256).reshape(2048, 256) % 77
    table = np.arange(77, dtype="f4")
    with described(SMALL_CACHE):
        f = ta.build([t, y], [index, w], schedule=ta.Schedule(parallel=False))
        rows, sums = f(picked, table)
        assert np.array_equal(rows, picked) and np.array_equal(sums, picked.sum(0))
        picked[2047, 255] = 78
        with pytest.raises(BoundsError, match="78"):
            f(picked, table)


def added_rows(rows: int, width: int, count: int) -> tuple[Tensor, list[Tensor]]:
    """The gradient of picked rows: rows added to those of a table."""
    table, index = te.placeholder((rows, width), name="T"), te.placeholder((count,), "int64", "idx")
    picked = te.compute((count, width), lambda i, j: table[index[i], j], name="Y")
    head = te.placeholder((count, width), name="head")
    (d,) = vjp(picked, [table], head)
    return d, [table, index, head]


def check_added_rows(d: Tensor, inputs: list[Tensor]) -> None:
    """The bits of NumPy's loop on any number of threads, and no element left as it was."""
    rows, width, count = (int(n) for n in (*d.shape, inputs[1].shape[0]))
    rng = np.random.default_rng(0)
    arrays = [
        np.zeros((rows, width), "f4"),
        rng.integers(0, rows, count),
        rng.standard_normal((count, width)).astype("f4"),
    ]
    want = np.zeros((rows, width), "f4")
    np.add.at(want, arrays[1], arrays[2])
    f = ta.build(d, inputs)
    for threads in (1, 2, 3, 8):
        with override(num_threads=threads):
            out = np.full((rows, width), np.nan, "f4")
            assert np.array_equal(f(*arrays, out=out), want)


def test_strips_of_one_thread_run_as_one() -> None:
    d, inputs = added_rows(3, 200, 8192)
    kernel = lower_program([d], inputs).kernels[-1]
    fill, updates = kernel.body
    assert isinstance(updates, For) and updates.kind == "parallel" and updates.axis.extent == 4
    assert joined_strips(updates) is not None
    assert isinstance(fill, For) and joined_strips(fill) is None  # nothing between to run again
    check_added_rows(d, inputs)


@pytest.mark.parametrize(("rows", "count"), [(8, 8192), (63, 5000), (500, 8192)])
def test_threads_add_to_the_rows_that_they_filled(rows: int, count: int) -> None:
    d, inputs = added_rows(rows, 100, count)
    with described("cores=4"):
        program = lower_program([d], inputs)
    verify_loops(program)
    kernel = program.kernels[-1]
    fill, updates = kernel.body
    assert isinstance(fill, For) and (fill.kind == "parallel") is (rows == 500)
    assert isinstance(updates, For) and updates.kind == "parallel" and updates.axis.extent == 8
    assert [t.shape for t in kernel.scratch] == [(1024,), (1024,)]
    joined = joined_strips(updates)
    assert joined is not None and walked_range(updates) is not None
    (walk,) = joined.body
    assert isinstance(walk, For) and walk.axis.extent == -(-count // 1024)  # one, for many ranges
    check_added_rows(d, inputs)


def test_a_walk_counts_once_however_many_ranges_there_are() -> None:
    d, inputs = added_rows(500, 100, 8192)
    kernel = lower_program([d], inputs).kernels[-1]
    updates = kernel.body[1]
    assert isinstance(updates, For)
    work = loop_work(updates)
    assert isinstance(work, Const) and 8192 * 7 * 4 < work.value < 8192 * 7 * 16
    assert predict(kernel, {}).flops == 8192 * 100


@pytest.mark.parametrize(("rows", "width"), [(500, 32), (3, 100)], ids=["short rows", "few rows"])
def test_other_rows_that_data_picks_are_not_shared_by_ranges(rows: int, width: int) -> None:
    """To look at an index would cost as much as the update, or few threads had rows."""
    d, inputs = added_rows(rows, width, 8192)
    updates = lower_program([d], inputs).kernels[-1].body[1]
    assert isinstance(updates, For) and walked_range(updates) is None
    check_added_rows(d, inputs)


def test_rows_in_a_range_are_prefetched() -> None:
    """Only those: another thread's stay in its cache."""
    d, inputs = added_rows(3000, 128, 4096)
    with described("l2=65536,l3=1048576,line=64"):
        kernel = lower_program([d], inputs).kernels[-1]
        fetched = [s for s in statements(kernel.body) if isinstance(s, Prefetch)]
        assert [s.tensor.name for s in fetched] == ["dT", "head"]
        listed = [e.tensor for s in fetched for e in reads(s.indices[0])]
        assert tuple(listed) == kernel.scratch
        check_added_rows(d, inputs)


@pytest.mark.parametrize("bad", [0, 15, 16, 40])
def test_indices_are_checked_in_lanes(bad: int) -> None:
    table, index = te.placeholder((10,), name="T"), te.placeholder((41,), "int64", "idx")
    y = te.compute((41,), lambda i: table[index[i]], name="Y")
    (check, _) = lower_program([y], [table, index]).kernels
    assert isinstance(check.body[0], For) and check.body[0].kind == "vector"
    picked = np.arange(41) % 10
    f = ta.build(y, [table, index])
    assert np.array_equal(f(np.arange(10, dtype="f4"), picked), picked.astype("f4"))
    picked[bad:] = 70 + np.arange(41 - bad)
    with pytest.raises(BoundsError, match="70"):
        f(np.arange(10, dtype="f4"), picked)
