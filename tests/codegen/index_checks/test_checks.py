"""What is checked before a call reads or writes by data: each fact once, and errors as before."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest

import tensorad as ta
from tensorad import te, topi
from tensorad.codegen.directives import Choices
from tensorad.codegen.loops.interpret import checks_made
from tensorad.codegen.loops.ir import Assign, Check, Fold, For, If, LoopProgram, Stmt, Store
from tensorad.codegen.loops.kernel_key import kernel_key
from tensorad.codegen.loops.visit import statements
from tensorad.codegen.lower import lower_program
from tensorad.codegen.runtime.kernel_cache import kernel_text
from tensorad.errors import BoundsError
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor
from tests.support.refusals import placed

HINT = (
    "\n  hint: the index comes from the data of this call: correct it, or clamp it in the formula "
    "with minimum and maximum."
)


def checks(program: LoopProgram) -> list[Check]:
    """All checks of a program, in order."""
    return [s for k in program.kernels for s in statements(k.body) if isinstance(s, Check)]


def looked_at_together(program: LoopProgram) -> list[int]:
    """How many values each test looks at that stands for several checks, which then do not run."""

    def points(body: Sequence[Stmt]) -> int:
        inner = [s for s in body if isinstance(s, (For, Fold))]
        assert len(inner) == 1
        (s,) = inner
        return 1 if isinstance(s, Fold) else (s.axis.extent or 0) * points(s.body)

    bodies = [k.body for k in program.kernels if not k.writes]
    rare = [(b, n) for b in bodies for n, s in enumerate(b) if isinstance(s, If) and s.rare]
    assert all(isinstance(b[n - 2], Assign) for b, n in rare)
    return [points(b[n - 1 : n]) for b, n in rare]


def pair_energy(d: list[Expr], j: ta.Axis) -> Expr:
    r2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2]
    return te.sum(te.select(r2 < 6.25, 1.0 / r2, 0.0), axis=j)


def neighbour_list(atoms: int, neighbours: int) -> tuple[Tensor, list[Tensor]]:
    """The gradient of an energy of pairs from a table of neighbours."""
    x = te.placeholder((atoms, 3), "float64", name="R")
    near = te.placeholder((atoms, neighbours), "int64", name="N")
    j = te.reduce_axis((0, neighbours), name="j")

    def energy(a: Expr) -> Expr:
        return pair_energy([x[a, c] - x[near[a, j], c] for c in range(3)], j)

    total = topi.sum(te.compute((atoms,), energy, name="E"))
    (force,) = ta.vjp(total, [x])
    return force, [x, near]


def ragged_list(atoms: int, pairs: int) -> tuple[Tensor, list[Tensor]]:
    """The same from rows of neighbours that begin at given places."""
    x = te.placeholder((atoms, 3), "float64", name="R")
    ptr = te.placeholder((atoms + 1,), "int64", name="ptr")
    near = te.placeholder((pairs,), "int64", name="N")

    def energy(a: Expr) -> Expr:
        j = te.reduce_axis((ptr[a], ptr[a + 1]), name="j")
        return pair_energy([x[a, c] - x[near[j], c] for c in range(3)], j)

    total = topi.sum(te.compute((atoms,), energy, name="E"))
    (force,) = ta.vjp(total, [x])
    return force, [x, ptr, near]


def test_a_table_of_neighbours_is_checked_once() -> None:
    force, inputs = neighbour_list(7, 5)
    program = lower_program([force], inputs)
    (only,) = checks(program)
    assert str(only.read) == "R[N[a, j], 0]"
    rng = np.random.default_rng(0)
    arrays = {inputs[0]: rng.random((7, 3)), inputs[1]: rng.integers(0, 7, (7, 5))}
    assert checks_made(program, arrays) == 35
    plain = lower_program([force], inputs, schedule=False)
    assert checks_made(plain, arrays) == 35


def test_ragged_rows_are_checked_by_their_ends_and_their_elements_once() -> None:
    force, inputs = ragged_list(4, 9)
    program = lower_program([force], inputs)
    assert [str(c.read) for c in checks(program)] == ["N[j]"] * 2 + ["R[N[j], 0]"] * 2
    rng = np.random.default_rng(0)
    near = rng.integers(0, 4, 9)
    arrays = {inputs[0]: rng.random((4, 3)), inputs[1]: np.array([0, 2, 2, 6, 9]), inputs[2]: near}
    assert checks_made(program, arrays) == 2 * 3 + 9


@pytest.mark.parametrize(
    ("rows", "index"), [([0, 2, 2, 6, 10], 9), ([0, 2, 2, 11, 9], 9), ([-2, 1, 2, 3, 4], -2)]
)
def test_the_first_index_beyond_a_ragged_row_is_named(rows: list[int], index: int) -> None:
    force, inputs = ragged_list(4, 9)
    f = ta.build(force, inputs)
    with pytest.raises(BoundsError) as caught:
        f(np.random.default_rng(0).random((4, 3)), np.array(rows), np.zeros(9, "i8"))
    where = f"\n  in: N[j] in {force.name} at HERE"
    text = f"N is read at index {index} of axis 0, which has extent 9.{where}{HINT}"
    assert placed(caught.value) == text


def test_an_empty_row_is_not_looked_at() -> None:
    force, inputs = ragged_list(4, 9)
    f = ta.build(force, inputs)
    rows = np.array([0, 0, 0, -5, -5])
    assert not f(np.ones((4, 3)), rows, np.full(9, 77)).any()


def test_the_first_reader_is_named() -> None:
    force, inputs = neighbour_list(7, 5)
    near = np.zeros((7, 5), "i8")
    near[3, 2] = near[4, 4] = 7
    with pytest.raises(BoundsError) as caught:
        ta.build(force, inputs)(np.random.default_rng(0).random((7, 3)), near)
    where = f"\n  in: R[N[a, j], 0] in {force.name} at HERE"
    assert (
        placed(caught.value) == f"R is read at index 7 of axis 0, which has extent 7.{where}{HINT}"
    )


def test_tensors_of_one_extent_share_a_check() -> None:
    p, q = te.placeholder((6,), name="P"), te.placeholder((6, 2), name="Q")
    n = te.placeholder((9,), "int32", name="n")
    first = te.compute((9,), lambda i: p[n[i]], name="first")
    second = te.compute((2, 9), lambda c, k: q[n[k], c] * first[k], name="second")
    program = lower_program([first, second], [p, q, n])
    (only,) = checks(program)
    assert only.read.tensor is p and only.user == "first"
    f = ta.build([first, second], [p, q, n])
    bad = np.arange(9, dtype="i4") % 6
    bad[8] = -1
    with pytest.raises(BoundsError, match=r"^P is read at index -1 of axis 0, which has extent 6"):
        f(np.ones(6, "f4"), np.ones((6, 2), "f4"), bad)


def test_a_smaller_extent_is_checked_in_the_place_of_a_larger() -> None:
    p, q = te.placeholder((8,), name="P"), te.placeholder((5,), name="Q")
    n = te.placeholder((9,), "int64", name="n")
    large = te.compute((9,), lambda i: p[n[i] + 2], name="large")
    small = te.compute((9,), lambda i: q[n[i]] + large[i], name="small")
    (only,) = checks(lower_program([small], [p, q, n]))
    assert only.user == "small" and str(only.read) == "Q[n[i]]"


def test_part_of_a_tensor_follows_from_all_of_it() -> None:
    p, n = te.placeholder((6,), name="P"), te.placeholder((9, 4), "int64", name="n")
    part = te.compute((5,), lambda i: p[n[8 - i, 1]], name="part")
    whole = te.compute((9, 4), lambda i, k: p[n[i, k]], name="whole")
    for results in ([part, whole], [whole, part]):
        (only,) = checks(lower_program(results, [p, n]))
        assert only.user == "whole"
    others = te.compute((8, 4), lambda i, k: p[n[i, k]], name="others")
    assert len(checks(lower_program([part, others], [p, n]))) == 2


def test_a_guarded_index_is_checked_under_its_guard() -> None:
    p, n = te.placeholder((6,), name="P"), te.placeholder((9,), "int64", name="n")
    y = te.compute((9,), lambda i: te.select(n[i] >= 0, p[n[i]], 0.0), name="Y")
    z = te.compute((9,), lambda i: te.select(n[i] >= 0, p[n[i]] * p[n[i]], 1.0), name="Z")
    assert len(checks(lower_program([y, z], [p, n]))) == 1
    f = ta.build([y, z], [p, n])
    some = np.array([-1, 5, 0, -7, 1, 2, 3, 4, 5])
    got, _ = f(np.arange(6, dtype="f4"), some)
    assert np.array_equal(got, np.maximum(some, 0).astype("f4"))
    some[8] = 6
    with pytest.raises(BoundsError, match=r"^P is read at index 6 of axis 0"):
        f(np.arange(6, dtype="f4"), some)


def test_a_guard_over_a_shorter_loop_covers_none_over_a_longer() -> None:
    p, n = te.placeholder((6,), name="P"), te.placeholder((4,), "int64", name="n")
    w = te.placeholder((4, 5), name="W")

    def picked(count: int) -> Tensor:
        r = te.reduce_axis(count, name="r")
        return te.compute(
            (4,), lambda i: te.sum(te.select(w[i, r] > 0, p[n[i]], 0.0), axis=r), name=f"Y{count}"
        )

    f = ta.build([picked(3), picked(5)], [p, n, w])
    wanted = np.zeros((4, 5), "f4")
    wanted[1, 4] = 1.0
    with pytest.raises(BoundsError, match=r"^P is read at index 6 of axis 0"):
        f(np.ones(6, "f4"), np.array([0, 6, 0, 0]), wanted)
    assert len(checks(lower_program([picked(5), picked(5)], [p, n, w]))) == 1


def test_an_unguarded_index_covers_a_guarded_one() -> None:
    p, w = te.placeholder((6,), name="P"), te.placeholder((9,), name="W")
    n = te.placeholder((9,), "int64", name="n")
    y = te.compute((9,), lambda i: te.select(w[i] > 0, p[n[i]], 0.0), name="Y")
    z = te.compute((9,), lambda i: p[n[i]] + y[i], name="Z")
    (only,) = checks(lower_program([z], [p, w, n]))
    assert only.user == "Z"


def test_what_is_computed_later_is_checked_later() -> None:
    p, n = te.placeholder((6,), name="P"), te.placeholder((9,), "int64", name="n")
    y = te.compute((9,), lambda i: te.select(i < 4, p[n[i]], 0.0), name="Y")
    m = te.compute((9,), lambda i: n[i] + y[i].astype("int64"), name="M")
    z = te.compute((9,), lambda i: p[m[i]], name="Z")
    program = lower_program([z], [p, n], choices=Choices(fuse=False))
    names = [k.name for k in program.kernels]
    assert [c.user for c in checks(program)] == ["Y", "Z"]
    assert names.index("M") < names.index("Z.check") < names.index("Z")


def test_indices_of_indices_are_checked_from_the_inside() -> None:
    p = te.placeholder((6,), name="P")
    m, n = te.placeholder((5,), "int64", name="m"), te.placeholder((9,), "int64", name="n")
    w = te.placeholder((9,), name="W")
    y = te.compute((9,), lambda i: te.select(w[i] > 0, p[m[n[i]]], 0.0), name="Y")
    z = te.compute((9,), lambda i: p[m[n[i]]] + y[i], name="Z")
    found = checks(lower_program([z], [p, m, n, w]))
    assert [str(c.read) for c in found] == ["m[n[i]]", "P[m[n[i]]]"]
    f = ta.build(z, [p, m, n, w])
    with pytest.raises(BoundsError, match=r"^m is read at index 5 of axis 0"):
        f(np.ones(6, "f4"), np.zeros(5, "i8"), np.full(9, 5), np.ones(9, "f4"))
    with pytest.raises(BoundsError, match=r"^P is read at index -3 of axis 0"):
        f(np.ones(6, "f4"), np.full(5, -3), np.full(9, 4), np.ones(9, "f4"))


def test_neighbours_of_an_index_are_checked_by_their_ends() -> None:
    p, n = te.placeholder((30,), name="P"), te.placeholder((9,), "int64", name="n")
    k = te.reduce_axis((0, 5), name="k")
    y = te.compute((9,), lambda i: te.sum(p[n[i] + k - 2], axis=k), name="Y")
    program = lower_program([y], [p, n])
    assert checks_made(program, {p: np.ones(30), n: np.arange(9) + 2}) == 0
    assert looked_at_together(program) == [9]
    f = ta.build(y, [p, n])
    for first, index in ((1, -1), (28, 30), (99, 97)):
        with pytest.raises(BoundsError, match=rf"^P is read at index {index} of axis 0"):
            f(np.ones(30, "f4"), np.array([3, 9, first, 5, 6, 7, 8, 2, 1]))
    assert f(np.ones(30, "f4"), np.full(9, 27 - 2)).tolist() == [5.0] * 9


def test_a_writer_that_fails_is_said_to_write() -> None:
    n, v = te.placeholder((4,), "int64", name="n"), te.placeholder((4,), name="V")
    y = te.scatter((3,), (4,), lambda i: (n[i], v[i]), name="Y")
    with pytest.raises(BoundsError) as caught:
        ta.build(y, [n, v])(np.array([0, 1, 3, 2]), np.ones(4, "f4"))
    text = "Y is written at index 3 of axis 0, which has extent 3.\n  in: Y[n[i]] in Y at HERE"
    assert placed(caught.value) == text + HINT


def divisions(program: LoopProgram) -> list[str]:
    """The types of the divisions in the code of the last kernel."""
    (*_, last) = program.kernels
    _, tensors = kernel_key(last)
    text, _ = kernel_text(last, tensors)
    return [found.strip() for found in re.findall(r"fdiv (<8 x double>|double)", text)]


def test_updates_under_one_condition_share_what_they_compute() -> None:
    force, inputs = ragged_list(40, 400)
    program = lower_program([force], inputs)
    assert divisions(program) == ["double"] * 2
    tested = [s for s in statements(program.kernels[-1].body) if isinstance(s, If)]
    assert [len(s.then) for s in tested] == [6]


def test_sums_for_single_values_of_an_axis_share_their_loop() -> None:
    force, inputs = neighbour_list(1000, 30)
    program = lower_program([force], inputs)
    check, kernel = program.kernels
    assert kernel.writes == (force,) and not check.writes
    row = kernel.body[0]
    assert isinstance(row, For)
    assert [type(s) for s in row.body] == [Assign] * 3 + [For] + [Store] * 3
    (loop,) = [s for s in row.body if isinstance(s, For)]
    assert [type(s) for s in loop.body] == [Fold] * 3
    # two of two registers, of one and of the rest, and two for what is added elsewhere
    assert divisions(program) == ["<8 x double>"] * 8 + ["double"] * 2


def test_forces_are_right() -> None:
    rng = np.random.default_rng(0)
    x, near = 3 * rng.random((60, 3)), rng.integers(0, 59, (60, 11))
    near[near >= np.arange(60)[:, None]] += 1  # nobody is its own neighbour
    d = x[:, None] - x[near]
    r2 = (d * d).sum(-1)
    pair = np.where(r2 < 6.25, -2 / r2**2, 0)[..., None] * d
    expected = pair.sum(1)
    np.add.at(expected, near, -pair)
    force, inputs = neighbour_list(60, 11)
    np.testing.assert_allclose(ta.build(force, inputs)(x, near), expected, rtol=1e-11)
    ragged, others = ragged_list(60, 660)
    got = ta.build(ragged, others)(x, 11 * np.arange(61), near.reshape(-1))
    np.testing.assert_allclose(got, expected, rtol=1e-11)


@pytest.mark.parametrize(
    ("rows", "index"), [([0, 2, 2, 6, 9], -5), ([3, 6, 2, 6, 9], 77), ([9, 9, 9, 9, 9], None)]
)
def test_rows_that_follow_each_other_are_one(rows: list[int], index: int | None) -> None:
    force, inputs = ragged_list(4, 9)
    program = lower_program([force], inputs)
    near = np.array([1, 0, -5, 3, 77, 0, 1, 2, 3])  # read from 0 on, or from 3 on
    arrays = {inputs[0]: np.ones((4, 3)), inputs[1]: np.array(rows), inputs[2]: near}
    if index is None:
        assert checks_made(program, arrays) == 0
        return
    with pytest.raises(BoundsError, match=rf"^R is read at index {index} of axis 0"):
        ta.build(force, inputs)(*arrays.values())
    bodies = [s for s in statements(program.kernels[0].body) if isinstance(s, If)]
    one, each = bodies[-1].then, bodies[-1].orelse
    assert [s.kind for s in one if isinstance(s, For)] == ["vector"]
    assert [s.kind for s in statements(each) if isinstance(s, For)] == ["serial", "vector"]


@pytest.mark.parametrize("bad", [0, 3, 15, 16, 40])
def test_columns_of_indices_are_looked_at_in_lanes(bad: int) -> None:
    p, x = te.placeholder((10,), name="P"), te.placeholder((41, 3), name="X")
    y = te.compute((41,), lambda i: p[te.floor(x[i, 1]).astype("int64") + 1], name="Y")
    check, _ = lower_program([y], [p, x]).kernels
    assert isinstance(check.body[0], For) and check.body[0].kind == "vector"
    places = np.full((41, 3), -99, "f4")
    places[:, 1] = np.arange(41) % 10 - 0.5
    f = ta.build(y, [p, x])
    assert np.array_equal(f(np.arange(10, dtype="f4"), places), np.arange(41) % 10)
    places[bad:, 1] = 70.5 + np.arange(41 - bad)
    with pytest.raises(BoundsError, match=r"^P is read at index 71 of axis 0"):
        f(np.arange(10, dtype="f4"), places)


def test_indices_that_are_not_always_read_are_looked_at_one_by_one() -> None:
    p, n = te.placeholder((6,), name="P"), te.placeholder((4,), "int64", name="n")
    y = te.compute((9,), lambda i: p[te.select(i < 4, n[i], 0)], name="Y")
    program = lower_program([y], [p, n])
    loop = program.kernels[0].body[0]
    assert isinstance(loop, For) and loop.kind == "serial"
    assert checks_made(program, {p: np.ones(6), n: np.arange(4)}) == 9
