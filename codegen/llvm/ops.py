"""Every operation of the language as LLVM instructions, for scalars and vectors alike."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from tensorad.codegen.llvm.math import functions
from tensorad.codegen.llvm.text import Writer, constant_text, type_text
from tensorad.errors import InternalError
from tensorad.ir.dtypes import BOOL, FLOAT64, INT32, INT64, DType
from tensorad.ir.expr import FUNCTIONS, Call, Const, Expr

CHEAP: Final = frozenset(
    "add sub mul neg abs lt le gt ge eq ne and or not minimum maximum isnan isfinite floor ceil "
    "round trunc".split()
)
"""Operations that may be computed before a loop or branch that perhaps never needs them."""

_ORDERED: Final = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}


def operation(w: Writer, e: Call, args: tuple[str, ...]) -> str:
    """The register with `e` applied to operands of the writer's dtype."""
    op = e.op
    if op in _ORDERED:
        return _compare(w, op, *args)
    simple = _SIMPLE.get(op)
    if simple is not None:
        return simple(w, *args)
    if op in ("floordiv", "mod"):
        return _divide(w, op, e.args[1], *args)
    if op == "pow":
        return _pow(w, e.args[1], *args)
    if op in FUNCTIONS:
        return functions.call(w, op, args)
    raise InternalError(f"operation {op!r} has no LLVM form")


def _compare(w: Writer, op: str, x: str, y: str) -> str:
    if w.dtype.is_float:
        return w.compare(_ORDERED[op], x, y)
    if op in ("eq", "ne"):
        return w.compare(op, x, y)
    return w.compare(("s" if w.dtype.kind == "int" else "u") + op, x, y)


def _extremum(w: Writer, x: str, y: str, *, test: str, of_bools: str) -> str:
    """y if it passes the test or is NaN, otherwise x: the first wins, NaN in either stays."""
    if w.dtype is BOOL:
        return w.binary(of_bools, x, y)
    if not w.dtype.is_float:
        return w.select(_compare(w, test, y, x), y, x)
    better = w.select(w.compare(f"o{test}", y, x), y, x)
    return w.select(w.compare("uno", y, y), y, better)


def _abs(w: Writer, x: str) -> str:
    if w.dtype.is_float:
        return w.intrinsic("fabs", x)
    return w.select(w.compare("slt", x, w.const(0)), w.neg(x), x)


def _sign(w: Writer, x: str) -> str:
    """-1, 0, 1; NaN stays NaN."""
    zero, one, minus = w.const(0), w.const(1), w.const(-1)
    if not w.dtype.is_float:
        if w.dtype.kind == "uint":
            return w.select(w.compare("ne", x, zero), one, zero)
        below = w.select(w.compare("slt", x, zero), minus, zero)
        return w.select(w.compare("sgt", x, zero), one, below)
    at_zero = w.select(w.compare("oeq", x, zero), zero, x)
    below = w.select(w.compare("olt", x, zero), minus, at_zero)
    return w.select(w.compare("ogt", x, zero), one, below)


def _isfinite(w: Writer, x: str) -> str:
    return w.compare("olt", w.intrinsic("fabs", x), w.const(float("inf")))


_SIMPLE: Final[dict[str, Callable[..., str]]] = {
    "add": Writer.add,
    "sub": Writer.sub,
    "mul": Writer.mul,
    "div": Writer.div,
    "neg": Writer.neg,
    "abs": _abs,
    "sign": _sign,
    "maximum": partial(_extremum, test="gt", of_bools="or"),
    "minimum": partial(_extremum, test="lt", of_bools="and"),
    "and": lambda w, x, y: w.binary("and", x, y),
    "or": lambda w, x, y: w.binary("or", x, y),
    "not": lambda w, x: w.binary("xor", x, w.const(True)),
    "floor": lambda w, x: w.intrinsic("floor", x),
    "ceil": lambda w, x: w.intrinsic("ceil", x),
    "trunc": lambda w, x: w.intrinsic("trunc", x),
    "round": lambda w, x: w.intrinsic("roundeven", x),
    "isnan": lambda w, x: w.compare("uno", x, x),
    "isfinite": _isfinite,
}


def _divide(w: Writer, op: str, divisor: Expr, x: str, y: str) -> str:
    """Floor division or its remainder; a divisor of 0 gives 0, nothing traps."""
    if isinstance(divisor, Const):
        return _divide_by_constant(w, op, int(divisor.value), x, y)
    zero, one = w.const(0), w.const(1)
    by_zero = w.compare("eq", y, zero)
    if w.dtype.kind == "uint":
        safe = w.select(by_zero, one, y)
        result = w.binary("udiv" if op == "floordiv" else "urem", x, safe)
        return w.select(by_zero, zero, result)
    by_minus_one = w.compare("eq", y, w.const(-1))
    unsafe = w.of(BOOL).binary("or", by_zero, by_minus_one)
    safe = w.select(unsafe, one, y)
    quotient, remainder = _floor(w, x, safe)
    if op == "mod":
        return w.select(unsafe, zero, remainder)
    exact = w.select(by_minus_one, w.neg(x), quotient)
    return w.select(by_zero, zero, exact)


def _floor(w: Writer, x: str, y: str) -> tuple[str, str]:
    """Quotient and remainder rounded down, from the truncating instruction."""
    zero = w.const(0)
    quotient = w.binary("sdiv", x, y)
    remainder = w.sub(x, w.mul(quotient, y))
    flags = w.of(BOOL)
    signs_differ = w.compare("slt", w.binary("xor", remainder, y), zero)
    adjust = flags.binary("and", w.compare("ne", remainder, zero), signs_differ)
    lower = w.sub(quotient, w.const(1))
    moved = w.add(remainder, y)
    return w.select(adjust, lower, quotient), w.select(adjust, moved, remainder)


