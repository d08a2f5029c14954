"""Programs with references beside the same ones without: values, bits, both modes, second order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tensorad as ta

Anything = Callable[..., Any]


def check_same(with_refs: Anything, without: Anything, *args: Any, second: bool = False) -> Any:
    """Two scalar functions of float64 arrays: equal values, interpreted too, and gradients; reverse
    mode, forward mode and differences agree.

    Args:
        second: whether Hessians by the first argument are compared, too.
    Returns:
        the value.
    """
    arrays = tuple([np.asarray(a, np.float64) for a in args])
    one, other = ta.function(with_refs), ta.function(without)
    value = one(*arrays)
    np.testing.assert_array_equal(value, other(*arrays))
    np.testing.assert_allclose(ta.interpret(one, *arrays), value, rtol=1e-12, atol=1e-14)
    every = tuple(range(len(arrays)))
    found = ta.grad(with_refs, every)(*arrays)
    for a, b in zip(found, ta.grad(without, every)(*arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
    rng = np.random.default_rng(5)
    along = tuple([rng.standard_normal(a.shape) for a in arrays])
    slope = sum(float((g * d).sum()) for g, d in zip(found, along, strict=True))
    _, forward = ta.jvp(with_refs, arrays, along)
    np.testing.assert_allclose(forward, slope, rtol=1e-10, atol=1e-12)
    ahead, behind = [
        one(*[a + s * 1e-6 * d for a, d in zip(arrays, along, strict=True)]) for s in (1, -1)
    ]
    scale = max(1.0, abs(float(value)))
    np.testing.assert_allclose((ahead - behind) / 2e-6, slope, rtol=1e-5, atol=1e-6 * scale)
    if second:
        curved = [ta.hessian(f)(*arrays) for f in (with_refs, without)]
        np.testing.assert_allclose(*curved, rtol=1e-10, atol=1e-12)
    return value
