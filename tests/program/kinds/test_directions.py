"""Derivatives of functions by values of data types, in both modes, against differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.autodiff.local.record_gradients import gradient_type, values_type
from tests.random.generators import campaign
from tests.support.programs.higher.data import Cons, List, Nil, listed
from tests.support.programs.higher.kit import same
from tests.support.programs.higher.nets import (
    Color,
    Net,
    changed,
    floats,
    program,
    random_net,
    shifted,
)

W = np.array([0.5, 1.5, -0.8])
H = 1e-6


def dot(a: Any, b: Any) -> float:
    return float(np.dot(floats(a), floats(b)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", campaign(range(2), 1))
def test_random_nets(seed: int) -> None:
    """Both modes, twice, compiled, interpreted, and differences along a direction."""
    rng = np.random.default_rng([21, seed])
    loss = ta.function(program(rng))
    by_net = ta.function(lambda net: loss(net, W))
    by_both, gradient = ta.value_and_grad(loss, (0, 1)), ta.grad(by_net)
    for size in (1, 4, 9):
        net = random_net(rng, size)
        along = changed(net, lambda x: rng.normal(size=np.shape(x)))
        dw = rng.normal(size=3)
        y, found = by_both(net, W)
        if size == 4:
            same(ta.interpret(by_both, net, W), (y, found))
        slope = dot(found[0], along) + found[1] @ dw
        up, down = [(shifted(net, along, h), W + h * dw) for h in (H, -H)]
        assert np.allclose(slope, (loss(*up) - loss(*down)) / (2 * H), rtol=1e-5, atol=1e-7)
        for mode in (True, False):
            pushed = ta.jvp(loss, (net, W), (along, dw), fw_mode=mode)
            assert np.allclose(pushed, (y, slope), rtol=1e-9, atol=1e-9)
        ends = [np.array(floats(gradient(n))) for n, _ in (up, down)]
        (product,) = ta.hvp(by_net, (net,), (along,))
        assert np.allclose(floats(product), (ends[0] - ends[1]) / (2 * H), rtol=1e-4, atol=1e-5)
        same(ta.hvp(by_net, (net,), (along,), fw_mode=False)[0], product)
        same(ta.jvp(gradient, (net,), (along,))[1], product)


@ta.function
def total(xs: Any, w: Any) -> Any:
    return ta.match(xs, {Nil: lambda: 0.0, Cons: lambda h, t: ta.sin(h * w) + total(t, w)})


@ta.function
def scaled(xs: Any, w: Any) -> Any:
    return ta.match(xs, {Nil: lambda: Nil(), Cons: lambda h, t: Cons(h * w, scaled(t, w))})


XS = listed(0.5, -1.0, 2.0)


def numbers(xs: Any) -> list[float]:
    return [float(x) for x in floats(xs)]


def test_a_gradient_is_a_value_of_the_type() -> None:
    found = ta.grad(total)(XS, np.float64(2.0))
    assert isinstance(found, List.Cons)  # type: ignore[attr-defined]  # set by the decorator
    assert numbers(found) == pytest.approx([2 * np.cos(2 * x) for x in (0.5, -1.0, 2.0)])
    assert ta.function(total)(found, 1.0) == pytest.approx(sum(np.sin(numbers(found))))


def test_what_nothing_flows_to_is_zero() -> None:
    head = ta.grad(lambda xs: ta.match(xs, lambda: 1.0, lambda h, t: h * h))(XS)
    assert numbers(head) == [1.0, 0.0, 0.0]
    assert numbers(ta.grad(lambda xs, w: w)(XS, 1.0)) == [0.0, 0.0, 0.0]
    assert isinstance(ta.grad(lambda xs, w: w)(Nil(), 1.0), Nil)


def test_integers_are_none() -> None:
    net = Net.One(Net.Leaf(np.array([1.0, 2.0]), 1, Color.Red()), 2.0)

    def f(net: Any) -> Any:
        def leaf(value: Any, word: Any, color: Any) -> Any:
            return (value * value).sum() * word

        rest = {k: lambda *fields: 0.0 for k in ("Two", "Many", "Stop", "One")}
        one = {"One": lambda child, s: ta.match(child, {**rest, "Leaf": leaf}) * s}
        return ta.match(net, {**rest, **one, "Leaf": lambda *fields: 0.0})

    found = ta.grad(f)(net)
    assert repr(found) == (
        "One(child=Leaf(value=array([4., 8.]), word=None, color=None), scale=5.0)"
    )
    assert isinstance(found, Net.One) and isinstance(found.child, Net.Leaf)
    own = type(found).record_type
    assert own is gradient_type(Net.record_type) is gradient_type(own)
    assert values_type(own) is Net.record_type and str(own) == "Net.gradient"
    assert repr(type(found)(found.child, 1.0)) == repr(found).replace("scale=5.0", "scale=1.0")
    others = dict.fromkeys((Net.Two, Net.Many, Net.Stop, Net.Leaf), lambda *fields: 0.0)
    assert ta.match(found, {**others, Net.One: lambda child, scale: scale}) == 5.0
    whole = ta.function(f)
    for tangent in (found, changed(net, lambda x: x * 0 + 1.0)):
        assert np.isfinite(ta.jvp(whole, (net,), (tangent,))[1])


def test_trees_that_contain_values() -> None:
    def f(params: Any) -> Any:
        return total(params["xs"], params["w"][0]) * params["n"]

    params = {"xs": XS, "w": (np.float64(2.0), None), "n": 3.0}
    found = ta.grad(f)(params)
    same(found["xs"], changed(ta.grad(total)(XS, np.float64(2.0)), lambda x: 3 * x))
    y, pull = ta.vjp(lambda p, k: {"xs": p["xs"], "k": k}, params, 2)
    ((back, none),) = [pull({"xs": XS, "k": None})]
    assert none is None and numbers(back["xs"]) == numbers(XS) and back["n"] == 0.0
    assert numbers(y["xs"]) == numbers(XS) and y["k"] == 2


@pytest.mark.slow
def test_results_are_values() -> None:
    w = np.float64(2.0)
    y, pull = ta.vjp(scaled, XS, w)
    by_xs, by_w = pull(listed(1.0, 2.0, 3.0))
    assert numbers(y) == [1.0, -2.0, 4.0] and numbers(by_xs) == [2.0, 4.0, 6.0] and by_w == 4.5
    for mode in (None, False):
        dy = ta.jvp(scaled, (XS, w), (listed(1.0, 2.0, 3.0), 0.5), fw_mode=mode)[1]
        assert numbers(dy) == [2.25, 3.5, 7.0]
    value, linear = ta.linearize(scaled, XS, w)
    assert numbers(value) == numbers(y) and numbers(linear(listed(1.0, 2.0, 3.0), 0.5)) == [
        2.25, 3.5, 7.0,
    ]  # fmt: skip


def test_a_function_is_traced_once() -> None:
    count = []

    def loss(xs: Any, w: Any) -> Any:
        count.append(1)
        return total(xs, w)

    gradient = ta.grad(loss, (0, 1))
    for xs in (XS, Nil(), listed(*np.arange(20.0))):
        by_xs, by_w = gradient(xs, np.float64(0.3))
        assert numbers(by_xs) == pytest.approx([0.3 * np.cos(0.3 * x) for x in numbers(xs)])
        assert by_w == pytest.approx(sum([x * np.cos(0.3 * x) for x in numbers(xs)]))
    assert len(count) == 1


def test_parts_that_are_there_twice_have_gradients_of_their_own() -> None:
    leaf = Net.Leaf(np.array([1.0, 2.0]), 0, Color.Red())
    net = Net.Two(leaf, leaf, (1.0, {"bias": np.zeros(2), "n": np.int32(1)}))

    def f(net: Any) -> Any:
        def side(net: Any, k: float) -> Any:
            rest = {n: lambda *fields: 0.0 for n in ("One", "Two", "Many", "Stop")}
            return ta.match(net, {**rest, "Leaf": lambda v, *fields: k * v.sum()})

        rest = {n: lambda *fields: 0.0 for n in ("Leaf", "One", "Many", "Stop")}
        return ta.match(net, {**rest, "Two": lambda a, b, r: side(a, 2.0) + side(b, 3.0)})

    found = ta.grad(f)(net)
    assert found.left.value.tolist() == [2.0, 2.0] and found.right.value.tolist() == [3.0, 3.0]


@ta.function
def moved(xs: Any, by: Any, rate: Any) -> Any:
    def both(h: Any, t: Any) -> Any:
        return ta.match(by, lambda: Nil(), lambda d, rest: Cons(h - rate * d, moved(t, rest, rate)))

    return ta.match(xs, lambda: Nil(), both)


def square(xs: Any, w: Any) -> Any:
    return (total(xs, w) - 1.0) ** 2


@pytest.mark.slow
def test_gradients_are_used_inside_of_programs() -> None:
    """Descent in a loop, and the derivative of what it ends at."""

    def train(xs: Any, w: Any) -> Any:
        return ta.for_loop(0, 3, lambda i, at: moved(at, ta.grad(square)(at, w), 0.125), xs)

    w, slope = np.float64(0.7), ta.grad(square)
    want = XS
    for _ in range(3):
        want = moved(want, slope(want, w), np.float64(0.125))
    same(ta.function(train)(XS, w), want)
    meta = ta.function(lambda xs, w: square(train(xs, w), w))
    by_xs, by_w = ta.grad(meta, (0, 1))(XS, w)
    assert by_w == pytest.approx((meta(XS, w + H) - meta(XS, w - H)) / (2 * H), rel=1e-6)
    along = listed(1.0, -2.0, 0.5)
    ends = [meta(shifted(XS, along, h), w) for h in (H, -H)]
    assert dot(by_xs, along) == pytest.approx((ends[0] - ends[1]) / (2 * H), rel=1e-6)


@pytest.mark.slow
def test_gradients_of_gradients_and_of_known_values() -> None:
    @ta.function
    def squares(xs: Any) -> Any:
        return ta.match(xs, lambda: 0.0, lambda h, t: h * h + squares(t))

    w = np.float64(0.7)
    steep = ta.grad(lambda xs: squares(ta.grad(total)(xs, w)))(XS)
    want = [-2 * w**3 * np.sin(w * x) * np.cos(w * x) for x in numbers(XS)]
    assert numbers(steep) == pytest.approx(want)
    known = ta.function(lambda x: ta.grad(total)(Cons(x, Cons(2.0, Nil())), 0.7))(np.float64(0.5))
    assert numbers(known) == pytest.approx([0.7 * np.cos(0.35), 0.7 * np.cos(1.4)], rel=1e-6)
    confused = ta.grad(lambda xs: ta.grad(lambda ys: total(ys, 1.0) * total(xs, 1.0))(xs).head)
    with pytest.raises(AttributeError):  # in a program fields are what a match gives
        confused(XS)
    head = ta.function(
        lambda xs: ta.match(
            ta.grad(lambda ys: total(ys, 1.0) * total(xs, 1.0))(xs), lambda: 0.0, lambda h, t: h
        )
    )
    assert head(XS) == pytest.approx(np.cos(0.5) * sum(np.sin(numbers(XS))))


def test_arrays_of_arguments_may_change_before_the_pullback() -> None:
    value = np.array([1.0, 2.0])
    net = Net.Leaf(value, 1, Color.Red())

    def f(net: Any) -> Any:
        rest = {n: lambda *fields: 0.0 for n in ("One", "Two", "Many", "Stop")}
        return ta.match(net, {**rest, "Leaf": lambda v, *fields: (v * v).sum()})

    pull, linear = ta.vjp(f, net)[1], ta.linearize(f, net)[1]
    value[:] = 100.0
    (found,) = pull(1.0)
    assert found.value.tolist() == [2.0, 4.0]
    assert linear(Net.Leaf(np.ones(2), 0, Color.Red())) == 6.0


def test_long_lists_need_no_stack() -> None:
    n = 3_000
    xs = listed(*np.linspace(-1, 1, n))
    found, count = ta.grad(total)(xs, np.float64(2.0)), 0
    while not isinstance(found, Nil):
        found, count = found.tail, count + 1
    assert count == n


@pytest.mark.slow
def test_tools_look_into_values() -> None:
    rng = np.random.default_rng(3)
    loss = ta.function(program(rng))
    net = random_net(rng, 5)
    report = ta.gradcheck(loss, net, W, report=True)
    assert report and "args[0][2]" in report.names
    assert ta.gradcheck(lambda xs, w: (scaled(xs, w), total(xs, w)), XS, np.float64(2.0), order=2)


@pytest.mark.parametrize("mode", ["both", "reverse", "forward"])
def test_values_may_be_stopped(mode: str) -> None:
    def f(xs: Any) -> Any:
        return ta.match(ta.stop_gradient(xs, mode), lambda: 0.0, lambda h, t: h * h)

    assert numbers(ta.grad(f)(XS))[0] == (1.0 if mode == "forward" else 0.0)
    assert ta.jvp(f, (XS,), (XS,)) == (0.25, 0.5 if mode == "reverse" else 0.0)


def slope_of(f: Any, x: float) -> float:
    own = ta.function(f)
    return float((own(np.float64(x + H)) - own(np.float64(x - H))) / (2 * H))


@pytest.mark.slow
def test_fixed_points_and_levels_of_values() -> None:
    def solved(xs: Any, w: Any) -> Any:
        return ta.fixed_point(lambda x: ta.cos(x * total(xs, w)), np.float64(0.5))

    w, along = np.float64(0.1), listed(1.0, -2.0, 0.5)
    by_xs, by_w = ta.grad(solved, (0, 1))(XS, w)
    whole = ta.function(solved)
    ends = [whole(shifted(XS, along, h), w) for h in (H, -H)]
    assert dot(by_xs, along) == pytest.approx((ends[0] - ends[1]) / (2 * H), rel=1e-5)
    assert ta.jvp(whole, (XS, w), (along, 0.0))[1] == pytest.approx(dot(by_xs, along))
    assert by_w == pytest.approx(float(slope_of(lambda w: solved(XS, w), 0.1)), rel=1e-5)

    def known(v: Any) -> Any:  # a value that the function makes is no operand of its call
        return ta.fixed_point(lambda x: ta.cos(x * v * total(XS, 0.1)), v)

    assert ta.grad(known)(np.float64(0.5)) == pytest.approx(slope_of(known, 0.5), rel=1e-5)
    with ta.dual_level():
        value, tangent = ta.unpack_dual(scaled(XS, ta.make_dual(w, np.float64(1.0))))
        head = [ta.match(v, lambda: 0.0, lambda h, t: h) for v in (value, tangent)]
        assert [float(h) for h in head] == pytest.approx([0.05, 0.5])
