"""Sums in blocks and by rows, and siblings: values, loops and bits."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
import pytest

import tensorad as ta
from tensorad import te, topi
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.ir import Fold, For, LoopProgram, Prefetch, Stmt, Store
from tensorad.codegen.loops.kernel_key import kernel_key
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.lower import lower_program
from tensorad.codegen.runtime.kernel_cache import kernel_text
from tensorad.config import override
from tensorad.ir.expr import Axis, Expr
from tensorad.ir.tensor import Tensor
from tests.codegen.schedule.test_schedule import all_statements, loops, statements
from tests.random.generators import random_program
from tests.support.machines import described

FORCED = ta.Schedule(blocks=True, rows=True)


def summed(shape: tuple[int, ...], over: tuple[int, ...], dtype: str = "float32") -> list[Tensor]:
    """[X, Y], Y the sum of X over some dimensions."""
    x = te.placeholder(shape, dtype, name="X")
    reduced = {d: te.reduce_axis((0, shape[d]), f"k{d}") for d in over}

    def body(*out: Axis) -> Expr:
        left = list(out)
        index = [reduced[d] if d in reduced else left.pop(0) for d in range(len(shape))]
        return te.sum(x[tuple(index)], axis=[*reduced.values()])

    kept = tuple([n for d, n in enumerate(shape) if d not in over])
    return [x, te.compute(kept, body, "Y")]


def program_of(x: Tensor, *outputs: Tensor, **given: object) -> LoopProgram:
    program = lower_program(list(outputs), [x], **given)  # type: ignore[arg-type]
    verify_loops(program)
    return program


def trips(body: tuple[Stmt, ...]) -> list[int | None]:
    return [s.axis.extent for s in statements(body) if isinstance(s, For)]


def test_sums_of_rows_read_them_as_they_lie_and_in_blocks() -> None:
    program = program_of(*summed((4096, 1024), (0,)))
    blocks, total = program.kernels
    assert trips(blocks.body) == [64, 1024, 8, 1024]
    (outer,) = blocks.body
    assert isinstance(outer, For) and outer.kind == "parallel"
    last = [s for s in statements(blocks.body) if isinstance(s, For)][-1]
    assert last.kind == "vector"
    assert sum(isinstance(s, Fold) for s in last.body) == 8
    assert sum(isinstance(s, Store) for s in last.body) == 1
    assert [t.name for t in total.writes] == ["Y"]


def asked(program: LoopProgram) -> list[str]:
    """What vector loops ask for."""
    fetched = [c for s in loops(program, "vector") for c in s.body if isinstance(c, Prefetch)]
    return [f"{c.tensor.name}{list(map(str, c.indices))}" for c in fetched]


def test_long_rows_side_by_side_are_prefetched_an_iteration_before() -> None:
    with described("l2=65536,l3=131072"):
        found = asked(program_of(*summed((64, 512), (0,))))
        assert found == [f"X['k0 + {n}', 'i0']" for n in range(8, 16)]
        assert not asked(program_of(*summed((128, 256), (0,))))  # short rows are loaded before
        assert not asked(program_of(*summed((64, 4096), (0,))))  # two turns fill the second cache
    assert not asked(program_of(*summed((64, 512), (0,))))  # a cache holds it


def test_how_many_rows_a_pass_adds() -> None:
    def rows(*shapes: tuple[int, int]) -> int:
        xs = [te.placeholder(s, name=f"X{n}") for n, s in enumerate(shapes)]
        k = te.reduce_axis(shapes[0][0], "k")
        y = te.compute(shapes[0][1:], lambda j: te.sum(prod([x[k, j] for x in xs]), k), "Y")
        program = lower_program([y], xs)
        return max([sum(isinstance(c, Fold) for c in s.body) for s in loops(program, "vector")])

    assert rows((64, 512)) == 8
    assert rows((64, 500)) == 4  # short rows
    assert rows((64, 512), (64, 512)) == 4  # as many places to read from


def test_rows_that_the_next_iteration_reads_again_are_not_prefetched() -> None:
    x = te.placeholder((64, 256), name="X")

    def body(i: Axis, j: Axis) -> Expr:
        return x[i, j] + x[i + 1, j]

    with described("l2=65536,l3=131072"):
        assert not asked(program_of(x, te.compute((63, 256), body, "Y")))


def test_a_sum_of_everything_has_blocks_for_threads() -> None:
    program = program_of(*summed((1 << 20,), (0,)))
    blocks, total = program.kernels
    assert trips(blocks.body) == [64, 16384]
    assert trips(total.body) == [64]
    assert all(f.axis.extent in (16384, 64) for f in loops(program, "vector"))


def test_blocks_that_do_not_fit_leave_a_shorter_one() -> None:
    program = program_of(*summed((1_000_003,), (0,)))
    extents = [f.axis.extent for f in loops(program, "vector")]
    length, rest = extents[0], extents[1]
    assert length is not None and rest is not None
    assert 60 * length + rest == 1_000_003


@pytest.mark.parametrize(
    ("shape", "over"),
    [((32, 1000), (0,)), ((4096, 1024), (1,)), ((32, 64, 56, 56), (0, 2, 3)), ((512, 8, 64), (2,))],
)
def test_sums_that_are_short_or_many_stay_whole(
    shape: tuple[int, ...], over: tuple[int, ...]
) -> None:
    assert len(program_of(*summed(shape, over)).kernels) == 1


def test_a_contraction_is_not_cut() -> None:
    a, b = te.placeholder((512, 512), name="A"), te.placeholder((512, 512), name="B")
    k = te.reduce_axis((0, 512), "k")
    c = te.compute((512, 512), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "C")
    assert len(lower_program([c], [a, b]).kernels) == 1


def kernel_gradient(images: int, channels: int, size: int) -> tuple[list[Tensor], Tensor]:
    """(image, head), gradient of a padded convolution by its 3 x 3 kernels."""
    x, h = (te.placeholder((images, channels, size, size), name=n) for n in "XH")
    w = te.placeholder((channels, channels, 3, 3), name="W")
    return [x, h], ta.vjp(topi.nn.conv2d(x, w, padding=1), [w], h)[0]


def test_sums_over_slices_of_all_that_is_read_are_cut_for_threads() -> None:
    inputs, dw = kernel_gradient(24, 3, 20)
    program = lower_program([dw], inputs)
    verify_loops(program)
    blocks, total = program.kernels[0], program.kernels[-1]
    assert [k.name for k in program.kernels] == ["dW.blocks", "dW"]
    shared = [s for s in blocks.body if isinstance(s, For)]
    assert {(s.kind, s.axis.extent) for s in shared} == {("parallel", 8)}
    assert [t.shape for t in blocks.writes] == [(8, 3, 3, 3, 3)]
    assert total.reads == blocks.writes
    rng = np.random.default_rng(3)
    x, h = (rng.normal(size=(24, 3, 20, 20)) for _ in "xh")
    around = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(around, (3, 3), (2, 3))
    wanted = np.einsum("nohw,nchwyx->ocyx", h, windows)
    f = ta.build(dw, inputs, schedule=ta.Schedule(parallel=True))  # however light it is
    found = f(x.astype("f"), h.astype("f"))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3)
    for count in (1, 2, 3, 8):
        with override(num_threads=count):
            np.testing.assert_array_equal(f(x.astype("f"), h.astype("f")), found)


@pytest.mark.parametrize(
    ("images", "channels", "size"), [(24, 64, 4), (7, 3, 60), (24, 2, 5)],
    ids=["many results", "few slices", "little work"],
)  # fmt: skip
def test_other_sums_over_slices_stay_whole(images: int, channels: int, size: int) -> None:
    inputs, dw = kernel_gradient(images, channels, size)
    assert not any(".blocks" in k.name for k in lower_program([dw], inputs).kernels)


def test_sums_whose_results_lie_first_stay_whole() -> None:
    a, b = te.placeholder((4, 50, 4000), name="A"), te.placeholder((50, 4, 4000), name="B")
    k, m = te.reduce_axis(50, "k"), te.reduce_axis(4000, "m")
    y = te.compute((4, 4), lambda i, j: te.sum(a[i, k, m] * b[k, j, m], [k, m]), "Y")
    assert len(lower_program([y], [a, b]).kernels) == 1
    t = te.compute((50, 4, 4000), lambda k, i, m: a[i, k, m], "T")
    z = te.compute((4, 4), lambda i, j: te.sum(t[k, i, m] * b[k, j, m], [k, m]), "Z")
    assert [k.name for k in lower_program([z], [a, b]).kernels][-2:] == ["Z.blocks", "Z"]


def decomposed(n: int, m: int, r: int) -> tuple[Tensor, list[Tensor]]:
    """Y[j, s] = sum over i, k of T[i, j, k] C[i, s] D[k, s]."""
    t, c, d = te.placeholder((n, m, n), name="T"), *(te.placeholder((n, r), name=x) for x in "CD")
    i, k = te.reduce_axis(n, "i"), te.reduce_axis(n, "k")
    y = te.compute((m, r), lambda j, s: te.sum(t[i, j, k] * c[i, s] * d[k, s], [i, k]), "Y")
    return y, [t, c, d]


def test_products_of_small_tensors_are_made_by_who_reads_them() -> None:
    """A block of the product is scratch of the thread that has those slices of T."""
    y, inputs = decomposed(64, 64, 16)
    with described("registers=32,vector_bytes=64,l2=1048576,cores=2"):
        program = lower_program([y], inputs)
    verify_loops(program)
    assert [k.name for k in program.kernels] == ["Y.blocks", "Y"]
    (blocks,) = program.kernels[0].body
    assert isinstance(blocks, For) and blocks.kind == "parallel" and blocks.axis.extent == 8
    assert [t.shape for t in program.kernels[0].writes] == [(8, 64, 16)]
    assert [s.shape for s in program.kernels[0].scratch] == [(512, 16)]
    rng = np.random.default_rng(5)
    arrays = [rng.normal(size=[int(n) for n in t.shape]).astype("f4") for t in inputs]
    wanted = np.einsum("ijk,is,ks->js", *[a.astype("f8") for a in arrays])
    np.testing.assert_allclose(ta.build(y, inputs)(*arrays), wanted, rtol=1e-4, atol=1e-2)


def test_two_factors_may_be_one_tensor_and_an_index_is_none() -> None:
    _, (t, c, d) = decomposed(64, 64, 16)
    place = te.placeholder((64,), "int64", name="P")
    i, k = te.reduce_axis(64, "i"), te.reduce_axis(64, "k")

    def kernels(term: Callable[[Axis, Axis], Expr]) -> list[str]:
        y = te.compute((64, 16), lambda j, s: te.sum(term(j, s), [i, k]), "Y")
        program = lower_program([y], [t, c, d, place])
        return [kernel.name for kernel in program.kernels if kernel.writes]

    assert kernels(lambda j, s: t[i, j, k] * c[i, s] * c[k, s]) == ["Y.blocks", "Y"]
    assert kernels(lambda j, s: t[place[i], j, k] * c[i, s]) == ["Y"]


@pytest.mark.parametrize("lower", [True, False])
def test_blocks_are_of_no_axis_that_bounds_another(lower: bool) -> None:
    """In a block, the other axis would begin or end at a place that nothing says."""
    _, (t, c, d) = decomposed(64, 64, 16)
    i = te.reduce_axis(64, "i")
    k = te.reduce_axis((0, i + 1) if lower else (i, 64), "k")
    y = te.compute((64, 16), lambda j, s: te.sum(t[i, j, k] * c[i, s] * d[k, s], [i, k]), "Y")
    program = lower_program([y], [t, c, d])
    verify_loops(program)
    assert "Y.blocks" not in [kernel.name for kernel in program.kernels]
    rng = np.random.default_rng(6)
    arrays = [rng.normal(size=[int(n) for n in x.shape]).astype("f4") for x in (t, c, d)]
    inside = np.tri(64) if lower else np.tri(64).T
    wanted = np.einsum("ijk,is,ks,ik->js", *[a.astype("f8") for a in arrays], inside)
    np.testing.assert_allclose(ta.build(y, [t, c, d])(*arrays), wanted, rtol=1e-4, atol=1e-2)


def test_sums_with_one_small_tensor_stay_whole() -> None:
    a, b = te.placeholder((8, 800), name="A"), te.placeholder((800, 2000), name="B")
    k = te.reduce_axis(800, "k")
    y = te.compute((8, 2000), lambda i, j: te.sum(a[i, k] * b[k, j], k), "Y")
    assert [kernel.name for kernel in lower_program([y], [a, b]).kernels] == ["Y"]


def test_products_stay_whole_where_another_kernel_makes_the_large_tensor() -> None:
    """Threads share it by its first dimension there, which is no reduce axis here."""
    _, (t, c, d) = decomposed(64, 64, 16)
    i, k = te.reduce_axis(64, "i"), te.reduce_axis(64, "k")
    made = te.compute((64, 64, 64), lambda i, j, k: te.tanh(t[i, j, k]), "M")

    def total(large: Tensor) -> list[str]:
        z = te.compute(
            (64, 16), lambda j, s: te.sum(large[j, i, k] * c[i, s] * d[k, s], [i, k]), "Z"
        )
        return [kernel.name for kernel in lower_program([z], [t, c, d]).kernels]

    assert total(t) == ["Z.blocks", "Z"]
    assert "Z.blocks" not in total(made)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("extent", [1, 2, 7, 8, 9, 31, 64, 65])
@pytest.mark.parametrize("over", [(0,), (1,), (0, 1)])
def test_forced_blocks_and_rows_compute_the_sum(extent: int, over: tuple[int, ...]) -> None:
    x, y = summed((extent, 5), over)
    program = program_of(x, y, choices=FORCED)
    values = np.random.default_rng(extent).uniform(size=(extent, 5))
    (result,), _ = interpret_loops(program, {x: values})
    np.testing.assert_allclose(result, values.sum(axis=over), rtol=1e-12)
    compiled = ta.build(y, [x], schedule=FORCED)
    found = compiled(values.astype(np.float32))
    np.testing.assert_allclose(found, values.sum(axis=over), rtol=1e-5)


@pytest.mark.parametrize("kind", ["two axes", "digits", "sizes"])
def test_rows_are_not_walked_where_an_axis_lies_inside_of_the_lanes(kind: str) -> None:
    n, m = (te.size("n"), te.size("m")) if kind == "sizes" else (300, 1200)
    x, z = te.placeholder((n, m), name="X"), te.placeholder((3, m), name="Z")
    k = te.reduce_axis(n, name="k")
    if kind == "two axes":
        y = te.compute((m, 3), lambda j, i: te.sum(x[k, j] + z[i, j], axis=k), "Y")
    else:
        y = te.compute((m * 3,), lambda j: te.sum(x[k, j // 3] + z[j % 3, j // 3], axis=k), "Y")
    choices = ta.Schedule(parallel=False)
    verify_loops(lower_program([y], [x, z], choices=choices))
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-9, 10, s).astype(np.float32) for s in ((300, 1200), (3, 1200)))
    wanted = (a[:, :, None] + b.T[None]).sum(0)
    found = ta.build(y, [x, z], schedule=choices)(a, b)
    np.testing.assert_array_equal(found, wanted.reshape(found.shape))
    if kind == "two axes":
        np.testing.assert_array_equal(ta.build(y, [x, z])(a, b), wanted)


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_with_forced_blocks(seed: int) -> None:
    made = random_program(seed, computes=4)
    plain = lower_program(made.outputs, made.inputs, schedule=False)
    forced = lower_program(made.outputs, made.inputs, choices=FORCED)
    verify_loops(forced)
    arrays = dict(made.arrays())
    wanted, _ = interpret_loops(plain, arrays)
    found, _ = interpret_loops(forced, arrays)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def scaled_gradients(n: int, m: int) -> tuple[list[Tensor], list[Tensor]]:
    """dX, da and db of tanh(X*a + b), and what they read."""
    x, h = te.placeholder((n, m), name="X"), te.placeholder((n, m), name="H")
    a, b = te.placeholder((m,), name="a"), te.placeholder((m,), name="b")
    y = te.compute((n, m), lambda i, j: te.tanh(x[i, j] * a[j] + b[j]), "Y")
    return list(ta.vjp(y, [x, a, b], h)), [x, a, b, h]


@described()
def test_gradients_of_scale_shift_and_rows_share_one_loop() -> None:
    outputs, inputs = scaled_gradients(4096, 512)
    program = lower_program(outputs, inputs)
    verify_loops(program)
    first, *totals = program.kernels
    assert len(first.writes) == 3 and len(totals) == 2
    passes = [f for f in statements(first.body) if isinstance(f, For) and f.kind == "vector"]
    stored = [s.tensors[0].name for s in statements((passes[-1],)) if isinstance(s, Store)]
    assert sorted(stored)[1:] == ["da.blocks", "db.blocks"] and len(stored) == 3
    text = "".join(f.text for k in (first,) for f in kernel_text(k, kernel_key(k)[1])[1])
    assert text.count("fdiv <16 x float>") == 4  # tanh divides once, for each register of a pass


def test_siblings_compute_the_same_bits_apart() -> None:
    outputs, inputs = scaled_gradients(600, 512)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(t.shape).astype(np.float32) for t in inputs]
    together = ta.build(outputs, inputs)(*arrays)
    apart = ta.build(outputs, inputs, schedule=ta.Schedule(siblings=False))(*arrays)
    assert len(lower_program(outputs, inputs).kernels) < len(
        lower_program(outputs, inputs, choices=ta.Schedule(siblings=False)).kernels
    )
    for u, v in zip(together, apart, strict=True):
        assert u.tobytes() == v.tobytes()


@pytest.mark.slow
def test_a_mean_and_a_mean_of_squares_share_a_loop_and_equal_sums_are_one() -> None:
    x = te.placeholder((64, 300), name="X")
    k, p, m = (te.reduce_axis((0, 300), n) for n in "kpm")
    u = te.compute((64,), lambda i: te.sum(x[i, k], axis=k) / 300, "u")
    v = te.compute((64,), lambda i: te.sum(x[i, p] * x[i, p], axis=p), "v")
    w = te.compute((64,), lambda i: te.sum(x[i, m], axis=m) * 2, "w")
    program = lower_program([u, v, w], [x])
    verify_loops(program)
    (kernel,) = program.kernels
    assert len(loops(program, "vector")) == 1
    folded = {s.targets for s in all_statements(program) if isinstance(s, Fold)}
    stores = [s for s in statements(kernel.body) if isinstance(s, Store)]
    assert len(folded) == 2 * len(stores)
    values = np.random.default_rng(1).uniform(size=(64, 300))
    found, _ = interpret_loops(program, {x: values})
    wanted = (values.mean(1), (values**2).sum(1), 2 * values.sum(1))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_one_that_needs_the_other_is_no_sibling() -> None:
    x = te.placeholder((64, 300), name="X")
    k, p = te.reduce_axis((0, 300), "k"), te.reduce_axis((0, 300), "p")
    u = te.compute((64,), lambda i: te.sum(x[i, k], axis=k), "u")
    v = te.compute((64,), lambda i: te.sum(x[i, p] * u[i], axis=p), "v")
    program = lower_program([u, v], [x], choices=ta.Schedule(fuse=False))
    assert [k.name for k in program.kernels] == ["u", "v"]


def test_one_whose_input_is_made_later_is_no_sibling_there() -> None:
    x = te.placeholder((64, 300), name="X")
    k, p = te.reduce_axis((0, 300), "k"), te.reduce_axis((0, 300), "p")
    u = te.compute((64,), lambda i: te.sum(x[i, k], axis=k), "u")
    t = te.compute((64,), lambda i: u[i] + 1.0, "t")
    v = te.compute((64,), lambda i: te.sum(x[i, p] * t[i], axis=p), "v")
    program = lower_program([u, t, v], [x], choices=ta.Schedule(fuse=False))
    assert [k.name for k in program.kernels] == ["u", "t", "v"]


def test_worst_case_sums_keep_the_bound() -> None:
    for shape, over in (((1 << 20,), (0,)), ((1 << 14, 64), (0,)), ((512, 512, 64), (0, 1))):
        x, y = summed(shape, over)
        values = np.full(shape, 0.1, np.float32)
        found = ta.build(y, [x])(values)
        exact = values.sum(axis=over, dtype=np.float64)
        n = values.size // max(1, np.size(exact))
        assert np.max(np.abs(found - exact) / exact) <= 2 * np.sqrt(n) * 2.0**-24
