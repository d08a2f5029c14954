"""Optimisers against closed sums of all gradients, in loops and on arrays; functions of leaves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import optim
from tensorad.errors import DefinitionError, DTypeError, ShapeError
from tests.support.refusals import Case, Refusals, check

STEPS = 7


@dataclass
class Layer:
    w: Any
    b: Any


def trees(dtype: str = "float64") -> tuple[Any, Any]:
    """Weights, and gradients with a leading axis of steps."""
    rng = np.random.default_rng(0)

    def draw(*shape: int) -> Any:
        return rng.normal(size=shape).astype(dtype)

    weights = {"layers": [Layer(draw(3, 4), draw(4))], "scale": draw()}
    return weights, ta.tree_map(lambda w: draw(STEPS, *w.shape), weights)


def descended(rate: float, g: Any) -> Any:
    return rate * g.sum(0)


def with_momentum(rate: float, decay: float, nesterov: bool, g: Any) -> Any:
    """Each gradient counts in its own step and, decayed, in all after it."""
    total = 0.0
    for n in range(1, STEPS + 1):
        v = sum(decay ** (n - k) * g[k - 1] for k in range(1, n + 1))
        total = total + (g[n - 1] + decay * v if nesterov else v)
    return rate * total


def with_adam(rate: float, one: float, two: float, least: float, g: Any) -> Any:
    """Means weighted by powers of the decays, which add up to 1."""
    total = 0.0
    for n in range(1, STEPS + 1):
        first = np.array([one ** (n - k) for k in range(1, n + 1)])
        second = np.array([two ** (n - k) for k in range(1, n + 1)])
        m = np.tensordot(first / first.sum(), g[:n], 1)
        v = np.tensordot(second / second.sum(), g[:n] ** 2, 1)
        total = total + m / (np.sqrt(v) + least)
    return rate * total


CASES: dict[str, tuple[Any, Any]] = {
    "descent": (optim.SGD(0.3), lambda g: descended(0.3, g)),
    "momentum": (optim.Momentum(0.2), lambda g: with_momentum(0.2, 0.9, False, g)),
    "no memory": (optim.Momentum(0.2, 0.0), lambda g: descended(0.2, g)),
    "nesterov": (optim.Momentum(0.2, 0.7, True), lambda g: with_momentum(0.2, 0.7, True, g)),
    "adam": (optim.Adam(0.1), lambda g: with_adam(0.1, 0.9, 0.999, 1e-8, g)),
    "adam, other decays": (
        optim.Adam(0.1, (0.0, 0.5), 0.1),
        lambda g: with_adam(0.1, 0.0, 0.5, 0.1, g),
    ),
}


@ta.function
def in_a_loop(optimiser: Any, weights: Any, state: Any, gradients: Any) -> Any:
    """All steps in one call."""

    def step(kept: Any, g: Any) -> Any:
        return optimiser.step(kept[0], g, kept[1]), None

    return ta.scan(step, (weights, state), gradients)[0]


def at(gradients: Any, n: int) -> Any:
    return ta.tree_map(lambda g: g[n], gradients)


def agree(found: Any, wanted: Any, rtol: float) -> None:
    def leaf(a: Any, b: Any) -> None:
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)

    ta.tree_map(leaf, found, wanted)


@pytest.mark.parametrize("name", CASES)
def test_steps_in_a_loop_and_of_arrays_are_those_of_closed_sums(name: str) -> None:
    optimiser, moved = CASES[name]
    weights, gradients = trees()
    wanted = ta.tree_map(lambda w, g: w - moved(g), weights, gradients)
    state = optimiser.init(weights)
    looped, last = in_a_loop(optimiser, weights, state, gradients)
    agree(looped, wanted, 1e-12)
    by_hand = weights
    for n in range(STEPS):
        by_hand, state = optimiser.step(by_hand, at(gradients, n), state)
    agree(by_hand, wanted, 1e-12)
    agree(last, state, 1e-12)


@pytest.mark.parametrize("name", ["descent", "momentum", "adam"])
def test_weights_and_state_keep_their_dtypes(name: str) -> None:
    optimiser, moved = CASES[name]
    weights, gradients = trees("float32")
    wanted = ta.tree_map(lambda w, g: w - moved(g.astype("float64")), weights, gradients)
    precise = replace(optimiser, rate=np.float64(optimiser.rate))
    state = optimiser.init(weights)
    looped, _ = in_a_loop(precise, weights, state, gradients)
    agree(looped, wanted, 2e-6)
    for found in (looped, precise.step(weights, at(gradients, 0), state)[0]):
        assert ta.tree_map(lambda w: w.dtype, found) == ta.tree_map(lambda w: w.dtype, weights)


def test_a_rate_may_differ_in_each_call_and_in_each_step() -> None:
    traced = []

    @ta.function
    def step(optimiser: Any, w: Any, g: Any) -> Any:
        traced.append(optimiser)
        return optimiser.step(w, g)[0]

    w, g = np.array([1.0, 2.0]), np.array([0.5, -1.0])
    for rate in (0.5, 0.25):
        agree(step(optim.SGD(rate), w, g), w - rate * g, 1e-15)
    assert len(traced) == 1

    @ta.function
    def decaying(w: Any, g: Any) -> Any:
        return ta.for_loop(0, 4, lambda i, w: optim.SGD(1.0 / (i + 1)).step(w, g)[0], w)

    agree(decaying(w, g), w - (1 + 1 / 2 + 1 / 3 + 1 / 4) * g, 1e-15)


def test_python_numbers_are_weights_too() -> None:
    for optimiser, _ in CASES.values():
        weights: Any = {"a": 2.0, "b": np.array([2.0, 2.0])}
        state = optimiser.init(weights)
        for g in (1.0, -3.0):
            weights, state = optimiser.step(weights, {"a": g, "b": np.array([g, g])}, state)
        assert float(weights["a"]) == weights["b"][0] != 2.0


def test_states_begin_inside_of_programs_of_any_size() -> None:
    """Two steps with gradients w and 2 w, traced once with numbers and once with a size."""

    @ta.function
    def steps(w: Any) -> Any:
        adam = optim.Adam(0.1, (0.5, 0.5), 0.0)
        moved, state = adam.step({"w": w}, {"w": w}, adam.init({"w": w}))
        return adam.step(moved, {"w": w * 2.0}, state)[0]["w"]

    for n in (2, 3, 5):
        w = np.arange(1.0, n + 1)
        second = (w / 3 + 2 / 3 * 2 * w) / np.sqrt(w**2 / 3 + 2 / 3 * 4 * w**2)
        agree(steps(w), w - 0.1 - 0.1 * second, 1e-14)


def test_functions_of_leaves() -> None:
    tree = {"b": (1, None), "a": [Layer(2, 3)]}
    assert ta.tree_map(lambda x: x * 10, tree) == {"b": (10, None), "a": [Layer(20, 30)]}
    assert ta.tree_map(lambda x, y, z: x + y + z, tree, tree, tree) == ta.tree_map(
        lambda x: 3 * x, tree
    )
    seen: list[int] = []
    assert ta.tree_map(seen.append, tree) == {"b": (None, None), "a": [Layer(None, None)]}
    assert seen == [2, 3, 1], "dicts by their keys"


CASES_OF_ERRORS = Refusals()


@CASES_OF_ERRORS.refused(
    DefinitionError,
    "weights and gradients of Adam.step differ in their structure, first at weights['b'].",
    "  in:               weights       gradients",
    "      weights['b']  float64 (2,)  -",
    "      weights['w']  float64 (3,)  float64 (3,)",
    "  hint: pass trees with the same containers and keys.",
)
def _() -> object:
    weights, adam = {"w": np.ones(3), "b": np.ones(2)}, optim.Adam()
    return adam.step(weights, {"w": np.ones(3)}, adam.init(weights))


@CASES_OF_ERRORS.refused(
    ShapeError,
    "weights['w'] has shape (3,), gradients['w'] has shape (4, 3) in SGD.step.",
    "  hint: gradients are those of one number, such as a mean over a batch, by the weights; "
    "states come from init or the step before.",
)
def _() -> object:
    return optim.SGD().step({"w": np.ones(3)}, {"w": np.ones((4, 3))})


@CASES_OF_ERRORS.refused(
    DTypeError,
    "weights[1] of Momentum.step is int64: steps would be cut to it.",
    "  hint: begin with floats; keep what is not learned out of the weights.",
)
def _() -> object:
    momentum = optim.Momentum()
    step = ta.function(lambda w, g: momentum.step(w, g, momentum.init(w))[0])
    return step([np.ones(3), np.ones(3, "int64")], [np.ones(3), np.ones(3)])


@CASES_OF_ERRORS.refused(
    DTypeError,
    "weights of SGD.step is bool: steps would be cut to it.",
    "  hint: begin with floats; keep what is not learned out of the weights.",
)
def _() -> object:
    return optim.SGD().step(np.ones(3, bool), np.ones(3))


@CASES_OF_ERRORS.refused(
    DefinitionError,
    "tree 1 and tree 3 of tree_map differ in their structure, first at tree.",
    "  in:          tree 1    tree 3",
    "      tree     number 1  -",
    "      tree[0]  -         number 3",
    "  hint: pass trees with the same containers and keys.",
)
def _() -> object:
    return ta.tree_map(lambda a, b, c: a, 1, 2, [3])


@CASES_OF_ERRORS.refused(
    DefinitionError,
    "decays[1] of Adam is 1.0, which is not from 0 on and below 1.",
    "  hint: pass a Python number such as 0.9; only the rate of Adam may be a tensor.",
)
def _() -> object:
    return optim.Adam(decays=(0.9, 1.0))


@CASES_OF_ERRORS.refused(
    DefinitionError,
    "decay of Momentum is -0.5, which is not from 0 on and below 1.",
    "  hint: pass a Python number such as 0.9; only the rate of Momentum may be a tensor.",
)
def _() -> object:
    return optim.Momentum(0.1, -0.5)


@pytest.mark.parametrize("case", CASES_OF_ERRORS, ids=lambda c: c.text.split(".")[0])
def test_refusals(case: Case) -> None:
    check(case)
