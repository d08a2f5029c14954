"""Rows that data picks are asked for by the indices of later turns."""

from __future__ import annotations

import numpy as np
import pytest

from tensorad import te
from tensorad.autodiff import vjp
from tensorad.building import build
from tensorad.codegen.loops.ir import For, LoopProgram, Prefetch
from tensorad.codegen.loops.visit import statements
from tensorad.codegen.lower import lower_program
from tensorad.ir.tensor import Tensor
from tests.support.machines import described

SMALL_CACHES = "l2=4096,l3=16384"


def picked(count: int = 50, width: int = 48) -> tuple[Tensor, list[Tensor]]:
    """Rows of a table of 100 rows."""
    table, place = te.placeholder((100, width), name="T"), te.placeholder((count,), "int64", "P")
    y: Tensor = te.compute((count, width), lambda i, j: table[place[i], j], "Y")
    return y, [table, place]


def lowered(outputs: list[Tensor], inputs: list[Tensor], machine: str) -> LoopProgram:
    with described(machine):
        return lower_program(outputs, inputs)


def asked(program: LoopProgram) -> list[str]:
    """What vector loops ask for."""
    loops = [s for k in program.kernels for s in statements(k.body) if isinstance(s, For)]
    inner = [c for s in loops if s.kind == "vector" for c in s.body]
    return [f"{c.tensor.name}{list(map(str, c.indices))}" for c in inner if isinstance(c, Prefetch)]


def test_the_row_of_a_later_iteration_is_prefetched() -> None:
    y, inputs = picked()
    (found,) = asked(lowered([y], inputs, SMALL_CACHES))
    assert found.startswith("T['P[min(i + 21, ")  # 21 rows are 4 kB; never beyond the last turn


def test_rows_that_are_added_to_and_those_beside_them() -> None:
    y, (table, place) = picked()
    head = te.placeholder(y.shape, name="H")
    (dt,) = vjp(y, [table], head)
    program = lowered([dt], [table, place, head], SMALL_CACHES)
    assert asked(program) == [f"{dt.name}['P[min(i + 21, 49)]', 'j']"]
    loops = [s for k in program.kernels for s in statements(k.body) if isinstance(s, For)]
    assert head in [t for s in loops for t in s.prefetched]


def test_what_no_iteration_names_or_a_cache_holds() -> None:
    y, inputs = picked()
    assert not asked(lowered([y], inputs, "l2=1048576,l3=16777216"))
    table = te.placeholder((100, 48), name="T")
    column = te.placeholder((48,), "int64", name="P")
    across: Tensor = te.compute((100, 48), lambda i, j: table[i, column[j]], "Y")
    assert not asked(lowered([across], [table, column], SMALL_CACHES))
    second = te.placeholder((50,), "int64", name="Q")
    y, (table, place) = picked()
    twice: Tensor = te.compute((50, 48), lambda i, j: table[place[second[i]], j], "Y")
    assert not asked(lowered([twice], [table, place, second], SMALL_CACHES))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("count", [0, 1, 2, 50])
@pytest.mark.parametrize("width", [1, 16, 17, 48, 200])
def test_values_are_those_of_numpy(count: int, width: int) -> None:
    y, (table, place) = picked(count, width)
    head = te.placeholder(y.shape, name="H")
    rng = np.random.default_rng(count + width)
    rows = rng.normal(size=(100, width)).astype(np.float32)
    where = rng.integers(0, 100, count)
    h = rng.normal(size=(count, width)).astype(np.float32)
    with described(SMALL_CACHES):
        f = build([y, *vjp(y, [table], head)], [table, place, head])
    out, back = f(rows, where, h)
    expected = np.zeros_like(rows)
    np.add.at(expected, where, h)
    assert np.array_equal(out, rows[where]) and np.array_equal(back, expected)
