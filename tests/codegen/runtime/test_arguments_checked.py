"""Arguments of a call: what is taken as it is, what is copied, what is refused."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import permutations

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from tensorad import te
from tensorad.codegen.runtime.arguments import (
    Parameter,
    SizeBinding,
    are_disjoint,
    check_output,
    check_overlap,
    layout_matches,
    shares_memory,
    size_number,
    sizes_of,
)
from tensorad.errors import BindError, DTypeError, ShapeError, UserError
from tensorad.ir.expr import Expr
from tests.support.refusals import Case, check

N, M, L = te.size("n"), te.size("m"), te.size("l")
X = te.placeholder((N, 3), name="X")
Array = np.ndarray


def array(*shape: int, dtype: str = "f4") -> Array:
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


@pytest.mark.parametrize(
    ("value", "same"),
    [
        (array(2, 3), True),
        (array(2, 3)[:, ::-1], False),
        (array(2, 3, dtype=">f4"), False),
        (array(2, 3, dtype="f2"), False),
        ([[1, 2, 3]], False),
    ],
)
def test_arrays_are_made_fit(value: object, same: bool) -> None:
    made = Parameter(X).convert(value)
    assert (made is value) == same
    assert not same or Parameter(X).is_ready(made)
    assert made.flags.c_contiguous
    assert made.dtype == np.float32
    np.testing.assert_array_equal(made, np.asarray(value))


BOOLS, BYTES = Parameter(te.placeholder((3,), "bool", name="B")), np.array([2, 0, 1], "u1")
SMALL = Parameter(te.placeholder((2,), "uint8", name="S"))


def test_any_byte_but_0_is_true() -> None:
    assert BOOLS.convert(BYTES.view(bool)).view("u1").tolist() == [1, 0, 1]


def test_arrays_of_another_byte_order_are_not_ready() -> None:
    assert [Parameter(X).is_ready(array(2, 3, dtype=d)) for d in ("=f4", ">f4", "<f4")] == [
        True, sys.byteorder == "big", sys.byteorder == "little",
    ]  # fmt: skip


def read_only(a: Array) -> Array:
    a.flags.writeable = False
    return a


REFUSED: list[tuple[type[UserError], Callable[[], object]]] = [
    (DTypeError, lambda: SMALL.convert([255, 256])),
    (DTypeError, lambda: SMALL.convert([0, -1])),
    (BindError, lambda: Parameter(X).convert(np.ma.masked_array(array(2, 3), mask=True))),
    (ShapeError, lambda: SizeBinding([Parameter(X)], [X]).bind([array(2, 3)], {"n": 4})),
    (BindError, lambda: size_number("n", True)),
    (BindError, lambda: check_output(X, 0, read_only(array(2, 3)), (2, 3))),
    (BindError, lambda: check_output(X, 0, as_strided(array(6), (2, 3), (4, 4)), (2, 3))),
    (BindError, lambda: check_output(X, 0, as_strided(array(6), (2, 3), (0, 4)), (2, 3))),
    (DTypeError, lambda: Parameter(X).convert(array(2, 3, dtype="f8"))),
    (ShapeError, lambda: Parameter(X).convert(array(3))),
    (ShapeError, lambda: Parameter(X).check_shape(array(2, 3), {N: 4})),
    (BindError, lambda: SizeBinding([Parameter(X)], [X]).bind([array(2, 3)], {"m": 3})),
    (BindError, lambda: size_number("n", -1)),
    (BindError, lambda: size_number("n", 1.5)),
    (ShapeError, lambda: check_output(X, 0, array(2, 4), (2, 3))),
    (DTypeError, lambda: check_output(X, 0, array(2, 3, dtype="f8"), (2, 3))),
]


@pytest.mark.parametrize(("error", "act"), REFUSED)
def test_what_does_not_fit_is_refused(error: type[UserError], act: Callable[[], object]) -> None:
    with pytest.raises(error):
        act()


def test_sizes_follow_from_shapes() -> None:
    wide = te.placeholder((N * 2, te.size("m")), name="W")
    assert [s.name for s in sizes_of(wide)] == ["n", "m"]
    binding = SizeBinding([Parameter(wide)], [wide])
    found = binding.bind([array(6, 4)], {})
    assert {getattr(s, "name", ""): n for s, n in found.items()} == {"n": 3, "m": 4}
    with pytest.raises(ShapeError):
        binding.bind([array(6, 4)], {"n": 2})
    assert Parameter(wide).mentions(binding.sizes[0])


def bound(extents: Sequence[Expr], lengths: Sequence[int], **given: int) -> dict[str, int]:
    """The sizes by name where vectors X0, X1, ... of these extents get arrays of these lengths."""
    tensors = [te.placeholder((e,), name=f"X{k}") for k, e in enumerate(extents)]
    binding = SizeBinding([Parameter(t) for t in tensors], tensors)
    found = binding.bind([array(n) for n in lengths], given)
    return {getattr(s, "name", ""): n for s, n in found.items()}


SOLVED = [
    ([(N + M, 7), (N + 1, 4)], {"n": 3, "m": 4}),
    ([(N + M + L, 9), (N * M, 6), (2 * N - 1, 3)], {"n": 2, "m": 3, "l": 4}),
    ([(N - M, 0), (N + M, 10), (5 - N, 0)], {"n": 5, "m": 5}),
    ([(10 - N, 3)], {"n": 7}),
    ([(10 - N, 10)], {"n": 0}),
    ([(9 - 3 * N, 3)], {"n": 2}),
    ([(N - 4, 3)], {"n": 7}),
    ([(N // 2 + M, 5), (8 - N, 1)], {"n": 7, "m": 2}),
]


@pytest.mark.parametrize(("extents", "expected"), SOLVED)
def test_sizes_are_solved_in_any_order(
    extents: list[tuple[Expr, int]], expected: dict[str, int]
) -> None:
    for order in permutations(extents):
        assert bound(*zip(*order, strict=True)) == expected


def no_solution(extents: Sequence[Expr], lengths: Sequence[int], k: int, size: str) -> Case:
    return Case(
        lambda: bound(extents, lengths),
        ShapeError,
        f"argument X{k} has shape ({lengths[k]},), which no {size} >= 0 gives.\n"
        f"  in: X{k} : float32 ({extents[k]},)\n"
        "  hint: pass an array of that form.",
    )


def disagreement(
    extents: Sequence[Expr], lengths: Sequence[int], k: int, made: str, **given: int
) -> Case:
    return Case(
        lambda: bound(extents, lengths, **given),
        ShapeError,
        f"argument X{k} has shape ({lengths[k]},), but {made}.\n"
        f"  in: X{k} : float32 ({extents[k]},)\n"
        "  hint: arrays that share a symbolic size must agree on it.",
    )


def undetermined(extents: Sequence[Expr], lengths: Sequence[int], size: str) -> Case:
    return Case(
        lambda: bound(extents, lengths),
        BindError,
        f"size {size} is not determined by the shapes of the arguments.\n"
        f"  hint: pass it as a keyword: f(..., {size}=8).",
    )


UNSOLVED = [
    no_solution([10 - N], [11], 0, "n"),
    no_solution([9 - 3 * N], [2], 0, "n"),
    no_solution([N + 4], [3], 0, "n"),
    no_solution([N + M, N + 1], [2, 4], 0, "m"),
    no_solution([N + M, 2 * N], [9, 3], 1, "n"),
    disagreement([10 - N], [3], 0, "n = 6 makes it (4,)", n=6),
    disagreement([10 - N, N + 1], [3, 9], 1, "n = 7 makes it (8,)"),
    undetermined([N + M], [7], "m"),
    undetermined([N + M, M + N + 1], [7, 8], "m"),
    undetermined([N * N], [9], "n"),
    undetermined([N // 2], [3], "n"),
    undetermined([N + N // 2], [9], "n"),
]


@pytest.mark.parametrize("case", UNSOLVED)
def test_sizes_that_do_not_follow_are_told(case: Case) -> None:
    check(case)


def test_sizes_that_shapes_leave_open_are_given() -> None:
    assert bound([N + M, L + M], [7, 9], n=3) == {"n": 3, "m": 4, "l": 5}
    assert bound([N * N], [9], n=3) == {"n": 3}


def test_results_share_no_memory() -> None:
    a = array(12)
    assert shares_memory(a[:6], a[5:])
    assert not shares_memory(a[:6], a[6:])
    check_overlap([("y", a[:6])], [("x", a[6:])])
    with pytest.raises(BindError, match="overlap"):
        check_overlap([("y", a[:6])], [("x", a[5:])])
    check_overlap([("y", a[:6]), ("z", a[6:])], [])
    with pytest.raises(BindError, match="z overlaps y"):
        check_overlap([("y", a[:6]), ("z", a[5:])], [])
    assert are_disjoint([0, 10], [10, 20], 1)
    assert not are_disjoint([0, 9], [10, 20], 1)
    assert layout_matches()


def test_elements_of_an_output_lie_apart() -> None:
    for strides in ((12, 4), (4, 8), (16, 4), (-12, 4)):
        room = array(64)[20:]
        check_output(X, 0, as_strided(room, (2, 3), strides), (2, 3))
    check_output(X, 0, as_strided(array(1), (0, 3), (0, 4)), (0, 3))


def test_memory_that_is_hard_to_decide_is_shared() -> None:
    """Whether any sums of multiples of the strides meet."""
    room = np.zeros(192163377, np.int8)  # never touched
    a = as_strided(room, (1049, 1049, 1049), (36674, 61119, 85569))
    b = as_strided(room[64023025:], (1049, 1049, 1), (12223, 12224, 1))
    with pytest.raises(np.exceptions.TooHardError):
        np.shares_memory(a, b, max_work=10_000)
    assert shares_memory(a, b)
