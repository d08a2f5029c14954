"""Solvers of equations for one vector, as loops of the language.

Sources: Dennis and Schnabel, Numerical Methods for Unconstrained Optimization (1983), section 6.3
(backtracking); Marquardt (1963).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tensorad import te
from tensorad.autodiff import jacobian, vjp
from tensorad.implicit.calls import copies
from tensorad.implicit.dense import lu, solve
from tensorad.implicit.krylov import Limits, known_if
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor
from tensorad.program.loops import while_loop

Vectors = Callable[[Tensor], Tensor]
_HALVINGS: Final = 40
"""Of a step, before it counts as one that leads nowhere."""
_ENOUGH: Final = 1e-4
"""The part of the decrease that a linear model promises which is asked for."""


def largest(x: Tensor) -> Tensor:
    """The largest absolute value; NaN if there is one."""

    def body() -> Expr:
        i = te.reduce_axis(x.shape[0], name="i")
        return te.max(te.abs(x[i]), axis=i)

    made: Tensor = te.compute((), body, name="largest")
    return made


def _is_small(d: Tensor, x: Tensor, tolerance: float) -> Tensor:
    return largest(d) <= tolerance * (largest(x) + 1.0)


def _solved(a: Tensor, b: Tensor) -> Tensor:
    n = b.shape[0]
    column: Tensor = te.compute((n, 1), lambda i, c: b[i], name="b")
    x = solve(a, lu(a), column)
    made: Tensor = te.compute((n,), lambda i: x[i, 0], name="d")
    return made


def newton(function: Vectors, x0: Tensor, limits: Limits) -> Tensor:
    """x with function(x) = 0: Newton's steps, halved until the largest residual decreases.

    Until a whole step is at most the tolerance times 1 + |x|; NaN where none is.
    """

    def step(carry: Any) -> Any:
        x, _, _, count = carry
        (x,) = copies([x])
        r = function(x)
        d = -_solved(jacobian(r, x), r)
        small = _is_small(d, x, limits.tolerance)
        scale, moves = _halved(function, x, r, d, small)
        return x + scale * d, small, moves, count + 1

    def goes_on(carry: Any) -> Any:
        _, small, moves, count = carry
        return moves & ~small & (count < limits.iterations)

    no, yes = _flag(False), _flag(True)
    x, small, _, _ = while_loop(goes_on, step, (x0, no, yes, 0))
    return known_if(small, x)


def _flag(value: bool) -> Tensor:
    made: Tensor = te.compute((), lambda: te.const(value, "bool"), name="flag")
    return made


def _halved(
    function: Vectors, x: Tensor, r: Tensor, d: Tensor, small: Tensor
) -> tuple[Tensor, Tensor]:
    """By what a step is shortened, and whether it leads anywhere; a small one is taken whole."""
    before = largest(r)

    def improves(scale: Tensor) -> Tensor:
        after = largest(function(x + scale * d))
        return small | (after <= before * (1.0 - _ENOUGH * scale))

    def goes_on(carry: Any) -> Any:
        _, good, count = carry
        return ~good & (count < _HALVINGS)

    def shorter(carry: Any) -> Any:
        scale, _, count = carry
        return scale * 0.5, improves(scale * 0.5), count + 1

    one: Tensor = te.compute((), lambda: te.const(1.0, x.dtype), name="scale")
    scale, good, _ = while_loop(goes_on, shorter, (one, improves(one), 0))
    return scale, good


def repeated(function: Vectors, x0: Tensor, limits: Limits) -> Tensor:
    """x with function(x) = x: x, function(x), function(function(x)), ...

    Until a step is at most the tolerance times 1 + |x|; NaN where none is.
    """

    def step(carry: Any) -> Any:
        x, _, _, count = carry
        after = function(x)
        moved = largest(after - x)
        # of a NaN neither comparison holds
        far = moved > limits.tolerance * (largest(after) + 1.0)
        return after, far, _is_small(after - x, after, limits.tolerance), count + 1

    def goes_on(carry: Any) -> Any:
        return carry[1] & (carry[3] < limits.iterations)

    x, _, near, _ = while_loop(goes_on, step, (x0, _flag(True), _flag(False), 0))
    return known_if(near, x)


def damped_newton(function: Vectors, x0: Tensor, limits: Limits) -> Tensor:
    """x at which the 0-d function(x) is least: Newton's steps, towards the negative gradient where
    the function does not decrease.

    Until a step without damping is at most the tolerance times 1 + |x|; NaN where none is.
    """
    n = x0.shape[0]

    def step(carry: Any) -> Any:
        x, damping, _, count = carry
        (x,) = copies([x])
        y = function(x)
        (g,) = vjp(y, [x])
        h = jacobian(g, x)
        scale = largest(te.compute((n,), lambda i: h[i, i], name="diagonal"))
        shifted: Tensor = te.compute(
            (n, n), lambda i, j: h[i, j] + te.select(i == j, damping(), 0.0), name="shifted"
        )
        d = -_solved(shifted, g)
        small = (damping <= 0.0) & _is_small(d, x, limits.tolerance)
        good = small | (function(x + d) < y)
        moved: Tensor = te.compute((n,), lambda i: te.select(good(), x[i] + d[i], x[i]), name="x")
        return moved, _next_damping(good, damping, scale), small, count + 1

    def goes_on(carry: Any) -> Any:
        _, _, small, count = carry
        return ~small & (count < limits.iterations)

    none: Tensor = te.compute((), lambda: te.const(0.0, x0.dtype), name="damping")
    x, _, small, _ = while_loop(goes_on, step, (x0, none, _flag(False), 0))
    return known_if(small, x)


def _next_damping(good: Tensor, damping: Tensor, scale: Tensor) -> Tensor:
    """A tenth after a step that was good, and in the end 0; ten times as much after another."""

    def body() -> Any:
        least = scale() * 1e-3
        less = te.select(damping() <= least, 0.0, damping() * 0.1)
        more = te.maximum(damping() * 10.0, te.select(scale() > 0.0, least, 1.0))
        return te.select(good(), less, more)

    made: Tensor = te.compute((), body, name="damping")
    return made
