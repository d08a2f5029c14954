"""Transposes of tensors whose rows have symbolic lengths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tensorad import te
from tensorad.building import build
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.ir import For, Kernel, Store
from tensorad.codegen.loops.visit import statements
from tensorad.codegen.lower import lower_program
from tensorad.config import override
from tensorad.ir.expr import Size
from tensorad.ir.tensor import Tensor
from tests.codegen.caches.test_memory_bound import RNG, array_at, text_of
from tests.codegen.caches.test_versions import CACHES, CPUS, kernel_of, trips
from tests.support.guarded import guarded
from tests.support.machines import described

KINDS = ("both", "rows", "columns")


def transposed(rows: int, columns: int, kind: str, dtype: str) -> tuple[list[Tensor], list[Tensor]]:
    """Y[i, j] = X[j, i], X of shape (rows, columns), some of whose extents are symbolic."""
    m: Any = te.size("m") if kind in ("both", "rows") else rows
    n: Any = te.size("n") if kind in ("both", "columns") else columns
    x = te.placeholder((m, n), dtype, name="X")
    return [te.compute((n, m), lambda i, j: x[j, i], name="Y")], [x]


@pytest.mark.sampled(9)
@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bool"])
def test_rows_of_any_length_are_transposed(dtype: str, kind: str, cpu: str) -> None:
    with described(cpu):
        f = build(*transposed(50, 37, kind, dtype))
    for rows, columns in ((50, 37), (33, 16), (16, 48), (5, 70), (70, 5), (1, 1)):
        shape = (50 if kind == "columns" else rows, 37 if kind == "rows" else columns)
        for at_end in (False, True):
            x, y = guarded(shape, dtype, at_end), guarded(shape[::-1], dtype, at_end)
            x[...] = RNG.integers(0, 2 if dtype == "bool" else 99, shape)
            f(x, out=y)
            np.testing.assert_array_equal(y, x.T)


def test_a_formula_reads_rows_of_symbolic_length_at_several_places() -> None:
    m, n = te.size("m"), te.size("n")
    x, z = te.placeholder((m + 1, n), name="X"), te.placeholder((n, m), name="Z")
    y = te.compute((n, m), lambda i, j: x[j, i] * z[i, j] + x[j + 1, i], name="Y")
    f = build([y], [x, z])
    for rows, columns in ((40, 53), (3, 18), (65, 64)):
        a, b = RNG.standard_normal((rows + 1, columns)), RNG.standard_normal((columns, rows))
        a, b = a.astype("float32"), b.astype("float32")
        want = a[:-1].T.astype("float64") * b + a[1:].T
        np.testing.assert_allclose(f(a, b), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_are_loaded_by_pieces_of_rows(kind: str) -> None:
    machine = "l2=100000000,l3=100000000,vector_bytes=64"
    fixed = text_of(*transposed(64, 80, "fixed", "float32"), machine)
    text = text_of(*transposed(64, 80, kind, "float32"), machine)
    assert fixed.count("= load <8 x float>") == 32
    assert text.count("= load <8 x float>") >= 32


def loops_beyond(kernel: Kernel) -> list[For]:
    """Loops over strips whose tiles cover the rows."""
    found = [s for s in kernel.body if isinstance(s, For)]
    return [s for s in found if any(isinstance(c, For) and c.covering for c in s.body)]


@pytest.mark.parametrize("kind", KINDS)
def test_tiles_of_symbolic_extents_walk_in_strips_beyond_the_caches(kind: str) -> None:
    with described(CACHES):
        kernel = kernel_of(transposed(1024, 512, kind, "float32"))
    found = loops_beyond(kernel)
    buffered = [any(c.tensors[0].name == "Y.strip" for c in stores_of(s)) for s in found]
    assert buffered == ([False] if kind == "columns" else [False, True])
    loops = [s for s in kernel.body if isinstance(s, For)]
    for rows, columns in ((1024, 512), (1001, 512), (1024, 15), (500, 512), (7, 3)):
        sizes = {"m": rows, "n": columns}
        running = [s for s in loops if trips(s, **sizes) > 0]
        fits = (rows >= 512 or kind == "columns") and (columns >= 16 or kind == "rows")
        even = rows % 16 == 0 or kind == "columns"
        rows, columns = 1024 if kind == "columns" else rows, 512 if kind == "rows" else columns
        if fits and 8 * rows * columns > 24576:
            assert running == [found[0 if even else 1]]
        else:
            assert running and not any(s in found for s in running)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_strips_have_one_block_for_whole_registers(dtype: str) -> None:
    """Registers are taken one by one: groups of them and single ones are the same loop."""
    machine = f"{CACHES},vector_bytes=64,registers=32"
    rows = {"float32": 16, "float64": 8}[dtype]
    assert text_of(*transposed(1024, 512, "fixed", dtype), machine).count("!nontemporal") == rows


def stores_of(s: For) -> list[Store]:
    return [c for c in statements(s.body) if isinstance(c, Store)]


def test_a_row_beside_the_transposed_ones_keeps_tiles_out_of_strips() -> None:
    m, n = te.size("m"), te.size("n")
    x, z = te.placeholder((m, n), name="X"), te.placeholder((n, m), name="Z")
    y = te.compute((n, m), lambda i, j: x[j, i] + z[i, j], name="Y")
    with described(CACHES):
        assert not loops_beyond(kernel_of(([y], [x, z])))


SHAPES = ((1040, 40), (1001, 33), (512, 16), (700, 15), (100, 500), (3, 5), (0, 20), (20, 0))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_strips_of_symbolic_extents_store_what_is_theirs(dtype: str, cpu: str) -> None:
    with described(",".join(filter(None, [cpu, CACHES]))):
        f = build(*transposed(0, 0, "both", dtype))
    for rows, columns in SHAPES:
        x = RNG.standard_normal((rows, columns)).astype(dtype)
        for threads, offset in ((1, 0), (1, 8), (2, 56), (3, 24)):
            around = array_at((x.size + 32,), dtype, offset)
            before = around.copy()
            y = around[16:-16].reshape(columns, rows)
            with override(num_threads=threads):
                f(x, out=y)
            np.testing.assert_array_equal(y, x.T)
            assert around[:16].tobytes() == before[:16].tobytes()
            assert around[-16:].tobytes() == before[-16:].tobytes()


def test_strips_of_symbolic_extents_stay_inside_of_their_arrays() -> None:
    with described(CACHES):
        f = build(*transposed(0, 0, "both", "float32"))
    for shape in ((1040, 17), (1001, 33)):
        for at_end in (False, True):
            x, y = guarded(shape, "float32", at_end), guarded(shape[::-1], "float32", at_end)
            x[...] = RNG.integers(0, 99, shape)
            f(x, out=y)
            np.testing.assert_array_equal(y, x.T)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(528, 18), (515, 18)])
def test_the_loops_of_strips_say_the_same(shape: tuple[int, int]) -> None:
    outputs, inputs = transposed(*shape, "both", "float32")
    with described(CACHES):
        program = lower_program(outputs, inputs)
    x = RNG.integers(-99, 99, shape).astype("float32")
    sizes = {e: n for e, n in zip(inputs[0].shape, shape, strict=True) if isinstance(e, Size)}
    (got,) = interpret_loops(program, {inputs[0]: x}, sizes)[0]
    np.testing.assert_array_equal(got, x.T)
