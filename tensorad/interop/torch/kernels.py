"""The compiled function on tensors of PyTorch, without derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any, Final

from tensorad.interop.operators import Operator
from tensorad.interop.spread import spread
from tensorad.interop.torch.arguments import check_kinds, check_tensors, fitted
from tensorad.interop.torch.pytorch import (
    MEMORY_KEYS,
    TORCH_DTYPES,
    all_like,
    key_of,
    torch,
    unlike,
)
from tensorad.ir.tensor import Tensor, dim_expr

KEPT_SHAPES: Final = 64
"""Shapes of a kernel whose function of C is found at once; all are forgotten when more come."""

Shapes = tuple[Sequence[int], ...]
Bound = tuple[Any, ...]
"""A function of C for shapes: what calls it, its address, what a code means; then of each output
its shape, on one element."""
Seen = tuple[Any, ...]
"""What tells tensors like those of a call; which of them require gradients, () if none does; then
their function of C, as it is bound."""


class Kernel:
    """What runs.

    Attributes:
        known: the functions of C by the shapes of the tensors.
        nothing: what has been seen before there was a call.
        seen: what calls need, by shapes, `requires_grad` and types of the tensors, and the state.
        alike: of each output an input that has its dtype and shape, or -1.
        dtypes: of the inputs, as PyTorch calls them.
    """

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._made = [TORCH_DTYPES[t.dtype] for t in operator.outputs]
        self.dtypes = tuple([TORCH_DTYPES[t.dtype] for t in operator.inputs])
        self.known: dict[Shapes, Bound] = {}
        self.alike = tuple([_first_like(t, operator.inputs) for t in operator.outputs])
        self.nothing: Seen = (unlike, (), *[None] * (3 + len(operator.outputs)))
        self.seen: dict[tuple[Any, ...], Seen] = {}

    def fitted(self, tensors: Sequence[Any]) -> Sequence[Any]:
        """The tensors as native code reads them: contiguous; copied if they are not.

        Raises:
            BindError, DTypeError: one does not fit.
        """
        check_tensors(self._operator, tensors)
        for t, dtype in zip(tensors, self.dtypes, strict=True):
            if t.dtype is not dtype or key_of(t) not in MEMORY_KEYS or not t.is_contiguous():
                check_kinds(self._operator, tensors)
                return [fitted(self._operator, n, t) for n, t in enumerate(tensors)]
        return tensors

    def see(self, key: tuple[Any, ...], tensors: Sequence[Any]) -> Seen:
        """What a call of tensors like these needs: contiguous ones, of the dtypes and in memory.

        Args:
            key: what it is found by: of the tensors and the state at least what it rests on.
        Raises:
            ShapeError: the shapes are none of the operator's.
        """
        shapes = tuple([t.shape for t in tensors])
        needs = tuple([t.requires_grad for t in tensors])
        bound = self.known.get(shapes) or self.bind(shapes)
        if len(self.seen) >= KEPT_SHAPES:
            self.seen.clear()
        made = (all_like(tensors), needs if any(needs) else (), *bound)
        self.seen[key] = made
        return made

    def bind(self, shapes: Shapes) -> Bound:
        """The function of C for these shapes.

        Raises:
            ShapeError: they are none of the operator's.
        """
        entry = self._operator.entry([tuple(s) for s in shapes])
        templates = [
            torch.empty((), dtype=d, device="cpu").expand(s)
            for s, d in zip(entry.output_shapes, self._made, strict=True)
        ]
        bound = (spread(entry), entry.address, entry.error, *templates)
        if len(self.known) >= KEPT_SHAPES:
            self.known.clear()
        self.known[shapes] = bound
        return bound


def _first_like(t: Tensor, tensors: Sequence[Tensor]) -> int:
    """The first tensor with this dtype and shape, by position; -1 if there is none."""
    kind = (t.dtype, *[dim_expr(n) for n in t.shape])
    for n, other in enumerate(tensors):
        own = (other.dtype, *[dim_expr(m) for m in other.shape])
        if len(own) == len(kind) and all(map(is_, own, kind)):
            return n
    return -1
