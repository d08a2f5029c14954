"""Elements of tensors that are looked at: by NumPy, `float`, `bool`, `print`."""

from __future__ import annotations

from typing import Final
from weakref import WeakKeyDictionary

import numpy as np

from tensorad.building import evaluate
from tensorad.errors import GradError
from tensorad.ir import array_methods
from tensorad.ir.analysis.blocks import op_sizes
from tensorad.ir.arrays.tracing import in_formula
from tensorad.ir.expr import LocalSize, Size
from tensorad.ir.tensor import Constant, Placeholder, Tensor
from tensorad.ir.visit import topological_ops
from tensorad.levels.duals import tangents_at
from tensorad.levels.stack import levels
from tensorad.process import memo

_known: Final[WeakKeyDictionary[Tensor, np.ndarray]] = memo(WeakKeyDictionary())


def elements(t: Tensor) -> np.ndarray | None:
    """The elements of a tensor that follows from arrays alone; None of any other."""
    if isinstance(t.op, Constant):
        return t.op.array
    if t not in _known and _follows(t):
        others = [o for o in array_methods.looked_at.get(t, ()) if o is not t and o not in _known]
        every = [t, *[o for o in others if _follows(o)]]
        with in_formula():
            found = evaluate(every, {})
        for tensor, array in zip(every, found if len(every) > 1 else [found], strict=True):
            array.flags.writeable = False
            _known[tensor] = array
    return _known.get(t)


def checked_elements(t: Tensor, purpose: str) -> np.ndarray | None:
    """The same for what knows nothing of tangents.

    Args:
        purpose: what is done with them, for errors.
    Raises:
        GradError: the tensor has a tangent at an open level.
    """
    for level in levels() if _follows(t) else ():
        if tangents_at(level, [t]):
            raise GradError(
                f"{purpose} would lose the tangent that {t.name} has at level {level.number}.",
                where=t.described,
                hint="compute with tensorad's functions, or look at ta.unpack_dual(...)[0].",
            )
    return elements(t)


def _follows(t: Tensor) -> bool:
    """Whether everything behind a tensor is known."""
    ops = topological_ops([t])
    return not any(isinstance(op, Placeholder) or any(map(_is_open, op_sizes(op))) for op in ops)


def _is_open(size: Size) -> bool:
    """Whether neither a loop tells the number, nor is known to end."""
    return not isinstance(size, LocalSize) or size.extent is not None


array_methods.elements.fill(elements)
array_methods.checked_elements.fill(checked_elements)
