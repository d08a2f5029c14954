"""Numbers of iterations, and loops that give sizes values."""

from __future__ import annotations

from tensorad.codegen.control.counts import scalar, telling
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.ir import LoopProgram
from tensorad.codegen.lower import lower_program
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import int_const, local_size


def test_a_loop_tells_a_size() -> None:
    count = scalar("count", int_const(6) // 2)
    half = local_size("half")
    loop = telling(half, count)
    assert loop.trips is half and loop.count is count and not loop.body
    program = lower_program([count], [])
    told = LoopProgram((), (count,), (*program.nodes, loop))
    (found,), _ = interpret_loops(told, {})
    assert found == 3 and count.dtype is INT64
