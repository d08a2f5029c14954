"""Demands of PyTorch's forward mode (S002) on modes: which one derives, which one is stopped."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

import numpy as np
import pytest

import tensorad as ta
from tensorad import topi
from tensorad.ir.visit import placeholders
from tests.levels.ways import ONE, pushed
from tests.support.programs.differentiated import PROGRAMS

RNG = np.random.default_rng(0)
X, V = RNG.uniform(0.3, 1.3, 10), RNG.standard_normal(10)

SQUARED: Final = ("running_sum", "recurrent_cell", "branches_on_data", "newton_by_while")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", PROGRAMS)
def test_s002_03_tangents_by_reverse_mode(name: str) -> None:
    y, wrt = PROGRAMS[name](3)
    along = {x: RNG.standard_normal([int(n) for n in x.shape]) for x in wrt}
    both = [ta.jvp(y, along, fw_mode=mode) for mode in (True, False)]
    inputs = [t for t in placeholders(both) if t not in wrt]
    f = ta.build([*both, ta.jvp(y, along)], [*wrt, *inputs])
    values = [RNG.uniform(0.3, 0.9, x.shape) for x in wrt]
    whole = [np.zeros(t.shape, str(t.dtype)) for t in inputs]
    forward, reverse, default = f(*values, *whole)
    scale = 1 + abs(float(forward))
    assert abs(float(forward) - float(reverse)) <= 1e-12 * scale
    assert forward == default


def bowl(x: Any) -> Any:
    y = ta.for_loop(0, 2, lambda t, c: c * x + ta.cond(c[0] > 0, lambda: c, lambda: x), x)
    return (y * y * x).sum()


@pytest.mark.parametrize("f", [bowl, lambda x: (topi.exp(x) @ topi.sin(x)) ** 2])
def test_s002_03_products_with_hessians_and_hessians(f: Any) -> None:
    x, v = X[:2], V[:2]
    whole = [ta.hessian(f, fw_mode=mode)(x) for mode in (True, False, None)]
    along = [ta.hvp(f, (x,), (v,), fw_mode=mode)[0] for mode in (True, False, None)]
    scale = np.abs(whole[0]).max()
    for h, p in zip(whole, along, strict=True):
        np.testing.assert_allclose(h, whole[0], rtol=1e-12, atol=1e-12 * scale)
        np.testing.assert_allclose(p, whole[0] @ v, rtol=1e-12, atol=1e-12 * scale)


def test_s002_03_tensors() -> None:
    x = ta.placeholder((2,), "float64", name="x")
    y = bowl(x)
    batch = RNG.standard_normal((3, 2))
    made = [ta.hvp(y, x, batch, fw_mode=m) for m in (True, False)]
    made += [ta.hessian(y, x, fw_mode=m) for m in (True, False)]
    one, other, h, g = ta.build(made, [x])(X[:2])
    np.testing.assert_allclose(one, other, rtol=1e-12)
    np.testing.assert_allclose(h, g, rtol=1e-12)
    np.testing.assert_allclose(one, batch @ h, rtol=1e-12)


STOPPED: Final = {"both": "fr", "reverse": "r", "forward": "f"}


def stopped(x: Any, c: Any) -> Any:
    return topi.sin(c * x) * c + x * x * x * c


def stopped_in_blocks(x: Any, mode: str, unrolled: bool) -> Any:
    def step(t: Any, c: Any) -> Any:
        k = ta.stop_gradient(c, mode=mode)
        one, other = lambda: ta.stop_gradient(c * c, mode=mode), lambda: c
        return topi.sin(k) * c + ta.cond(c > 1.0, one, other)

    if not unrolled:
        return ta.for_loop(0, 2, step, x)
    return step(1, step(0, x))


def derived(f: Any, mode: str) -> Any:
    """The derivative by one mode."""
    return (lambda x: pushed(f, x, ONE)) if mode == "f" else ta.grad(f)


@pytest.mark.parametrize("mode", STOPPED)
def test_s002_15_each_mode_in_each_direction_and_twice(mode: str) -> None:
    """A value that is stopped is a second argument, along which a stopped mode does not go."""

    def f(x: Any) -> Any:
        return stopped(x, ta.stop_gradient(x, mode=mode))

    def moved(g: Any, way: str) -> Any:
        still = way in STOPPED[mode]

        def d(x: Any, c: Any) -> Any:
            return ta.jvp(g, (x, c), (ONE, np.float64(not still)))[1]

        return d

    @ta.function
    def every(x: Any) -> Any:
        found, wanted = [], []
        for a in "fr":
            found.append(derived(f, a)(x))
            wanted.append(moved(stopped, a)(x, x))
            for b in "fr":
                found.append(derived(derived(f, a), b)(x))
                wanted.append(moved(moved(stopped, a), b)(x, x))
        return found, wanted

    found, wanted = every(np.float64(0.7))
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    for way in ("forward", "reverse"):
        assert ta.gradcheck(f, np.float64(0.7), modes=(way,), order=2)


@pytest.mark.parametrize("mode", STOPPED)
def test_s002_15_inside_of_loops_and_branches(mode: str) -> None:
    @ta.function
    def every(x: Any) -> Any:
        found: list[list[Any]] = [[], []]
        for unrolled in (False, True):

            def f(x: Any, unrolled: bool = unrolled) -> Any:
                return stopped_in_blocks(x, mode, unrolled)

            for a, b in product("fr", "fr "):
                g = derived(f, a)
                found[unrolled].append(g(x) if b == " " else derived(g, b)(x))
        return found

    loops, straight = every(np.float64(1.2))
    np.testing.assert_allclose(loops, straight, rtol=1e-12, atol=1e-13)


def test_s002_15_make_dual_stops_forward_mode_and_not_reverse() -> None:
    def f(x: Any) -> Any:
        with ta.dual_level():
            return ta.make_dual(x, V) * x

    np.testing.assert_allclose(ta.grad(lambda x: f(x).sum())(X), 2 * X)
    with ta.dual_level():
        d = ta.make_dual(X, V)
        assert ta.unpack_dual(ta.stop_gradient(d, mode="reverse"))[1] is not None
        assert ta.unpack_dual(ta.stop_gradient(d, mode="forward"))[1] is None
        assert ta.unpack_dual(ta.stop_gradient(d))[1] is None
