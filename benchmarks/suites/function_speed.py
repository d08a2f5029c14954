"""Time per element of elementary functions in the first cache, beside libmvec's and NumPy's."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np

from benchmarks.suites.accuracy import BINARY, function, numpy_function
from tensorad.codegen.target import link, machine
from tensorad.ir.expr import FUNCTIONS

Call = Callable[[], object]
FEW: Final = 64
MANY: Final = FEW + 4096
"""A call's own time cancels in the difference of two lengths."""
REPEATS: Final = 8
_MODERATE: Final = 30.0
"""Arguments are no larger: what angles and exponents usually are."""

_LOOP: Final = """declare {ty} @{symbol}({types})
define void @loop(ptr %x, ptr %y, ptr %out, i64 %n) {{
entry:
  br label %next
next:
  %i = phi i64 [0, %entry], [%j, %next]
  %px = getelementptr {element}, ptr %x, i64 %i
  %py = getelementptr {element}, ptr %y, i64 %i
  %po = getelementptr {element}, ptr %out, i64 %i
  %vx = load {ty}, ptr %px, align {size}
  %vy = load {ty}, ptr %py, align {size}
  %r = call {ty} @{symbol}({arguments})
  store {ty} %r, ptr %po, align {size}
  %j = add i64 %i, {lanes}
  %more = icmp ult i64 %j, %n
  br i1 %more, label %next, label %done
done:
  ret void
}}
"""


class VectorLibrary:
    """A loop over a function of libmvec."""

    def __init__(self, symbol: str, address: int, dtype: str, lanes: int, arity: int) -> None:
        element = "float" if dtype == "float32" else "double"
        ty = f"<{lanes} x {element}>"
        types, arguments = [ty] * arity, [f"{ty} %v{c}" for c in "xy"[:arity]]
        text = _LOOP.format(
            ty=ty, symbol=symbol, element=element, lanes=lanes, size=np.dtype(dtype).itemsize,
            types=", ".join(types), arguments=", ".join(arguments),
        )  # fmt: skip
        self._library = link.load(text, ("loop",), (), addresses={symbol: address})
        pointers = [ctypes.c_void_p] * 3
        kind = ctypes.CFUNCTYPE(None, *pointers, ctypes.c_long)
        self._loop = kind(self._library.addresses["loop"])

    def on(self, x: np.ndarray, y: np.ndarray, out: np.ndarray) -> Call:
        """The call for these arrays."""
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (x, y, out)]
        n = ctypes.c_long(len(x))
        return lambda: self._loop(*pointers, n)


@cache
def _libmvec() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL("libmvec.so.1")
    except OSError:
        return None


def vector_library(op: str, dtype: str) -> VectorLibrary | None:
    """libmvec's function for this machine's registers, if the system has one."""
    width = machine.current().vector_bytes
    library = _libmvec()
    if library is None or width < 32:
        return None
    lanes = width // np.dtype(dtype).itemsize
    arity = 2 if op in BINARY else 1
    letter = "e" if width == 64 else "d"
    symbol = f"_ZGV{letter}N{lanes}{'v' * arity}_{op}{'f' if dtype == 'float32' else ''}"
    found = getattr(library, symbol, None)
    if found is None:
        return None
    address = ctypes.cast(found, ctypes.c_void_p).value or 0
    return VectorLibrary(symbol, address, dtype, lanes, arity)


def speed(op: str, dtype: str, rounds: int) -> dict[str, float]:
    """Nanoseconds per element by "ours", "libmvec" and "numpy": the least of interleaved rounds."""
    calls: dict[tuple[str, int], Call] = {}
    peer, theirs = numpy_function(op), vector_library(op, dtype)
    for n in (FEW, MANY):
        x, y, out = _arrays(op, dtype, n)
        args = (x, y) if op in BINARY else (x,)
        calls["ours", n] = _call(function(op, dtype, n), args, out)
        if theirs is not None:
            calls["libmvec", n] = theirs.on(x, y, out)
        if peer is not None:
            calls["numpy", n] = _call(peer, args, out)
    least = dict.fromkeys(calls, float("inf"))
    with np.errstate(all="ignore"):
        for _ in range(rounds):
            for key, call in calls.items():
                start = time.perf_counter()
                for _ in range(REPEATS):
                    call()
                least[key] = min(least[key], time.perf_counter() - start)
    names = dict.fromkeys([name for name, _ in calls])
    per = 1e9 / REPEATS / (MANY - FEW)
    return {name: (least[name, MANY] - least[name, FEW]) * per for name in names}


def _call(f: Callable[..., object], args: tuple[np.ndarray, ...], out: np.ndarray) -> Call:
    return lambda: f(*args, out=out)


def _arrays(op: str, dtype: str, n: int) -> list[np.ndarray]:
    """Two inputs and the output, each at the start of a line of the cache."""
    rng = np.random.default_rng(1)
    low, high = FUNCTIONS[op].sampled if op in FUNCTIONS else (0, _MODERATE)
    low, high = max(low, -_MODERATE), min(high, _MODERATE)
    found = []
    for values in (rng.uniform(low, high, n), rng.uniform(-5, 5, n), np.zeros(n)):
        size = np.dtype(dtype).itemsize
        room = np.empty(n + 64 // size, dtype)
        start = -room.ctypes.data % 64 // size
        room[start : start + n] = values
        found.append(room[start : start + n])
    return found
