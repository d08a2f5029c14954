"""Kernels of symbolic sizes: loops for outputs that stay in the caches, and for others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import te, topi
from tensorad.building import build
from tensorad.codegen.caches.cache_hints import largest_unknown
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.ir import For, Kernel, Prefetch, Store
from tensorad.codegen.loops.substitute import joined_strips
from tensorad.codegen.loops.visit import statements
from tensorad.codegen.lower import lower_program
from tensorad.config import override
from tensorad.ir.analysis.decisions import Decision, listening
from tensorad.ir.analysis.sizes import size_value
from tensorad.ir.expr import Size
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import postorder
from tests.codegen.caches.test_memory_bound import RNG, array_at
from tests.codegen.llvm.test_targets import HAS_AVX2
from tests.support.guarded import guarded
from tests.support.machines import described

Made = tuple[list[Tensor], list[Tensor]]
CACHES = "l2=2048,l3=24576"
"""Tensors of some rows stay, those of many leave."""
CPUS = ("", *(("cpu=haswell",) if HAS_AVX2 else ()))


def add(n: Any) -> Made:
    x, z = te.placeholder((n,), name="X"), te.placeholder((n,), name="Z")
    return [te.compute((n,), lambda i: x[i] + z[i], name="Y")], [x, z]


def short_rows(n: Any) -> Made:
    x = te.placeholder((n, 21), name="X")
    return [te.compute((n, 20), lambda i, j: x[i, j] * x[i, j + 1], name="Y")], [x]


def pool(n: Any) -> Made:
    x = te.placeholder((n, 6, 22), "float64", name="X")
    p, q = (te.reduce_axis(2, name=a) for a in "pq")
    y = te.compute(
        (n, 3, 11), lambda i, r, c: te.max(x[i, 2 * r + p, 2 * c + q], axis=[p, q]), name="Y"
    )
    h = te.placeholder((n, 3, 11), "float64", name="H")
    return list(ta.vjp(y, [x], h)), [x, h]


def normalised(n: Any) -> Made:
    x, k = te.placeholder((n, 300), name="X"), te.reduce_axis(300, name="k")
    m = te.compute((n,), lambda i: te.sum(x[i, k], axis=k), name="M")
    return [te.compute((n, 300), lambda i, j: x[i, j] - m[i] * 0.25, name="Y"), m], [x]


def two_sizes(n: Any) -> Made:
    m = te.size("m")
    x = te.placeholder((m, n), name="X")
    return [te.compute((m, n), lambda i, j: x[i, j] * 2.0 + i, name="Y")], [x]


CASES = [
    (add, (0, 1, 15, 2100, 5003)),
    (short_rows, (0, 1, 5, 101, 400)),
    (pool, (0, 1, 3, 33)),
    (normalised, (0, 1, 7, 40)),
]


def kernel_of(made: Made) -> Kernel:
    (kernel,) = lower_program(*made).kernels
    return kernel


def streams(s: For) -> bool:
    return any(isinstance(c, Store) and c.streaming for c in statements(s.body))


def trips(s: For, **sizes: int) -> int:
    """How many iterations a loop makes for these sizes."""
    leaves = postorder(s.axis.lower, s.axis.upper)
    known = {e: sizes[e.name] for e in leaves if isinstance(e, Size)}
    lower, upper = (size_value(e, known) for e in (s.axis.lower, s.axis.upper))
    return max(0, upper - lower)


@pytest.mark.parametrize("make", [add, short_rows, pool, normalised])
def test_sizes_of_the_call_choose_one_of_two_versions(make: Callable[[Any], Made]) -> None:
    with described(CACHES):
        kernel = kernel_of(make(te.size("n")))
    inside, beyond = [s for s in kernel.body if isinstance(s, For)]
    assert (streams(inside), streams(beyond)) == (False, True)
    assert trips(inside, n=5) > 0 and trips(beyond, n=5) == 0
    assert trips(inside, n=9999) == 0 and trips(beyond, n=9999) > 0
    assert trips(inside, n=0) == trips(beyond, n=0) == 0


@pytest.mark.parametrize("n", [2048, 2049])
def test_versions_change_where_fixed_sizes_begin_to_stream(n: int) -> None:
    """Three arrays of 2048 floats fill the last cache, and an output is a third of it."""
    with described(CACHES):
        fixed = any(map(streams, [s for s in kernel_of(add(n)).body if isinstance(s, For)]))
        symbolic = [s for s in kernel_of(add(te.size("n"))).body if isinstance(s, For)]
    assert fixed == (n > 2048) == (trips(symbolic[1], n=n) > 0)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize(("make", "sizes"), CASES)
def test_versions_have_the_bits_of_fixed_sizes(
    make: Callable[[Any], Made], sizes: tuple[int, ...], cpu: str
) -> None:
    machine = ",".join(filter(None, [cpu, CACHES]))
    with described(machine):
        f = build(*make(te.size("n")))
    for n in sizes:
        outputs, inputs = make(n)
        arrays: list[Any] = [RNG.standard_normal(t.shape).astype(str(t.dtype)) for t in inputs]
        made = build(outputs, inputs)(*arrays)
        want = made if isinstance(made, list) else [made]
        for threads, offset in ((1, 0), (1, 8), (2, 56), (3, 24)):
            around = [array_at((w.size + 32,), str(w.dtype), offset) for w in want]
            got = [a[16:-16].reshape(w.shape) for a, w in zip(around, want, strict=True)]
            before = [a.copy() for a in around]
            with override(num_threads=threads):
                f(*arrays, out=got if len(got) > 1 else got[0])
            for a, b, g, w in zip(around, before, got, want, strict=True):
                np.testing.assert_array_equal(g, w)
                assert a[:16].tobytes() == b[:16].tobytes()
                assert a[-16:].tobytes() == b[-16:].tobytes()


@pytest.mark.parametrize("n", [3, 33])
def test_versions_read_inside_of_their_arrays(n: int) -> None:
    with described(CACHES):
        kernel = kernel_of(pool(te.size("n")))
        f = build(*pool(te.size("n")))
    inside, beyond = [s for s in kernel.body if isinstance(s, For)]
    bands = [any(isinstance(c, Prefetch) for c in statements(s.body)) for s in (inside, beyond)]
    assert bands == [False, True]  # rows of a large array come in the order of memory
    for at_end in (False, True):
        arrays = [guarded(s, "float64", at_end) for s in ((n, 6, 22), (n, 3, 11))]
        for a in arrays:
            a[...] = RNG.integers(-9, 9, a.shape)
        np.testing.assert_array_equal(f(*arrays), build(*pool(n))(*arrays))


def test_an_extent_counts_in_bytes_as_in_the_loops_over_it() -> None:
    """n * m elements of one extent wait for memory as n rows of m do."""
    n, m = te.size("n"), te.size("m")
    with described(CACHES):
        for made in (add(n), add(n * m), add(n * m // 2)):
            loops = [s for s in kernel_of(made).body if isinstance(s, For)]
            assert [streams(s) for s in loops] == [False, True]


def test_an_extent_that_is_a_product_is_larger_than_its_factors() -> None:
    n, m = te.size("n"), te.size("m")
    flat, row = te.placeholder((n * m,), name="X"), te.placeholder((n,), name="Z")
    kernel = Kernel("k", (), (flat, row), ())
    assert largest_unknown(kernel) == [flat]


@pytest.mark.slow
def test_the_interpreter_runs_the_same_version() -> None:
    n = te.size("n")
    outputs, inputs = short_rows(n)
    with described(CACHES):
        program = lower_program(outputs, inputs)
    for rows in (4, 500):
        x = RNG.integers(-9, 9, (rows, 21)).astype("f")
        (got,) = interpret_loops(program, {inputs[0]: x}, {n: rows})[0]
        np.testing.assert_array_equal(got, x[:, :20] * x[:, 1:])


def test_rows_of_two_sizes_have_two_versions() -> None:
    with described(CACHES):
        outputs, inputs = two_sizes(te.size("n"))
        inside, beyond = [s for s in kernel_of((outputs, inputs)).body if isinstance(s, For)]
        f = build(outputs, inputs)
    assert trips(inside, m=2, n=100) and not trips(beyond, m=2, n=100)
    assert not trips(inside, m=99, n=1001) and trips(beyond, m=99, n=1001)
    for shape in ((0, 4), (2, 100), (99, 1001)):
        x = RNG.standard_normal(shape).astype("f")
        rows = np.arange(shape[0], dtype="f")[:, None]
        np.testing.assert_array_equal(f(x), x * np.float32(2) + rows)


def test_what_computes_longer_than_memory_takes_has_one_version() -> None:
    x = te.placeholder((te.size("n"), 64), name="X")
    w = te.const(np.full((64, 64), 0.125, np.float32))
    slow = te.compute(x.shape, lambda i, j: te.tanh(te.exp(te.sin(te.erf(x[i, j])))), name="Y")
    for y in (topi.nn.dense(x, w), slow):
        with described(CACHES):
            assert not any(streams(s) for s in kernel_of(([y], [x])).body if isinstance(s, For))


@pytest.mark.parametrize("streaming", [False, True])
def test_a_choice_leaves_one_version(streaming: bool) -> None:
    outputs, inputs = short_rows(te.size("n"))
    choices = ta.Schedule(streaming=streaming)
    (kernel,) = lower_program(outputs, inputs, choices=choices).kernels
    (loop,) = [s for s in kernel.body if isinstance(s, For)]
    assert streams(loop) == streaming


def test_the_report_tells_when_stores_stream() -> None:
    outputs, inputs = add(te.size("n"))
    with listening(Decision) as heard, described(CACHES):
        lower_program(outputs, inputs)
    (told,) = [d for d in heard if "streaming" in d.what]
    assert told.about == tuple(outputs) and "n" in told.why and "24576" in told.why


def test_a_thread_runs_strips_of_unknown_length_as_one() -> None:
    (loop, _) = kernel_of(add(te.size("n"))).body
    assert isinstance(loop, For) and loop.kind == "parallel"
    joined = joined_strips(loop)
    assert joined is not None and len(joined.body) == 1
    for threads in (1, 2, 3):
        x, z = (RNG.standard_normal(700_001).astype("f") for _ in range(2))
        with override(num_threads=threads):
            np.testing.assert_array_equal(build(*add(te.size("n")))(x, z), x + z)
