"""Whole numbers wait in the narrowest bytes that hold each of them, and not in narrower ones."""

from __future__ import annotations

from typing import Any

import pytest

from tensorad import te
from tensorad.codegen.caches.narrow_scratch import with_narrow_scratch
from tensorad.codegen.loops.ir import Assign, Fold, For, Kernel, Store
from tensorad.ir.combiner import arg_combiner
from tensorad.ir.dtypes import FLOAT64, INT64
from tensorad.ir.expr import Expr, axis, const, int_const, param, read, select
from tests.support.loops.small_loops import computed, kernel_of

N = 5
I, J, K = axis("i", 0, N), axis("j", 0, N), axis("k", 0, N)  # noqa: E741
SCRATCH = te.placeholder((N,), "int64", name="S")
Y = te.placeholder((N,), "float64", name="Y")


def kernel(*fill: Any, use: Any = None) -> Kernel:
    """What is filled in goes through scratch to the result."""
    element = read(SCRATCH, (J,))
    shown = element.astype("float64") if use is None else use(element)
    return kernel_of([*fill, For(J, (Store((Y,), (J,), (shown,)),))], [Y], [SCRATCH])


def stored(value: Expr, at: Expr = I, loop: Any = I) -> For:
    return For(loop, (Store((SCRATCH,), (at,), (value,)),))


def check(k: Kernel, dtype: str) -> None:
    made = with_narrow_scratch(k)
    assert [str(t.dtype) for t in made.scratch] == [dtype]
    (got,), (want,) = computed(made, {}), computed(k, {})
    assert got.tolist() == want.tolist()


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [
        (0, 127, "int8"),
        (0, 128, "int16"),
        (-128, 0, "int8"),
        (-129, 0, "int16"),
        (0, 32767, "int16"),
        (0, 32768, "int32"),
        (-32769, 0, "int32"),
        (0, (1 << 31) - 1, "int32"),
        (0, 1 << 31, "int64"),
    ],
)
def test_ends_of_ranges(low: int, high: int, dtype: str) -> None:
    check(kernel(stored(select(I < 2, int_const(low), int_const(high)))), dtype)
    check(kernel(stored(select(I < 2, int_const(high), int_const(low)))), dtype)


@pytest.mark.parametrize("values", [(3, 300), (300, 3)])
def test_all_that_is_stored_counts(values: tuple[int, int]) -> None:
    one, other = map(int_const, values)
    check(kernel(stored(one), stored(other, int_const(0), K)), "int16")
    p = param("p", INT64)
    assigned = For(I, (Assign((p,), (one,)), Assign((p,), (other,)), Store((SCRATCH,), (I,), (p,))))
    check(kernel(assigned), "int16")


@pytest.mark.parametrize("values", [(3, 300), (300, 3)])
def test_what_a_fold_starts_from_counts(values: tuple[int, int]) -> None:
    start, element = map(int_const, values)
    best, p = param("best", FLOAT64), param("p", INT64)
    c = arg_combiner("maximum", FLOAT64)
    sources = (const(1.0, FLOAT64), element)
    folded = (
        Assign((best, p), (const(2.0, FLOAT64), start)),
        Fold((best, p), c, sources),
        Store((SCRATCH,), (I,), (p,)),
    )
    check(kernel(For(I, folded)), "int16")


@pytest.mark.parametrize("limit", [2, 258, -254, 300])
@pytest.mark.parametrize("swapped", [False, True])
def test_comparisons_keep_their_sides_and_constants(limit: int, swapped: bool) -> None:
    number = const(limit, INT64)

    def use(e: Expr) -> Expr:
        holds = number < e if swapped else e < number
        return te.select(holds, 1.0, 0.0).astype("float64")

    check(kernel(stored(I * 1), use=use), "int8")
