"""States of a loop that are stored in rows, and where the next one is stored best.

The reverse of n steps from a state, with room for s states, this one among them, computes fewest
steps again if it stores the next state where `split` tells (Griewank and Walther 2000, Algorithm
799, section 3): r n - C(s + r, r - 1) steps, with the least r for which C(s + r, s) >= n.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb

from tensorad.ir.arrays.elementwise import compute_axes
from tensorad.ir.combiner import max_combiner, min_combiner, set_combiner, sum_combiner
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import Expr, axis, int_const, read, reduce_expr, select
from tensorad.ir.nominal import Combiner
from tensorad.ir.tensor import Compute, Scatter, Tensor, Update, outputs


def split(steps: int, rows: int) -> int:
    """After how many of the steps the next state is stored.

    Requires: steps > 1 and rows > 0.
    """
    if rows == 1:
        return steps - 1
    r = 0
    while comb(rows + r, rows) < steps:
        r += 1
    return min(comb(rows + r - 1, rows), steps - comb(rows + r - 2, rows - 1))


def first_stored(steps: int, rows: int) -> list[int]:
    """The numbers of the steps before which a loop stores its state, so that its reverse computes
    fewest steps again."""
    found = [0]
    while len(found) < rows and steps - found[-1] > 1:
        found.append(found[-1] + split(steps - found[-1], rows + 1 - len(found)))
    return found


def scalar(name: str, value: Expr) -> Tensor:
    """A 0-d tensor."""
    return outputs(Compute(name, (), (value,), ""))[0]


def row(rows: Tensor, at: Tensor, name: str) -> Tensor:
    """One of the rows."""
    axes = compute_axes(rows.shape[1:])
    return outputs(Compute(name, axes, (read(rows, (read(at, ()), *axes)),), ""))[0]


def with_row(rows: Tensor, at: Tensor, value: Tensor) -> Tensor:
    """The rows, one of them replaced."""
    axes = compute_axes(value.shape)
    update = Update((read(at, ()), *axes), read(value, axes))
    combiner = set_combiner(rows.dtype)
    op = Scatter(rows.name, rows.shape, rows.dtype, axes, (update,), combiner, rows, "")
    return outputs(op)[0]


def first_row(numbers: Tensor, rows: int, wanted: Callable[[Expr], Expr]) -> Tensor:
    """The first of the rows whose number is as wanted, or the one that may be written over."""
    return _fold(
        "row",
        min_combiner(INT64),
        rows,
        lambda j: select(wanted(read(numbers, (j,))), j, int_const(rows)),
    )


def last_number(numbers: Tensor, rows: int) -> Tensor:
    """The largest number of a row."""
    return _fold("number", max_combiner(INT64), rows, lambda j: read(numbers, (j,)))


def count_free(numbers: Tensor, rows: int) -> Tensor:
    """How many rows have no state."""

    def one(j: Expr) -> Expr:
        return select(read(numbers, (j,)) < 0, int_const(1), int_const(0))

    return _fold("free", sum_combiner(INT64), rows, one)


def _fold(name: str, combiner: Combiner, rows: int, of: Callable[[Expr], Expr]) -> Tensor:
    j = axis("j", 0, rows)
    return scalar(name, reduce_expr(combiner, (of(j),), (j,)))
