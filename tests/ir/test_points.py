"""Index arithmetic on arrays gives what the interpreter gives, point by point."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tensorad import te
from tensorad.ir.analysis.points import count_points, evaluate
from tensorad.ir.dtypes import FLOAT32, FLOAT64, INT8, INT16, INT32, INT64, UINT8, DType
from tensorad.ir.expr import Expr, axis, call, cast, const
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.visit import substitute

A = axis("a", -300, 300)
TABLE = te.const(np.arange(-100, 100, 50).astype("int8"))


def narrow(dtype: DType) -> Expr:
    return cast(A * 7, dtype)


@pytest.mark.parametrize(
    "formula",
    [
        *[lambda d=d: narrow(d) for d in (UINT8, INT8, INT16, INT32, INT64)],
        *[lambda d=d: narrow(d) * narrow(d) + narrow(d) for d in (UINT8, INT8, INT16)],
        lambda: -narrow(INT8),
        lambda: call("abs", narrow(INT8)),
        lambda: call("pow", narrow(INT16), const(3, INT16)),
        lambda: call("pow", A, A % 5 - 2),
        lambda: cast(cast(A, FLOAT64) / 2.0, INT8),
        lambda: cast(cast(A, FLOAT64) * 1e18, INT64),
        lambda: cast(cast(A, FLOAT64) / cast(A % 3, FLOAT64), INT16),
        lambda: cast(A, FLOAT32) * const(0.1, FLOAT32),
        lambda: cast(A % 2 > 0, UINT8) - const(1, UINT8),
        lambda: TABLE[A % 4] * TABLE[(A + 1) % 4],
    ],
)
def test_narrow_integers_wrap(formula: Callable[[], Expr]) -> None:
    e = formula()
    (found,) = evaluate((e,), {A: np.arange(-300, 300)}, {})
    y = te.compute((600,), lambda i: substitute(e, {A: i - 300}), name="Y")
    np.testing.assert_array_equal(np.broadcast_to(found, (600,)), interpret(y, {}))


def test_points_are_counted_where_a_wrapped_condition_holds() -> None:
    assert count_points((A, call("eq", cast(A, INT8), const(0, INT8))), {}) == 3, "-256, 0, 256"
