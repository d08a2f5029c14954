"""Demands of PyTorch's forward mode (S002) on modes: which one derives, which one is stopped;
levels beside other modes at kinks (W-08), and where perturbations may be confused (W-10)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, Final

import numpy as np
import pytest

import tensorad as ta
from tensorad import topi
from tensorad.ir.visit import placeholders
from tests.levels.ways import ONE, WAYS, Derive, pushed
from tests.seeds.test_forward_mode import KINKS
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


@pytest.mark.sampled(2)
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


@pytest.mark.sampled(3)
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


@pytest.mark.sampled(3)
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


# kinks, and perturbations


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


def held(x: Any) -> Any:
    """y -> x y, through a reference that the inner function writes."""

    def inner(y: Any) -> Any:
        r = ta.ref(x)
        r.mul(y)
        return r.get()

    return inner


def closure_of(x: Any) -> Any:
    f = ta.ref(ta.topi.sin)
    f.set(lambda y: x * y)
    return f


def left_in_reference(i: Derive, x: Any) -> Any:
    """x^2, which is what the inner function wrote where its y was x."""
    r = ta.ref(x)

    def inner(y: Any) -> Any:
        r.mul(y)
        return y

    slope = i(inner, x)
    return r.get() * slope


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
    "in a reference": (lambda o, i, x: o(lambda x: x * i(held(x), 1.0), x), 3.0),
    "by a closure in a reference": (
        lambda o, i, x: o(lambda x: i(lambda y: closure_of(x).get()(y) * y, 1.0), x), 2.0,
    ),
    "by a closure that data choose": (
        lambda o, i, x: o(
            lambda x: x * i(ta.cond(x > 0, lambda: lambda y: x * y, lambda: lambda y: y), ONE), x
        ), 3.0,
    ),
    "in what a derivative leaves in a reference": (
        lambda o, i, x: o(lambda x: x * left_in_reference(i, x), x), 6.75,
    ),
}  # fmt: skip
"""(derivative with an outer and an inner way at x, its value at 1.5)"""


@pytest.mark.sampled(5)
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
