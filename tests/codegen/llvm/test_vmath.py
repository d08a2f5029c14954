"""Elementary functions: errors in units in the last place, and the special values."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import cache

import mpmath
import numpy as np
import pytest

from benchmarks.suites.accuracy import least_unit, mpmath_function
from tensorad import te
from tensorad.building import build
from tensorad.codegen.llvm.math import functions
from tensorad.codegen.llvm.text import Code, Writer
from tensorad.codegen.target.object_code import assembly
from tensorad.compiled import CompiledFunction
from tensorad.ir.dtypes import FLOAT32, FLOAT64, DType
from tensorad.ir.expr import FUNCTIONS, call
from tests.support.machines import described

INF, NAN = math.inf, math.nan
ULPS = 4.0
NAMES = (*FUNCTIONS, "pow")
RANGES = {**{f.name: f.sampled for f in FUNCTIONS.values()}, "pow": (0, 30)}
BINARY = tuple(n for n in NAMES if n == "pow" or FUNCTIONS[n].arity == 2)


@cache
def compiled(op: str, dtype: str, n: int, exponent: float | None = None) -> CompiledFunction:
    inputs = [te.placeholder((n,), dtype=dtype, name=c) for c in "xy"[: 1 + (op in BINARY)]]
    if exponent is not None:
        base = inputs[0]
        return build(te.compute((n,), lambda i: base[i] ** exponent, name=op), inputs[:1])
    return build(te.compute((n,), lambda i: call(op, *[t[i] for t in inputs]), name=op), inputs)


def apply(op: str, dtype: str, *args: Sequence[float] | np.ndarray) -> np.ndarray:
    arrays = [np.asarray(a, dtype) for a in args]
    return np.asarray(compiled(op, dtype, len(arrays[0]))(*arrays))


def samples(op: str, dtype: str, count: int) -> list[np.ndarray]:
    """The main range, and near zero, with some tiny numbers."""
    rng = np.random.default_rng(len(op))
    low, high = RANGES[op]
    near = rng.uniform(-1 if low < 0 else 0, 1, count // 4)
    tiny = 10.0 ** rng.uniform(-30, -5, count // 8)
    first = np.concatenate([rng.uniform(low, high, count), near, tiny]).clip(low, high)
    first = first.astype(dtype)
    if op not in BINARY:
        return [first]
    return [first, rng.uniform(-20, 20, len(first)).astype(dtype)]


def error_in_ulps(got: float, want: mpmath.mpf, dtype: str, least: float = 0.0) -> float:
    info = np.finfo(dtype)
    if abs(want) > float(info.max) or not math.isfinite(got):
        return 0.0 if abs(got) >= float(info.max) and abs(want) >= float(info.max) else INF
    exponent = math.frexp(max(abs(float(want)), least))[1] if want else -2000
    spacing = max(exponent - info.nmant - 1, info.minexp - info.nmant)
    return float(abs(mpmath.mpf(got) - want) / mpmath.mpf(2) ** int(spacing))


@pytest.mark.sampled(7)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", NAMES)
def test_error_is_at_most_four_ulps(op: str, dtype: str) -> None:
    args = samples(op, dtype, 150)
    got = apply(op, dtype, *args)
    exact = mpmath_function(op)
    with mpmath.workprec(160):
        for n, value in enumerate(got.tolist()):
            point = [mpmath.mpf(float(a[n])) for a in args]
            least = float(least_unit(op, args[0][n]))
            error = error_in_ulps(value, exact(*point), dtype, least)
            assert error <= ULPS, f"{op}{[float(p) for p in point]} = {value}: {error} ulp"


ZERO_TO = [0.0, -0.0, INF, -INF, NAN]
SPECIAL = {
    "exp": [1, 1, INF, 0, NAN],
    "log": [-INF, -INF, INF, NAN, NAN],
    "log1p": [0.0, -0.0, INF, NAN, NAN],
    "expm1": [0.0, -0.0, INF, -1, NAN],
    "sqrt": [0.0, -0.0, INF, NAN, NAN],
    "rsqrt": [INF, -INF, 0, NAN, NAN],
    "tanh": [0.0, -0.0, 1, -1, NAN],
    "sigmoid": [0.5, 0.5, 1, 0, NAN],
    "erf": [0.0, -0.0, 1, -1, NAN],
    "sin": [0.0, -0.0, NAN, NAN, NAN],
    "cos": [1, 1, NAN, NAN, NAN],
    "tan": [0.0, -0.0, NAN, NAN, NAN],
    "asin": [0.0, -0.0, NAN, NAN, NAN],
    "acos": [math.pi / 2, math.pi / 2, NAN, NAN, NAN],
    "atan": [0.0, -0.0, math.pi / 2, -math.pi / 2, NAN],
    "sinh": [0.0, -0.0, INF, -INF, NAN],
    "cosh": [1, 1, INF, INF, NAN],
    "exp2": [1, 1, INF, 0, NAN],
    "log2": [-INF, -INF, INF, NAN, NAN],
    "log10": [-INF, -INF, INF, NAN, NAN],
    "cbrt": [0.0, -0.0, INF, -INF, NAN],
    "asinh": [0.0, -0.0, INF, -INF, NAN],
    "acosh": [NAN, NAN, INF, NAN, NAN],
    "atanh": [0.0, -0.0, NAN, NAN, NAN],
    "erfc": [1, 1, 0, 2, NAN],
    "erfinv": [0.0, -0.0, NAN, NAN, NAN],
    "lgamma": [INF, INF, INF, INF, NAN],
    "digamma": [-INF, INF, INF, NAN, NAN],
    "trigamma": [INF, INF, 0.0, INF, NAN],
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", SPECIAL)
def test_special_values(op: str, dtype: str) -> None:
    got = apply(op, dtype, ZERO_TO)
    want = np.asarray(SPECIAL[op], dtype)
    np.testing.assert_array_equal(got, want)
    finite = want == want
    np.testing.assert_array_equal(np.signbit(got[finite]), np.signbit(want[finite]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_exact_stays_exact(dtype: str) -> None:
    whole = np.arange(-30, 31)
    np.testing.assert_array_equal(apply("exp2", dtype, whole), 2.0**whole)
    np.testing.assert_array_equal(apply("log2", dtype, 2.0**whole), whole)
    np.testing.assert_array_equal(apply("log10", dtype, 10.0 ** np.arange(11)), np.arange(11))
    np.testing.assert_array_equal(apply("cbrt", dtype, whole**3.0), whole)
    for op in ("atanh", "erfinv"):
        edges = apply(op, dtype, [1, -1, 1.5, -1.5])
        np.testing.assert_array_equal(edges, [INF, -INF, NAN, NAN])
    np.testing.assert_array_equal(apply("acosh", dtype, [1, 0.99, -2, -1e30]), [0, NAN, NAN, NAN])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gamma_functions_at_roots_poles_and_ends(dtype: str) -> None:
    np.testing.assert_array_equal(apply("lgamma", dtype, [1, 2]), [0, 0])
    poles, info = [-1, -2, -37, -(2.0**53), -1e30], np.finfo(dtype)
    for op, value in (("lgamma", INF), ("digamma", NAN), ("trigamma", INF)):
        np.testing.assert_array_equal(apply(op, dtype, poles), [value] * 5)
    tiny, top = float(info.smallest_subnormal), float(info.max)
    near = [tiny, -tiny, 1e-30, -1e-30, float(info.smallest_normal), top, top / 1024]
    edges = [0.5, -0.5, 4.0, 2.0**60]
    root = np.asarray(1.4616321449683623, dtype)
    around = [float(np.nextafter(r, to)) for r in (root, root.dtype.type(1), root.dtype.type(2))
              for to in (0, 9)]  # fmt: skip
    for op in ("lgamma", "digamma", "trigamma"):
        x = np.array([*near, *edges, *around, float(root)], dtype)
        with mpmath.workprec(200):
            for a, value in zip(x.tolist(), apply(op, dtype, x).tolist(), strict=True):
                want = mpmath_function(op)(mpmath.mpf(a))
                error = error_in_ulps(value, want, dtype, float(least_unit(op, np.asarray(a))))
                assert error <= ULPS, f"{op}({a!r}) = {value}: {error} ulp"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_remainders_are_exact(dtype: str) -> None:
    """Of quotients of any size, subnormal divisors among them."""
    info, rng = np.finfo(dtype), np.random.default_rng(2)
    bits = rng.integers(0, 1 << (info.bits - 1), (2, 4001))
    x, y = bits.astype(f"uint{info.bits}").view(dtype)
    with np.errstate(all="ignore"):
        x[::2] *= -1
        y[::5] *= info.smallest_normal
        y[1::7] = x[1::7] * rng.choice(np.array([0.1, 1, 1 / 3, 3], dtype), len(x[1::7]))
        np.testing.assert_array_equal(apply("fmod", dtype, x, y), np.fmod(x, y))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", BINARY)
def test_special_values_of_two_arguments(op: str, dtype: str) -> None:
    some = [0.0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, -3, 1e30, -1e30, INF, -INF, NAN]
    x, y = (a.ravel().astype(dtype) for a in np.meshgrid(some, some))
    got = apply(op, dtype, x, y)
    with np.errstate(all="ignore"):
        want = {"pow": np.power, "atan2": np.arctan2, "fmod": np.fmod}[op](x, y)
    np.testing.assert_allclose(got, want, rtol=4 * float(np.finfo(dtype).eps))
    known = want == want
    np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(want[known]))


def test_overflow_and_subnormals() -> None:
    for dtype, top, bottom in (("float32", 88.73, -103.0), ("float64", 709.79, -745.0)):
        tiny = float(np.finfo(dtype).smallest_subnormal)
        got = apply("exp", dtype, [top, -1000, 1000, bottom])
        np.testing.assert_array_equal(got[:3], [INF, 0, INF])
        assert 0 < got[3] < 4 * tiny
        assert apply("tanh", dtype, [tiny])[0] == tiny
        assert apply("sin", dtype, [-tiny])[0] == -tiny
        assert np.isclose(apply("log", dtype, [tiny])[0], math.log(tiny), rtol=1e-6)
        small = apply("sigmoid", dtype, [-100 if dtype == "float32" else -740])[0]
        assert 0 < small < np.finfo(dtype).smallest_normal


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", ["sin", "cos", "tan"])
def test_huge_angles(op: str, dtype: str) -> None:
    """Among them floats next to multiples of pi/2, and both sides of where reductions change."""
    info = np.finfo(dtype)
    powers = 2.0 ** np.random.default_rng(8).uniform(10, info.maxexp - 0.01, 120)
    near = [6381956970095103 * 2.0**797, 5319372648326541 * 2.0**-43] if info.bits == 64 else []
    edges = [2.0**16, 2.0**26, 2.0**30, float(info.max)]
    x = np.array([*powers, *edges, *np.nextafter(edges, 0), *near, 16367173 * 2.0**72], dtype)
    x = np.concatenate([x, -x, np.array([INF, NAN], dtype)])
    got = apply(op, dtype, x)
    assert np.isnan(got[-2:]).all()
    with mpmath.workprec(1400):
        for a, value in zip(x[:-2].tolist(), got[:-2].tolist(), strict=True):
            error = error_in_ulps(value, getattr(mpmath, op)(mpmath.mpf(a)), dtype)
            assert error <= ULPS, f"{op}({a!r}) = {value}: {error} ulp"


@pytest.mark.parametrize("op", ["sin", "cos"])
def test_no_sine_exceeds_one(op: str) -> None:
    k = np.random.default_rng(4).integers(0, 20000, 1 << 16)
    x = (k + (op == "sin") / 2) * math.pi + np.random.default_rng(5).normal(0, 2e-4, 1 << 16)
    for dtype in ("float32", "float64"):
        assert np.abs(apply(op, dtype, x)).max() == 1


@pytest.mark.parametrize(("dtype", "ulps", "products"), [("float32", 2, 8), ("float64", 1, 14)])
def test_exponentials_take_few_products(dtype: str, ulps: float, products: int) -> None:
    """And keep what they promise: within 2 and 1 units, never beyond 1 below 0."""
    (x,) = samples("exp", dtype, 4000)
    got = apply("exp", dtype, x)
    errors = [
        error_in_ulps(y, mpmath.exp(mpmath.mpf(a)), dtype)
        for a, y in zip(x.tolist(), got.tolist(), strict=True)
    ]
    assert 0.5 < max(errors) <= ulps
    below = -np.abs(np.concatenate([x, 2.0 ** np.arange(-60.0, 3), [0.0]])).astype(dtype)
    assert apply("exp", dtype, below).max() == 1
    assert apply("exp", dtype, [0.0, -0.0]).tolist() == [1, 1]
    kind = FLOAT32 if dtype == "float32" else FLOAT64
    text = assembly(function_text("exp", kind, 64 // kind.size_bytes, "x86-64-v4"), 2, "x86-64-v4")
    assert len(re.findall(r"vfn?m(?:add|sub)|vmul", text)) == products


ODD = ("log1p", "expm1", "tanh", "sin", "tan", "asin", "atan", "sinh", "asinh", "atanh")


@pytest.mark.parametrize("op", ODD)
def test_tiny_arguments_are_their_own_values(op: str) -> None:
    for dtype in ("float32", "float64"):
        bits = np.array([1, 2, 3, 5, 1000001], f"uint{np.finfo(dtype).bits}")
        x = np.concatenate([bits.view(dtype), -bits.view(dtype)])
        np.testing.assert_array_equal(apply(op, dtype, x), x)


def test_whole_powers_are_products() -> None:
    x = np.array([-3.0, -0.0, 0.0, 0.5, 7.0], np.float32)
    for n in (2, 3, 4, 2.0):
        np.testing.assert_array_equal(compiled("pow", "float32", 5, n)(x), x ** np.float32(n))
    np.testing.assert_array_equal(compiled("pow", "float32", 5, 0)(x), np.ones(5))
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(compiled("pow", "float32", 5, -1)(x), np.float32(1) / x)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("op", NAMES)
def test_no_function_calls_the_c_library(op: str) -> None:
    """Neither with 512 bits nor with 256, where LLVM has instructions for less."""
    for dtype, lanes in ((FLOAT32, 16), (FLOAT64, 8)):
        for cpu in ("x86-64-v4", "haswell"):
            text = assembly(function_text(op, dtype, lanes, cpu), 2, cpu)
            called = re.findall(r"call[ql]?\s+([^\s*]+)", text)
            assert all(name.startswith(("far.", f"{op}.")) for name in called), called


def function_text(op: str, dtype: DType, lanes: int, cpu: str) -> str:
    """A module with one function that applies `op` to vectors."""
    code = Code()
    w = Writer(code, 0, dtype, lanes)
    names = ["%a", "%b"][: 1 + (op in BINARY)]
    with described(f"cpu={cpu}"):
        result = functions.call(w, op, tuple(names))
    head = ", ".join([f"{w.type} {n}" for n in names])
    body = [f"define {w.type} @f({head}) {{", *code.regions[0].lines, f"ret {w.type} {result}", "}"]
    return "\n".join([*code.declarations.values(), *code.functions.values(), *body])


@pytest.mark.sampled(10)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", NAMES)
def test_vectors_and_scalars_have_equal_bits(op: str, dtype: str) -> None:
    args = [a[:37] for a in samples(op, dtype, 60)]
    together = apply(op, dtype, *args)
    alone = [apply(op, dtype, *[a[n : n + 1] for a in args])[0] for n in range(37)]
    np.testing.assert_array_equal(together, np.asarray(alone))


@pytest.mark.parametrize(
    ("x", "y"), [(1e-310, 5e-324), (1e308, 5e-324), (1e308, 1e-310), (4.4e-308, 1e-322)]
)
def test_fmod_of_subnormals(x: float, y: float) -> None:
    """The first took for ever, the second was NaN."""
    found = apply("fmod", "float64", np.array([x, -x]), np.array([y, y]))
    np.testing.assert_array_equal(found, np.fmod([x, -x], y))
