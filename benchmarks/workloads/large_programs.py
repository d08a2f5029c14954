"""A program of many functions inside of each other, and all that is done with programs."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, Final

import numpy as np

import tensorad as ta
from tensorad import topi
from tensorad.ir.analysis.blocks import inner_ops, ops_between
from tensorad.ir.reference.verify import verify
from tensorad.ir.visit import op_expressions, postorder
from tensorad.program.traces import Program
from tensorad.simplify.control.passes import simplified

Function = Callable[..., Any]
X: Final = np.linspace(-1.0, 1.0, 4)
W: Final = np.eye(4) * 0.9
XS: Final = np.stack([X, -X])


def layer(x: Any, w: Any, rounds: int = 6) -> Any:
    """4 operations on elements in each round, and a product with a matrix."""
    for _ in range(rounds):
        x = ta.sin(x) * 1.01
        x = ta.tanh(x + 0.5)
    return topi.matmul(w, x)


def closures(n: int, rounds: int = 6) -> Function:
    """n functions, each inside of the one before."""

    def whole(x: Any, w: Any) -> Any:
        def inner(depth: int) -> Function:
            def f(v: Any) -> Any:
                made = layer(v, w, rounds)
                return inner(depth - 1)(made) if depth else made

            return f

        return inner(n - 1)(x).sum()

    return whole


def traced(f: Function) -> Program:
    program: Program = ta.function(f).trace(X, W)
    return program


TRANSFORMS: Final[dict[str, Callable[[Function], object]]] = {
    "trace": traced,
    "verify": lambda f: verify(list(traced(f).results)),
    "text": lambda f: str(ta.module(str(traced(f)))),
    "pickle": lambda f: pickle.loads(pickle.dumps(list(traced(f).results))),
    "forward": lambda f: traced(lambda x, w: ta.jvp(f, (x, w), (x, w))),
    "reverse": lambda f: traced(ta.value_and_grad(f, (0, 1))),
    "vmap": lambda f: ta.function(ta.vmap(f, in_axes=(0, None))).trace(XS, W),
    "checkpoint": lambda f: traced(ta.grad(ta.checkpoint(f))),
    "interpret": lambda f: ta.interpret(ta.function(f), X, W),
    "lower": lambda f: ta.function(f).lower(X, W),
    "call": lambda f: ta.function(f)(X, W),
}
"""Each begins with the function, so it traces it."""


def of_next_order(f: Function) -> Function:
    """The sum of the gradient by the first argument."""
    return lambda x, w: ta.grad(f)(x, w).sum()


def size(program: Program) -> int:
    """Nodes of all formulas after all passes, equal ones of an operation once."""
    results = simplified(list(program.results), list(program.parameters))
    ops = ops_between(results, dict.fromkeys(program.parameters))
    return sum(len(postorder(*op_expressions(o))) for o in (*ops, *inner_ops(ops)))
