"""The points of a gradient whose contributions are gathered one by one, counted."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tensorad import te
from tensorad.autodiff.adjoints.contributions import Contribution
from tensorad.autodiff.counting.contribution_points import MOST_POINTS, points_per_contribution
from tensorad.ir.expr import TRUE, Axis, Expr, axis, const, read, size_var
from tensorad.ir.tensor import Tensor

X = te.placeholder((6,), "float64", name="X")
P = te.placeholder((9,), "int64", name="P")
A = axis("a", 0, 9)


def one(*indices: Expr, axes: tuple[Axis, ...] = (A,), guard: Expr = TRUE) -> Contribution:
    return Contribution(axes, TRUE, indices, lambda _: const(1.0, X.dtype), guard)


def counted(parts: Sequence[Contribution], t: Tensor = X, enough: int = 10**9) -> int | None:
    return points_per_contribution([], {t: parts}, [], {}, [], {}, enough)


@pytest.mark.parametrize(
    ("parts", "points"),
    [
        ([one(A // 2)], 9),
        ([one(A, axes=(axis("b", 0, 3),))], 6),  # each element is stored
        ([one(A // 2), one(A // 2)], 9),  # of one read
        ([one(A // 2), one(A // 3)], 18),
        ([one(A // 2, guard=A < 7)], 7),
        ([one(read(P, (A,)))], 6 + 9),  # filled, then scattered
    ],
)
def test_points_of_contributions(parts: list[Contribution], points: int) -> None:
    assert counted(parts) == points


def test_no_more_is_counted_than_is_enough() -> None:
    y = te.placeholder((6,), "float64", name="Y")
    received = {X: [one(A // 2)], y: [one(A // 2)]}
    assert points_per_contribution([], received, [], {}, [], {}, 10**9) == 18
    assert points_per_contribution([], received, [], {}, [], {}, 9) == 9


def test_nests_that_are_too_long_to_list_are_not_counted() -> None:
    n = size_var("n")
    b = axis("b", 0, n)
    c = axis("c", 0, b + 1)
    part = one(c, axes=(b, c))
    for size, expected in ((10, 55), (MOST_POINTS, None)):
        found = points_per_contribution([], {X: [part]}, [], {}, [], {n: size}, 10**9)
        assert found == expected


def test_loops_that_collect_no_adjoint_are_counted_beside() -> None:
    k = te.reduce_axis(6, name="k")
    total = te.compute((), lambda: te.sum(X[k], axis=k), name="T")
    scaled = te.compute((6,), lambda i: X[i] * total[()], name="S")
    found = points_per_contribution([scaled], {}, [], {}, [], {}, 10**9)
    assert found == 12
    assert points_per_contribution([scaled], {}, [scaled], {}, [], {}, 10**9) == 6
    assert points_per_contribution([scaled], {}, [], {}, [total], {}, 10**9) == 6
