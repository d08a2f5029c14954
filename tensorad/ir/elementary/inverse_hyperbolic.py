"""Inverse hyperbolic functions."""

from __future__ import annotations

from typing import Final

import numpy as np

from tensorad.ir.dtypes import FLOAT64
from tensorad.ir.elementary.emitter import Emitter
from tensorad.ir.elementary.exponential import log1p
from tensorad.ir.elementary.steps import LN2, NAN, absolute, copy_sign
from tensorad.ir.elementary.table import Elementary, Sign, apply
from tensorad.ir.elementary.two_floats import in_float64

_LARGE: Final = 2.0**60
"""From here on asinh and acosh are log(2 x)."""


def _log_of_large(w: Emitter, a: str, rest: str) -> str:
    """log(1 + rest), or log(2 a) where a is large."""
    large, (high, low) = w.compare("ogt", a, w.const(_LARGE)), LN2[FLOAT64]
    found = log1p(w, w.select(large, a, rest))
    return w.select(large, w.add(w.add(found, w.const(low)), w.const(high)), found)


@in_float64
def _asinh(w: Emitter, x: str) -> str:
    """log(1 + a + a^2 / (1 + sqrt(1 + a^2))), for |x|."""
    a, one = absolute(w, x), w.const(1.0)
    square = w.mul(a, a)
    root = w.intrinsic("sqrt", w.fma(a, a, one))
    rest = w.add(a, w.div(square, w.add(one, root)))
    return copy_sign(w, _log_of_large(w, a, rest), x)


@in_float64
def _acosh(w: Emitter, x: str) -> str:
    """log(1 + t + sqrt(2 t + t^2)), t = x - 1."""
    t = w.sub(x, w.const(1.0))
    root = w.intrinsic("sqrt", w.mul(t, w.add(t, w.const(2.0))))
    found = _log_of_large(w, x, w.add(t, root))
    return w.select(w.compare("oge", x, w.const(1.0)), found, w.const(NAN))


@in_float64
def _atanh(w: Emitter, x: str) -> str:
    """log(1 + 2 a / (1 - a)) / 2, for |x|."""
    a = absolute(w, x)
    ratio = w.div(w.add(a, a), w.sub(w.const(1.0), a))
    return copy_sign(w, w.mul(w.const(0.5), log1p(w, ratio)), x)


ROWS: Final = (
    Elementary(
        name="asinh",
        meaning="The number whose hyperbolic sine is x.",
        value=np.arcsinh,
        partials=lambda y, x: (apply("rsqrt", 1 + x * x),),
        code=_asinh,
        sampled=(-1e3, 1e3),
        ufunc="arcsinh",
        finite_from=Sign.ANY,
        keeps_sign=True,
    ),
    Elementary(
        name="acosh",
        meaning="The number >= 0 whose hyperbolic cosine is x; NaN below 1.",
        value=np.arccosh,
        partials=lambda y, x: (apply("rsqrt", x - 1) * apply("rsqrt", x + 1),),  # inf at 1
        code=_acosh,
        sampled=(1, 1e3),
        slopes_at=(1.3, 2.5),
        ufunc="arccosh",
    ),
    Elementary(
        name="atanh",
        meaning="The number whose hyperbolic tangent is x; NaN where |x| > 1.",
        value=np.arctanh,
        partials=lambda y, x: (1 / ((1 - x) * (1 + x)),),  # inf at |x| = 1
        code=_atanh,
        sampled=(-1, 1),
        slopes_at=(-0.6, 0.7),
        ufunc="arctanh",
    ),
)
