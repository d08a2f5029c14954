"""Values of data types, made and taken apart: interpreted, compiled, as in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.ir.records import Field, Inject, RecordType, Variant
from tensorad.ir.reference.records import Record
from tensorad.program.data.instances import instance_of
from tests.support.programs.higher.data import DATA, Cons, List, Nil, Tree, listed
from tests.support.programs.higher.kit import TRACED, check


@pytest.mark.parametrize("name", DATA)
def test_data(name: str) -> None:
    check(DATA[name])


def test_known_alternatives_are_told_while_a_program_is_traced() -> None:
    def program(x: Any) -> Any:
        return ta.match(Cons(x, Nil()), lambda: 0.0, lambda h, t: h * 2)

    (y,) = ta.function(program).trace(np.float64(1.0)).results
    assert not isinstance(y.op, Inject) and y.name == "mul"


def test_values_are_objects_outside_of_programs() -> None:
    xs = listed(1.0, 2.0)
    assert isinstance(xs, Cons) and xs.head == 1.0 and isinstance(xs.tail.tail, Nil)
    assert repr(xs) == "Cons(head=1.0, tail=Cons(head=2.0, tail=Nil()))"
    match xs:
        case List.Cons(head, tail):  # type: ignore[misc]  # made by the decorator
            assert head == 1.0 and tail is xs.tail


def test_methods_of_alternatives_are_kept() -> None:
    @ta.variant
    class Shape:
        class Circle:
            """Round."""

            r: "float64"  # type: ignore[name-defined]  # noqa: F821, UP037  # a dtype

            def area(self) -> Any:
                return 3 * self.r * self.r

    made: Any = Shape.Circle
    assert made(2.0).area() == 12.0 and made.__doc__ == "Round."
    assert made.__qualname__.endswith("Shape.Circle")


def test_types_without_a_declaration_have_classes_too() -> None:
    made = RecordType("Adjoint")
    made.complete([Variant("Zero", ()), Variant("Some", (Field("x", (), ta.const(1.0).dtype),))])
    value = instance_of(Record(made, 1, (np.array(2.0),)))
    assert repr(value) == "Some(x=2.0)"
    assert ta.match(value, {"Zero": lambda: 0.0, "Some": lambda x: x + 1}) == 3.0


def test_long_lists_need_no_stack() -> None:
    n = 20_000
    made = DATA["made_in_a_loop"].make

    f = ta.function(made(TRACED))
    found = f(np.int64(n), Nil())
    count = 0
    while not isinstance(found, Nil):
        found, count = found.tail, count + 1
    assert count == n


def test_a_value_that_is_there_twice_is_one_record() -> None:
    leaf = Tree.Leaf(np.ones(2))
    rate = (1.0, {"bias": np.zeros(2)})
    record = Tree.Node(leaf, leaf, rate).as_record()
    assert record.values[0].item() is record.values[1].item()


def test_annotations_are_names_dtypes_arrays_and_trees() -> None:
    width = 3
    made: Any = ta.variant(
        "Some",
        One={
            "a": f"int32[{width}, 2]",
            "b": np.zeros(4, "float32"),
            "c": ("bool", ["float64", List]),
            "d": np.float32,
            "e": int,
        },
    )
    fields = made.record_type.variants[0].fields
    assert [(f.name, f.dtype, f.shape) for f in fields] == [
        ("a", "int32", (3, 2)),
        ("b", "float32", (4,)),
        ("c[0]", "bool", ()),
        ("c[1][0]", "float64", ()),
        ("c[1][1]", List.record_type, ()),  # type: ignore[attr-defined]  # set by the decorator
        ("d", "float32", ()),
        ("e", "int64", ()),
    ]
