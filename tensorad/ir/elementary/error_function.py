"""The error function."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from tensorad.ir.dtypes import FLOAT32
from tensorad.ir.elementary import polynomials as table
from tensorad.ir.elementary.emitter import Emitter
from tensorad.ir.elementary.exponential import exp
from tensorad.ir.elementary.steps import (
    LOG2E,
    MAGIC,
    absolute,
    at_most,
    copy_sign,
    horner,
    scale_within,
)
from tensorad.ir.elementary.table import Elementary, apply

_TWO_BY_ROOT_PI: Final = 2 / math.sqrt(math.pi)


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


ROWS: Final = (
    Elementary(
        name="erf",
        meaning="The error function.",
        value=np.vectorize(math.erf, otypes=[np.float64]),
        partials=lambda y, x: (_TWO_BY_ROOT_PI * apply("exp", -(x * x)),),
        code=erf,
        sampled=(-6, 6),
    ),
)
