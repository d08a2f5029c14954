"""Errors of elementary functions and of sums, beside what is allowed.

Functions are compared with wider ones over bit patterns of the whole type and over the range
where they are used; an error is counted in units in the last place of the exact value (of
lgamma and digamma below 0, of 1 if that is larger). A sum of n terms may be off by 2 sqrt(n) u
times the sum of their sizes, u half a unit of 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final

import mpmath  # type: ignore[import-untyped]
import numpy as np

from tensorad import te
from tensorad.building import build
from tensorad.compiled import CompiledFunction
from tensorad.ir.expr import FUNCTIONS, call
from tensorad.ir.tensor import Tensor

Array = np.ndarray
NAMES: Final = (*FUNCTIONS, "pow")
BINARY: Final = (*[f.name for f in FUNCTIONS.values() if f.arity == 2], "pow")
DTYPES: Final = ("float32", "float64")
MOST_ULPS: Final = 4.0
SAMPLES: Final = 1 << 18
BLOCK: Final = 1 << 20
SLOW_SAMPLES: Final = 1 << 12
"""Of a function that only mpmath knows well enough."""


@dataclass(frozen=True)
class Worst:
    """The largest error of a function, and the arguments it was met at."""

    op: str
    dtype: str
    ulps: float
    at: tuple[float, ...]
    count: int


def numpy_function(op: str) -> Callable[..., Array] | None:
    """NumPy's function of that name."""
    name = (FUNCTIONS[op].ufunc or op) if op in FUNCTIONS else "power"
    found: Callable[..., Array] | None = getattr(np, name, None)
    return found


def function(op: str, dtype: str, n: int) -> CompiledFunction:
    """`op` of arrays of n elements."""
    names = "xy" if op in BINARY else "x"
    inputs = [te.placeholder((n,), dtype=dtype, name=c) for c in names]
    return build(te.compute((n,), lambda i: call(op, *[t[i] for t in inputs]), name=op), inputs)


# Samples


def samples(op: str, dtype: str, count: int) -> Iterator[tuple[Array, ...]]:
    """Bit patterns spread over the type, and values where the function is used."""
    rng = np.random.default_rng(11)
    if op in BINARY:
        yield from _pairs(dtype, count, rng)
        return
    yield from [(x,) for x in _patterns(dtype, count, rng)]
    low, high = FUNCTIONS[op].sampled
    yield (rng.uniform(low, high, count).astype(dtype),)
    yield (rng.uniform(max(low, -1), min(high, 1), count).astype(dtype),)
    if dtype == "float64":  # exponentials reach further
        yield (rng.uniform(low * 8, high * 8, count).astype(dtype),)


