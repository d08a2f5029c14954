"""Strips of long sums: what is asked for ahead stays in the second cache until it is read."""

from __future__ import annotations

import numpy as np
import pytest

from tensorad import te
from tensorad.building import build, lower
from tensorad.codegen.directives import Choices
from tensorad.codegen.loops.ir import Fold, For, Kernel, Prefetch, Store
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.loops.visit import statements
from tensorad.codegen.lower import lower_program
from tensorad.ir.expr import Const, Expr, int_const, sub
from tensorad.ir.order import reads
from tensorad.ir.visit import free_leaves, substitute
from tests.codegen.contraction.test_contraction_panels import product, reduce_loops
from tests.support.machines import described

MACHINE = "registers=32,vector_bytes=64,l2=1048576,l3=33554432"
LINE = 64


def last_kernel(n: int, k: int, m: int, cores: int = 1, dtype: str = "float32") -> Kernel:
    y, inputs = product(n, k, m, dtype)
    with described(f"{MACHINE},cores={cores}"):
        program = lower_program([y], inputs)
    verify_loops(program)
    return program.kernels[-1]


def at_start(e: Expr) -> int:
    """An index where all axes are 0."""
    found = substitute(e, {a: int_const(0) for a in free_leaves(e)})
    assert isinstance(found, Const)
    return int(found.value)


@pytest.mark.parametrize("columns", [10_000, 1_000])
def test_columns_of_long_rows_are_fetched_a_tile_ahead(columns: int) -> None:
    kernel = last_kernel(32, 3000, columns, cores=2)
    fetched = [s for s in statements(kernel.body) if isinstance(s, Prefetch)]
    # with 1,000 columns B lies in lanes, where it is a stream
    assert {s.tensor.name for s in fetched} == ({"B"} if columns * 4 >= 4096 else set())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_no_more_is_fetched_than_the_columns_of_the_next_tile(dtype: str) -> None:
    kernel = last_kernel(32, 3000, 10_000, dtype=dtype)
    for loop, asked, rows in reduce_loops(kernel.body):
        folds = [s for s in loop.body if isinstance(s, Fold)]
        read = [e for s in folds for e in reads(*s.values) if e.tensor is asked[0].tensor]
        assert len(read) == rows * len(asked) == 4 * rows  # four steps are written out
        for n, fetch in enumerate(asked):
            own = read[n * rows : (n + 1) * rows]
            columns = [at_start(e.indices[1]) for e in own]
            assert columns == list(range(columns[0], columns[0] + rows))
            assert at_start(fetch.indices[1]) == columns[-1] + 1
            assert fetch.count == rows
            assert all(e.indices[0] is fetch.indices[0] for e in own)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("cores", [1, 2])
