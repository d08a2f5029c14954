"""A scalar function from outside: one row, and all of the library knows it."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.codegen.cost.operation_costs import operations
from tensorad.codegen.runtime import kernel_cache
from tensorad.errors import DefinitionError, GradError
from tensorad.ir.dtypes import FLOAT32
from tensorad.ir.elementary.emitter import Emitter
from tensorad.ir.elementary.table import FUNCTIONS, is_costly
from tensorad.ir.expr import Expr, call
from tensorad.ir.tensor import Tensor
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
    for name in ("a b", "", "lambda", 3):
        with pytest.raises(DefinitionError, match=f"needs an identifier for a name, got {name!r}"):
            te.elementary_function(te.Elementary(**{**vars(SOFTSIGN), "name": name}))


@pytest.mark.parametrize("name", ["float64", "bool", "select", "max", "sum", "llvm"])
def test_its_name_is_no_word_of_formulas(name: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        te.elementary_function(te.Elementary(**{**vars(SOFTSIGN), "name": name}))
    assert str(caught.value) == (
        f"{name}(...) means something else in formulas.\n  hint: give yours another name."
    )
    assert name not in FUNCTIONS


def _narrowed(w: Emitter, x: str) -> str:
    return w.convert("fptrunc", x, FLOAT32)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (lambda w, x: None, "None is no register"),
        (lambda w, x: 1.0, "1.0 is no register"),
        (lambda w, x: "%nothing", "use of undefined value '%nothing'"),
        (
            lambda w, x: w.compare("olt", x, x),
            "'%v1' defined with type '<8 x i1>' but expected '<8 x double>'",
        ),
        (_narrowed, "'%v1' defined with type '<8 x float>' but expected '<8 x double>'"),
        (
            lambda w, x: w.binary("xor", x, x),
            "instruction requires integer or integer vector operands",
        ),
        (lambda w, x: w.intrinsic("nosuch", x), "unknown intrinsic 'llvm.nosuch.v8f64'"),
    ],
)
def test_code_that_gives_no_value_is_refused(code: Callable[..., str], said: str) -> None:
    function = te.elementary_function(
        te.Elementary(**{**vars(SOFTSIGN), "name": "other", "code": code})
    )
    X = ta.placeholder((64,), "float64", name="X")
    try:
        Y = ta.compute((64,), lambda i: function(X[i]), name="Y")
        with pytest.raises(DefinitionError) as caught:
            ta.build(Y, [X])
    finally:
        del FUNCTIONS["other"]
    assert str(caught.value) == (
        f"the code of the function other gives no float64: {said}.\n"
        "  in: other(a) of 8 lanes\n"
        "  hint: give the register with the value, as the methods of w do; what w.of(...) made of "
        "another dtype has to be converted."
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arity": 3}, "the function other must take 1 or 2 arguments, got arity=3"),
        ({"arity": 2}, r"the value of the function other must be a function (a, b) -> ..."),
        ({"value": None}, "the value of the function other must be a function (a) -> ..."),
        ({"partials": lambda y: y}, "the partials of the function other must be a function (y, a)"),
        ({"code": None}, "the code of the function other must be a function (w, a) -> ..."),
        ({"cost": 7}, "the cost of the function other must be an OperationCost, got 7"),
        ({"ufunc": "exp"}, "np.exp is a function of formulas already"),
        ({"ufunc": "absolute"}, "np.absolute is a function of formulas already"),
        ({"ufunc": "arcsinh"}, "np.arcsinh is a function of formulas already"),
    ],
)
def test_a_wrong_record_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(DefinitionError, match=re.escape(message)):
        te.elementary_function(te.Elementary(**{**vars(SOFTSIGN), "name": "other", **change}))
    assert "other" not in FUNCTIONS


def test_only_a_record_is_taken() -> None:
    with pytest.raises(DefinitionError, match="takes an Elementary, got str"):
        te.elementary_function("exp")  # type: ignore[arg-type]  # what is tested


@pytest.fixture
def other() -> Iterator[object]:
    """Has a function of the same values whose partials are given in the test."""

    def with_partials(given: object) -> Tensor:
        row = te.Elementary(**{**vars(SOFTSIGN), "name": "other", "partials": lambda y, x: given})
        function = te.elementary_function(row)
        return ta.compute((3,), lambda i: function(Z[i]), name="Y")

    yield with_partials
    FUNCTIONS.pop("other", None)


Z = ta.placeholder((3,), "float64", name="Z")


@pytest.mark.parametrize("given", [2, 2.0, (2,), np.float64(2.0), ta.const(2.0)])
def test_partials_may_be_numbers(other: Callable[[object], Tensor], given: object) -> None:
    (dZ,) = ta.vjp(other(given), [Z], np.ones(3))
    np.testing.assert_array_equal(ta.evaluate(dZ, {Z: np.ones(3)}), 2 * np.ones(3))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((), "the partials of other are 0, but it takes 1 argument."),
        ((1.0, 1.0), "the partials of other are 2, but it takes 1 argument."),
        ("x", "partial 0 of other must be an expression, got str."),
        (True, "partial 0 of other is of dtype bool; it must be a float."),
    ],
)
def test_wrong_partials_are_refused(
    other: Callable[[object], Tensor], given: object, message: str
) -> None:
    Y = other(given)
    with pytest.raises(GradError, match=re.escape(message)):
        ta.vjp(Y, [Z], np.ones(3))


def test_loading_where_it_is_not_known() -> None:
    kept = pickle.dumps(ta.compute((3,), lambda i: softsign_of(Z[i]), name="Y"))
    row = FUNCTIONS.pop("softsign")
    try:
        with pytest.raises(DefinitionError, match="there is no function softsign where this is"):
            pickle.loads(kept)
    finally:
        FUNCTIONS["softsign"] = row
