"""The error function, its complement and its inverse."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from tensorad.ir.dtypes import FLOAT32
from tensorad.ir.elementary import polynomials as table
from tensorad.ir.elementary.emitter import Emitter
from tensorad.ir.elementary.exponential import exp, log
from tensorad.ir.elementary.steps import (
    INF,
    LOG2E,
    MAGIC,
    NAN,
    absolute,
    at_least,
    at_most,
    copy_sign,
    exp_of_sum,
    horner,
    scale_within,
    steps_of_ln2,
)
from tensorad.ir.elementary.table import Elementary, Sign, apply
from tensorad.ir.elementary.two_floats import in_float64

_TWO_BY_ROOT_PI: Final = 2 / math.sqrt(math.pi)
_MIDDLE: Final = 1.6640625
_FAR: Final = 4.296875
"""Where the pieces of erfinv beyond 1/2 are expanded."""


def erf(w: Emitter, x: str) -> str:
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


def _gauss(w: Emitter, z: str) -> str:
    """exp(-z) = 2^(n + r) of 0 <= z, limited to 36; not to the last digit where it is small."""
    magic, z = w.const(MAGIC[w.dtype]), at_most(w, z, 36.0)
    shifted = w.fma(z, w.const(-LOG2E), magic)
    r = w.fma(z, w.const(-LOG2E), w.sub(magic, shifted))
    return scale_within(w, w.fma(r, horner(w, r, table.EXP2), w.const(1.0)), shifted)


def _scaled_erfc(w: Emitter, a: str) -> str:
    """erfc(a) exp(a^2)."""
    middle = w.const(3.5)
    return horner(w, w.div(w.sub(a, middle), w.add(a, middle)), table.ERFC64)


@in_float64
def erfc(w: Emitter, x: str) -> str:
    """1 - erf(x) up to 1/2; beyond it exp(-x^2) times what changes slowly."""
    one, a = w.const(1.0), at_most(w, at_least(w, x, 0.5), 28.0)
    middle, square = w.const(3.75), w.mul(a, a)
    slow = horner(w, w.div(w.sub(a, middle), w.add(a, middle)), table.ERFCX64)
    slow = w.div(slow, w.fma(a, w.const(2.0), one))
    shifted, r = steps_of_ln2(w, w.neg(square))
    lost = w.neg(w.fma(a, a, w.neg(square)))
    # scaled once by all of the power, so that subnormal results round once
    tail = w.mul(w.mul(exp_of_sum(w, r, lost), slow), w.const(2.0**6))
    less = w.sub(shifted, w.const(6.0))
    tail = w.scaled(tail, less)
    near = w.sub(one, erf(w, at_most(w, x, 0.5)))
    found = w.select(w.compare("ogt", x, w.const(0.5)), tail, near)
    return w.select(w.compare("uno", x, x), x, found)


@in_float64
def _erfinv(w: Emitter, x: str) -> str:
    """x P(x^2) up to 1/2; beyond it s Q(s) with s^2 = -log(1 - |x|), Q in two pieces."""
    a, one = absolute(w, x), w.const(1.0)
    near = w.mul(x, horner(w, w.mul(x, x), table.ERFINV64))
    s = w.intrinsic("sqrt", w.neg(log(w, w.sub(one, at_least(w, a, 0.5)))))
    far = w.compare("ogt", s, w.const(2.5))
    t = w.sub(s, w.select(far, w.const(_FAR), w.const(_MIDDLE)))
    tail = w.const(0.0)
    pairs = zip(table.ERFINV_MIDDLE64, table.ERFINV_FAR64, strict=True)
    for middle, beyond in reversed(list(pairs)):
        tail = w.fma(tail, t, w.select(far, w.const(beyond), w.const(middle)))
    tail = copy_sign(w, w.mul(s, tail), x)
    found = w.select(w.compare("ogt", a, w.const(0.5)), tail, near)
    edge = copy_sign(w, w.const(INF), x)
    found = w.select(w.compare("oeq", a, one), edge, found)
    return w.select(w.compare("ole", a, one), found, w.const(NAN))


def _inverse(x: float) -> float:
    """By Newton's method, on erf near 0 and on erfc where 1 - |x| is small."""
    a = abs(x)
    if not a < 1:
        return math.copysign(math.inf, x) if a == 1 else math.nan
    z = a if a < 0.5 else math.sqrt(-math.log(1 - a))
    for _ in range(50):
        lost = math.erf(z) - a if a < 0.5 else (1 - a) - math.erfc(z)
        step = lost * math.exp(z * z) / _TWO_BY_ROOT_PI
        z -= step / (1 + z * step)
        if abs(step) <= 1e-16 * z:
            break
    return math.copysign(z, x)


ROWS: Final = (
    Elementary(
        name="erf",
        meaning="The error function.",
        value=np.vectorize(math.erf, otypes=[np.float64]),
        partials=lambda y, x: (_TWO_BY_ROOT_PI * apply("exp", -(x * x)),),
        code=erf,
        sampled=(-6, 6),
        finite_from=Sign.ANY,
        keeps_sign=True,
    ),
    Elementary(
        name="erfc",
        meaning="1 - erf(x), exact where it is small.",
        value=np.vectorize(math.erfc, otypes=[np.float64]),
        partials=lambda y, x: (-_TWO_BY_ROOT_PI * apply("exp", -(x * x)),),
        code=erfc,
        sampled=(-6, 28),
        finite_from=Sign.ANY,
        sign=Sign.POSITIVE,
    ),
    Elementary(
        name="erfinv",
        meaning="The number whose error function is x; NaN where |x| > 1.",
        value=np.vectorize(_inverse, otypes=[np.float64]),
        partials=lambda y, x: (apply("exp", y * y) / _TWO_BY_ROOT_PI,),  # inf at |x| = 1
        code=_erfinv,
        sampled=(-1, 1),
        slopes_at=(-0.6, 0.4, 0.9),
    ),
)
