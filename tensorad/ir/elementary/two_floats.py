"""Steps in two floats whose sum is not rounded, and float32 by way of float64."""

from __future__ import annotations

from collections.abc import Callable

from tensorad.ir.dtypes import BOOL, FLOAT64
from tensorad.ir.elementary import polynomials as table
from tensorad.ir.elementary.emitter import Emitter
from tensorad.ir.elementary.steps import INF, LN2, horner, split_exponent


def in_float64(code: Callable[..., str]) -> Callable[..., str]:
    """A formula of float64 that gives float32, too: computed in float64, rounded once."""

    def either(w: Emitter, *args: str) -> str:
        if w.dtype is FLOAT64:
            return code(w, *args)
        wide = w.of(FLOAT64)
        found = code(wide, *[w.convert("fpext", a, FLOAT64) for a in args])
        return wide.convert("fptrunc", found, w.dtype)

    return either


def times(w: Emitter, x: tuple[str, str], high: float, low: float) -> str:
    """(x + x') (high + low), rounded once."""
    product = w.mul(x[0], w.const(high))
    rest = w.fma(x[0], w.const(high), w.neg(product))
    rest = w.fma(x[0], w.const(low), w.fma(x[1], w.const(high), rest))
    return w.add(product, rest)


def log_two_floats(w: Emitter, x: str) -> tuple[str, str]:
    """log(x) of x >= 0 as an unevaluated sum good to some 64 bits (float64)."""
    e, f = split_exponent(w, x)
    t = w.add(f, w.const(2.0))
    lost = w.sub(f, w.sub(t, w.const(2.0)))
    s = w.div(f, t)
    s_low = w.div(w.fma(w.neg(s), lost, w.fma(w.neg(s), t, f)), t)
    z = w.mul(s, s)
    z_low = w.fma(s, w.add(s_low, s_low), w.fma(s, s, w.neg(z)))
    cube = w.mul(z, s)
    cube_low = w.fma(z, s_low, w.fma(z_low, s, w.fma(z, s, w.neg(cube))))
    third, third_low = w.const(2.0 / 3.0), w.const(3.700743415417189e-17)
    b = w.mul(cube, third)
    b_low = w.fma(cube_low, third, w.fma(cube, third_low, w.fma(cube, third, w.neg(b))))
    tail = w.mul(w.mul(cube, z), horner(w, z, table.POWLOG64))
    high, low = add_large(w, w.add(s, s), b)
    low = w.add(low, w.add(w.add(w.add(s_low, s_low), b_low), tail))
    ln2, ln2_low = LN2[FLOAT64]
    unit = 2.0**-52  # of e
    first, first_low = add_large(w, w.mul(e, w.const(ln2 * unit)), high)
    first_low = w.add(first_low, w.fma(e, w.const(ln2_low * unit), low))
    high, low = add_large(w, first, first_low)
    infinite = w.compare("oeq", x, w.const(INF))
    zero = w.compare("oeq", x, w.const(0.0))
    special = w.of(BOOL).binary("or", infinite, zero)
    high = w.select(infinite, w.const(INF), w.select(zero, w.const(-INF), high))
    high = w.select(w.compare("uno", x, x), x, high)
    return high, w.select(special, w.const(0.0), low)


def add_large(w: Emitter, x: str, y: str) -> tuple[str, str]:
    """x + y rounded, and the rounding error; for |x| >= |y| or x = 0."""
    total = w.add(x, y)
    return total, w.sub(y, w.sub(total, x))


def add_two(w: Emitter, x: str, y: str) -> tuple[str, str]:
    """x + y rounded, and the rounding error (Knuth, The Art of Computer Programming, 4.2.2)."""
    total = w.add(x, y)
    part = w.sub(total, x)
    return total, w.add(w.sub(x, w.sub(total, part)), w.sub(y, part))
