"""Computes in one loop over rows: which share it, what stays in scratch, and equal bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tensorad import te, topi
from tensorad.autodiff import vjp
from tensorad.building import build
from tensorad.codegen.directives import Choices, Given
from tensorad.codegen.fusion import tile
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.ir import Fold, LoopProgram, Store
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.loops.visit import statements
from tensorad.codegen.lower import lower_program
from tensorad.compiled import CompiledFunction
from tensorad.ir.analysis.sizes import bytes_of
from tensorad.ir.reference.interpret import interpret, shape_of
from tensorad.ir.tensor import Tensor
from tests.random.generators import (
    WIDE,
    Array,
    Program,
    campaign,
    random_program,
    random_symbolic_program,
)
from tests.random.test_random_jit import DTYPES
from tests.random.test_random_symbolic import SIZES
from tests.support.loops.loop_traffic import traffic
from tests.support.machines import described

Made = tuple[list[Tensor], list[Tensor]]
"""Outputs, inputs."""


def matrix(name: str, *shape: int) -> Tensor:
    return te.placeholder(shape, name=name)


def softmax(n: int, m: int) -> Made:
    x = matrix("X", n, m)
    return [topi.nn.softmax(x)], [x]


def softmax_gradient(n: int, m: int) -> Made:
    x, h = matrix("X", n, m), matrix("H", n, m)
    return list(vjp(topi.nn.softmax(x), [x], h)), [x, h]


def logsumexp(n: int, m: int) -> Made:
    x = matrix("X", n, m)
    return [topi.logsumexp(x, axis=-1)], [x]


def layer_norm(n: int, m: int) -> Made:
    x, g, b = matrix("X", n, m), matrix("g", m), matrix("b", m)
    return [topi.nn.layer_norm(x, g, b, axis=1)], [x, g, b]


def channel_norm(n: int, m: int) -> Made:
    """Rows in the middle: means over all axes but the second."""
    x = matrix("X", 8, n, m)
    a, b, c, d = [te.reduce_axis((0, e), f"r{k}") for k, e in enumerate((8, m, 8, m))]
    mean = te.compute((n,), lambda i: te.sum(x[a, i, b], axis=[a, b]) * (1 / m), "mean")
    left = te.compute((n,), lambda i: te.sum(te.abs(x[c, i, d] - mean[i]), axis=[c, d]), "left")
    return [te.compute(x.shape, lambda k, i, j: (x[k, i, j] - mean[i]) / left[i], "Y")], [x]


ROWS: dict[str, Callable[[int, int], Made]] = {
    "softmax": softmax,
    "softmax gradient": softmax_gradient,
    "logsumexp": logsumexp,
    "layer norm": layer_norm,
    "channel norm": channel_norm,
}


def lowered(made: Made, fuse: bool | None = None) -> LoopProgram:
    choices: Given = None if fuse is None else Choices(fuse=fuse)
    program = lower_program(*made, choices=choices)
    verify_loops(program)
    return program


def results(made: Made, program: LoopProgram, arrays: list[Array]) -> list[bytes]:
    f = CompiledFunction(made[0], program, "f")
    found = f(*arrays)
    return [a.tobytes() for a in (found if isinstance(found, list) else [found])]


def arrays_of(tensors: list[Tensor]) -> list[Array]:
    rng = np.random.default_rng(3)
    return [rng.normal(size=t.shape).astype(str(t.dtype)) for t in tensors]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("size", [(512, 256), (515, 250)])
def test_row_operators_are_one_pass_over_memory(name: str, size: tuple[int, int]) -> None:
    made = ROWS[name](*size)
    program, apart = lowered(made), lowered(made, fuse=False)
    assert len(program.kernels) == 1 < len(apart.kernels)
    moved = traffic(program)
    once = sum(bytes_of(t, {}) for t in (*made[0], *made[1]))
    assert moved.read + moved.written == once
    assert moved.temporaries == 0
    assert traffic(apart).temporaries > 0
    arrays = arrays_of(made[1])
    assert results(made, program, arrays) == results(made, apart, arrays)


@pytest.mark.parametrize("name", ROWS)
def test_fused_loops_compute_what_the_interpreter_does(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tile, "MANY_POINTS", 64)  # several blocks, and a rest
    made = ROWS[name](11, 6)
    program = lowered(made, fuse=True)
    assert len(program.kernels) == 1
    values = dict(zip(made[1], arrays_of(made[1]), strict=True))
    got, _ = interpret_loops(program, values)
    for have, want in zip(got, interpret(made[0], values), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-6)


def test_a_window_is_not_fused() -> None:
    x = matrix("X", 4096, 64)
    a = te.compute(x.shape, lambda i, j: x[i, j] * 2, "A")
    t = te.reduce_axis((0, 64), "t")
    b = te.compute((4094,), lambda i: te.sum(a[i, t] + a[i + 2, t], axis=t), "B")
    assert len(lowered(([b], [x]), fuse=True).kernels) == 2


def test_a_shorter_reader_is_not_fused() -> None:
    x = matrix("X", 4096, 64)
    t, u = te.reduce_axis((0, 64), "t"), te.reduce_axis((0, 64), "u")
    a = te.compute((4096,), lambda i: te.sum(x[i, t], axis=t), "A")
    b = te.compute((4000,), lambda i: te.sum(x[i, u] * a[i], axis=u), "B")
    assert len(lowered(([b], [x]), fuse=True).kernels) == 2


def test_what_runs_between_keeps_its_place() -> None:
    """mean -> shares (over all rows) -> Y: mean and Y have rows in common, but not the order."""
    x = matrix("X", 512, 256)
    t, u = te.reduce_axis((0, 256), "t"), te.reduce_axis((0, 512), "u")
    mean = te.compute((512,), lambda i: te.sum(x[i, t], axis=t), "mean")
    total = te.compute((1,), lambda z: te.sum(mean[u] + z, axis=u), "total")
    y = te.compute(x.shape, lambda i, j: x[i, j] - mean[i] / total[0], "Y")
    for fuse in (None, True):
        program = lowered(([y], [x]), fuse)
        assert [t.name for k in program.kernels for t in k.writes] == ["mean", "total", "Y"]


def test_outputs_and_tensors_read_elsewhere_stay_in_memory() -> None:
    x = matrix("X", 512, 256)
    y = topi.nn.softmax(x)
    u = te.reduce_axis((0, 512), "u")
    columns = te.compute((256,), lambda j: te.sum(y[u, j], axis=u), "columns")
    program = lowered(([y, columns], [x]))
    first, last = program.kernels
    assert first.writes == (y,) and last.reads == (y,)
    assert {t.name for t in first.scratch} >= {"exps", "inverse"}


def test_large_outputs_that_are_read_again_stream_beside_their_rows() -> None:
    x, h = matrix("X", 64, 128), matrix("H", 64, 128)
    y, j = topi.nn.softmax(x), te.reduce_axis(128, "j")
    total = te.compute((64,), lambda i: te.sum(y[i, j] * h[i, j], axis=j), "total")
    dx = te.compute((64, 128), lambda i, j: y[i, j] * (h[i, j] - total[i]), "dX")
    made: Made = ([y, dx], [x, h])
    with described("l3=49152"):
        program = lowered(made, fuse=True)
    (kernel,) = program.kernels
    stores = [s for s in statements(kernel.body) if isinstance(s, Store)]
    assert {t.name for s in stores for t in s.tensors if s.streaming} == {"softmax", "dX"}
    assert {t.name for t in kernel.scratch} >= {"softmax", "exps"}
    assert y not in kernel.reads
    arrays = arrays_of(made[1])
    assert results(made, program, arrays) == results(made, lowered(made, fuse=False), arrays)


def test_one_tensor_of_a_pair_may_stay_in_memory() -> None:
    """Kept and dropped components of one reduction are stored in different places."""
    x = matrix("X", 64, 300)
    t = te.reduce_axis((0, 300), "t")
    best = te.comm_reducer(
        lambda a, b: (te.select(a[0] >= b[0], a[0], b[0]), a[1] + b[1]),
        lambda p, q: (te.const(-np.inf, p), te.const(0.0, q)),
        "best",
    )
    top, sums = te.compute((64,), lambda i: best((x[i, t], x[i, t]), axis=t), "pair")
    y = te.compute(x.shape, lambda i, j: x[i, j] / sums[i], "Y")
    made: Made = ([y, top], [x])
    program = lowered(made, fuse=True)
    assert len(program.kernels) == 1
    arrays = arrays_of([x])
    assert results(made, program, arrays) == results(made, lowered(made, fuse=False), arrays)


def dense(x: Tensor, w: Tensor) -> Tensor:
    k = te.reduce_axis((0, x.shape[1]), "k")
    return te.compute((x.shape[0], w.shape[1]), lambda i, j: te.sum(x[i, k] * w[k, j], axis=k), "Z")


def test_bias_and_activation_end_the_sum() -> None:
    x, w, b = matrix("X", 64, 96), matrix("W", 96, 160), matrix("b", 160)
    z = dense(x, w)
    a = te.compute(z.shape, lambda i, j: z[i, j] + b[j], "A")
    y = te.compute(z.shape, lambda i, j: te.select(a[i, j] > 0, a[i, j], 0.1 * a[i, j]), "Y")
    made: Made = ([y], [x, w, b])
    program, apart = lowered(made), lowered(made, fuse=False)
    assert (len(program.kernels), len(apart.kernels)) == (1, 3)
    assert traffic(program).temporaries == 0
    assert program.kernels[0].scratch == ()
    assert folds(program) == folds(apart)
    arrays = arrays_of(made[1])
    assert results(made, program, arrays) == results(made, apart, arrays)


def test_a_result_that_is_needed_later_is_stored_beside_its_epilogue() -> None:
    x, w = matrix("X", 64, 96), matrix("W", 96, 160)
    z = dense(x, w)
    y = te.compute(z.shape, lambda i, j: te.tanh(z[i, j]), "Y")
    made: Made = ([y, z], [x, w])
    program = lowered(made)
    (kernel,) = program.kernels
    assert kernel.writes == (z, y)
    arrays = arrays_of(made[1])
    assert results(made, program, arrays) == results(made, lowered(made, fuse=False), arrays)


def test_sums_in_lanes_take_no_costly_epilogue() -> None:
    """One element at a time is stored there: exp would run without lanes."""
    x = matrix("X", 512, 96)
    k = te.reduce_axis((0, 96), "k")
    s = te.compute((512,), lambda i: te.sum(x[i, k], axis=k), "S")
    y = te.compute((512,), lambda i: te.exp(s[i]), "Y")
    assert len(lowered(([y], [x])).kernels) == 2
    assert len(lowered(([y], [x]), fuse=True).kernels) == 1


def test_formulas_that_would_read_every_other_element_stay_apart() -> None:
    """Y is stored in two interleaved parts: beside it H would be read with gaps."""
    x, h = matrix("X", 64, 256), matrix("H", 64, 512)
    y = te.compute((64, 512), lambda i, j: te.select(j % 2 == 0, x[i, j // 2], 0.5), "Y")
    z = te.compute((64, 512), lambda i, j: y[i, j] * h[i, j], "Z")
    (apart,) = lowered(([z], [x, h])).kernels
    assert [t.name for t in apart.scratch] == ["Y"]  # they share a loop over rows
    (inside,) = lowered(([z], [x, h]), fuse=True).kernels
    assert inside.scratch == ()


def test_an_epilogue_waits_for_what_else_it_reads() -> None:
    """Y reads Z at its own place, and the sum of all of Z."""
    x, w = matrix("X", 64, 96), matrix("W", 96, 160)
    z = dense(x, w)
    r, c = te.reduce_axis((0, 64), "r"), te.reduce_axis((0, 160), "c")
    total = te.compute((1,), lambda q: te.sum(z[r, c], axis=[r, c]), "total")
    y = te.compute(z.shape, lambda i, j: z[i, j] / total[0], "Y")
    for fuse in (None, True):
        program = lowered(([y], [x, w]), fuse)
        assert [t.name for k in program.kernels for t in k.writes] == ["Z", "total", "Y"]


def folds(program: LoopProgram) -> int:
    """Fold statements, and with them the register tile."""
    return sum(isinstance(s, Fold) for k in program.kernels for s in statements(k.body))


def check_bits(program: Program) -> int:
    """Fused by force, by estimate and not at all: the same bits. How many kernels were saved."""
    arrays = program.arrays()
    made: Made = (program.outputs, list(arrays))
    apart = lower_program(*made, choices=Choices(fuse=False))
    wanted = results(made, apart, list(arrays.values()))
    saved = 0
    for given in (Choices(fuse=True), None):
        fused = lower_program(*made, choices=given)
        assert results(made, fused, list(arrays.values())) == wanted
        saved += len(apart.kernels) - len(fused.kernels)
    return saved


def check_random(seeds: range) -> int:
    saved = 0
    for seed in seeds:
        extents = {"computes": 4, "extents": WIDE} if seed % 2 else {}
        program = random_program(seed, DTYPES[seed % len(DTYPES)], **extents)  # type: ignore[arg-type]
        saved += check_bits(program)
    return saved


def test_random_programs_have_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tile, "MANY_POINTS", 8)
    assert check_random(range(12)) > 0


@pytest.mark.slow
@pytest.mark.parametrize("first", campaign(range(100, 300, 50), 1))
def test_more_random_programs(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tile, "MANY_POINTS", 8)
    assert check_random(range(first, first + 50)) > 0


def check_symbolic(seed: int) -> None:
    """The same at five sizes of one build, 0 and 1 among them, gradients included."""
    program = random_symbolic_program(seed, computes=3, sums=True)
    y = program.outputs[-1]
    head = te.placeholder(y.shape, dtype="float64", name="H")
    outputs = [*program.outputs, *vjp(y, program.float_inputs, head)]
    functions: list[CompiledFunction] = []
    for sizes in SIZES:
        arrays = program.arrays(sizes)
        shape = shape_of(y, {t: a.shape for t, a in arrays.items()}, sizes)
        arrays[head] = np.random.default_rng(seed).standard_normal(shape)
        given = (Choices(fuse=False), Choices(fuse=True), None)
        functions = functions or [build(outputs, list(arrays), schedule=c) for c in given]
        apart, *others = [f(*arrays.values()) for f in functions]
        for found in others:
            assert [a.tobytes() for a in found] == [a.tobytes() for a in apart]


def test_symbolic_sizes_have_the_same_bits() -> None:
    for seed in range(3):
        check_symbolic(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", campaign(range(100, 200, 10), 1))
def test_more_symbolic_programs(first: int) -> None:
    for seed in range(first, first + 10):
        check_symbolic(seed)


def test_windows_read_a_fraction_of_what_a_product_of_axes_says() -> None:
    """A gradient over windows joins the fold whose results it reads, image by image."""
    x, h = te.placeholder((64, 48, 48), name="X"), te.placeholder((64, 44, 44), name="H")
    p, q = te.reduce_axis(3, name="p"), te.reduce_axis(3, name="q")

    def window(k: Any, i: Any, j: Any) -> Any:
        return te.logsumexp(x[k, i + 2 * p, j + 2 * q], axis=[p, q])

    (dx,) = vjp(te.compute(h.shape, window, name="Y"), [x], h)
    (kernel,) = lower_program([dx], [x, h]).kernels
    assert {t.shape for t in kernel.scratch} == {(44, 44)}
