"""Operators inside of other systems. Their modules import these; tensorad itself needs none."""

from tensorad.interop.shapes import output_shapes

__all__ = ["output_shapes"]
