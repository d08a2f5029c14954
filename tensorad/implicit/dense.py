"""Square systems of equations by LU factors with partial pivoting, written in the language.

Source: Golub and Van Loan, Matrix Computations, sections 3.1 and 3.4 (outer products).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tensorad import te, topi
from tensorad.implicit.calls import ruled_call
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import (
    CallRule,
    Dim,
    FunctionCall,
    MaybeTensors,
    Shape,
    SoFar,
    Tensor,
    dim_expr,
    outputs,
)
from tensorad.program.loops import for_loop

Factors = tuple[Tensor, Tensor]
"""Both factors in one matrix, L below the diagonal and U above and on it; and the order of rows."""


def lu(a: Tensor) -> Factors:
    """The factors of a square matrix, `a[order] = L U`; infinities or NaN where it is singular.

    No derivative flows through them: `solve` has that of the solution.
    """
    rule = CallRule(_no_adjoint, _no_tangents, takes_batches=True)
    factors, order = ruled_call("lu", ["a"], lambda p: _factorised(p[0]), (a,), rule)
    return factors, order


def _no_adjoint(op: FunctionCall, heads: MaybeTensors, so_far: SoFar) -> MaybeTensors:
    return [None]


def _no_tangents(op: FunctionCall, tangents: MaybeTensors) -> MaybeTensors:
    return [None, None]


def _factorised(a: Tensor) -> Factors:
    n = a.shape[0]
    order: Tensor = te.compute((n,), lambda i: i, name="order")

    def step(k: Expr, carry: Factors) -> Factors:
        m, order = carry

        def largest() -> Expr:
            i = te.reduce_axis(n, name="i")
            return te.argmax(te.abs(m[i, k]), axis=i, where=i >= k)

        pivot: Tensor = te.compute((), largest, name="pivot")

        def source(i: Expr) -> Any:
            return te.select(i == k, pivot(), te.select(i == pivot(), k, i))

        quotients: Tensor = te.compute(
            (n,),
            lambda i: te.select(i > k, m[source(i), k] / m[pivot(), k], 0.0),
            name="quotients",
        )

        def element(i: Expr, j: Expr) -> Any:
            own = m[source(i), j]
            below = te.select(j == k, quotients[i], own - quotients[i] * m[pivot(), j])
            return te.select((i > k) & (j >= k), below, own)

        factors: Tensor = te.compute((n, n), element, name="factors")
        rows: Tensor = te.compute((n,), lambda i: order[source(i)], name="order")
        return factors, rows

    made: Factors = for_loop(0, n, step, (a, order))
    return made


def solve(a: Tensor, factors: Factors, b: Tensor, *, transposed: bool = False) -> Tensor:
    """x with a x = b, or with the transpose of a.

    Args:
        a: (n, n); `factors`: `lu(a)`.
        b: (*batch, n, m), of the dtype of a.
    Returns:
        shape (*batch, n, m).
    """
    *batch, n, m = b.shape
    flat = b
    if batch:
        columns = topi.transpose(b, (len(batch), *range(len(batch)), len(batch) + 1))
        flat = topi.reshape(columns, (n, _product((*batch, m))))
    rule = _Solution(transposed)
    (x,) = ruled_call(
        "solve_transposed" if transposed else "solve",
        ["a", "factors", "order", "b"],
        lambda p: _substituted(p[1], p[2], p[3], transposed),
        (a, *factors, flat),
        CallRule(rule.adjoints, rule.tangents, takes_batches=True),
    )
    if batch:
        columns = topi.reshape(x, (n, *batch, m))
        x = topi.transpose(columns, (*range(1, len(batch) + 1), 0, len(batch) + 1))
    return x


def _product(extents: Shape) -> Dim:
    return topi.transform.product(extents)


def _substituted(m: Tensor, order: Tensor, b: Tensor, transposed: bool) -> Tensor:
    """Both triangular systems, one column of the matrix after the other."""
    n, _ = b.shape
    last = dim_expr(n) - 1

    def at(i: Any, j: Any) -> Any:
        return m[j, i] if transposed else m[i, j]

    def down(k: Expr, y: Tensor) -> Tensor:
        def element(i: Expr, c: Expr) -> Any:
            pivot = y[k, c] / m[k, k] if transposed else y[k, c]
            own = te.select(i == k, pivot, y[i, c]) if transposed else y[i, c]
            return te.select(i > k, y[i, c] - at(i, k) * pivot, own)

        made: Tensor = te.compute(b.shape, element, name="y")
        return made

    def up(t: Expr, x: Tensor) -> Tensor:
        k = last - t

        def element(i: Expr, c: Expr) -> Any:
            pivot = x[k, c] if transposed else x[k, c] / m[k, k]
            own = x[i, c] if transposed else te.select(i == k, pivot, x[i, c])
            return te.select(i < k, x[i, c] - at(i, k) * pivot, own)

        made: Tensor = te.compute(b.shape, element, name="x")
        return made

    if not transposed:
        b = te.compute(b.shape, lambda i, c: b[order[i], c], name="y")
    x: Tensor = for_loop(0, n, up, for_loop(0, n, down, b))
    if transposed:
        x = te.scatter(b.shape, b.shape, lambda i, c: ((order[i], c), x[i, c]), name="x")
    return x


@dataclass(frozen=True)
class _Solution:
    """x of a x = b: a x' = b' - a' x, and for the head h of x, w with a^T w = h: that of b is w,
    that of a is -w x^T.

    Source: Giles, An extended collection of matrix derivative results (2008), section 2.3.
    """

    transposed: bool

    def adjoints(self, op: FunctionCall, heads: MaybeTensors, so_far: SoFar) -> MaybeTensors:
        (head,) = heads
        if head is None:
            return [None] * 4
        a, factors, order, _ = op.operands
        (x,) = outputs(op)
        w = solve(a, (factors, order), head, transposed=not self.transposed)
        n, m = x.shape

        def element(*index: Any) -> Expr:
            *batch, i, j = index
            c = te.reduce_axis(m, name="c")
            pair = (x[i, c], w[(*batch, j, c)]) if self.transposed else (x[j, c], w[(*batch, i, c)])
            return te.sum(-pair[0] * pair[1], axis=c)

        da: Tensor = te.compute((*w.shape[:-2], n, n), element, name="da")
        return [da, None, None, w]

    def tangents(self, op: FunctionCall, tangents: MaybeTensors) -> MaybeTensors:
        a, factors, order, _ = op.operands
        da, _, _, db = tangents
        (x,) = outputs(op)
        if da is not None:
            db = self._right_hand_side(x, da, db)
        if db is None:
            return [None]
        return [solve(a, (factors, order), db, transposed=self.transposed)]

    def _right_hand_side(self, x: Tensor, da: Tensor, db: Tensor | None) -> Tensor:
        """b' - a' x."""
        n, m = x.shape

        def element(*index: Any) -> Expr:
            *batch, i, c = index
            j = te.reduce_axis(n, name="j")
            entry = da[(*batch, j, i)] if self.transposed else da[(*batch, i, j)]
            moved = te.sum(entry * x[j, c], axis=j)
            return -moved if db is None else db[index] - moved

        made: Tensor = te.compute((*da.shape[:-2], n, m), element, name="db")
        return made
