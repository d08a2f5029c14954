"""Element types: promotion, weak numbers, wrapping, ranges."""
# ruff: noqa: E501  (texts of the source stay as they are)

from __future__ import annotations

from typing import Final

from tests.mutants.mistake import Mistake, Part, in_file

DTYPES: Final = Part(
    "tests/ir/arrays/test_promotion.py tests/te/test_weak.py tests/te/test_constants.py tests/te/test_te.py",
    "tests/ir/test_ufuncs.py tests/te tests/topi/as_numpy tests/topi/test_topi_math.py"
    " tests/ir/test_interpret.py",
)

MISTAKES: Final[list[Mistake]] = [
    *in_file(
        "tensorad/ir/dtypes.py",
        DTYPES,
        [
            (
                "uint8 with int8 is int8",
                "if low is UINT8 and high is INT8:",
                "if False:",
            ),
            (
                "uint8 with any integer is int16",
                "if low is UINT8 and high is INT8:",
                'if low is UINT8 and high.kind == "int":',
            ),
            (
                "int64 with float32 is float64",
                "        return INT16\n    return high",
                "        return INT16\n    return FLOAT64 if high is FLOAT32 and low.bits == 64 else high",
            ),
            (
                "int32 with float32 is float64",
                "        return INT16\n    return high",
                "        return INT16\n    return FLOAT64 if high is FLOAT32 and low is INT32 else high",
            ),
            (
                "of two of a kind the narrower",
                "return a if a.bits >= b.bits else b",
                "return a if a.bits <= b.bits else b",
            ),
            (
                "a Python integer beside bool stays bool",
                "return INT64 if other is BOOL else other",
                "return other",
            ),
            (
                "a Python integer beside uint8 is int64",
                "return INT64 if other is BOOL else other",
                "return INT64 if other in (BOOL, UINT8) else other",
            ),
            (
                "a Python float beside an integer is that integer's",
                "return other if other.is_float and not other.is_weak else WEAK_FLOAT",
                "return other if not other.is_weak else WEAK_FLOAT",
            ),
            (
                "functions of int32 are float64",
                "return FLOAT64 if dtype.bits == 64 else FLOAT32",
                "return FLOAT64 if dtype.bits >= 32 else FLOAT32",
            ),
            (
                "functions of int64 are float32",
                "return FLOAT64 if dtype.bits == 64 else FLOAT32",
                "return FLOAT32",
            ),
            (
                "the smallest integer is off by one",
                "return -(1 << (self.bits - 1)) if",
                "return 1 - (1 << (self.bits - 1)) if",
            ),
            (
                "the largest unsigned is the signed one",
                'return (1 << (self.bits - (self.kind == "int"))) - 1',
                "return (1 << (self.bits - 1)) - 1",
            ),
            (
                "what wraps stays unsigned at the sign's bit alone",
                'if dtype.kind == "int" and value >> (dtype.bits - 1):',
                'if dtype.kind == "int" and value > (1 << (dtype.bits - 1)):',
            ),
            (
                "unsigned numbers wrap like signed ones",
                'if dtype.kind == "int" and value >> (dtype.bits - 1):',
                "if value >> (dtype.bits - 1):",
            ),
        ],
    ),
]
