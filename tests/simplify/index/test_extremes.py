"""Bounds of index expressions by sizes hold at every point, and are the expected ones."""

from __future__ import annotations

from itertools import product

import pytest

from tensorad import te
from tensorad.ir.expr import Axis, Expr, axis, int_const, local_size, read
from tensorad.ir.order import READ, occurs
from tensorad.ir.visit import free_leaves
from tensorad.simplify.index.extremes import extremes, extremes_in_loops
from tests.support.oracles import evaluate

N, M = te.size("n"), te.size("m")
I = axis("i", 0, N)  # noqa: E741, the index of the formulas below
J = axis("j", I, N + M)
P = te.placeholder((4,), "int64", name="P")
D = read(P, (int_const(0),))
AT_MOST_M = te.minimum(te.maximum(D, 0), M)

CASES: list[tuple[Expr, str, str]] = [
    (I + 1, "1", "n"),
    (J - I, "1 - n", "n + m - 1"),
    (3 * I - 2 * J, "2 - 2*n - 2*m", "3*n - 3"),
    (-I * 3, "3 - 3*n", "0"),
    (te.minimum(I, M), "0", "min(n - 1, m)"),
    (te.maximum(J, M), "m", "max(n + m - 1, m)"),
    ((I + 3) // 2, "1", "n//2 + 1"),
    (J // te.maximum(I, 1), "0", "n + m - 1"),
    (I * I, "0", "(n - 1)*(n - 1)"),
    (I * M, "0", "(n - 1)*m"),
    (J % 4, "0", "min(3, n + m - 1)"),
    (J % M, "0", "min(max(0, m - 1), n + m - 1)"),
    (te.select(I > 1, J - 3, M), "-3", "max(n + m - 4, m)"),
    (AT_MOST_M + 1, "1", "m + 1"),
    (D % N, "0", "max(0, n - 1)"),
    (te.maximum(D, 0), "0", "None"),
    (D + 1, "None", "None"),
    (I * (J - 3), "None", "None"),
    (I // -2, "None", "None"),
]


@pytest.mark.parametrize(("e", "lo", "hi"), CASES, ids=[str(c[0]) for c in CASES])
def test_extremes_hold_everywhere(e: Expr, lo: str, hi: str) -> None:
    found = extremes(e)
    assert (str(found.lo), str(found.hi)) == (lo, hi)
    bounds = [b for b in (found.lo, found.hi) if b is not None]
    assert not free_leaves(*bounds)
    assert not occurs(READ, *bounds)
    if occurs(READ, e):
        return
    for n, m in product(range(5), repeat=2):
        sizes: dict[Expr, int] = {N: n, M: m}
        for i in range(n):
            for j in range(i, n + m):
                value = evaluate(e, {**sizes, I: i, J: j})
                assert found.lo is None or evaluate(found.lo, sizes) <= value
                assert found.hi is None or value <= evaluate(found.hi, sizes)


def test_sizes_are_their_own_extremes() -> None:
    for e in (N, N * M - 3, te.minimum(N, 4) // M):
        assert extremes(e).lo is extremes(e).hi is e


def test_axes_bounded_by_data_have_no_extremes() -> None:
    k: Axis = axis("k", 0, D)
    assert extremes(k).hi is None
    assert extremes(te.minimum(k, M)).hi is M


def test_counters_with_known_ends_have_extremes_in_loops() -> None:
    t = local_size("t", N)
    u = local_size("u", N - t)
    rounds = local_size("rounds")
    v = local_size("v", rounds)
    assert str(extremes_in_loops(te.maximum(N - t, 0)).hi) == "n"
    assert str(extremes_in_loops(t + u).hi) == "2*n - 2"
    assert str(extremes_in_loops((t + 1) // 2).hi) == "n//2"
    assert extremes_in_loops(v + 1).hi is v + 1
    assert extremes(t).hi is t
