"""Operators with rules of their own: functions and classes, in both modes, and what is refused."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import topi
from tensorad.errors import DefinitionError, DTypeError, GradError, ShapeError, UserError
from tests.seeds.support.differences import check_gradient

X = np.array([0.5, -1.5, 2.0])


class Product(ta.Operator):
    """x*y as nGraph has it."""

    def compute(self, x: Any, y: Any) -> Any:
        return x * y

    def generate_adjoints(self, adjoints: Any, delta: Any, x: Any, y: Any) -> None:
        x.generate_add_delta(adjoints, y * delta)
        y.generate_add_delta(adjoints, x * delta)


def tripling(name: str = "through") -> Any:
    """round(x), with 3 in the place of the derivative, which is 0."""

    @ta.function
    def through(x: Any) -> Any:
        return topi.round(x)

    through.name = name

    @ta.register_gradient(through)
    def rule(call: Any, gradient: Any) -> list[Any]:
        assert call.op == name
        return [gradient * 3.0]

    return through


def test_rules_are_used_in_place_of_formulas() -> None:
    f = tripling()
    assert (f(X) == np.round(X)).all()
    assert ta.grad(lambda x: (f(x) * x).sum())(X).tolist() == (np.round(X) + 3 * X).tolist()
    assert ta.grad(lambda x: f(x.sum()))(X).tolist() == [3.0, 3.0, 3.0]
    assert float(ta.grad(f)(np.float64(0.2))) == 3.0
    _, along = ta.jvp(lambda x: f(x) * 2.0, (X,), (X,))
    assert along.tolist() == (6 * X).tolist()
    assert (ta.jacobian(f)(X) == 3 * np.eye(3)).all()
    assert (ta.jacfwd(f)(X) == 3 * np.eye(3)).all()
    assert (ta.jacrev(lambda x: f(x) * x)(X) == np.diag(np.round(X) + 3 * X)).all()


def test_rules_hold_inside_of_branches_loops_and_calls() -> None:
    f = tripling()
    inner = ta.function(lambda x: f(x) + x)

    def g(x: Any, way: Any) -> Any:
        x = ta.cond(way, lambda: f(x), lambda: x * 2.0)
        x = ta.for_loop(0, 2, lambda t, c: f(c) * 0.5, x)
        x = ta.while_loop(lambda c: c.sum() < 4.0, lambda c: inner(c) + 1.0, x)
        return x.sum()

    by_x = ta.grad(g)
    for way, first in ((True, 3.0), (False, 2.0)):
        steps, c = 0, np.round(X) if way else X * 2.0
        for _ in range(2):
            c = np.round(c) * 0.5
        while c.sum() < 4.0:
            c, steps = np.round(c) + c + 1.0, steps + 1
        assert steps > 0
        slope = first * 1.5**2 * 4.0**steps
        assert by_x(X, way).tolist() == [slope] * 3
        _, along = ta.jvp(lambda x, way=way: g(x, way), (X,), (np.ones(3),))
        assert along == 3 * slope


def test_rules_are_differentiated_themselves() -> None:
    product = Product()
    check_gradient(lambda x: (product(x, product(x, ta.sin(x))) * x).sum(), X)
    h = ta.hessian(lambda x: product(x, product(x, x)).sum())(X)
    np.testing.assert_allclose(h, np.diag(6 * X))
    assert float(product(np.float64(3), np.float64(4))) == 12.0


def test_trees_static_arguments_and_several_results() -> None:
    @ta.function
    def pairs(both: Any, kind: str, n: Any) -> Any:
        assert kind == "sum"
        return {"sum": both[0] + both[1], "least": both[0].argmin(), "twice": both[1] * n}

    calls = []

    @ta.register_gradient(pairs)
    def rule(result: Any, call: Any, gradient: Any, builder: Any) -> list[Any]:
        both, n = call.args
        calls.append((dict(call.attrs), sorted(result), gradient["least"], str(n.dtype)))
        second = builder.emit(gradient["sum"] + gradient["twice"] * 10.0, "second")
        assert second.name == "second" and both[0].shape == (3,)
        assert builder.emit(2.0).shape == ()
        return [(gradient["sum"], second), ta.no_grad]

    y = X * 2
    for n in (2, 5):
        dx, dy = ta.grad(
            lambda x, y, n=n: pairs((x, y), "sum", n)["sum"].sum() * 2.0, argnums=(0, 1)
        )(X, y)
        assert dx.tolist() == dy.tolist() == [2.0] * 3
    (dx, dy) = ta.grad(lambda t: pairs(t, "sum", 2)["twice"].sum())((X, y))
    assert dx.tolist() == [0.0] * 3 and dy.tolist() == [10.0] * 3
    assert str(calls[0]) == "({'kind': 'sum'}, ['least', 'sum', 'twice'], None, 'int64')"
    _, along = ta.jvp(lambda t: pairs(t, "sum", 2), ((X, y),), ((X, y),))
    np.testing.assert_allclose(along["sum"], X + y)
    np.testing.assert_allclose(along["twice"], 10 * y)
    rows = ta.jacrev(lambda x: pairs((x, x), "sum", 2)["twice"])(X)
    np.testing.assert_allclose(rows, 10 * np.eye(3))


def test_an_override_comes_before_the_rule_of_a_call() -> None:
    f = tripling()
    x = ta.placeholder((3,), "float64", name="x")
    y = f(x)
    (dx,) = ta.vjp(y, [x], X, override={y: lambda t, deps, head: [head * 5.0]})
    assert ta.evaluate(dx, {x: X}).tolist() == (5 * X).tolist()
    along = ta.jvp(y, {x: X}, override={y: lambda t, deps, head: [head * 5.0]})
    assert ta.evaluate(along, {x: X}).tolist() == (5 * X).tolist()


def test_calls_are_pickled_with_their_rules() -> None:
    x = ta.placeholder((3,), "float64", name="x")
    again, inner = pickle.loads(pickle.dumps((Product()(x, x), x)))
    (dx,) = ta.vjp(again, [inner], np.ones(3))
    assert again.op.rule is not None
    assert ta.evaluate(dx, {inner: X}).tolist() == (2 * X).tolist()


def test_calls_of_many_rows_are_pickled_with_their_rules() -> None:
    x, xs = [ta.placeholder(s, "float64", name="x") for s in ((), (3,))]
    (y,) = ta.batched(Product()(x, x), {x: xs})
    again, inner = pickle.loads(pickle.dumps((y, xs)))
    (dx,) = ta.vjp(again, [inner], np.ones(3))
    assert again.op.rule is not None
    assert ta.evaluate(dx, {inner: X}).tolist() == (2 * X).tolist()


def test_rules_of_classes_and_of_objects() -> None:
    @ta.function
    def scaled(x: Any, y: Any) -> Any:
        return x * y

    assert ta.register_gradient(scaled)(Product) is Product
    check_gradient(lambda x, y: (scaled(x, y) * y).sum(), X, X + 1)


def error(kind: type[UserError], call: Any) -> str:
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


def returning(made: Any) -> Any:
    """The gradient of an operator whose rule returns this."""

    @ta.function
    def scaled(x: Any, ns: Any) -> Any:
        return x * ns[1]

    ta.register_gradient(scaled)(lambda call, gradient: made(gradient))
    return lambda: ta.grad(lambda x: scaled(x, (1, 2)).sum())(X)


def test_what_is_no_adjoint_is_refused() -> None:
    count = (
        "the rule of scaled must return a list of 2 adjoints, got {}.\n"
        "  in: scaled(x, ns)\n"
        "  hint: return one adjoint for each argument, by position; ta.no_grad where nothing flows."
    )
    assert error(GradError, returning(lambda g: [g])) == count.format(1)
    assert error(GradError, returning(lambda g: [g, None, None])) == count.format(3)
    assert error(GradError, returning(lambda g: g)) == count.format("Tensor")
    assert error(ShapeError, returning(lambda g: [g.sum(), ta.no_grad])) == (
        "the rule of scaled returns shape () as adjoint of x; it must be (3,).\n"
        "  in: scaled(x, ns)\n"
        "  hint: an argument that is broadcast has the sum over its copies as adjoint."
    )
    assert error(DTypeError, returning(lambda g: [g.astype("float32"), ta.no_grad])) == (
        "the rule of scaled returns dtype float32 as adjoint of x; it must be float64.\n"
        "  in: scaled(x, ns)\n"
        "  hint: convert it: .astype('float64')."
    )
    assert error(GradError, returning(lambda g: [2.0, ta.no_grad])) == (
        "the rule of scaled returns float as adjoint of x.\n"
        "  in: scaled(x, ns)\n"
        "  hint: return tensors: topi and compute make them; ta.no_grad where nothing flows."
    )
    assert error(GradError, returning(lambda g: [g, (None, g)])) == (
        "the rule of scaled returns an adjoint of ns[1], which has dtype int64.\n"
        "  in: scaled(x, ns)\n"
        "  hint: integers and booleans have no derivative: return ta.no_grad for it."
    )
    assert error(GradError, returning(lambda g: [g, (None,)])) == (
        "the rule of scaled returns tuple as adjoint of ns, which is another structure than that "
        "of ns.\n"
        "  in: scaled(x, ns)\n"
        "  hint: the adjoint of a tree is a tree like it; ta.no_grad may stand for any part."
    )


def test_rules_that_are_not_linear_are_refused_where_that_is_needed() -> None:
    f = ta.function(lambda x: x * 1.0)
    f.name = "f"
    ta.register_gradient(f)(lambda call, gradient: [gradient * gradient])
    text = (
        "the rule given for f is not linear in its adjoint.\n"
        "  hint: a rule multiplies the adjoint by values that do not depend on it."
    )
    assert error(GradError, lambda: ta.jvp(f, (X,), (X,))) == text
    assert error(GradError, lambda: ta.jacrev(f)(X)) == text


def adding(add: Any) -> Any:
    """The gradient of an operator as a class that adds to adjoints like this."""

    class Scaled(ta.Operator):
        def compute(self, x: Any, n: Any) -> Any:
            return x * n

        def generate_adjoints(self, adjoints: Any, delta: Any, x: Any, n: Any) -> None:
            add(adjoints, delta, x, n)

    return lambda: ta.grad(lambda x: Scaled()(x, 2).sum())(X)


def test_what_is_no_delta_is_refused() -> None:
    assert error(GradError, adding(lambda a, d, x, n: d.add_delta(a, x))) == (
        "generate_adjoints of Scaled adds to dScaled, which is no argument of Scaled.\n"
        "  hint: add to the arguments that generate_adjoints is given."
    )
    assert error(GradError, adding(lambda a, d, x, n: n.add_delta(a, 1))) == (
        "generate_adjoints of Scaled adds to n, which has dtype int64.\n"
        "  hint: integers and booleans have no derivative: leave it out."
    )
    assert error(ShapeError, adding(lambda a, d, x, n: a.add_delta(x, 1.0))) == (
        "generate_adjoints of Scaled adds shape () to the adjoint of x; it must be (3,).\n"
        "  hint: an argument that is broadcast has the sum over its copies as adjoint."
    )
    assert error(DTypeError, adding(lambda a, d, x, n: x.add_delta(a, d.astype("float32")))) == (
        "generate_adjoints of Scaled adds dtype float32 to the adjoint of x; it must be float64.\n"
        "  hint: convert it: .astype('float64')."
    )


def test_what_is_no_operator_or_no_rule_is_refused() -> None:
    assert error(DefinitionError, lambda: ta.register_gradient(lambda x: x)) == (  # type: ignore[arg-type]
        "register_gradient takes a function of ta.function, got function.\n"
        "  hint: decorate the operator with @ta.function, and pass what that returns."
    )
    f = ta.function(lambda x: x)
    assert error(DefinitionError, lambda: ta.register_gradient(f)(3)) == (
        "the rule of <lambda> is no function but int.\n"
        "  hint: write rule(call, gradient) -> [adjoint of each argument]."
    )
    assert error(DefinitionError, lambda: ta.register_gradient(f)(lambda call: call)) == (
        "the rule of <lambda> takes 1 arguments.\n"
        "  in: <lambda>(call)\n"
        "  hint: write rule(call, gradient), or rule(result, call, gradient, builder)."
    )
    ta.grad(lambda x: f(x).sum())(X)
    assert error(DefinitionError, lambda: ta.register_gradient(f)(lambda c, g: [g])) == (
        "a program calls <lambda> already, with the derivative that it had.\n"
        "  in: <Function <lambda>(x)>\n"
        "  hint: give the rule before; or make the operator again with ta.function."
    )


def test_an_operator_with_a_rule_reads_its_arguments_alone() -> None:
    def loss(x: Any, w: Any) -> Any:
        scaled = ta.function(lambda x: x * w)
        ta.register_gradient(scaled)(lambda call, gradient: [gradient])
        return scaled(x).sum()

    assert error(DefinitionError, lambda: ta.grad(loss)(X, X)) == (
        "<lambda> has a gradient rule, but reads w, which is no argument of it.\n"
        "  in: w : float64 (3,)\n"
        "  hint: a rule tells the adjoints of arguments only: make w one."
    )
