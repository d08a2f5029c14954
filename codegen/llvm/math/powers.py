"""Powers of floats: the scalar and vector forms give equal bits."""

from __future__ import annotations

from tensorad.codegen.llvm.text import Writer
from tensorad.ir.dtypes import BOOL, FLOAT64
from tensorad.ir.elementary import polynomials as table
from tensorad.ir.elementary.steps import (
    INF,
    MAGIC,
    NAN,
    absolute,
    at_least,
    at_most,
    exp_of_sum,
    horner,
    integers,
    reduce_by_ln2,
    scale_within,
    split_normal,
    to_bits,
)
from tensorad.ir.elementary.two_floats import log_two_floats


def power(w: Writer, x: str, y: str) -> str:
    """|x|^y with C99's special cases; float32 in float64, to some 30 bits."""
    core = _pow64 if w.dtype is FLOAT64 else _pow32
    return _pow_specials(w, x, y, core(w, absolute(w, x), y))


def _pow32(w: Writer, size: str, y: str) -> str:
    """2^(y log2(size)) for size >= 0."""
    wide = w.of(FLOAT64)
    # a finite y times the logarithm of 1 is no NaN
    limit = 2.0**127
    y = w.convert("fpext", at_most(w, at_least(w, y, -limit), limit), FLOAT64)
    x = w.convert("fpext", size, FLOAT64)
    e, f = split_normal(wide, x)
    s = wide.div(f, wide.add(f, wide.const(2.0)))
    log2 = wide.mul(s, horner(wide, wide.mul(s, s), table.POWLOG32))
    log2 = wide.fma(e, wide.const(2.0**-52), log2)
    log2 = wide.select(wide.compare("oeq", x, wide.const(INF)), x, log2)
    log2 = wide.select(wide.compare("oeq", x, wide.const(0.0)), wide.const(-INF), log2)
    t = at_most(wide, at_least(wide, wide.mul(y, log2), -160.0), 160.0)
    magic = wide.const(MAGIC[FLOAT64])
    shifted = wide.add(t, magic)
    r = wide.sub(t, wide.sub(shifted, magic))
    power = scale_within(wide, horner(wide, r, table.POWEXP32), shifted)
    return wide.convert("fptrunc", power, w.dtype)


def _pow64(w: Writer, size: str, y: str) -> str:
    """size^y for size >= 0, the logarithm and its product with y in two floats."""
    high, low = log_two_floats(w, size)
    # beyond this the result is 0, 1 or inf anyway, and the products below stay finite
    limit = 1e300
    capped = w.select(w.compare("ogt", y, w.const(limit)), w.const(limit), y)
    capped = w.select(w.compare("olt", y, w.const(-limit)), w.const(-limit), capped)
    product = w.mul(capped, high)
    rest = w.fma(capped, high, w.neg(product))
    rest = w.fma(capped, low, rest)
    moderate = w.compare("olt", absolute(w, product), w.const(800.0))
    rest = w.select(moderate, rest, w.const(0.0))
    shifted, r = reduce_by_ln2(w, product)
    return w.scaled(exp_of_sum(w, r, rest), shifted)


def _pow_specials(w: Writer, x: str, y: str, result: str) -> str:
    flags, zero, one = w.of(BOOL), w.const(0.0), w.const(1.0)
    whole = w.compare("oeq", w.intrinsic("trunc", y), y)
    half = w.mul(y, w.const(0.5))
    even = w.compare("oeq", w.intrinsic("trunc", half), half)
    odd = flags.binary("and", whole, flags.binary("xor", even, flags.const(True)))
    negative = _sign_bit(w, x)
    flip = flags.binary("and", odd, negative)
    result = w.select(flip, w.neg(result), result)
    below = flags.binary("and", w.compare("olt", x, zero), w.compare("ogt", x, w.const(-INF)))
    fraction = flags.binary("xor", whole, flags.const(True))
    result = w.select(flags.binary("and", below, fraction), w.const(NAN), result)
    is_one = flags.binary("or", w.compare("oeq", y, zero), w.compare("oeq", x, one))
    result = w.select(w.compare("uno", x, y), w.add(x, y), result)
    return w.select(is_one, one, result)


def _sign_bit(w: Writer, x: str) -> str:
    i = integers(w)
    return i.compare("slt", to_bits(w, x), i.const(0))
