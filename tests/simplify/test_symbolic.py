"""Formulas in LaTeX."""

from __future__ import annotations

import pytest

from tensorad import te
from tensorad.ir.expr import FUNCTIONS, OPERATIONS, Expr, call, const
from tensorad.simplify.sympy_bridge import latex
from tests.support.oracles import box


def test_a_dense_layer() -> None:
    x, w = te.placeholder((4, 10), name="X"), te.placeholder((3, 10), name="W")
    k = te.reduce_axis(10, "k")
    y = te.compute((4, 3), lambda i, j: te.sum(x[i, k] * w[j, k], axis=k), name="Y")
    assert latex(y.op.bodies[0]) == r"\sum_{k=0}^{9} {X}_{i,k} {W}_{j,k}"


def test_tensors_show_themselves_as_equations() -> None:
    x = te.placeholder((4,), name="X")
    y = te.compute((4,), lambda i: 2 * te.exp(x[i]), name="Y")
    assert y._repr_latex_() == r"${Y}_{i} = 2.0 e^{{X}_{i}}$"
    assert x._repr_latex_() == r"$\mathrm{X}$"


def test_nested_remainders_are_not_evaluated() -> None:
    (i,) = box(i=9)
    assert (
        latex((2 * (i % 3)) % 5)
        == r"\operatorname{mod}{\left(2 \operatorname{mod}{\left(i,3 \right)},5 \right)}"
    )


def test_selects_are_cases() -> None:
    (i,) = box(i=9)
    x = te.placeholder((9,), name="X")
    assert r"\begin{cases}" in latex(te.select(i > 2, x[i], 0.0))


@pytest.mark.parametrize("op", [*OPERATIONS, *FUNCTIONS])
def test_every_operation_has_a_form(op: str) -> None:
    x = te.placeholder((9,), name="X")
    n = te.placeholder((9,), dtype="int64", name="N")
    (i,) = box(i=9)
    flag = x[i] > 0
    operands: dict[str, tuple[Expr, ...]] = {
        "and": (flag, n[i] > 1), "or": (flag, n[i] > 1), "not": (flag,),
        "floordiv": (n[i], n[i] + 1), "mod": (n[i], n[i] + 1),
    }  # fmt: skip
    binary = ("add", "sub", "mul", "div", "minimum", "maximum", "pow", "lt", "le",
              "gt", "ge", "eq", "ne",
              *[f.name for f in FUNCTIONS.values() if f.arity == 2])  # fmt: skip
    args = operands.get(op) or ((x[i], x[0] + const(0.5, x.dtype)) if op in binary else (x[i],))
    assert latex(call(op, *args))
