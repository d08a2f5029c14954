"""The leaves of a tree that comes again: shapes, and dtypes that numbers take of what they meet."""

from __future__ import annotations

from collections.abc import Sequence

from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.tensor import Tensor
from tensorad.program.calls import shape_of
from tensorad.program.trees import Flat
from tensorad.program.values import alone, dtype_of, parameters, promoted


class LeafTypes:
    """Types of the leaves of a tree.

    Attributes:
        flat: the tree that they are from.
        own: dtypes of its leaves, weak ones of Python numbers.
        dtypes: what tensors in their places have, so far.
    """

    def __init__(self, flat: Flat) -> None:
        self.flat = flat
        self.own = [dtype_of(v) for v in flat.leaves]
        self.dtypes = [alone(d) for d in self.own]
        self.shapes = [shape_of(v) for v in flat.leaves]

    def parameters(self, owner: str) -> list[Tensor]:
        """A placeholder for each leaf."""
        return parameters(self.flat.paths, self.shapes, self.dtypes, owner)

    def is_number(self, n: int) -> bool:
        """Whether a leaf stands for a Python number, and has met nothing else so far."""
        return self.own[n].is_weak and self.dtypes[n] is alone(self.own[n])

    def promote(self, leaves: Sequence[object]) -> bool:
        """Let numbers take the dtypes of what is made of them; whether one did."""
        changed = False
        for n, value in enumerate(leaves):
            joined = promoted([self.own[n], dtype_of(value)])
            if joined is None or not self.own[n].is_weak:
                continue
            dtype = promoted([self.own[n], self.dtypes[n], alone(joined)])
            dtype = alone(joined) if dtype is None else alone(dtype)
            changed |= dtype is not self.dtypes[n]
            self.dtypes[n] = dtype
        return changed

    def same_shape(self, n: int, value: object) -> bool:
        """Whether a value has the shape of a leaf."""
        before, now = self.shapes[n], shape_of(value)
        return len(before) == len(now) and all(map(same_dim, before, now))

    def takes(self, n: int, value: object) -> bool:
        """Whether a value has the dtype of a leaf, or is a number that takes it."""
        return promoted([self.dtypes[n], dtype_of(value)]) is self.dtypes[n]
