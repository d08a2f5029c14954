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


def check_adjoints(before: str | ta.Module, *args: Any, name: str = "main", **options: Any) -> Any:
    """`<name>_adjoint` gives the value, and adjoints that are central differences, element by
    element, in every float among the arguments; what it returned."""
    m = ta.module(before)
    found = ta.gradient(m, name, **options)[f"{name}_adjoint"](*args)
    returned, adjoints = found
    index = options.get("target_index")

    def f(*some: Any) -> Any:
        return m[name](*some) if index is None else m[name](*some)[index]

    value = returned if index is None else returned[index]
    np.testing.assert_allclose(f(*args), value, rtol=1e-12)
    leaves, slopes = _leaves(args), _leaves(adjoints)
    floats = [n for n, a in enumerate(leaves) if np.asarray(a).dtype.kind == "f"]
    assert len(floats) == len(slopes), "an adjoint for each float"
    h = 1e-6
    for n, slope in zip(floats, slopes, strict=True):
        a = np.asarray(leaves[n], np.float64)
        wanted = np.zeros(a.shape)
        assert slope.shape == a.shape
        for at in np.ndindex(a.shape):
            step = np.zeros(a.shape)
            step[at] = h
            moved = [_replaced(args, n, a + s * step) for s in (1, -1)]
            ahead, behind = [float(f(*some)) for some in moved]
            wanted[at] = (ahead - behind) / (2 * h)
        scale = max(1.0, abs(float(value)))
        np.testing.assert_allclose(slope, wanted, rtol=1e-6, atol=1e-7 * scale)
    return found


def _leaves(tree: Any) -> list[Any]:
    if tree is None:
        return []
    if isinstance(tree, (tuple, list)):
        return [leaf for part in tree for leaf in _leaves(part)]
    return [tree]


def _replaced(tree: Any, n: int, value: Any) -> Any:
    """The tree with another n-th leaf."""
    leaves = iter([value if k == n else v for k, v in enumerate(_leaves(tree))])

    def built(part: Any) -> Any:
        return tuple([built(p) for p in part]) if isinstance(part, tuple) else next(leaves)

    return built(tree)
