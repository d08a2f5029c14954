"""Columns of a matrix in memory: asked for line by line, or packed in long pieces."""

from __future__ import annotations

import numpy as np
import pytest

from tensorad.building import build
from tensorad.codegen.loops.ir import Kernel, Prefetch
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.loops.visit import statements
from tensorad.codegen.lower import lower_program
from tests.codegen.contraction.test_contraction_panels import product
from tests.support.machines import described

FAR = "l1=49152,l2=2097152,multiply_adds=2,flops=243200000000,by_lines=3"
"""Many sums in a cycle, and memory that is far."""


def planned(changes: str, columns: int = 10_000, dtype: str = "float32") -> Kernel:
    """The kernel of 32 x 3000 x columns."""
    y, inputs = product(32, 3000, columns, dtype)
    with described(changes):
        program = lower_program([y], inputs)
    verify_loops(program)
    return program.kernels[-1]


def panel(kernel: Kernel) -> list[int]:
    """Slivers, steps and lanes of what is packed in scratch; [] where nothing is."""
    panels = [t for t in kernel.scratch if t.name == "panel"]
    return [n for t in panels for n in t.shape if isinstance(n, int)]


def test_columns_are_packed_in_long_pieces_where_lines_come_late() -> None:
    assert panel(planned(f"{FAR},cores=1")) == [8, 500, 32]
    assert panel(planned(FAR)) == [6, 500, 32]  # panels that two cores share evenly
    slivers, steps, lanes = panel(planned(f"{FAR},cores=1", 5_000, "float64"))
    assert slivers * lanes * 8 == 1024 and steps == 500


@pytest.mark.parametrize("speeds", ["flops=0", "read=0", "flops=0,read=0"])
def test_speeds_need_not_be_said(speeds: str) -> None:
    assert panel(planned(f"{FAR},cores=1,{speeds}")) == [8, 500, 32]


@pytest.mark.parametrize(
    "changes",
    [
        "",
        "flops=110000000000,read=25000000000",
        "multiply_adds=2,l2=2097152,flops=243200000000",
        "by_lines=3",  # half of the sums in a cycle: lines come beside them
        f"{FAR},read=60000000000",
    ],
)
def test_columns_are_prefetched_where_sums_take_as_long(changes: str) -> None:
    kernel = planned(changes)
    assert {s.tensor.name for s in statements(kernel.body) if isinstance(s, Prefetch)} == {"B"}
    assert panel(kernel) == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("registers", ["", ",vector_bytes=32,registers=16"])
def test_packing_changes_no_bit(cores: int, registers: str) -> None:
    y, inputs = product(32, 301, 3601)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal([int(n) for n in t.shape]).astype(np.float32) for t in inputs]
    plain = build(y, inputs)(*arrays)
    with described(f"{FAR},l2=262144,l3=1048576,by_lines=9,cores={cores}{registers}"):
        (kernel,) = lower_program([y], inputs).kernels
        made = build(y, inputs)(*arrays)
    assert 0 < panel(kernel)[1] < 301
    np.testing.assert_array_equal(made, plain)
