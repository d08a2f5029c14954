"""Indices that are tested together: both ends of cells, points of any number, one guard."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.codegen.loops.interpret import checks_made
from tensorad.codegen.loops.ir import For
from tensorad.codegen.lower import lower_program
from tensorad.errors import BoundsError
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor
from tests.codegen.index_checks.test_checks import HINT, looked_at_together
from tests.support.refusals import placed


def sampled_grid(shape: tuple[int, int, int], rays: int = 5) -> tuple[Tensor, list[Tensor]]:
    """A grid read at both ends of the cell around each point, in three dimensions."""
    x, grid = te.placeholder((rays, 11, 3), name="X"), te.placeholder(shape, name="G")

    def cell(r: Expr, s: Expr) -> Expr:
        i = [te.floor(x[r, s, c]).astype("int64") for c in range(3)]
        return grid[i[0], i[1], i[2]] + grid[i[0] + 1, i[1] + 1, i[2] + 1]

    return te.compute((rays, 11), cell, name="Y"), [x, grid]


def test_both_ends_of_cells_are_tested_in_one_pass_over_the_points() -> None:
    y, inputs = sampled_grid((7, 7, 7))
    program = lower_program([y], inputs)
    arrays = {inputs[0]: np.full((5, 11, 3), 5.5), inputs[1]: np.ones((7, 7, 7))}
    assert looked_at_together(program) == [5 * 11 * 3] and checks_made(program, arrays) == 0
    (loop,) = [s for s in program.kernels[0].body if isinstance(s, For)]
    assert loop.kind == "vector" and "and v < 6)" in str(ta.lower([y], inputs))


def test_cells_of_different_extents_are_tested_by_dimension() -> None:
    y, inputs = sampled_grid((7, 8, 9))
    assert looked_at_together(lower_program([y], inputs)) == [5 * 11] * 3
    y, inputs = sampled_grid((7, 8, 7))  # columns 0 and 2 lie apart
    assert looked_at_together(lower_program([y], inputs)) == [5 * 11] * 3


@pytest.mark.sampled(5)
@pytest.mark.parametrize("shape", [(7, 7, 7), (7, 8, 9)])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(("beyond", "index"), [(-0.75, 0), (0.0, 0), (2.5, 2), (-99.0, None)])
def test_the_wrong_end_of_a_cell_is_named(
    shape: tuple[int, int, int], axis: int, beyond: float, index: int | None
) -> None:
    y, inputs = sampled_grid(shape)
    points = np.full((5, 11, 3), 2.5, "f4")
    points[3, 7, axis] = -1.5 if index is None else shape[axis] + beyond
    with pytest.raises(BoundsError) as caught:
        ta.build(y, inputs)(points, np.ones(shape, "f4"))
    extent = shape[axis]
    wrong, end = (-2, "") if index is None else (extent + index, " + 1" if beyond < 0 else "")
    cell = [f"int64(floor(X[r, s, {c}])){end}" if c == axis else "0" for c in range(3)]
    text = f"G is read at index {wrong} of axis {axis}, which has extent {extent}."
    assert placed(caught.value) == f"{text}\n  in: G[{', '.join(cell)}] in Y at HERE{HINT}"


def test_positions_along_rays_are_tested_once_for_both_ends() -> None:
    o, v = te.placeholder((5, 2), name="O"), te.placeholder((5, 2), name="V")
    grid = te.placeholder((9, 9), name="G")

    def cell(r: Expr, s: Expr) -> Expr:
        at = [o[r, c] + v[r, c] * s.astype("float32") for c in range(2)]
        a, b = (te.floor(p).astype("int64") for p in at)
        return grid[a, b] + grid[a + 1, b] + grid[a, b + 1] + grid[a + 1, b + 1]

    y = te.compute((5, 33), cell, name="Y")
    program = lower_program([y], [o, v, grid])
    assert looked_at_together(program) == [5 * 33] * 2
    loops = [s for s in program.kernels[0].body if isinstance(s, For)]
    assert [[s.kind for s in loop.body if isinstance(s, For)] for loop in loops] == [["vector"]] * 2
    f, ones = ta.build(y, [o, v, grid]), np.ones((9, 9), "f4")
    assert (f(np.zeros((5, 2), "f4"), np.full((5, 2), 0.24, "f4"), ones) == 4).all()
    with pytest.raises(BoundsError, match=r"^G is read at index 9 of axis 0"):
        f(np.zeros((5, 2), "f4"), np.full((5, 2), 0.25, "f4"), ones)


def test_points_of_any_number_are_tested_in_one_pass() -> None:
    n = te.size("n")
    x, grid = te.placeholder((n, 2), name="X"), te.placeholder((6, 6), name="G")
    y = te.compute((n,), lambda i: grid[x[i, 0].astype("int64"), x[i, 1].astype("int64")])
    (check, _) = lower_program([y], [x, grid]).kernels
    (loop,) = [s for s in check.body if isinstance(s, For)]
    assert loop.kind == "vector" and str(loop.axis.upper) == "n*2"
    f = ta.build(y, [x, grid])
    points = np.arange(46, dtype="f4").reshape(23, 2) % 6
    assert f(points, np.ones((6, 6), "f4")).sum() == 23
    points[19, 1] = 6
    with pytest.raises(BoundsError, match=r"^G is read at index 6 of axis 1"):
        f(points, np.ones((6, 6), "f4"))
    assert f(points[:0], np.ones((6, 6), "f4")).shape == (0,)


def test_indices_under_one_guard_are_tested_under_it() -> None:
    p, n = te.placeholder((6,), name="P"), te.placeholder((9,), "int64", name="n")
    y = te.compute((9,), lambda i: te.select(n[i] > -5, p[n[i]] + p[n[i] + 2], 0.0), name="Y")
    program = lower_program([y], [p, n])
    assert checks_made(program, {p: np.ones(6), n: np.arange(9) % 4}) == 0
    f, some = ta.build(y, [p, n]), np.array([-5, 3, 0, -7, 1, 2, 3, 0, 1])
    assert f(np.ones(6, "f4"), some).sum() == 14
    for wrong, index in ((4, 6), (-1, -1), (2**63 - 1, 2**63 - 1)):
        some[4] = wrong
        with pytest.raises(BoundsError, match=rf"^P is read at index {index} of axis 0"):
            f(np.ones(6, "f4"), some)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("seed", range(24))
def test_what_is_tested_together_is_right_where_each_index_is(seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns, extents = int(rng.integers(2, 5)), rng.choice([1, 5, 8], 2)
    x = te.placeholder((13, columns), "int64", name="X")
    tensors = [te.placeholder((int(e),), name=name) for name, e in zip("PQ", extents, strict=True)]
    kinds = [(rng.integers(columns), rng.integers(-2, 3), rng.integers(2)) for _ in range(6)]
    rows = 13 - int(rng.integers(0, 3))

    def body(i: Expr) -> Expr:
        read = [tensors[t][x[i, int(c)] + int(more)] for c, more, t in kinds]
        return sum(read[1:], read[0])

    y = te.compute((rows,), body, name="Y")
    f = ta.build(y, [x, *tensors])
    arrays = [rng.random(int(e), dtype="f4") for e in extents]
    for _ in range(20):
        n = rng.integers(1, 4, (13, columns))
        n[rng.integers(13), rng.integers(columns)] = rng.choice([0, 2, 4, 6, 2**63 - 1, -(2**63)])
        read = [(n[:rows, c] + more, arrays[t]) for c, more, t in kinds]
        if all(((i >= 0) & (i < len(a))).all() for i, a in read):
            np.testing.assert_allclose(f(n, *arrays), sum(a[i] for i, a in read), rtol=1e-5)
        else:
            with pytest.raises(BoundsError):
                f(n, *arrays)
