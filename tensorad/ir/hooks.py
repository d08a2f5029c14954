"""Functions that a file calls and a file above it defines: importing that one would be a circle."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Generic, ParamSpec, TypeVar

from tensorad.errors import InternalError

P = ParamSpec("P")
R = TypeVar("R")


class Hook(Generic[P, R]):
    """A function to be filled in by the file that defines it, when that is imported.

    Attributes:
        call: the function; before anybody has imported its file, what imports it and goes on.
    """

    __slots__ = ("_module", "call")
    call: Callable[P, R]

    def __init__(self, module: str) -> None:
        self._module = module
        self.call = self._first_call

    def fill(self, function: Callable[P, R]) -> None:
        """Say which function it is."""
        self.call = function

    def _first_call(self, *args: P.args, **named: P.kwargs) -> R:
        import_module(self._module)
        if self.call == self._first_call:
            raise InternalError(f"{self._module} does not fill the hook that names it")
        return self.call(*args, **named)
