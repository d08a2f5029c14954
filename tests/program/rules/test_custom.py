"""Derivatives that users give for functions of trees, in one direction or both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import DefinitionError, DTypeError, GradError, ShapeError, UserError
from tests.seeds.support.differences import check_gradient
from tests.support.programs.higher.data import Cons, Nil, listed
from tests.support.programs.higher.kit import F64, same

X = np.array([0.5, -1.5, 2.0])
Rule = Callable[..., Any]


def cubed_plain(x: Any, k: Any) -> Any:
    return {"y": x * x * x * k, "n": x.argmin()}


def cubed_vjp(saved: Any, cotangent: Any, x: Any, k: Any) -> list[Any]:
    assert cotangent["n"] is None
    h = cotangent["y"]
    return [3.0 * saved * h * k, (h * x * x * x).sum()]


def cubed_jvp(primals: Any, tangents: Any) -> Any:
    (x, k), (dx, dk) = primals, tangents
    return {"y": 3.0 * x * x * k * dx + x * x * x * dk, "n": None}


def square(x: Any, k: Any, out: Any) -> Any:
    assert sorted(out) == ["n", "y"]
    return x * x


WAYS: dict[str, dict[str, Rule]] = {
    "vjp": {"vjp": cubed_vjp, "save": square},
    "jvp": {"jvp": cubed_jvp},
    "both": {"vjp": cubed_vjp, "jvp": cubed_jvp, "save": square},
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("way", WAYS)
def test_one_direction_is_enough_for_all_derivatives(way: str) -> None:
    cubed = ta.custom_rule(**WAYS[way])(cubed_plain)

    def given(x: Any, k: Any) -> Any:
        return (cubed(ta.sin(x), k)["y"] * x).sum()

    def plain(x: Any, k: Any) -> Any:
        return (cubed_plain(ta.sin(x), k)["y"] * x).sum()

    k = np.float64(1.5)
    check_gradient(given, X, k)
    np.testing.assert_allclose(ta.hessian(given)(X, k), ta.hessian(plain)(X, k), atol=1e-12)
    for rows in (ta.jacfwd, ta.jacrev):
        found, wanted = rows(cubed)(X, k), rows(cubed_plain)(X, k)
        np.testing.assert_allclose(found["y"], wanted["y"])
        assert found["n"] is None


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_third_derivatives_differentiate_the_rule(way: str) -> None:
    cubed = ta.custom_rule(**WAYS[way])(cubed_plain)

    def third(f: Any) -> Any:
        return ta.jacfwd(ta.hessian(lambda x: (f(ta.sin(x), 1.5)["y"] * x).sum()))(X)

    np.testing.assert_allclose(third(cubed), third(cubed_plain), atol=1e-11)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("way", WAYS)
def test_rules_hold_in_branches_loops_and_nested(way: str) -> None:
    calls: list[int] = []

    def counted(rule: Rule) -> Rule:
        return lambda *args: (calls.append(1), rule(*args))[1]

    rules = {n: rule if n == "save" else counted(rule) for n, rule in WAYS[way].items()}
    cubed = ta.custom_rule(**rules)(cubed_plain)
    doubled = ta.custom_rule(vjp=lambda out, h, x: [h * 2.0])(lambda x: cubed(x, 1.0)["y"] * 0.3)

    def f(x: Any, k: Any) -> Any:
        x = ta.cond(k > 1.0, lambda: cubed(x, k)["y"] * 0.1, lambda: x)
        x = ta.for_loop(0, 2, lambda t, c: cubed(c, k)["y"] * 0.2 + c, x)
        _, ys = ta.scan(lambda c, p: (c * 0.5, cubed(p, c)["y"]), k, x)
        return ta.while_loop(
            lambda c: (c * c).sum() > 0.1, lambda c: cubed(c, k)["y"] + c * 0.4, ys
        )

    k = np.float64(1.2)
    start = np.array([0.5, -0.9, 1.0])
    check_gradient(lambda x, k: (f(x, k) * x).sum(), start, k)
    assert calls
    assert ta.grad(lambda x: (doubled(x) * 3.0).sum())(X).tolist() == [6.0] * 3


@dataclass
class Layer:
    w: Any
    b: Any
    kind: str = field(default="relu", metadata={"static": True})


def test_static_arguments_and_trees_with_static_parts() -> None:
    seen: list[Any] = []

    def vjp(saved: Any, h: Any, layer: Any, power: int, names: Any, x: Any) -> Any:
        seen.append((layer.kind, power, names))
        return Layer(h * x * power, ta.no_grad, "relu"), None, ("a", None), [h * layer.w, h][0]

    def layer(layer: Layer, power: int, names: Any, x: Any) -> Any:
        return layer.w * x * power + layer.b

    rule = ta.custom_rule(vjp=vjp)
    ruled = rule(ta.function(layer, static_argnames="power"))
    assert ruled.name == "layer" and ruled.static_argnames == ("power",)

    def loss(own: Any, x: Any) -> Any:
        return ruled(own, 3, ("a", 2), x).sum()

    own, dx = ta.grad(loss, argnums=(0, 1))(Layer(X, X), X)
    assert own.w.tolist() == (3 * X).tolist() and own.b.tolist() == [0.0] * 3
    assert dx.tolist() == X.tolist() and own.kind == "relu"
    assert seen[0] == ("relu", 3, ("a", seen[0][2][1]))


def rotation(x: Any) -> Any:
    return ta.compute((4,), lambda i: x[(i + 1) % 4], name="turned")


def test_rules_that_call_ruled_functions_on_their_cotangents() -> None:
    """The transposes of a pair that are each other's rule never end: heads go through one by
    one."""
    back = ta.custom_rule(vjp=lambda out, h, x: [forth(h)])(
        lambda x: rotation(rotation(rotation(x)))
    )
    forth = ta.custom_rule(vjp=lambda out, h, x: [back(h)])(rotation)
    x = np.arange(4.0)
    expected = np.roll(np.eye(4), -1, axis=0)
    assert (ta.jacrev(forth)(x) == expected).all()
    assert (ta.jacfwd(forth)(x) == expected).all()
    assert (ta.jacfwd(back)(x) == expected.T).all()
    h = ta.hessian(lambda x: (forth(x) ** 3).sum())(x)
    np.testing.assert_allclose(h, np.diag(6 * x))
    along = ta.jvp(ta.jacfwd(lambda x: forth(x) * x), (x,), (x,))[1]
    np.testing.assert_allclose(along, ta.jvp(ta.jacfwd(lambda x: rotation(x) * x), (x,), (x,))[1])


def test_a_rule_leaves_the_function_it_decorates_alone() -> None:
    plain = ta.function(lambda x: x * x)
    ruled = ta.custom_rule(vjp=lambda out, h, x: [h])(plain)
    assert ta.grad(lambda x: plain(x).sum())(X).tolist() == (2 * X).tolist()
    assert ta.grad(lambda x: ruled(x).sum())(X).tolist() == [1.0] * 3
    assert plain.rule is None and ruled(X).tolist() == (X * X).tolist()
    assert float(ta.grad(ruled)(np.float64(3))) == 1.0


@pytest.mark.slow
def test_as_jax_has_them() -> None:
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    theirs = jax.custom_vjp(lambda x: jax.numpy.log1p(jax.numpy.exp(x)))
    theirs.defvjp(
        lambda x: (jax.numpy.log1p(jax.numpy.exp(x)), jax.numpy.exp(x)),
        lambda e, h: (h * (1 - 1 / (1 + e)),),
    )
    x = X.astype("float32")
    wanted = np.asarray(jax.grad(lambda x: (theirs(x) * x).sum())(x))
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(theirs, (x,), (x,))
    ours = ta.custom_rule(
        vjp=lambda e, h, x: [h * (1.0 - 1.0 / (1.0 + e))], save=lambda x, out: ta.exp(x)
    )(lambda x: ta.log1p(ta.exp(x)))
    np.testing.assert_allclose(ta.grad(lambda x: (ours(x) * x).sum())(X), wanted, rtol=1e-5)
    np.testing.assert_allclose(ta.jvp(ours, (X,), (X,))[1], X / (1 + np.exp(-X)))


def error(kind: type[UserError], call: Any) -> str:
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


def pair(x: Any, n: Any) -> Any:
    return {"a": x * 2.0, "b": n * 2}


def along(made: Any) -> Any:
    """A derivative whose jvp returns this."""
    f = ta.custom_rule(jvp=lambda primals, tangents: made(tangents[0]))(pair)
    return lambda: ta.jvp(lambda x: f(x, 2)["a"], (X,), (X,))


def test_what_is_no_tangent_is_refused() -> None:
    where = "\n  in: pair(x, n)\n  hint: "
    assert error(GradError, along(lambda d: [d, None])) == (
        "the rule of pair returns list as tangent of pair, which is another structure than that of "
        f"pair.{where}the tangent of a tree is a tree like it; ta.no_grad may stand for any part."
    )
    assert error(ShapeError, along(lambda d: {"a": d.sum(), "b": None})) == (
        "the rule of pair returns shape () as tangent of pair['a']; it must be (3,)."
        f"{where}a tangent has the shape of its tensor."
    )
    assert error(DTypeError, along(lambda d: {"a": d.astype("float32"), "b": None})) == (
        "the rule of pair returns dtype float32 as tangent of pair['a']; it must be float64."
        f"{where}convert it: .astype('float64')."
    )
    assert error(GradError, along(lambda d: {"a": d, "b": d})) == (
        "the rule of pair returns a tangent of pair['b'], which has dtype int64."
        f"{where}integers and booleans have no derivative: return ta.no_grad for it."
    )
    assert error(GradError, along(lambda d: {"a": 2.0, "b": None})) == (
        "the rule of pair returns float as tangent of pair['a']."
        f"{where}return tensors: topi and compute make them; ta.no_grad where nothing moves."
    )


def test_what_is_no_rule_is_refused() -> None:
    assert error(DefinitionError, lambda: ta.custom_rule()) == (
        "custom_rule is given neither vjp nor jvp.\n"
        "  hint: write @ta.custom_rule(vjp=...) or (jvp=...); the other direction follows."
    )
    assert error(DefinitionError, lambda: ta.custom_rule(jvp=along, save=along)) == (
        "custom_rule is given save, but no vjp.\n"
        "  hint: write @ta.custom_rule(vjp=...) or (jvp=...); the other direction follows."
    )
    assert error(DefinitionError, lambda: ta.custom_rule(vjp=3)) == (  # type: ignore[arg-type]
        "vjp of custom_rule must be a function, got int.\n  hint: pass a function, or a lambda."
    )
    f = ta.custom_rule(jvp=lambda primals, d: d[0] * d[0])(lambda x: x * 1.0)
    f.name = "f"
    text = (
        "the rule given for f is not linear in its tangents.\n"
        "  hint: a rule multiplies the tangents by values that do not depend on them."
    )
    assert error(GradError, lambda: ta.grad(lambda x: f(x).sum())(X)) == text
    assert error(GradError, lambda: ta.jacfwd(f)(X)) == text
    g = ta.custom_rule(vjp=lambda out, h, x, mode: [h, h])(lambda x, mode: x)
    assert error(GradError, lambda: ta.grad(lambda x: g(x, "up").sum())(X)) == (
        "the rule of <lambda> returns Tensor as adjoint of mode, which is static.\n"
        "  in: <lambda>(x, mode)\n"
        "  hint: a static argument has no derivative: return ta.no_grad for it."
    )


@ta.function
def _total(xs: Any, w: Any) -> Any:
    return ta.match(xs, lambda: F64(0), lambda h, t: ta.sin(h * w) + _total(t, w))


@ta.function
def _cosines(xs: Any, w: Any, k: Any) -> Any:
    arms = (lambda: Nil(), lambda h, t: Cons(k * w * ta.cos(h * w), _cosines(t, w, k)))
    return ta.match(xs, *arms)


@ta.function
def _inner(a: Any, b: Any) -> Any:
    def both(h: Any, t: Any) -> Any:
        return ta.match(b, lambda: F64(0), lambda g, rest: h * g + _inner(t, rest))

    return ta.match(a, lambda: F64(0), both)


@ta.function
def _scaled(xs: Any, w: Any) -> Any:
    return ta.match(xs, lambda: Nil(), lambda h, t: Cons(h * w, _scaled(t, w)))


@pytest.mark.slow
def test_rules_of_functions_of_values() -> None:
    """Values of data types stand for their derivatives, in what rules get and return."""
    xs, along, w = listed(0.5, -1.0, 2.0), listed(1.0, -2.0, 0.5), F64(0.7)

    def by_w(xs: Any, w: Any) -> Any:
        return _inner(_cosines(xs, w, 1.0 / w), xs)

    back = ta.custom_rule(vjp=lambda out, c, xs, w: [_cosines(xs, w, c), c * by_w(xs, w)])(
        lambda xs, w: _total(xs, w)
    )
    forth = ta.custom_rule(jvp=lambda at, d: _inner(_cosines(*at, 1.0), d[0]) + by_w(*at) * d[1])(
        lambda xs, w: _total(xs, w)
    )
    scaled = ta.custom_rule(vjp=lambda out, c, xs, w: [_scaled(c, w), _inner(c, xs)])(
        lambda xs, w: _scaled(xs, w)
    )
    wanted = ta.grad(_total, (0, 1))(xs, w)
    slope = ta.jvp(_total, (xs, w), (along, 0.3))[1]
    for f in (back, forth, lambda xs, w: _total(scaled(xs, w), 1.0)):
        same(ta.grad(f, (0, 1))(xs, w), wanted)
    assert ta.jvp(forth, (xs, w), (along, 0.3))[1] == pytest.approx(slope)
    pairs = [ta.vjp(f, xs, w)[1](along) for f in (scaled, _scaled)]
    same(*pairs)
    same(ta.jvp(scaled, (xs, w), (along, 0.3)), ta.jvp(_scaled, (xs, w), (along, 0.3)))
    product = ta.hvp(_total, (xs, w), (along, 0.3))
    for f in (back, forth):
        same(ta.hvp(f, (xs, w), (along, 0.3), fw_mode=False), product)


def test_a_rule_may_leave_a_value_alone() -> None:
    f = ta.custom_rule(vjp=lambda out, c, xs, w: [ta.no_grad, 2.0 * c])(lambda xs, w: _total(xs, w))
    by_xs, by_w = ta.grad(f, (0, 1))(listed(1.0, 2.0), F64(0.5))
    assert repr(by_xs) == "Cons(head=0.0, tail=Cons(head=0.0, tail=Nil()))" and by_w == 2.0
