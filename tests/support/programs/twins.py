"""What functions and the same functions by hand are compared by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tensorad as ta
from tensorad.ir.tensor import Tensor
from tensorad.program.trees import flatten

Function = Callable[..., Any]


def leaves(tree: Any) -> list[np.ndarray[Any, Any]]:
    """All arrays of a result."""
    return [np.asarray(v) for v in flatten(tree).leaves]


def kernels(f: Function, args: tuple[Any, ...]) -> int:
    """How many kernels a call runs, those of blocks included."""
    return len(ta.function(f).lower(*args).program.kernels)


def gradient(f: Function, args: tuple[Any, ...]) -> Function:
    """The gradient of the sum of all floats of the result, by all arguments that are floats."""

    def summed(*args: Any) -> Tensor:
        tensors = [t for t in flatten(f(*args)).leaves if isinstance(t, Tensor)]
        found = [t.sum() if t.shape else t for t in tensors if t.dtype.is_float]
        made = found[0]
        for t in found[1:]:
            made = made + t
        return made

    floats = tuple([n for n, a in enumerate(args) if np.asarray(a).dtype.kind == "f"])
    return lambda *args: ta.grad(summed, argnums=floats)(*args)
