"""Extents, elements and bytes: as numbers, for given sizes, and as formulas."""

from __future__ import annotations

import pytest

import tensorad as ta
from tensorad.errors import ShapeError
from tensorad.ir.analysis.sizes import (
    ASSUMED_EXTENT,
    assumed_bytes,
    assumed_elements,
    bytes_of,
    bytes_text,
    elements_at,
    elements_formula,
    fixed_bytes,
    fixed_elements,
    size_value,
)
from tensorad.ir.expr import Expr, call, floordiv, int_const, mod, size_var
from tensorad.ir.tensor import Shape

N, M = size_var("n"), size_var("m")
SIZES: dict[Expr, int] = {N: 7, M: 3}
SHAPES: list[tuple[Shape, int | None, int]] = [
    ((), 1, 1),
    ((0, 5), 0, 0),
    ((4, 5), 20, 20),
    ((N, 5), None, 35),
    ((2, floordiv(N, int_const(2)), M), None, 18),
]


@pytest.mark.parametrize(("shape", "fixed", "at"), SHAPES)
def test_elements_of_a_shape(shape: Shape, fixed: int | None, at: int) -> None:
    assert fixed_elements(shape) == fixed
    assert elements_at(shape, SIZES) == at
    assert size_value(elements_formula(shape, 3), SIZES) == 3 * at


def test_symbolic_extents_count_as_assumed_or_as_told() -> None:
    assert assumed_elements((2, N, floordiv(N, int_const(2)))) == 2 * ASSUMED_EXTENT**2
    assert assumed_elements((2, N), unknown=0) == 0
    assert assumed_elements((2, 3), unknown=0) == 6


def test_bytes_follow_the_dtype() -> None:
    fixed = ta.placeholder((4, 5), name="X", dtype="float64")
    open_ = ta.placeholder((size_var("n"), 5), name="Y", dtype="int16")
    assert (fixed_bytes(fixed), assumed_bytes(fixed), bytes_of(fixed, {})) == (160, 160, 160)
    assert (fixed_bytes(open_), assumed_bytes(open_)) == (None, 10 * ASSUMED_EXTENT)
    assert bytes_of(open_, {size_var("n"): 7}) == 70


def test_a_negative_extent_is_named() -> None:
    n = size_var("n")
    t = ta.placeholder((n - 5,), name="X")
    with pytest.raises(ShapeError, match="X would have the shape"):
        bytes_of(t, {n: 2})


def test_bounds_of_loops_have_values() -> None:
    bound = call("minimum", mod(N, M), int_const(9))
    assert size_value(bound, SIZES) == 1
    assert size_value(floordiv(N, M), {N: 7, M: 0}) == 0  # nothing is run then


def test_bytes_as_text() -> None:
    assert [bytes_text(n) for n in (12, 1536, 3 << 30)] == ["12 B", "1.5 KiB", "3.0 GiB"]
