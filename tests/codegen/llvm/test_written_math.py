"""Powers and large angles as they are written into a function, called one by one."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from tensorad.codegen.llvm.math.powers import power
from tensorad.codegen.llvm.math.range_reduction import define_large_angle, with_large_angles
from tensorad.codegen.llvm.text import Code, Writer, type_text
from tensorad.ir.dtypes import FLOAT32, FLOAT64, DType
from tensorad.ir.expr import FUNCTIONS
from tests.codegen.llvm.written import native

LANES = 4
INF, NAN = math.inf, math.nan
BASES = [2.0, -2.0, -2.0, 0.0, -0.0, INF, 1.0, 3.0, 10.0, 0.5, NAN, -8.0]
EXPONENTS = [10.0, 3.0, 0.5, 0.0, -1.0, -2.0, NAN, INF, -3.0, 60.0, 2.0, -1.0]
ANGLES = [1e6, -1e22, 2.0**1000, 1.7e308, 3.0, -INF, 123456789.0, -5e15]
LIMIT = 1e5


def powers(dtype: DType, lanes: int) -> np.ndarray:
    """BASES ** EXPONENTS, so many at a time."""
    code = Code()
    w = Writer(code, 0, dtype, lanes)
    scalar = type_text(dtype)
    count = max(1, lanes)
    for n in range(0, len(BASES), count):
        x, y = (
            w.put(
                f"load {w.type}, ptr {w.put(f'getelementptr {scalar}, ptr {p}, i64 {n}')}, align 4"
            )
            for p in ("%x", "%y")
        )
        where = w.put(f"getelementptr {scalar}, ptr %z, i64 {n}")
        code.line(f"store {w.type} {power(w, x, y)}, ptr {where}, align 4")
    given = [np.array(a, str(dtype)) for a in (BASES, EXPONENTS)]
    found = np.zeros(len(BASES), str(dtype))
    native(code, "xyz")(*given, found)
    return found


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
def test_powers_have_the_special_cases_of_c_and_equal_bits_in_lanes(dtype: DType) -> None:
    one, several = powers(dtype, 0), powers(dtype, LANES)
    assert one.tobytes() == several.tobytes()
    with np.errstate(all="ignore"):
        want = np.power(np.array(BASES, str(dtype)), np.array(EXPONENTS, str(dtype)))
    np.testing.assert_array_max_ulp(one, want, maxulp=1, dtype=str(dtype))
    np.testing.assert_array_equal(
        np.signbit(one[~np.isnan(one)]), np.signbit(want[~np.isnan(want)])
    )


def sine(angle: float) -> float:
    with mpmath.workprec(2200):
        return float(mpmath.sin(mpmath.mpf(angle))) if math.isfinite(angle) else NAN


def test_any_angle_is_reduced_to_a_quarter_turn() -> None:
    far = FUNCTIONS["sin"].far
    assert far is not None
    code = Code()
    define_large_angle(code, "sin", far)
    for n in range(len(ANGLES)):
        at, to = (code.put(f"getelementptr double, ptr {p}, i64 {n}") for p in ("%x", "%y"))
        value = code.put(f"call double @far.sin(double {code.put(f'load double, ptr {at}')})")
        code.line(f"store double {value}, ptr {to}")
    found = np.zeros(len(ANGLES))
    native(code, "xy")(np.array(ANGLES), found)
    want = [sine(a) for a in ANGLES]
    np.testing.assert_allclose(found, want, rtol=4e-16)


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
@pytest.mark.parametrize("lanes", [0, LANES])
def test_only_lanes_beyond_the_limit_are_computed_apart(dtype: DType, lanes: int) -> None:
    far = FUNCTIONS["sin"].far
    assert far is not None
    inner = Code()
    define_large_angle(inner, "sin", far)
    w = Writer(inner, 0, dtype, lanes)
    with_large_angles(w, "sin", LIMIT, "%x0", w.const(7.0))
    inner.line(f"ret {w.type} {w.const(7.0)}")
    head = f"define internal {w.type} @whole({w.type} %x0) nounwind {{"
    code = Code()
    code.functions.update(inner.functions)
    code.functions["whole"] = "\n".join(
        [head, "entry:", *inner.regions[0].lines, *inner.failures, "}"]
    )
    code.declarations.update(inner.declarations)
    given = code.put(f"load {w.type}, ptr %x, align 4")
    code.line(
        f"store {w.type} {code.put(f'call {w.type} @whole({w.type} {given})')}, ptr %y, align 4"
    )
    f = native(code, "xy")
    for angles in ([1.0, 1e22, -99999.0, -1e30], [1e5, -3.0, 0.0, 2.0], [0.0, 1.0, 2.0, 3.0]):
        x = np.array(angles[: max(1, lanes)], str(dtype))
        y = np.zeros_like(x)
        f(x, y)
        want = [sine(float(a)) if abs(a) >= LIMIT else 7.0 for a in x]
        np.testing.assert_allclose(y, want, rtol=np.finfo(str(dtype)).eps)
