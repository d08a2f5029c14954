"""Tools that take a function with example arguments do what they do with its tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import te, topi
from tensorad.errors import (
    BindError,
    DefinitionError,
    DTypeError,
    GradError,
    ShapeError,
    UserError,
)

X = np.array([[0.3, -1.2, 0.7], [1.1, 0.4, -0.6]])
W = {"w": np.array([0.5, -0.25, 2.0]), "n": 3}


def layer(params: dict[str, Any], x: Any) -> dict[str, Any]:
    """A call, a loop and a branch on trees."""

    def step(t: Any, s: Any) -> Any:
        return topi.tanh(s * params["w"] + x[0])

    s = ta.for_loop(0, params["n"], step, x[1])
    return {"s": s, "flag": ta.cond(s.sum() > 0, lambda: s.sum(), lambda: -s.sum())}


def loss(params: dict[str, Any], x: Any) -> Any:
    return layer(params, x)["flag"]


def test_gradcheck_takes_a_function_at_its_arguments() -> None:
    assert ta.gradcheck(layer, W, X) is True
    report = ta.gradcheck(layer, W, X, order=2, batch=2, report=True)
    assert report
    assert {r.derivative.split(" by ")[1] for r in report.rows} >= {"params['w']", "x"}
    text = str(ta.gradcheck(layer, W, X, modes="reverse", fast=True, report=True))
    assert "reverse mode only, along random directions only" in text


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("fast", [False, True])
def test_a_wrong_derivative_is_named_in_each_mode(mode: str, fast: bool) -> None:
    @ta.scalar_function(partials=lambda y, a: 2.0 * a * a)
    def cube(a: Any) -> Any:
        return a * a * a

    def f(x: Any) -> Any:
        return ta.for_loop(
            0, 2, lambda t, s: te.compute((3,), lambda i: cube(s[i]), name="cubed"), x[0]
        )

    with pytest.raises(GradError, match=f"{mode} mode disagrees") as caught:
        ta.gradcheck(f, X, modes=[mode], fast=fast)
    assert "the partials given for cube are wrong" in str(caught.value)


def test_gradcheck_takes_programs_whose_work_a_run_decides() -> None:
    def halved(x: Any) -> Any:
        return ta.while_loop(lambda c: c.sum() > 1, lambda c: c / 2, x)

    def mixed(x: Any) -> Any:
        def step(i: Any, c: Any) -> Any:
            return ta.cond(c.sum() > 3, lambda: halved(c), lambda: ta.topi.tanh(c * x) + x)

        return (ta.for_loop(0, 3, step, x) ** 2).sum()

    def ragged(ends: Any, x: Any) -> Any:
        def row(i: Any) -> Any:
            k = ta.reduce_axis((0, ta.minimum(ends[i], 3)), name="k")
            return ta.sum(x[k] ** 3, axis=k)

        return ta.compute((2,), row)

    x = np.array([0.3, 0.9, 2.1])
    assert ta.gradcheck(mixed, x, order=2) is True
    assert ta.gradcheck(ragged, np.array([1, 3]), x, order=2) is True


def test_gradcheck_says_what_it_cannot_check() -> None:
    with pytest.raises(DTypeError, match="no argument is a float"):
        ta.gradcheck(lambda n: n * 2, 3)
    with pytest.raises(GradError, match="no result is a float"):
        ta.gradcheck(lambda x: x > 0, X)
    with pytest.raises(DefinitionError, match="checks forward and reverse mode"):
        ta.gradcheck(layer, W, X, modes=("backward",))
    with pytest.raises(GradError, match="wrt is empty"):
        ta.gradcheck(ta.topi.tanh(te.placeholder((3,), "float64")), [])


def test_work_is_that_of_the_shapes() -> None:
    f = ta.function(lambda x: topi.exp(x) * 2)
    assert [ta.work(f, np.ones(n)).elements for n in (4, 4, 7)] == [8, 8, 14]
    counted = ta.work(ta.grad(loss, argnums=1), W, X)
    program = ta.grad(loss, argnums=1).trace(W, X)
    assert counted == ta.work(program.results)


def test_counts_that_only_a_run_tells_are_given_by_name() -> None:
    f = ta.grad(lambda x, n: ta.for_loop(1, n, lambda i, s: s * x[i], x[0]))
    x = np.ones(5)
    with pytest.raises(UserError, match=r'work\(\.\.\., sizes={"trips": 8}\)'):
        ta.work(f, x, 4)
    few, more = (ta.work(f, x, 4, sizes={"trips": n}).multiplications for n in (2, 3))
    assert few < more
    assert ta.explain(f, x, 4, sizes={"trips": 3}).gradients


def test_lowered_loops_are_those_of_the_tensors(capsys: pytest.CaptureFixture[str]) -> None:
    program = ta.function(loss).trace(W, X)
    expected = str(ta.lower(list(program.results), list(program.parameters)))
    assert str(ta.lower(loss, W, X)) == expected
    ta.show_lowered(loss, W, X)
    assert capsys.readouterr().out == f"{expected}\n"


def test_explain_tells_of_the_gradients_among_the_results() -> None:
    def square(x: Any) -> Any:
        return topi.sum(x * x)

    told = ta.explain(ta.value_and_grad(square), X)
    assert len(told.gradients) == 1
    assert "reverse mode" in str(told) or "x" in str(told)
    with pytest.raises(GradError, match="no result of square is one"):
        ta.explain(square, X)


def test_interpret_returns_the_tree() -> None:
    found = ta.interpret(layer, W, X)
    expected = ta.function(layer)(W, X)
    assert set(found) == {"s", "flag"}
    np.testing.assert_allclose(found["s"], expected["s"], rtol=1e-12)
    np.testing.assert_allclose(found["flag"], expected["flag"], rtol=1e-12)


def test_time_is_that_of_a_call() -> None:
    assert 0 < ta.measure_performance(loss, W, X, min_seconds=0.001) < 1000


def test_sparse_derivatives_of_functions() -> None:
    def differences(p: dict[str, Any], k: int) -> Any:
        return {"d": p["a"][1:] - p["a"][:-1] * p["b"], "k": k}

    a = {"a": np.arange(5.0), "b": np.ones(4)}
    J = ta.sparse_jacobian(differences)
    dense = ta.jacobian(differences)(a, 1)["d"]
    np.testing.assert_array_equal(J(a, 1).toarray(), np.hstack([dense["a"], dense["b"]]))
    assert J.matrix(a, 1).shape == (4, 9)
    assert J(a, 1).nnz == 12
    longer = {"a": np.arange(7.0), "b": np.ones(6)}
    assert J(longer, 1).shape == (6, 13)

    def energy(k: int, x: Any) -> Any:
        return topi.sum(topi.exp((x[1:] - x[:-1]) * k))

    H = ta.sparse_hessian(energy, argnums=1)
    x = np.linspace(0, 1, 6)
    np.testing.assert_allclose(
        H(2, x).toarray(), ta.hessian(lambda x: energy(2, x))(x), rtol=1e-12, atol=1e-14
    )
    assert H(2, x).nnz == 16


def test_sparse_derivatives_say_what_does_not_fit() -> None:
    with pytest.raises(BindError, match="by argument 2, but the call has 1"):
        ta.sparse_jacobian(lambda x: x, argnums=2)(X)
    with pytest.raises(DTypeError, match="by n of dtype int64"):
        ta.sparse_jacobian(lambda n, x: x * n)(2, X)
    with pytest.raises(ShapeError, match="returns 2 arrays"):
        ta.sparse_hessian(lambda x: (x.sum(), x.sum()))(X)


def test_examples_are_arrays() -> None:
    with pytest.raises(BindError, match="has a tensor in it: x"):
        ta.work(lambda x: x * 2, te.placeholder((3,)))
