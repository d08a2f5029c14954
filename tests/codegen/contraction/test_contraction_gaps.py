"""Tests of codegen/contraction/gapped_lanes.py, contraction_lines.py and contraction_write.py."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad import topi
from tensorad.autodiff import vjp
from tensorad.building import build
from tensorad.codegen.contraction.gapped_lanes import pitches, steps_of_panel, stretched
from tensorad.codegen.contraction.recognise import recognise
from tensorad.codegen.directives import Choices
from tensorad.codegen.loops.ir import For, LoopProgram, Prefetch
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.loops.visit import statements
from tensorad.codegen.lower import lower_program
from tensorad.codegen.nest.ir import nest_of, simplify_nest
from tensorad.ir.tensor import Compute, Tensor, outputs
from tests.support.machines import described

MACHINE = "registers=32,vector_bytes=64,cores=1"


def lowered(y: Tensor, inputs: list[Tensor], pack: str | None, l2: int = 1 << 20) -> LoopProgram:
    with described(f"{MACHINE},l2={l2}"):
        return lower_program([y], inputs, choices=Choices(contract=True, pack=pack))  # type: ignore[arg-type]  # one of four


def convolution(
    c: int, size: tuple[int, ...], pad: int = 0, **given: int
) -> tuple[Tensor, list[Tensor]]:
    x, w = ta.placeholder((2, c, *size), name="X"), ta.placeholder((5, c, 3, 3), name="W")
    return topi.nn.conv2d(x, w, padding=pad, **given), [x, w]


def scratch(program: LoopProgram) -> dict[str, tuple[object, ...]]:
    return {t.name: t.shape for k in program.kernels for t in k.scratch}


@pytest.mark.parametrize(
    ("pad", "held"),
    [
        (0, {"sums": (5, 8 * 20 + 18)}),
        (1, {"sums": (5, 16 * 11), "X.window": (1, 8, 12, 19), "unusual": ()}),
        (2, {"X.window": (1, 8, 12, 18), "unusual": ()}),
    ],
)
def test_windows_are_read_without_a_copy_for_each_tap(
    pad: int, held: dict[str, tuple[int, ...]]
) -> None:
    """Nine rows of 18 from rows of 20, which share the zeros between two: no panel.

    170 lanes with what is between rows: a window has room for the rest of the last register.
    """
    y, inputs = convolution(8, (11 - 2 * pad, 20 - 2 * pad), pad)
    program = lowered(y, inputs, None)
    verify_loops(program)
    assert scratch(program) == held


def test_results_are_those_of_panels_bit_by_bit() -> None:
    rng = np.random.default_rng(0)
    for pad, options in ((2, {"dilation": 2}), (4, {})):
        y, inputs = convolution(4, (9, 10), pad, **options)
        given = [rng.normal(size=t.shape).astype(np.float32) for t in inputs]
        found = []
        for pack, l2 in (("gaps", 2048), ("panel", 1 << 20)):
            program = lowered(y, inputs, pack, l2)
            verify_loops(program)
            assert ("panel" in scratch(program)) == (pack == "panel")
            with described(f"l2={l2}"):
                choices = Choices(contract=True, pack=pack)  # type: ignore[arg-type]  # one of four
                found.append(build(y, inputs, schedule=choices)(*given))
        assert all(np.array_equal(found[0], other) for other in found[1:])


def test_planes_of_a_window_have_one_more_row() -> None:
    """Lanes over (ci, ky, kx), where rows share the zeros between them; one more plane is read."""
    x, w = ta.placeholder((1, 16, 2, 2), name="X"), ta.placeholder((2, 16, 3, 3), name="W")
    y = topi.nn.conv2d(x, w, padding=1)
    h = ta.placeholder(y.shape, name="H")
    (dw,) = vjp(y, [w], h)
    assert scratch(lowered(dw, [x, h], "gaps"))["X.window"] == (1, 16 + 1, 5, 3)
    rng = np.random.default_rng(0)
    given = [rng.normal(size=t.shape).astype(np.float32) for t in (x, h)]
    packs = ("gaps", "panel")
    made = [build(dw, [x, h], schedule=Choices(contract=True, pack=p)) for p in packs]  # type: ignore[arg-type]  # two of four
    assert np.array_equal(*[f(*given) for f in made])


def test_which_operands_have_gaps() -> None:
    for options, expected in (({}, (12, 1)), ({"dilation": 2}, (12, 1)), ({"strides": 2}, None)):
        y, _ = convolution(4, (12, 12), 0, **options)
        assert isinstance(y.op, Compute)
        nest = nest_of(y.op.axes, outputs(y.op), y.op.bodies)
        simple = None if nest is None else simplify_nest(nest)
        found = None if simple is None else recognise(simple)
        assert found is not None
        lanes = found.left if len(found.left.axes) > 1 else found.right
        group = lanes.axes[-2:]
        assert pitches(lanes, group, found) == expected
        assert pitches(lanes, group[:1], found) is None
        if expected:
            width = group[-1].extent
            assert stretched(group, expected, 3 * width) == 2 * 12 + width  # type: ignore[operator]


def test_steps_of_a_panel_cost_least_together() -> None:
    assert steps_of_panel(16, 16, lambda n: 100 + n) == 16
    assert steps_of_panel(16, 5, lambda n: 100 + n) == 4
    assert steps_of_panel(16, 16, lambda n: n * n) == 1
    assert steps_of_panel(7, 3, lambda n: 10 + abs(n - 3)) == 3  # 3, 3 and 1
    assert steps_of_panel(7, 0, lambda n: n) == 1


@pytest.mark.parametrize("batch", [3, "n"])
def test_small_images_are_one_panel(batch: int | str) -> None:
    """Rows of 16 fill a register each, but windows of single rows would be copied three times."""
    n = ta.size("n") if batch == "n" else batch
    x, w = ta.placeholder((n, 4, 16, 16), name="X"), ta.placeholder((8, 4, 3, 3), name="W")
    y = topi.nn.conv2d(x, w, padding=1)
    program = lowered(y, [x, w], None)
    verify_loops(program)
    assert scratch(program)["X.window"] == (1, 4, 16 + 3, 17)
    widths = [s.width for k in program.kernels for s in statements(k.body) if isinstance(s, For)]
    assert 48 in widths  # several registers of lanes share what is broadcast


@pytest.mark.sampled(12)
@pytest.mark.parametrize("width", [1, 2, 7, 8, 9, 15, 16, 17, 31, 33])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_lanes_in_windows_of_any_width(width: int, dtype: str) -> None:
    """Registers run on past the last row: what they read there is no part of a result."""
    x = ta.placeholder((2, 3, 5, width), dtype, name="X")
    w = ta.placeholder((4, 3, 3, 3), dtype, name="W")
    y = topi.nn.conv2d(x, w, padding=1)
    verify_loops(lowered(y, [x, w], "gaps"))
    rng = np.random.default_rng(width)
    given = [rng.normal(size=t.shape).astype(dtype) for t in (x, w)]
    given[0][1, 2, 4, width - 1] = np.inf
    found = build(y, [x, w], schedule=Choices(contract=True, pack="gaps"))(*given)
    plain = build(y, [x, w], schedule=Choices(contract=False))(*given)
    assert np.isinf(plain).sum() + np.isnan(plain).sum() <= 4 * 4
    assert np.allclose(found, plain, rtol=1e-4 if dtype == "float32" else 1e-12, equal_nan=True)


def test_what_comes_from_memory_is_prefetched_a_panel_ahead() -> None:
    y, inputs = convolution(8, (20, 20), 1)
    for l2, asked in ((1 << 14, {y, inputs[0]}), (1 << 22, set())):
        program = lowered(y, inputs, "gaps", l2)
        fetched = [
            s for k in program.kernels for s in statements(k.body) if isinstance(s, Prefetch)
        ]
        assert {s.tensor for s in fetched} == asked


def test_taps_of_a_weight_gradient_lie_next_to_the_channels() -> None:
    """dW[co, ci, ky, kx] with lanes over (kx, ci): 15 lanes side by side in a copy."""
    y, inputs = convolution(5, (12, 12))
    h = ta.placeholder(y.shape, name="H")
    (dw,) = vjp(y, inputs[1:], h)
    program = lowered(dw, [inputs[0], h], None)
    verify_loops(program)
    (copy,) = [t for k in program.kernels for t in k.writes if t is not dw]
    assert copy.shape == (2, 12, 12, 5)
    folds = [s for k in program.kernels for s in statements(k.body) if isinstance(s, For)]
    assert 15 in [s.axis.extent for s in folds if s.kind == "vector"]
    given = [
        np.random.default_rng(0).normal(size=t.shape).astype(np.float32) for t in (inputs[0], h)
    ]
    choices = [Choices(contract=True, pack=p) for p in (None, "panel")]
    one, other = (build(dw, [inputs[0], h], schedule=c)(*given) for c in choices)
    assert np.array_equal(one, other)


@pytest.mark.slow
def test_rows_a_page_apart_do_not_share_a_high_tile() -> None:
    """16 rows of 32 x 32 lie 4096 bytes apart: at once they would not stay in the first cache."""
    w = ta.placeholder((16, 3, 7, 7), name="W")
    for size, high in ((64, 8), (62, 16)):
        x = ta.placeholder((1, 3, size, size), name="X")
        y = topi.nn.conv2d(x, w, 2, 3)
        h = ta.placeholder(y.shape, name="H")
        (dw,) = vjp(y, [w], h)
        with described(f"{MACHINE},l2={1 << 20}"):
            text = str(ta.lower([dw], [x, h], schedule=True))
        assert f"register tile {high} x 16" in text
