"""Forward mode by levels: tensors with tangents, nested, on arrays and in programs."""

from tensorad.levels.duals import make_dual, unpack_dual
from tensorad.levels.lenses import DualView, PrimalView, TangentView
from tensorad.levels.stack import Level, dual_level

__all__ = [
    "DualView",
    "Level",
    "PrimalView",
    "TangentView",
    "dual_level",
    "make_dual",
    "unpack_dual",
]
