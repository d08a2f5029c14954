"""Loops that threads share: long enough, over what lies outermost in memory."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad import te, topi
from tensorad.codegen.directives import Choices
from tensorad.codegen.loops.collapse import runs_of
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.ir import For, LoopProgram
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.lower import lower_program
from tensorad.config import override
from tensorad.ir.expr import axis
from tensorad.ir.tensor import Tensor
from tests.support.machines import described


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
@described()
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


@pytest.mark.parametrize("images", [64, 3])
def test_a_tile_that_takes_a_whole_axis_is_no_loop(images: int) -> None:
    """All six channels are summed side by side: threads share the rows of the window."""
    x, h = te.placeholder((images, 1, 28, 28), name="X"), te.placeholder((images, 6, 28, 28))
    w = te.placeholder((6, 1, 5, 5), name="W")
    gradients = ta.vjp(topi.nn.conv2d(x, w, padding=2), [w], h)
    with described("registers=32,vector_bytes=64,l2=1048576,cores=2"):
        program = lower_program(gradients, [x, h], choices=Choices(blocks=False))
        verify_loops(program)
        found = outermost(program)
        assert [runs_of(s.axis) for s in found] == [5] * 5
        assert {s.kind for s in found} == {"parallel" if images == 64 else "serial"}
        f = ta.build(gradients, [x, h])
    rng = np.random.default_rng(2)
    a, b = (rng.normal(size=(images, c, 28, 28)).astype(np.float32) for c in (1, 6))
    results = []
    for threads in (1, 2, 3):
        with override(num_threads=threads):
            results.append(np.asarray(f(a, b)))
    padded = np.pad(a[:, 0].astype(np.float64), ((0, 0), (2, 2), (2, 2)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (5, 5), (1, 2))
    wanted = np.einsum("bcyx,byxuv->cuv", b.astype(np.float64), windows)
    np.testing.assert_allclose(results[0].reshape(6, 5, 5), wanted, rtol=1e-3, atol=1e-3)
    assert all(r.tobytes() == results[0].tobytes() for r in results)


def test_runs_are_counted_between_numbers() -> None:
    assert runs_of(axis("i", 3, 10)) == 7
    assert runs_of(axis("i", 3, 10, 4)) == 2
    assert runs_of(axis("i", 3, 3)) == 0


def product(depth: int, columns: int, packed: bool) -> tuple[list[Tensor], Tensor]:
    """64 rows by the weights of a layer, which lie the other way where they are packed."""
    x, k = te.placeholder((64, depth), name="X"), te.reduce_axis(depth, "k")
    w = te.placeholder((columns, depth) if packed else (depth, columns), name="W")
    y = te.compute(
        (64, columns),
        lambda i, j: te.sum(x[i, k] * (w[j, k] if packed else w[k, j]), axis=k),
        name="Y",
    )
    return [x, w], y


@pytest.mark.parametrize("packed", [False, True])
def test_threads_that_are_awake_share_the_rows_of_light_products(packed: bool) -> None:
    inputs, y = product(120, 400, packed)
    with described("registers=32,vector_bytes=64,l2=1048576,l3=33554432,cores=2"):
        program = lower_program([y], inputs)
        verify_loops(program)
        (kernel,) = program.kernels
        rows = [s for s in outermost(program) if s.axis.name.startswith("r")]
        assert rows and all(s.kind == "parallel" and s.work is not None for s in rows)
        assert not kernel.scratch, "what is packed is there for all threads"
        alone = lower_program([y], inputs, choices=Choices(parallel=False))
        extents = [s.axis.extent for s in outermost(program)]
        assert [s.axis.extent for s in outermost(alone)] == extents
        small_inputs, small = product(40, 40, packed)
        loops = outermost(lower_program([small], small_inputs))
        assert {s.kind for s in loops if s.axis.name.startswith("r")} == {"serial"}
        f = ta.build(y, inputs)
    rng = np.random.default_rng(4)
    a, b = (rng.normal(size=tuple(map(int, t.shape))).astype("f") for t in inputs)  # type: ignore[arg-type]  # numbers
    with override(num_threads=1):
        want = f(a, b)
    np.testing.assert_allclose(want, a @ (b.T if packed else b), rtol=1e-3, atol=1e-3)
    for count in (2, 3, 8):
        with override(num_threads=count):
            for _ in range(20):
                np.testing.assert_array_equal(f(a, b), want)


@described()
def test_rows_whose_results_share_lines_are_not_shared() -> None:
    x, k = te.placeholder((128, 10), name="X"), te.reduce_axis(128, "k")
    a = te.placeholder((128, 512), name="A")
    y = te.compute((512, 10), lambda j, r: te.sum(x[k, r] * a[k, j], axis=k), name="Y")
    program = lower_program([y], [x, a])
    assert {s.kind for s in outermost(program)} == {"serial"}


@described()
def test_threads_that_are_awake_share_fused_loops_with_products_inside() -> None:
    """What a product packs belongs to the columns of one run, so nothing is packed again."""
    d, w = te.placeholder((128, 10), name="D"), te.placeholder((512, 10), name="W")
    j, i = te.reduce_axis(10, "j"), te.reduce_axis(128, "i")
    h = te.compute((128, 512), lambda i, k: te.sum(d[i, j] * w[k, j], axis=j), name="H")
    a = te.compute((128, 512), lambda i, k: te.tanh(h[i, k]), name="A")
    s = te.compute((512,), lambda k: te.sum(a[i, k], axis=i), name="S")
    program = lower_program([a, s], [d, w])
    verify_loops(program)
    (kernel,) = program.kernels
    (loop,) = [t for t in kernel.body if isinstance(t, For)]
    assert (loop.kind, loop.axis.extent) == ("parallel", 8)
    assert loop.work is not None and kernel.scratch
    f = ta.build([a, s], [d, w])
    rng = np.random.default_rng(5)
    given = [rng.normal(size=tuple(map(int, t.shape))).astype("f") for t in (d, w)]  # type: ignore[arg-type]  # numbers
    with override(num_threads=1):
        want = f(*given)
    for count in (2, 3, 8):
        with override(num_threads=count):
            for _ in range(20):
                for have, expected in zip(f(*given), want, strict=True):
                    np.testing.assert_array_equal(have, expected)
