"""Functions that call themselves: as calls of definitions, interpreted and compiled."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.ir.analysis.blocks import inner_ops, ops_between
from tensorad.ir.records import Definition, Recursion
from tests.support.programs.higher.kit import TRACED, check
from tests.support.programs.higher.recursive import RECURSIVE


@pytest.mark.parametrize("name", RECURSIVE)
def test_recursion(name: str) -> None:
    check(RECURSIVE[name])


@ta.function
def power(x: Any, n: Any) -> Any:
    return ta.cond(n > 0, lambda: x * power(x, n - 1), lambda: 1.0)


def definitions(f: Any, *args: Any) -> list[Definition]:
    """Those of a function's program, in the order in which they are met."""
    found: dict[Definition, None] = {}
    pending = [f.trace(*args).results]
    while pending:
        ops = ops_between(pending.pop(), {})
        for op in (*ops, *inner_ops(ops)):
            if isinstance(op, Recursion) and op.definition not in found:
                found[op.definition] = None
                pending.append(op.definition.block.results)
    return list(found)


def test_a_call_of_the_same_kind_is_a_call_of_one_definition() -> None:
    (own,) = definitions(power, np.float64(2.0), np.int64(3))
    assert own.name == "power" and [t.dtype for t in own.params] == ["float64", "int64"]
    assert [(t.name, t.dtype, t.shape) for t in own.types] == [("power", "float64", ())]


def test_numbers_take_the_dtype_of_what_they_meet() -> None:
    for dtype in ("float32", "float64"):
        (own,) = definitions(power, np.dtype(dtype).type(2.0), np.int64(3))
        assert own.types[0].dtype == dtype

    @ta.function
    def count(n: Any) -> Any:
        return ta.cond(n < 1, lambda: 0, lambda: count(n - 1) + 1)

    assert count(np.int64(5)) == 5 and count(np.int64(5)).dtype == np.int64


def test_captured_tensors_are_given_to_each_call() -> None:
    def program(w: Any, n: Any) -> Any:
        @ta.function
        def f(n: Any) -> Any:
            return ta.cond(n > 0, lambda: f(n - 1) @ w, lambda: w[0])

        return f(n)

    (own,) = definitions(ta.function(program), np.ones((2, 2)), np.int64(3))
    assert [t.name for t in own.params] == ["n", "w"]
    w = np.array([[0.5, 1.0], [-1.0, 0.25]])
    assert np.allclose(ta.function(program)(w, np.int64(3)), w[0] @ w @ w @ w)


def test_mutual_recursion_is_one_definition_with_the_others_inside() -> None:
    even = RECURSIVE["three_in_turn"].make

    found = definitions(even(TRACED), np.float64(1.0), np.int64(2))
    assert found[0].name == "a"


def test_extents_may_be_sizes() -> None:
    @ta.function
    def smooth(x: Any, n: Any) -> Any:
        return ta.cond(n > 0, lambda: smooth(x / 2 + x.mean() / 2, n - 1), lambda: x)

    for size in (3, 5, 8):
        x = np.arange(float(size))
        wanted = (x - x.mean()) / 8 + x.mean()
        assert np.allclose(smooth(x, np.int64(3)), wanted)
    (own,) = definitions(smooth, np.arange(7.0), np.int64(3))
    assert own.types[0].shape == own.params[0].shape


def test_a_size_that_is_a_number_inside_is_told_by_a_tensor() -> None:
    @ta.function
    def program(x: Any, n: Any) -> Any:
        @ta.function
        def f(n: Any) -> Any:
            return ta.cond(n > 0, lambda: f(n - 1) + x.shape[0], lambda: 0)

        return f(n)

    assert [int(program(np.ones(k), np.int64(3))) for k in (2, 3, 4)] == [6, 9, 12]


def test_a_function_with_a_rule_may_recur() -> None:
    @ta.function
    def f(x: Any, n: Any) -> Any:
        return ta.cond(n > 0, lambda: x * f(x, n - 1), lambda: 1.0)

    ta.register_gradient(f)(lambda call, gradient: [gradient * 100.0, ta.no_grad])
    got = ta.grad(lambda x: f(x, np.int64(3)))(np.float64(2.0))
    assert got == 100.0 and f(np.float64(2.0), np.int64(3)) == 8.0


