"""The remainder of a division of floats."""

from __future__ import annotations

from typing import Final

import numpy as np

from tensorad.ir.dtypes import BOOL
from tensorad.ir.elementary.emitter import Emitter
from tensorad.ir.elementary.steps import (
    INF,
    MANTISSA,
    NAN,
    absolute,
    copy_sign,
    from_bits,
    integers,
    to_bits,
)
from tensorad.ir.elementary.table import Elementary, Partials, apply
from tensorad.ir.elementary.two_floats import in_float64
from tensorad.ir.leaves import const
from tensorad.ir.nodes import Expr

_BITS: Final = 50
"""Of the quotient, found in one step: it and its product with the divisor are then exact."""

_MOST: Final = 2046
"""The largest exponent whose halves are powers of their own."""


@in_float64
def _fmod(w: Emitter, x: str, y: str) -> str:
    """Long division: each step takes off the multiple of y 2^d that leaves less than y 2^d."""
    flags, zero, one = w.of(BOOL), w.const(0.0), w.const(1.0)
    top, divisor = absolute(w, x), absolute(w, y)
    infinite = w.compare("oge", top, w.const(INF))
    unknown = flags.binary("or", w.compare("uno", x, y), w.compare("oeq", divisor, zero))
    undefined = flags.binary("or", infinite, unknown)
    ends = flags.binary("or", undefined, w.compare("oeq", divisor, w.const(INF)))
    divisor = w.select(ends, one, divisor)
    rest = w.repeated(w.select(ends, zero, top), lambda r: _step(w, r, divisor))
    found = w.select(ends, x, copy_sign(w, rest, x))
    return w.select(undefined, w.const(NAN), found)


def _step(w: Emitter, r: str, y: str) -> tuple[str, str]:
    """(what is left of r, whether it is y or more)."""
    i = integers(w)
    normal = w.mul(y, w.const(2.0**54))  # inf where y is huge: then r / y is small anyway
    lead = w.compare("olt", normal, w.const(INF))
    raised = w.mul(r, w.const(2.0**54))  # a subnormal has no exponent of its own
    small = w.compare("olt", raised, w.const(INF))
    own = i.select(small, i.sub(_exponent(w, raised), i.const(54)), _exponent(w, r))
    d = i.sub(own, _exponent(w, w.select(lead, normal, y)))
    d = i.add(d, i.const(54 - _BITS))
    d = i.select(i.compare("sgt", d, i.const(_MOST)), i.const(_MOST), d)
    d = i.select(i.of(BOOL).binary("and", lead, i.compare("sgt", d, i.const(0))), d, i.const(0))
    half = i.binary("ashr", d, i.const(1))
    step = w.mul(w.mul(y, _power(w, half)), _power(w, i.sub(d, half)))
    quotient = w.intrinsic("trunc", w.div(r, step))
    left = w.fma(w.neg(quotient), step, r)
    left = w.select(w.compare("olt", left, w.const(0.0)), w.add(left, step), left)
    return left, w.compare("oge", left, y)


def _exponent(w: Emitter, x: str) -> str:
    i = integers(w)
    return i.binary("lshr", to_bits(w, x), i.const(MANTISSA[w.dtype]))


def _power(w: Emitter, n: str) -> str:
    """2^n of whole numbers >= 0."""
    i = integers(w)
    return from_bits(w, i.binary("shl", i.add(n, i.const(1023)), i.const(MANTISSA[w.dtype])))


def _partials(y: Expr, a: Expr, b: Expr) -> Partials:
    return (const(1, y.dtype), -apply("trunc", a / b))  # at the jumps, too


ROWS: Final = (
    Elementary(
        name="fmod",
        meaning="The remainder of a / b with the sign of a, as in C; exact.",
        value=np.fmod,
        partials=_partials,
        code=_fmod,
        sampled=(-100, 100),
        arity=2,
        loops=True,
    ),
)
