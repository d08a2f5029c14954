"""Functions of Python inside of programs: called in the native call, refused where no rule is."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import DefinitionError, DTypeError, GradError, ShapeError, UserError
from tensorad.ir.reference.verify import verify

X = np.array([3.0, 1.0, 2.0])


def ordered(x: Any) -> Any:
    return np.sort(x)


def largest_of(x: Any) -> Any:
    return {"value": x.max(), "place": np.int64(x.argmax())}


def same(x: Any) -> Any:
    return x


in_order = ta.foreign(ordered, same)


def steps(x: Any, n: Any) -> Any:
    x = ta.for_loop(0, n, lambda t, c: in_order(c) * 2.0 - c, x)
    x = ta.cond(n > 2, lambda: in_order(x), lambda: x * 0.0)
    return ta.while_loop(lambda c: c[0] < 9.0, lambda c: in_order(c) + 1.0, x)


def by_hand(x: Any, n: int) -> Any:
    for _ in range(n):
        x = np.sort(x) * 2.0 - x
    x = np.sort(x) if n > 2 else x * 0.0
    while x[0] < 9.0:
        x = np.sort(x) + 1.0
    return x


def test_they_run_in_loops_and_branches_of_one_native_call() -> None:
    f = ta.function(steps)
    for n in (0, 2, 3):
        assert (f(X, n) == by_hand(X, n)).all()
    x = ta.placeholder((3,), "float64", name="x")
    y = steps(x, ta.compute((), lambda: ta.const(3, "int64"), name="n"))
    assert (ta.interpret(y, {x: X}) == by_hand(X, 3)).all()
    assert (ta.evaluate(y, {x: X}) == by_hand(X, 3)).all()
    again, inner = pickle.loads(pickle.dumps((y, x)))
    assert (ta.evaluate(again, {inner: X}) == by_hand(X, 3)).all()
    assert "= ordered(" in str(ta.lower([in_order(x)], [x])) and "foreign ordered" in str(y)


def test_shapes_trees_and_dtypes_are_as_told() -> None:
    f = ta.foreign(largest_of, {"value": np.float64(0), "place": np.int64(0)})
    found = ta.function(lambda x: (f(x), x))(X)[0]
    assert found["value"] == 3.0 and found["place"] == 0 and found["place"].dtype == np.int64
    rows = ta.function(lambda x: in_order(x)[:2])
    for n in (3, 5, 7):  # sizes from the second call on
        x = np.arange(float(n))[::-1].copy()
        assert rows(x).tolist() == [0.0, 1.0]
    empty = ta.function(lambda x: in_order(x))
    assert empty(np.zeros((0,))).shape == (0,)
    narrow = ta.foreign(lambda x: x > 1.5, ta.placeholder((3,), "bool"))
    assert ta.function(narrow)(X).tolist() == [True, False, True]


def test_arrays_belong_to_the_function() -> None:
    kept = []

    def keeps(x: Any) -> Any:
        kept.append(x)
        x[0] = 7.0
        return x

    f = ta.function(lambda x: ta.foreign(keeps, same)(x * 1.0) + 0.0 * x)
    first = f(X)
    f(X * 2.0)
    assert first.tolist() == [7.0, 1.0, 2.0] and X[0] == 3.0
    assert kept[0].tolist() == [7.0, 1.0, 2.0] and kept[1].tolist() == [7.0, 2.0, 4.0]


class OwnError(Exception):
    """Of a user."""


def test_exceptions_come_out_unchanged() -> None:
    count = []

    def fails(x: Any) -> Any:
        count.append(1)
        if x[0] > 2.0:
            raise error
        return x

    f = ta.function(lambda x: ta.foreign(fails, same)(x) * 2.0)
    for error in (OwnError("own"), KeyboardInterrupt(), ValueError("of NumPy")):
        for _ in range(2):
            with pytest.raises(type(error)) as caught:
                f(X)
            assert caught.value is error
        assert f(X - 2.0).tolist() == [2.0, -2.0, 0.0]
    assert len(count) == 9, "once for each call"


def test_threads_have_their_own_calls() -> None:
    def odd_fails(x: Any) -> Any:
        if x[0] % 2:
            raise OwnError(int(x[0]))
        return x + 1.0

    f = ta.function(lambda x: ta.foreign(odd_fails, same)(x))
    f(np.zeros(3))

    def call(n: int) -> Any:
        try:
            return f(np.full(3, float(n)))[0]
        except OwnError as error:
            return -error.args[0]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(call, range(40)))
    assert found == [-n if n % 2 else n + 1 for n in range(40)]


def test_rules_give_them_derivatives() -> None:
    def pulled(out: Any, h: Any, x: Any) -> list[Any]:
        return [h * 2.0]

    f = ta.foreign(ordered, same, rule=ta.custom_rule(vjp=pulled))
    assert ta.grad(lambda x: (f(x * x)).sum())(X).tolist() == (4 * X).tolist()
    _, along = ta.jvp(lambda x: f(x * x), (X,), (X,))
    assert along.tolist() == (4 * X * X).tolist()
    h = ta.hessian(lambda x: (f(x) * x * x).sum())(X)
    np.testing.assert_allclose(h, np.diag(2 * np.sort(X) + 4 * X + 4 * X))
    loops = ta.grad(lambda x: ta.for_loop(0, 3, lambda t, c: f(c) + c, x).sum())(X)
    assert loops.tolist() == [27.0] * 3


def error(kind: type[UserError], call: Any) -> str:
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


def test_what_they_return_is_checked() -> None:
    hint = "\n  hint: correct what it returns, or the second argument of foreign."
    other = ta.foreign(lambda x: x, ta.placeholder((2,), "float64"))
    assert error(ShapeError, lambda: other(X)) == (
        f"<lambda> has shape (3,), but foreign was told (2,).{hint}"
    )
    other = ta.foreign(lambda x: x, ta.placeholder((3,), "int64"))
    assert error(DTypeError, lambda: other(X)) == (
        f"<lambda> has dtype float64, but foreign was told int64.{hint}"
    )
    other = ta.foreign(lambda x: (x,), same)
    assert error(DefinitionError, lambda: other(X)) == (
        "<lambda> returns another tree than foreign was told.\n"
        "  in:              told          returned\n"
        "      <lambda>     float64 (3,)  -\n"
        f"      <lambda>[0]  -             float64 (3,){hint}"
    )
    assert error(DefinitionError, lambda: ta.foreign(3, same)) == (
        "the first argument of foreign must be a function, got int.\n"
        "  hint: pass a function, or a lambda."
    )
    nothing = ta.foreign(lambda x: x, ())
    assert error(DefinitionError, lambda: nothing(X)).startswith(
        "shapes of <lambda> has no arrays."
    )


def test_integers_and_stopped_arguments_ask_for_no_rule() -> None:
    place = ta.foreign(lambda x: np.int64(x.argmax()), np.int64(0))
    assert ta.grad(lambda x: (x * x)[place(x)])(X).tolist() == [6.0, 0.0, 0.0]
    f = lambda x: (in_order(ta.stop_gradient(x)) * x).sum()  # noqa: E731  # one expression
    assert ta.grad(f)(X).tolist() == [1.0, 2.0, 3.0]
    assert "ordered" in error(GradError, lambda: ta.grad(lambda x: in_order(x).sum())(X))


def test_what_it_is_told_of_results_is_no_value() -> None:
    trace = ta.function(steps).trace(X, np.int64(2))
    verify(trace.results)
