"""Copies of padded operands: as a whole before, or of what each block reads, near the processor."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad import topi
from tensorad.building import build
from tensorad.codegen.directives import Choices
from tensorad.codegen.loops.ir import For, Kernel
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.lower import lower_program
from tensorad.ir.tensor import Tensor
from tests.support.machines import described

MACHINE = "registers=32,vector_bytes=64,l2=262144,l3=1048576"


def by_weights(
    window: int,
    padding: int,
    strides: int = 1,
    dilation: int = 1,
    images: int = 2,
    groups: int = 1,
) -> tuple[Tensor, list[Tensor]]:
    """The gradient of a convolution of images of 64 x 28 x 28, in groups, by its weights."""
    x = ta.placeholder((images, 64 * groups, 28, 28), name="X")
    w = ta.placeholder((16 * groups, 64, window, window), name="W")
    y = topi.nn.conv2d(x, w, strides=strides, padding=padding, dilation=dilation, groups=groups)
    h = ta.placeholder(y.shape, name="H")
    (found,) = ta.JacobianRecursive(y, [w], h)
    return found, [x, h]


def planned(y: Tensor, inputs: list[Tensor], cores: int) -> Kernel:
    with described(f"{MACHINE},cores={cores}"):
        program = lower_program([y], inputs, choices=Choices(contract=True, pack="relayout"))
    verify_loops(program)
    return program.kernels[0]


@pytest.mark.parametrize("cores", [1, 2, 8])
def test_few_cores_copy_what_a_block_reads(cores: int) -> None:
    """One of many would copy as much as all of them together do before."""
    kernel = planned(*by_weights(3, 1), cores)
    scratch = {t.name: t for t in kernel.scratch}
    made = [t.name for t in kernel.writes]
    assert ("X.window" in scratch) is ("X.copy" not in made) is (cores < 8)
    if cores < 8:
        image, rows, columns, channels = scratch["X.window"].shape
        assert (image, columns, channels) == (1, 30, 64)  # channels lie side by side
        assert isinstance(rows, int) and rows < 28 and rows * 30 * 64 * 4 <= 262144 // 3


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("cores", "together"), [(1, 9), (2, 9), (3, 3), (8, 9), (64, 2)])
def test_sums_cut_for_threads_copy_what_a_block_reads(cores: int, together: int) -> None:
    """Threads share blocks of images then, and all panels of one have the same copy."""
    kernel = planned(*by_weights(3, 1, images=16), cores)
    assert [t.shape for t in kernel.writes if t.name == "dW.blocks"] == [(8, 16, 64, 3, 3)]
    scratch = {t.name: t.shape for t in kernel.scratch}
    made = [t.name for t in kernel.writes]
    assert scratch["sums"][0] == together
    assert ("X.window" in scratch) is ("X.copy" not in made) is (cores in (1, 2, 8))
    (shared,) = [s for s in kernel.body if isinstance(s, For) and s.axis.name == "q"]
    assert (shared.kind, shared.axis.extent) == ("parallel", 8 * -(-9 // together))


def test_groups_of_channels_copy_their_own() -> None:
    y, inputs = by_weights(3, 1, groups=2)
    kernel = planned(y, inputs, 2)
    scratch = {t.name: t.shape for t in kernel.scratch}
    assert "X.copy" not in [t.name for t in kernel.writes]
    assert scratch["X.window"][-1] == 64  # of 128 channels
    rng = np.random.default_rng(2)
    x, h = (rng.normal(size=t.shape).astype("f4") for t in inputs)
    around = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(around, (3, 3), (2, 3))
    parts = [
        np.einsum("nohw,nchwyx->ocyx", h[:, g * 16 : g * 16 + 16], windows[:, g * 64 : g * 64 + 64])
        for g in range(2)
    ]
    with described(f"{MACHINE},cores=2", num_threads=2):
        found = build(y, inputs, schedule=Choices(contract=True, pack="relayout"))(x, h)
    np.testing.assert_allclose(found, np.concatenate(parts), rtol=1e-3, atol=1e-3)


def test_windows_that_overlap_much_are_copied_once() -> None:
    kernel = planned(*by_weights(7, 3), 2)
    assert "X.copy" in [t.name for t in kernel.writes]


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("window", "padding", "strides", "dilation"),
    [(3, 1, 1, 1), (3, 0, 1, 1), (3, 2, 2, 1), (2, 1, 1, 2)],
)
@pytest.mark.parametrize(
    ("threads", "images"),
    [(1, 2), (3, 2), pytest.param(3, 20, marks=pytest.mark.slow)],
)
def test_bits_are_those_of_other_ways(
    window: int, padding: int, strides: int, dilation: int, threads: int, images: int
) -> None:
    y, inputs = by_weights(window, padding, strides, dilation, images)
    rng = np.random.default_rng(window)
    given = [rng.normal(size=t.shape).astype("f4") for t in inputs]
    given[0][1, 5, 0, 27], given[1][0, 3, 2, 2] = np.nan, np.inf
    found = []
    ways = [(n, "relayout") for n in (1, 2, 3, 8)] + [(1, "panel")]
    for cores, pack in ways:
        with described(f"{MACHINE},cores={cores}", num_threads=threads):
            schedule = Choices(contract=True, pack=pack)  # type: ignore[arg-type]  # two of four
            found.append(build(y, inputs, schedule=schedule)(*given))
    assert all(one.tobytes() == found[0].tobytes() for one in found[1:])
