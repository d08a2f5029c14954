"""What calls without native code look at, written out array by array.

A loop over parameters takes twice as long as its checks, and functions for the steps of a call as
long as the steps; this function has neither.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tensorad.codegen.entry.checks_ir import ARRAY_DATA
from tensorad.codegen.runtime.arguments import layout_matches, word_at
from tensorad.codegen.runtime.executable import Steps
from tensorad.process import memoised

MOST: Final = 12
"""Arrays of one call; overlaps are looked for in pairs, whose text grows with the square."""

Wanted = tuple[np.dtype[Any], tuple[int, ...], int]
"""The dtype object, the shape and the flags of an array."""
Run = Callable[[int, Sequence[object], Sequence[object]], bool]
"""Run on inputs and results, given the version of the settings at the start; False: no fit."""


def written_out(
    wanted: Sequence[Wanted],
    size_bytes: Sequence[int],
    results: int,
    steps: Steps,
    *,
    given: bool,
) -> Run:
    """Check arrays that are wanted like this, of which the last are results, and run.

    Args:
        given: whether the results are the caller's and may overlap other arrays.
    """
    make = _maker(len(wanted), results, given)
    made: Run = make(wanted, size_bytes, np.ndarray, word_at, steps)
    return made


def can_be_written_out(count: int) -> bool:
    """Whether `written_out` is there for so many arrays."""
    return 0 < count <= MOST and layout_matches()


@memoised(64)
def _maker(count: int, results: int, given: bool) -> Callable[..., Run]:
    """A function from what is wanted to the function that checks it."""
    known: dict[str, Any] = {}
    exec(compile(call_text(count, results, given=given), "<tensorad call>", "exec"), known)
    made: Callable[..., Run] = known["make"]
    return made


def call_text(count: int, results: int, *, given: bool) -> str:
    """The Python text for `count` arrays; results that are given must lie apart."""
    targets = results if given else 0
    numbers = range(count)
    fits = " and ".join(
        [
            f"type(a{n}) is array and a{n}.dtype is d{n} and a{n}.shape == s{n}"
            f" and a{n}.flags.num & f{n} == f{n}"
            for n in numbers
        ]
    )
    unpacked = [f"    d{n}, s{n}, f{n} = wanted[{n}]; b{n} = size_bytes[{n}]" for n in numbers]
    found = [f"        p{n} = word(id(a{n}) + {ARRAY_DATA}).value" for n in numbers]
    pairs = [(k, n) for n in numbers if n >= count - targets for k in range(n)]
    apart = [f"        if -b{k} < p{k} - p{n} < b{n}: return False" for k, n in pairs]
    names = [f"a{n}, " for n in numbers]
    sides = (
        ("".join(names[: count - results]), "arrays"),
        ("".join(names[count - results :]), "results"),
    )
    return "\n".join(
        [
            "def make(wanted, size_bytes, array, word, steps):",
            *unpacked,
            "    layout, table, reach, address, error = steps",
            "    def call(then, arrays, results):",
            *[f"        {side}= {given_as}" for side, given_as in sides if side],
            f"        if not ({fits}): return False",
            *found,
            *apart,
            "        if layout.prepared != then: layout.prepare(then)",
            f"        code = reach(address, table({', '.join([f'p{n}' for n in numbers])}), None)",
            "        if code: raise error(code)",
            "        return True",
            "    return call",
        ]
    )
