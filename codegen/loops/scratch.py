"""Scratch buffers of a kernel, and where they lie in the block that a thread has for itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tensorad.codegen.loops.ir import Kernel
from tensorad.codegen.model import PAGE
from tensorad.ir.analysis.sizes import bytes_of, elements_formula, size_value
from tensorad.ir.dtypes import DType
from tensorad.ir.expr import Expr, add, floordiv, int_const, mul
from tensorad.ir.tensor import Dim, Placeholder, Tensor

ALIGNMENT: Final = 64
"""Of buffers, in bytes."""
STRIDE_BYTES: Final = PAGE
"""Blocks of threads are multiples of this, so that no two share a page."""


def scratch_offsets(scratch: Iterable[Tensor]) -> tuple[dict[Tensor, Expr], Expr]:
    """Each buffer's offset in bytes, and the bytes of all together."""
    offsets: dict[Tensor, Expr] = {}
    end: Expr = int_const(0)
    line = int_const(ALIGNMENT)
    for t in scratch:
        offsets[t] = end
        size_bytes = elements_formula(t.shape, t.dtype.size_bytes)
        lines = floordiv(add(size_bytes, int_const(ALIGNMENT - 1)), line)
        end = add(end, mul(lines, line))
    return offsets, end


def scratch_bytes(kernel: Kernel, sizes: Mapping[Expr, int]) -> int:
    """The bytes of one thread's block for these sizes.

    Raises:
        LimitError: a buffer is larger than TENSORAD_MAX_BYTES.
        ShapeError: an extent is negative for these sizes.
    """
    for t in kernel.scratch:
        bytes_of(t, sizes)
    used = size_value(scratch_offsets(kernel.scratch)[1], sizes)
    used += PAGE if kernel.unaliased_with is not None else 0
    return -(-used // STRIDE_BYTES) * STRIDE_BYTES


def buffer(name: str, shape: Sequence[Dim], dtype: DType) -> Tensor:
    """A tensor that no operation computes: scratch, or a temporary of one kernel."""
    return Tensor(Placeholder(name, tuple(shape), dtype), 0, tuple(shape), dtype)
