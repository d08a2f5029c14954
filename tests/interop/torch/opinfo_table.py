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
LENIENT: Final[dict[str, str]] = {}
