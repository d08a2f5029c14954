"""Elimination against brute force over every point of small domains."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tensorad import config, te
from tensorad.ir.expr import (
    TRUE,
    Axis,
    Const,
    Expr,
    axis,
    call,
    int_const,
    logical_and,
    logical_or,
    select,
    size_var,
)
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Compute, outputs
from tensorad.simplify.domain import polyhedral
from tensorad.simplify.domain.independent_parts import MOST_PIECES
from tensorad.simplify.zeros.eliminate import eliminate
from tensorad.simplify.zeros.passes import nonzero_body
from tests.random.generators import campaign
from tests.support.oracles import box, check_solution

Problem = tuple[list[Axis], list[Axis], Expr]


def _conv(stride: int, pad: int, kernel: int, dilation: int, wrt: str) -> Problem:
    extent = 9
    out = (extent + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
    inner = box(co=2, oy=out, ci=2, ky=kernel)
    _, oy, ci, ky = inner
    iy = oy * stride + ky * dilation - pad
    inside = logical_and(iy >= 0, iy < extent)
    if wrt == "x":
        outer = box(c=2, y=extent)
        return outer, inner, logical_and(outer[0] == ci, outer[1] == iy, inside)
    outer = box(c=2, k=kernel)
    return outer, inner, logical_and(outer[0] == ci, outer[1] == ky, inside)


def _reflect(i: Expr) -> Expr:
    j = i - 3
    return select(j < 0, -j, select(j >= 10, 18 - j, j))


def _simple(extent: int, outer_extent: int, index: object) -> Problem:
    outer, inner = box(x=outer_extent), box(i=extent)
    return outer, inner, outer[0] == index(inner[0])  # type: ignore[operator]


def _cases() -> dict[str, Problem]:
    cases: dict[str, Problem] = {}
    for wrt in "xw":
        for s in (1, 2, 3):
            for p in (0, 1):
                for k in (1, 2, 3):
                    for d in (1, 2):
                        cases[f"conv s{s} p{p} k{k} d{d} d{wrt}"] = _conv(s, p, k, d, wrt)
    x, v = box(a=2, b=3, c=4, d=5), box(i=2, k=60)
    cases["flatten"] = (x, v, logical_and(
        x[0] == v[0], x[1] == v[1] // 20, x[2] == v[1] // 5 % 4, x[3] == v[1] % 5))  # fmt: skip
    x, v = box(b=3, c=4, d=5, o=1), box(k=60)
    low, middle, high = v[0] % 5, v[0] % 20 // 5, v[0] // 20
    cases["digits"] = (x, v, logical_and(low == x[2], high == x[0], x[1] == middle, x[3] == 0))
    cases["digits, some"] = (x, v, logical_and(
        low == x[2], x[0] == high, x[1] == middle, v[0] < 37))  # fmt: skip
    cases["digits, one apart"] = (x, v, logical_and(low == x[2], x[0] == high))
    cases["digits, one twice"] = (x, v, logical_and(low == x[2], high == x[0], middle == x[0]))
    x = box(b=4, c=4, d=5)
    cases["digits, fewer"] = (x, v, logical_and(low == x[2], x[0] == high, x[1] == middle))
    x, v = box(a=6, b=20), box(i=8, k=15)
    f = v[0] * 15 + v[1]
    cases["reshape"] = (x, v, logical_and(x[0] == f // 20, x[1] == f % 20))
    x, v = box(a=60), box(i=3, k=4, m=5)
    cases["unflatten"] = (x, v, x[0] == v[0] * 20 + v[1] * 5 + v[2])
    x, v = box(a=12), box(i=12, k=12)
    cases["cumsum"] = (x, v, logical_and(x[0] == v[1], v[1] <= v[0]))
    cases["hole"] = (x, v, logical_and(x[0] == v[1], v[1] != v[0]))
    cases["banded"] = (x, v, logical_and(x[0] == v[1], v[1] <= v[0] + 2, v[0] <= v[1] + 1))
    cases["or"] = (x, v, logical_and(x[0] == v[1], logical_or(v[0] == 3, v[0] > x[0] + 4)))
    cases["pad reflect"] = _simple(16, 10, _reflect)
    cases["pad edge"] = _simple(
        16, 10, lambda i: call("minimum", call("maximum", i - 3, int_const(0)), int_const(9))
    )
    cases["pad wrap"] = _simple(16, 10, lambda i: (i - 3) % 10)
    cases["flip"] = _simple(20, 20, lambda i: 19 - i)
    cases["slice"] = _simple(7, 20, lambda i: 2 * i + 3)
    cases["repeat"] = _simple(30, 10, lambda i: i // 3)
    cases["resize"] = _simple(10, 7, lambda i: i * 7 // 10)
    x, v = box(a=16, y=2, x=3), box(c=4, h=4, w=6)
    channel = v[0] * 4 + v[1] % 2 * 2 + v[2] % 2
    shuffled = logical_and(x[0] == channel, x[1] == v[1] // 2, x[2] == v[2] // 2)
    cases["pixel shuffle"] = (x, v, shuffled)
    x, v = box(a=12), box(i=7, j=5)
    cases["lattice"] = (x, v, 2 * v[0] + 3 * v[1] == x[0] * 2)
    x, v = box(a=9), box(i=9, j=9, k=9)
    cases["correlation"] = (x, v, x[0] * 2 == v[0] + v[1] + v[2])
    x, v = box(a=8, b=8), box(i=8, j=8)
    cases["transpose"] = (x, v, logical_and(x[0] == v[1], x[1] == v[0]))
    cases["diagonal"] = (x, v, logical_and(x[0] == v[0], x[1] == v[0], v[1] == 3))
    cases["empty"] = (x, v, logical_and(v[0] > v[1], v[1] > v[0]))
    outer = box(n=6)
    i = axis("i", 0, 6)
    k = axis("k", i, 6, 2)
    cases["dependent bounds"] = (outer, [i, k], outer[0] == k)
    return cases


CASES = _cases()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CASES)
def test_pieces_are_the_domain_and_visit_nothing_else(name: str) -> None:
    outer, inner, condition = CASES[name]
    solution = eliminate(outer, inner, condition)
    visited, wanted = check_solution(outer, inner, condition, solution)
    assert solution.exact
    assert visited <= wanted


def test_determined_axes_leave_no_loop() -> None:
    outer, inner, condition = CASES["flatten"]
    (piece,) = eliminate(outer, inner, condition).pieces
    assert piece.axes == ()
    assert piece.guard is TRUE
    assert str(piece.values[inner[1]]) == "20*b + 5*c + d"


def test_digits_need_no_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    plain = polyhedral.solve_affine

    def counted(*arguments: object) -> object:
        asked.append(arguments)
        return plain(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("tensorad.simplify.zeros.eliminate.solve_affine", counted)
    for name, sets in (("digits", 0), ("flatten", 0), ("digits, fewer", 1)):
        asked.clear()
        outer, inner, condition = CASES[name]
        solution = eliminate(outer, inner, condition)
        assert (len(asked), solution.exact) == (sets, True)
    (x, one), (i,) = box(x=9, o=1), box(i=9)
    asked.clear()
    (piece,) = eliminate([x, one], [i], one == 0).pieces  # an axis of one value is that value
    assert not asked and [a.name for a in piece.axes] == ["i"]


def test_small_window_is_kept_rather_than_the_image() -> None:
    outer, inner, condition = CASES["conv s1 p1 k3 d1 dx"]
    (piece,) = eliminate(outer, inner, condition).pieces
    assert [a.name for a in piece.axes] == ["co", "ky"]
    assert str(piece.axes[1].lower) == "max(0, y - 7)"
    assert str(piece.axes[1].upper) == "min(3, y + 2)"


def test_strided_bounds_and_remainders_are_short() -> None:
    outer, inner, condition = CASES["conv s2 p1 k3 d1 dx"]
    (piece,) = eliminate(outer, inner, condition).pieces
    assert str(piece.axes[1].lower) == "max(y - 7, (y + 1) % 2)"
    (x,), (i, k) = box(x=9), box(i=3, k=2)
    (piece,) = eliminate([x], [i, k], x == 3 * i + k).pieces
    assert str(piece.guard) == "x % 3 < 2"
    (x,), (i,) = box(x=9), box(i=4)
    (piece,) = eliminate([x], [i], x == 2 * i + 1).pieces
    assert str(piece.guard) == "x % 2 == 1"


def test_windows_of_a_fold_stay_in_order() -> None:
    x, k = te.placeholder((12,), name="X"), te.reduce_axis(12)
    inside = lambda i: te.all_of(k >= i, k < i + 3)  # noqa: E731
    y = te.compute((10,), lambda i: te.max(x[k], axis=k, where=inside(i)), name="Y")
    tight = nonzero_body(y.op.axes, y.op.bodies[0])
    assert str(tight) == "max(X[i + k], axes (k : [0, 2]))"


def _reflected(dims: int) -> Problem:
    x = [axis(f"x{d}", 0, 3) for d in range(dims)]
    v = [axis(f"v{d}", 0, 5) for d in range(dims)]

    def reflect(i: Expr) -> Expr:
        return select(i < 1, 1 - i, select(i >= 4, 6 - i, i - 1))

    return x, v, logical_and(*[a == reflect(i) for a, i in zip(x, v, strict=True)])


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_independent_axes_multiply_their_pieces(dims: int) -> None:
    outer, inner, condition = _reflected(dims)
    solution = eliminate(outer, inner, condition)
    assert solution.exact
    assert len(solution.pieces) == 3**dims
    loops = [a for p in solution.pieces for a in p.axes]
    assert len(set(loops)) == len(loops)
    if dims < 3:
        check_solution(outer, inner, condition, solution)


def test_pieces_beyond_the_limit_are_listed_axis_by_axis() -> None:
    outer, inner, condition = _reflected(4)
    solution = eliminate(outer, inner, condition)
    assert solution.exact
    assert len(solution.pieces) <= MOST_PIECES


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_symbolic_sizes(n: int) -> None:
    size = size_var("n")
    x, i, k = axis("x", 0, size), axis("i", 0, size), axis("k", 0, size)
    condition = logical_and(x == k, k <= i)
    solution = eliminate([x], [i, k], condition)
    assert solution.exact
    visited, wanted = check_solution([x], [i, k], condition, solution, {size: n})
    assert visited == wanted


def test_conditions_on_data_stay_as_residual() -> None:
    a = te.placeholder((8,), name="A")
    outer, inner = box(x=8), box(i=8)
    data = a[inner[0]] > 0
    (piece,) = eliminate(outer, inner, logical_and(outer[0] == inner[0], data)).pieces
    assert piece.axes == ()
    assert str(piece.residual) == "A[x] > 0.0"


def _hostile(extent: int) -> Problem:
    outer, inner = box(x=extent), box(i=extent, j=extent + 1, k=extent + 7)
    i, j, k = inner
    return outer, inner, outer[0] == (6 * i + 10 * j + 15 * k) % (extent - 1)


def test_budget_ends_in_a_table_of_the_points() -> None:
    outer, inner, condition = _hostile(12)
    with config.override(isl_operations=200):
        solution = eliminate(outer, inner, condition)
    assert solution.exact
    assert solution.method == "table"
    visited, wanted = check_solution(outer, inner, condition, solution)
    assert visited == wanted


def test_budget_ends_in_the_untouched_domain() -> None:
    outer, inner, condition = _hostile(200)
    with config.override(isl_operations=200):
        solution = eliminate(outer, inner, condition)
    assert not solution.exact
    assert [a.name for a in solution.pieces[0].axes] == ["i", "j", "k"]
    assert solution.reason == "isl needs more than 200 operations"


def _random_index(rng: random.Random, axes: list[Axis]) -> Expr:
    e: Expr = int_const(rng.randrange(-3, 4))
    for a in axes:
        e = e + rng.choice([-2, -1, 0, 1, 1, 2, 3]) * a
    for _ in range(rng.randrange(3)):
        c = rng.choice([2, 3, 4, 5])
        e = rng.choice([lambda e=e, c=c: e // c, lambda e=e, c=c: e % c, lambda e=e: e + axes[0]])()
    return e


def _random_problem(seed: int) -> Problem:
    rng = random.Random(seed)
    outer = [axis(f"x{n}", 0, rng.randrange(1, 7)) for n in range(rng.randrange(1, 3))]
    inner = [axis(f"v{n}", 0, rng.randrange(1, 6)) for n in range(rng.randrange(1, 4))]
    parts = [x == _random_index(rng, inner) for x in outer]
    for _ in range(rng.randrange(2)):
        compare = rng.choice(["le", "ne", "lt"])
        parts.append(call(compare, _random_index(rng, inner), rng.choice([*outer, *inner])))
    return outer, inner, logical_and(*parts)


def _check_random(seed: int) -> None:
    outer, inner, condition = _random_problem(seed)
    if isinstance(condition, Const):
        return
    visited, wanted = check_solution(
        outer, inner, condition, solution := eliminate(outer, inner, condition)
    )
    if solution.exact:
        assert visited <= wanted


def test_random_problems() -> None:
    for seed in range(50):
        _check_random(seed)


@pytest.mark.slow
def test_many_random_problems() -> None:
    for seed in campaign(range(50, 2000), 250):
        _check_random(seed)


@pytest.mark.parametrize("case", range(4))
def test_a_fold_that_asks_for_order_keeps_it(case: int) -> None:
    """Loops over a part of the points may stand in another order only where nobody can tell."""
    k, j = te.reduce_axis(5, name="k"), te.reduce_axis(3, name="j")
    where = (k <= 2 * j, k + 2 * j < 6, (k + j) % 2 == 0, 2 * k <= 3 * j)[case]
    horner = te.comm_reducer(lambda a, b: a * 0.5 + b, lambda t: 0.0, name="horner")
    x = te.placeholder((5, 3), "float64", name="X")
    y = te.compute((), lambda: horner(x[k, j], axis=[k, j], where=where), name="Y")
    (body,) = y.op.bodies
    new = outputs(Compute("Z", (), (nonzero_body((), body),)))[0]
    values = {x: np.arange(1.0, 16.0).reshape(5, 3)}
    assert interpret(new, values) == interpret(y, values)
