"""Sine, cosine and tangent in LLVM IR.

The angle is reduced by the nearest multiple of pi (of pi/2 for the tangent) in three fused steps:
the first is exact because the multiple of a constant with as many digits as a float is; from
`LIMIT` on the reduction in `vmath_far` takes over, in those lanes alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tensorad.codegen.llvm.math import tables as table
from tensorad.codegen.llvm.math.emit import MAGIC, absolute, from_bits, horner, integers, to_bits
from tensorad.codegen.llvm.math.far_angles import define_far, far_lanes
from tensorad.codegen.llvm.text import Writer
from tensorad.ir.dtypes import FLOAT32, FLOAT64

_PI: Final = {
    FLOAT32: (3.141592502593994, 1.5099578831723193e-07, 1.078060505991553e-14),
    FLOAT64: (3.141592653589793, 1.224646799147353e-16, 2.1657133478438278e-32),
}
"""Rounded down: with all parts positive the rest of -0.0 is -0.0."""
_INVERSE_PI: Final = 0.3183098861837907
LIMIT: Final = {FLOAT32: 2.0**16, FLOAT64: 2.0**26}
"""Three steps are exact enough below."""


def _reduced(w: Writer, x: str, n: str, unit: float) -> str:
    """x - n unit pi."""
    for part in _PI[w.dtype]:
        x = w.fma(n, w.const(-part * unit), x)
    return x


def _sine(w: Writer, r: str) -> str:
    """Of |r| <= pi/2."""
    z = w.mul(r, r)
    p = horner(w, z, table.SIN32 if w.dtype is FLOAT32 else table.SIN64)
    return w.fma(w.mul(z, r), p, r)


def _parity_sign(w: Writer, shifted: str) -> str:
    """The sign bit alone, set where the whole number in the low bits is odd."""
    i = integers(w)
    return i.binary("shl", to_bits(w, shifted), i.const(w.dtype.bits - 1))


def sin(w: Writer, x: str) -> str:
    """sin(n pi + r) = (-1)^n sin(r), for |x|; then the sign of x."""
    magic, i = w.const(MAGIC[w.dtype]), integers(w)
    a = absolute(w, x)
    shifted = w.fma(a, w.const(_INVERSE_PI), magic)
    r = _reduced(w, a, w.sub(shifted, magic), 1.0)
    own = i.binary("and", to_bits(w, x), i.const(-(1 << (w.dtype.bits - 1))))
    sign = i.binary("xor", _parity_sign(w, shifted), own)
    return from_bits(w, i.binary("xor", to_bits(w, _sine(w, r)), sign))


def cos(w: Writer, x: str) -> str:
    """sin(x + pi/2), where x = (n - 1/2) pi + r."""
    magic, half, i = w.const(MAGIC[w.dtype]), w.const(0.5), integers(w)
    shifted = w.add(w.fma(x, w.const(_INVERSE_PI), half), magic)
    r = _reduced(w, x, w.sub(w.sub(shifted, magic), half), 1.0)
    return from_bits(w, i.binary("xor", to_bits(w, _sine(w, r)), _parity_sign(w, shifted)))


def tan(w: Writer, x: str) -> str:
    """With t the tangent of half the rest, 2 t / (1 - t^2) or its negative inverse."""
    magic, i = w.const(MAGIC[w.dtype]), integers(w)
    shifted = w.fma(x, w.const(2 * _INVERSE_PI), magic)
    r = _reduced(w, x, w.sub(shifted, magic), 0.5)
    odd = i.compare("slt", _parity_sign(w, shifted), i.const(0))
    return _tangent(w, r, odd)


def _tangent(w: Writer, r: str, odd: str) -> str:
    """tan(r), or -1/tan(r) where `odd`, for |r| <= pi/4."""
    z = w.mul(r, r)
    p = horner(w, z, table.TAN32 if w.dtype is FLOAT32 else table.TAN64)
    double = w.fma(w.mul(z, r), p, r)
    square = w.fma(w.mul(double, w.const(0.25)), double, w.const(-1.0))
    top = w.select(odd, square, double)
    bottom = w.select(odd, double, w.neg(square))
    return w.div(top, bottom)


def _signed_sine(w: Writer, r: str, odd: str) -> str:
    s = _sine(w, r)
    return w.select(odd, w.neg(s), s)


_FAR: Final = {
    "sin": (0.0, 2, _signed_sine),
    "cos": (0.25, 2, _signed_sine),
    "tan": (0.0, 4, _tangent),
}


def by_angle(w: Writer, op: str, x: str) -> str:
    """sin, cos or tan of any angle, where blocks may be begun."""
    define_far(w.code, op, *_FAR[op])
    near = TRIGONOMETRIC[op](w, x)
    far_lanes(w, op, LIMIT[w.dtype], x, near)
    return near


TRIGONOMETRIC: Final[dict[str, Callable[..., str]]] = {"sin": sin, "cos": cos, "tan": tan}
