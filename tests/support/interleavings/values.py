"""What instructions that only compute make of numbers."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.support.interleavings.ir_text import Instruction

Value = Any
"""A number; the two results of an exchange."""
_BITS: Final = {"i1": 1, "i8": 8, "i32": 32, "i64": 64, "ptr": 64}


def cut(value: int, kind: str) -> int:
    """Without a sign."""
    return value & ((1 << _BITS[kind]) - 1)


def signed(value: int, kind: str) -> int:
    """With a sign."""
    value = cut(value, kind)
    return value - (1 << _BITS[kind]) if value >> (_BITS[kind] - 1) else value


_ARITHMETIC: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "udiv": operator.floordiv,
    "urem": operator.mod, "and": operator.and_, "or": operator.or_, "xor": operator.xor,
    "shl": operator.lshift, "lshr": operator.rshift, "fmul": operator.mul, "fdiv": operator.truediv,
    "xchg": lambda _, b: b,
}  # fmt: skip
_COMPARED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


def computed(i: Instruction, v: list[Value]) -> Value:
    """The result of an instruction that touches no memory."""
    match i.kind:
        case "extractvalue":
            return v[0][int(i.words[0])]
        case "select":
            return v[1] if v[0] & 1 else v[2]
        case "compare":
            how, kind = i.words
            return int(_COMPARED[how[-2:]](*_compared(how, kind, v)))
        case "convert":
            return float(v[0]) if i.words[2] == "double" else cut(int(v[0]), i.words[2])
        case _:
            return arithmetic(*i.words, *v)


def _compared(how: str, kind: str, v: list[Value]) -> list[Value]:
    if how[0] == "o":
        return v
    return [signed(x, kind) if how[0] == "s" else cut(x, kind) for x in v]


def arithmetic(name: str, kind: str, a: Value, b: Value) -> Value:
    """One operation on two numbers."""
    if kind == "double":
        return _ARITHMETIC[name](a, b)
    return cut(_ARITHMETIC[name](cut(a, kind), cut(b, kind)), kind)
