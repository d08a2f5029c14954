"""What contractions ask for ahead, and the order in which panels are packed."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad import topi
from tensorad.autodiff import vjp
from tensorad.codegen.directives import Choices
from tensorad.codegen.loops.ir import For, Prefetch
from tensorad.codegen.loops.kernel_key import kernel_key
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.loops.visit import statements
from tensorad.codegen.lower import lower_program
from tensorad.codegen.runtime.kernel_cache import kernel_text
from tests.codegen.contraction.test_contraction import interpreted, matmul
from tests.random.generator_contractions import Program
from tests.support.machines import described


def test_lines_of_a_large_result_are_fetched_before_its_sums() -> None:
    for n, asked in ((512, True), (128, False)):
        program = matmul(n, n, 64)
        with described("registers=32,vector_bytes=64,l2=524288"):
            (kernel,) = lower_program([program.output], program.inputs).kernels
            text, _ = kernel_text(kernel, kernel_key(kernel)[1])
        assert ("i32 1, i32 3, i32 1" in text) is asked


@pytest.mark.slow
def test_the_next_product_of_a_batch_is_fetched_meanwhile() -> None:
    a, b = ta.placeholder((5, 9, 8), name="A"), ta.placeholder((5, 8, 18), name="B")
    k = ta.reduce_axis(8, name="k")
    out = ta.compute((5, 9, 18), lambda s, i, j: ta.sum(a[s, i, k] * b[s, k, j], axis=k), name="C")
    program = Program(out, (a, b))
    texts: list[str] = []
    results: list[np.ndarray] = []
    for l2 in (4096, 1 << 20):
        with described(f"registers=32,vector_bytes=64,l2={l2}"):
            lowered = lower_program([out], [a, b], choices=Choices(contract=True))
            verify_loops(lowered)
            assert lowered.kernels
            (kernel,) = lowered.kernels
            texts.append(kernel_text(kernel, kernel_key(kernel)[1])[0])
            results.append(interpreted(program, Choices(contract=True)))
            shown = ta.lower([out], [a, b], schedule=Choices(contract=True))
            assert ("fetch 9 from A[q + 1, 0, k*9]" in str(shown)) is (l2 == 4096)
    assert "i32 0, i32 2, i32 1" in texts[0] and "i32 0, i32 2, i32 1" not in texts[1]
    assert np.array_equal(results[0], results[1])


def test_panels_are_packed_in_the_order_of_their_reads() -> None:
    p = matmul(300, 150, 64)
    with described("registers=32,vector_bytes=64,l2=131072,l3=262144,cores=1"):
        kernel = lower_program(
            [p.output], p.inputs, choices=Choices(contract=True, pack="panel", parallel=False)
        )
        loops = [s for s in statements(kernel.kernels[-1].body) if isinstance(s, For)]
    (panel,) = kernel.kernels[-1].scratch
    sliver = panel.shape[2]
    assert panel.shape == (-(-150 // int(sliver)), 64, sliver)  # registers of a tile side by side
    rows = next(s for s in loops if s.axis.name == "r")
    inside = [s.axis.name for s in statements(rows.body) if isinstance(s, For)]
    assert inside[:2] == ["s", "l"]  # a tile of rows meets all slivers


@pytest.mark.parametrize("block", [None, 7])
def test_blocks_of_rows_change_no_bit(block: int | None) -> None:
    p = matmul(37, 75, 40)
    choices = Choices(contract=True, tile=(4, 2), pack="panel", block=block)
    results = []
    for machine in ("l2=1048576", "registers=16,l2=1024,l3=65536,cores=2"):
        with described(machine):
            results.append(ta.build(p.output, p.inputs, schedule=choices)(*p.arrays(0)))
    np.testing.assert_array_equal(*results)
    a, b = p.arrays(0)
    np.testing.assert_allclose(results[0], a @ b, rtol=1e-4, atol=1e-4)


def test_what_data_chooses_is_not_fetched_ahead() -> None:
    """The index of the product after the last one would be read past the end of `idx`."""
    x, w = ta.placeholder((13, 9, 8), name="X"), ta.placeholder((5, 8, 18), name="W")
    idx, k = ta.placeholder((13,), dtype="int64", name="idx"), ta.reduce_axis(8, name="k")
    y = ta.compute((13, 9, 18), lambda q, i, j: ta.sum(x[q, i, k] * w[idx[q], k, j], axis=k))
    with described("registers=32,vector_bytes=64,l2=2048"):
        body = lower_program([y], [x, w, idx], choices=Choices(contract=True)).kernels[-1].body
    assert {s.tensor for s in statements(body) if isinstance(s, Prefetch)} == {x, y}


def test_short_rows_of_a_large_tensor_are_fetched_one_step_ahead() -> None:
    t, d = ta.placeholder((6, 9, 8), name="T"), ta.placeholder((6, 8, 18), name="D")
    ks = [ta.reduce_axis(6, name="p"), ta.reduce_axis(8, name="q")]
    p, q = ks
    out = ta.compute((9, 18), lambda i, j: ta.sum(t[p, i, q] * d[p, q, j], axis=ks), name="C")
    for l2, asked in ((1024, True), (1 << 20, False)):
        with described(f"registers=32,vector_bytes=64,l2={l2}"):
            choices = Choices(contract=True, pack="place", block=100)
            lowered = lower_program([out], [t, d], choices=choices)
            verify_loops(lowered)
            fetched = [s for s in statements(lowered.kernels[0].body) if isinstance(s, Prefetch)]
            assert bool(fetched) is asked


@pytest.mark.slow
def test_taps_take_a_block_of_pixels_together() -> None:
    x, w = ta.placeholder((2, 16, 20, 20), name="X"), ta.placeholder((16, 16, 3, 3), name="W")
    y = topi.nn.conv2d(x, w, padding=1)
    h = ta.placeholder(y.shape, name="H")
    (dw,) = vjp(y, [w], h)
    rng = np.random.default_rng(0)
    given = [rng.normal(size=t.shape).astype(np.float32) for t in (x, h)]
    found: list[np.ndarray] = []
    for cores, orders in ((1, ["kb", "p"]), (2, ["q", "kb", "p"]), (9, ["q", "kb"])):
        with described(f"registers=32,vector_bytes=64,l2=131072,cores={cores}"):
            (kernel,) = lower_program([dw], [x, h], choices=Choices(contract=True)).kernels
            loops = [s.axis for s in statements(kernel.body) if isinstance(s, For)]
            named = [a.name for a in loops if a.name in ("q", "kb", "p") and a.extent != 1]
            assert named == orders
            found.append(ta.build(dw, [x, h], schedule=Choices(contract=True))(*given))
    assert all(np.array_equal(found[0], other) for other in found[1:])
