"""Derivatives of functions beside differences and beside each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tensorad as ta


def check_gradient(f: Callable[..., Any], *args: Any) -> None:
    """Reverse mode, forward mode and central differences of a scalar function of float64 agree."""
    rng = np.random.default_rng(1)
    arrays = [np.asarray(a, np.float64) for a in args]
    value, found = ta.value_and_grad(f, argnums=tuple(range(len(arrays))))(*arrays)
    run = ta.function(f)
    np.testing.assert_allclose(run(*arrays), value, rtol=1e-12)
    along = [rng.standard_normal(a.shape) for a in arrays]
    slope = sum(float((g * d).sum()) for g, d in zip(found, along, strict=True))
    _, forward = ta.jvp(f, tuple(arrays), tuple(along))
    np.testing.assert_allclose(forward, slope, rtol=1e-10, atol=1e-12)
    h = 1e-6
    ahead, behind = [
        run(*[a + s * h * d for a, d in zip(arrays, along, strict=True)]) for s in (1, -1)
    ]
    scale = max(1.0, abs(float(value)))
    np.testing.assert_allclose((ahead - behind) / (2 * h), slope, rtol=1e-6, atol=1e-6 * scale)
