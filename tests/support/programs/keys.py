"""Random shapes with indices that NumPy takes for arrays of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

import tensorad as ta
from tensorad.ir.tensor import Tensor


class Key(NamedTuple):
    """An index: for arrays, and for tensors, with the values of tensors in it."""

    shape: tuple[int, ...]
    plain: tuple[Any, ...]
    traced: tuple[Any, ...]
    arrays: dict[Tensor, np.ndarray]


def numbered(shape: tuple[int, ...]) -> np.ndarray:
    """An array of distinct numbers."""
    return np.arange(float(np.prod(shape, dtype=int))).reshape(shape)


@st.composite
def keys(draw: Any) -> Key:
    """Integers, slices, arrays that broadcast, `...` and None, some of them run-time tensors."""
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=3)))
    block = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=2)))
    named = draw(st.integers(0, len(shape)))
    dots = draw(st.integers(-1, named))
    first = [draw(_part(n, block)) for n in shape[: max(dots, 0)]]
    rest = shape[len(shape) - named + len(first) :] if dots >= 0 else shape[:named]
    parts = first + ([...] if dots >= 0 else []) + [draw(_part(n, block)) for n in rest]
    for _ in range(draw(st.integers(0, 2))):
        parts.insert(draw(st.integers(0, len(parts))), None)
    arrays: dict[Tensor, np.ndarray] = {}
    traced = [_traced(draw, p, arrays) for p in parts]
    return Key(shape, tuple(parts), tuple(traced), arrays)


def _part(n: int, block: tuple[int, ...]) -> st.SearchStrategy[Any]:
    bound = st.none() | st.integers(-n - 1, n + 1)
    step = st.none() | st.sampled_from([1, 2, 3, -1, -2])
    windows = st.builds(slice, bound, bound, step)
    if not n:
        return windows
    place = st.integers(-n, n - 1)
    return st.one_of(windows, windows, place, _arrays(place, block))


@st.composite
def _arrays(draw: Any, place: st.SearchStrategy[int], block: tuple[int, ...]) -> np.ndarray:
    shape = [draw(st.sampled_from([1, n])) for n in block]
    shape = shape[draw(st.integers(0, len(shape))) :]
    count = int(np.prod(shape, dtype=int))
    return np.array(draw(st.lists(place, min_size=count, max_size=count)), int).reshape(shape)


def _traced(draw: Any, part: Any, arrays: dict[Tensor, np.ndarray]) -> Any:
    """The part as it is, or an integer or array as a placeholder of it."""
    if isinstance(part, (int, np.ndarray)) and draw(st.booleans()):
        array = np.asarray(part)
        t = ta.placeholder(array.shape, "int64", name=f"p{len(arrays)}")
        arrays[t] = array
        return t
    return part
