"""Whether an index stays in its tensor: by sets, by points, and where each read stands."""

from __future__ import annotations

import pytest

from tensorad import config, te
from tensorad.errors import BoundsError
from tensorad.ir.expr import TRUE, Expr, axis, call, floordiv, int_const, local_size, size_var
from tensorad.ir.tensor import Compute
from tensorad.simplify.bounds.in_range import Query
from tensorad.simplify.bounds.pointwise import NotEnumerable, first_point, value_at
from tensorad.simplify.bounds.read_sites import read_sites
from tensorad.simplify.bounds.reads import classify_reads, dynamic_dimensions, size_conditions

P, Q, N = axis("p", 0, 6), axis("q", 0, 5), size_var("n")
DATA = te.placeholder((6,), "int64", name="D")
TEN = int_const(10)


@pytest.mark.parametrize(
    ("index", "extent", "guard", "kind"),
    [
        (P + Q, TEN, TRUE, "in"),
        (P + Q + 1, TEN, TRUE, "out"),
        (P + Q + 1, TEN, P + Q < 9, "in"),
        (P * Q, int_const(21), TRUE, "in"),  # by enumeration
        (P * Q, int_const(20), TRUE, "out"),
        (P, N, TRUE, "sizes"),
        (DATA[P], TEN, TRUE, "data"),
        (P - 1, TEN, TRUE, "out"),
    ],
)
def test_the_verdict(index: Expr, extent: Expr, guard: Expr, kind: str) -> None:
    query = Query([P, Q], guard, index, extent)
    assert query.verdict().kind == kind
    if kind == "out":
        point = query.witness()
        assert point is not None
        assert not 0 <= value_at(index, point) < value_at(extent, point)


def test_sizes_get_the_requirement() -> None:
    query = Query([P], TRUE, P, N)
    requirement = query.verdict().requirement
    assert [bool(value_at(requirement, {N: n})) for n in (5, 6, 7)] == [False, True, True]
    point = query.witness({N: 5})
    assert point is not None
    assert point[P] == 5


def test_the_point_may_cost_more_than_the_verdict() -> None:
    """A small box is walked then; of a large one it is said that an index is outside."""

    def shifted(extent: int) -> None:
        X = te.placeholder((extent,), name="X")
        te.compute((extent,), lambda i: X[i + 1], name="Y")

    for extent, message in ((6, "reads index 6 of axis 0"), (10**9, "reads outside of axis 0")):
        with pytest.raises(BoundsError, match=f"reads index {extent} of axis 0"):
            shifted(extent)  # the verdict is known from here on
        with config.override(isl_operations=1), pytest.raises(BoundsError, match=message):
            shifted(extent)


def test_the_first_point_in_order() -> None:
    assert first_point([P, Q], [call("eq", P * Q, int_const(6))]) == {P: 2, Q: 3}
    assert first_point([P, Q], [P * Q > 99]) is None
    with pytest.raises(NotEnumerable):
        first_point([axis("b", 0, 10**9)], [TRUE])
    with pytest.raises(NotEnumerable):
        first_point([P], [DATA[P] > 3])
    assert value_at(floordiv(P - 7, int_const(2)), {P: 2}) == -3


def test_each_read_stands_in_its_loops_under_its_guards() -> None:
    x = te.placeholder((6, 6), name="X")
    k = te.reduce_axis(6, name="k")
    y = te.compute(
        (6,), lambda i: te.select(i > 2, te.sum(x[i, k], axis=k, where=k < i), x[i, 0]), name="Y"
    )
    assert isinstance(y.op, Compute)
    sites = list(read_sites(y.op.axes, y.op.bodies))
    assert sorted([(len(s.axes), str(s.read)) for s in sites]) == [(1, "X[i, 0]"), (2, "X[i, k]")]
    (inner,) = [s for s in sites if len(s.axes) == 2]
    at = dict(zip(inner.axes, (4, 2), strict=True))
    assert value_at(inner.guard, at)
    assert not value_at(inner.guard, dict(zip(inner.axes, (2, 1), strict=True)))
    assert not value_at(inner.guard, dict(zip(inner.axes, (4, 5), strict=True)))


def test_a_call_checks_what_counters_decide_and_what_blocks_leave_to_sizes() -> None:
    t, six = local_size("t", int_const(6)), te.placeholder((6,), name="X")
    ahead = te.compute((2,), lambda i: six[t + i], name="ahead").op
    (there,) = classify_reads(ahead)
    assert classify_reads(ahead) == {there: "dynamic"} and size_conditions(ahead) == ()
    assert dynamic_dimensions(ahead) == {there: (0,)}
    within = te.compute((2,), lambda i: six[5 - t] * i, name="within").op
    assert set(classify_reads(within).values()) == {"always"}
    long = te.compute((4,), lambda i: te.placeholder((N,), name="L")[i], name="long").op
    assert dynamic_dimensions(long) == {} and len(size_conditions(long)) == 1
    assert list(dynamic_dimensions(long, sizes=True).values()) == [(0,)]
