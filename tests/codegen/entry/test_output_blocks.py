"""Memory of large outputs: a later call has it when nobody sees it any more, and not before."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import tensorad as ta
from tensorad.codegen.runtime.arena import KEPT_BLOCKS, LARGE_BYTES
from tensorad.compiled import CompiledFunction

COUNT: Final = LARGE_BYTES // 4
Array = np.ndarray[Any, np.dtype[Any]]


@pytest.fixture(scope="module")
def filled() -> CompiledFunction:
    """An array of one number."""
    V = ta.placeholder((), name="V")
    return ta.build(ta.compute((COUNT,), lambda i: V[()] + 0 * i.astype("float32"), name="Y"), [V])


class Struct:
    """Holds an array in a way of its own: the protocol in C."""

    def __init__(self, y: Array) -> None:
        self.held = y
        self.__array_interface__ = y.__array_interface__


HOLDERS: Final[dict[str, Callable[[Array], object]]] = {
    "view": lambda y: y[5:],
    "reshaped": lambda y: y.reshape(2, -1).T,
    "other type": lambda y: y.view(np.int32),
    "subclass": lambda y: y.view(np.recarray),
    "view of a view": lambda y: y[::2][1:3],
    "base": lambda y: y.base,
    "memoryview": memoryview,
    "part of a memoryview": lambda y: memoryview(y)[3:],
    "memoryview of the base": lambda y: memoryview(y.base),  # type: ignore[arg-type]
    "array of a buffer": lambda y: np.frombuffer(memoryview(y), np.float32),
    "iterator": lambda y: y.flat,
    "for C": lambda y: y.ctypes,
    "capsule": lambda y: y.__dlpack__(),
    "protocol": Struct,
    "array of the protocol": lambda y: np.asarray(Struct(y)),
    "in a cycle": lambda y: _cycle(y),
}


def _cycle(y: Array) -> list[object]:
    held: list[object] = [y]
    held.append(held)
    return held


@pytest.mark.parametrize("name", HOLDERS)
def test_what_is_held_is_not_given_out(filled: CompiledFunction, name: str) -> None:
    y = filled(np.float32(1))
    address = y.ctypes.data
    held = [HOLDERS[name](y)]
    del y
    others = [filled(np.float32(2)) for _ in range(KEPT_BLOCKS + 1)]
    assert address not in [o.ctypes.data for o in others]
    held.clear()


def test_what_is_dropped_is_given_out(filled: CompiledFunction) -> None:
    y = filled(np.float32(1))
    address = y.ctypes.data
    view = y[3:]
    del y
    del view
    assert filled(np.float32(2)).ctypes.data == address


def test_nobody_sees_the_memory_without_the_array(filled: CompiledFunction) -> None:
    """What the array itself refers to shows nothing, so it may be held."""
    y = filled(np.float32(1))
    assert isinstance(y.base, np.ndarray)
    keeper = y.base.base
    assert not hasattr(keeper, "__array_interface__")
    with pytest.raises(TypeError):
        memoryview(keeper)  # type: ignore[arg-type]
    assert np.asarray(keeper).dtype == object
    assert not [n for n in dir(keeper) if not n.startswith("_")]


revived: list[object] = []


class Revived:
    """Lives on when the collector finds it."""

    def __init__(self, y: Array) -> None:
        self.held, self.own = y, self

    def __del__(self) -> None:
        revived.append(self.held)


def test_an_array_that_a_collector_revives_is_held(filled: CompiledFunction) -> None:
    """The collector clears weak references to what it finds; arrays are not among that."""
    y = filled(np.float32(1))
    assert not gc.is_tracked(y) and not gc.is_tracked(y.base)
    address = y.ctypes.data
    Revived(y)
    del y
    gc.collect()
    others = [filled(np.float32(2)) for _ in range(KEPT_BLOCKS + 1)]
    assert len(revived) == 1
    assert address not in [o.ctypes.data for o in others]
    assert (np.asarray(revived.pop()) == 1).all()


def test_threads_never_share_an_output(filled: CompiledFunction) -> None:
    wrong: list[float] = []

    def calls(number: int) -> None:
        for n in range(20):
            value = np.float32(100 * number + n)
            y = filled(value)
            other = filled(-value)
            if (y != value).any() or (other != -value).any():
                wrong.append(float(value))

    threads = [threading.Thread(target=calls, args=(n,)) for n in range(1, 4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []
