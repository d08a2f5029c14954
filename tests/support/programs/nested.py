"""Programs of branches in one another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import tensorad as ta

Function = Callable[[Any], Any]


def _after(f: Function, x: Any) -> Any:
    return ta.cond(x.sum() > 0.05, lambda: f(ta.sin(x) * 1.1) * x, lambda: x * x)


def _switch(f: Function, x: Any) -> Any:
    n = ta.floor(x.sum()).astype("int64")
    arms = [lambda: ta.exp(x), lambda: f(ta.sqrt(x) * 0.8) * x, lambda: f(x * 0.7) + x]
    return ta.switch(n, arms)


def _while(f: Function, x: Any) -> Any:
    def arm() -> Any:
        m = ta.while_loop(lambda s: s.sum() < 2.5, lambda s: s * 1.3, x)
        return f(m * 0.5) * ta.for_loop(0, 3, lambda i, s: ta.sin(s) + x, x)

    return ta.cond(x.sum() > 1.2, arm, lambda: x * x)


def _twice(f: Function, x: Any) -> Any:
    def arm() -> Any:
        first = f(ta.sin(x))
        return first * f(ta.cos(x) * first) + x

    return ta.cond(x.sum() > 0.05, arm, lambda: x * x)


KINDS: Final = {"after": _after, "switch": _switch, "while": _while, "twice": _twice}
"""One level each: work after the inner branch, several arms with one, loops, two inner ones."""


def program(kind: str, depth: int, *, is_call: bool = False) -> Function:
    """So many levels in one another, summed; each a function that is called, or written out."""
    f: Function = ta.sin
    for _ in range(depth):
        f = _level(kind, f)
        f = ta.function(f) if is_call else f
    return lambda x: f(x).sum()


def _level(kind: str, f: Function) -> Function:
    return lambda x: KINDS[kind](f, x)
