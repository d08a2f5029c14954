"""Pieces that share loops: taps of a window folded in one pass, borders inside of their core."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.autodiff import vjp
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.ir import Fold, For, LoopProgram
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.lower import lower_program
from tensorad.codegen.model import MODEL
from tensorad.codegen.nest.access import Access
from tensorad.codegen.schedule import fuse_pieces
from tensorad.codegen.schedule.register_loads import SPILL, loaded
from tensorad.config import override
from tensorad.ir.expr import axis
from tensorad.ir.tensor import Tensor
from tensorad.topi.nn import conv2d
from tests.codegen.schedule.test_schedule import statements

Program = tuple[Tensor, list[Tensor]]


def weights(n: int, c: int, size: int, k: int, dtype: str = "float32") -> Program:
    """The gradient by the weights of a padded depthwise convolution."""
    x = te.placeholder((n, c, size, size), dtype, name="X")
    w = te.placeholder((c, 1, k, k), dtype, name="W")
    y = conv2d(x, w, padding=k // 2, groups=c)
    head = te.placeholder(y.shape, dtype, name="H")
    (d,) = vjp(y, [w], head)
    return d, [x, head]


def outputs(n: int, c: int, size: int) -> Program:
    """A padded depthwise convolution."""
    x = te.placeholder((n, c, size, size), name="X")
    w = te.placeholder((c, 1, 3, 3), name="W")
    return conv2d(x, w, padding=1, groups=c), [x, w]


def lowered(program: Program, choices: ta.Schedule | None = None) -> LoopProgram:
    loops = lower_program([program[0]], program[1], choices=choices)
    verify_loops(loops)
    return loops


def arrays(inputs: list[Tensor]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(t.shape).astype(str(t.dtype)) for t in inputs]


def test_all_taps_are_summed_in_one_pass() -> None:
    (kernel,) = lowered(weights(4, 8, 56, 3), ta.Schedule(parallel=True)).kernels
    (over_channels,) = kernel.body
    assert isinstance(over_channels, For) and over_channels.kind == "parallel"
    lanes = [s for s in statements(kernel.body) if isinstance(s, For) and s.kind == "vector"]
    assert [len(s.body) for s in lanes] == [2, 2, 2, 3, 3, 3, 2, 2, 2]  # rows: first, inner, last
    assert {s.width for s in lanes} == {16}


def test_many_taps_are_summed_in_passes_that_registers_allow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fuse_pieces, "MOST_FOLDS", 5)
    (kernel,) = lowered(weights(4, 8, 56, 3)).kernels
    passes = [s for s in kernel.body if isinstance(s, For)]
    made = [len({f.targets for f in statements((p,)) if isinstance(f, Fold)}) for p in passes]
    assert made == [5, 4]


def test_short_sums_of_taps_stay_apart() -> None:
    (kernel,) = lowered(weights(1, 2, 16, 3)).kernels
    assert len(kernel.body) == 9


@pytest.mark.parametrize("shape", [(2, 3, 5, 3), (1, 2, 17, 3)])
def test_forced_sums_of_taps_have_their_values(shape: tuple[int, int, int, int]) -> None:
    program = weights(*shape, "float64")
    given = arrays(program[1])
    want = ta.build([program[0]], program[1], schedule=ta.Schedule(split=False))(*given)
    forced = ta.Schedule(together=True)
    have = ta.build([program[0]], program[1], schedule=forced)(*given)
    np.testing.assert_allclose(have, want, rtol=1e-12, atol=1e-12)
    loops = lowered(program, forced)
    by_tensor = dict(zip(program[1], given, strict=True))
    np.testing.assert_allclose(interpret_loops(loops, by_tensor)[0][0], want, 1e-12, 1e-12)


@pytest.mark.slow
def test_borders_run_inside_of_their_core() -> None:
    program = outputs(8, 32, 56)
    (kernel,) = lowered(program).kernels
    assert len(kernel.body) == 1
    (apart,) = lowered(program, ta.Schedule(borders=False)).kernels
    assert len(apart.body) == 9
    given = arrays(program[1])
    f, g = (
        ta.build([program[0]], program[1], schedule=ta.Schedule(borders=b)) for b in (None, False)
    )
    with override(num_threads=2):
        assert np.array_equal(f(*given), g(*given))


def test_small_borders_stay_in_lanes() -> None:
    (kernel,) = lowered(outputs(1, 8, 24)).kernels
    assert any(isinstance(s, For) and s.kind == "vector" for s in kernel.body)


def test_windows_of_neighbouring_copies_load_what_they_share_once() -> None:
    x = te.placeholder((64, 64), name="X")
    y, ky, kx, lane = axis("y", 0, 64), axis("ky", 0, 3), axis("kx", 0, 3), axis("x", 0, 60)
    read = Access(x, {y: 64, ky: 64, kx: 1, lane: 1})
    assert loaded([read], {}, [ky, kx], [1], MODEL.held) == [1]
    assert loaded([read], {y: 2}, [ky, kx], [1], MODEL.held) == [12 / 9]  # four rows of three
    assert loaded([read], {y: 2}, [], [1], MODEL.held) == [2]
    assert 3 * (8 + 2) > MODEL.held - 8
    assert loaded([read], {y: 8}, [ky, kx], [1], MODEL.held) == [SPILL * 8]
