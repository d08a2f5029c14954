"""Scalar functions and powers in LLVM IR: written out, or as calls of helper functions."""

from __future__ import annotations

from typing import Final

from tensorad.codegen.llvm.math.own_functions import check_code, definition
from tensorad.codegen.llvm.math.powers import power
from tensorad.codegen.llvm.math.range_reduction import define_large_angle, with_large_angles
from tensorad.codegen.llvm.text import Code, Writer, mangled
from tensorad.ir.elementary.rows import BUILT_IN
from tensorad.ir.elementary.table import FUNCTIONS

INLINE_CALLS: Final = 8
"""Calls written out in one kernel; further ones call a shared helper."""


def call(w: Writer, op: str, args: tuple[str, ...]) -> str:
    """A scalar function or a power of float operands."""
    row = FUNCTIONS.get(op)
    if row is not None and op not in BUILT_IN:
        check_code(row, w.dtype, w.lanes)
    if row is not None and row.cost.flops == 1:
        return row.code(w, *args)
    if w.code.inlined >= INLINE_CALLS or (row is not None and (row.loops or row.far is not None)):
        return _helper(w, op, args)
    w.code.inlined += 1
    return _formula(w, op, args)


def _formula(w: Writer, op: str, args: tuple[str, ...]) -> str:
    return power(w, *args) if op == "pow" else FUNCTIONS[op].code(w, *args)


def _helper(w: Writer, op: str, args: tuple[str, ...]) -> str:
    """A call of the internal function for this type."""
    name = f"{op}.{mangled(w.dtype, w.lanes)}"
    if name not in w.code.functions:
        code = Code()
        parameters = tuple([f"%x{n}" for n in range(len(args))])
        inner = Writer(code, 0, w.dtype, w.lanes)
        far = FUNCTIONS[op].far if op in FUNCTIONS else None
        if far is not None:
            define_large_angle(code, op, far)
        result = _formula(inner, op, parameters)
        if far is not None:
            with_large_angles(inner, op, far.limit[w.dtype], parameters[0], result)
        w.code.functions.update(code.functions)
        w.code.functions[name] = definition(inner, f"internal {w.type} @{name}", parameters, result)
        w.code.declarations.update(code.declarations)
    operands = ", ".join([f"{w.type} {a}" for a in args])
    return w.put(f"call {w.type} @{name}({operands})")
