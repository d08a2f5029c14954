"""Which of PyTorch's OpInfos have a counterpart, and where results differ by convention."""

from __future__ import annotations

from typing import Final

from tests.interop.torch.opinfo_elements import ELEMENTS, Graph, NotTakenError
from tests.interop.torch.opinfo_layers import LAYERS
from tests.interop.torch.opinfo_moves import MOVES

__all__ = ["DIFFERENCES", "LENIENT", "TABLE", "NotTakenError"]

TABLE: Final[dict[str, Graph]] = {**ELEMENTS, **MOVES, **LAYERS}

DIFFERENCES: Final[dict[str, tuple[frozenset[str], str]]] = {}
LENIENT: Final[dict[str, str]] = {}
