"""Forward mode by levels: tensors with tangents, nested, on arrays and in programs."""

from tensorad.levels.duals import make_dual, unpack_dual
from tensorad.levels.stack import Level, dual_level

__all__ = ["Level", "dual_level", "make_dual", "unpack_dual"]
