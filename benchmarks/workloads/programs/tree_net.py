"""A recursive network over random binary trees: values and gradients, tree by tree.

R. Socher et al., "Parsing Natural Scenes and Natural Language with Recursive Neural Networks",
2011: the state of a leaf is a row of a table, that of a node tanh(W [left; right] + b); the loss is
the sum of the squares of the root's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

import tensorad as ta
from benchmarks.workloads.problem import Array
from tensorad import topi

WIDTH, WORDS = 64, 200
FEWEST, MOST = 5, 60
"""Leaves of a tree."""
Call = Callable[[], object]
Shape = int | tuple["Shape", "Shape"]
"""A tree: the number of a leaf's word, or two trees."""
Weights = Mapping[str, Array]
Result = tuple[float, dict[str, Array]]
"""The loss and the gradients by name."""


class Contestant(NamedTuple):
    """The same by one framework: results for each tree, and all of it without looking at them."""

    results: Callable[[], list[Result]]
    call: Call


def weights() -> dict[str, Array]:
    """The table of words, and W and b."""
    rng = np.random.default_rng(0)
    found = {
        "bias": rng.standard_normal(WIDTH) / 8,
        "nodes": rng.standard_normal((WIDTH, 2 * WIDTH)) / 8,
        "words": rng.standard_normal((WORDS, WIDTH)),
    }
    return {n: a.astype(np.float32) for n, a in found.items()}


def shapes(count: int) -> list[Shape]:
    """Random trees: leaves are split into two groups of any size, again and again."""
    rng = np.random.default_rng(1)

    def made(leaves: int) -> Shape:
        if leaves == 1:
            return int(rng.integers(WORDS))
        left = int(rng.integers(1, leaves))
        return made(left), made(leaves - left)

    return [made(int(n)) for n in rng.integers(FEWEST, MOST + 1, count)]


# -- ours: one native call for each tree, traced once ----------------------------------------------


@ta.variant
class Tree:
    """Words and pairs."""

    class Leaf:
        """A word."""

        word: "int64"  # type: ignore[name-defined]  # noqa: F821, UP037  # a dtype

    class Node:
        """Two trees."""

        left: Tree
        right: Tree


def tree(shape: Shape) -> Any:
    """A tree as a value of the data type."""
    kinds: Any = Tree
    if isinstance(shape, int):
        return kinds.Leaf(shape)
    return kinds.Node(tree(shape[0]), tree(shape[1]))


@ta.function
def state(at: Any, w: Any) -> Any:
    """The state of the root of a tree."""

    def node(left: Any, right: Any) -> Any:
        both = topi.concatenate([state(left, w), state(right, w)])
        return ta.tanh(w["nodes"] @ both + w["bias"])

    return ta.match(at, {"Leaf": lambda word: w["words"][word], "Node": node})


def loss(w: Any, at: Any) -> Any:
    """The sum of the squares of the root's state."""
    h = state(at, w)
    return (h * h).sum()


def ours(w: Weights, given: Sequence[Shape]) -> Contestant:
    """With trees that are there, as those of the others are."""
    trees = [tree(s) for s in given]
    step = ta.value_and_grad(loss)

    def results() -> list[Result]:
        return [(float(v), dict(g)) for v, g in [step(w, t) for t in trees]]

    return Contestant(results, lambda: [step(w, t) for t in trees])


def ours_made_anew(w: Weights, given: Sequence[Shape]) -> Call:
    """With trees that are made for each call."""
    step = ta.value_and_grad(loss)
    return lambda: [step(w, tree(s)) for s in given]


# -- PyTorch: the same recursion in Python ---------------------------------------------------------


def by_torch(w: Weights, given: Sequence[Shape], threads: int) -> Contestant:
    """Eager, on nested tuples."""
    import torch

    torch.set_num_threads(threads)
    own = {n: torch.from_numpy(a.copy()).requires_grad_() for n, a in w.items()}

    def state_of(at: Shape) -> Any:
        if isinstance(at, int):
            return own["words"][at]
        both = torch.cat([state_of(at[0]), state_of(at[1])])
        return torch.tanh(own["nodes"] @ both + own["bias"])

    def step(at: Shape) -> tuple[Any, Any]:
        h = state_of(at)
        value = (h * h).sum()
        return value, torch.autograd.grad(value, list(own.values()))

    def results() -> list[Result]:
        found = []
        for s in given:
            value, gradients = step(s)
            arrays = [g.numpy() for g in gradients]
            found.append((float(value.detach()), dict(zip(own, arrays, strict=True))))
        return found

    return Contestant(results, lambda: [step(s) for s in given])


# -- JAX: level by level, padded -------------------------------------------------------------------