def _divide_by_constant(w: Writer, op: str, divisor: int, x: str, y: str) -> str:
    if divisor == -1:
        return w.neg(x) if op == "floordiv" else w.const(0)
    if divisor > 0 and divisor & (divisor - 1) == 0:
        if op == "mod":
            return w.binary("and", x, w.const(divisor - 1))
        shift = "lshr" if w.dtype.kind == "uint" else "ashr"
        return w.binary(shift, x, w.const(divisor.bit_length() - 1))
    if w.dtype.kind == "uint":
        return w.binary("udiv" if op == "floordiv" else "urem", x, y)
    if divisor < 0:
        return _floor(w, x, y)[0 if op == "floordiv" else 1]
    quotient = w.binary("sdiv", x, y)
    remainder = w.sub(x, w.mul(quotient, y))
    below = w.compare("slt", remainder, w.const(0))
    if op == "mod":
        return w.select(below, w.add(remainder, y), remainder)
    return w.select(below, w.sub(quotient, w.const(1)), quotient)


def _pow(w: Writer, exponent: Expr, x: str, y: str) -> str:
    whole = isinstance(exponent, Const) and float(exponent.value).is_integer()
    if isinstance(exponent, Const) and whole:
        n = int(exponent.value)
        if not w.dtype.is_float:
            return power(w, x, n)
        if abs(n) <= 4:
            result = power(w, x, abs(n))
            return result if n >= 0 else w.div(w.const(1.0), result)
        if abs(n) <= 64 and w.dtype is not FLOAT64:
            wide = w.of(FLOAT64)
            result = power(wide, w.convert("fpext", x, FLOAT64), abs(n))
            if n < 0:
                result = wide.div(wide.const(1.0), result)
            return wide.convert("fptrunc", result, w.dtype)
    if w.dtype.is_float:
        return functions.call(w, "pow", (x, y))
    return _integer_power(w, x, y)


def power(w: Writer, x: str, n: int) -> str:
    """x multiplied by itself, n >= 0 factors."""
    if n == 0:
        return w.const(1)
    result = None
    while True:
        if n & 1:
            result = x if result is None else w.mul(result, x)
        n >>= 1
        if not n:
            return result if result is not None else x
        x = w.mul(x, x)


def _integer_power(w: Writer, x: str, y: str) -> str:
    """Wrapping x ** y by squaring over every bit of y; 0 for negative y."""
    result, base, bits = w.const(1), x, y
    zero, one = w.const(0), w.const(1)
    for _ in range(w.dtype.bits):
        odd = w.compare("ne", w.binary("and", bits, one), zero)
        result = w.select(odd, w.mul(result, base), result)
        base = w.mul(base, base)
        bits = w.binary("lshr", bits, one)
    if w.dtype.kind == "uint":
        return result
    return w.select(w.compare("slt", y, zero), zero, result)


def conversion(w: Writer, x: str, to: DType) -> str:
    """`x` of the writer's dtype as `to`: floats saturate into integers, NaN becomes 0."""
    source = w.dtype
    if to is BOOL:
        return w.compare("une" if source.is_float else "ne", x, w.const(0))
    if source.is_float and to.is_float:
        return w.convert("fpext" if to.bits > source.bits else "fptrunc", x, to)
    if to.is_float:
        return w.convert("sitofp" if source.kind == "int" else "uitofp", x, to)
    if source.is_float:
        return _saturate(w, x, to)
    if to.bits < source.bits:
        return w.convert("trunc", x, to)
    if to.bits > source.bits:
        return w.convert("sext" if source.kind == "int" else "zext", x, to)
    return x


def _saturate(w: Writer, x: str, to: DType) -> str:
    """Float to int without the target-dependent values of an overflowing `fptosi`."""
    low, high = float(to.lowest), float(to.highest)
    number = w.select(w.compare("uno", x, x), w.const(0.0), x)
    number = w.select(w.compare("olt", number, w.const(low)), w.const(low), number)
    if to.bits < 32:
        number = w.select(w.compare("ogt", number, w.const(high)), w.const(high), number)
        wide = w.convert("fptosi", number, INT32)
        return w.of(INT32).convert("trunc", wide, to)
    above = 2.0 ** (to.bits - 1)
    over = w.compare("oge", number, w.const(above))
    number = w.select(over, w.const(0.0), number)
    result = w.convert("fptosi", number, to)
    target = w.of(to)
    return target.select(over, target.const(int(to.highest)), result)


def iota(lanes: int, start: int, step: int = 1) -> str:
    """The constant <start, start + step, ...> of 64-bit integers."""
    items = [f"i64 {start + step * n}" for n in range(lanes)]
    return f"<{', '.join(items)}>"


def splat(w: Writer, scalar: str) -> str:
    """A scalar register in every lane."""
    element = type_text(w.dtype)
    inserted = w.put(f"insertelement {w.type} poison, {element} {scalar}, i64 0")
    zeros = f"<{w.lanes} x i32> zeroinitializer"
    return w.put(f"shufflevector {w.type} {inserted}, {w.type} poison, {zeros}")


def is_constant(name: str) -> bool:
    """Whether an operand is a literal and not a register."""
    return not name.startswith("%")


def splat_operand(w: Writer, scalar: str) -> str:
    """A scalar operand as a vector one; constants need no instruction."""
    if is_constant(scalar):
        return f"splat ({type_text(w.dtype)} {scalar})"
    return splat(w, scalar)


__all__ = [
    "CHEAP",
    "INT64",
    "constant_text",
    "conversion",
    "iota",
    "is_constant",
    "operation",
    "power",
    "splat",
    "splat_operand",
]
