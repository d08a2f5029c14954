"""Loops that threads share: long enough, over what lies outermost in memory."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.codegen.choices import Choices
from tensorad.codegen.loop_interpret import interpret_loops
from tensorad.codegen.loop_verify import verify_loops
from tensorad.codegen.loopir import For, LoopProgram
from tensorad.codegen.lower import lower_program
from tensorad.codegen.shared_loops import runs_of
from tensorad.ir.expr import axis
from tensorad.ir.tensor import Tensor


def pool(n: int, c: int, size: int) -> tuple[Tensor, Tensor]:
    x = te.placeholder((n, c, 2 * size, 2 * size), name="X")
    ky, kx = te.reduce_axis((0, 2), "ky"), te.reduce_axis((0, 2), "kx")
    y = te.compute(
        (n, c, size, size),
        lambda i, j, h, w: te.max(x[i, j, 2 * h + ky, 2 * w + kx], [ky, kx]),
        name="Y",
    )
    return x, y


def outermost(program: LoopProgram) -> list[For]:
    return [s for k in program.kernels for s in k.body if isinstance(s, For)]


@pytest.mark.parametrize(
    ("n", "c", "runs", "depth"), [(5, 12, 60, 3), (1, 3, 16, 3), (40, 2, 40, 4), (1, 64, 64, 3)]
)
def test_short_shared_loops_take_in_the_next(n: int, c: int, runs: int, depth: int) -> None:
    x, y = pool(n, c, 16)
    program = lower_program([y], [x], choices=Choices(parallel=True, flat=False))
    verify_loops(program)
    (loop,) = outermost(program)
    assert (loop.kind, runs_of(loop.axis)) == ("parallel", runs)
    inner = loop
    for _ in range(depth - 1):
        (body,) = [s for s in inner.body if isinstance(s, For)]
        inner = body
    assert inner.kind == "vector"
    a = np.random.default_rng(1).normal(size=(n, c, 32, 32)).astype(np.float32)
    wanted = a.reshape(n, c, 16, 2, 16, 2).max((3, 5))
    if n * c < 10:
        np.testing.assert_array_equal(interpret_loops(program, {x: a})[0][0], wanted)
    f = ta.build([y], [x], schedule=ta.Schedule(parallel=True))
    np.testing.assert_array_equal(f(a), wanted)


def test_short_bodies_are_not_numbered_anew() -> None:
    x = te.placeholder((4, 100, 3, 7), name="X")
    y = te.compute((4, 3, 100, 7), lambda i, j, h, w: x[i, h, j, w] + 1, name="Y")
    program = lower_program([y], [x], choices=Choices(parallel=True, flat=False, order=("i", "j")))
    (loop,) = outermost(program)
    assert runs_of(loop.axis) == 12


def test_runs_are_counted_between_numbers() -> None:
    assert runs_of(axis("i", 3, 10)) == 7
    assert runs_of(axis("i", 3, 10, 4)) == 2
    assert runs_of(axis("i", 3, 3)) == 0
