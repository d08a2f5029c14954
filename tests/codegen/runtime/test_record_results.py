"""Records that a call makes, as values."""

from __future__ import annotations

import ctypes

import numpy as np

import tensorad as ta
from tensorad.codegen.llvm import call_block as block
from tensorad.codegen.runtime.record_results import decoded
from tensorad.codegen.runtime.record_values import encoded
from tensorad.ir.arrays.elementwise import compute_axes
from tensorad.ir.dtypes import FLOAT32, FLOAT64, INT64
from tensorad.ir.expr import read, select, size_var
from tensorad.ir.records import Field, RecordType, Variant, inject, recursion
from tensorad.ir.reference.records import Record, handle
from tensorad.ir.tensor import Compute, outputs
from tests.random.records.compare import assert_same
from tests.support.programs.recursive import balanced, branch, counted_down, doubled, given
from tests.support.records import List, list_of

N = size_var("n")
Wide = RecordType("Wide").complete(
    [Variant("Wide", (Field("x", (N,), FLOAT32), Field("two", (2,), List), Field("k", (), INT64)))]
)


def test_lists_come_out_as_they_are_made() -> None:
    n, w = given(("n", (), INT64), ("w", (), FLOAT64))
    f = ta.build(recursion(counted_down(), (n, w))[0], [n, w])
    assert_same(f(3, 0.5), handle(list_of([1.5, 1.0, 0.5])))
    length, xs = 0, f(20_000, 1.0).item()
    while xs.tag:
        length, xs = length + 1, xs.values[1].item()
    assert length == 20_000


def test_what_was_given_is_itself() -> None:
    xs, w = given(("xs", (), List), ("w", (), FLOAT64))
    longer = inject(List, 1, (w, xs))
    f = ta.build([longer, inject(List, 1, (w * 2.0, longer)), xs], [xs, w])
    before = list_of([1.0])
    one, two, same = [a.item() for a in f(before, 3.0)]
    assert same is before and one.values[1].item() is before
    assert two.values[1].item() is one, "a record that is made is one value"


def test_arrays_and_arrays_of_records() -> None:
    x, xs, k = given(("x", (N,), FLOAT32), ("xs", (), List), ("k", (), INT64))
    empty = inject(List, 0, ())
    axes = compute_axes((2,))
    body = select(axes[0] > 0, read(xs, ()), read(empty, ()))
    (two,) = outputs(Compute("two", axes, (body,)))
    f = ta.build(inject(Wide, 0, (x, two, k)), [x, xs, k])
    given_list = list_of([2.0])
    found = f(np.arange(5, dtype=np.float32), given_list, 7).item()
    row, pair, number = found.values
    assert row.dtype == np.float32 and row.tolist() == [0, 1, 2, 3, 4] and number == 7
    assert pair[0].tag == 0 and pair[1] is given_list


def test_trees_are_made_anew() -> None:
    (tree,) = given(("tree", (), doubled().params[0].dtype))
    d = doubled()
    f = ta.build(recursion(d, (tree,)), [tree])
    made, total = f(balanced(6))
    assert total == sum(range(64))
    assert_same(made, ta.interpret(recursion(d, (tree,))[0], {tree: balanced(6)}))


def test_one_of_two_records() -> None:
    xs, ys, k = given(("xs", (), List), ("ys", (), List), ("k", (), INT64))
    f = ta.build(branch(k, [xs, ys], (xs, ys)), [xs, ys, k])
    a, b = list_of([1.0]), list_of([])
    assert [f(a, b, n).item() for n in (0, 1)] == [a, b]


def test_nothing_is_read_where_all_was_given() -> None:
    xs = list_of([1.0, 2.0])
    found = encoded(handle(xs), {}, 1 << 20)
    call = (ctypes.c_int64 * block.CALL_WORDS)()
    (same,) = decoded([(found.handles, List)], call, found.parts, {})
    assert isinstance(same.item(), Record) and same.item() is xs
