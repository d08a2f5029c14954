"""What evaluates a gradient check: the interpreter, or compiled code where it has much to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from tensorad.building import build
from tensorad.checking.report import Array
from tensorad.compiled import CompiledFunction
from tensorad.counting import work
from tensorad.errors import UserError
from tensorad.ir.reference.formulas import Formulas
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.reference.precision import in_float64
from tensorad.ir.tensor import Tensor

Bindings = Mapping[Tensor, Array]
_MUCH: Final = 5_000
"""Outputs that take more iterations are compiled."""


class Engine:
    """Values of tensors in float64.

    Args:
        sizes: values of symbolic sizes.
        compiled: build the program in float64 instead of interpreting it.
    """

    def __init__(self, sizes: Mapping[str, int], compiled: bool) -> None:
        self.sizes = dict(sizes)
        self.compiled = compiled
        self.formulas = Formulas()
        self.built: dict[tuple[tuple[Tensor, ...], tuple[Tensor, ...]], CompiledFunction] = {}

    def values(self, tensors: Sequence[Tensor], bindings: Bindings) -> list[Array]:
        """The elements of the tensors."""
        if not self.compiled:
            return interpret(list(tensors), bindings, self.sizes, self.formulas)
        key = (tuple(tensors), tuple(bindings))
        if key not in self.built:
            image = in_float64(tensors, tuple(bindings))
            outputs = [image[t] for t in tensors]
            self.built[key] = build(outputs, [image[t] for t in bindings])
        f = self.built[key]
        pairs = zip(bindings.values(), f.inputs, strict=True)
        arrays = [np.asarray(a, dtype=str(t.dtype)) for a, t in pairs]
        found = f(*arrays, **{n: self.sizes[n] for n in f.sizes if n in self.sizes})
        results = [found] if len(tensors) == 1 else found
        return [np.asarray(a) for a in results]


def has_much_to_do(ys: Sequence[Tensor], sizes: Mapping[str, int]) -> bool:
    """Whether one evaluation of the outputs takes the interpreter long."""
    try:
        iterations = work(list(ys), sizes).iterations
    except UserError:  # a run tells how often loops run
        return False
    return isinstance(iterations, int) and iterations > _MUCH
