"""Sine, cosine and tangent.

The angle is reduced by the nearest multiple of pi (of pi/2 for the tangent) in three fused steps:
the first is exact because the multiple of a constant with as many digits as a float is; from
`LIMIT` on the fraction of a turn is found from the angle's bits, in those lanes (`FarAngles`).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tensorad.ir.dtypes import FLOAT32, FLOAT64
from tensorad.ir.elementary import polynomials as table
from tensorad.ir.elementary.emitter import Emitter
from tensorad.ir.elementary.steps import MAGIC, absolute, from_bits, horner, integers, to_bits
from tensorad.ir.elementary.table import Elementary, FarAngles, Sign, apply

_PI: Final = {
    FLOAT32: (3.141592502593994, 1.5099578831723193e-07, 1.078060505991553e-14),
    FLOAT64: (3.141592653589793, 1.224646799147353e-16, 2.1657133478438278e-32),
}
"""Rounded down: with all parts positive the rest of -0.0 is -0.0."""
_INVERSE_PI: Final = 0.3183098861837907
LIMIT: Final = {FLOAT32: 2.0**16, FLOAT64: 2.0**26}
"""Three steps are exact enough below."""


def _reduced(w: Emitter, x: str, n: str, unit: float) -> str:
    """x - n unit pi."""
    for part in _PI[w.dtype]:
        x = w.fma(n, w.const(-part * unit), x)
    return x


def _sine(w: Emitter, r: str) -> str:
    """Of |r| <= pi/2."""
    z = w.mul(r, r)
    p = horner(w, z, table.SIN32 if w.dtype is FLOAT32 else table.SIN64)
    return w.fma(w.mul(z, r), p, r)


def _parity_sign(w: Emitter, shifted: str) -> str:
    """The sign bit alone, set where the whole number in the low bits is odd."""
    i = integers(w)
    return i.binary("shl", to_bits(w, shifted), i.const(w.dtype.bits - 1))


def sin(w: Emitter, x: str) -> str:
    """sin(n pi + r) = (-1)^n sin(r), for |x|; then the sign of x."""
    magic, i = w.const(MAGIC[w.dtype]), integers(w)
    a = absolute(w, x)
    shifted = w.fma(a, w.const(_INVERSE_PI), magic)
    r = _reduced(w, a, w.sub(shifted, magic), 1.0)
    own = i.binary("and", to_bits(w, x), i.const(-(1 << (w.dtype.bits - 1))))
    sign = i.binary("xor", _parity_sign(w, shifted), own)
    return from_bits(w, i.binary("xor", to_bits(w, _sine(w, r)), sign))


def cos(w: Emitter, x: str) -> str:
    """sin(x + pi/2), where x = (n - 1/2) pi + r."""
    magic, half, i = w.const(MAGIC[w.dtype]), w.const(0.5), integers(w)
    shifted = w.add(w.fma(x, w.const(_INVERSE_PI), half), magic)
    r = _reduced(w, x, w.sub(w.sub(shifted, magic), half), 1.0)
    return from_bits(w, i.binary("xor", to_bits(w, _sine(w, r)), _parity_sign(w, shifted)))


def tan(w: Emitter, x: str) -> str:
    """With t the tangent of half the rest, 2 t / (1 - t^2) or its negative inverse."""
    magic, i = w.const(MAGIC[w.dtype]), integers(w)
    shifted = w.fma(x, w.const(2 * _INVERSE_PI), magic)
    r = _reduced(w, x, w.sub(shifted, magic), 0.5)
    odd = i.compare("slt", _parity_sign(w, shifted), i.const(0))
    return _tangent(w, r, odd)


def _tangent(w: Emitter, r: str, odd: str) -> str:
    """tan(r), or -1/tan(r) where `odd`, for |r| <= pi/4."""
    z = w.mul(r, r)
    p = horner(w, z, table.TAN32 if w.dtype is FLOAT32 else table.TAN64)
    double = w.fma(w.mul(z, r), p, r)
    square = w.fma(w.mul(double, w.const(0.25)), double, w.const(-1.0))
    top = w.select(odd, square, double)
    bottom = w.select(odd, double, w.neg(square))
    return w.div(top, bottom)


def _signed_sine(w: Emitter, r: str, odd: str) -> str:
    s = _sine(w, r)
    return w.select(odd, w.neg(s), s)


ROWS: Final = (
    Elementary(
        name="sin",
        meaning="The sine of x radians.",
        value=np.sin,
        partials=lambda y, x: (apply("cos", x),),
        code=sin,
        sampled=(-1e5, 1e5),
        far=FarAngles(limit=LIMIT, turn=0.0, parts=2, code=_signed_sine),
        finite_from=Sign.ANY,
    ),
    Elementary(
        name="cos",
        meaning="The cosine of x radians.",
        value=np.cos,
        partials=lambda y, x: (-apply("sin", x),),
        code=cos,
        sampled=(-1e5, 1e5),
        far=FarAngles(limit=LIMIT, turn=0.25, parts=2, code=_signed_sine),
        finite_from=Sign.ANY,
    ),
    Elementary(
        name="tan",
        meaning="The tangent of x radians.",
        value=np.tan,
        partials=lambda y, x: (1 + y * y,),
        code=tan,
        sampled=(-1e4, 1e4),
        far=FarAngles(limit=LIMIT, turn=0.0, parts=4, code=_tangent),
    ),
)
