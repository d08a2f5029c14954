"""A workload: one operator with its inputs, in every formulation that takes part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorad import te
from tensorad.ir.tensor import Shape, Tensor
from tensorad.optim import SGD, Adam

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = Mapping[str, Array]
Sizes = Mapping[str, int]
Formula = Callable[..., Any]
"""A framework's formula: formula(module, **inputs) -> Y."""
Update = SGD | Adam
"""What a training step does with gradients: what the peers have, too."""


@dataclass(frozen=True)
class Passes:
    """Hand-written calls: results are lists of arrays.

    Attributes:
        forward: [Y].
        gradients: those of `wrt`, from the inputs and the head.
        both: [Y, *gradients] where that is less work than one after the other.
    """

    forward: Callable[[], list[Array]]
    gradients: Callable[[], list[Array]]
    both: Callable[[], list[Array]] | None = None


HandWritten = Callable[[Arrays, Array], Passes]
"""hand_written(inputs, head); NumPy's follow the dtype of the inputs and are the reference too."""


@dataclass(frozen=True)
class Problem:
    """One workload at one shape.

    Attributes:
        inputs: by name; integers are not differentiated.
        wrt: the names to differentiate by.
        head: the adjoint of Y; 0-d for a loss.
        define: define(**placeholders) -> Y in tensorad.
        numpy: as a careful user writes it; at float64 it is the reference.
        formulas: a formula by peer ("torch", "torch_alt", "jax", "jax_alt").
        numba: loops by hand, results into arrays allocated once.
        flops: useful operations of the forward pass and of the gradients.
        linear: Y is linear in each input, so its gradients need no forward pass.
        step: what a training step does, where one is timed, too.
        tolerance: the error allowed, relative to the largest element.
        kinks: the share of elements that may be off, where a choice may flip by rounding.
        constants: further arguments of PyTorch's formulas: arrays that its compiler must not
            find in a closure.
    """

    inputs: dict[str, Array]
    wrt: tuple[str, ...]
    head: Array
    define: Callable[..., Tensor]
    numpy: HandWritten
    formulas: Mapping[str, Formula]
    flops: tuple[float, float]
    numba: HandWritten | None = None
    linear: bool = False
    step: Update | None = None
    tolerance: float = 2e-4
    kinks: float = 0.0
    constants: Arrays = field(default_factory=dict)

    @property
    def scalar(self) -> bool:
        """Whether Y is a loss."""
        return self.head.ndim == 0


class Draw:
    """Random inputs in a fixed order, so that every process sees the same numbers."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)

    def normal(self, *shape: int, scale: float = 1.0) -> Array:
        """float32 normal numbers."""
        found = self.rng.standard_normal(shape, dtype=np.float32)
        return found * np.float32(scale)

    def uniform(self, low: float, high: float, *shape: int) -> Array:
        """float32 uniform numbers."""
        return self.rng.uniform(low, high, shape).astype(np.float32)

    def integers(self, high: int, *shape: int) -> Array:
        """int64 below `high`."""
        return self.rng.integers(0, high, shape).astype(np.int64)


def tensor(shape: Shape, formula: Callable[..., Any], name: str) -> Tensor:
    """`te.compute` of one formula."""
    made: Tensor = te.compute(shape, formula, name=name)
    return made


Drawn = Callable[[np.random.Generator], Sizes]


@dataclass(frozen=True)
class Workload:
    """A family of problems.

    Attributes:
        sizes: those of the headline figures.
        make: sizes -> the problem.
        draw: another set of sizes of the same kind.
        group: "notebook", "layers", "unusual" or "gathered".
    """

    name: str
    group: str
    sizes: Sizes
    make: Callable[..., Problem]
    draw: Drawn
    note: str = field(default="")

    def problem(self, sizes: Sizes | None = None) -> Problem:
        """The problem at these sizes."""
        return self.make(**(self.sizes if sizes is None else sizes))

    def drawn(self, seed: int, count: int) -> list[Sizes]:
        """`count` sets of sizes, a function of the seed and the workload's name alone."""
        rng = np.random.default_rng([seed, *self.name.encode()])
        return [self.draw(rng) for _ in range(count)]


def pick(rng: np.random.Generator, low: int, high: int, step: int = 1) -> int:
    """A size from `low` to `high`, about evenly on a logarithmic scale, a multiple of `step`."""
    value = np.exp(rng.uniform(np.log(low), np.log(high)))
    return max(step, round(float(value) / step) * step)
