"""Programs with one axis more: for many examples at once."""

from tensorad.batching.tensors import batched

__all__ = ["batched"]
