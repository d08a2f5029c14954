"""What calls without native code look at, written out array by array.

A loop over parameters takes twice as long as its checks; this function has none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np

from tensorad.codegen.arguments import DATA_OFFSET, layout_is_known, word_at

MOST: Final = 12
"""Arrays of one call; overlaps are looked for in pairs, whose text grows with the square."""

Wanted = tuple[np.dtype[Any], tuple[int, ...], int]
"""The dtype object, the shape and the flags of an array."""
Addresses = Callable[[Sequence[object]], list[int] | None]


def written_out(wanted: Sequence[Wanted], size_bytes: Sequence[int], targets: int) -> Addresses:
    """`Fixed.addresses` for arrays that are wanted like this."""
    make = _maker(len(wanted), targets)
    made: Addresses = make(wanted, size_bytes, np.ndarray, word_at)
    return made


def can_be_written_out(count: int) -> bool:
    """Whether `written_out` is there for so many arrays."""
    return 0 < count <= MOST and layout_is_known()


@lru_cache(maxsize=64)
def _maker(count: int, targets: int) -> Callable[..., Addresses]:
    """A function from what is wanted to the function that checks it."""
    known: dict[str, Any] = {}
    exec(compile(addresses_text(count, targets), "<tensorad call>", "exec"), known)
    made: Callable[..., Addresses] = known["make"]
    return made


def addresses_text(count: int, targets: int) -> str:
    """The Python text for `count` arrays, the last `targets` of which must lie apart."""
    numbers = range(count)
    fits = " and ".join(
        [
            f"type(a{n}) is array and a{n}.dtype is d{n} and a{n}.shape == s{n}"
            f" and a{n}.flags.num & f{n} == f{n}"
            for n in numbers
        ]
    )
    unpacked = [f"    d{n}, s{n}, f{n} = wanted[{n}]; b{n} = size_bytes[{n}]" for n in numbers]
    found = [f"        p{n} = word(id(a{n}) + {DATA_OFFSET}).value" for n in numbers]
    pairs = [(k, n) for n in numbers if n >= count - targets for k in range(n)]
    apart = [f"        if -b{k} < p{k} - p{n} < b{n}: return None" for k, n in pairs]
    names = ", ".join([f"a{n}" for n in numbers])
    result = ", ".join([f"p{n}" for n in numbers])
    return "\n".join(
        [
            "def make(wanted, size_bytes, array, word):",
            *unpacked,
            "    def addresses(arrays):",
            f"        {names}, = arrays",
            f"        if not ({fits}): return None",
            *found,
            *apart,
            f"        return [{result}]",
            "    return addresses",
        ]
    )