def test_unfolding_of_static_arguments_ends() -> None:
    @ta.function(static_argnames="depth")
    def f(x: Any, depth: int) -> Any:
        return f(x * 2, depth - 1) if depth else x

    assert f(np.float64(1.0), 200) == 2.0**200


def test_recursion_is_deep() -> None:
    assert power(np.float64(1.0), np.int64(50_000)) == 1.0


@pytest.mark.slow
def test_reverse_over_forward_where_calls_store_what_captured_arrays_make() -> None:
    def norms(x: Any, v: Any, n: Any) -> Any:
        def deeper(a: Any, k: Any) -> Any:
            return ta.tanh((own(ta.sin(v @ v), k - 1) + own(ta.cos(x) * a, k - 2)) * a)

        own = ta.function(
            lambda a, k: ta.cond(k > 0, lambda: deeper(a, k), lambda: ta.sin(a * 1.5))
        )
        return own(x, n)

    at, along = (np.float64(0.7), np.array([0.1, 0.2, 0.3])), (np.float64(0.3), np.ones(3))
    n = np.int64(3)

    def slope(x: Any, v: Any) -> Any:
        dx, dv = ta.grad(lambda x, v: norms(x, v, n), (0, 1))(x, v)
        return dx * along[0] + (dv * along[1]).sum()

    def pushed(x: Any, v: Any) -> Any:
        return ta.jvp(lambda x, v: norms(x, v, n), (x, v), along)[1]

    gradient = ta.grad(lambda x, v: norms(x, v, n), (0, 1))
    every = [
        ta.grad(slope, (0, 1))(*at),
        ta.jvp(gradient, at, along)[1],
        ta.grad(pushed, (0, 1))(*at),
        ta.interpret(ta.grad(pushed, (0, 1)), *at),
    ]
    for other in every[1:]:
        for a, b in zip(every[0], other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


Tree: Any = ta.variant("Tree", Leaf={"x": "float64"}, Node={"left": "Tree", "right": "Tree"})


def balanced(xs: np.ndarray) -> Any:
    row = [Tree.Leaf(x) for x in xs]
    while len(row) > 1:
        row = [Tree.Node(a, b) for a, b in zip(row[::2], row[1::2], strict=True)]
    return row[0]


def leaves_of(tree: Any) -> np.ndarray:
    row = [tree]
    while hasattr(row[0], "left"):
        row = [child for node in row for child in (node.left, node.right)]
    return np.array([leaf.x for leaf in row])


def on_a_small_stack(run: Callable[[], Any]) -> Any:
    """What it returns, in a thread whose stack has 256 KiB."""
    found: list[Any] = []
    before = threading.stack_size(1 << 18)
    try:
        thread = threading.Thread(target=lambda: found.append(run()))
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    return found.pop()


@pytest.mark.parametrize("depth", [6, pytest.param(19, marks=pytest.mark.slow)])
def test_a_tree_of_a_million_nodes(depth: int) -> None:
    """Value, and gradients by a number and by the tree, on a bounded stack."""

    @ta.function
    def value(tree: Any, w: Any) -> Any:
        def node(left: Any, right: Any) -> Any:
            return value(left, w) * 0.5 + value(right, w)

        return ta.match(tree, lambda x: ta.sin(x * w), node)

    xs, w = np.random.default_rng(0).normal(size=1 << depth), np.float64(0.7)
    weights = np.ones(1)
    for _ in range(depth):
        weights = np.concatenate([0.5 * weights, weights])
    tree = balanced(xs)
    run = ta.value_and_grad(value, (0, 1))
    total, (by_tree, by_w) = on_a_small_stack(lambda: run(tree, w))
    np.testing.assert_allclose(total, weights @ np.sin(xs * w), rtol=1e-10)
    np.testing.assert_allclose(by_w, weights @ (xs * np.cos(xs * w)), rtol=1e-10)
    np.testing.assert_allclose(leaves_of(by_tree), weights * w * np.cos(xs * w), rtol=1e-12)
