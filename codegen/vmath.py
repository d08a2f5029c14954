"""Elementary functions in LLVM IR; vectors and scalars get the same bits."""

from __future__ import annotations

from typing import Final

from tensorad.codegen.llvm_text import Writer, type_text
from tensorad.ir.dtypes import FLOAT32
from tensorad.ir.expr import BINARY_MATH, UNARY_MATH

FUNCTIONS: Final = (*UNARY_MATH, *BINARY_MATH, "pow")


def call(w: Writer, op: str, args: tuple[str, ...]) -> str:
    """`op` of float operands."""
    return libm(w, op, args)


def libm(w: Writer, op: str, args: tuple[str, ...]) -> str:
    """The C library's function, lane by lane."""
    element = type_text(w.dtype)
    name = op + ("f" if w.dtype is FLOAT32 else "")
    w.code.declare(name, element, *[element] * len(args))
    if not w.lanes:
        operands = ", ".join([f"{element} {a}" for a in args])
        return w.put(f"call {element} @{name}({operands})")
    result = "poison"
    for lane in range(w.lanes):
        parts = [w.put(f"extractelement {w.type} {a}, i64 {lane}") for a in args]
        operands = ", ".join([f"{element} {p}" for p in parts])
        value = w.put(f"call {element} @{name}({operands})")
        result = w.put(f"insertelement {w.type} {result}, {element} {value}, i64 {lane}")
    return result
