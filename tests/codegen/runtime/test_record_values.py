"""Records in native memory, before a call."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import tensorad as ta
from tensorad import config
from tensorad.codegen.runtime.record_layout import native_dtype
from tensorad.codegen.runtime.record_values import RecordParameter, encoded, refuse_out
from tensorad.errors import BindError, DTypeError, LimitError, ShapeError
from tensorad.ir.dtypes import FLOAT32, FLOAT64, INT64
from tensorad.ir.expr import size_var
from tensorad.ir.records import Field, RecordType, Variant, recursion
from tensorad.ir.reference.records import Record, handle
from tests.support.programs.recursive import Tree, balanced, given, total
from tests.support.records import List, list_of

LIMIT = 1 << 30
N = size_var("n")
Row = RecordType("Row").complete(
    [Variant("Row", (Field("x", (N,), FLOAT32), Field("k", (), INT64), Field("pair", (2,), List)))]
)


def words(address: int, count: int) -> list[int]:
    return list((ctypes.c_int64 * count).from_address(address))


def test_a_list_lies_in_native_memory() -> None:
    found = encoded(handle(list_of([2.5, -1.0])), {}, LIMIT)
    tag, head, tail = words(int(found.handles), 3)
    assert tag == 1 and np.int64(head).view(np.float64) == 2.5
    tag, head, end = words(tail, 3)
    assert tag == 1 and np.int64(head).view(np.float64) == -1.0
    assert words(end, 1) == [0]
    assert [len(p.records) for p in found.parts] == [2, 1]


def test_what_is_shared_is_there_once() -> None:
    leaf = balanced(0)
    for _ in range(60):  # 2 ** 60 leaves, if it were not shared
        leaf = Record(Tree, 1, (handle(leaf), handle(leaf)))
    found = encoded(handle(leaf), {}, LIMIT)
    assert sum([len(p.records) for p in found.parts]) == 61
    _, left, right = words(int(found.handles), 3)
    assert left == right and found.parts[0].at(left) is leaf.values[0].item()


def test_fields_may_be_arrays_of_numbers_and_of_records() -> None:
    pair = np.empty(2, object)
    pair[:] = [list_of([]), list_of([3.0])]
    row = Record(Row, 0, (np.array([0.5, 1.5, 2.5]), np.array(7), pair))
    found = encoded(handle(row), {N: 3}, LIMIT)
    address = int(found.handles)
    assert address % 64 == 0 and words(address, 1) == [0]
    assert list((ctypes.c_float * 3).from_address(address + 64)) == [0.5, 1.5, 2.5]
    k, nil, cons = words(address + 80, 3)
    assert k == 7 and words(nil, 1) == [0] and words(cons, 1) == [1]


def test_values_that_do_not_fit_are_refused() -> None:
    def message(error: type[Exception], *values: object) -> str:
        with pytest.raises(error) as caught:
            encoded(handle(Record(Row, 0, tuple(values))), {N: 2}, LIMIT)  # type: ignore[arg-type]
        return str(caught.value)

    pair = np.empty(2, object)
    pair[:] = [list_of([]), list_of([])]
    x, k = np.zeros(2), np.array(1)
    assert message(ShapeError, np.zeros(3), k, pair) == (
        "the field x of Row has the shape (3,), expected (2,).\n"
        "  in: Row.x : float32 (n,)\n"
        "  hint: pass values whose fields have their declared shapes."
    )
    assert message(DTypeError, x, np.array(0.5), pair) == (
        "the field k of Row has float64 elements, expected int64.\n"
        "  in: Row.k : int64 ()\n"
        "  hint: pass values whose fields have their declared dtypes."
    )
    other = pair.copy()
    other[1] = balanced(0)
    assert "the field pair of Row has a value of Tree, expected List" in message(
        DTypeError, x, k, other
    )
    other[1] = 3.5
    assert "a field that is a record has float" in message(DTypeError, x, k, other)
    with pytest.raises(LimitError, match=r"a value of List takes 2\.4 KiB"):
        encoded(handle(list_of(range(100))), {}, 2000)


def test_read_only_records_are_kept() -> None:
    def fixed(values: list[float]) -> Record:
        found = list_of(values)
        r = found
        while r.tag:
            r.values[0].flags.writeable = False
            r = r.values[1].item()
        return found

    xs = fixed([1.0, 2.0])
    first, second = (encoded(handle(xs), {}, LIMIT) for _ in range(2))
    assert first.memory is second.memory
    assert second.parts[0].at(int(second.handles)) is xs
    ys = list_of([1.0, 2.0])
    assert encoded(handle(ys), {}, LIMIT).memory is not encoded(handle(ys), {}, LIMIT).memory
    inputs = given(("xs", (), List), ("w", (), FLOAT64))
    f = ta.build(recursion(total(), inputs)[0], inputs)
    ys.values[0][...] = 5.0
    assert f(ys, 1.0) == 7.0 and f(xs, 1.0) == 3.0


def fixed_row(x: np.ndarray) -> Record:
    """A row whose arrays are read-only."""
    pair = np.empty(2, object)
    pair[:] = [list_of([]), list_of([])]
    k = np.array(1)
    for a in (x, k):
        a.flags.writeable = False
    return Record(Row, 0, (x, k, pair))


def test_read_only_records_have_the_sizes_of_each_call() -> None:
    row = fixed_row(np.array([0.5, 1.5]))
    first, second = (encoded(handle(row), {N: 2}, LIMIT) for _ in range(2))
    assert first.memory is second.memory
    with pytest.raises(ShapeError, match=r"the field x of Row has the shape \(2,\), expected \(3"):
        encoded(handle(row), {N: 3}, LIMIT)
    again = encoded(handle(row), {N: 2}, LIMIT)
    assert list((ctypes.c_float * 2).from_address(int(again.handles) + 64)) == [0.5, 1.5]


def test_read_only_views_show_what_is_written_to_their_arrays() -> None:
    whole = np.array([0.5, 1.5, 2.5])
    row = fixed_row(whole[:2])
    for value in (0.5, 7.0, -1.0):
        whole[0] = value
        found = encoded(handle(row), {N: 2}, LIMIT)
        assert list((ctypes.c_float * 2).from_address(int(found.handles) + 64)) == [value, 1.5]
    number = np.array([4.0])
    xs = list_of([1.0, 2.0])
    view = number.reshape(())
    view.flags.writeable = False
    xs.values[0].flags.writeable = False
    tail = xs.values[1].item()
    xs = Record(List, 1, (view, handle(tail)))
    tail.values[0].flags.writeable = False
    inputs = given(("xs", (), List), ("w", (), FLOAT64))
    f = ta.build(recursion(total(), inputs)[0], inputs)
    for value in (4.0, 5.0):
        number[0] = value
        assert f(xs, 1.0) == value + 2.0


def test_arguments_are_records() -> None:
    (xs,) = given(("xs", (), List))
    p = RecordParameter(xs)
    assert p.dtype == native_dtype(List) == np.int64 and p.shape == ()
    assert p.accepted(list_of([])).item().tag == 0
    for value, what in ((3.0, "float"), (balanced(0), "Tree"), (np.zeros(()), "ndarray")):
        with pytest.raises(DTypeError) as caught:
            p.accepted(value)
        assert str(caught.value) == (
            f"argument xs must be a value of List, got {what}.\n"
            "  in: xs : List ()\n"
            "  hint: pass a value of List."
        )
    with pytest.raises(ShapeError, match="expected \\(\\)"):
        p.accepted(np.array([list_of([])], object))


def test_results_that_are_records_have_no_place() -> None:
    refuse_out(None, given(("xs", (), List)))
    with pytest.raises(BindError) as caught:
        refuse_out([], given(("xs", (), List)))
    assert str(caught.value) == (
        "out cannot take the result xs, which is a value of List.\n"
        "  hint: leave out= away: the result is made by the call."
    )


def test_no_random_records_are_made() -> None:
    xs, w = given(("xs", (), List), ("w", (), FLOAT64))
    (y,) = recursion(total(), (xs, w))
    with pytest.raises(BindError, match="measure_performance cannot make values of the data type"):
        ta.measure_performance(y, [xs, w], 0.01)
    assert config.bytes_left() > 0
