"""Reads and writes outside their tensors: each refused with one whole text."""

from __future__ import annotations

import pytest

import tensorad as ta
from tensorad.errors import BoundsError, ShapeError
from tests.support.refusals import Case, Refusals, check

X = ta.placeholder((3, 4), name="X")
V = ta.placeholder((10,), name="V")
S = ta.placeholder((), name="S")
n = ta.size("n")
k = ta.reduce_axis(4, name="k")

CASES = Refusals()


@CASES.refused(
    BoundsError,
    "V[i - 1] reads index -1 of axis 0, whose extent is 10.",
    "  in: Y, defined at HERE",
    "  hint: at i = 0; guard the read with select(...) or change the axis.",
)
def one_before_the_start() -> None:
    ta.compute((10,), lambda i: V[i - 1], name="Y")


@CASES.refused(
    BoundsError,
    "V[-1] reads index -1 of axis 0, whose extent is 10.",
    "  in: Y, defined at HERE",
    "  hint: guard the read with select(...) or change the axis.",
)
def a_negative_constant_index() -> None:
    ta.compute((10,), lambda i: V[-1], name="Y")


@CASES.refused(
    BoundsError,
    "V[2*i] reads index 10 of axis 0, whose extent is 10.",
    "  in: Y, defined at HERE",
    "  hint: at i = 5; guard the read with select(...) or change the axis.",
)
def a_stride_too_far() -> None:
    ta.compute((10,), lambda i: V[2 * i], name="Y")


@CASES.refused(
    BoundsError,
    "X[i, 4] reads index 4 of axis 1, whose extent is 4.",
    "  in: Y, defined at HERE",
    "  hint: guard the read with select(...) or change the axis.",
)
def a_constant_behind_the_end() -> None:
    ta.compute((3,), lambda i: X[i, 4], name="Y")


@CASES.refused(
    BoundsError,
    "V[i + k] reads index 10 of axis 0, whose extent is 10.",
    "  in: Y, defined at HERE",
    "  hint: at i = 7, k = 3; guard the read with select(...) or change the axis.",
)
def a_window_too_far() -> None:
    ta.compute((8,), lambda i: ta.sum(V[i + k], axis=k), name="Y")


@CASES.refused(
    BoundsError,
    "V[i - 2] reads index -1 of axis 0, whose extent is 10.",
    "  in: Y, defined at HERE",
    "  hint: at i = 1; guard the read with select(...) or change the axis.",
)
def a_guard_that_does_not_help() -> None:
    ta.compute((10,), lambda i: ta.select(i >= 1, V[i - 2], 0), name="Y")


@CASES.refused(
    BoundsError,
    "A[i] writes index 3 of axis 0, whose extent is 3.",
    "  in: A, defined at HERE",
    "  hint: at i = 3; guard the read with select(...) or change the axis.",
)
def a_write_behind_the_end() -> None:
    ta.scatter((3,), (4,), lambda i: (i, V[i]), name="A")


@CASES.refused(
    BoundsError,
    "V[10] reads index 10 of axis 0, whose extent is 10.",
    "  in: Y, defined at HERE",
    "  hint: at n = 1; guard the read with select(...) or change the axis.",
)
def a_read_out_of_range_at_some_sizes() -> None:
    ta.compute((n,), lambda i: ta.select(i > 2, V[3], V[10]), name="Y")


@CASES.refused(
    ShapeError,
    "S has 0 axes, but 1 index was given.",
    "  in: S[0] with shape ()",
    "  hint: give one index per axis, e.g. S().",
)
def an_index_of_a_scalar() -> None:
    ta.compute((3,), lambda i: S[0], name="Y")


@pytest.mark.parametrize("case", CASES, ids=[c.attempt.__name__ for c in CASES])
def test_the_whole_text(case: Case) -> None:
    check(case)
