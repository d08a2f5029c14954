"""Which of PyTorch's OpInfos have a counterpart, and where results differ by convention."""

from __future__ import annotations

from typing import Final

from tests.interop.torch.opinfo_elements import ELEMENTS, Graph, NotTakenError
from tests.interop.torch.opinfo_layers import LAYERS
from tests.interop.torch.opinfo_moves import MOVES
from tests.interop.torch.opinfo_pieces import PIECES

__all__ = ["DIFFERENCES", "LENIENT", "TABLE", "VALUES_ALONE", "NotTakenError"]

TABLE: Final[dict[str, Graph]] = {**ELEMENTS, **PIECES, **MOVES, **LAYERS}

VALUES_ALONE: Final = frozenset({"cummax", "cummin"})  # folds without the positions of the elements

DIFFERENCES: Final[dict[str, tuple[frozenset[str], str]]] = {
    "nn.functional.hardsigmoid": (
        frozenset({"vjp", "jvp"}),
        "PyTorch's slope is 1/6 rounded to 32 bits",
    ),
    "logcumsumexp": (
        frozenset({"jvp", "second"}),
        "PyTorch's tangents are 3e-6 from those in 50 digits, tensorad's 4e-14; zeros are 3e-12",
    ),
}
# What PyTorch refuses and tensorad takes, by a part of PyTorch's message ("" is the whole of one):
# an OpInfo that has it, and the reason.
LENIENT: Final[dict[str, tuple[str, str]]] = {
    "": ("eq", "numbers are operands"),
    "only supports a 0-dimensional value": ("masked_fill", "values broadcast"),
    "could not infer output dtype": ("mean", "means of integers are floats"),
    "over an empty dimension": ("aminmax", "a fold of nothing is its identity"),
    "reduction": ("amax", "a fold of nothing is its identity"),
    "only tensors with up to 64 dims": ("amin", "any number of axes"),
    "to be equal to src.dtype": ("scatter", "data types are promoted"),
    "should be the same": ("nn.functional.conv1d", "data types are promoted"),
    "min_val cannot be greater": ("nn.functional.hardtanh", "the upper bound wins, as in NumPy"),
    "optional 0 dim batch size": ("nn.functional.max_pool1d", "any extent may be 0"),
    "to have positive length": ("nn.functional.max_pool3d", "any extent may be 0"),
    "margin must be greater than 0": (
        "nn.functional.triplet_margin_loss",
        "a margin may be negative",
    ),
}
