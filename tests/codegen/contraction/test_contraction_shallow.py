"""Shallow products: all lanes are packed once, and threads share row tiles with whole rows."""

from __future__ import annotations

import numpy as np
import pytest

from tensorad import te
from tensorad.building import build
from tensorad.codegen.directives import Choices
from tensorad.codegen.loops.ir import For, LoopProgram
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.loops.visit import statements
from tensorad.codegen.lower import lower_program
from tensorad.config import override
from tensorad.ir.expr import Size
from tensorad.ir.tensor import Tensor
from tests.support.machines import described

MACHINE = "registers=32,vector_bytes=64,cores=2,l2=262144,l3=33554432"
AVX2 = "registers=16,vector_bytes=32,cores=2,l2=65536,l3=4194304"


def product(n: int | Size, k: int, m: int, dtype: str = "float32") -> tuple[Tensor, list[Tensor]]:
    """A layer's gradient by its weights: rows of results are long, sums are short."""
    a, b = te.placeholder((k, n), dtype, name="A"), te.placeholder((k, m), dtype, name="B")
    r = te.reduce_axis(k, name="k")
    y: Tensor = te.compute((n, m), lambda i, j: te.sum(a[r, i] * b[r, j], axis=r), name="Y")
    return y, [a, b]


def packed(y: Tensor, inputs: list[Tensor], machine: str = MACHINE) -> LoopProgram:
    with described(machine):
        program = lower_program([y], inputs, choices=Choices(pack="panel", parallel=True))
    verify_loops(program)
    return program


def shared(program: LoopProgram) -> list[tuple[object, ...]]:
    """Panels that are no thread's own."""
    return [t.shape for k in program.kernels for t in k.writes if t.name == "panel"]


def test_all_lanes_are_packed_before_the_rows() -> None:
    program = packed(*product(120, 32, 1000))
    assert shared(program) == [(16, 32, 64)]
    shares = [s for k in program.kernels for s in k.body if isinstance(s, For)]
    rows = [s for s in shares if s.kind == "parallel" and s.axis.extent == 120 // 6]
    assert rows  # one row tile meets all slivers before the next row tile
    assert all(s.kind != "parallel" for r in rows for s in statements(r.body) if isinstance(s, For))


@pytest.mark.parametrize(
    ("n", "k", "m"),
    [
        (24, 32, 1000),  # too few row tiles for the threads
        (60, 32, 1000),  # results that stay in the second cache
        (120, 600, 1000),  # deep: a panel of slivers for some lanes at a time
        (120, 200, 1 << 17),  # it would not stay in the last cache
    ],
)
def test_what_is_packed_a_part_at_a_time(n: int, k: int, m: int) -> None:
    assert not shared(packed(*product(n, k, m)))


def test_batches_are_packed_one_by_one() -> None:
    a, b = te.placeholder((4, 32, 120), name="A"), te.placeholder((4, 32, 1000), name="B")
    r = te.reduce_axis(32, name="k")
    y: Tensor = te.compute(
        (4, 120, 1000), lambda s, i, j: te.sum(a[s, r, i] * b[s, r, j], axis=r), name="Y"
    )
    assert not shared(packed(y, [a, b]))


@pytest.mark.sampled(15)
@pytest.mark.parametrize("m", [1, 15, 16, 17, 63, 64, 65, 129, 200])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("machine", [MACHINE, AVX2])
def test_bits_are_those_of_other_ways(m: int, dtype: str, machine: str) -> None:
    y, inputs = product(1001, 19, m, dtype)
    rng = np.random.default_rng(m)
    given = [rng.normal(size=t.shape).astype(dtype) for t in inputs]
    given[0][3, 7], given[1][5, m - 1] = np.inf, np.nan
    found = []
    with described(machine):
        for pack, threads in (("panel", 1), ("panel", 2), ("place", 1)):
            chosen = Choices(contract=True, pack=pack, parallel=pack == "panel")  # type: ignore[arg-type]  # two of four
            with override(num_threads=threads):
                found.append(build(y, inputs, schedule=chosen)(*given))
    assert all(f.tobytes() == found[0].tobytes() for f in found[1:])
    with np.errstate(invalid="ignore"):
        expected = given[0].T @ given[1]
    assert np.allclose(found[0], expected, rtol=1e-4, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("n", [0, 1, 5, 6, 7, 40])
def test_symbolic_rows(n: int) -> None:
    y, inputs = product(te.size("n"), 32, 150)
    assert shared(packed(y, inputs)) == [(3, 32, 64)]
    rng = np.random.default_rng(n)
    given = [rng.normal(size=(32, w)).astype(np.float32) for w in (n, 150)]
    found = build(y, inputs, schedule=Choices(pack="panel", parallel=True))(*given)
    assert np.allclose(found, given[0].T @ given[1], rtol=1e-4, atol=1e-4)
