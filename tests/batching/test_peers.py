"""`vmap` beside JAX's and PyTorch's, where they are there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta

pytestmark = pytest.mark.slow  # importing them takes longer than all else here
RNG = np.random.default_rng(5)
WEIGHTS = {
    "hidden": RNG.standard_normal((6, 8)) / 2,
    "bias": RNG.standard_normal(8),
    "last": RNG.standard_normal((8, 3)),
}
X = RNG.standard_normal((5, 6))
Y = np.array([0, 2, 1, 1, 0])


def loss(w: Any, x: Any, y: Any) -> Any:
    z = ta.tanh(x @ w["hidden"] + w["bias"]) @ w["last"]
    k = ta.reduce_axis(3)
    return ta.compute((), lambda: ta.logsumexp(z[k], axis=k)) - z[y]


def mine() -> Any:
    return ta.vmap(ta.grad(loss), (None, 0, 0))(WEIGHTS, X, Y)


def test_gradients_of_examples_are_those_of_jax() -> None:
    jax = pytest.importorskip("jax", reason="compares with JAX, which is not installed")

    def theirs(w: Any, x: Any, y: Any) -> Any:
        z = jax.numpy.tanh(x @ w["hidden"] + w["bias"]) @ w["last"]
        return jax.nn.logsumexp(z) - z[y]

    found = jax.vmap(jax.grad(theirs), (None, 0, 0))(WEIGHTS, X, Y)
    for name, slope in mine().items():
        np.testing.assert_allclose(slope, found[name], rtol=1e-4, atol=1e-5)


def test_gradients_of_examples_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")

    def theirs(w: Any, x: Any, y: Any) -> Any:
        z = torch.tanh(x @ w["hidden"] + w["bias"]) @ w["last"]
        return torch.nn.functional.cross_entropy(z[None], y[None])

    given = {name: torch.from_numpy(a) for name, a in WEIGHTS.items()}
    x, y = torch.from_numpy(X), torch.from_numpy(Y)
    found = torch.func.vmap(torch.func.grad(theirs), (None, 0, 0))(given, x, y)
    for name, slope in mine().items():
        np.testing.assert_allclose(slope, found[name].numpy(), rtol=1e-10, atol=1e-12)


def test_a_loop_of_each_example_has_a_reverse_that_jax_refuses() -> None:
    jax = pytest.importorskip("jax", reason="compares with JAX, which is not installed")
    a = np.array([2.0, 9.0, 1e4])

    def root(a: Any) -> Any:
        return ta.while_loop(lambda x: abs(x * x - a) > 1e-6 * a, lambda x: (x + a / x) / 2, a)

    def theirs(a: Any) -> Any:
        return jax.lax.while_loop(lambda x: abs(x * x - a) > 1e-6 * a, lambda x: (x + a / x) / 2, a)

    np.testing.assert_allclose(ta.vmap(root)(a), jax.vmap(theirs)(a), rtol=1e-5)
    np.testing.assert_allclose(ta.vmap(ta.grad(root))(a), 0.5 / np.sqrt(a), rtol=1e-5)
    with pytest.raises(ValueError, match="Reverse-mode differentiation does not work"):
        jax.vmap(jax.grad(theirs))(a)
