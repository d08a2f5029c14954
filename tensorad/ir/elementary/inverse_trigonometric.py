"""Inverse trigonometric functions."""

from __future__ import annotations

from typing import Final

import numpy as np

from tensorad.ir.dtypes import FLOAT32, FLOAT64
from tensorad.ir.elementary import polynomials as table
from tensorad.ir.elementary.emitter import Emitter
from tensorad.ir.elementary.steps import INF, absolute, copy_sign, horner, integers, to_bits
from tensorad.ir.elementary.table import Elementary, Partials, Sign, apply
from tensorad.ir.nodes import Expr

_HALF_PI: Final = {
    FLOAT32: (1.5707963705062866, -4.371138828673793e-08),
    FLOAT64: (1.5707963267948966, 6.123233995736766e-17),
}
_TINY: Final = {FLOAT32: 2.0**-149, FLOAT64: 5e-324}
_EIGHTH: Final = 0.41421356237309503
"""tan(pi/8)"""


def _atan_polynomial(w: Emitter, s: str) -> str:
    """atan of |s| <= 1 in float32, of |s| <= tan(pi/8) in float64."""
    z = w.mul(s, s)
    p = horner(w, z, table.ATAN32 if w.dtype is FLOAT32 else table.ATAN64)
    return w.fma(w.mul(z, s), p, s)


def _less_than_multiple(w: Emitter, value: str, quarters: int) -> str:
    """quarters pi/4 - value."""
    high, low = (part * quarters / 2 for part in _HALF_PI[w.dtype])
    return w.add(w.sub(w.const(high), value), w.const(low))


def atan(w: Emitter, x: str) -> str:
    """In float32 pi/2 + atan(-1/|x|) beyond 1; in float64 also pi/4 + atan((|x|-1)/(|x|+1))."""
    a, one, zero = absolute(w, x), w.const(1.0), w.const(0.0)
    steep = w.compare("ogt", a, w.const(1.0 if w.dtype is FLOAT32 else 1 / _EIGHTH))
    top = w.select(steep, w.const(-1.0), a)
    bottom = w.select(steep, a, one)
    high, low = _HALF_PI[w.dtype]
    base, rest = w.select(steep, w.const(high), zero), w.select(steep, w.const(low), zero)
    if w.dtype is FLOAT64:
        low_end = w.compare("olt", a, w.const(_EIGHTH))
        top = w.select(steep, top, w.select(low_end, a, w.sub(a, one)))
        bottom = w.select(steep, a, w.select(low_end, one, w.add(a, one)))
        base = w.select(steep, base, w.select(low_end, zero, w.const(high / 2)))
        rest = w.select(steep, rest, w.select(low_end, zero, w.const(low / 2)))
    value = _atan_polynomial(w, w.div(top, bottom))
    return copy_sign(w, w.add(base, w.add(value, rest)), x)


def _atan_unit(w: Emitter, t: str) -> str:
    """atan of 0 <= t <= 1; in float64 above tan(pi/8) as pi/4 + atan((t - 1)/(t + 1))."""
    if w.dtype is FLOAT32:
        return _atan_polynomial(w, t)
    one = w.const(1.0)
    large = w.compare("ogt", t, w.const(_EIGHTH))
    turned = w.div(w.sub(t, one), w.add(t, one))
    value = _atan_polynomial(w, w.select(large, turned, t))
    high, low = _HALF_PI[FLOAT64]
    quarter = w.add(w.const(high / 2), w.add(value, w.const(low / 2)))
    return w.select(large, quarter, value)


def atan2(w: Emitter, y: str, x: str) -> str:
    """The angle of (x, y), in [-pi, pi]."""
    top, bottom = absolute(w, y), absolute(w, x)
    steep = w.compare("ogt", top, bottom)
    small, large = w.select(steep, bottom, top), w.select(steep, top, bottom)
    tiny = w.const(_TINY[w.dtype])
    ratio = w.div(small, w.select(w.compare("ogt", tiny, large), tiny, large))
    ratio = w.select(w.compare("oeq", small, w.const(INF)), w.const(1.0), ratio)
    value = _atan_unit(w, ratio)
    value = w.select(steep, _less_than_multiple(w, value, 2), value)
    i = integers(w)
    left = i.compare("slt", to_bits(w, x), i.const(0))
    value = w.select(left, _less_than_multiple(w, value, 4), value)
    return w.select(w.compare("uno", x, y), w.add(x, y), copy_sign(w, value, y))


def _asin_parts(w: Emitter, x: str) -> tuple[str, str]:
    """(|x| <= 1/2, asin(x) there and asin(sqrt((1-|x|)/2)) beyond)."""
    a, half = absolute(w, x), w.const(0.5)
    small = w.compare("ole", a, half)
    rest = w.fma(a, w.const(-0.5), half)
    z = w.select(small, w.mul(x, x), rest)
    s = w.select(small, x, w.intrinsic("sqrt", rest))
    p = horner(w, z, table.ASIN32 if w.dtype is FLOAT32 else table.ASIN64)
    return small, w.fma(w.mul(z, s), p, s)


def asin(w: Emitter, x: str) -> str:
    """pi/2 - 2 asin(sqrt((1-|x|)/2)) beyond 1/2."""
    small, value = _asin_parts(w, x)
    far = copy_sign(w, _less_than_multiple(w, w.add(value, value), 2), x)
    return w.select(small, value, far)


def acos(w: Emitter, x: str) -> str:
    """pi/2 - asin(x), and 2 asin(sqrt((1-|x|)/2)) turned round for negative x beyond 1/2."""
    small, value = _asin_parts(w, x)
    double = w.add(value, value)
    left = w.compare("olt", x, w.const(0.0))
    far = w.select(left, _less_than_multiple(w, double, 4), double)
    return w.select(small, _less_than_multiple(w, value, 2), far)


def _one_minus_square(x: Expr) -> Expr:
    return (1 - x) * (1 + x)  # accurate near |x| = 1


def _atan2_partials(y: Expr, a: Expr, b: Expr) -> Partials:
    norm = a * a + b * b  # NaN at the origin
    return (b / norm, -(a / norm))


ROWS: Final = (
    Elementary(
        name="asin",
        meaning="The angle in [-pi/2, pi/2] whose sine is x.",
        value=np.arcsin,
        partials=lambda y, x: (apply("rsqrt", _one_minus_square(x)),),  # inf at |x| = 1
        code=asin,
        sampled=(-1, 1),
        slopes_at=(-0.6, 0.7),
        ufunc="arcsin",
    ),
    Elementary(
        name="acos",
        meaning="The angle in [0, pi] whose cosine is x.",
        value=np.arccos,
        partials=lambda y, x: (-apply("rsqrt", _one_minus_square(x)),),  # -inf at |x| = 1
        code=acos,
        sampled=(-1, 1),
        slopes_at=(-0.6, 0.7),
        ufunc="arccos",
    ),
    Elementary(
        name="atan",
        meaning="The angle in (-pi/2, pi/2) whose tangent is x.",
        value=np.arctan,
        partials=lambda y, x: (1 / (1 + x * x),),
        code=atan,
        sampled=(-20, 20),
        ufunc="arctan",
        finite_from=Sign.ANY,
        keeps_sign=True,
    ),
    Elementary(
        name="atan2",
        meaning="The angle of the point (b, a), in (-pi, pi].",
        value=np.arctan2,
        partials=_atan2_partials,
        code=atan2,
        sampled=(-10, 10),
        arity=2,
        ufunc="arctan2",
        finite_from=Sign.ANY,
    ),
)