class Levels(NamedTuple):
    """Trees as arrays, nodes by height.

    Attributes:
        words: of the leaves, which have the first states.
        pairs: for each height, from below, the numbers of the two states of each node; their own
            follow those of the height below.
        roots: the numbers of the roots' states.
    """

    words: Array
    pairs: list[Array]
    roots: Array


class _Numbered(NamedTuple):
    """Nodes of some trees by height; a node is (height, place)."""

    words: list[int]
    pairs: list[list[tuple[tuple[int, int], tuple[int, int]]]]
    roots: list[tuple[int, int]]


def _numbered(given: Sequence[Shape]) -> _Numbered:
    found = _Numbered([], [], [])

    def number(at: Shape) -> tuple[int, int]:
        if isinstance(at, int):
            found.words.append(at)
            return 0, len(found.words) - 1
        left, right = number(at[0]), number(at[1])
        height = max(left[0], right[0]) + 1
        found.pairs.extend([[] for _ in range(len(found.pairs), height)])
        found.pairs[height - 1].append((left, right))
        return height, len(found.pairs[height - 1]) - 1

    found.roots.extend([number(s) for s in given])
    return found


def padded(groups: Sequence[Sequence[Shape]]) -> list[Levels]:
    """Groups of trees as arrays of equal shapes: each height has as many nodes as the most of a
    group have."""
    numbered = [_numbered(g) for g in groups]
    heights = max(len(n.pairs) for n in numbered)
    widths = [max(len(n.words) for n in numbered)]
    for k in range(heights):
        widths.append(max(len(n.pairs[k]) if k < len(n.pairs) else 0 for n in numbered))
    first = np.concatenate([[0], np.cumsum(widths)])
    found = []
    for n in numbered:
        words = np.zeros(widths[0], np.int32)
        words[: len(n.words)] = n.words
        pairs = []
        for k, width in enumerate(widths[1:]):
            level = np.zeros((width, 2), np.int32)
            for m, both in enumerate(n.pairs[k] if k < len(n.pairs) else ()):
                level[m] = [first[h] + place for h, place in both]
            pairs.append(level)
        roots = np.array([first[h] + place for h, place in n.roots], np.int32)
        found.append(Levels(words, pairs, roots))
    return found


def by_jax(w: Weights, groups: Sequence[Sequence[Shape]]) -> Contestant:
    """One call for each group of trees, whose losses are added up; compiled once for all of them,
    and waited for, as a step of training waits for the one before.

    The states are one array, which each height writes a part of: no node is computed twice, and
    what padding computes reaches no loss.
    """
    import jax
    from jax import numpy as jnp

    def state_of_all(w: Any, given: Levels) -> Any:
        count = len(given.words) + sum(len(p) for p in given.pairs)
        h = jnp.zeros((count, WIDTH), np.float32)
        end = len(given.words)
        h = h.at[:end].set(w["words"][given.words])
        for pairs in given.pairs:
            both = h[pairs].reshape(len(pairs), 2 * WIDTH)
            h = h.at[end : end + len(pairs)].set(jnp.tanh(both @ w["nodes"].T + w["bias"]))
            end += len(pairs)
        return h

    def total(w: Any, given: Levels) -> Any:
        h = state_of_all(w, given)[given.roots]
        return (h * h).sum()

    step = jax.jit(jax.value_and_grad(total))
    own = jax.device_put(dict(w))
    every = [jax.device_put(g) for g in padded(groups)]

    def results() -> list[Result]:
        found = [step(own, g) for g in every]
        return [(float(v), {n: np.asarray(a) for n, a in g.items()}) for v, g in found]

    return Contestant(results, lambda: [jax.block_until_ready(step(own, g)) for g in every])


# -- the same results ------------------------------------------------------------------------------

_APART: Final = 1e-4


def check(found: Sequence[Result], wanted: Sequence[Result], who: str) -> None:
    """Results are the same, tree by tree.

    Raises:
        ArithmeticError: they are not.
    """
    for n, ((value, gradients), (other, others)) in enumerate(zip(found, wanted, strict=True)):
        pairs = {"loss": (value, other)} | {m: (gradients[m], others[m]) for m in others}
        for name, (a, b) in pairs.items():
            apart = float(np.abs(np.subtract(a, b)).max())
            scale = max(float(np.abs(b).max()), 1e-30)
            if not apart <= _APART * scale:
                raise ArithmeticError(
                    f"tree_net by {who}: {name} of tree {n} is off by {apart / scale:.1e}."
                )


def added(results: Sequence[Result]) -> Result:
    """The loss and gradients of all trees together."""
    sums = {n: np.sum([g[n] for _, g in results], axis=0) for n in results[0][1]}
    return float(sum([v for v, _ in results])), sums
