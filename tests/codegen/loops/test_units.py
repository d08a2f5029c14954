"""Scatters that go on where their start was made."""

from __future__ import annotations

import numpy as np

import tensorad as ta
from tensorad import te
from tensorad.bound import bound
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.lower import lower_program, needed_units
from tensorad.ir.tensor import Tensor

X = te.placeholder((5,), dtype="float64", name="X")
P = te.placeholder((4,), dtype="int64", name="P")
Q = te.placeholder((3,), dtype="int64", name="Q")
GIVEN = {X: np.arange(1.0, 6.0), P: np.array([0, 4, 0, 2]), Q: np.array([1, 1, 3])}


def names(tensors: list[Tensor]) -> list[list[str]]:
    """The operations of every unit."""
    return [[op.name for op in unit.parts] for unit in needed_units(tensors, list(GIVEN))]


def check(tensors: list[Tensor], expected: list[list[float]]) -> None:
    """Plain and compiled loops compute this, and plain ones as often as `work` says."""
    for t, e in zip(tensors, expected, strict=True):
        assert ta.evaluate(t, GIVEN).tolist() == e
    plain, visits = interpret_loops(lower_program(tensors, list(GIVEN), schedule=False), GIVEN)
    assert [a.tolist() for a in plain] == expected
    assert ta.work(tensors).iterations == visits


def test_scatters_of_two_operations_fill_once() -> None:
    start = te.compute((5,), lambda i: X[i] * 10.0, name="start")
    first = te.scatter((5,), (4,), lambda k: (P[k], 1.0 * X[k]), init=start, name="first")
    both = te.scatter((5,), (3,), lambda k: (Q[k], X[k] + 0.0), "prod", init=first, name="both")
    assert names([both]) == [["start", "first", "both"]]
    assert ta.work(both).iterations == 5 + 4 + 3
    check([both], [[14.0, 20.0 * 1 * 2, 34.0, 40.0 * 3, 52.0]])


def test_a_start_that_is_used_elsewhere_is_kept() -> None:
    start = te.compute((5,), lambda i: X[i] * 10.0, name="start")
    own = te.scatter((5,), (4,), lambda k: (P[k], start[k]), init=start, name="own")
    assert names([own]) == [["start"], ["own"]]
    check([own], [[50.0, 20.0, 70.0, 40.0, 70.0]])
    plain = te.scatter((5,), (4,), lambda k: (P[k], X[k]), init=start, name="plain")
    assert names([plain, start]) == [["start"], ["plain"]]
    check([plain, start], [[14.0, 20.0, 34.0, 40.0, 52.0], [10.0, 20.0, 30.0, 40.0, 50.0]])
    double = te.compute((5,), lambda i: start[i] + plain[i], name="double")
    assert names([double]) == [["start"], ["plain"], ["double"]]


def test_gradients_of_gathers_by_several_operations_stay_within_the_bound() -> None:
    a = te.compute((4,), lambda k: X[P[k]] ** 2, name="A")
    b = te.compute((3,), lambda k: te.exp(X[Q[k]]), name="B")
    i, j, n = te.reduce_axis(4, "i"), te.reduce_axis(3, "j"), te.reduce_axis(5, "n")
    parts = [
        te.compute((), lambda: te.sum(a[i], axis=i)),
        te.compute((), lambda: te.sum(b[j], axis=j)),
        te.compute((), lambda: te.sum(X[n] * X[n], axis=n)),
    ]
    y = te.compute((), lambda: parts[0]() + parts[1]() * 2.0 + parts[2](), name="Y")
    (dx,) = ta.vjp(y, [X])
    assert ta.work(dx).iterations <= bound(y, [X])
    x, expected = GIVEN[X], 2 * GIVEN[X]
    np.add.at(expected, GIVEN[P], 2 * x[GIVEN[P]])
    np.add.at(expected, GIVEN[Q], 2 * np.exp(x[GIVEN[Q]]))
    np.testing.assert_allclose(ta.evaluate(dx, GIVEN), expected)


def test_what_a_tuple_holds_beside_what_is_wanted_is_not_computed() -> None:
    n = te.placeholder((5,), dtype="float64", name="N")
    costly = te.compute((5,), lambda i: te.exp(n[i]), name="costly")
    used = te.compute((5,), lambda i: X[i] * 2.0, name="used")
    first, second = te.compute((5,), lambda i: (used[i] + 1.0, costly[i] + 1.0), name="both")
    last = te.compute((5,), lambda i: first[i] - 1.0, name="last")
    assert names([last]) == [["used"], ["both"], ["last"]]
    check([last], [[2.0, 4.0, 6.0, 8.0, 10.0]])
    units = needed_units([second, last], [X, n])
    assert [u.op.name for u in units] == ["used", "costly", "both", "last"]
    given = {X: GIVEN[X], n: np.zeros(5)}
    found = ta.evaluate([second, last], given)
    assert [a.tolist() for a in found] == [[2.0] * 5, [2.0, 4.0, 6.0, 8.0, 10.0]]
