"""A scalar function from outside: one row, and all of the library knows it."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.codegen.cost.operation_costs import operations
from tensorad.codegen.runtime import kernel_cache
from tensorad.errors import DefinitionError
from tensorad.ir.elementary.table import FUNCTIONS, is_costly
from tensorad.ir.expr import Expr, call
from tensorad.simplify.sympy_bridge import latex
from tensorad.te.scalars import Unary

SOFTSIGN = te.Elementary(
    name="softsign",
    meaning="x / (1 + |x|).",
    value=lambda x: x / (1 + np.abs(x)),
    partials=lambda y, x: ((1 - abs(y)) ** 2,),
    code=lambda w, x: w.div(x, w.add(w.const(1.0), w.intrinsic("fabs", x))),
    sampled=(-10, 10),
    cost=te.OperationCost(weight=3, cycles=8, half_cycles=16, flops=3),
    latex=r"\varsigma",
)


@pytest.fixture(autouse=True)
def softsign() -> Iterator[object]:
    yield te.elementary_function(SOFTSIGN)
    del FUNCTIONS["softsign"]


def softsign_of(x: Expr) -> Expr:
    return call("softsign", x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_it_is_interpreted_and_compiled(softsign: Unary, dtype: str) -> None:
    X = ta.placeholder((101,), dtype, name="X")
    x = np.linspace(-8, 8, 101).astype(dtype)
    Y = ta.compute((101,), lambda i: 2 * softsign(X[i]), name="Y")
    wide = x.astype("float64")
    np.testing.assert_array_equal(ta.interpret(Y, {X: x}), 2 * (wide / (1 + np.abs(wide))))
    np.testing.assert_array_equal(ta.build(Y, [X])(x), 2 * (x / (1 + np.abs(x))))
    (kernel,) = ta.lower([Y], [X]).program.kernels
    text, _ = kernel_cache.kernel_text(kernel, kernel_cache.kernel_key(kernel)[1])
    assert re.search(r"fdiv <\d+ x", text), "in a vector loop"
    assert softsign(X).shape == (101,), "of a whole tensor, too"


def test_many_calls_share_a_helper() -> None:
    X = ta.placeholder((40,), "float64", name="X")
    Y = ta.compute((40,), lambda i: sum([softsign_of(X[i] + n) for n in range(12)], 0.0), name="Y")
    (kernel,) = ta.lower([Y], [X]).program.kernels
    text, _ = kernel_cache.kernel_text(kernel, kernel_cache.kernel_key(kernel)[1])
    assert "@softsign.v" in text
    x = np.linspace(-2, 2, 40)
    np.testing.assert_allclose(ta.build(Y, [X])(x), ta.interpret(Y, {X: x}), rtol=1e-14)


def test_it_differentiates_in_both_modes_to_any_order() -> None:
    X = ta.placeholder((9,), "float64", name="X")
    Y = ta.compute((9,), lambda i: softsign_of(X[i] + 0.3) ** 2, name="Y")
    assert ta.gradcheck(Y, X, order=2)
    x, ones = np.linspace(-2, 1, 9), np.ones(9)
    (back,), forward = ta.vjp(Y, [X], ones), ta.jvp(Y, {X: ones})
    np.testing.assert_allclose(ta.evaluate(back, {X: x}), ta.evaluate(forward, {X: x}), rtol=1e-14)


def test_it_counts_and_prints() -> None:
    X = ta.placeholder((7,), name="X")
    Y = ta.compute((7,), lambda i: softsign_of(X[i]), name="Y")
    assert ta.work(Y).multiplications == 7
    assert is_costly("softsign")
    assert operations(Y.op.bodies) == 3
    assert str(Y.op.bodies[0]) == "softsign(X[i])"
    assert latex(Y.op.bodies[0]) == r"\varsigma{\left({X}_{i} \right)}"
    again = pickle.loads(pickle.dumps(Y))
    assert again.op.bodies[0].op == "softsign"


def test_its_name_must_be_new_and_an_identifier() -> None:
    for name in ("softsign", "exp", "add"):
        with pytest.raises(DefinitionError, match=f"there is a function {name} already"):
            te.elementary_function(te.Elementary(**{**vars(SOFTSIGN), "name": name}))
    with pytest.raises(DefinitionError, match="needs an identifier for a name, got 'a b'"):
        te.elementary_function(te.Elementary(**{**vars(SOFTSIGN), "name": "a b"}))
