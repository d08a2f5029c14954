"""How lanes come from memory and go there: a few elements apart, one row each, past the caches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tensorad import te
from tensorad.codegen.cost.memory_model import LINE
from tensorad.codegen.llvm.context import Address, Lanes
from tensorad.codegen.llvm.expressions import Expressions
from tensorad.codegen.llvm.row_transposes import (
    OffsetWindow,
    load_block,
    pieces_of_rows,
    store_rows,
    transposed,
)
from tensorad.codegen.llvm.streaming import emit_prefetch, head_length, prefetch, streams_of
from tensorad.codegen.llvm.strided import load_strided, store_strided
from tensorad.codegen.llvm.text import Code, Value
from tensorad.codegen.loops.ir import For, Prefetch, Stmt, Store
from tensorad.ir.dtypes import FLOAT32, INT64
from tensorad.ir.expr import axis, const, int_const, read
from tests.codegen.llvm.written import native
from tests.support.guarded import guarded
from tests.support.loops.small_loops import kernel_of
from tests.support.machines import described

N = 4
X, Y = (te.placeholder((4096,), name=n) for n in "XY")
AXIS = axis("i", 0, 1000)


def values_of(code: Code, left: int | None = None, body: Sequence[Stmt] = ()) -> Expressions:
    """Values in a loop of one register; `left`: so many of its lanes are active."""
    values = Expressions(code, [Y], [Y], kernel_of(body, [Y]))
    flags = ", ".join([f"i1 {'true' if n < (left or 0) else 'false'}" for n in range(N)])
    mask = None if left is None else f"<{flags}>"
    base = axis("i", 0, 1000)
    values.vector = Lanes(AXIS, base, N, 1, mask, "" if left is None else str(left), 0)
    return values


@pytest.mark.parametrize("left", [None, 1, 3])
@pytest.mark.parametrize("stride", [1, 2, 3, 4])
def test_strided_loads_touch_nothing_behind_the_last_lane(stride: int, left: int | None) -> None:
    code = Code()
    name = load_strided(values_of(code, left), X, "%x", stride, 0)
    code.line(f"store <{N} x float> {name}, ptr %y, align 4")
    active = N if left is None else left
    x = guarded((stride * (active - 1) + 1,), "float32", at_end=True)
    x[:] = np.arange(1, len(x) + 1)
    y = np.zeros(N, "f4")
    native(code, "xy")(x, y)
    assert y[:active].tolist() == x[::stride].tolist()


@pytest.mark.parametrize("stride", [-1, -2, -3])
def test_strided_loads_run_backwards(stride: int) -> None:
    code = Code()
    name = load_strided(values_of(code), X, "%x", stride, 0, at=-stride * (N - 1))
    code.line(f"store <{N} x float> {name}, ptr %y, align 4")
    x, y = np.arange(-stride * (N - 1) + 1, dtype="f4"), np.zeros(N, "f4")
    native(code, "xy")(x, y)
    assert y.tolist() == x[::stride].tolist()


@pytest.mark.parametrize("left", [None, 1, 3])
@pytest.mark.parametrize("stride", [2, 3, 4])
def test_strided_stores_deal_out_their_vectors(stride: int, left: int | None) -> None:
    code = Code()
    values = values_of(code, left)
    columns = [
        code.put(f"load <{N} x float>, ptr {values.shifted(X, '%x', m * N, 0)}, align 4")
        for m in range(stride)
    ]
    store_strided(values, Y, "%y", columns, stride)
    active = N if left is None else left
    x = np.arange(1, stride * N + 1, dtype="f4")
    y = guarded((active * stride,), "float32", at_end=True)
    native(code, "xy")(x, y)
    assert y.reshape(active, stride).tolist() == x.reshape(stride, N).T[:active].tolist()


@pytest.mark.parametrize(("rows", "lanes"), [(2, 4), (4, 4), (4, 8), (8, 8)])
def test_registers_are_transposed_in_blocks(rows: int, lanes: int) -> None:
    code = Code()
    values = values_of(code)
    ty = f"<{lanes} x float>"
    given = [
        code.put(f"load {ty}, ptr {values.shifted(X, '%x', r * lanes, 0)}, align 4")
        for r in range(rows)
    ]
    for k, name in enumerate(transposed(values, FLOAT32, given, lanes, 0)):
        code.line(f"store {ty} {name}, ptr {values.shifted(Y, '%y', k * lanes, 0)}, align 4")
    x, y = np.arange(rows * lanes, dtype="f4").reshape(rows, lanes), np.zeros((rows, lanes), "f4")
    native(code, "xy")(x, y)
    for first in range(0, lanes, rows):
        block = slice(first, first + rows)
        assert y[:, block].tolist() == x[:, block].T.tolist()


@pytest.mark.parametrize("left", [None, 3])
@pytest.mark.parametrize("high", [0, 2, 6])
def test_one_row_for_each_lane_is_loaded_in_pieces(high: int, left: int | None) -> None:
    stride, code = 9, Code()
    values = values_of(code, left)
    reads = {c: [read(X, (AXIS * stride + c,))] for c in range(high + 1)}
    place = Address(Value(("%x",), INT64, 0, 0, 0), 0, stride, None)
    first = load_block(values, reads[0][0], place, OffsetWindow(0, high, reads), 0, 0)
    every = [first, *[values.cache[reads[c][0]] for c in range(1, high + 1)]]
    for c, value in enumerate(every):
        where = values.shifted(Y, "%y", c * N, 0)
        code.line(f"store <{N} x float> {value.name}, ptr {where}, align 4")
    active = N if left is None else left
    x = guarded((stride * (active - 1) + high + 1,), "float32", at_end=True)
    x[:] = np.arange(len(x))
    y = np.zeros((high + 1, N), "f4")
    native(code, "xy")(x, y)
    for lane in range(active):
        assert y[:, lane].tolist() == x[lane * stride :][: high + 1].tolist()


def test_pieces_of_rows_are_neighbours_that_fill_a_register() -> None:
    assert pieces_of_rows([3, 0, 1, 2], 4, 8) == [[1, 2, 3, 0]]
    assert pieces_of_rows([0, 1, 2, 3, 4], 4, 8) == [[0, 1, 2, 3], [4]]
    assert pieces_of_rows([0, 1], 4, 8) == [[0], [1]], "8 bytes are no piece"
    assert pieces_of_rows([0, 0], 4, 8) == [], "the later one stays"


def test_pieces_are_stored_row_by_row() -> None:
    stride, code = 7, Code()
    values = values_of(code)
    columns = [
        code.put(f"load <{N} x float>, ptr {values.shifted(X, '%x', m * N, 0)}, align 4")
        for m in range(N)
    ]
    store_rows(values, Y, "%y", columns, stride)
    x, y = np.arange(1, N * N + 1, dtype="f4"), np.zeros(stride * N, "f4")
    native(code, "xy")(x, y)
    want = np.zeros((N, stride))
    want[:, :N] = x.reshape(N, N).T
    assert y.tolist() == want.reshape(-1).tolist()


@pytest.mark.parametrize(("past", "head"), [(0, 0), (4, 15), (60, 1), (2, 99)])
def test_streams_begin_with_a_line(past: int, head: int) -> None:
    """`past` bytes behind the start of a line; with 2 no element is ever aligned."""
    store = Store((Y,), (AXIS,), (const(1.0, FLOAT32),), streaming=True)
    loop = For(AXIS, (store,), "vector")
    code = Code()
    values = values_of(code, body=(loop,))
    (stream,) = streams_of(values, loop, 16)
    assert (stream.tensor, stream.step, stream.align) == (Y, 4, LINE)
    assert stream.steps_of_line == LINE // 4
    place = axis("i", 0, 1000)
    values.keep(place, Value(("0",), INT64, 0, 0, 0))
    f = native(code, ("slots", "index"), head_length(values, loop, [stream], "99"))
    memory = np.zeros(2 * LINE, np.uint8)
    start = -memory.ctypes.data % LINE + past
    assert f(np.array([memory.ctypes.data + start]), np.array([0])) == head


def test_stores_that_do_not_stream_have_no_streams() -> None:
    plain = For(AXIS, (Store((Y,), (AXIS,), (const(1.0, FLOAT32),)),), "vector")
    few = axis("i", 0, 8)
    short = For(few, (Store((Y,), (few,), (const(1.0, FLOAT32),), streaming=True),), "vector")
    apart = For(AXIS, (Store((Y,), (AXIS * 3,), (const(1.0, FLOAT32),), streaming=True),), "vector")
    for loop in (plain, short, apart):
        assert streams_of(values_of(Code(), body=(loop,)), loop, 16) == []


def test_lines_are_prefetched_once_at_their_last_element() -> None:
    code = Code()
    values = values_of(code)
    values.vector = None
    with described(""):
        emit_prefetch(values, Prefetch(Y, (int_const(3),), 40))
    prefetch(code, "%elsewhere", write=True)
    text = "\n".join(code.region.lines)
    assert [text.count(f"i64 {n}\n") for n in (18, 34, 42)] == [1, 1, 1]
    assert text.count("@llvm.prefetch.p0(ptr") == 4
    assert text.endswith("@llvm.prefetch.p0(ptr %elsewhere, i32 1, i32 3, i32 1)")
