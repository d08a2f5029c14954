"""Writes through views beside PyTorch's writes in place: values and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorad as ta

View = Callable[[Any], Any]


def random_views(rng: np.random.Generator) -> list[tuple[View, str]]:
    """Views of a (4, 4) array that PyTorch has without a copy, and how each is written."""
    found: list[tuple[View, str]] = []
    for _ in range(int(rng.integers(2, 6))):
        a, b = (int(n) for n in rng.integers(0, 3, 2))
        every: list[View] = [
            lambda v, a=a: v[a],
            lambda v, a=a, b=b: v[a:, b:],
            lambda v, a=a: v[:, a],
            lambda v, a=a: v.T[a:],
            lambda v, a=a: v[1:3][:, ::2][a % 2],
            lambda v, a=a: v.diagonal(a),
            lambda v, a=a, b=b: v.T[b, a:],
            lambda v, b=b: v.reshape(2, 8)[:, b:],
        ]
        method = str(rng.choice(["set", "add", "mul"]))
        found.append((every[int(rng.integers(len(every)))], method))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_writes_in_place(seed: int) -> None:
    torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
    rng = np.random.default_rng(seed)
    views, x = random_views(rng), rng.standard_normal((4, 4))

    def by_references(x: Any) -> Any:
        r = ta.ref(x * 1.0, "r")
        for view, method in views:
            part = view(r.at)
            getattr(part, method)(part.get() * part.get() * 0.5 + 0.1)
        return (r.get() * x).sum()

    def by_torch(x: Any) -> Any:
        r = x * 1.0
        for view, method in views:
            part = view(r)
            new = part.clone() * part.clone() * 0.5 + 0.1
            {"set": part.copy_, "add": part.add_, "mul": part.mul_}[method](new)
        return (r * x).sum()

    given = torch.tensor(x, requires_grad=True)
    wanted = by_torch(given)
    wanted.backward()
    value, slope = ta.value_and_grad(by_references)(x)
    np.testing.assert_allclose(value, wanted.detach().numpy(), rtol=1e-12)
    np.testing.assert_allclose(slope, given.grad.numpy(), rtol=1e-10, atol=1e-12)
