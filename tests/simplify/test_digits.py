"""Symbolic reshapes: axes split into digits, checked point by point at small sizes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from tensorad import te, topi
from tensorad.autodiff import vjp
from tensorad.counting import work
from tensorad.ir.expr import TRUE, Axis, Expr, Size, axis, logical_and, size_var
from tensorad.ir.tensor import Compute, Tensor
from tensorad.simplify.domain.mixed_radix import split_digits
from tensorad.simplify.zeros.eliminate import eliminate
from tests.support.oracles import check_solution

A, B, C = size_var("A"), size_var("B"), size_var("C")
Problem = tuple[list[Axis], list[Axis], Expr]


def _axes(**extents: object) -> list[Axis]:
    return [axis(name, 0, n) for name, n in extents.items()]  # type: ignore[arg-type]


def _flatten() -> Problem:
    x, v = _axes(a=A, b=B, c=C), _axes(k=A * (B * C))
    k = v[0]
    return x, v, logical_and(x[0] == k // (B * C), x[1] == k // C % B, x[2] == k % C)


def _unflatten() -> Problem:
    x, v = _axes(x=A * B * C), _axes(i=A, j=B, k=C)
    return x, v, x[0] == (v[0] * B + v[1]) * C + v[2]


def _merge() -> Problem:
    x, v = _axes(a=A, b=B, c=C), _axes(i=A * B, j=C)
    return x, v, logical_and(x[0] == v[0] // B, x[1] == v[0] % B, x[2] == v[1])


def _regroup() -> Problem:
    x, v = _axes(x=A * B, y=C), _axes(i=A, j=B * C)
    f = v[0] * (B * C) + v[1]
    return x, v, logical_and(x[0] == f // C, x[1] == f % C)


def _tile() -> Problem:
    x, v = _axes(x=A), _axes(i=A * 3)
    return x, v, x[0] == v[0] % A


def _repeat() -> Problem:
    x, v = _axes(x=A), _axes(i=A * B)
    return x, v, x[0] == v[0] // B


def _flip() -> Problem:
    x, v = _axes(x=A * B), _axes(i=A * B)
    return x, v, x[0] == A * B - 1 - v[0]


def _cropped() -> Problem:
    """Extents that are sums of sizes: (A + 2) x B flattened."""
    x, v = _axes(a=A + 2, b=B), _axes(k=(A + 2) * B)
    return x, v, logical_and(x[0] == v[0] // B, x[1] == v[0] % B)


def _fixed_radix() -> Problem:
    x, v = _axes(x=A * 4 * B), _axes(i=A, j=B, k=4)
    return x, v, x[0] == (v[0] * B + v[1]) * 4 + v[2]


def _transposed_columns() -> Problem:
    """Columns of B*C read through a transposition."""
    x, v = _axes(b=B, c=C), _axes(k=B * C, n=A)
    return x, v, logical_and(x[0] == v[0] % B, x[1] == v[0] // B)


def _other_order() -> Problem:
    """(A, B, C) as (B*C, A): the radices of both sides have nothing in common."""
    x, v = _axes(a=A, b=B, c=C), _axes(i=B * C, j=A)
    f = v[0] * A + v[1]
    return x, v, logical_and(x[0] == f // (B * C), x[1] == f // C % B, x[2] == f % C)


def _crossed() -> Problem:
    """(A, B, C) as (A*C, B): splitting A*C into A and C would lead nowhere."""
    x, v = _axes(a=A, b=B, c=C), _axes(i=A * C, j=B)
    f = v[0] * B + v[1]
    return x, v, logical_and(x[0] == f // (B * C), x[1] == f // C % B, x[2] == f % C)


def _roll() -> Problem:
    x, v = _axes(x=A), _axes(i=A)
    return x, v, x[0] == (v[0] + 3) % A


def _circular_window() -> Problem:
    x, v = _axes(x=A), _axes(i=A, k=3)
    return x, v, x[0] == (2 - v[0] + v[1] * 2) % A


CASES = {
    f.__name__[1:]: f
    for f in (_flatten, _unflatten, _merge, _regroup, _tile, _repeat, _flip, _cropped,
              _fixed_radix, _transposed_columns, _other_order, _crossed, _roll,
              _circular_window)
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_pieces_are_the_domain_and_visit_nothing_else(name: str) -> None:
    outer, inner, condition = CASES[name]()
    solution = eliminate(outer, inner, condition)
    assert solution.exact
    for sizes in product((0, 1, 2, 3), (1, 2, 3), (1, 4)):
        given: dict[Expr, int] = dict(zip((A, B, C), sizes, strict=True))
        visited, wanted = check_solution(outer, inner, condition, solution, given)
        assert visited <= wanted


@pytest.mark.parametrize("name", ["flatten", "unflatten", "merge", "regroup", "flip", "cropped"])
def test_bijections_leave_no_loop_and_no_guard(name: str) -> None:
    (piece,) = eliminate(*CASES[name]()).pieces
    assert piece.axes == ()
    assert piece.guard is piece.residual is TRUE


def test_flatten_reads_the_row_major_position() -> None:
    outer, inner, condition = _flatten()
    solution = eliminate(outer, inner, condition)
    assert solution.method == "digits"
    assert str(solution.pieces[0].values[inner[0]]) == "B*C*a + C*b + c"


def test_problems_without_sizes_are_left_to_isl() -> None:
    i, x = axis("i", 0, 12), axis("x", 0, 3)
    assert split_digits([x], [i], [x == i // 4]) is None


def test_remainders_of_two_axes_wrap_in_no_known_way() -> None:
    outer, inner = _axes(x=A), _axes(i=A, j=A)
    condition = logical_and(outer[0] == (inner[0] + inner[1]) % A, inner[0] <= inner[1])
    solution = eliminate(outer, inner, condition)
    assert not solution.exact
    for n in (1, 2, 5):
        check_solution(outer, inner, condition, solution, {A: n})


def _placeholder(*shape: Size) -> Tensor:
    return te.placeholder(shape, name="X")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shape", [(A * B, C), (A, B * C), (A * B * C,), (B * C, A), (A * C, B)])
def test_gradient_of_a_symbolic_reshape_is_a_read(shape: tuple[Expr, ...]) -> None:
    x = _placeholder(A, B, C)
    y = topi.reshape(x, shape)
    (dx,) = vjp(y, [x], te.placeholder(y.shape, name="H"))
    if isinstance(dx.op, Compute):
        assert work(dx, {"A": 2, "B": 3, "C": 4}).iterations == 24
    else:
        pytest.fail(f"not gathered:\n{dx}")


def test_gradient_through_a_symbolic_flatten_and_a_matrix() -> None:
    x = _placeholder(A, B, C)
    flat = topi.flatten(x)
    w = te.placeholder((5, flat.shape[1]), name="W")
    y = topi.nn.dense(flat, w)
    gradients = vjp(y, [x, w], te.placeholder(y.shape, name="H"))
    sizes = {"A": 2, "B": 3, "C": 4}
    forward = 2 * 3 * 4  # the flattened copy, which dW reads
    visited = work(gradients, sizes).iterations
    assert isinstance(visited, int)
    assert visited <= forward + 24 + 2 * 5 * 12 * 2


def _carries() -> Problem:
    x, v = _axes(x=A, y=B * C), _axes(i=A, j=B)
    return x, v, x[0] == (v[0] * B + v[1] + 1) // B


def _borrows() -> Problem:
    x, v = _axes(x=A, y=B * C), _axes(i=A, j=B)
    return x, v, x[0] == (v[0] * B - v[1]) // B


def _by_a_size_that_may_be_0() -> Problem:
    x, v = _axes(x=A * B + 2), _axes(i=A * B + 2)
    return x, v, x[0] == v[0] * A // A


def _bounds_another() -> Problem:
    x, k = _axes(x=A, y=B), axis("k", 0, A * B)
    return x, [k, axis("m", 0, k)], logical_and(x[0] == k // B, x[1] == k % B)


def _from_1_on() -> Problem:
    x, k = _axes(x=A, y=B), axis("k", 1, A * B)
    return x, [k], logical_and(x[0] == k // B, x[1] == k % B)


@pytest.mark.parametrize(
    "make", [_carries, _borrows, _by_a_size_that_may_be_0, _bounds_another, _from_1_on]
)
def test_what_is_no_number_of_digits_keeps_its_points(make: Callable[[], Problem]) -> None:
    outer, inner, condition = make()
    solution = eliminate(outer, inner, condition)
    for sizes in product((0, 1, 2), (1, 2, 3), (1, 3)):
        given: dict[Expr, int] = dict(zip((A, B, C), sizes, strict=True))
        check_solution(outer, inner, condition, solution, given)
