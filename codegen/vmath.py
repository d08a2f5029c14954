"""Elementary functions in LLVM IR: polynomials whose scalar and vector forms give equal bits.

Every function keeps NaN, infinities, signed zeros and subnormals as IEEE 754 and C99 want them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tensorad.codegen import vmath_tables as table
from tensorad.codegen.llvm_text import Code, Writer, mangled, type_text
from tensorad.codegen.vmath_trig import TRIGONOMETRIC, far_from_zero
from tensorad.codegen.vmath_write import (
    INF,
    LN2,
    NAN,
    absolute,
    copy_sign,
    exp_of_sum,
    horner,
    in_float64,
    integers,
    reduce_by_ln2,
    scale,
    split_exponent,
    to_bits,
)
from tensorad.ir.dtypes import BOOL, FLOAT32, FLOAT64
from tensorad.ir.expr import BINARY_MATH, UNARY_MATH

FUNCTIONS: Final = (*UNARY_MATH, *BINARY_MATH, "pow")
INLINE_CALLS: Final = 8
"""Calls written out in one kernel; further ones call a shared helper."""


def call(w: Writer, op: str, args: tuple[str, ...]) -> str:
    """`op` of float operands: written out, or a call of a helper function."""
    if op in far_from_zero:
        return _helper(w, op, args)
    if w.code.inlined >= INLINE_CALLS and op not in ("sqrt", "rsqrt"):
        return _helper(w, op, args)
    w.code.inlined += 1
    return _FORMULAS[op](w, *args)


def _helper(w: Writer, op: str, args: tuple[str, ...]) -> str:
    """A call of the internal function for this type."""
    name = f"{op}.{mangled(w.dtype, w.lanes)}"
    if name not in w.code.functions:
        code = Code()
        parameters = [f"%x{n}" for n in range(len(args))]
        inner = Writer(code, 0, w.dtype, w.lanes)
        if op in far_from_zero:
            _far_branch(inner, op)
        result = _FORMULAS[op](inner, *parameters)
        code.line(f"ret {w.type} {result}")
        head = ", ".join([f"{w.type} {p}" for p in parameters])
        lines = [f"define internal {w.type} @{name}({head}) nounwind {{", "entry:"]
        w.code.functions[name] = "\n".join([*lines, *code.regions[0].lines, *code.failures, "}"])
        w.code.declarations.update(code.declarations)
    operands = ", ".join([f"{w.type} {a}" for a in args])
    return w.put(f"call {w.type} @{name}({operands})")


def _far_branch(w: Writer, op: str) -> None:
    """Leave for the C library, lane by lane, when an argument is beyond the reduction."""
    code = w.code
    far = w.compare("oge", absolute(w, "%x0"), w.const(far_from_zero[op]))
    if w.lanes:
        bits = w.put(f"bitcast <{w.lanes} x i1> {far} to i{w.lanes}")
        far = w.put(f"icmp ne i{w.lanes} {bits}, 0")
    code.line(f"br i1 {far}, label %far, label %near")
    slow = Code()
    result = libm(Writer(slow, 0, w.dtype, w.lanes), op, ("%x0",))
    lines = [line.replace("%v", "%far") for line in slow.regions[0].lines]
    code.failures += ["far:", *lines, f"ret {w.type} {result.replace('%v', '%far')}"]
    code.declarations.update(slow.declarations)
    code.start_block("near")


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


def exp(w: Writer, x: str) -> str:
    """2^n * exp(r), r = x - n ln 2."""
    n, r = reduce_by_ln2(w, x)
    return scale(w, exp_of_sum(w, r, None), n)


def log(w: Writer, x: str) -> str:
    """e ln 2 + log(1 + f) where x = 2^e (1 + f)."""
    e, f = split_exponent(w, x)
    high, low = LN2[w.dtype]
    half_square = w.mul(w.mul(f, f), w.const(0.5))
    if w.dtype is FLOAT32:
        cube = w.mul(w.mul(f, f), f)
        rest = w.fma(cube, horner(w, f, table.LOG32), w.mul(e, w.const(low)))
        result = w.add(w.sub(rest, half_square), f)
        result = w.fma(e, w.const(high), result)
    else:
        s = w.div(f, w.add(w.const(2.0), f))
        z = w.mul(s, s)
        # log(1+f) = f - (f^2/2 - s (f^2/2 + R)), with 2 s + s R = log((1+s)/(1-s))
        r = w.mul(z, horner(w, z, table.LOG64))
        inner = w.fma(s, w.add(half_square, r), w.mul(e, w.const(low)))
        result = w.sub(f, w.sub(half_square, inner))
        result = w.fma(e, w.const(high), result)
    return log_specials(w, x, result)


def log_specials(w: Writer, x: str, result: str) -> str:
    """log(0) = -inf, log(inf) = inf, NaN below zero."""
    result = w.select(w.compare("oeq", x, w.const(INF)), x, result)
    result = w.select(w.compare("oeq", x, w.const(0.0)), w.const(-INF), result)
    return w.select(w.compare("oge", x, w.const(0.0)), result, w.const(NAN))


def log1p(w: Writer, x: str) -> str:
    """log(u) + (x - (u - 1)) / u with u = 1 + x rounded."""
    one = w.const(1.0)
    u = w.add(x, one)
    lost = w.sub(x, w.sub(u, one))
    # where u is as large as x nothing was lost that matters; inf - inf must not appear
    small = w.compare("olt", absolute(w, x), w.const(1e15))
    correction = w.select(small, w.div(lost, u), w.const(0.0))
    result = w.add(log(w, u), correction)
    result = w.select(w.compare("oeq", x, w.const(-1.0)), w.const(-INF), result)
    return w.select(w.compare("oeq", x, w.const(0.0)), x, result)


def expm1(w: Writer, x: str) -> str:
    """2^n (exp(r) - 1) + (2^n - 1)."""
    limited = w.select(w.compare("olt", x, w.const(-40.0)), w.const(-40.0), x)
    n, r = reduce_by_ln2(w, limited)
    name = table.EXP32 if w.dtype is FLOAT32 else table.EXP64
    grown = w.fma(w.mul(r, r), horner(w, r, name), r)
    # 2^n overflows one step before the result may: halve and double
    half = scale(w, w.const(0.5), n)
    result = w.fma(half, grown, w.sub(half, w.const(0.5)))
    result = w.mul(result, w.const(2.0))
    result = w.select(w.compare("ogt", x, w.const(709.79)), w.const(INF), result)
    return w.select(w.compare("oeq", x, w.const(0.0)), x, result)


def tanh(w: Writer, x: str) -> str:
    """An odd polynomial near 0, otherwise 1 - 2 / (exp(2|x|) + 1)."""
    a = absolute(w, x)
    z = w.mul(x, x)
    polynomial = horner(w, z, table.TANH32 if w.dtype is FLOAT32 else table.TANH64)
    near = w.fma(w.mul(z, x), polynomial, x)
    far = w.add(exp(w, w.add(a, a)), w.const(1.0))
    far = w.sub(w.const(1.0), w.div(w.const(2.0), far))
    is_near = w.compare("olt", a, w.const(0.6))
    return copy_sign(w, w.select(is_near, near, far), x)


def sigmoid(w: Writer, x: str) -> str:
    """(1 or e) / (1 + e) with e = exp(-|x|): small results keep their digits."""
    one = w.const(1.0)
    e = exp(w, w.neg(absolute(w, x)))
    top = w.select(w.compare("oge", x, w.const(0.0)), one, e)
    return w.div(top, w.add(one, e))


def erf(w: Writer, x: str) -> str:
    """x P(x^2) near 0, otherwise 1 - exp(P(|x|)); pieces in float64."""
    a = absolute(w, x)
    z = w.mul(x, x)
    if w.dtype is FLOAT32:
        near = w.mul(x, horner(w, z, table.ERF32))
        limited = w.select(w.compare("ogt", a, w.const(4.0)), w.const(4.0), a)
        far = w.sub(w.const(1.0), exp(w, horner(w, limited, table.ERFC32)))
        limit = 0.92
    else:
        near = w.mul(x, horner(w, z, table.ERF64))
        far = _erf64_far(w, a)
        limit = 0.93
    is_near = w.compare("olt", a, w.const(limit))
    result = w.select(is_near, near, copy_sign(w, far, x))
    return w.select(w.compare("uno", x, x), x, result)


def _erf64_far(w: Writer, a: str) -> str:
    def piece(middle: float, half: float, coefficients: Sequence[float]) -> str:
        t = w.mul(w.sub(a, w.const(middle)), w.const(1.0 / half))
        return horner(w, t, coefficients)

    first = w.sub(w.const(1.0), exp(w, piece(1.565, 0.635, table.ERFC64A)))
    second = piece(2.7, 0.5, table.ERF64B)
    third = piece(4.6, 1.4, table.ERF64C)
    third = w.select(w.compare("oge", a, w.const(5.95)), w.const(1.0), third)
    later = w.select(w.compare("olt", a, w.const(3.2)), second, third)
    return w.select(w.compare("olt", a, w.const(2.2)), first, later)


def rsqrt(w: Writer, x: str) -> str:
    return w.div(w.const(1.0), w.intrinsic("sqrt", x))


def sinh(w: Writer, x: str) -> str:
    """(t + t / (t + 1)) / 2 with t = expm1(|x|); far out exp(|x|/2)^2 / 2."""
    a, half, one = absolute(w, x), w.const(0.5), w.const(1.0)
    t = expm1(w, a)
    near = w.mul(half, w.add(t, w.div(t, w.add(t, one))))
    root = exp(w, w.mul(a, half))
    far = w.mul(w.mul(root, half), root)
    return copy_sign(w, w.select(w.compare("olt", a, w.const(20.0)), near, far), x)


def cosh(w: Writer, x: str) -> str:
    """(e + 1/e) / 2 with e = exp(|x|); far out exp(|x|/2)^2 / 2."""
    a, half = absolute(w, x), w.const(0.5)
    e = exp(w, a)
    near = w.mul(half, w.add(e, w.div(w.const(1.0), e)))
    root = exp(w, w.mul(a, half))
    far = w.mul(w.mul(root, half), root)
    return w.select(w.compare("olt", a, w.const(20.0)), near, far)


def pow_(w: Writer, x: str, y: str) -> str:
    """exp(y log|x|) with C99's special cases; float32 in float64, which is exact enough."""
    if w.dtype is FLOAT64:
        return _pow_specials(w, x, y, _pow64(w, absolute(w, x), y))
    wide = w.of(FLOAT64)
    base = wide.intrinsic("fabs", w.convert("fpext", x, FLOAT64))
    product = wide.mul(w.convert("fpext", y, FLOAT64), log(wide, base))
    result = wide.convert("fptrunc", exp(wide, product), w.dtype)
    return _pow_specials(w, x, y, result)


