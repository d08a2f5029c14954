"""Adam: steps scaled by means of squared gradients."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tensorad.optim.leaves import STATIC, check_alike, check_decay, like, zeros_like
from tensorad.program.mapping import tree_map


class AdamState(NamedTuple):
    """What Adam knows of the steps before."""

    count: Any
    """How many they were, int64."""
    first: Any
    """Decaying means of gradients, a tree like the weights."""
    second: Any
    """Decaying means of their squares."""


@dataclass(frozen=True)
class Adam:
    """Steps of about one size, along means of gradients over the root of means of their squares.

    Source: Kingma and Ba, "Adam: a method for stochastic optimization" (2015), algorithm 1.

    Attributes:
        rate: a number, or a 0-d tensor.
        decays: of the two means, from 0 on, below 1.
        least: added to the root.
    """

    rate: Any = 1e-3
    decays: tuple[float, float] = field(default=(0.9, 0.999), metadata=STATIC)
    least: float = field(default=1e-8, metadata=STATIC)

    def __post_init__(self) -> None:
        for n, decay in enumerate(self.decays):
            check_decay("Adam", f"decays[{n}]", decay)

    def init(self, weights: object) -> AdamState:
        """No steps, and means that are 0."""
        return AdamState(np.int64(0), tree_map(zeros_like, weights), tree_map(zeros_like, weights))

    def step(self, weights: Any, gradients: Any, state: Any) -> tuple[Any, AdamState]:
        """The weights after a step, in their dtypes, and the state after it.

        Raises:
            DefinitionError, ShapeError: the trees are not alike, or two leaves have not one shape.
            DTypeError: a weight is no float.
        """
        check_alike(
            "Adam.step",
            {
                "weights": weights, "gradients": gradients,
                "state.first": state.first, "state.second": state.second,
            },
        )  # fmt: skip
        one, two = self.decays
        count = state.count + 1
        steps = count.astype("float64")  # 1 - two**n keeps few digits of a float32
        scale = 1.0 / np.sqrt(1.0 - two**steps)
        rate = self.rate / (1.0 - one**steps)

        def mean(w: Any, g: Any, m: Any) -> Any:
            return like(w, one * m + (1.0 - one) * g)

        def mean_square(w: Any, g: Any, v: Any) -> Any:
            return like(w, two * v + (1.0 - two) * (g * g))

        def moved(w: Any, m: Any, v: Any) -> Any:
            root = np.sqrt(v) * like(v, scale) + self.least
            return like(w, w - like(w, rate) * (m / root))

        first = tree_map(mean, weights, gradients, state.first)
        second = tree_map(mean_square, weights, gradients, state.second)
        return tree_map(moved, weights, first, second), AdamState(count, first, second)
