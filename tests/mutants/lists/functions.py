"""Elementary functions: coefficients, ends of their ranges, derivatives, special values."""
# ruff: noqa: E501  (texts of the source stay as they are)

from __future__ import annotations

from typing import Final

from tests.mutants.mistake import Mistake, Part, in_file

FUNCTIONS: Final = Part(
    "tests/codegen/llvm/test_own_errors.py tests/autodiff/test_rules.py",
    "tests/te/test_elementary.py tests/ir/elementary tests/codegen/llvm/test_vmath.py tests/project/test_accuracy.py",
)

MISTAKES: Final[list[Mistake]] = [
    *in_file(
        "tensorad/ir/elementary/error_function.py",
        FUNCTIONS,
        [
            (
                "erf: far from 0 from a little too near on",
                "w.const(0.92 if narrow else 0.55)",
                "w.const(0.92 if narrow else 0.75)",
            ),
            (
                "erf: float32 is cut off at 3",
                "limited = at_most(w, a, 4.0 if narrow else 6.0)",
                "limited = at_most(w, a, 3.0 if narrow else 6.0)",
            ),
            (
                "erf: float64 is cut off at 5",
                "limited = at_most(w, a, 4.0 if narrow else 6.0)",
                "limited = at_most(w, a, 4.0 if narrow else 5.0)",
            ),
            ("erf: the sign is lost far from 0", "near, copy_sign(w, far, x))", "near, far)"),
            (
                "erfc: what the square lost is not given back",
                "tail = w.mul(w.mul(exp_of_sum(w, r, lost), slow)",
                "tail = w.mul(w.mul(exp_of_sum(w, r, w.const(0.0)), slow)",
            ),
            (
                "erfc: cut off where results are subnormal",
                "at_least(w, x, 0.5), 28.0)",
                "at_least(w, x, 0.5), 26.0)",
            ),
            (
                "erfc: another middle",
                "middle, square = w.const(3.75), w.mul(a, a)",
                "middle, square = w.const(3.7500001), w.mul(a, a)",
            ),
            (
                "erfinv: the further piece begins later",
                'far = w.compare("ogt", s, w.const(2.5))',
                'far = w.compare("ogt", s, w.const(2.9))',
            ),
            (
                "erfinv: the end is no infinity",
                'found = w.select(w.compare("oeq", a, one), edge, found)',
                'found = w.select(w.compare("oeq", a, one), found, found)',
            ),
            (
                "erfinv: the place of the further piece",
                "_FAR: Final = 4.296875",
                "_FAR: Final = 4.296874",
            ),
        ],
    ),
    *in_file(
        "tensorad/ir/elementary/exponential.py",
        FUNCTIONS,
        [
            (
                "log: of the lower part of ln 2 nothing",
                "small = w.fma(s, rest, w.mul(e, w.const(low * unit)))",
                "small = w.mul(s, rest)",
            ),
            (
                "log: -inf at 0 is lost",
                'result = w.select(w.compare("oeq", x, w.const(0.0)), w.const(-INF), result)\n',
                "pass\n",
            ),
            (
                "log: infinity is not kept",
                'result = w.select(w.compare("oeq", x, w.const(INF)), x, result)\n',
                "pass\n",
            ),
            (
                "log1p: tiny numbers are not themselves",
                "result = w.select(_is_ordinary(w, x), result, x)",
                "pass",
            ),
            (
                "log1p: -inf at -1 is NaN",
                'low = w.select(w.compare("oeq", x, w.const(-1.0)), w.const(-INF), w.const(NAN))',
                "low = w.const(NAN)",
            ),
            (
                "exp2: ends too early",
                "at_least(w, x, -1080.0), 1030.0)",
                "at_least(w, x, -1020.0), 1030.0)",
            ),
            (
                "exp2: infinity comes late",
                "at_least(w, x, -1080.0), 1030.0)",
                "at_least(w, x, -1080.0), 1023.0)",
            ),
            (
                "exp2: the lower part of ln 2 is lost",
                "low = w.fma(r, w.const(_LN2[1]), w.fma(r, w.const(_LN2[0]), w.neg(high)))",
                "low = w.fma(r, w.const(_LN2[0]), w.neg(high))",
                "a twentieth of a unit in the last place: the largest error is the same",
            ),
            ("cbrt: one step less", "for _ in range(2):", "for _ in range(1):"),
            (
                "cbrt: of -0",
                'return w.select(w.compare("oeq", a, w.const(0.0)), x, result)',
                "return result",
            ),
            (
                "cbrt: the last residue is half as large",
                "residue = w.fma(rest, y, w.fma(square, y, w.neg(m)))",
                "residue = w.fma(square, y, w.neg(m))",
            ),
            (
                "derivative of log2 by ln 2",
                "partials=lambda y, x: (_LOG2E[0] / x,),",
                "partials=lambda y, x: (_LN2[0] / x,),",
            ),
            (
                "derivative of rsqrt loses its sign",
                "partials=lambda y, x: (-0.5 * y / x,),",
                "partials=lambda y, x: (0.5 * y / x,),",
            ),
            (
                "derivative of log1p at x",
                "partials=lambda y, x: (1 / (1 + x),),",
                "partials=lambda y, x: (1 / x,),",
            ),
            (
                "derivative of expm1 is its value",
                'partials=lambda y, x: (apply("exp", x),),',
                "partials=lambda y, x: (y,),",
            ),
        ],
    ),
]