def _pow64(w: Writer, size: str, y: str) -> str:
    """size^y for size >= 0, the logarithm and its product with y in two floats."""
    high, low = log_two_floats(w, size)
    # beyond this the result is 0, 1 or inf anyway, and the products below stay finite
    limit = 1e300
    capped = w.select(w.compare("ogt", y, w.const(limit)), w.const(limit), y)
    capped = w.select(w.compare("olt", y, w.const(-limit)), w.const(-limit), capped)
    product = w.mul(capped, high)
    rest = w.fma(capped, high, w.neg(product))
    rest = w.fma(capped, low, rest)
    moderate = w.compare("olt", absolute(w, product), w.const(800.0))
    rest = w.select(moderate, rest, w.const(0.0))
    n, r = reduce_by_ln2(w, product)
    return scale(w, exp_of_sum(w, r, rest), n)


def log_two_floats(w: Writer, x: str) -> tuple[str, str]:
    """log(x) of x >= 0 as an unevaluated sum good to some 64 bits (float64)."""
    e, f = split_exponent(w, x)
    t = w.add(f, w.const(2.0))
    lost = w.sub(f, w.sub(t, w.const(2.0)))
    s = w.div(f, t)
    s_low = w.div(w.fma(w.neg(s), lost, w.fma(w.neg(s), t, f)), t)
    z = w.mul(s, s)
    z_low = w.fma(s, w.add(s_low, s_low), w.fma(s, s, w.neg(z)))
    cube = w.mul(z, s)
    cube_low = w.fma(z, s_low, w.fma(z_low, s, w.fma(z, s, w.neg(cube))))
    third, third_low = w.const(2.0 / 3.0), w.const(3.700743415417189e-17)
    b = w.mul(cube, third)
    b_low = w.fma(cube_low, third, w.fma(cube, third_low, w.fma(cube, third, w.neg(b))))
    tail = w.mul(w.mul(cube, z), horner(w, z, table.POWLOG64))
    high, low = _sum(w, w.add(s, s), b)
    low = w.add(low, w.add(w.add(w.add(s_low, s_low), b_low), tail))
    ln2, ln2_low = LN2[FLOAT64]
    first, first_low = _sum(w, w.mul(e, w.const(ln2)), high)
    first_low = w.add(first_low, w.fma(e, w.const(ln2_low), low))
    high, low = _sum(w, first, first_low)
    infinite = w.compare("oeq", x, w.const(INF))
    zero = w.compare("oeq", x, w.const(0.0))
    special = w.of(BOOL).binary("or", infinite, zero)
    high = w.select(infinite, w.const(INF), w.select(zero, w.const(-INF), high))
    high = w.select(w.compare("uno", x, x), x, high)
    return high, w.select(special, w.const(0.0), low)


