"""Folds of (value, place) start from the first place; other folds stay as they are."""

from __future__ import annotations

from tensorad import te
from tensorad.codegen.nest.argreduce import start_selections
from tests.support.loops.small_loops import check_stores, nest_for, plainly

X = te.placeholder((5, 9), "float64", name="X")


def test_argmax_starts_from_its_first_place() -> None:
    k = te.reduce_axis(9, name="k")
    for fold in (te.argmax, te.argmin):
        y = te.compute((5,), lambda i, fold=fold: fold(X[i, k], axis=k), name="Y")
        before = nest_for(y)
        nest = start_selections(before)
        assert not before.folds[0].start
        assert nest.folds[0].start
        check_stores(plainly([nest]), y, X)


def test_sums_and_guarded_selections_stay() -> None:
    k = te.reduce_axis(9, name="k")
    total = nest_for(te.compute((5,), lambda i: te.sum(X[i, k], axis=k)))
    assert start_selections(total) is total
    guarded = nest_for(te.compute((5,), lambda i: te.argmax(X[i, k], axis=k, where=X[i, k] > 0)))
    assert start_selections(guarded) is guarded
