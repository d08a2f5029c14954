"""Whether two programs are the same, by what their pickles say."""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from typing import Any

from tensorad.ir.tensor import Tensor


class _Writer(pickle.Pickler):
    """Pickles in which equal texts are equal, also if they are several objects."""

    def __init__(self, to: io.BytesIO) -> None:
        super().__init__(to)
        self.texts: dict[str, int] = {}

    def persistent_id(self, thing: Any) -> int | None:
        if type(thing) is str:
            return self.texts.setdefault(thing, len(self.texts))
        return None


def same_program(a: Sequence[Tensor], b: Sequence[Tensor]) -> bool:
    """Whether tensors are computed in the same way, with the same names.

    What cannot be pickled, such as functions of Python inside, is the same as nothing else.
    """
    try:
        return a == b or _written(a) == _written(b)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False


def _written(tensors: Sequence[Tensor]) -> tuple[bytes, dict[str, int]]:
    to = io.BytesIO()
    writer = _Writer(to)
    writer.dump(list(tensors))
    return to.getvalue(), writer.texts
