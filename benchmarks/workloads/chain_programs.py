"""Chains of equal steps as a user writes them, by a Python loop: their values and inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tensorad import te, topi
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor

Chain = tuple[Tensor, list[Tensor]]
"""(a number, its inputs)."""


def hidden_markov(steps: int, states: int = 16) -> Chain:
    """The forward algorithm in logarithms: three formulas for each step."""
    a = te.placeholder((states, states), name="A")
    b, at = te.placeholder((states,), name="B"), te.placeholder((states,), name="P")
    t = at
    for _ in range(steps):
        k, m = te.reduce_axis(states, name="k"), te.reduce_axis(states, name="m")
        top = te.compute((states,), lambda j, t=t, k=k: te.max(t[k] + a[k, j], axis=k))
        total = te.compute(
            (states,),
            lambda j, t=t, m=m, top=top: te.sum(te.exp(t[m] + a[m, j] - top[j]), axis=m),
        )
        t = te.compute((states,), lambda j, top=top, total=total: top[j] + te.log(total[j]) + b[j])
    k = te.reduce_axis(states, name="k")
    return te.compute((), lambda: te.sum(te.exp(t[k]), axis=k), name="Y"), [a, b, at]


def recurrent(steps: int, width: int = 32) -> Chain:
    """A network of one layer, its weights the same in each step."""
    x, w = te.placeholder((width, width), name="X"), te.placeholder((width, width), name="W")
    t = x
    for _ in range(steps):
        k = te.reduce_axis(width, name="k")
        s = te.compute((width, width), lambda i, j, t=t, k=k: te.sum(t[i, k] * w[j, k], axis=k))
        t = te.compute((width, width), lambda i, j, s=s: te.tanh(s[i, j]))
    return topi.sum(t), [x, w]


def wave(steps: int, width: int = 32) -> Chain:
    """The wave equation in two dimensions: each field of the two before it."""
    first, c = te.placeholder((width, width), name="U"), te.placeholder((width, width), name="C")
    a, b = first, first

    def step(i: Expr, j: Expr, a: Tensor, b: Tensor) -> Expr:
        def at(x: Expr, y: Expr) -> Expr:
            inside = te.all_of(x >= 0, x < width, y >= 0, y < width)
            value: Expr = te.select(inside, b[x, y], 0.0)
            return value

        around = at(i - 1, j) + at(i + 1, j) + at(i, j - 1) + at(i, j + 1) - 4.0 * b[i, j]
        return 2.0 * b[i, j] - a[i, j] + c[i, j] * around

    for _ in range(steps):
        shape = (width, width)
        a, b = b, te.compute(shape, lambda i, j, a=a, b=b: step(i, j, a, b))
    return topi.sum(b * b), [first, c]


def kalman(steps: int, states: int = 4) -> Chain:
    """The likelihood of observations under a linear model: ten formulas for each step, one of
    which reads the step's own observation."""
    a, q = (te.placeholder((states, states), name=n) for n in "AQ")
    h, z = te.placeholder((states,), name="H"), te.placeholder((steps,), name="Z")
    x, p = te.placeholder((states,), name="X"), te.placeholder((states, states), name="P")
    inputs = [a, q, h, z, x, p]

    def over(f: Callable[[Expr], Expr]) -> Expr:
        k = te.reduce_axis(states, name="k")
        total: Expr = te.sum(f(k), axis=k)
        return total

    def step(x: Tensor, p: Tensor, t: int) -> tuple[Tensor, Tensor, Tensor]:
        ahead = te.compute((states,), lambda i: over(lambda k: a[i, k] * x[k]))
        half = te.compute(p.shape, lambda i, j: over(lambda k: a[i, k] * p[k, j]))
        wide = te.compute(p.shape, lambda i, j: over(lambda k: half[i, k] * a[j, k]) + q[i, j])
        seen = te.compute((states,), lambda i: over(lambda k: wide[i, k] * h[k]))
        spread = te.compute((), lambda: over(lambda k: h[k] * seen[k]) + 0.5)
        error = te.compute((), lambda: z[t] - over(lambda k: h[k] * ahead[k]))
        x = te.compute((states,), lambda i: ahead[i] + seen[i] * error() / spread())
        p = te.compute(p.shape, lambda i, j: wide[i, j] - seen[i] * seen[j] / spread())
        return x, p, te.compute((), lambda: te.log(spread()) + error() * error() / spread())

    total = te.compute((), lambda: te.const(0.0), name="Y")
    for t in range(steps):
        x, p, more = step(x, p, t)
        total = te.compute((), lambda s=total, m=more: s() + m(), name="Y")
    return total, inputs


PROGRAMS: Final[dict[str, Callable[..., Chain]]] = {
    "hidden Markov": hidden_markov,
    "recurrent": recurrent,
    "wave": wave,
    "Kalman": kalman,
}
