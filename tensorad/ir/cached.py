"""Properties that are computed once for each object, without a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property
else:

    class cached_property:
        """`functools.cached_property` as it is from Python 3.12 on, and one value for all threads.

        Before, a lock is held while the value of any object is computed: a forked child would
        wait for a thread that does not exist there.
        """

        def __init__(self, function: Callable[[Any], Any]) -> None:
            self._function = function
            self.__doc__ = function.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, of: Any, owner: type | None = None) -> Any:
            if of is None:
                return self
            return of.__dict__.setdefault(self._name, self._function(of))


__all__ = ["cached_property"]
