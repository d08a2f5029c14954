"""Functions that call each other to any depth: generators that yield what they call."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

T = TypeVar("T")
Steps = Generator[Any, Any, T]
"""A computation: it yields computations, is given their results, and returns its own."""


def run(steps: Steps[T]) -> T:
    """The result, without recursion."""
    stack: list[Steps[Any]] = [steps]
    value: Any = None
    while stack:
        try:
            called = stack[-1].send(value)
        except StopIteration as ended:
            value = ended.value
            stack.pop()
        else:
            stack.append(called)
            value = None
    result: T = value
    return result
