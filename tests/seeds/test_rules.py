"""Rules of Relax's Gradient (S000): attached to operators, asked in reverse order, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import config, passes, topi
from tensorad.errors import DTypeError, GradError, ShapeError, UserError
from tests.seeds.support.differences import check_gradient

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((5, 5)), RNG.standard_normal((5, 5))


def collapse_sum_to(x: Any, shape: Any) -> Any:
    """The sum over what broadcasting to x's shape would copy."""
    lead = x.ndim - len(shape)
    if lead:
        x = x.sum(tuple(range(lead)))
    ones = tuple([d for d, n in enumerate(shape) if n == 1 and x.shape[d] != 1])
    return x.sum(ones, keepdims=True) if ones else x


class Operators:
    """The seed's two operators with its two rules, which are recorded."""

    def __init__(self, newer: bool = False) -> None:
        self.asked: list[tuple[str, Any]] = []

        @ta.function
        def add(x: Any, y: Any) -> Any:
            return x + y

        @ta.function
        def total(x: Any) -> Any:
            return x.sum()

        def sum_grad(orig: Any, grad: Any) -> list[Any]:
            self.asked.append((orig.op, grad))
            return [topi.broadcast_to(grad, orig.args[0].shape)]

        def add_grad(orig: Any, grad: Any) -> list[Any]:
            self.asked.append((orig.op, grad))
            return [collapse_sum_to(grad, a.shape) for a in orig.args]

        def newer_add_grad(var: Any, orig: Any, grad: Any, builder: Any) -> list[Any]:
            assert var is orig.result
            return [builder.emit(part) for part in add_grad(orig, grad)]

        self.add, self.total = add, total
        ta.register_gradient(total)(sum_grad)
        ta.register_gradient(add)(newer_add_grad if newer else add_grad)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("newer", [False, True])
@pytest.mark.parametrize("shape", [(5, 5), (5,), (1, 5), ()])
def test_s000_14_rules_are_attached_to_operators(shape: tuple[int, ...], newer: bool) -> None:
    given = Operators(newer)
    y = RNG.standard_normal(shape)
    for f, n in (
        (lambda x, y: given.total(given.add(x, y)), 2),
        (lambda x, y: given.total(given.add(given.add(x, y), x * y)), 3),
    ):
        given.asked.clear()
        found = ta.grad(f, argnums=(0, 1))(X, y)
        assert len(given.asked) == n
        plain = ta.grad(
            lambda x, y, n=n: (x + y).sum() if n == 2 else (x + y + x * y).sum(), argnums=(0, 1)
        )(X, y)
        for a, b in zip(found, plain, strict=True):
            np.testing.assert_allclose(a, b)
        check_gradient(f, X, y)


def error(kind: type[UserError], rule: Any) -> str:
    @ta.function
    def scaled(x: Any, n: Any) -> Any:
        return x * n

    ta.register_gradient(scaled)(rule)
    with pytest.raises(kind) as caught:
        ta.grad(lambda x: scaled(x, 2).sum())(X)
    return str(caught.value).splitlines()[0]


def test_s000_15_a_rule_gives_one_partial_per_argument() -> None:
    wrong = "the rule of scaled must return a list of 2 adjoints, got {}."
    assert error(GradError, lambda c, g: [g]) == wrong.format(1)
    assert error(GradError, lambda c, g: [g, g, g]) == wrong.format(3)
    assert error(ShapeError, lambda c, g: [g[0], ta.no_grad]) == (
        "the rule of scaled returns shape (5,) as adjoint of x; it must be (5, 5)."
    )
    assert error(DTypeError, lambda c, g: [g.astype("float32"), ta.no_grad]) == (
        "the rule of scaled returns dtype float32 as adjoint of x; it must be float64."
    )
    assert error(GradError, lambda c, g: [g, g.sum()]) == (
        "the rule of scaled returns an adjoint of n, which has dtype int64."
    )
    halved = ta.function(lambda x, y: x * y * 0.5)
    ta.register_gradient(halved)(lambda c, g: [ta.no_grad, g * c.args[0] * 0.5])
    dx, dy = ta.grad(lambda x, y: halved(x, y).sum(), argnums=(0, 1))(X, Y)
    assert (dx == 0).all()
    np.testing.assert_allclose(dy, X / 2)


def test_s000_18_rules_are_asked_last_binding_first_with_a_variable() -> None:
    given = Operators()

    def main(x: Any = X, y: Any = Y) -> Any:
        a = given.add(x, y)
        b = given.add(a, y)
        c = ta.cond(b[0, 0] > 0, lambda: given.add(b, b), lambda: b)
        return given.total(given.add(c, a))

    m = ta.gradient(ta.module(main), "main")
    assert [name for name, _ in given.asked] == ["total", "add", "add", "add", "add"]
    names = m["main_adjoint"].record.scope.names
    heads = [names[g] for _, g in given.asked if g in names]
    assert heads == ["total_adjoint", "add_3_adjoint", "add_1_adjoint", "add_adjoint"]
    _, (dx, dy) = m["main_adjoint"](X, Y)
    more = 2.0 if (X + 2 * Y)[0, 0] > 0 else 1.0
    np.testing.assert_allclose(dx, np.full((5, 5), more + 1))
    np.testing.assert_allclose(dy, np.full((5, 5), 2 * more + 1))


@pytest.mark.parametrize("uses", [1, 2, 5])
def test_s000_22_when_partials_are_summed_is_free(uses: int) -> None:
    """Collected first and added at the end: a rule that gives the sum, and rules by parts."""
    together = ta.function(lambda x: sum([x * float(k) for k in range(1, uses + 1)]))
    ta.register_gradient(together)(lambda c, g: [g * float(sum(range(1, uses + 1)))])
    scaled = [ta.function(lambda x, k=k: x * float(k)) for k in range(1, uses + 1)]
    for k, f in enumerate(scaled, 1):
        ta.register_gradient(f)(lambda c, g, k=k: [g * float(k)])
    for f in (lambda x: together(x).sum(), lambda x: sum([f(x) for f in scaled]).sum()):
        np.testing.assert_allclose(ta.grad(f)(X), np.full((5, 5), uses * (uses + 1) / 2))


def test_s000_43_the_transform_is_a_pass(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passes, "_times", {"nothing": (1, 0.0)})

    def main(x: Any = X) -> Any:
        return (x * x).sum()

    before = ta.module(main)
    with config.override(debug=("ir:gradient", "verify", "check", "time")):
        after = ta.gradient(before, "main")
    assert capsys.readouterr().err.strip() == f"after gradient:\n{after}".strip()
    assert "1 x gradient" in passes.time_table()
    assert str(ta.gradient(before, "main")) == str(after)
