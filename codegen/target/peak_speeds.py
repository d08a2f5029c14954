"""The best speeds of one core of this machine, measured once where they are asked for."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import numpy as np

from tensorad.codegen.target import link
from tensorad.codegen.target.machine import Machine

_CHAINS: Final = 10
"""Sums that do not wait for each other: more than latency times units, fewer than registers."""
_STEPS: Final = 20_000
_ROUNDS: Final = 7


@lru_cache(maxsize=16)
def measured(m: Machine) -> tuple[float, float]:
    """(float32 operations, bytes read from memory) per second of one core.

    What the description of the machine says is believed. About 0.1 s, once per process.
    """
    return m.flops or _flops(m), m.read or _read(m)


def _flops(m: Machine) -> float:
    lanes = m.vector_bytes // 4
    library = link.load(_multiply_adds(lanes), ("f",), ())
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(library.addresses["f"])
    numbers = np.full(64, 0.5, np.float32)
    seconds = _best(lambda: run(numbers.ctypes.data, _STEPS))
    return 2.0 * _CHAINS * lanes * _STEPS / seconds


def _multiply_adds(lanes: int) -> str:
    """A function of independent fused multiply-adds in a loop."""
    ty, op = f"<{lanes} x float>", f"@llvm.fma.v{lanes}f32"
    chains = range(_CHAINS)
    phis = [f"%s{n} = phi {ty} [%x, %entry], [%t{n}, %loop]" for n in chains]
    steps = [f"%t{n} = call {ty} {op}({ty} %s{n}, {ty} %x, {ty} %x)" for n in chains]
    sums = [f"%u{n} = fadd {ty} %{f'u{n - 1}' if n else 't0'}, %t{n}" for n in chains]
    body = "\n".join([*phis, *steps])
    return f"""declare {ty} {op}({ty}, {ty}, {ty})
define void @f(ptr %p, i64 %n) nounwind {{
entry:
%x = load {ty}, ptr %p, align 4
br label %loop
loop:
%i = phi i64 [0, %entry], [%j, %loop]
{body}
%j = add i64 %i, 1
%more = icmp slt i64 %j, %n
br i1 %more, label %loop, label %done
done:
{chr(10).join(sums)}
store {ty} %u{_CHAINS - 1}, ptr %p, align 4
ret void
}}"""


def _read(m: Machine) -> float:
    numbers = np.ones(max(2 * m.l3, 1 << 25) // 4, np.float32)
    return numbers.nbytes / _best(lambda: numbers.max(), 3)


def _best(act: Callable[[], object], rounds: int = _ROUNDS) -> float:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        act()
        times.append(time.perf_counter() - start)
    return min(times)
