"""Systems of equations of which only products with the matrix are known.

Sources: Hestenes and Stiefel (1952); Saad and Schultz, GMRES (1986), restarted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tensorad import te
from tensorad.implicit.dense import lu, solve
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Dim, Tensor
from tensorad.program.loops import for_loop, while_loop

Product = Callable[[Tensor], Tensor]
"""(n,) -> (n,)"""
LARGEST_BASIS: Final = 20
"""Vectors that GMRES orthogonalises before it begins anew from what it has."""


@dataclass(frozen=True)
class Limits:
    """When a solver stops.

    Attributes:
        tolerance: relative; `iterations`: the most of them.
    """

    tolerance: float
    iterations: int


def dot(a: Tensor, b: Tensor) -> Tensor:
    """The sum of products."""

    def body() -> Expr:
        i = te.reduce_axis(a.shape[0], name="i")
        return te.sum(a[i] * b[i], axis=i)

    made: Tensor = te.compute((), body, name="dot")
    return made


def known_if(reached: Tensor, x: Tensor) -> Tensor:
    """x, or NaN everywhere where a tolerance was not reached."""
    made: Tensor = te.compute(
        x.shape, lambda i: te.select(reached(), x[i], te.const(float("nan"), x.dtype)), name=x.name
    )
    return made


def conjugate_gradients(product: Product, b: Tensor, limits: Limits) -> Tensor:
    """x with `product(x)` = b, of a symmetric positive definite matrix.

    Until the residual's norm is at most the tolerance times that of b; NaN where it is not.
    """
    bound = dot(b, b) * limits.tolerance**2

    def step(carry: Any) -> Any:
        x, r, p, rr, count = carry
        q = product(p)
        alpha = rr / dot(p, q)
        x, r = x + alpha * p, r - alpha * q
        new = dot(r, r)
        return x, r, r + (new / rr) * p, new, count + 1

    def goes_on(carry: Any) -> Any:
        return (carry[3] > bound) & (carry[4] < limits.iterations)

    x, _, _, rr, _ = while_loop(goes_on, step, (b * 0.0, b, b, dot(b, b), 0))
    return known_if(rr <= bound, x)


def gmres(product: Product, b: Tensor, limits: Limits) -> Tensor:
    """x with `product(x)` = b, of any regular matrix.

    Until the residual's norm is at most the tolerance times that of b; NaN where it is not. An
    iteration builds one basis.
    """
    n = b.shape[0]
    size = min(n, LARGEST_BASIS) if isinstance(n, int) else LARGEST_BASIS
    bound = dot(b, b) * limits.tolerance**2

    def step(carry: Any) -> Any:
        x, r, rr, count = carry
        x = x + _correction(product, r, te.compute((), lambda: te.sqrt(rr())), max(size, 1))
        r = b - product(x)
        return x, r, dot(r, r), count + 1

    def goes_on(carry: Any) -> Any:
        return (carry[2] > bound) & (carry[3] < limits.iterations)

    x, _, rr, _ = while_loop(goes_on, step, (b * 0.0, b, dot(b, b), 0))
    return known_if(rr <= bound, x)


def _correction(product: Product, r: Tensor, norm: Tensor, size: int) -> Tensor:
    """What of the space of r, A r, ..., makes the residual r least."""
    n = r.shape[0]
    first: Tensor = te.compute(
        (size + 1, n), lambda k, i: te.select(k == 0, r[i] / norm(), 0.0), name="basis"
    )
    zero: Tensor = te.compute(
        (size + 1, size), lambda i, j: te.const(0.0, r.dtype), name="hessenberg"
    )

    def extended(j: Expr, carry: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        basis, h = carry
        w, column = _orthogonalised(product(_row(basis, j)), basis, size)
        w, more = _orthogonalised(w, basis, size)  # once is not enough (Giraud et al. 2005)
        length: Tensor = te.compute((), lambda: te.sqrt(dot(w, w)()), name="length")
        whole = column + more
        scale = dot(whole, whole)

        def is_zero() -> Any:
            """What is left is rounding errors: the space is complete."""
            small = _epsilon(r) ** 2 * 100.0
            return length() * length() <= small * scale()

        next_basis: Tensor = te.compute(
            (size + 1, n),
            lambda k, i: te.select(
                k == j + 1, te.select(is_zero(), 0.0, w[i] / length()), basis[k, i]
            ),
            name="basis",
        )
        next_h: Tensor = te.compute(
            (size + 1, size),
            lambda i, c: te.select(
                c == j,
                te.select(i == j + 1, te.select(is_zero(), 0.0, length()), whole[i]),
                h[i, c],
            ),
            name="hessenberg",
        )
        return next_basis, next_h

    basis, h = for_loop(0, size, extended, (first, zero))
    y = _least_squares(h, norm, size)
    return _combined(basis, y, size, n)


def _epsilon(t: Tensor) -> float:
    return 2.0**-52 if t.dtype.bits == 64 else 2.0**-23


def _row(basis: Tensor, j: Expr) -> Tensor:
    made: Tensor = te.compute((basis.shape[1],), lambda i: basis[j, i], name="v")
    return made


def _orthogonalised(w: Tensor, basis: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """w without its parts along the basis, and these."""
    n = w.shape[0]

    def along(k: Expr) -> Expr:
        i = te.reduce_axis(n, name="i")
        return te.sum(basis[k, i] * w[i], axis=i)

    parts: Tensor = te.compute((size + 1,), along, name="along")

    def rest(i: Expr) -> Expr:
        k = te.reduce_axis(size + 1, name="k")
        return w[i] - te.sum(basis[k, i] * parts[k], axis=k)

    made: Tensor = te.compute((n,), rest, name="w")
    return made, parts


def _least_squares(h: Tensor, norm: Tensor, size: int) -> Tensor:
    """y with |norm e_0 - h y| least, 0 where a column of h is 0: by the normal equations, whose
    errors the next basis corrects."""

    def entry(i: Expr, j: Expr) -> Any:
        k = te.reduce_axis(size + 1, name="k")
        total = te.sum(h[k, i] * h[k, j], axis=k)
        return te.select((i == j) & (total == 0.0), 1.0, total)

    normal: Tensor = te.compute((size, size), entry, name="normal")
    side: Tensor = te.compute((size, 1), lambda i, c: h[0, i] * norm(), name="side")
    return solve(normal, lu(normal), side)


def _combined(basis: Tensor, y: Tensor, size: int, n: Dim) -> Tensor:
    def element(i: Expr) -> Expr:
        k = te.reduce_axis(size, name="k")
        return te.sum(basis[k, i] * y[k, 0], axis=k)

    made: Tensor = te.compute((n,), element, name="correction")
    return made
