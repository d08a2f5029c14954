"""Trees are taken apart into leaves with paths, and put together again."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import DefinitionError
from tensorad.program import trees
from tensorad.program.sides import first_difference, leaf_text, side_by_side
from tensorad.program.trees import flatten, unflatten

Pair = namedtuple("Pair", "left right")


class Mode(Enum):
    TRAIN = 1


@dataclass(frozen=True)
class Layer:
    w: Any
    mode: Mode = Mode.TRAIN
    width: int = field(default=3, metadata={"static": True})


class Box:
    def __init__(self, inside: Any, label: str) -> None:
        self.inside, self.label = inside, label


@pytest.fixture
def boxes() -> Iterator[None]:
    ta.register_tree(Box, lambda b: ((b.inside,), b.label), lambda label, c: Box(c[0], label))
    yield
    del trees._registered[Box]


def test_leaves_have_the_paths_that_users_write() -> None:
    tree = {"w": [1.0, (np.ones(2),)], "a": Pair(2, None), 3: "name", "f": len}
    flat = flatten(tree, "params")
    assert flat.paths == ["params['a'].left", "params['w'][0]", "params['w'][1][0]"]
    assert flat.leaves[:2] == [2, 1.0]
    back = unflatten(flat.structure, [10, 11, 12])
    assert back == {"w": [11, (12,)], "a": Pair(10, None), 3: "name", "f": len}
    assert list(back) == [3, "a", "f", "w"] and isinstance(back["a"], Pair)


def test_dataclasses_keep_their_static_fields() -> None:
    flat = flatten(Layer(np.ones(3)), "layer")
    assert flat.paths == ["layer.w"]
    back = unflatten(flat.structure, [5])
    assert back == Layer(5)
    assert flatten(Layer(1.0)).structure == flatten(Layer(2.0)).structure
    assert flatten(Layer(1.0, width=4)).structure != flatten(Layer(1.0)).structure


def test_registered_classes_are_trees(boxes: None) -> None:
    flat = flatten([Box({"x": 1.0}, "b")], "t")
    assert flat.paths == ["t[0][0]['x']"]
    (back,) = unflatten(flat.structure, [7])
    assert back.inside == {"x": 7} and back.label == "b"


@pytest.mark.parametrize("tree", [None, (), [], {}, ((), [None]), OrderedDict(b=1, a=2)])
def test_trees_come_back(tree: object) -> None:
    flat = flatten(tree)
    back = unflatten(flat.structure, flat.leaves)
    assert back == tree and type(back) is type(tree)


@pytest.mark.slow
def test_deep_trees() -> None:
    tree: Any = 1.0
    for _ in range(20_000):
        tree = (tree,)
    flat = flatten(tree)
    assert flat.leaves == [1.0]
    back = unflatten(flat.structure, [2.0])
    for _ in range(20_000):
        (back,) = back
    assert back == 2.0


def test_static_parts_are_told_apart_by_class() -> None:
    one, other = (flatten(v).structure for v in ("a", b"a"))
    assert one != other and hash(one) != hash(other)


def test_static_arguments_that_are_equal_are_told_apart() -> None:
    f = ta.function(lambda x, n: x * n[0] if type(n[0]) is float else x * 7, static_argnames="n")
    for n in ((1.0,), (True,), (1,), (0.0,), (-0.0,)):
        for _ in range(2):
            found = f(2.0, n)
            assert found == (2 * n[0] if type(n[0]) is float else 14), n
            assert np.signbit(found) == np.signbit(n[0])


def test_other_classes_are_no_trees() -> None:
    with pytest.raises(DefinitionError) as caught:
        flatten({"a": object()}, "params")
    assert str(caught.value) == (
        "params['a'] is of class object, which is neither an array nor a tree of arrays.\n"
        "  hint: pass arrays, numbers, tensors, and dicts, lists, tuples or dataclasses of them; "
        "tell how another class is taken apart with ta.register_tree."
    )


def test_classes_are_registered_once(boxes: None) -> None:
    with pytest.raises(DefinitionError) as caught:
        ta.register_tree(Box, lambda b: ((), None), lambda label, c: Box(None, ""))
    assert str(caught.value) == (
        "Box is registered as a tree already.\n  hint: register a class once."
    )
    with pytest.raises(DefinitionError) as caught:
        ta.register_tree(3, len, len)  # type: ignore[arg-type]
    assert str(caught.value) == (
        "register_tree takes a class, got 3.\n"
        "  hint: pass the class of the objects, then how they are taken apart and put together."
    )


def test_structures_stand_side_by_side() -> None:
    one = flatten({"w": (np.ones((2, 3)), 1.0), "n": 1, "s": "a"}, "c")
    other = flatten({"w": [np.ones((2, 3))], "n": 1, "s": "b"}, "c")
    assert first_difference(one, one, "c") is None
    assert first_difference(one, other, "c") == "c['w']"
    assert side_by_side(("before", "after"), one, other, "c").splitlines() == [
        "           before          after",
        "      c['w']     tuple           list",
        "      c['n']     number 1        number 1",
        "      c['s']     'a'             'b'",
        "      c['w'][0]  float64 (2, 3)  float64 (2, 3)",
        "      c['w'][1]  number 1.0      -",
    ]


def test_of_large_trees_the_differences_are_shown() -> None:
    one = flatten({f"k{n:02}": 1.0 for n in range(40)}, "c")
    other = flatten({f"k{n:02}": 1.0 for n in range(39)}, "c")
    assert side_by_side(("before", "after"), one, other, "c").splitlines() == [
        "          before      after",
        "      c['k39']  number 1.0  -",
        "      and 39 more",
    ]


def test_shapes_of_many_axes_are_shortened_in_tables() -> None:
    many = ta.placeholder((2, *[1] * 498, 3), "float32", name="many")
    assert leaf_text(many) == "float32 (2, 1, ..., 3) of 500 axes"
    assert leaf_text(np.ones((1,) * 9)) == "float64 (1, 1, ..., 1) of 9 axes"
    assert leaf_text(np.ones((2,) * 8)) == "float64 (2, 2, 2, 2, 2, 2, 2, 2)"
