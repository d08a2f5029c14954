"""Products of extents that a call of a definition tells, and loops that give sizes values."""

from __future__ import annotations

from tensorad.codegen.control.counts import products_in, scalar, telling
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.ir import LoopProgram, Make, Reserve
from tensorad.codegen.loops.scratch import buffer
from tensorad.codegen.lower import lower_program
from tensorad.ir.dtypes import FLOAT64, INT64
from tensorad.ir.expr import int_const, local_size, mul, size_var
from tests.support.records import List

N, M, OTHER = local_size("n"), local_size("m"), local_size("other")


def test_products_are_those_of_extents_made_of_the_sizes() -> None:
    halves = buffer("halves", (N - N // 2, 3, M), FLOAT64)
    plain = buffer("plain", (N, size_var("k")), FLOAT64)
    mixed = buffer("mixed", (M + 1, OTHER), FLOAT64)
    nodes = [Reserve(halves), Reserve(plain), Make(buffer("h", (), List), List, 1, (mixed,))]
    assert products_in(nodes, (N, M)) == [mul(N - N // 2, M), M + 1]
    assert products_in(nodes, ()) == []


def test_a_loop_tells_a_size() -> None:
    count = scalar("count", int_const(6) // 2)
    loop = telling("half", count)
    assert loop.trips.label == "half" and loop.count is count and not loop.body
    program = lower_program([count], [])
    told = LoopProgram((), (count,), (*program.nodes, loop))
    (found,), _ = interpret_loops(told, {})
    assert found == 3 and count.dtype is INT64
