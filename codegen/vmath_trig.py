"""Sine, cosine, tangent and their inverses in LLVM IR."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tensorad.codegen import vmath_tables as table
from tensorad.codegen.llvm_text import Writer
from tensorad.codegen.vmath_write import (
    INF,
    absolute,
    copy_sign,
    horner,
    in_float64,
    integers,
    to_bits,
)
from tensorad.ir.dtypes import BOOL, FLOAT32, FLOAT64

_HALF_PI: Final = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
_PI_LOW: Final = 1.2246467991473532e-16
_MAGIC: Final = 1.5 * 2.0**52

far_from_zero: Final = {"sin": 2.0**30, "cos": 2.0**30, "tan": 2.0**30}
"""From here on the reduction by pi/2 is not exact enough; the C library takes over."""


def _reduce(w: Writer, x: str) -> tuple[str, str]:
    """(quadrant in the low bits of an integer, r) with x = quadrant pi/2 + r, in float64."""
    magic = w.const(_MAGIC)
    shifted = w.fma(x, w.const(0.6366197723675814), magic)
    n = w.sub(shifted, magic)
    r = x
    for part in _HALF_PI:
        r = w.fma(n, w.const(-part), r)
    return to_bits(w, shifted), r


def _sine_and_cosine(w: Writer, r: str) -> tuple[str, str]:
    """Of |r| <= pi/4."""
    narrow = w.dtype is FLOAT32
    z = w.mul(r, r)
    sine = horner(w, z, table.SIN32 if narrow else table.SIN64)
    sine = w.fma(w.mul(z, r), sine, r)
    cosine = horner(w, z, table.COS32 if narrow else table.COS64)
    half = w.mul(z, w.const(0.5))
    # 1 - z/2 loses low bits of z/2, which are added back
    main = w.sub(w.const(1.0), half)
    lost = w.sub(w.sub(w.const(1.0), main), half)
    cosine = w.add(main, w.fma(w.mul(z, z), cosine, lost))
    return sine, cosine


def _turned(w: Writer, x: str, quarter: int) -> str:
    """sin(x + quarter pi/2)."""
    wide = w.of(FLOAT64)
    q, r = _reduce(wide, x if w.dtype is FLOAT64 else w.convert("fpext", x, FLOAT64))
    i = integers(wide)
    q = i.add(q, i.const(quarter)) if quarter else q
    r = r if w.dtype is FLOAT64 else wide.convert("fptrunc", r, w.dtype)
    sine, cosine = _sine_and_cosine(w, r)
    odd = i.compare("ne", i.binary("and", q, i.const(1)), i.const(0))
    back = i.compare("ne", i.binary("and", q, i.const(2)), i.const(0))
    result = w.select(odd, cosine, sine)
    return w.select(back, w.neg(result), result)


def sin(w: Writer, x: str) -> str:
    """By quadrant; sin(-0.0) is -0.0."""
    result = _turned(w, x, 0)
    return w.select(w.compare("oeq", x, w.const(0.0)), x, result)


def cos(w: Writer, x: str) -> str:
    """sin(x + pi/2)."""
    return _turned(w, x, 1)


def tan(w: Writer, x: str) -> str:
    """sine / cosine of the rest, or its negative inverse."""
    q, r = _reduce(w, x)
    i = integers(w)
    sine, cosine = _sine_and_cosine(w, r)
    odd = i.compare("ne", i.binary("and", q, i.const(1)), i.const(0))
    top = w.select(odd, w.neg(cosine), sine)
    bottom = w.select(odd, sine, cosine)
    return w.select(w.compare("oeq", x, w.const(0.0)), x, w.div(top, bottom))


def _atan_unit(w: Writer, t: str) -> str:
    """atan of 0 <= t <= 1; above tan(pi/8) as pi/4 + atan((t - 1)/(t + 1))."""
    one = w.const(1.0)
    large = w.compare("ogt", t, w.const(0.41421356237309503))
    turned = w.div(w.sub(t, one), w.add(t, one))
    s = w.select(large, turned, t)
    z = w.mul(s, s)
    value = w.fma(w.mul(z, s), horner(w, z, table.ATAN64), s)
    quarter = w.add(w.const(_HALF_PI[0] / 2), w.add(value, w.const(_HALF_PI[1] / 2)))
    return w.select(large, quarter, value)


def _from_half_pi(w: Writer, value: str) -> str:
    """pi/2 - value."""
    return w.add(w.sub(w.const(_HALF_PI[0]), value), w.const(_HALF_PI[1]))


def atan(w: Writer, x: str) -> str:
    """pi/2 - atan(1/|x|) beyond 1."""
    a = absolute(w, x)
    steep = w.compare("ogt", a, w.const(1.0))
    value = _atan_unit(w, w.select(steep, w.div(w.const(1.0), a), a))
    return copy_sign(w, w.select(steep, _from_half_pi(w, value), value), x)


def atan2(w: Writer, y: str, x: str) -> str:
    """The angle of (x, y), in [-pi, pi]."""
    flags, zero = w.of(BOOL), w.const(0.0)
    top, bottom = absolute(w, y), absolute(w, x)
    steep = w.compare("ogt", top, bottom)
    small, large = w.select(steep, bottom, top), w.select(steep, top, bottom)
    ratio = w.div(small, large)
    ratio = w.select(w.compare("oeq", large, zero), zero, ratio)
    diagonal = w.compare("oeq", small, w.const(INF))
    ratio = w.select(diagonal, w.const(1.0), ratio)
    value = _atan_unit(w, ratio)
    value = w.select(steep, _from_half_pi(w, value), value)
    i = integers(w)
    left = i.compare("slt", to_bits(w, x), i.const(0))
    turned = w.add(w.sub(w.const(2 * _HALF_PI[0]), value), w.const(_PI_LOW))
    value = copy_sign(w, w.select(left, turned, value), y)
    nan = flags.binary("or", w.compare("uno", x, x), w.compare("uno", y, y))
    return w.select(nan, w.add(x, y), value)


def _asin_parts(w: Writer, x: str) -> tuple[str, str, str]:
    """(|x| <= 1/2, asin(x) there, asin(sqrt((1-|x|)/2)) beyond)."""
    a = absolute(w, x)
    small = w.compare("ole", a, w.const(0.5))
    rest = w.mul(w.sub(w.const(1.0), a), w.const(0.5))
    z = w.select(small, w.mul(x, x), rest)
    s = w.select(small, x, w.intrinsic("sqrt", rest))
    value = w.fma(w.mul(z, s), horner(w, z, table.ASIN64), s)
    return small, value, value


def asin(w: Writer, x: str) -> str:
    """pi/2 - 2 asin(sqrt((1-|x|)/2)) beyond 1/2."""
    small, inner, outer = _asin_parts(w, x)
    far = copy_sign(w, _from_half_pi(w, w.add(outer, outer)), x)
    return w.select(small, inner, far)


def acos(w: Writer, x: str) -> str:
    """pi/2 - asin(x), and 2 asin(sqrt((1-|x|)/2)) turned round for negative x beyond 1/2."""
    small, inner, outer = _asin_parts(w, x)
    double = w.add(outer, outer)
    turned = w.add(w.sub(w.const(2 * _HALF_PI[0]), double), w.const(_PI_LOW))
    far = w.select(w.compare("olt", x, w.const(0.0)), turned, double)
    return w.select(small, _from_half_pi(w, inner), far)


TRIGONOMETRIC: Final[dict[str, Callable[..., str]]] = {
    "sin": sin,
    "cos": cos,
    "tan": in_float64(tan),
    "asin": in_float64(asin),
    "acos": in_float64(acos),
    "atan": in_float64(atan),
    "atan2": in_float64(atan2),
}
