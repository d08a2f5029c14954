"""Records in rows of one variant; values of data types that are read without records between."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.codegen.runtime.record_layout import ROW_BITS, kinds_of, reached
from tensorad.codegen.runtime.record_results import RecordCalls
from tensorad.codegen.runtime.record_values import encoded
from tensorad.errors import BindError, DTypeError
from tensorad.ir.reference.records import Value, handle
from tests.support.programs.recursive import balanced
from tests.support.records import List, list_of

LIMIT = 1 << 30


Tree: Any = ta.variant(
    "Tree",
    Leaf={"value": "float64", "row": "float32[2]"},
    Node={"left": "Tree", "right": "Tree"},
    Tagged={"name": "int64", "inner": "Tree", "rate": "float64"},
)


def leaf(value: Any, row: Any = None) -> Any:
    return Tree.Leaf(value, np.ones(2, np.float32) if row is None else row)


def node(left: Any, right: Any) -> Any:
    return Tree.Node(left, right)


@ta.function
def total(tree: Any, w: Any) -> Any:
    return ta.match(
        tree,
        {
            "Leaf": lambda value, row: w * value + row.sum(),
            "Node": lambda left, right: total(left, w) + total(right, w),
            "Tagged": lambda name, inner, rate: rate * total(inner, w) + name,
        },
    )


@ta.function
def kept(tree: Any, at: Any) -> Any:
    return Tree.Node(tree, Tree.Tagged(at, tree, 0.5))


def test_rows_are_of_one_class() -> None:
    a = leaf(1.0)
    root = node(a, Tree.Tagged(7, node(a, a), 0.25))
    found = reached([root], {})
    assert [r.kind.variant.name for r in found.rows] == ["Node", "Tagged", "Leaf"]
    assert [len(r.records) for r in found.rows] == [2, 1, 1] and all(
        r.are_values for r in found.rows
    )
    assert found.places[id(root)] == 0 and found.places[id(a)] == 2 << ROW_BITS
    assert found.rows[0].columns()[0] == (a, a)
    assert kinds_of(Tree.record_type, {}) is kinds_of(Tree.record_type, {})
    lists = reached([list_of([1.0, 2.0])], {})
    assert [len(r.records) for r in lists.rows] == [2, 1] and not lists.rows[0].are_values


def test_numbers_and_arrays_come_from_values() -> None:
    tree = node(leaf(np.float64(2.0)), Tree.Tagged(3, leaf(1, np.array([1, 2], "f4")), 2))
    assert total(tree, 10.0) == 22.0 + 2 * 13.0 + 3
    assert isinstance(tree, Value)


def test_what_cannot_change_is_kept() -> None:
    pairs: Any = ta.variant("Pairs", No={}, One={"x": "float64", "n": "int64", "rest": "Pairs"})
    value = pairs.One(1.0, np.int64(2), pairs.One(np.float64(3.0), 4, pairs.No()))
    one, two = (encoded(handle(value), {}, LIMIT) for _ in range(2))
    assert one.memory is two.memory and two.parts[0].at(int(two.handles)) is value
    rows: Any = ta.variant("Rows", One={"row": "float32[2]", "x": "float64"})
    row = handle(rows.One(np.ones(2, np.float32), 1.0))
    assert encoded(row, {}, LIMIT).memory is not encoded(row, {}, LIMIT).memory


@pytest.mark.parametrize("how", ["itself", "its base", "a view", "an array without axes"])
def test_changes_of_arrays_are_seen(how: str) -> None:
    whole, value = np.zeros(4, np.float32), np.array(1.0) if "without" in how else 1.0
    view = np.zeros(2, np.float32) if how == "a view" else whole[:2]
    row = view[:] if how == "a view" else whole  # who may write to it before it is read-only
    view.flags.writeable = how not in ("its base", "a view")
    tree = leaf(value, view)
    assert total(tree, 2.0) == 2.0
    if how == "an array without axes":
        np.asarray(value)[...] = 5.0
    else:
        row[1] = 8.0
    assert total(tree, 2.0) == 10.0


def test_shared_values_are_there_once() -> None:
    tree = leaf(0.5)
    for _ in range(60):
        tree = node(tree, tree)
    found = encoded(handle(tree), {}, LIMIT)
    assert sum(len(p.records) for p in found.parts) == 61


def test_values_that_are_parts_of_themselves_are_refused() -> None:
    tree = node(leaf(1.0), leaf(2.0))
    outer = node(tree, leaf(3.0))
    tree.__dict__["leaves"] = (outer, tree.leaves[1])
    with pytest.raises(BindError) as caught:
        total(outer, 1.0)
    assert str(caught.value) == (
        "a value of Tree is a part of itself.\n"
        "  hint: make other values instead of changing what a value has."
    )
    xs = list_of([1.0])
    xs.values[1][()] = xs
    with pytest.raises(BindError, match="a value of List is a part of itself"):
        encoded(handle(xs), {}, LIMIT)
    tree.__dict__["leaves"] = (list_of([]), tree.leaves[1])
    with pytest.raises(DTypeError, match="field left of Node has a value of List, expected Tree"):
        total(outer, 1.0)
    tree.__dict__["leaves"] = (3.5, tree.leaves[1])
    with pytest.raises(DTypeError, match="a field that is a record has float"):
        total(outer, 1.0)


def test_given_values_come_back_as_themselves() -> None:
    tree = leaf(1.0)
    found = kept(tree, np.int64(4))
    assert found.left is tree and found.right.inner is tree and found.right.name == 4
    assert found.leaves == (tree, found.right) and not found.is_open
    assert isinstance(found.right.rate, np.float64) and total(found, 1.0) == 3.0 + 1.5 + 4


def test_calls_of_a_known_kind_are_looked_at_once() -> None:
    tree, w = node(leaf(1.0), leaf(2.0)), np.array(3.0)
    f = total.example(tree, w).compiled
    calls = f._records
    assert isinstance(calls, RecordCalls)
    assert calls.ready([tree, w]) is not None and calls.ready([tree, w.astype("f4")]) is None
    assert calls.ready([balanced(1), w]) is None and calls.ready([w, w]) is None
    assert total(tree, w) == total(tree, w) == total(tree, 3.0) == 13.0


@pytest.mark.slow
def test_long_lists_of_values() -> None:
    lists: Any = ta.variant("List", Nil={}, Cons={"head": "float64", "tail": "List"})
    xs = lists.Nil()
    for _ in range(100_000):
        xs = lists.Cons(1.0, xs)

    @ta.function
    def length(xs: Any, n: Any) -> Any:
        return ta.match(xs, {"Nil": lambda: n, "Cons": lambda head, tail: length(tail, n + head)})

    @ta.function
    def halved(xs: Any) -> Any:
        return ta.match(
            xs, {"Nil": lists.Nil, "Cons": lambda head, tail: lists.Cons(head / 2, halved(tail))}
        )

    assert length(xs, np.float64(0)) == 100_000
    half = halved(xs)
    assert length(half, np.float64(0)) == 50_000
    assert List is not lists.record_type