def _sum(w: Writer, x: str, y: str) -> tuple[str, str]:
    """x + y rounded, and the rounding error; for |x| >= |y| or x = 0."""
    total = w.add(x, y)
    return total, w.sub(y, w.sub(total, x))


def _pow_specials(w: Writer, x: str, y: str, result: str) -> str:
    flags, zero, one = w.of(BOOL), w.const(0.0), w.const(1.0)
    whole = w.compare("oeq", w.intrinsic("trunc", y), y)
    half = w.mul(y, w.const(0.5))
    even = w.compare("oeq", w.intrinsic("trunc", half), half)
    odd = flags.binary("and", whole, flags.binary("xor", even, flags.const(True)))
    negative = _sign_bit(w, x)
    flip = flags.binary("and", odd, negative)
    result = w.select(flip, w.neg(result), result)
    below = flags.binary("and", w.compare("olt", x, zero), w.compare("ogt", x, w.const(-INF)))
    finite = w.compare("olt", absolute(w, y), w.const(INF))
    fraction = flags.binary("and", finite, flags.binary("xor", whole, flags.const(True)))
    result = w.select(flags.binary("and", below, fraction), w.const(NAN), result)
    unit = w.compare("oeq", absolute(w, x), one)
    endless = w.compare("oeq", absolute(w, y), w.const(INF))
    result = w.select(flags.binary("and", unit, endless), one, result)
    is_one = flags.binary("or", w.compare("oeq", y, zero), w.compare("oeq", x, one))
    nan = flags.binary("or", w.compare("uno", x, x), w.compare("uno", y, y))
    result = w.select(nan, w.add(x, y), result)
    return w.select(is_one, one, result)


def _sign_bit(w: Writer, x: str) -> str:
    i = integers(w)
    return i.compare("slt", to_bits(w, x), i.const(0))


_Formula = Callable[..., str]
_FORMULAS: Final[dict[str, _Formula]] = {
    "exp": exp,
    "log": log,
    "log1p": in_float64(log1p),
    "expm1": in_float64(expm1),
    "sqrt": lambda w, x: w.intrinsic("sqrt", x),
    "rsqrt": rsqrt,
    "tanh": tanh,
    "sigmoid": sigmoid,
    "erf": erf,
    "sinh": in_float64(sinh),
    "cosh": in_float64(cosh),
    "pow": pow_,
    **TRIGONOMETRIC,
}
