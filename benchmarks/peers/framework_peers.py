"""The layers in PyTorch and JAX, where they are installed."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from typing import Any

from benchmarks.peers.numpy_peer import Array, Arrays, Pass

Peer = Callable[[str, Arrays, tuple[str, ...]], tuple[Pass, Pass]]


def installed(threads: int) -> dict[str, Peer]:
    """The frameworks found here by name, set to the given number of threads."""
    found: dict[str, Peer] = {}
    if importlib.util.find_spec("torch") is not None:
        import torch

        torch.set_num_threads(threads)
        found["torch"] = _torch_passes
    if importlib.util.find_spec("jax") is not None:
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        found["jax"] = _jax_passes
    return found


def _torch_passes(name: str, a: Arrays, wrt: tuple[str, ...]) -> tuple[Pass, Pass]:
    import torch

    layer = _torch_layer(name)
    leaves = {n: torch.from_numpy(v) for n, v in a.items() if n != "H"}
    head = torch.from_numpy(a["H"])
    for n in wrt:
        leaves[n].requires_grad_(True)

    def forward() -> list[Array]:
        with torch.no_grad():
            return [layer(**leaves).numpy()]

    def backward() -> list[Array]:
        y = layer(**leaves)
        return [g.numpy() for g in torch.autograd.grad(y, [leaves[n] for n in wrt], head)]

    return forward, backward


def _torch_layer(name: str) -> Callable[..., Any]:
    import torch
    from torch.nn import functional as F

    def softmax_by_hand(X: Any, W: Any) -> Any:
        e = torch.exp(F.linear(X, W))
        return e / e.sum(-1, keepdim=True)

    layers: dict[str, Callable[..., Any]] = {
        "conv2d": lambda X, W: F.conv2d(X, W),
        "average pool": lambda X: F.avg_pool2d(X, 2, 2),
        "max pool": lambda X: F.max_pool2d(X, 2, 2),
        "softmax by hand": softmax_by_hand,
        "topi softmax": lambda X: F.softmax(X, -1),
        "flatten": lambda X: X.flatten(1).clone(),
    }
    return layers.get(name, lambda X, W, B: F.linear(X, W, B))


def _jax_passes(name: str, a: Arrays, wrt: tuple[str, ...]) -> tuple[Pass, Pass]:
    import jax

    layer = _jax_layer(name)
    leaves = {n: jax.device_put(v) for n, v in a.items() if n != "H"}
    head = jax.device_put(a["H"])

    def gradients(given: dict[str, Any], h: Any) -> Any:
        fixed = {n: v for n, v in given.items() if n not in wrt}
        _, pull = jax.vjp(lambda d: layer(**fixed, **d), {n: given[n] for n in wrt})
        return pull(h)[0]

    run = jax.jit(lambda given: layer(**given))
    run_gradients = jax.jit(gradients)

    def forward() -> list[Array]:
        return [run(leaves).block_until_ready()]

    def backward() -> list[Array]:
        found = jax.block_until_ready(run_gradients(leaves, head))
        return [found[n] for n in wrt]

    return forward, backward


def _jax_layer(name: str) -> Callable[..., Any]:
    import jax
    from jax import lax
    from jax import numpy as jnp

    def conv2d(X: Any, W: Any) -> Any:
        return lax.conv_general_dilated(X, W, (1, 1), "VALID")

    def average_pool(X: Any) -> Any:
        return lax.reduce_window(X, 0.0, lax.add, (1, 1, 2, 2), (1, 1, 2, 2), "VALID") * 0.25

    def max_pool(X: Any) -> Any:
        lowest = -float("inf")
        return lax.reduce_window(X, lowest, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    def softmax_by_hand(X: Any, W: Any) -> Any:
        e = jnp.exp(X @ W.T)
        return e / e.sum(-1, keepdims=True)

    layers: dict[str, Callable[..., Any]] = {
        "conv2d": conv2d,
        "average pool": average_pool,
        "max pool": max_pool,
        "softmax by hand": softmax_by_hand,
        "topi softmax": lambda X: jax.nn.softmax(X, -1),
        "flatten": lambda X: X.reshape(X.shape[0], -1),
    }
    return layers.get(name, lambda X, W, B: X @ W.T + B)
