"""Jacobians by values of data types whose alternatives data choose: rows in each field."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.autodiff.local.record_gradients import gradient_type, rows_type
from tensorad.program.data.instances import Instance
from tests.random.generators import campaign
from tests.support.programs.higher.data import Cons, List, Nil, Tree, listed, tree
from tests.support.programs.higher.kit import same
from tests.support.programs.higher.nets import changed, floats, program, random_net, shifted

H = 1e-6
X = np.array([0.5, 1.5, -0.8])


@ta.function
def folded(xs: Any, x: Any) -> Any:
    """x behind all numbers of the list: an array like it."""
    arms = {Nil: lambda: x * x, Cons: lambda h, t: ta.sin(h * x) + h * folded(t, x)}
    return ta.match(xs, arms)


by_list = ta.function(lambda xs, x: ta.jacrev(folded)(xs, x))


def heads(xs: Any) -> list[Any]:
    return [] if isinstance(xs, Nil) else [xs.head, *heads(xs.tail)]


def numbers(tree: Any) -> list[float]:
    """All floats of a value, also of one that is a container of its fields."""
    if isinstance(tree, Instance):
        return numbers([getattr(tree, name) for name in tree.field_names])
    if isinstance(tree, (tuple, list, dict)):
        parts = [tree[k] for k in sorted(tree)] if isinstance(tree, dict) else tree
        return [x for part in parts for x in numbers(part)]
    return [] if tree is None else floats(tree)


@ta.function
def steepness(t: Any) -> Any:
    """A number of a Jacobian by a list."""
    return ta.match(t, {"Nil": lambda: 0.0, "Cons": lambda h, t: (h * h * h).sum() + steepness(t)})


def of_jacobian(xs: Any) -> Any:
    return steepness(ta.jacobian(folded)(xs, ta.const(X)))


def directional(f: Any, value: Any, along: Any, h: float = 1e-5) -> Any:
    up, down = [np.asarray(f(shifted(value, along, s * h))) for s in (1, -1)]
    return (up - down) / (2 * h)


def test_columns_are_those_of_the_program_of_an_array() -> None:
    def of_array(a: Any, x: Any) -> Any:
        y = x * x
        for n in reversed(range(4)):
            y = ta.sin(a[n] * x) + a[n] * y
        return y

    numbers = [0.3, -1.2, 2.0, 0.7]
    wanted = ta.jacobian(of_array)(np.array(numbers), X)
    found = by_list(listed(*numbers), X)
    np.testing.assert_allclose(np.stack(heads(found), 1), wanted, rtol=1e-13)
    known = ta.jacobian(folded)(listed(*numbers), X)
    np.testing.assert_allclose(np.stack(heads(known), 1), wanted, rtol=1e-13)


def test_lists_of_any_length_and_results_of_any_extent() -> None:
    for n in (0, 1, 7):
        found = heads(by_list(listed(*range(n)), X))
        assert len(found) == n and all(h.shape == (3,) for h in found)
    for extent in (0, 1, 5):
        (one,) = heads(by_list(listed(0.5), np.ones(extent)))
        np.testing.assert_allclose(one, np.full(extent, np.cos(0.5) + 1.0))


@pytest.mark.slow
def test_axes_of_the_result_come_first() -> None:
    """A result of two axes, by arrays, and in fields that are trees."""

    @ta.function
    def table(t: Any) -> Any:
        def node(left: Any, right: Any, rate: Any) -> Any:
            bias = rate[1]["bias"]
            return table(left) * rate[0] + ta.topi.stack([bias, bias * 2.0, bias]) * table(right)

        return ta.match(t, lambda v: ta.topi.stack([v, v * v, v[::-1]]), node)

    found = ta.function(lambda t: ta.jacrev(table)(t))(tree(3))
    known = ta.jacrev(table)(tree(3))
    assert isinstance(found, Tree.Node) and found.left.left.left.value.shape == (3, 2, 2)
    assert found.rate[0].shape == (3, 2) and found.rate[1]["bias"].shape == (3, 2, 2)
    assert np.allclose(numbers(found), numbers(known), rtol=1e-12, atol=1e-12)
    (first,) = ta.vjp(table, tree(3))[1](np.arange(6.0).reshape(3, 2))
    added = changed(found, lambda a: np.tensordot(np.arange(6.0).reshape(3, 2), a, 2))
    assert np.allclose(floats(added), floats(first), rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", campaign(range(3), 1))
def test_random_nets(seed: int) -> None:
    """Differences by every float, rows by vjp one by one, the interpreter, known alternatives."""
    rng = np.random.default_rng([37, seed])
    loss = program(rng)
    scales = np.array([[0.5, 1.5, -0.8], [1.0, 0.2, 0.4]])
    several = ta.function(lambda net: ta.topi.stack([loss(net, ta.const(w)) for w in scales]))
    jacobian = ta.function(lambda net: ta.jacobian(several)(net))
    for size in (1, 3, 6):
        net = random_net(rng, size)
        found = jacobian(net)
        same(ta.interpret(jacobian, net), found)
        pullback = ta.vjp(several, net)[1]
        for n, unit in enumerate(np.eye(2)):
            row = changed(found, lambda a, n=n: a[n])
            assert np.allclose(floats(row), floats(pullback(unit)[0]), rtol=1e-12, atol=1e-12)
        columns = np.array(floats(changed(found, lambda a: np.moveaxis(a, 0, -1)))).reshape(-1, 2)
        for k, column in enumerate(columns):
            places = iter(np.eye(len(columns))[k])
            unit = changed(net, lambda x: _numbers(x, places))
            assert np.allclose(column, directional(several, net, unit, H), rtol=1e-4, atol=1e-6)
        if size < 6:
            known = numbers(ta.jacrev(several)(net))
            assert np.allclose(numbers(found), known, rtol=1e-11, atol=1e-11)


def _numbers(x: Any, rest: Any) -> Any:
    return np.array([next(rest) for _ in range(np.size(x))]).reshape(np.shape(x))


def test_scalar_results_have_gradients_and_integers_have_none() -> None:
    def f(given: Any) -> Any:
        y = folded(given["xs"], given["x"])
        return {"sum": y.sum(), "count": 3, "y": y * 2.0}

    xs = listed(0.5, 2.0)
    found = ta.function(lambda xs, x: ta.jacobian(f)({"xs": xs, "x": x}))(xs, X)
    slope = ta.grad(lambda xs: folded(xs, X).sum())(xs)
    assert type(found["sum"]["xs"]).record_type is gradient_type(List.record_type)
    assert heads(found["sum"]["xs"]) == pytest.approx(heads(slope))
    assert found["count"] == {"xs": None, "x": None}
    for row, one in zip(heads(found["y"]["xs"]), heads(slope), strict=True):
        assert row.sum() == pytest.approx(2 * one)
    assert found["y"]["x"].shape == (3, 3) and np.count_nonzero(found["y"]["x"]) == 3


def test_what_nothing_flows_to_is_zero() -> None:
    """Of results without the value, and of parts that no arm reads."""
    nothing = ta.function(lambda xs: ta.jacrev(lambda xs: ta.const(X))(xs))(listed(1.0, 2.0))
    np.testing.assert_array_equal(heads(nothing), np.zeros((2, 3)))
    first = ta.function(
        lambda xs: ta.jacrev(lambda xs: ta.match(xs, lambda: X * 0.0, lambda h, t: X * h))(xs)
    )(listed(1.0, 2.0))
    np.testing.assert_array_equal(heads(first), [X, np.zeros(3)])


def test_values_inside_of_known_ones_and_jacobians_in_branches() -> None:
    """The fields of an alternative that a match found are chosen by data themselves."""

    @ta.function
    def rows(xs: Any, x: Any) -> Any:
        def cons(h: Any, t: Any) -> Any:
            known = ta.jacobian(folded)(Cons(h, t), x)
            return known.head, known.tail

        return ta.match(xs, lambda: (x * 0.0, ta.jacobian(folded)(xs, x)), cons)

    xs = listed(0.5, 2.0, -1.0)
    head, tail = rows(xs, X)
    whole = by_list(xs, X)
    np.testing.assert_allclose(head, whole.head)
    np.testing.assert_allclose(heads(tail), heads(whole.tail))
    head, tail = rows(Nil(), X)
    assert isinstance(tail, Nil) and not head.any()


@pytest.mark.slow
def test_jacobians_are_differentiated_in_both_modes() -> None:
    f = ta.function(of_jacobian)
    for xs in (listed(), listed(0.4), listed(0.3, -1.2, 0.7)):
        slope = ta.grad(f)(xs)
        along = changed(xs, lambda x: np.float64(0.5 - x))
        wanted = directional(f, xs, along)
        assert np.dot(floats(slope), floats(along)) == pytest.approx(wanted, rel=1e-6, abs=1e-9)
        for mode in (True, False):
            pushed = ta.jvp(f, (xs,), (along,), fw_mode=mode)[1]
            assert pushed == pytest.approx(wanted, rel=1e-6, abs=1e-9)
        slopes = [ta.grad(f)(shifted(xs, along, s * 1e-5)) for s in (1, -1)]
        second = (np.array(floats(slopes[0])) - floats(slopes[1])) / 2e-5
        assert floats(ta.hvp(f, (xs,), (along,))[0]) == pytest.approx(second, rel=1e-4, abs=1e-6)


def test_jacobians_by_arrays_of_jacobians_by_values() -> None:
    """Forward and reverse by the other argument."""
    first = ta.function(lambda xs, x: ta.match(by_list(xs, x), lambda: x, lambda h, t: h))
    xs = listed(0.4, -1.2)
    forward = ta.jacfwd(first, argnums=1)(xs, X)
    reverse = ta.jacrev(first, argnums=1)(xs, X)  # through a call that makes rows of records
    np.testing.assert_allclose(forward, reverse, rtol=1e-12, atol=1e-12)
    for n, unit in enumerate(np.eye(3)):
        wanted = (first(xs, X + H * unit) - first(xs, X - H * unit)) / (2 * H)
        np.testing.assert_allclose(forward[:, n], wanted, rtol=1e-5, atol=1e-7)


def test_many_examples() -> None:
    """Each with a list of its own; nested; by all lists at once."""
    lists = np.array([listed(0.5, 2.0), listed(), listed(-1.0, 0.3, 0.7)], object)
    many = ta.vmap(ta.jacrev(folded), in_axes=(0, None))(lists, X)
    for found, xs in zip(many, lists, strict=True):
        np.testing.assert_array_equal(heads(found), heads(by_list(xs, X)))
    pairs = ta.vmap(ta.vmap(ta.jacrev(folded), in_axes=(None, 0)), in_axes=(0, None))
    for row, xs in zip(pairs(lists, np.stack([X, X + 1])), lists, strict=True):
        for found, x in zip(row, (X, X + 1), strict=True):
            np.testing.assert_allclose(heads(found), heads(by_list(xs, x)), rtol=1e-13)

    def summed(lists: Any) -> Any:
        return ta.vmap(folded, in_axes=(0, None))(lists, ta.const(X))

    every = ta.jacrev(summed)(lists)
    for n, (found, xs) in enumerate(zip(every, lists, strict=True)):
        for own, block in zip(heads(by_list(xs, X)), heads(found), strict=True):
            wanted = np.zeros((3, 3))
            wanted[n] = own
            np.testing.assert_allclose(block, wanted, rtol=1e-13)


@pytest.mark.slow
def test_arrays_of_values_have_gradients_tangents_and_products() -> None:
    lists = np.array([listed(0.5, 2.0), listed(), listed(-1.0, 0.3, 0.7)], object)
    f = ta.function(of_jacobian)

    def every(lists: Any) -> Any:
        return ta.vmap(of_jacobian)(lists).sum()

    slopes = ta.grad(every)(lists)
    (products,) = ta.hvp(every, (lists,), (slopes,))
    pushed = ta.jvp(every, (lists,), (slopes,))[1]
    for xs, slope, product in zip(lists, slopes, products, strict=True):
        one = ta.grad(f)(xs)
        assert heads(slope) == pytest.approx(heads(one), rel=1e-12)
        assert heads(product) == pytest.approx(heads(ta.hvp(f, (xs,), (one,))[0]), rel=1e-12)
    assert pushed == pytest.approx(sum([np.dot(heads(s), heads(s)) for s in slopes]))
    (given,) = ta.vjp(lambda lists: lists, lists)[1](slopes)
    assert [heads(g) for g in given] == [heads(s) for s in slopes]


def test_a_jacobian_is_a_value_of_a_type_of_its_own() -> None:
    found = by_list(listed(0.5, 2.0), X)
    kind = type(found)
    assert isinstance(found, Cons) and kind.record_type is rows_type(List.record_type, (3,))
    assert gradient_type(kind.record_type) is kind.record_type
    by_class = ta.match(found, {Nil: lambda: None, Cons: lambda head, tail: head})
    np.testing.assert_array_equal(by_class, found.head)
    wanted = sum([(h**3).sum() for h in heads(found)])
    assert steepness(found) == pytest.approx(wanted)
    slope = ta.grad(steepness)(found)
    assert type(slope).record_type is kind.record_type
    np.testing.assert_allclose(heads(slope), 3 * np.square(heads(found)))


def test_long_lists_need_no_stack() -> None:
    found = by_list(listed(*np.full(20_000, 1e-5)), X)
    count, at = 0, found
    while isinstance(at, Cons):
        count, at = count + 1, at.tail
    assert count == 20_000
    np.testing.assert_allclose(found.head, X * np.cos(1e-5 * X) + 1e-5 * X, rtol=1e-6)


def test_forward_mode_of_tensors_is_refused() -> None:
    with pytest.raises(ta.errors.GradError, match="forward mode has no direction for each float"):
        ta.function(lambda xs: ta.jacfwd(folded(xs, ta.const(X)), xs))(listed(1.0))
