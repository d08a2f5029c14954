"""Exponentials, logarithms and roots."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from tensorad.ir.dtypes import FLOAT32, FLOAT64
from tensorad.ir.elementary import polynomials as table
from tensorad.ir.elementary.cost import ROOT
from tensorad.ir.elementary.emitter import Emitter
from tensorad.ir.elementary.steps import (
    INF,
    LN2,
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
    shifted_power,
    split_exponent,
    steps_of_ln2,
    to_bits,
)
from tensorad.ir.elementary.table import Elementary, Sign, apply
from tensorad.ir.elementary.two_floats import in_float64, log_two_floats, times

_EXPM1_RANGE: Final = {FLOAT32: (-18.0, 89.0), FLOAT64: (-40.0, 710.0)}
"""Beyond these expm1 is -1 and inf."""
_LN2: Final = (0.6931471805599453, 2.3190468138462996e-17)
_LOG2E: Final = (1.4426950408889634, 2.0355273740931033e-17)
_LOG10E: Final = (0.4342944819032518, 1.098319650216765e-17)
"""In two floats."""
_CBRT2: Final = 2 ** (1 / 3)
_NEGLIGIBLE: Final = {FLOAT32: 2.0**-26, FLOAT64: 2.0**-55}


def exp(w: Emitter, x: str) -> str:
    """2^n * exp(r), r = x - n ln 2."""
    shifted, r = reduce_by_ln2(w, x)
    return w.scaled(exp_of_sum(w, r, None), shifted)


def expm1(w: Emitter, x: str) -> str:
    """2^n (exp(r) - 1) + (2^n - 1), halved because 2^n overflows one step before the result."""
    low, high = _EXPM1_RANGE[w.dtype]
    shifted, r = steps_of_ln2(w, at_most(w, at_least(w, x, low), high))
    name = table.EXP32 if w.dtype is FLOAT32 else table.EXP64
    grown = w.fma(w.mul(r, r), horner(w, r, name), r)
    half = shifted_power(w, shifted, -1)
    result = w.fma(half, grown, w.sub(half, w.const(0.5)))
    tiny = w.compare("olt", absolute(w, x), w.const(_NEGLIGIBLE[w.dtype]))
    return w.select(tiny, x, w.add(result, result))


def log(w: Emitter, x: str) -> str:
    """e ln 2 + log(1 + f) where x = 2^e (1 + f)."""
    return log_specials(w, x, _log_of_parts(w, *split_exponent(w, x)))


def _log_of_parts(w: Emitter, e: str, f: str) -> str:
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


def log_specials(w: Emitter, x: str, result: str) -> str:
    """log(0) = -inf, log(inf) = inf, NaN below zero."""
    result = w.select(w.compare("oeq", x, w.const(INF)), x, result)
    result = w.select(w.compare("oeq", x, w.const(0.0)), w.const(-INF), result)
    return w.select(w.compare("oge", x, w.const(0.0)), result, w.const(NAN))


def log1p(w: Emitter, x: str) -> str:
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


def _is_ordinary(w: Emitter, x: str) -> str:
    """Whether x is finite and not so small that f(x) is x for an f(x) = x + a x^2 + ..."""
    i = integers(w)
    least, inf = bits_of(w, _NEGLIGIBLE[w.dtype]), bits_of(w, INF)
    size = i.sub(to_bits(w, absolute(w, x)), i.const(least))
    return i.compare("ult", size, i.const(inf - least))


def _rsqrt(w: Emitter, x: str) -> str:
    return w.div(w.const(1.0), w.intrinsic("sqrt", x))


@in_float64
def _exp2(w: Emitter, x: str) -> str:
    """2^n exp(r ln 2), the product in two floats."""
    x, magic = at_most(w, at_least(w, x, -1080.0), 1030.0), w.const(MAGIC[FLOAT64])
    shifted = w.add(x, magic)
    r = w.sub(x, w.sub(shifted, magic))
    high = w.mul(r, w.const(_LN2[0]))
    low = w.fma(r, w.const(_LN2[1]), w.fma(r, w.const(_LN2[0]), w.neg(high)))
    return w.scaled(exp_of_sum(w, high, low), shifted)


def _log_by(high: float, low: float) -> Callable[..., str]:
    """The logarithm times high + low."""

    @in_float64
    def code(w: Emitter, x: str) -> str:
        return log_specials(w, x, times(w, log_two_floats(w, x), high, low))

    return code


@in_float64
def _cbrt(w: Emitter, x: str) -> str:
    """2^q m^(1/3) for m near 1: a parabola, two steps of Halley's, one of Newton's with the residue
    in two floats."""
    a, magic, three = absolute(w, x), w.const(MAGIC[FLOAT64]), w.const(3.0)
    field, f = split_exponent(w, a)
    e = w.mul(field, w.const(2.0**-52))
    shifted = w.fma(e, w.const(1 / 3), magic)
    s = w.fma(w.sub(shifted, magic), w.const(-3.0), e)
    up, down = w.compare("ogt", s, w.const(0.5)), w.compare("olt", s, w.const(-0.5))
    factor = w.select(up, w.const(2.0), w.select(down, w.const(0.5), w.const(1.0)))
    root = w.select(up, w.const(_CBRT2), w.select(down, w.const(1 / _CBRT2), w.const(1.0)))
    m = w.fma(f, factor, factor)
    y = w.mul(root, horner(w, f, (1.0, 1 / 3, -1 / 9)))
    for _ in range(2):
        cube = w.mul(w.mul(y, y), y)
        top, bottom = w.fma(m, w.const(2.0), cube), w.fma(cube, w.const(2.0), m)
        y = w.mul(y, w.div(top, bottom))
    square = w.mul(y, y)
    rest = w.fma(y, y, w.neg(square))
    residue = w.fma(rest, y, w.fma(square, y, w.neg(m)))
    y = w.sub(y, w.div(residue, w.mul(three, square)))
    result = copy_sign(w, w.scaled(y, shifted), x)
    finite = w.compare("olt", a, w.const(INF))
    result = w.select(finite, result, x)
    return w.select(w.compare("oeq", a, w.const(0.0)), x, result)


ROWS: Final = (
    Elementary(
        name="exp",
        meaning="e to the power x.",
        value=np.exp,
        partials=lambda y, x: (y,),
        code=exp,
        sampled=(-104, 89),
        latex="e^#",
        finite_from=Sign.ANY,
        sign=Sign.POSITIVE,
    ),
    Elementary(
        name="log",
        meaning="The natural logarithm; NaN below 0, -inf at 0.",
        value=np.log,
        partials=lambda y, x: (1 / x,),  # inf at 0
        code=log,
        sampled=(0, 1e4),
        slopes_at=(0.3, 2.0),
        finite_from=Sign.POSITIVE,
    ),
    Elementary(
        name="log1p",
        meaning="log(1 + x), exact near 0.",
        value=np.log1p,
        partials=lambda y, x: (1 / (1 + x),),
        code=log1p,
        sampled=(-1, 1e3),
        slopes_at=(-0.4, 2.0),
        finite_from=Sign.NONNEGATIVE,
        keeps_sign=True,
    ),
    Elementary(
        name="expm1",
        meaning="exp(x) - 1, exact near 0.",
        value=np.expm1,
        partials=lambda y, x: (apply("exp", x),),
        code=expm1,
        sampled=(-20, 89),
        finite_from=Sign.ANY,
        keeps_sign=True,
    ),
    Elementary(
        name="sqrt",
        meaning="The square root; NaN below 0.",
        value=np.sqrt,
        partials=lambda y, x: (0.5 / y,),  # inf at 0
        code=lambda w, x: w.intrinsic("sqrt", x),
        sampled=(0, 1e9),
        slopes_at=(0.3, 2.0),
        cost=ROOT,
        latex="#^1/2",
        finite_from=Sign.NONNEGATIVE,
        sign=Sign.NONNEGATIVE,
        keeps_sign=True,
    ),
    Elementary(
        name="rsqrt",
        meaning="1 / sqrt(x).",
        value=lambda x: 1.0 / np.sqrt(x),
        partials=lambda y, x: (-0.5 * y / x,),
        code=_rsqrt,
        sampled=(0, 1e9),
        slopes_at=(0.3, 2.0),
        cost=ROOT,
        finite_from=Sign.POSITIVE,
        sign=Sign.POSITIVE,
    ),
    Elementary(
        name="exp2",
        meaning="2 to the power x.",
        value=np.exp2,
        partials=lambda y, x: (_LN2[0] * y,),
        code=_exp2,
        sampled=(-150, 128),
        latex="2^#",
        finite_from=Sign.ANY,
        sign=Sign.POSITIVE,
    ),
    Elementary(
        name="log2",
        meaning="The logarithm to base 2; NaN below 0, -inf at 0.",
        value=np.log2,
        partials=lambda y, x: (_LOG2E[0] / x,),  # inf at 0
        code=_log_by(*_LOG2E),
        sampled=(0, 1e4),
        slopes_at=(0.3, 2.0),
        latex=r"\log_{2}",
        finite_from=Sign.POSITIVE,
    ),
    Elementary(
        name="log10",
        meaning="The logarithm to base 10; NaN below 0, -inf at 0.",
        value=np.log10,
        partials=lambda y, x: (_LOG10E[0] / x,),  # inf at 0
        code=_log_by(*_LOG10E),
        sampled=(0, 1e4),
        slopes_at=(0.3, 2.0),
        latex=r"\log_{10}",
        finite_from=Sign.POSITIVE,
    ),
    Elementary(
        name="cbrt",
        meaning="The cube root, negative below 0.",
        value=np.cbrt,
        partials=lambda y, x: (1 / (3 * y * y),),  # inf at 0
        code=_cbrt,
        sampled=(-1e9, 1e9),
        latex="#^1/3",
        finite_from=Sign.ANY,
        keeps_sign=True,
    ),
)
