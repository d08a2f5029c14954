"""Steps that several elementary functions share: Horner's rule, bits, reduction by ln 2."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from tensorad.ir.dtypes import FLOAT32, FLOAT64, INT32, INT64
from tensorad.ir.elementary import polynomials as table
from tensorad.ir.elementary.emitter import Emitter

INF: Final = float("inf")
NAN: Final = float("nan")
LN2: Final = {
    FLOAT32: (0.693145751953125, 1.4286068203094173e-06),
    FLOAT64: (0.6931471805598903, 5.497923018708371e-14),
}
"""ln 2 as a short float, whose product with an exponent is exact, and the rest."""
LOG2E: Final = 1.4426950408889634
MAGIC: Final = {FLOAT32: 1.5 * 2.0**23, FLOAT64: 1.5 * 2.0**52}
"""Adding it rounds to an integer, which then stands in the low bits."""
_EXP_RANGE: Final = {FLOAT32: (-105.0, 90.0), FLOAT64: (-746.0, 711.0)}
"""Beyond these exp is 0 and inf."""
MANTISSA: Final = {FLOAT32: 23, FLOAT64: 52}
_BIAS: Final = {FLOAT32: 127, FLOAT64: 1023}
ROOT_HALF: Final = {FLOAT32: 0x3F3504F3, FLOAT64: 0x3FE6A09E667F3BCD}


def horner(w: Emitter, x: str, coefficients: Sequence[float]) -> str:
    """The polynomial with these coefficients, constant term first."""
    result = w.const(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        result = w.fma(result, x, w.const(c))
    return result


def absolute(w: Emitter, x: str) -> str:
    return w.intrinsic("fabs", x)


def copy_sign(w: Emitter, size: str, sign: str) -> str:
    return w.intrinsic("copysign", size, sign)


def integers(w: Emitter) -> Emitter:
    """The emitter of integers as wide as the floats."""
    return w.of(INT32 if w.dtype is FLOAT32 else INT64)


def to_bits(w: Emitter, x: str) -> str:
    return w.convert("bitcast", x, integers(w).dtype)


def from_bits(w: Emitter, i: str) -> str:
    return integers(w).convert("bitcast", i, w.dtype)


def at_least(w: Emitter, x: str, low: float) -> str:
    """x or `low` if it is below; NaN stays."""
    return w.select(w.compare("olt", x, w.const(low)), w.const(low), x)


def at_most(w: Emitter, x: str, high: float) -> str:
    """x or `high` if it is above; NaN stays."""
    return w.select(w.compare("ogt", x, w.const(high)), w.const(high), x)


def steps_of_ln2(w: Emitter, x: str) -> tuple[str, str]:
    """(n in the low bits of a float, r) with x = n ln 2 + r, of a limited x."""
    magic = w.const(MAGIC[w.dtype])
    shifted = w.fma(x, w.const(LOG2E), magic)
    n = w.sub(shifted, magic)
    first, second = LN2[w.dtype]
    r = w.fma(n, w.const(-first), x)
    return shifted, w.fma(n, w.const(-second), r)


def reduce_by_ln2(w: Emitter, x: str) -> tuple[str, str]:
    """(n in the low bits of a float, r) with x = n ln 2 + r; x is limited to where exp is neither
    0 nor inf."""
    low, high = _EXP_RANGE[w.dtype]
    return steps_of_ln2(w, at_most(w, at_least(w, x, low), high))


def bits_of(w: Emitter, value: float) -> int:
    """The bits of a float of this type, as an integer."""
    floats, whole = ("<f", "<i") if w.dtype is FLOAT32 else ("<d", "<q")
    (found,) = struct.unpack(whole, struct.pack(floats, value))
    return int(found)


def shifted_power(w: Emitter, shifted: str, more: int) -> str:
    """2^(n + more) for the n in the low bits of `shifted`: no more than a shift and a sum."""
    i, bits = integers(w), MANTISSA[w.dtype]
    field = i.binary("shl", to_bits(w, shifted), i.const(bits))
    return from_bits(w, i.add(field, i.const((_BIAS[w.dtype] + more) << bits)))


def shifted_inverse(w: Emitter, shifted: str, more: int) -> str:
    """2^(more - n) for the n in the low bits of `shifted`."""
    i, bits = integers(w), MANTISSA[w.dtype]
    field = i.binary("shl", to_bits(w, shifted), i.const(bits))
    return from_bits(w, i.sub(i.const((_BIAS[w.dtype] + more) << bits), field))


def exp_of_sum(w: Emitter, r: str, rest: str | None) -> str:
    """exp(r + rest) for |r| <= ln(2)/2 and a tiny rest."""
    if rest is None:
        return horner(w, r, table.POWER32 if w.dtype is FLOAT32 else (1.0, 1.0, *table.EXP64))
    p = horner(w, r, table.EXP32 if w.dtype is FLOAT32 else table.EXP64)
    grown = w.fma(w.mul(r, r), p, r)
    # exp(r + d) - 1 = (exp(r) - 1) + d exp(r)
    grown = w.add(grown, w.fma(rest, grown, rest))
    return w.add(grown, w.const(1.0))


def scale_within(w: Emitter, x: str, shifted: str) -> str:
    """x 2^n for the n in the low bits of `shifted`, where neither x nor the result is special."""
    i, bits = integers(w), MANTISSA[w.dtype]
    field = i.binary("shl", to_bits(w, shifted), i.const(bits))
    return from_bits(w, i.add(to_bits(w, x), field))


def power_of_two(w: Emitter, n: str) -> str:
    """2^n of whole numbers, for n where it is normal; `w` writes floats."""
    i, bits = integers(w), MANTISSA[w.dtype]
    return from_bits(w, i.binary("shl", i.add(n, i.const(_BIAS[w.dtype])), i.const(bits)))


def split_exponent(w: Emitter, x: str) -> tuple[str, str]:
    """(e 2^bits as a float, f) with x = 2^e (1 + f) and 1 + f in [sqrt(1/2), sqrt(2))."""
    bits = MANTISSA[w.dtype]
    tiny = 2.0 ** (-126 if w.dtype is FLOAT32 else -1022)
    subnormal = w.compare("olt", x, w.const(tiny))
    raised = w.select(subnormal, w.mul(x, w.const(2.0**bits)), x)
    exponent, f = split_normal(w, raised)
    lowered = w.sub(exponent, w.const(bits * 2.0**bits))
    return w.select(subnormal, lowered, exponent), f


def split_normal(w: Emitter, x: str) -> tuple[str, str]:
    """The same of an x that is not subnormal."""
    i = integers(w)
    b = to_bits(w, x)
    field = exponent_field(w, b)
    mantissa = from_bits(w, i.sub(b, field))
    return i.convert("sitofp", field, w.dtype), w.sub(mantissa, w.const(1.0))


def exponent_field(w: Emitter, bits: str) -> str:
    """e 2^mantissa for the bits of 2^e (1 + f) with 1 + f in [sqrt(1/2), sqrt(2))."""
    i = integers(w)
    above = i.sub(bits, i.const(ROOT_HALF[w.dtype]))
    return i.binary("and", above, i.const(-(1 << MANTISSA[w.dtype])))
