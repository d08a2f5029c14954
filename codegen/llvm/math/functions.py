"""Elementary functions in LLVM IR: polynomials whose scalar and vector forms give equal bits.

Every function keeps NaN, infinities, signed zeros and subnormals as IEEE 754 and C99 want them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from tensorad.codegen.llvm.math import tables as table
from tensorad.codegen.llvm.math.emit import (
    INF,
    LN2,
    LOG2E,
    MAGIC,
    MANTISSA,
    NAN,
    absolute,
    at_least,
    at_most,
    bits_of,
    copy_sign,
    exp_of_sum,
    exponent_field,
    from_bits,
    horner,
    integers,
    reduce_by_ln2,
    scale,
    scale_within,
    shifted_inverse,
    shifted_power,
    split_exponent,
    split_normal,
    steps_of_ln2,
    to_bits,
)
from tensorad.codegen.llvm.math.inverse_trig import INVERSE
from tensorad.codegen.llvm.math.trig import TRIGONOMETRIC, by_angle
from tensorad.codegen.llvm.text import Code, Writer, mangled
from tensorad.ir.dtypes import BOOL, FLOAT32, FLOAT64
from tensorad.ir.expr import BINARY_MATH, UNARY_MATH

FUNCTIONS: Final = (*UNARY_MATH, *BINARY_MATH, "pow")
INLINE_CALLS: Final = 8
"""Calls written out in one kernel; further ones call a shared helper."""
_EXPM1_RANGE: Final = {FLOAT32: (-18.0, 89.0), FLOAT64: (-40.0, 710.0)}
"""Beyond these expm1 is -1 and inf."""
_SINH_RANGE: Final = {FLOAT32: 89.5, FLOAT64: 710.5}
"""From here on sinh and cosh are inf."""
_NEGLIGIBLE: Final = {FLOAT32: 2.0**-26, FLOAT64: 2.0**-55}


def call(w: Writer, op: str, args: tuple[str, ...]) -> str:
    """`op` of float operands: written out, or a call of a helper function."""
    if op in TRIGONOMETRIC:
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
        if op in TRIGONOMETRIC:
            result = by_angle(inner, op, *parameters)
        else:
            result = _FORMULAS[op](inner, *parameters)
        code.line(f"ret {w.type} {result}")
        head = ", ".join([f"{w.type} {p}" for p in parameters])
        lines = [f"define internal {w.type} @{name}({head}) nounwind {{", "entry:"]
        w.code.functions.update(code.functions)
        w.code.functions[name] = "\n".join([*lines, *code.regions[0].lines, *code.failures, "}"])
        w.code.declarations.update(code.declarations)
    operands = ", ".join([f"{w.type} {a}" for a in args])
    return w.put(f"call {w.type} @{name}({operands})")


def exp(w: Writer, x: str) -> str:
    """2^n * exp(r), r = x - n ln 2."""
    shifted, r = reduce_by_ln2(w, x)
    return scale(w, exp_of_sum(w, r, None), shifted)


def log(w: Writer, x: str) -> str:
    """e ln 2 + log(1 + f) where x = 2^e (1 + f)."""
    return log_specials(w, x, _log_of_parts(w, *split_exponent(w, x)))


def _log_of_parts(w: Writer, e: str, f: str) -> str:
    """e ln 2 + log(1 + f) for 1 + f in [sqrt(1/2), sqrt(2)), `e` times 2^bits."""
    unit = 2.0 ** -MANTISSA[w.dtype]
    if w.dtype is FLOAT32:
        part = w.fma(w.mul(f, f), horner(w, f, table.LOG32), f)
        return w.fma(e, w.const(math.log(2) * unit), part)
    high, low = LN2[w.dtype]
    s = w.div(f, w.add(w.const(2.0), f))
    z = w.mul(s, s)
    # log(1+f) = f - s (f - R), with 2 s + s R = log((1+s)/(1-s))
    rest = w.fma(z, horner(w, z, table.LOG64), w.neg(f))
    small = w.fma(s, rest, w.mul(e, w.const(low * unit)))
    return w.fma(e, w.const(high * unit), w.add(f, small))


def log_specials(w: Writer, x: str, result: str) -> str:
    """log(0) = -inf, log(inf) = inf, NaN below zero."""
    result = w.select(w.compare("oeq", x, w.const(INF)), x, result)
    result = w.select(w.compare("oeq", x, w.const(0.0)), w.const(-INF), result)
    return w.select(w.compare("oge", x, w.const(0.0)), result, w.const(NAN))


def log1p(w: Writer, x: str) -> str:
    """log(2^e (1 + f)) with e from 1 + x rounded and f = x 2^-e + (2^-e - 1) from x itself."""
    i, bits = integers(w), MANTISSA[w.dtype]
    one, u = bits_of(w, 1.0), to_bits(w, w.add(x, w.const(1.0)))
    field = exponent_field(w, u)
    # 4 2^-e, since 2^-e may be subnormal
    part = from_bits(w, i.sub(i.const(one + (2 << bits)), field))
    f = w.fma(part, w.const(0.25), w.const(-1.0))
    f = w.fma(w.mul(x, w.const(0.25)), part, f)
    result = _log_of_parts(w, i.convert("sitofp", field, w.dtype), f)
    result = w.select(_is_ordinary(w, x), result, x)
    low = w.select(w.compare("oeq", x, w.const(-1.0)), w.const(-INF), w.const(NAN))
    return w.select(w.compare("ugt", x, w.const(-1.0)), result, low)


def _is_ordinary(w: Writer, x: str) -> str:
    """Whether x is finite and not so small that f(x) is x for an f(x) = x + a x^2 + ..."""
    i = integers(w)
    least, inf = bits_of(w, _NEGLIGIBLE[w.dtype]), bits_of(w, INF)
    size = i.sub(to_bits(w, absolute(w, x)), i.const(least))
    return i.compare("ult", size, i.const(inf - least))


def expm1(w: Writer, x: str) -> str:
    """2^n (exp(r) - 1) + (2^n - 1), halved because 2^n overflows one step before the result."""
    low, high = _EXPM1_RANGE[w.dtype]
    shifted, r = steps_of_ln2(w, at_most(w, at_least(w, x, low), high))
    name = table.EXP32 if w.dtype is FLOAT32 else table.EXP64
    grown = w.fma(w.mul(r, r), horner(w, r, name), r)
    half = shifted_power(w, shifted, -1)
    result = w.fma(half, grown, w.sub(half, w.const(0.5)))
    tiny = w.compare("olt", absolute(w, x), w.const(_NEGLIGIBLE[w.dtype]))
    return w.select(tiny, x, w.add(result, result))


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
    """x P(x^2) near 0, otherwise 1 - erfc(|x|)."""
    a, z, narrow = absolute(w, x), w.mul(x, x), w.dtype is FLOAT32
    near = w.mul(x, horner(w, z, table.ERF32 if narrow else table.ERF64))
    limited = at_most(w, a, 4.0 if narrow else 6.0)
    if narrow:
        far = w.sub(w.const(1.0), exp(w, horner(w, limited, table.ERFC32)))
    else:
        far = w.fma(w.neg(_gauss(w, z)), _scaled_erfc(w, limited), w.const(1.0))
    is_near = w.compare("olt", a, w.const(0.92 if narrow else 0.55))
    return w.select(is_near, near, copy_sign(w, far, x))


def _gauss(w: Writer, z: str) -> str:
    """exp(-z) = 2^(n + r) of 0 <= z, limited to 36; not to the last digit where it is small."""
    magic, z = w.const(MAGIC[w.dtype]), at_most(w, z, 36.0)
    shifted = w.fma(z, w.const(-LOG2E), magic)
    r = w.fma(z, w.const(-LOG2E), w.sub(magic, shifted))
    return scale_within(w, w.fma(r, horner(w, r, table.EXP2), w.const(1.0)), shifted)


def _scaled_erfc(w: Writer, a: str) -> str:
    """erfc(a) exp(a^2)."""
    middle = w.const(3.5)
    return horner(w, w.div(w.sub(a, middle), w.add(a, middle)), table.ERFC64)


def rsqrt(w: Writer, x: str) -> str:
    return w.div(w.const(1.0), w.intrinsic("sqrt", x))


def sinh(w: Writer, x: str) -> str:
    """sinh(n ln 2 + r) = cosh(n ln 2) sinh(r) + sinh(n ln 2) cosh(r), for |x|."""
    sine, cosine, plus, minus = _hyperbolic_parts(w, x)
    return copy_sign(w, w.fma(cosine, minus, w.mul(sine, plus)), x)


def cosh(w: Writer, x: str) -> str:
    """cosh(n ln 2 + r) = cosh(n ln 2) cosh(r) + sinh(n ln 2) sinh(r), for |x|."""
    sine, cosine, plus, minus = _hyperbolic_parts(w, x)
    return w.fma(cosine, plus, w.mul(sine, minus))  # that way nothing overflows too early


def _hyperbolic_parts(w: Writer, x: str) -> tuple[str, str, str, str]:
    """(2 sinh(r), 2 cosh(r), cosh(n ln 2) / 2, sinh(n ln 2) / 2), since 2^n may overflow."""
    narrow = w.dtype is FLOAT32
    shifted, r = steps_of_ln2(w, at_most(w, absolute(w, x), _SINH_RANGE[w.dtype]))
    double, z = w.add(r, r), w.mul(r, r)
    sine = horner(w, z, table.SINH32 if narrow else table.SINH64)
    sine = w.fma(w.mul(z, double), sine, double)
    coefficients = [2 * c for c in (1.0, *(table.COSH32 if narrow else table.COSH64))]
    cosine = horner(w, z, coefficients)
    # 2^-n / 4 may be subnormal
    up, down = shifted_power(w, shifted, -2), shifted_inverse(w, shifted, 3)
    plus = w.fma(down, w.const(2.0**-5), up)
    return sine, cosine, plus, w.fma(down, w.const(-(2.0**-5)), up)


def pow_(w: Writer, x: str, y: str) -> str:
    """|x|^y with C99's special cases; float32 in float64, to some 30 bits."""
    core = _pow64 if w.dtype is FLOAT64 else _pow32
    return _pow_specials(w, x, y, core(w, absolute(w, x), y))


