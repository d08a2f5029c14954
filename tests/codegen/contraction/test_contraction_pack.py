"""What contractions copy before they run: whole rows, turned in registers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tensorad import te, topi
from tensorad.autodiff import vjp
from tensorad.building import build
from tensorad.codegen.directives import Choices
from tensorad.codegen.loops.ir import Fold, For, LoopProgram, Stmt, Store
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.lower import lower_program
from tensorad.ir.expr import Param, Read
from tensorad.ir.visit import postorder
from tests.support.machines import described


def loops(body: tuple[Stmt, ...]) -> Iterator[For]:
    for s in body:
        if isinstance(s, For):
            yield s
            yield from loops(s.body)


def test_a_relaid_kernel_of_small_windows_is_turned_in_registers() -> None:
    x, w = te.placeholder((1, 32, 7, 7), name="X"), te.placeholder((64, 32, 3, 3), name="W")
    y = topi.nn.conv2d(x, w)
    program = lower_program([y], [x, w], choices=Choices(contract=True, pack="relayout"))
    copies = [s for k in program.kernels for s in loops(k.body) if stores_to(s, "W.copy")]
    assert [(s.kind, len(s.body)) for s in copies] == [("vector", 16)]


def stores_to(s: For, name: str) -> bool:
    return any(isinstance(c, Store) and c.tensors[0].name == name for c in s.body)


MACHINE = "registers=32,vector_bytes=64,l1=32768,l2=1048576,l3=33554432,cores=2"


def product_along_rows(n: int, depth: int, m: int) -> LoopProgram:
    """Dot products of the rows of an (n, depth) and an (m, depth) matrix."""
    a, b = te.placeholder((n, depth), name="A"), te.placeholder((m, depth), name="B")
    k = te.reduce_axis(depth, name="k")
    y = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), name="Y")
    with described(MACHINE):
        return lower_program([y], [a, b])


def rows_of(body: tuple[Stmt, ...]) -> set[tuple[Param, ...]]:
    """The sums of a tile, one for each of its rows."""
    return {s.targets for s in body if isinstance(s, Fold)}


def tiles(program: LoopProgram) -> list[tuple[Stmt, ...]]:
    """The sums of register tiles: loops that hold nothing else."""
    found = [s.body for k in program.kernels for s in loops(k.body)]
    return [body for body in found if all(isinstance(s, Fold) for s in body)]


@pytest.mark.parametrize(("n", "depth", "m"), [(128, 16384, 32), (300, 2048, 32), (32, 16384, 128)])
def test_rows_that_collide_in_the_first_cache_come_in_smaller_tiles(
    n: int, depth: int, m: int
) -> None:
    """Elements a power of two apart fill one place of it each: eight stay, ten do not.

    The longer operand is read where it lies: turning the shorter one is less to copy.
    """
    longer = "A" if n > m else "B"
    for length, collide in ((depth, True), (depth + 16, False)):
        found = tiles(product_along_rows(n, length, m))
        assert (max(len(rows_of(body)) for body in found) <= 8) is collide
        for body in found:
            fold = body[0]
            assert isinstance(fold, Fold)
            read = {e.tensor.name for e in postorder(*fold.values) if isinstance(e, Read)}
            assert longer in read


@pytest.mark.parametrize(("groups", "own"), [(1, 32), (2, 16), (3, 17)])
def test_groups_of_channels_lie_side_by_side_in_one_copy(groups: int, own: int) -> None:
    """Lanes are the channels of a group, the batch its number: no panel for each tap."""
    x = te.placeholder((2, groups * own, 12, 12), name="X")
    w = te.placeholder((groups * 16, own, 3, 3), name="W")
    y = topi.nn.conv2d(x, w, padding=1, groups=groups)
    h = te.placeholder(y.shape, name="H")
    (dw,) = vjp(y, [w], h)
    program = lower_program([dw], [x, h], choices=Choices(contract=True, pack="relayout"))
    verify_loops(program)
    copies = [t.shape for k in program.kernels for t in k.writes if t.name == "X.copy"]
    assert (2, 14, 14, groups * own) in copies or (14, 2, 14, groups * own) in copies
    rng = np.random.default_rng(0)
    given = [rng.normal(size=t.shape).astype(np.float32) for t in (x, h)]
    found = [
        build(dw, [x, h], schedule=Choices(contract=True, pack=p))(*given)  # type: ignore[arg-type]  # two of four
        for p in ("relayout", "panel")
    ]
    assert np.array_equal(*found)
    plain = build(dw, [x, h], schedule=Choices(contract=False))(*given)
    assert np.allclose(found[0], plain, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("rows", "slivers"), [(40, 1), (128, 1), (200, 3)])
def test_few_rows_need_one_sliver_at_a_time(rows: int, slivers: int) -> None:
    """All of them stay in the second cache beside it; more rows pass a panel of three quarters."""
    x, w = te.placeholder((rows, 784), name="X"), te.placeholder((784, 1024), name="W")
    r = te.reduce_axis(784, name="r")
    y = te.compute((rows, 1024), lambda i, j: te.sum(x[i, r] * w[r, j], axis=r), name="Y")
    with described("registers=32,vector_bytes=64,cores=1,l2=1048576,l3=33554432"):
        program = lower_program([y], [x, w], choices=Choices(contract=True, pack="panel"))
    (panel,) = [t for k in program.kernels for t in k.scratch]
    assert panel.shape == (slivers, 784, 64)
