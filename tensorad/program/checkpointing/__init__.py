"""Functions and loops that store little for reverse mode, and compute the rest again."""

from tensorad.program.checkpointing.functions import checkpoint, checkpoint_sequential, keep

__all__ = ["checkpoint", "checkpoint_sequential", "keep"]