def _pow32(w: Writer, size: str, y: str) -> str:
    """2^(y log2(size)) for size >= 0."""
    wide = w.of(FLOAT64)
    # a finite y times the logarithm of 1 is no NaN
    limit = 2.0**127
    y = w.convert("fpext", at_most(w, at_least(w, y, -limit), limit), FLOAT64)
    x = w.convert("fpext", size, FLOAT64)
    e, f = split_normal(wide, x)
    s = wide.div(f, wide.add(f, wide.const(2.0)))
    log2 = wide.mul(s, horner(wide, wide.mul(s, s), table.POWLOG32))
    log2 = wide.fma(e, wide.const(2.0**-52), log2)
    log2 = wide.select(wide.compare("oeq", x, wide.const(INF)), x, log2)
    log2 = wide.select(wide.compare("oeq", x, wide.const(0.0)), wide.const(-INF), log2)
    t = at_most(wide, at_least(wide, wide.mul(y, log2), -160.0), 160.0)
    magic = wide.const(MAGIC[FLOAT64])
    shifted = wide.add(t, magic)
    r = wide.sub(t, wide.sub(shifted, magic))
    power = scale_within(wide, horner(wide, r, table.POWEXP32), shifted)
    return wide.convert("fptrunc", power, w.dtype)


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
    shifted, r = reduce_by_ln2(w, product)
    return scale(w, exp_of_sum(w, r, rest), shifted)


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
    unit = 2.0**-52  # of e
    first, first_low = _sum(w, w.mul(e, w.const(ln2 * unit)), high)
    first_low = w.add(first_low, w.fma(e, w.const(ln2_low * unit), low))
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
    fraction = flags.binary("xor", whole, flags.const(True))
    result = w.select(flags.binary("and", below, fraction), w.const(NAN), result)
    is_one = flags.binary("or", w.compare("oeq", y, zero), w.compare("oeq", x, one))
    result = w.select(w.compare("uno", x, y), w.add(x, y), result)
    return w.select(is_one, one, result)


def _sign_bit(w: Writer, x: str) -> str:
    i = integers(w)
    return i.compare("slt", to_bits(w, x), i.const(0))


_Formula = Callable[..., str]
_FORMULAS: Final[dict[str, _Formula]] = {
    "exp": exp,
    "log": log,
    "log1p": log1p,
    "expm1": expm1,
    "sqrt": lambda w, x: w.intrinsic("sqrt", x),
    "rsqrt": rsqrt,
    "tanh": tanh,
    "sigmoid": sigmoid,
    "erf": erf,
    "sinh": sinh,
    "cosh": cosh,
    "pow": pow_,
    **TRIGONOMETRIC,
    **INVERSE,
}
