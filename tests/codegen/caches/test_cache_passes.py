"""Passes over finished kernels, one by one: what they ensure, and that values stay."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from tensorad import te
from tensorad.codegen.caches.cache_hints import streamed_tensors, tensors_beyond_l2
from tensorad.codegen.caches.fuse_passes import with_joined_passes
from tensorad.codegen.caches.kernel_passes import finished_kernel
from tensorad.codegen.caches.misaligned_tiles import with_tile_buffers
from tensorad.codegen.caches.narrow_scratch import with_narrow_scratch
from tensorad.codegen.caches.pass_legality import with_pass
from tensorad.codegen.caches.prefetch_indirect import indirect_rows, with_indirect_prefetches
from tensorad.codegen.caches.prefetch_next_row import with_next_row_prefetches
from tensorad.codegen.caches.symbolic_strips import with_symbolic_strips
from tensorad.codegen.caches.unread_scratch import without_unread_scratch
from tensorad.codegen.caches.write_combining import with_write_combining
from tensorad.codegen.directives import Choices, Schedules
from tensorad.codegen.loops.ir import For, Kernel, Prefetch, Store
from tensorad.codegen.loops.visit import statements
from tensorad.ir.dtypes import INT8, INT64
from tensorad.ir.expr import Expr, axis, call, int_const, read
from tensorad.ir.tensor import Tensor
from tests.support.loops.small_loops import arrays_for, computed, fused, kernel_of, loops_in
from tests.support.machines import described

TINY = "l2=512,l3=2048"
N, M = 8, 64
X = te.placeholder((N, M), name="X")
PICK = te.placeholder((N,), "int64", name="P")
SYMBOLIC = te.placeholder((te.size("n"), te.size("m")), name="S")
Pass = Callable[[Kernel], Kernel]


def doubled(x: Tensor = X) -> Tensor:
    return te.compute(x.shape, lambda i, j: x[i, j] * 2.0, name="Y")


def normalised() -> Tensor:
    k = te.reduce_axis(M, name="k")
    e = te.compute((N, M), lambda i, j: X[i, j] * X[i, j], name="E")
    s = te.compute((N,), lambda i: te.sum(e[i, k], axis=k), name="T")
    return te.compute((N, M), lambda i, j: e[i, j] - s[i], name="Y")


def turned(x: Tensor) -> Tensor:
    return te.compute(x.shape[::-1], lambda i, j: x[j, i], name="Y")


def check_same(
    before: Kernel, after: Kernel, sizes: Mapping[str, int] | None = None, *inputs: Tensor
) -> None:
    """Both store the same."""
    if sizes is None:
        given = arrays_for(*(inputs or before.reads))
    else:
        shape = (sizes["n"], sizes["m"])
        given = {SYMBOLIC: np.arange(shape[0] * shape[1], dtype="float32").reshape(shape)}
    for a, b in zip(computed(before, given, sizes), computed(after, given, sizes), strict=True):
        np.testing.assert_array_equal(a, b)


def streaming(kernel: Kernel) -> int:
    return sum([isinstance(s, Store) and s.streaming for s in statements(kernel.body)])


def test_stores_beyond_the_caches_stream() -> None:
    (k,) = fused([doubled()], [X])
    with described("l2=1000000,l3=10000000"):
        assert streamed_tensors(k, Schedules()) == tensors_beyond_l2(k, assume_large=False) == []
        assert streaming(finished_kernel(k, Schedules())) == 0
    with described(TINY):
        assert streamed_tensors(k, Schedules()) == [*k.writes]
        made = finished_kernel(k, Schedules())
        plain = finished_kernel(k, Schedules(Choices(streaming=False)))
    assert (streaming(made), streaming(plain)) == (1, 0)
    check_same(k, made)


def test_neighbouring_passes_over_a_row_are_one() -> None:
    (k,) = fused([normalised()], [X], Choices(fuse=True, siblings=False))
    made = with_joined_passes(k, Schedules())
    lanes = [sum([s.kind == "vector" for s in loops_in(x.body)]) for x in (k, made)]
    assert lanes == [3, 2]
    check_same(k, made)
    (copy,) = fused([doubled()], [X])
    assert with_joined_passes(copy, Schedules()) is copy


def test_scratch_that_nobody_reads_goes() -> None:
    (k,) = fused([normalised()], [X], Choices(fuse=True, siblings=False))
    assert without_unread_scratch(k) is k
    unread = te.placeholder((N, M), name="U")
    i, j = axis("i", 0, N), axis("j", 0, M)
    idle = For(i, (For(j, (Store((unread,), (i, j), (X[i, j],)),)),))
    more = replace(k, body=(idle, *k.body), scratch=(*k.scratch, unread))
    made = without_unread_scratch(more)
    assert (made.scratch, len(made.body)) == (k.scratch, len(k.body))
    check_same(more, made)


@pytest.mark.slow
def test_the_next_row_is_prefetched_where_several_passes_read_it() -> None:
    i, j, k = axis("i", 0, 16), axis("j", 0, 1024), axis("k", 0, 1024)
    x, y, z = (te.placeholder((16, 1024), name=n) for n in "XYZ")
    first = For(j, (Store((y,), (i, j), (read(x, (i, j)),)),), "vector", 16)
    second = For(k, (Store((z,), (i, k), (call("exp", read(x, (i, k))),)),), "vector", 16)
    two = kernel_of([For(i, (first, second))], [y, z])
    one = kernel_of([For(i, (second,))], [z])
    with described("l2=32768,l3=65536"):
        made = with_next_row_prefetches(two)
        assert with_next_row_prefetches(one) is one
    with described("l2=1000000,l3=10000000"):
        assert with_next_row_prefetches(two) is two
    plain, computing = [s for s in loops_in(made.body) if s.kind == "vector"]
    found = [s for s in computing.body if isinstance(s, Prefetch)]
    assert [f.tensor for f in found] == [x]
    assert not any(isinstance(s, Prefetch) for s in plain.body)
    check_same(two, made)


def test_sizes_decide_between_two_versions() -> None:
    with described(TINY):
        (k,) = fused([doubled(SYMBOLIC)], [SYMBOLIC])
        made = finished_kernel(k, Schedules())
        (fixed,) = fused([doubled()], [X])
        one = finished_kernel(fixed, Schedules())
    assert len(made.body) == 2 * len(k.body)
    assert len(one.body) == len(fixed.body)
    check_same(k, made, {"n": 3, "m": 7})
    check_same(k, made, {"n": 40, "m": 60})


def through_scratch(value: Callable[[Expr], Expr]) -> Kernel:
    """Y[i] = float(S[i]) with S[i] = value(i), whole numbers in scratch."""
    i, j = axis("i", 0, N), axis("j", 0, N)
    s, y = te.placeholder((N,), "int64", name="S"), te.placeholder((N,), "float64", name="Y")
    fill = For(i, (Store((s,), (i,), (value(i),)),))
    use = For(j, (Store((y,), (j,), (read(s, (j,)).astype("float64"),)),))
    return kernel_of([fill, use], [y], [s])


def test_small_numbers_wait_in_few_bytes() -> None:
    k = through_scratch(lambda i: i * 15 - 10)
    made = with_narrow_scratch(k)
    assert [t.dtype for t in made.scratch] == [INT8]
    check_same(k, made)
    wide = through_scratch(lambda i: read(PICK, (i,)))
    assert with_narrow_scratch(wide) is wide
    assert [t.dtype for t in wide.scratch] == [INT64]


def two_passes(index: Callable[[Expr], Expr]) -> tuple[list[For], Tensor, Tensor]:
    """E[j] = 2 X[0, j], then Y[j] = E[index(j)] + 1, both in lanes."""
    e, y = (te.placeholder((M,), "float32", name=n) for n in "EY")
    i, j = axis("i", 0, M), axis("j", 0, M)
    first = Store((e,), (i,), (read(X, (int_const(0), i)) * 2.0,))
    second = Store((y,), (j,), (read(e, (index(j),)) + 1.0,))
    return [For(i, (first,), "vector"), For(j, (second,), "vector")], e, y


def test_a_pass_joins_the_one_whose_lane_it_reads() -> None:
    (first, second), e, y = two_passes(lambda j: j)
    made = with_pass([first], second, free=False)
    assert made is not None
    assert len(loops_in(made)) == 1
    check_same(kernel_of([first, second], [y], [e]), kernel_of(made, [y], [e]), None, X)
    (first, second), _, _ = two_passes(lambda j: int_const(M - 1) - j)
    assert with_pass([first], second, free=False) is None


def test_rows_that_data_picks_are_asked_for() -> None:
    y = te.placeholder((N, M), name="Y")
    table = te.placeholder((100, M), name="T")
    i, j = axis("i", 0, N), axis("j", 0, M)
    store = Store((y,), (i, j), (read(table, (read(PICK, (i,)), j)),))
    lanes = For(j, (store,), "vector")
    loop = For(i, (lanes,))
    assert [t for t, _ in indirect_rows(lanes, {table: None}, i)] == [table]
    assert indirect_rows(lanes, {table: None}, None) == []
    made = with_indirect_prefetches(loop, {table: None})
    assert [s.tensor for s in statements([made]) if isinstance(s, Prefetch)] == [table]
    assert not any(
        isinstance(s, Prefetch) for s in statements([with_indirect_prefetches(loop, {})])
    )
    given = {table: np.arange(100.0 * M).reshape(100, M), PICK: np.arange(N)[::-1] * 7}
    before, after = (computed(kernel_of([s], [y]), given)[0] for s in (loop, made))
    np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize(("width", "streams"), [(37, True), (37, False), (48, True)])
def test_rows_that_begin_inside_of_lines_go_through_buffers(width: int, streams: bool) -> None:
    x, y = te.placeholder((96, 16), name="X"), te.placeholder((16, width), name="Y")
    outer = axis("s", 0, width, 32)
    lane = axis("j", outer, call("minimum", int_const(width), outer + 32))
    rows = [Store((y,), (int_const(r), lane), (read(x, (lane, int_const(r))),)) for r in range(16)]
    strip = For(lane, tuple(rows), "vector", within=axis("j", 0, width))
    body = (For(outer, (strip,)),)
    made, buffers = with_tile_buffers(body, [y] if streams else [])
    assert bool(buffers) == (streams and width == 37)
    check_same(kernel_of(body, [y]), kernel_of(made, [y], buffers), None, x)


@pytest.mark.parametrize("streams", [False, True])
def test_tiles_across_symbolic_rows_take_strips(streams: bool) -> None:
    y = turned(SYMBOLIC)
    with described(TINY):
        (k,) = fused([y], [SYMBOLIC])
        body, buffers = with_symbolic_strips(k.body, [y] if streams else [])
    assert (len(loops_in(body)) > len(loops_in(k.body))) == streams == (body is not k.body)
    made = replace(k, body=body, scratch=(*k.scratch, *buffers))
    for sizes in ({"n": 5, "m": 7}, {"n": 48, "m": 64}):
        check_same(k, made, sizes)


def test_short_rows_are_combined_where_they_stream() -> None:
    i, j = axis("i", 0, 64), axis("j", 0, 60)
    x, y = te.placeholder((64, 60), name="X"), te.placeholder((64, 60), name="Y")
    rows = (For(i, (For(j, (Store((y,), (i, j), (read(x, (i, j)),)),), "vector"),)),)
    assert with_write_combining(rows, {}, ()) == (rows, [])
    assert with_write_combining(rows, {}, ())[0] is rows
    made, buffers = with_write_combining(rows, {y: None}, ())
    assert len(buffers) == 1
    check_same(kernel_of(rows, [y]), kernel_of(made, [y], buffers), None, x)


def test_a_pass_that_stores_what_the_one_before_still_reads_stays_behind_it() -> None:
    """E[i] = Z[i + 1], then Z[j] = E[j] + 1: in lanes together, the next lanes read too late."""
    e, z = te.placeholder((M,), "float32", name="E"), te.placeholder((M + 1,), "float32", name="Z")
    i, j = axis("i", 0, M), axis("j", 0, M)
    first = For(i, (Store((e,), (i,), (read(z, (i + 1,)),)),), "vector")
    for stored in (z, te.placeholder((M + 1,), "float32", name="Y")):
        second = For(j, (Store((stored,), (j,), (read(e, (j,)) + 1.0,)),), "vector")
        assert (with_pass([first], second, free=False) is None) is (stored is z)
