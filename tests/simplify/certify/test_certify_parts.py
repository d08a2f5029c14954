"""Plans are compared with their domains over digits, what sets cannot say left aside."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tensorad import te
from tensorad.ir.expr import TRUE, Expr, axis, logical_and, read, size_var
from tensorad.simplify.certify.mixed_radix_proofs import compare_over_digits
from tensorad.simplify.certify.outcomes import Refuted, Undecided, expressible, may_hold
from tensorad.simplify.certify.proofs import WAYS
from tensorad.simplify.domain.elimination import Elimination
from tensorad.simplify.domain.solution import Piece, Solution, as_given
from tensorad.simplify.index.quasi_affine import is_affine
from tensorad.simplify.sets.space import NotAffine
from tests.simplify.test_certificate import solved, symbolic_flatten
from tests.support.oracles import box

DATA = te.placeholder((20,), "int64", name="D")


def test_digits_decide_a_reshape() -> None:
    e = symbolic_flatten()
    compare_over_digits(e)  # raises unless the plan is right
    (piece,) = e.solution.pieces
    k = e.inner[-1]
    wrong = replace(piece, values={**piece.values, k: piece.values[k] + 1})
    with pytest.raises((Refuted, NotAffine)):
        compare_over_digits(replace(e, solution=replace(e.solution, pieces=(wrong,))))


def test_without_digits_nothing_is_decided() -> None:
    (i,), (k,) = box(i=20), box(k=20)
    with pytest.raises(Undecided):
        compare_over_digits(solved(([i], [k], i == k)))


def test_conditions_on_data_are_left_aside_alike() -> None:
    (i,), (k,) = box(i=20), box(k=20)
    data = DATA[k] > 3
    e = solved(([i], [k], logical_and(k <= i, data)))

    def test(c: Expr) -> bool:
        return is_affine(c, [i, k, *[a for p in e.solution.pieces for a in p.axes]])

    own, pieces = expressible(e, test)
    assert own == [k <= i]
    assert all(test(c) for found in pieces for c in found)
    assert may_hold(e, test) is TRUE
    (piece,) = e.solution.pieces
    blind = replace(piece, residual=TRUE)
    with pytest.raises(Undecided, match="not tested alike"):
        expressible(replace(e, solution=replace(e.solution, pieces=(blind,))), test)


def test_data_in_bounds_are_numbers_like_others_where_points_are_listed() -> None:
    n = size_var("n")
    lengths = te.placeholder((n,), "int64", name="lengths")
    row = axis("row", 0, n)
    i = axis("i", 0, read(lengths, (row,)))
    guard = 2 * row < read(lengths, (row,))
    one = Elimination((row,), (i,), i == 2 * row, Solution((Piece(guard, (), {i: 2 * row}),), True))
    ways = dict(WAYS)
    with pytest.raises(Undecided):
        ways["enumeration"](one)
    assert ways["samples"](one) == "25 values of #0, n up to 5"
    piece = replace(one.solution.pieces[0], values={i: 2 * row + 1})
    wrong = replace(one, solution=replace(one.solution, pieces=(piece,)))
    with pytest.raises(Undecided, match="do not contribute"):
        ways["samples"](wrong)


def test_data_that_each_iteration_reads_are_no_numbers() -> None:
    n = size_var("n")
    lengths = te.placeholder((n,), "int64", name="lengths")
    k = axis("k", 0, n)
    i = axis("i", 0, read(lengths, (k,)))
    e = Elimination((), (k, i), TRUE, Solution((as_given((k, i)),), True))
    with pytest.raises(Undecided, match="other data in each iteration"):
        dict(WAYS)["samples"](e)
