"""Which of PyTorch's OpInfos have a counterpart, and where results differ by convention."""

from __future__ import annotations

from typing import Final

from tests.interop.torch.opinfo_elements import ELEMENTS, Graph, NotTakenError
from tests.interop.torch.opinfo_layers import LAYERS
from tests.interop.torch.opinfo_moves import MOVES

__all__ = ["DIFFERENCES", "LENIENT", "TABLE", "VALUES_ALONE", "NotTakenError"]

TABLE: Final[dict[str, Graph]] = {**ELEMENTS, **MOVES, **LAYERS}

VALUES_ALONE: Final = frozenset({"cummax", "cummin"})  # folds without the positions of the elements

DIFFERENCES: Final[dict[str, tuple[frozenset[str], str]]] = {
    "nn.functional.hardsigmoid": (
        frozenset({"vjp", "jvp"}),
        "PyTorch's slope is 1/6 rounded to 32 bits",
    ),
}
# What PyTorch refuses and tensorad takes, by a part of PyTorch's message ("" is the whole of one).
LENIENT: Final[dict[str, str]] = {
    "": "numbers are operands",
    "Negation": "bools are integers in arithmetic",
    "only supports a 0-dimensional value": "values broadcast",
    "could not infer output dtype": "means of integers are floats",
    "over an empty dimension": "a fold of nothing is its identity",
    "reduction": "a fold of nothing is its identity",
    "only tensors with up to 64 dims": "any number of axes",
    "to be equal to src.dtype": "data types are promoted",
    "should be the same": "data types are promoted",
    "min_val cannot be greater": "the upper bound wins, as in NumPy",
    "at most half of effective kernel size": "windows may lie in the padding",
    "optional 0 dim batch size": "any extent may be 0",
    "to have positive length": "any extent may be 0",
    "margin must be greater than 0": "a margin may be negative",
}