def test_lanes_and_the_lines_of_two_tiles_fit_half_of_the_second_cache(
    cores: int, dtype: str
) -> None:
    size_bytes, lanes = np.dtype(dtype).itemsize, 32
    kernel = last_kernel(lanes, 3000, 10_000, cores, dtype)
    (sums,) = [t for t in kernel.scratch if t.name == "sums"]
    assert np.prod([int(n) for n in sums.shape if isinstance(n, int)]) * size_bytes <= 1 << 18
    loops = [s for s in statements(kernel.body) if isinstance(s, For)]
    (groups,) = [s for s in loops if s.axis.name == "g"]
    (strips,) = [s for s in loops if s.axis.name == "kb"]
    assert groups.kind == ("parallel" if cores > 1 else "serial")
    assert cores == 1 or (groups.axis.extent or 0) % (2 * cores) == 0
    for loop, _, rows in reduce_loops(kernel.body):
        end = loop.axis.upper
        steps = at_start(sub(end, loop.axis.lower))
        assert steps * (strips.axis.extent or 0) >= 3000
        lines = -(-rows * size_bytes // LINE) + 1
        assert steps * (lanes * size_bytes + lines * LINE) <= 1 << 19


@pytest.mark.parametrize(("k", "m"), [(1000, 10_000), (3000, 300)])
def test_short_sums_and_rows_that_are_streams_have_no_strips(k: int, m: int) -> None:
    kernel = last_kernel(32, k, m)
    assert "sums" not in [t.name for t in kernel.scratch]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shape", [(32, 300, 3600), (48, 301, 4099)])
@pytest.mark.parametrize("machine", ["cores=1", "cores=2", "cores=2,vector_bytes=32,registers=16"])
def test_strips_change_no_bit(shape: tuple[int, int, int], machine: str) -> None:
    y, inputs = product(*shape)
    after = te.compute(y.shape, lambda i, j: y[i, j] * 2.0 + 1.0, name="Z")
    rng = np.random.default_rng(0)
    exact = [rng.integers(-9, 10, [int(n) for n in t.shape]).astype(np.float32) for t in inputs]
    rough = [rng.standard_normal(a.shape).astype(np.float32) for a in exact]
    plain = build([y, after], inputs)
    with described(f"l2=131072,l3=4194304,{machine}"):
        program = lower_program([y, after], inputs)
        made = build([y, after], inputs)
    loops = [s.axis.name for k in program.kernels for s in statements(k.body) if isinstance(s, For)]
    assert "kb" in loops and "g" in loops
    product_of = exact[0] @ exact[1]
    for found, expected in zip(made(*exact), (product_of, product_of * 2 + 1), strict=True):
        np.testing.assert_array_equal(found, expected)
    for found, expected in zip(made(*rough), plain(*rough), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("lanes", "wide"), [(50, 64), (50, 32), (72, 32), (81, 64)])
def test_a_strip_is_added_once_to_lanes_that_do_not_fill_groups(lanes: int, wide: int) -> None:
    """No lane is in two groups: the second would add the strip to sums that have it."""
    y, inputs = product(lanes, 600, 9000)
    rng = np.random.default_rng(0)
    exact = [rng.integers(-9, 10, [int(n) for n in t.shape]).astype(np.float32) for t in inputs]
    machine = f"l2=131072,l3=4194304,cores=2,vector_bytes={wide},registers={wide // 2}"
    machine += ",multiply_adds=1"  # two would ask for one register of lanes, and no groups
    with described(machine):
        program = lower_program([y], inputs)
        made = build([y], inputs)
    loops = [s.axis.name for k in program.kernels for s in statements(k.body) if isinstance(s, For)]
    assert "kb" in loops and "g" in loops
    np.testing.assert_array_equal(made(*exact), exact[0] @ exact[1])


def test_the_last_tile_stores_no_row_of_those_that_come_by_themselves() -> None:
    """Packed lanes may lie in the memory of those rows, and other threads still read them."""
    lanes, steps, rows = 272, 1000, 20_005
    a, b = te.placeholder((steps, lanes), name="A"), te.placeholder((steps, rows), name="B")
    r = te.reduce_axis(steps, name="k")
    y = te.compute((rows, lanes), lambda i, j: te.sum(b[r, i] * a[r, j], axis=r), name="Y")
    wanted = Choices(contract=True, pack="panel", tile=(14, 1))
    with described(f"l2={1 << 20},l3={1 << 28},cores=2,vector_bytes=64,registers=32"):
        program = lower_program([y], [a, b], choices=wanted)
    body = program.kernels[-1].body
    groups = [s for s in body if isinstance(s, For) and s.axis.name == "g"]
    first = min(
        at_start(c.indices[0])
        for s in body if s not in groups
        for c in statements([s]) if isinstance(c, Store) and c.tensors[0].name == "Y"
    )  # fmt: skip
    assert groups and first > rows // 2
    for g in groups:
        loops = {s.axis.name: s.axis for s in statements([g]) if isinstance(s, For)}
        at: dict[Expr, Expr] = {g.axis: sub(g.axis.upper, int_const(1))}
        at[loops["t"]] = sub(substitute(loops["t"].upper, at), int_const(1))
        for c in statements([g]):
            if isinstance(c, Store) and c.tensors[0].name == "Y":
                assert at_start(substitute(c.indices[0], at)) < first


def test_strips_are_told_in_the_report() -> None:
    y, inputs = product(32, 3000, 10_000)
    with described(f"{MACHINE},cores=1"):
        assert "strips of 1500 steps" in str(lower([y], inputs, schedule=True))
