"""The logarithm of the gamma function, and its derivatives.

By intervals of a = |x|, chosen in every lane: up to 1/2 the recurrence from 1 + x (Abramowitz and
Stegun 6.1.15, 6.3.5, 6.4.6), up to 4 one polynomial in (a - c)/(a + c), beyond it the asymptotic
series (6.1.41, 6.3.18, 6.4.12) with a polynomial for its tail; below -1/2 what reflection makes of
-x (6.1.17, 6.3.7, 6.4.7). Terms that may cancel are sums of two floats.

lgamma and digamma have roots below 0 that are no floats: there errors are within 4 units in the
last place of the value or of 1, whichever is larger. Everywhere else, near the roots 1 and 2 of
lgamma and 1.46... of digamma, too, they are within 4 units of the value.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from tensorad.ir.elementary import gamma_polynomials as table
from tensorad.ir.elementary.emitter import Emitter
from tensorad.ir.elementary.steps import INF, NAN, absolute, at_most, copy_sign, horner
from tensorad.ir.elementary.table import Elementary, Sign, apply
from tensorad.ir.elementary.two_floats import add_large, add_two, in_float64, log_two_floats
from tensorad.ir.nodes import Expr, Select

_NEAR: Final = 0.5
_LARGE: Final = 4.0
_WHOLE: Final = 2.0**52
"""From here on all floats are whole numbers."""
_CENTRE: Final = math.sqrt(2)
_ROOT: Final = (1.4616321449683622, 9.549995429965697e-17)
"""Of digamma."""
_LOG_PI: Final = (1.1447298858494002, 1.0265951162707826e-17)
"""In two floats."""
_HALF_LOG: Final = 0.4189385332046727
"""(log(2 pi) - 1) / 2."""


def _regions(w: Emitter, x: str) -> tuple[str, str, str, str, str]:
    """(|x|, whether it is at most 1/2, whether it is large, y, t): polynomials in t give f(y) for
    y = 1 + x near 0, y = |x| in the middle."""
    a, centre = absolute(w, x), w.const(_CENTRE)
    near = w.compare("ole", a, w.const(_NEAR))
    large = w.compare("oge", a, w.const(_LARGE))
    y = w.select(near, w.add(x, w.const(1.0)), at_most(w, a, _LARGE))
    return a, near, large, y, w.div(w.sub(y, centre), w.add(y, centre))


def _fraction(w: Emitter, a: str) -> tuple[str, str]:
    """(a without the nearest whole number, its square)."""
    limited = at_most(w, a, _WHOLE)
    r = w.sub(limited, w.intrinsic("roundeven", limited))
    return r, w.mul(r, r)


def _reflected(w: Emitter, x: str, far: str, other: str) -> str:
    return w.select(w.compare("olt", x, w.const(-_NEAR)), far, other)


@in_float64
def _lgamma(w: Emitter, x: str) -> str:
    a, near, large, y, t = _regions(w, x)
    zero, one = w.const(0.0), w.const(1.0)
    roots = w.mul(w.sub(y, one), w.sub(y, w.const(2.0)))
    base = w.mul(roots, horner(w, t, table.LGAMMA))
    log, log_low = log_two_floats(w, a)
    # (a - 1/2) (log(a) - 1) + (log(2 pi) - 1)/2 + tail
    b, q = w.sub(a, w.const(0.5)), w.div(one, a)
    less, less_low = add_large(w, log, w.const(-1.0))
    product = w.mul(b, less)
    low = w.fma(b, w.add(less_low, log_low), w.fma(b, less, w.neg(product)))
    tail = w.fma(q, horner(w, w.mul(q, q), table.LGAMMA_TAIL), w.const(_HALF_LOG))
    low = w.select(w.compare("olt", product, w.const(INF)), w.add(low, tail), zero)
    high = w.select(large, product, w.select(near, w.neg(log), base))
    low = w.select(large, low, w.select(near, w.sub(base, log_low), zero))
    # log(pi / (a |sin(pi a)|)) - lgamma(a)
    r, u = _fraction(w, a)
    sine = absolute(w, w.mul(r, horner(w, u, table.SINE)))
    other, other_low = log_two_floats(w, w.mul(a, sine))
    first, first_low = add_two(w, w.const(_LOG_PI[0]), w.neg(other))
    whole, whole_low = add_two(w, first, w.neg(high))
    rest = w.sub(w.sub(w.add(first_low, whole_low), other_low), w.sub(low, w.const(_LOG_PI[1])))
    pole = w.compare("oeq", r, zero)
    return _reflected(w, x, w.select(pole, w.const(INF), w.add(whole, rest)), w.add(high, low))


@in_float64
def _digamma(w: Emitter, x: str) -> str:
    a, near, large, y, t = _regions(w, x)
    zero, one = w.const(0.0), w.const(1.0)
    root = w.sub(w.sub(y, w.const(_ROOT[0])), w.const(_ROOT[1]))
    base = w.div(w.mul(root, horner(w, t, table.DIGAMMA)), y)
    log, log_low = log_two_floats(w, a)
    q = w.div(one, a)
    tail = w.fma(q, horner(w, w.mul(q, q), table.DIGAMMA_TAIL), w.const(0.5))
    high = w.select(large, log, base)
    low = w.select(large, w.fma(w.neg(q), tail, log_low), zero)
    low = w.select(near, w.neg(copy_sign(w, q, x)), low)
    # digamma(a) + 1/a + pi cot(pi a)
    r, u = _fraction(w, a)
    inverse = w.div(one, r)
    lost = w.mul(w.fma(w.neg(inverse), r, one), inverse)
    slope = w.fma(inverse, w.mul(u, horner(w, u, table.COTANGENT)), lost)
    whole, whole_low = add_two(w, high, inverse)
    far = w.add(whole, w.add(w.add(whole_low, slope), w.add(low, q)))
    pole = w.compare("oeq", r, zero)
    return _reflected(w, x, w.select(pole, w.const(NAN), far), w.add(high, low))


@in_float64
def _trigamma(w: Emitter, x: str) -> str:
    a, near, large, y, t = _regions(w, x)
    one = w.const(1.0)
    slow = w.div(w.add(y, w.const(_CENTRE)), w.mul(y, y))
    base = w.mul(slow, horner(w, t, table.TRIGAMMA))
    q = w.div(one, a)
    square = w.mul(q, q)
    tail = w.fma(q, horner(w, square, table.TRIGAMMA_TAIL), w.const(0.5))
    found = w.select(large, w.fma(square, tail, q), base)
    found = w.select(near, w.add(square, base), found)
    # (pi / sin(pi a))^2 + 1/a^2 - trigamma(a)
    _, u = _fraction(w, a)
    far = w.div(w.fma(u, horner(w, u, table.INVERSE_SQUARE), one), u)
    return _reflected(w, x, w.add(far, w.sub(square, found)), found)


_BERNOULLI: Final = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798,
    -174611 / 330,
)  # fmt: skip
"""Of indices 2, 4, ..."""
_STEPS: Final = 10
"""Of the recurrence, after which the asymptotic series is used."""


def _trigamma_slope(x: Expr) -> Expr:
    """polygamma(2, x) by recurrence, asymptotic series and, below 1/2, reflection (6.4.6, 6.4.13,
    6.4.7), in operators alone: so derivatives of any order follow."""
    left = x < _NEAR
    z = Select(x.dtype, left, 1 - x, x)
    q = 1 / (z + _STEPS)
    square, series = q * q, 0 * q
    for k in range(len(_BERNOULLI), 0, -1):
        series = square * (series + (2 * k + 1) * _BERNOULLI[k - 1])
    total = square * (1 + q + series)
    for k in range(_STEPS):
        step = 1 / (z + k)
        total = total + 2 * step * step * step
    r = math.pi * (x - apply("round", x))
    sine = math.pi / apply("sin", r)
    mirrored = 2 * sine * sine * sine * apply("cos", r)
    return -Select(x.dtype, left, total + mirrored, total)


# Values by other formulas than the code's


def _log_gamma(x: float) -> float:
    if x <= 0 and x == np.floor(x):
        return math.inf
    try:
        return math.lgamma(x)
    except OverflowError:
        return math.inf


def _digamma_value(x: float) -> float:
    if x == 0:
        return -math.copysign(math.inf, x)
    if x < -_NEAR:
        r = x - np.rint(x) if x > -_WHOLE else 0.0
        return _digamma_value(-x) - 1 / x - math.pi / math.tan(math.pi * r) if r else math.nan
    terms = []
    while x < 16:
        terms.append(-1 / x)
        x += 1
    q = 1 / x
    series = [-b / (2 * k) * q ** (2 * k) for k, b in enumerate(_BERNOULLI, 1)]
    return math.fsum([*terms, math.log(x), -q / 2, *series])


def _trigamma_value(x: float) -> float:
    if x == 0:
        return math.inf
    if x < -_NEAR:
        r = x - np.rint(x) if x > -_WHOLE else 0.0
        here = math.pi / math.sin(math.pi * r) if r else math.inf
        return here * here - _trigamma_value(-x) + 1 / x / x if r else math.inf
    terms = []
    while x < 16:
        terms.append(1 / x / x)
        x += 1
    q = 1 / x
    series = [b * q ** (2 * k + 1) for k, b in enumerate(_BERNOULLI, 1)]
    return math.fsum([*terms, q, q * q / 2, *series])


ROWS: Final = (
    Elementary(
        name="lgamma",
        meaning="log |gamma(x)|; inf at whole numbers <= 0 and at -inf.",
        value=np.vectorize(_log_gamma, otypes=[np.float64]),
        partials=lambda y, x: (apply("digamma", x),),  # infinite at 0, NaN at the other poles
        code=_lgamma,
        sampled=(-30, 100),
        latex=r"\log\Gamma",
        ufunc="gammaln",
        finite_from=Sign.POSITIVE,
    ),
    Elementary(
        name="digamma",
        meaning="The derivative of lgamma; -inf at 0, inf at -0, NaN at whole numbers < 0.",
        value=np.vectorize(_digamma_value, otypes=[np.float64]),
        partials=lambda y, x: (apply("trigamma", x),),
        code=_digamma,
        sampled=(-30, 100),
        latex=r"\psi",
        ufunc="psi",
        finite_from=Sign.POSITIVE,
    ),
    Elementary(
        name="trigamma",
        meaning="The derivative of digamma; inf at whole numbers <= 0 and at -inf.",
        value=np.vectorize(_trigamma_value, otypes=[np.float64]),
        partials=lambda y, x: (_trigamma_slope(x),),
        code=_trigamma,
        sampled=(-30, 100),
        latex=r"\psi_{1}",
        finite_from=Sign.POSITIVE,
        sign=Sign.POSITIVE,
    ),
)
