"""Calls like an earlier one, told by classes, dtypes and shapes, without taking trees apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from tensorad.program.data.instances import Instance
from tensorad.program.trees import is_container, static

_MOST: Final = 256
"""Calls that are known by their shapes."""
_LARGEST: Final = 1 << 16
"""Words of what tells a call: larger trees, and those that contain themselves, are taken apart."""
_NUMBERS: Final = (float, int, bool)

Run = Callable[[list[Any]], Any]
Known = tuple[object, ...]


def told(values: Sequence[object], fixed: Sequence[bool]) -> tuple[Known, list[Any]] | None:
    """What tells a call from others, and its leaves, in the order of `flatten`; None where there is
    more to be looked at.

    Args:
        fixed: which arguments are static.
    """
    key: list[object] = []
    leaves: list[Any] = []
    stack: list[Any] = []
    for value, is_static in zip(values, fixed, strict=True):
        if is_static:
            key.append(static(value))
            continue
        stack.append(value)
        while stack:
            if len(key) > _LARGEST:
                return None
            at = stack.pop()
            kind = type(at)
            if kind is np.ndarray and not at.dtype.hasobject:
                key += (at.dtype, at.shape)
                leaves.append(at)
            elif kind is dict:
                names = list(at)
                if not all(type(n) is str for n in names):
                    return None
                names.sort(reverse=True)
                key += (dict, tuple(names))
                stack += [at[n] for n in names]
            elif kind is tuple or kind is list:
                key += (kind, len(at))
                stack += at[::-1]
            elif kind in _NUMBERS:
                key.append(kind)
                leaves.append(at)
            elif at is None or kind is str:
                key.append(at)
            else:
                other = _told_of(at)
                if other is None:
                    return None
                key += other[0]
                leaves.append(other[1])
    return tuple(key), leaves


def _told_of(value: object) -> tuple[Known, Any] | None:
    """What tells a scalar of NumPy, which is an array without axes, or a value of a data type, and
    itself."""
    if isinstance(value, (np.number, np.bool_)):
        return (value.dtype, ()), np.asarray(value)
    if isinstance(value, Instance) and not value.is_open and not is_container(value):
        return (value.record_type,), value
    return None


class Quick:
    """The calls of one function that are known."""

    def __init__(
        self, positions: Mapping[str, int], fixed: Sequence[str], placed: Sequence[bool]
    ) -> None:
        """
        Args:
            positions: the parameters that options may name, in order.
            fixed: the names of those that are static.
            placed: whether each parameter passed by position is; last, whether further ones are.
        """
        self._positions = positions
        self._fixed = fixed
        self._placed, self._further = list(placed[:-1]), placed[-1]
        self._known: dict[Known, Run] = {}

    def find(
        self, args: tuple[Any, ...], options: Mapping[str, Any]
    ) -> tuple[Known, list[Any], Run | None] | None:
        """What tells the call, its leaves, and how it is run if it is known."""
        names: tuple[str, ...] = ()
        values: Sequence[object] = args
        if options:
            if not all(n in self._positions for n in options):
                return None
            names = tuple(sorted(options, key=self._positions.__getitem__))
            if self._positions[names[0]] < len(args):
                return None
            values = (*args, *[options[n] for n in names])
        fixed = [False] * len(values)
        if self._fixed:
            fixed = [*self._placed[: len(args)]]
            fixed += [self._further] * (len(args) - len(fixed))
            fixed += [n in self._fixed for n in names]
        found = told(values, fixed)
        if found is None:
            return None
        key = (len(args), names, *found[0])
        try:
            return key, found[1], self._known.get(key)
        except TypeError:  # a static argument that cannot be hashed
            return None

    def learn(self, key: Known, run: Run) -> None:
        """Run calls like this one so from now on."""
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[key] = run
