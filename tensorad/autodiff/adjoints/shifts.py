"""Shifts that provably do not matter: intermediates whose total derivative is 0.

The maximum that softmax subtracts changes nothing in its result, whatever the head. All paths
from such a tensor meet again in one operation; if its adjoint, unfolded back to that meeting
point, is 0 as a rational function, no gradient flows through it.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import Final

from tensorad.autodiff.adjoints.adjoint import Adjoint
from tensorad.autodiff.local.views import differentiable_inputs, view
from tensorad.ir.order import REDUCE, occurs
from tensorad.ir.tensor import Compute, Op, Tensor, outputs
from tensorad.simplify.formula.dataflow import Definition
from tensorad.simplify.formula.zero_test import vanishes

_REACH: Final = 8
"""Operations after a tensor among which its paths must meet again."""


class Shifts:
    """Proofs about the tensors of one sweep; `order` lists its operations, producers first."""

    def __init__(self, order: Sequence[Op]) -> None:
        self.order = order
        self.readers: dict[Tensor, list[int]] = {}

    def is_shift(self, t: Tensor, adjoint: Adjoint, known: Mapping[Tensor, Adjoint | None]) -> bool:
        """Whether the adjoint of t is 0 for every head.

        Only a tensor that is read along further axes is asked about: its adjoint is a sum.
        """
        if not isinstance(t.op, Compute) or not occurs(REDUCE, adjoint.formula()[1]):
            return False
        found = self._until_paths_meet(t)
        if found is None:
            return False
        between, met = found
        adjoints = [known.get(u) for u in between]
        unfolded = {
            a.tensor: a.formula()
            for a in adjoints
            if a is not None and a.tensor is not None and isinstance(a.tensor.op, Compute)
        }
        near = [t, *between, *met, *differentiable_inputs(view(t.op))]
        values = {u: _value(u) for u in near if isinstance(u.op, Compute)}
        return vanishes(*adjoint.formula(), unfolded, values)

    def _until_paths_meet(self, t: Tensor) -> tuple[list[Tensor], Sequence[Tensor]] | None:
        """The tensors on the paths from t that part, and those made where they meet again."""
        self._fill_readers()
        ahead = list(self.readers.get(t, ()))
        between: dict[Tensor, None] = {}
        parted = len(ahead) > 1
        for _ in range(_REACH):
            if not ahead:
                return None
            n = heapq.heappop(ahead)
            if not ahead and parted:
                return list(between), outputs(self.order[n])
            for made in outputs(self.order[n]):
                between[made] = None
                for m in self.readers.get(made, ()):
                    if m not in ahead:
                        heapq.heappush(ahead, m)
            parted = parted or len(ahead) > 1
        return None

    def _fill_readers(self) -> None:
        if self.readers:
            return
        for n, op in enumerate(self.order):
            for t in differentiable_inputs(view(op)):
                self.readers.setdefault(t, []).append(n)


def _value(t: Tensor) -> Definition:
    op = view(t.op)
    if not isinstance(op, Compute):
        raise TypeError(f"{t.name} is not a compute")
    return op.axes, op.bodies[t.index]
