"""Which operations call definitions, somewhere inside."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from tensorad.ir.analysis.blocks import inner_ops
from tensorad.ir.records import Recursion
from tensorad.ir.tensor import Control
from tensorad.process import memo

_known: WeakKeyDictionary[Control, bool] = memo(WeakKeyDictionary())


def has_recursion(op: Control) -> bool:
    """Whether the blocks of an operation call a definition."""
    if op not in _known:
        _known[op] = any(isinstance(o, Recursion) for o in inner_ops([op]))
    return _known[op]
