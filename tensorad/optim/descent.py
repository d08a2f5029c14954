"""Gradient descent, plain and with momentum."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tensorad.optim.leaves import STATIC, check_alike, check_decay, like, zeros_like
from tensorad.program.mapping import tree_map


@dataclass(frozen=True)
class SGD:
    """Gradient descent: w - rate g.

    Attributes:
        rate: a number, or a 0-d tensor.
    """

    rate: Any = 1e-2

    def init(self, weights: object) -> tuple[()]:
        """What steps know of those before: nothing."""
        return ()

    def step(self, weights: Any, gradients: Any, state: Any = ()) -> tuple[Any, Any]:
        """The weights after a step, in their dtypes, and the state after it.

        Raises:
            DefinitionError, ShapeError: the trees are not alike, or two leaves have not one shape.
            DTypeError: a weight is no float.
        """
        check_alike("SGD.step", {"weights": weights, "gradients": gradients})
        return tree_map(lambda w, g: like(w, w - self.rate * g), weights, gradients), state


@dataclass(frozen=True)
class Momentum:
    """Descent along a decaying sum of gradients: v = decay v + g; w - rate v.

    Source: Polyak, "Some methods of speeding up the convergence of iteration methods" (1964).

    Attributes:
        rate: a number, or a 0-d tensor.
        decay: from 0 on, below 1.
        nesterov: w - rate (g + decay v) instead; Sutskever et al., "On the importance of
            initialization and momentum in deep learning" (2013).
    """

    rate: Any = 1e-2
    decay: float = field(default=0.9, metadata=STATIC)
    nesterov: bool = field(default=False, metadata=STATIC)

    def __post_init__(self) -> None:
        check_decay("Momentum", "decay", self.decay)

    def init(self, weights: object) -> Any:
        """v: zeros like the weights."""
        return tree_map(zeros_like, weights)

    def step(self, weights: Any, gradients: Any, state: Any) -> tuple[Any, Any]:
        """The weights after a step, in their dtypes, and v.

        Raises:
            DefinitionError, ShapeError: the trees are not alike, or two leaves have not one shape.
            DTypeError: a weight is no float.
        """
        trees = {"weights": weights, "gradients": gradients, "state": state}
        check_alike("Momentum.step", trees)
        v = tree_map(lambda w, g, v: like(w, self.decay * v + g), *trees.values())
        way = tree_map(lambda g, v: g + self.decay * v, gradients, v) if self.nesterov else v
        return tree_map(lambda w, d: like(w, w - self.rate * d), weights, way), v
