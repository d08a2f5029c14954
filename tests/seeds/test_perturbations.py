"""Levels at kinks and poles (W-08), and perturbations that must not be confused (W-10)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, Final

import numpy as np
import pytest

import tensorad as ta
from tests.levels.ways import WAYS, Derive, pushed
from tests.seeds.test_forward_mode import KINKS


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", KINKS)
def test_w_08_and_s002_33_levels_agree_with_reverse_mode_at_kinks(name: str) -> None:
    f, at = KINKS[name]
    x = np.full(3, at)

    @ta.function
    def columns(x: Any) -> Any:
        return [pushed(f, x, e) for e in np.eye(3)]

    _, pullback = ta.vjp(f, x)
    rows = [pullback(e) for e in np.eye(3)]
    wanted = np.stack([r[0] if isinstance(r, tuple) else r for r in rows])
    np.testing.assert_array_equal(np.stack(columns(x), 1), wanted)
    with ta.dual_level():
        d = ta.make_dual(x, np.eye(3)[0])
        value, tangent = ta.unpack_dual(f(d))
        outside = np.zeros(3) if tangent is None else np.asarray(tangent)
    np.testing.assert_array_equal(outside, wanted[:, 0])
    np.testing.assert_array_equal(value, ta.function(f)(x))


def test_w_08_compiled_duals_keep_their_tangents() -> None:
    @ta.function
    def inner(x: Any) -> Any:
        return ta.select(x > 0, ta.log(x), 0.0)

    with ta.dual_level():
        d = ta.make_dual(np.array([0.0, 1.0]), np.ones(2))
        np.testing.assert_array_equal(ta.unpack_dual(inner(d))[1], [0.0, 1.0])
    both = ta.function(lambda x, v: pushed(inner, x, v))
    np.testing.assert_array_equal(both(np.array([0.0, 1.0]), np.ones(2)), [0.0, 1.0])


def thrice(o: Derive, i: Derive, x: Any) -> Any:
    def inner(x: Any, y: Any) -> Any:
        return y * i(lambda z: x * y * z, 1.0)

    return o(lambda x: x * o(lambda y: inner(x, y), 1.0), x)


PERTURBED: Final[dict[str, tuple[Callable[[Derive, Derive, Any], Any], float]]] = {
    "sum": (lambda o, i, x: o(lambda x: x * i(lambda y: x + y, 1.0), x), 1.0),
    "product": (lambda o, i, x: o(lambda x: x * i(lambda y: x * y, 2.0), x), 3.0),
    "at the outer one": (lambda o, i, x: o(lambda x: i(lambda y: x * y * y, x), x), 6.0),
    "of the outer one": (lambda o, i, x: o(lambda x: x * i(lambda y: x + 0.0 * y, 3.0), x), 0.0),
    "of the inner one": (lambda o, i, x: o(lambda x: x * i(lambda y: y * y, 3.0), x), 6.0),
    "outer and inner point": (lambda o, i, x: o(lambda x: i(lambda y: x * y, x), x), 1.0),
    "inner one twice": (
        lambda o, i, x: o(lambda x: i(lambda y: x * y, 1.0) * i(lambda y: y * y * x, x), x), 13.5,
    ),
    "three deep": (thrice, 6.0),
    "in a loop": (
        lambda o, i, x: o(
            lambda x: ta.for_loop(0, 2, lambda t, c: c * i(lambda y: x + y * y, 1.0), x), x
        ), 4.0,
    ),
    "in a branch": (
        lambda o, i, x: o(
            lambda x: ta.cond(x > 0, lambda: x * i(lambda y: x * y, 1.0), lambda: x), x
        ), 3.0,
    ),
    "in a function": (
        lambda o, i, x: o(lambda x: x * i(ta.function(lambda y: x + y), 1.0), x), 1.0,
    ),
    "by a closure": (
        lambda o, i, x: o(lambda x: (lambda g: i(g, x) * g(2.0))(lambda y: x * y), x), 6.0,
    ),
}  # fmt: skip
"""(derivative with an outer and an inner way at x, its value at 1.5)"""


@pytest.mark.parametrize("name", PERTURBED)
def test_w_10_and_s002_10_perturbations_are_not_confused(name: str) -> None:
    assert len(PERTURBED) >= 12
    f, wanted = PERTURBED[name]
    pairs = list(product(WAYS.values(), WAYS.values()))
    found = ta.function(lambda x: [f(o, i, x) for o, i in pairs])(np.float64(1.5))
    np.testing.assert_allclose(found, wanted, rtol=1e-14)
    with ta.dual_level():
        outside = float(f(WAYS["level"], WAYS["level"], np.float64(1.5)))
    np.testing.assert_allclose(outside, wanted, rtol=1e-14)


# what other libraries do


@pytest.mark.slow
def test_t_03_peers_torch_has_one_level() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    fw = torch.autograd.forward_ad
    with fw.dual_level(), pytest.raises(RuntimeError, match=r"[Nn]ested"):
        fw.enter_dual_level()
    with ta.dual_level(), ta.dual_level() as inner:
        assert inner.number == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_w_08_peers_torch_modes_differ_at_a_guarded_logarithm() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    fw = torch.autograd.forward_ad

    def guarded(x: object) -> object:
        return torch.where(x > 0, torch.log(x), x)

    x = torch.zeros((), dtype=torch.float64, requires_grad=True)
    reverse = torch.autograd.grad(guarded(x), x)[0]
    with fw.dual_level():
        zero, one = (torch.tensor(v, dtype=torch.float64) for v in (0.0, 1.0))
        forward = fw.unpack_dual(guarded(fw.make_dual(zero, one))).tangent
    assert torch.isnan(reverse) and float(forward) == 1.0

    def own(x: object) -> object:
        return ta.select(x > 0, ta.log(x), x)

    zero, one = np.float64(0), np.float64(1)
    with ta.dual_level():
        tangent = ta.unpack_dual(own(ta.make_dual(zero, one)))[1]
        assert float(tangent) == 1.0
    assert ta.grad(own)(zero) == 1.0


@pytest.mark.slow
def test_s002_10_peers_jax_derives_by_functions_alone() -> None:
    jax = pytest.importorskip("jax", reason="jax is not installed")
    jax.config.update("jax_enable_x64", True)
    x, one = np.float64(0.7), np.float64(1)

    def pushed(f: object) -> object:
        return lambda x: jax.jvp(f, (x,), (one,))[1]

    third = float(pushed(pushed(pushed(jax.numpy.sin)))(x))

    @ta.function
    def own(x: object) -> object:
        with ta.dual_level(), ta.dual_level(), ta.dual_level():
            y = ta.sin(ta.make_dual(ta.make_dual(ta.make_dual(x, 1.0, 0), 1.0, 1), 1.0, 2))
            for level in (2, 1, 0):
                _, y = ta.unpack_dual(y, level)
            return y

    assert abs(float(own(x)) - third) <= 1e-15
