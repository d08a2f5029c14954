"""Programs of many bindings in many functions: nested, called, as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import tensorad as ta
from benchmarks.workloads.large_programs import layer

EACH: Final = 25
"""Bindings of one function."""
Function = Callable[..., Any]


def nested(n: int, rounds: int = 6) -> Function:
    """n functions that are calls, each calls the one before."""
    f = ta.function(lambda x, w: layer(x, w, rounds))
    for _ in range(n - 1):
        f = _over(f, rounds)
    return lambda x, w: f(x, w).sum()


def _over(below: Function, rounds: int) -> Function:
    return ta.function(lambda x, w: below(layer(x, w, rounds), w))


def called(n: int, rounds: int = 6) -> Function:
    """n functions that are calls, one after the other."""
    fs = [_scaled(1.0 + k / n, rounds) for k in range(n)]

    def whole(x: Any, w: Any) -> Any:
        for f in fs:
            x = f(x, w)
        return x.sum()

    return whole


def _scaled(by: float, rounds: int) -> Function:
    return ta.function(lambda x, w: layer(x, w, rounds) * by)


def text(n: int) -> str:
    """n functions inside of each other in a text of the language, 25 bindings in each."""
    lines = ["def f(x, w) {"]
    for k in range(n):
        lines.append(f"  f{k} = fn (v{k}) {{")
        lines += [f"  a{k}_{j} = {_operation(f'a{k}_{j - 1}' if j else f'v{k}', j)}" for j in
                  range(EACH - 2)]  # fmt: skip
        lines.append(f"  b{k} = matmul(w, a{k}_{EACH - 3})")
    last = n - 1
    lines.append(f"  b{last}\n  }}")
    for k in reversed(range(n - 1)):
        lines.append(f"  f{k + 1}(b{k})\n  }}")
    return "\n".join([*lines, "  sum(f0(x))", "}", ""])


def _operation(name: str, j: int) -> str:
    return (f"sin({name})", f"{name} * 1.01", f"{name} + 0.5", f"tanh({name})")[j % 4]


def chain(n: int) -> Function:
    """n functions of a number inside of each other, of three kinds."""

    def whole(x: Any) -> Any:
        kinds = (lambda v: ta.sin(v) * 1.1, lambda v: v * v + 0.5, lambda v: v * x)

        def inner(depth: int) -> Function:
            def f(v: Any) -> Any:
                made = kinds[depth % 3](v)
                return inner(depth - 1)(made) if depth else made

            return f

        return inner(n - 1)(x)

    return whole
