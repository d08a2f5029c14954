"""Jacobians and Hessians by values of data types: an array for each field that there is."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorad as ta

HALF = np.array([0.5, -0.25])


Shape = ta.variant(
    "Shape",
    Circle={"radius": "float64"},
    Box={"sides": ("float64[2]", "float64"), "count": "int64", "inner": "Shape"},
)
BOX = Shape.Box((HALF, 1.5), 3, Shape.Circle(2.0))


@ta.function
def measured(shape: Any) -> Any:
    """Two numbers, whatever is inside."""
    return ta.match(
        shape,
        {
            Shape.Circle: lambda r: ta.topi.stack([r * r, ta.sin(r)]),
            Shape.Box: lambda sides, n, inner: (
                sides[0] * sides[1] * n.astype("float64") + measured(inner) * sides[1]
            ),
        },
    )


def test_an_array_for_each_field() -> None:
    found = ta.jacobian(measured)(BOX)
    assert isinstance(found, Shape.Box) and isinstance(found.inner, Shape.Circle)
    assert found.count is None
    np.testing.assert_allclose(found.sides[0], np.eye(2) * 4.5)
    np.testing.assert_allclose(found.sides[1], HALF * 3 + [4.0, np.sin(2.0)])
    np.testing.assert_allclose(found.inner.radius, np.array([4.0, np.cos(2.0)]) * 1.5)
    np.testing.assert_allclose(ta.jacobian(measured)(Shape.Circle(2.0)).radius, [4.0, np.cos(2.0)])


def test_both_modes_and_the_gradient_agree() -> None:
    forward, reverse = ta.jacfwd(measured)(BOX), ta.jacrev(measured)(BOX)
    slope = ta.grad(lambda s: measured(s).sum())(BOX)
    for own in (forward, reverse):
        np.testing.assert_allclose(own.sides[0].sum(0), slope.sides[0])
        np.testing.assert_allclose(own.sides[1].sum(), slope.sides[1])
        np.testing.assert_allclose(own.inner.radius.sum(), slope.inner.radius)


def test_in_trees_beside_arrays_and_of_other_arguments() -> None:
    def f(given: Any, scale: Any, other: Any) -> Any:
        return {"y": measured(given["shape"]) * scale + given["x"] * measured(other)[0]}

    args = ({"shape": BOX, "x": HALF}, 2.0, Shape.Circle(3.0))
    found, by_scale = ta.jacobian(f, argnums=(0, 1))(*args)["y"]
    np.testing.assert_allclose(found["shape"].sides[0], np.eye(2) * 9.0)
    np.testing.assert_allclose(found["x"], np.eye(2) * 9.0)
    np.testing.assert_allclose(by_scale, ta.function(measured)(BOX))


def test_hessians() -> None:
    rows = ta.hessian(lambda s: measured(s).sum())(BOX)
    np.testing.assert_allclose(rows.sides[0].sides[1], [3.0, 3.0])
    np.testing.assert_allclose(rows.inner.radius.sides[1], 4.0 + np.cos(2.0))
    np.testing.assert_allclose(rows.inner.radius.inner.radius, (2.0 - np.sin(2.0)) * 1.5)


def test_branches_inside_choose_values() -> None:
    """The function is given values, which become records where data choose one."""

    def f(shape: Any) -> Any:
        other = Shape.Circle(shape.sides[1] * 2.0)
        return measured(ta.cond(shape.sides[1] > 1.0, lambda: other, lambda: shape))

    found = ta.jacobian(f)(BOX)
    np.testing.assert_allclose(found.sides[1], [4.0 * 3.0, 2.0 * np.cos(3.0)])
    np.testing.assert_array_equal(found.sides[0], np.zeros((2, 2)))
    small = Shape.Box((HALF, 0.5), 3, Shape.Circle(2.0))
    np.testing.assert_allclose(ta.jacobian(f)(small).sides[0], np.eye(2) * 1.5)


def test_values_that_are_containers_are_told_apart_in_later_calls() -> None:
    """One that holds functions is called again by its fields, not as one leaf."""
    layers = ta.variant("Net", Id={}, Layer={"w": "float64[2]", "f": ta.Fn, "rest": "Net"})

    @ta.function
    def run(net: Any, x: Any) -> Any:
        arms = {layers.Id: lambda: x, layers.Layer: lambda w, f, rest: run(rest, f(x * w))}
        return ta.match(net, arms)

    one = layers.Layer(np.ones(2), ta.sin, layers.Id())
    two = layers.Layer(np.ones(2), ta.cos, one)
    for _ in range(3):
        np.testing.assert_allclose(run(one, HALF), np.sin(HALF))
        np.testing.assert_allclose(run(two, HALF), np.sin(np.cos(HALF)))
        np.testing.assert_array_equal(run(layers.Id(), HALF), HALF)
