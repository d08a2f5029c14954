"""Operators inside of PyTorch: autograd, forward mode, `torch.func`, `torch.compile`, export.

PyTorch is imported with this package; it is no dependency of tensorad.
"""

from tensorad.interop.torch.operators import TorchOperator, op

__all__ = ["TorchOperator", "op"]
