"""Hyperbolic functions and the logistic one."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tensorad.ir.dtypes import FLOAT32, FLOAT64
from tensorad.ir.elementary import polynomials as table
from tensorad.ir.elementary.emitter import Emitter
from tensorad.ir.elementary.exponential import exp
from tensorad.ir.elementary.steps import (
    absolute,
    at_most,
    copy_sign,
    horner,
    shifted_inverse,
    shifted_power,
    steps_of_ln2,
)
from tensorad.ir.elementary.table import Elementary, Sign, apply

_SINH_RANGE: Final = {FLOAT32: 89.5, FLOAT64: 710.5}
"""From here on sinh and cosh are inf."""


def tanh(w: Emitter, x: str) -> str:
    """An odd polynomial near 0, otherwise 1 - 2 / (exp(2|x|) + 1)."""
    a = absolute(w, x)
    z = w.mul(x, x)
    polynomial = horner(w, z, table.TANH32 if w.dtype is FLOAT32 else table.TANH64)
    near = w.fma(w.mul(z, x), polynomial, x)
    far = w.add(exp(w, w.add(a, a)), w.const(1.0))
    far = w.sub(w.const(1.0), w.div(w.const(2.0), far))
    is_near = w.compare("olt", a, w.const(0.6))
    return copy_sign(w, w.select(is_near, near, far), x)


def sigmoid(w: Emitter, x: str) -> str:
    """(1 or e) / (1 + e) with e = exp(-|x|): small results keep their digits."""
    one = w.const(1.0)
    e = exp(w, w.neg(absolute(w, x)))
    top = w.select(w.compare("oge", x, w.const(0.0)), one, e)
    return w.div(top, w.add(one, e))


def sinh(w: Emitter, x: str) -> str:
    """sinh(n ln 2 + r) = cosh(n ln 2) sinh(r) + sinh(n ln 2) cosh(r), for |x|."""
    sine, cosine, plus, minus = _hyperbolic_parts(w, x)
    return copy_sign(w, w.fma(cosine, minus, w.mul(sine, plus)), x)


def cosh(w: Emitter, x: str) -> str:
    """cosh(n ln 2 + r) = cosh(n ln 2) cosh(r) + sinh(n ln 2) sinh(r), for |x|."""
    sine, cosine, plus, minus = _hyperbolic_parts(w, x)
    return w.fma(cosine, plus, w.mul(sine, minus))  # that way nothing overflows too early


def _hyperbolic_parts(w: Emitter, x: str) -> tuple[str, str, str, str]:
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


def _logistic(x: Any) -> Any:
    """1/(1 + exp(-x)), with exp of a negative number only."""
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1.0) / (1.0 + e)


ROWS: Final = (
    Elementary(
        name="tanh",
        meaning="The hyperbolic tangent.",
        value=np.tanh,
        partials=lambda y, x: (1 - y * y,),
        code=tanh,
        sampled=(-10, 10),
        finite_from=Sign.ANY,
        keeps_sign=True,
    ),
    Elementary(
        name="sigmoid",
        meaning="1 / (1 + exp(-x)).",
        value=_logistic,
        partials=lambda y, x: (y * (1 - y),),
        code=sigmoid,
        sampled=(-104, 89),
        ufunc="expit",
        finite_from=Sign.ANY,
        sign=Sign.POSITIVE,
    ),
    Elementary(
        name="sinh",
        meaning="The hyperbolic sine.",
        value=np.sinh,
        partials=lambda y, x: (apply("cosh", x),),
        code=sinh,
        sampled=(-90, 90),
        finite_from=Sign.ANY,
        keeps_sign=True,
    ),
    Elementary(
        name="cosh",
        meaning="The hyperbolic cosine.",
        value=np.cosh,
        partials=lambda y, x: (apply("sinh", x),),
        code=cosh,
        sampled=(-90, 90),
        finite_from=Sign.ANY,
        sign=Sign.POSITIVE,
    ),
)
