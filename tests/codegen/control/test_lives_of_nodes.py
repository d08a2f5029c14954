"""Memory is kept until the last node that uses it, whatever that node is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorad import te
from tensorad.codegen.loops.ir import Choose, Exchange, Kernel, Place, Repeat
from tensorad.codegen.runtime.lifetimes import find_buffers
from tensorad.ir.dtypes import DType
from tensorad.ir.expr import local_size
from tensorad.ir.tensor import Tensor


def tensor(name: str, dtype: str = "float64") -> Tensor:
    return te.placeholder((), dtype, name=name)


def kernel(writes: Sequence[Tensor], reads: Sequence[Tensor] = ()) -> Kernel:
    return Kernel("k", (), tuple(writes), tuple(reads))


def lives(nodes: Sequence[Any]) -> dict[str, tuple[int, int]]:
    """The first and the last node, from 1 on in order, that uses what lies in the arena."""
    found = find_buffers(nodes, ())
    return {life.tensor.name: (life.first, life.last) for life in found.temporaries}


def test_the_index_of_a_branch_lives_until_it_is_taken() -> None:
    index, other = tensor("index", "int64"), tensor("other")
    nodes = [kernel([index]), kernel([other]), Choose(index, ((kernel([other]),), ()))]
    assert lives(nodes) == {"index": (1, 3), "other": (2, 4)}


def test_what_is_placed_lives_with_what_it_lies_in() -> None:
    whole, part, other = map(tensor, ("whole", "part", "other"))
    assert lives([kernel([whole]), kernel([other]), Place(part, whole)])["whole"] == (1, 3)
    nodes = [kernel([whole]), Place(part, whole), kernel([other]), kernel([], [part])]
    assert lives(nodes) == {"whole": (1, 4), "other": (3, 3)}


def test_what_exchanges_its_memory_lives_as_long_as_either() -> None:
    a, b, x, y = map(tensor, ("a", "b", "x", "y"))
    nodes = [
        kernel([a, b]), Place(x, a), Place(y, b), Exchange(x, y),
        kernel([], [x]), kernel([tensor("other")]), kernel([], [y]),
    ]  # fmt: skip
    found = lives(nodes)
    assert found["a"] == found["b"] == (1, 7)
    assert lives(nodes[:5])["a"] == lives(nodes[:5])["b"] == (1, 5)


def repeat(**parts: Any) -> Repeat:
    trips = local_size("trips")
    given = {
        "counter": local_size("t", trips), "trips": trips, "count": None, "start": (), "test": (),
        "condition": None, "body": (), "moves": (), "stores": (), "source": "",
        "releases": False, "reverse": False,
    }  # fmt: skip
    return Repeat(**{**given, **parts})


def test_what_was_there_before_a_loop_lives_until_its_end() -> None:
    x, test, other = tensor("x"), tensor("test", "bool"), tensor("other")
    loop = repeat(
        test=(kernel([test], [x]),), condition=test, body=(kernel([other]), kernel([], [other]))
    )
    found = lives([kernel([x]), loop])
    end = max(last for _, last in found.values())
    assert found["x"] == (1, end)
    assert found["test"][1] >= 3
    before = lives([kernel([test]), repeat(condition=test, body=(kernel([other]),))])
    assert before["test"][1] > before["other"][0]


def test_how_often_a_loop_runs_is_read_where_it_begins() -> None:
    count, other = tensor("count", "int64"), tensor("other")
    nodes = [kernel([count]), kernel([other]), repeat(count=count)]
    assert lives(nodes)["count"][1] >= 3
    assert isinstance(count.dtype, DType)
