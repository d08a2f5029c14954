"""The bits of a result follow from formula and sizes alone, whatever runs beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.codegen.directives import REORDERING, Choices, switches
from tensorad.codegen.fusion import tile
from tensorad.codegen.loops.ir import For, Stmt
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.loops.visit import statements
from tensorad.codegen.lower import lower_program
from tensorad.config import override
from tensorad.errors import InternalError
from tensorad.ir.tensor import Tensor
from tests.codegen.llvm.test_targets import HAS_AVX2
from tests.random.generator_mixed import Mixed
from tests.random.generators import Array, campaign
from tests.support.machines import described

MACHINES = ("l2=1024,l3=2048", "l2=65536", "l1=8388608,l2=67108864,l3=1073741824",
            "registers=8,vector_bytes=16", *(("cpu=haswell",) if HAS_AVX2 else ()))  # fmt: skip


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors of a few elements share loops, too."""
    monkeypatch.setattr(tile, "MANY_POINTS", 8)


def free() -> list[Choices]:
    """Decisions that change no sum."""
    names = [name for name in switches() if name not in REORDERING]
    found = [Choices(**{name: value}) for name in names for value in (True, False)]  # type: ignore[arg-type]  # bools
    return [*found, *[Choices(pack=p) for p in ("place", "panel", "relayout")], Choices(block=7)]


def ways() -> Iterator[tuple[dict[str, object], Choices | None]]:
    """Settings and decisions that no bit may depend on."""
    for machine in MACHINES:
        for fuse in (None, Choices(fuse=True), Choices(fuse=False)):
            yield {"machine": machine}, fuse
    for threads in (1, 2, 3, 8):
        yield {"num_threads": threads}, Choices(parallel=True)
    for choices in free():
        yield {}, choices


def bits(
    outputs: list[Tensor], arrays: dict[Tensor, Array], choices: Choices | None = None
) -> list[bytes]:
    found = ta.build(outputs, list(arrays), schedule=choices)(*arrays.values())
    return [a.tobytes() for a in (found if isinstance(found, list) else [found])]


def check(seed: int, most: int | None = None) -> None:
    """One program in all ways, or in some."""
    mixed = Mixed(seed)
    outputs, arrays = mixed.program()
    wanted = bits(outputs, arrays)
    every = [*ways()]
    for settings, choices in every if most is None else mixed.rng.sample(every, most):
        with override(**settings):  # type: ignore[arg-type]  # settings by name
            found = bits(outputs, arrays, choices)
        names = [t.name for t, a, b in zip(outputs, found, wanted, strict=True) if a != b]
        assert not names, (seed, settings, choices, names)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(4))
def test_programs_of_several_dtypes(seed: int) -> None:
    check(seed, 3)


@pytest.mark.slow
@pytest.mark.parametrize("first", campaign(range(10, 40, 10), 1))
def test_more_programs_of_several_dtypes(first: int) -> None:
    for seed in range(first, first + 10):
        check(seed)


def rows() -> tuple[list[Tensor], list[Tensor]]:
    """Sums of float32 rows, which a float64 formula reads."""
    x, k = te.placeholder((300, 1037), name="X"), te.reduce_axis(1037, name="k")
    r = te.compute((300,), lambda i: te.sum(x[i, k], axis=k), name="R")
    y = te.compute(x.shape, lambda i, j: x[i, j].astype("float64") * r[i].astype("float64"))
    return [r, y], [x]


def test_a_wide_reader_leaves_the_lanes_of_a_narrow_sum() -> None:
    outputs, inputs = rows()
    arrays = {inputs[0]: np.random.default_rng(0).normal(size=(300, 1037)).astype("f")}
    alone = bits(outputs[:1], arrays)[0]
    for machine in ("l2=1024,l3=2048", "l2=65536"):
        with described(machine):
            kernels = lower_program(outputs, inputs).kernels
            assert bits(outputs, arrays)[0] == alone
    assert len(kernels) == 1, "the sum and its reader share a loop"


def test_loops_that_fold_in_lanes_state_them() -> None:
    outputs, inputs = rows()
    program = lower_program(outputs, inputs)
    inner = [s for k in program.kernels for s in statements(k.body) if isinstance(s, For)]
    assert [s.lanes for s in inner if s.kind == "vector"] == [16, 0]
    (kernel,) = program.kernels
    silent = replace(kernel, body=tuple([unstated(s) for s in kernel.body]))
    with pytest.raises(InternalError, match=r"acc is folded in lanes of unstated number"):
        verify_loops(replace(program, nodes=(silent,)))


def unstated(s: Stmt) -> Stmt:
    """Loops that say nothing of lanes."""
    return replace(s, lanes=0, body=tuple(map(unstated, s.body))) if isinstance(s, For) else s
