"""Kernels that do nothing but multiply and add, or nothing but move bytes, written as LLVM text."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from tensorad.codegen.target.link import Library, load

CHAINS: Final = 12
"""Independent sums: enough for a latency of 4 cycles on two or three units."""
UNROLL: Final = 4
VECTOR_BYTES: Final = (64, 32, 16)
"""Widths that are tried; the fastest is the machine's."""
STEP_BYTES: Final = 256
"""Of each stream in one turn of the loop."""

_TYPES: Final = {"float32": ("float", "f32", 4), "float64": ("double", "f64", 8)}


@dataclass(frozen=True)
class Native:
    """A compiled kernel: call(pointers, n, passes)."""

    call: Any
    library: Library


def _native(text: str) -> Native:
    library = load(text, ("kernel",), ())
    signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    return Native(signature(library.addresses["kernel"]), library)


def _loops(before: Sequence[str], phis: Sequence[str], body: Sequence[str], end: str) -> str:
    """A loop over passes around a loop over `%i` below `%n`."""
    lines = [
        "define void @kernel(ptr %p, i64 %n, i64 %passes) {",
        "entry:",
        *before,
        "  br label %outer",
        "outer:",
        "  %pass = phi i64 [0, %entry], [%pass1, %done]",
        "  br label %inner",
        "inner:",
        "  %i = phi i64 [0, %outer], [%i1, %inner]",
        *phis,
        *body,
        "  %i1 = add i64 %i, 1",
        "  %more = icmp slt i64 %i1, %n",
        "  br i1 %more, label %inner, label %done",
        "done:",
        end,
        "  %pass1 = add i64 %pass, 1",
        "  %again = icmp slt i64 %pass1, %passes",
        "  br i1 %again, label %outer, label %exit",
        "exit:",
        "  ret void",
        "}",
    ]
    return "\n".join(lines)


@cache
def multiply_add(dtype: str, vector_bytes: int) -> tuple[Native, int]:
    """`n` turns of independent fused multiply-adds, and the operations of one turn.

    `p` points to 64 writable bytes.
    """
    scalar, short, size_bytes = _TYPES[dtype]
    lanes = vector_bytes // size_bytes
    vector, fma = f"<{lanes} x {scalar}>", f"@llvm.fma.v{lanes}{short}"
    half, one = _splat(vector, 0.5), _splat(vector, 1.0)
    phis = [
        f"  %a{c} = phi {vector} [{one}, %outer], [%a{c}_{UNROLL}, %inner]" for c in range(CHAINS)
    ]
    body = [
        f"  %a{c}_{u + 1} = call {vector} {fma}({vector} %a{c}{f'_{u}' if u else ''}, "
        f"{vector} {half}, {vector} {one})"
        for u in range(UNROLL)
        for c in range(CHAINS)
    ]
    total = [f"  %t0 = fadd {vector} %a0_{UNROLL}, %a1_{UNROLL}"]
    total += [f"  %t{c - 1} = fadd {vector} %t{c - 2}, %a{c}_{UNROLL}" for c in range(2, CHAINS)]
    total.append(f"  store {vector} %t{CHAINS - 2}, ptr %p, align {size_bytes}")
    text = _loops([], phis, body, "\n".join(total))
    declared = f"declare {vector} {fma}({vector}, {vector}, {vector})\n"
    return _native(declared + text), 2 * lanes * CHAINS * UNROLL


def _splat(vector: str, value: float) -> str:
    scalar = vector.split()[2].rstrip(">")
    return f"splat ({scalar} {value})"


@cache
def stream(reads: int, writes: int, streaming: bool) -> Native:
    """Sum `reads` arrays into each of `writes` arrays, 256 bytes of each in a turn.

    `p` points to the addresses of the arrays, read ones first, and to 64 writable bytes after
    them; all are aligned to 64 bytes. `streaming` stores pass by the caches.
    """
    vector, parts = "<16 x float>", STEP_BYTES // 64
    names = [f"%s{n}" for n in range(reads + writes)]
    before = [
        line
        for n, name in enumerate(names)
        for line in (
            f"  %q{n} = getelementptr ptr, ptr %p, i64 {n}",
            f"  {name} = load ptr, ptr %q{n}",
        )
    ]
    before.append(f"  %sink = getelementptr ptr, ptr %p, i64 {len(names)}")
    body = [f"  %at = mul i64 %i, {STEP_BYTES}"]
    values = []
    for part in range(parts):
        body.append(f"  %o{part} = add i64 %at, {part * 64}")
        loaded = []
        for n in range(reads):
            body.append(f"  %g{n}_{part} = getelementptr i8, ptr {names[n]}, i64 %o{part}")
            body.append(f"  %v{n}_{part} = load {vector}, ptr %g{n}_{part}, align 64")
            loaded.append(f"%v{n}_{part}")
        values.append(_added(vector, loaded, part, body))
    phis: list[str] = []
    end = ""
    if writes:
        for part in range(parts):
            for n in range(reads, reads + writes):
                body.append(f"  %g{n}_{part} = getelementptr i8, ptr {names[n]}, i64 %o{part}")
                hint = ", !nontemporal !0" if streaming else ""
                body.append(f"  store {vector} {values[part]}, ptr %g{n}_{part}, align 64{hint}")
        end = "  fence seq_cst" if streaming else ""
    else:
        zero = "zeroinitializer"
        for part in range(parts):
            phis.append(f"  %a{part} = phi {vector} [{zero}, %outer], [%b{part}, %inner]")
            body.append(f"  %b{part} = fadd {vector} %a{part}, {values[part]}")
        sums = [f"  %c1 = fadd {vector} %b0, %b1"]
        sums += [f"  %c{n} = fadd {vector} %c{n - 1}, %b{n}" for n in range(2, parts)]
        end = "\n".join([*sums, f"  store {vector} %c{parts - 1}, ptr %sink, align 4"])
    return _native(_loops(before, phis, body, end) + "\n!0 = !{i32 1}\n")


def _added(vector: str, loaded: Sequence[str], part: int, body: list[str]) -> str:
    """The sum of what was loaded; a constant where nothing was."""
    if not loaded:
        return _splat(vector, 1.0)
    total = loaded[0]
    for n, value in enumerate(loaded[1:]):
        body.append(f"  %w{n}_{part} = fadd {vector} {total}, {value}")
        total = f"%w{n}_{part}"
    return total
