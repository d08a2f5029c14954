"""`f.memory`: what a call uses, by the same plan that the call follows."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

import tensorad as ta
from tensorad import config, te, topi
from tensorad.codegen.entry.frames_ir import frame_library
from tensorad.codegen.llvm import call_block as block
from tensorad.codegen.loops.scratch import ALIGNMENT
from tensorad.codegen.runtime.frames import Frames, Program, Template
from tensorad.codegen.runtime.memory_report import MemoryUse
from tensorad.errors import BindError
from tests.support.machines import described

KIB = 1024


def test_rows_in_scratch_need_no_arena() -> None:
    x = te.placeholder((1024, 512), name="X")
    y = topi.nn.softmax(x)
    with config.override(num_threads=2):
        fused = ta.build(y, [x]).memory
        apart = ta.build(y, [x], schedule=ta.Schedule(fuse=False)).memory
    assert (fused.inputs, fused.outputs, fused.constants) == (2048 * KIB, 2048 * KIB, 0)
    assert fused.temporaries == 0 and apart.scratch == 0
    assert 2 * KIB <= fused.scratch <= 16 * KIB  # one row, two numbers, whole pages
    assert apart.temporaries >= 2048 * KIB
    assert fused.peak == 4096 * KIB + 2 * fused.scratch
    assert fused.peak < apart.peak - 2000 * KIB


@described()
def test_temporaries_share_memory_when_they_do_not_live_together() -> None:
    x = te.placeholder((256, 256), dtype="float64", name="X")
    k = [te.reduce_axis((0, 256), f"k{n}") for n in range(4)]
    t = x
    for axis in k:
        t = te.compute(
            x.shape,
            lambda i, j, t=t, axis=axis: te.sum(t[axis, i] * t[j, axis], axis=axis),
            f"P{axis.name}",
        )
    f = ta.build(t, [x], schedule=ta.Schedule(fuse=False))
    assert f.memory.temporaries == 2 * 512 * KIB  # of three


def test_symbolic_sizes_are_asked_for() -> None:
    n = te.size("n")
    x = te.placeholder((n, 300), name="X")
    f = ta.build(topi.nn.softmax(x), [x])
    with pytest.raises(BindError, match=r"depends on n"):
        _ = f.memory
    with pytest.raises(BindError, match=r"no size"):
        f.memory_at(n=4, m=3)
    small, large = f.memory_at(n=10), f.memory_at(n=np.int64(1000))
    assert (small.inputs, large.inputs) == (10 * 1200, 1000 * 1200)
    assert f(np.ones((10, 300), np.float32)).nbytes == small.outputs


def test_it_prints() -> None:
    text = str(MemoryUse(1536, 100, 0, 3 << 20, 4096, 2))
    assert text.splitlines()[0].split() == ["inputs", "1.5", "KiB"]
    assert "2 x 4.0 KiB" in text and "3.0 MiB" in text


@pytest.mark.parametrize("count", [7, 8])
def test_constants_are_counted(count: int) -> None:
    table = te.const(np.arange(count, dtype=np.int64))
    x = te.placeholder((100,), name="X")
    f = ta.build(te.compute((count,), lambda i: x[table[i]], "Y"), [x])
    assert f.memory.constants == 8 * count


@pytest.mark.parametrize("size", [64, (1 << 20) - 1, 1 << 20, 3 << 20])
def test_large_scratch_starts_at_a_large_page(size: int) -> None:
    nothing = np.zeros(4, np.int64)
    program = Program(nothing.reshape(-1, 4), nothing, nothing, 0, 0, 0, [], False, False)
    named = SimpleNamespace(word_counts=nothing[:1], places=nothing[:2])
    frames = Frames(Template(program, [], [], 0, size, None), named, 0)  # type: ignore[arg-type]  # no steps
    pointer = ctypes.c_void_p
    take = ctypes.CFUNCTYPE(pointer, pointer)(frame_library().addresses["take"])
    call = (ctypes.c_int64 * block.CALL_WORDS).from_address(take(frames.address) or 0)
    assert call[block.SCRATCH] % (1 << 21 if size >= 1 << 20 else ALIGNMENT) == 0
    ctypes.memset(call[block.SCRATCH], 1, size)