def _patterns(dtype: str, count: int, rng: np.random.Generator) -> Iterator[Array]:
    """All of float32 in equal strides; as many random patterns of float64."""
    if dtype == "float64":
        yield rng.integers(0, 1 << 64, count, dtype=np.uint64).view(np.float64)
        return
    stride = max(1, (1 << 32) // count) | 1
    for first in range(0, 1 << 32, stride * BLOCK):
        last = min(first + stride * BLOCK, 1 << 32)
        yield np.arange(first, last, stride, dtype=np.uint64).astype(np.uint32).view(np.float32)


def _pairs(dtype: str, count: int, rng: np.random.Generator) -> Iterator[tuple[Array, Array]]:
    """Bit patterns; moderate pairs; powers from the least to the greatest float; bases near 1."""
    yield next(_patterns(dtype, count, rng)), rng.permutation(next(_patterns(dtype, count, rng)))
    yield rng.uniform(0, 30, count).astype(dtype), rng.uniform(-20, 20, count).astype(dtype)
    most = math.log(float(np.finfo(dtype).max))
    result = rng.uniform(-most, most, count)
    for x in (np.exp(rng.uniform(-most, most, count)), 1 + rng.uniform(-1e-3, 1e-3, count)):
        x = x.astype(dtype)
        with np.errstate(all="ignore"):
            y = (result / np.log(x.astype(np.float64))).astype(dtype)
        yield x, y


# References

_FORMULAS: Final[Mapping[str, Callable[[Array], Array]]] = {
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: np.where(x > 0, 1, np.exp(-np.abs(x))) / (1 + np.exp(-np.abs(x))),
}
_MPMATH: Final[Mapping[str, Callable[..., Any]]] = {
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "pow": mpmath.power,
    "exp2": lambda x: mpmath.mpf(2) ** x,
    "log2": lambda x: mpmath.log(x, 2),
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    "fmod": math.fmod,
    "erfinv": lambda x: mpmath.erfinv(x) if abs(x) <= 1 else mpmath.nan,
    "erfc": lambda x: mpmath.erfc(min(max(x, -100), 100)),
    "lgamma": lambda x: mpmath.inf if _is_pole(x) else mpmath.loggamma(x).real,
    "digamma": lambda x: mpmath.nan if _is_pole(x) else mpmath.digamma(x),
    "trigamma": lambda x: mpmath.inf if _is_pole(x) else _trigamma(mpmath.mpf(x)),
}


def _is_pole(x: Any) -> bool:
    """Of the gamma function."""
    return bool(x <= 0 and x == mpmath.floor(x))


def _trigamma(x: Any) -> Any:
    """By reflection below 1/2, where mpmath's own takes time as |x|."""
    mirrored = (mpmath.pi / mpmath.sinpi(x)) ** 2 if x < 0.5 else 0
    return mirrored - mpmath.psi(1, 1 - x) if x < 0.5 else mpmath.psi(1, x)


ROOTS_BETWEEN_FLOATS: Final = ("lgamma", "digamma")
"""Below 0 they have roots that are no floats: errors there are in units of 1 at least."""


def least_unit(op: str, x: Array) -> Array | float:
    """The size whose last place an error is counted in at least."""
    return np.where(x < 0, 1.0, 0.0) if op in ROOTS_BETWEEN_FLOATS else 0.0


def needs_mpmath(op: str, dtype: str) -> bool:
    """Whether no wider function is at hand."""
    known = op in _FORMULAS or numpy_function(op) is not None
    return dtype == "float64" and (not known or np.finfo(np.longdouble).nmant < 60)


def mpmath_function(op: str) -> Callable[..., Any]:
    """mpmath's function, to as many digits as are asked for."""
    found: Callable[..., Any] = _MPMATH.get(op) or getattr(mpmath, op)
    return found


def exact(op: str, args: Sequence[Array]) -> Array:
    """Values some ten bits better than those of the arguments' type, at least."""
    dtype = str(args[0].dtype)
    if needs_mpmath(op, dtype):
        return _by_mpmath(op, args)
    wide = np.float64 if dtype == "float32" else np.longdouble
    found = _FORMULAS.get(op) or numpy_function(op) or FUNCTIONS[op].value
    with np.errstate(all="ignore"):
        return np.asarray(found(*[a.astype(wide) for a in args]))


def _by_mpmath(op: str, args: Sequence[Array]) -> Array:
    """The value as the sum of two floats where long doubles are long; else rounded."""
    formula = mpmath_function(op)
    result = np.empty(len(args[0]), np.longdouble)
    with mpmath.workprec(120):
        for n, point in enumerate(zip(*[a.tolist() for a in args], strict=True)):
            value = formula(*point) if all(map(math.isfinite, point)) else mpmath.nan
            head = float(value.real) if getattr(value, "imag", 0) == 0 else math.nan
            rest = float(value - head) if math.isfinite(head) else 0.0
            result[n] = np.longdouble(head) + np.longdouble(rest)
    return result


def errors(got: Array, want: Array, least: Array | float = 0.0) -> Array:
    """In units in the last place of the exact values, or of `least` where it is larger; infinite
    where the kind of value is wrong."""
    info = np.finfo(got.dtype)
    wide = want.dtype.type
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(np.maximum(np.abs(want), least))
        unit = np.ldexp(wide(1), np.maximum(exponent - info.nmant - 1, info.minexp - info.nmant))
        found = np.abs(got.astype(want.dtype) - want) / unit
        most = wide(info.max)
        over = np.abs(want) > most
        near_top = np.abs(got) == info.max
        right_inf = np.isinf(got) & (np.sign(got) == np.sign(want))
        # between the greatest float and the power of two after it both are within one unit
        found = np.where(over, np.where(right_inf | near_top, 0, np.inf), found)
        found = np.where(np.isinf(want) & ~right_inf, np.inf, found)
        rounds_up = right_inf & (np.abs(want) >= most * (1 - wide(info.eps)))
        found = np.where(np.isinf(got) & ~over, np.where(rounds_up, 1, np.inf), found)
        found = np.where(np.isnan(want), np.where(np.isnan(got), 0, np.inf), found)
        sign_lost = (want == 0) & (got == 0) & (np.signbit(want) != np.signbit(got))
        return np.where(np.isnan(found) | sign_lost, np.inf, found).astype(np.float64)


def worst(op: str, dtype: str, count: int = SAMPLES) -> Worst:
    """The largest error over `count` samples of each kind."""
    found = Worst(op, dtype, 0.0, (), 0)
    compiled: dict[int, CompiledFunction] = {}
    count = min(count, SLOW_SAMPLES) if needs_mpmath(op, dtype) else count
    for args in samples(op, dtype, count):
        n = len(args[0])
        f = compiled.get(n) or compiled.setdefault(n, function(op, dtype, n))
        ulps = errors(np.asarray(f(*args)), exact(op, args), least_unit(op, args[0]))
        at = int(ulps.argmax())
        seen = found.count + n
        if ulps[at] > found.ulps or not found.at:
            found = Worst(op, dtype, float(ulps[at]), tuple([float(a[at]) for a in args]), seen)
        else:
            found = Worst(op, dtype, found.ulps, found.at, seen)
    return found


# Sums


@dataclass(frozen=True)
class SumError:
    """The largest error of the sums of a program, in parts of what is allowed."""

    name: str
    dtype: str
    terms: int
    part: float


def _total(n: int, dtype: str) -> tuple[list[Tensor], Tensor]:
    x, i = te.placeholder((n,), dtype=dtype, name="X"), te.reduce_axis(n)
    return [x], te.compute((1,), lambda _: te.sum(x[i], axis=i), name="total")


def _rows(n: int, dtype: str) -> tuple[list[Tensor], Tensor]:
    x, i = te.placeholder((5, n), dtype=dtype, name="X"), te.reduce_axis(n)
    return [x], te.compute((5,), lambda r: te.sum(x[r, i], axis=i), name="rows")


def _columns(n: int, dtype: str) -> tuple[list[Tensor], Tensor]:
    x, i = te.placeholder((n, 7), dtype=dtype, name="X"), te.reduce_axis(n)
    return [x], te.compute((7,), lambda c: te.sum(x[i, c], axis=i), name="columns")


def _product(n: int, dtype: str) -> tuple[list[Tensor], Tensor]:
    a, i = te.placeholder((9, n), dtype=dtype, name="A"), te.reduce_axis(n)
    b = te.placeholder((n, 17), dtype=dtype, name="B")
    return [a, b], te.compute((9, 17), lambda r, c: te.sum(a[r, i] * b[i, c], axis=i), name="AB")


def _terms(name: str, arrays: Sequence[Array]) -> Array:
    """The exact terms of every sum (along the last axis), in a wider type."""
    narrow = arrays[0].dtype == np.float32
    wide: list[Any] = [a.astype(np.float64 if narrow else np.longdouble) for a in arrays]
    if name == "product":
        return np.asarray(wide[0][:, None, :] * wide[1].T[None, :, :])
    return np.asarray(wide[0].T if name == "columns" else np.atleast_2d(wide[0]))


SUMS: Final[Mapping[str, Callable[[int, str], tuple[list[Tensor], Tensor]]]] = {
    "total": _total, "rows": _rows, "columns": _columns, "product": _product,
}  # fmt: skip
TERMS: Final = (100, 4096, 65537)


def sum_error(name: str, dtype: str, n: int) -> SumError:
    """Of numbers of both signs and of positive ones, whichever is worse."""
    rng = np.random.default_rng(n)
    inputs, output = SUMS[name](n, dtype)
    f = build(output, inputs)
    part = 0.0
    for draw in (rng.standard_normal, partial(rng.uniform, 0.0, 1.0)):
        arrays = [np.asarray(draw(size=t.shape), dtype) for t in inputs]
        terms = _terms(name, arrays)
        size = np.abs(terms).sum(axis=-1)
        error = np.abs(np.asarray(f(*arrays)).reshape(size.shape) - terms.sum(axis=-1))
        allowed = 2 * math.sqrt(n) * (float(np.finfo(dtype).eps) / 2) * size
        part = max(part, float((error / allowed).max()))
    return SumError(name, dtype, n, part)


def as_json(rows: Sequence[Worst | SumError]) -> list[dict[str, Any]]:
    return [asdict(r) for r in rows]
