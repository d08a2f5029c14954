"""Parts of zero elimination: guards, repeated terms, and indices from data."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tensorad import te
from tensorad.errors import BoundsError
from tensorad.ir.expr import Reduce, axis, call, logical_and, read
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Tensor
from tensorad.simplify.zeros.projected_guards import own_part, reached
from tensorad.simplify.zeros.recorded_indices import with_recorded_indices
from tensorad.simplify.zeros.repeated_terms import without_repeats
from tensorad.simplify.zeros.tested_indices import (
    index_tests,
    inside,
    otherwise_fail,
    unsure_dimensions,
)
from tests.support.loops.small_loops import arrays_for, op_of, with_bodies
from tests.support.oracles import evaluate

X = te.placeholder((4, 5), "float64", name="X")
WHERE = te.placeholder((4,), "int64", name="W")
P, Q = axis("i", 0, 6), axis("j", 0, 5)


def test_a_guard_says_something_of_fewer_axes() -> None:
    guard = logical_and(P > 1, Q < P, Q > 0)
    part = own_part(guard, [P])
    assert [i for i in range(6) if evaluate(part, {P: i})] == [2, 3, 4, 5]
    even = call("eq", P, Q * 2)
    some = reached(even, [P], [Q])
    assert some is not None
    holds = [i for i in range(6) if any(evaluate(even, {P: i, Q: j}) for j in range(5))]
    assert [i for i in range(6) if evaluate(some, {P: i})] == holds == [0, 2, 4]
    assert reached(P * Q > 3, [P], [Q]) is None


def repeated() -> Tensor:
    k, m = te.reduce_axis(5, name="k"), te.reduce_axis(3, name="m")
    return te.compute((4,), lambda i: te.sum(X[i, k], axis=[k, m]), name="Y")


def ragged() -> Tensor:
    k = te.reduce_axis((0, WHERE[0]), name="k")
    return te.compute((4,), lambda i: te.sum(X[i, 0], axis=k), name="Y")


def varying() -> Tensor:
    k = te.reduce_axis(5, name="k")
    return te.compute((4,), lambda i: te.sum(X[i, k], axis=k), name="Y")


def largest() -> Tensor:
    k, m = te.reduce_axis(5, name="k"), te.reduce_axis(3, name="m")
    return te.compute((4,), lambda i: te.max(X[i, k], axis=[k, m]), name="Y")


@pytest.mark.parametrize(
    ("make", "fires"), [(repeated, True), (ragged, True), (varying, False), (largest, False)]
)
def test_terms_that_are_alike_are_multiplied(make: Callable[[], Tensor], fires: bool) -> None:
    y = make()
    body = op_of(y).bodies[0]
    made = without_repeats(body)
    assert (made is not body) == fires
    for count in (0, 3):
        arrays = arrays_for(X) | {WHERE: np.array([count, 0, 0, 0])}
        given = arrays if make is ragged else {X: arrays[X]}
        (want,) = interpret([y], given)
        np.testing.assert_array_equal(interpret(with_bodies(op_of(y), (made,)), given)[0], want)


def picked() -> tuple[Tensor, Reduce]:
    k = te.reduce_axis(5, name="k")
    y = te.compute((4,), lambda i: te.sum(X[WHERE[i], k], axis=k), name="Y")
    body = op_of(y).bodies[0]
    assert isinstance(body, Reduce)
    return y, body


def test_indices_from_data_are_tested_beside_the_value() -> None:
    y, e = picked()
    assert list(unsure_dimensions(op_of(y))) == [(X, 0)]
    (test,) = index_tests(e, op_of(y))
    assert [str(c) for c in (test.inside,)] == [str(inside(read(X, test.failing.indices), [0]))]  # type: ignore[attr-defined]
    checked = otherwise_fail(e, [test])
    (made,) = with_bodies(op_of(y), (checked,))
    good = arrays_for(X) | {WHERE: np.array([3, 0, 2, 1])}
    np.testing.assert_array_equal(interpret([made], good)[0], interpret([y], good)[0])
    with pytest.raises(BoundsError):
        interpret([made], good | {WHERE: np.array([3, 0, 4, 1])})
    k = te.reduce_axis(5, name="k")
    safe = te.compute((4,), lambda i: te.sum(X[i, k], axis=k))
    assert index_tests(op_of(safe).bodies[0], op_of(safe)) == []  # type: ignore[arg-type]


def test_a_watched_reduction_never_reads_outside() -> None:
    k = te.reduce_axis(4, name="k")
    y = te.compute((), lambda: te.sum(X[WHERE[k], 0], axis=k), name="Y")
    (e,) = op_of(y).bodies
    assert isinstance(e, Reduce)
    found = with_recorded_indices(e, op_of(y))
    assert found is not None
    assert found.fold.combiner.arity == 2  # the sum, and where an index first left
    (made,) = with_bodies(op_of(y), (found.fold,))
    arrays = arrays_for(X)
    for places in ([0, 1, 2, 3], [0, 9, 2, -1]):
        inside_ = [arrays[X][p, 0] for p in places if 0 <= p < 4]
        given = arrays | {WHERE: np.array(places)}
        assert interpret([made], given)[0] == sum(inside_)
    plain = varying()
    assert with_recorded_indices(op_of(plain).bodies[0], op_of(plain)) is None  # type: ignore[arg-type]
