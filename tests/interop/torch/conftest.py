"""Whatever a call of an operator of PyTorch lets through is asked one by one besides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

import pytest


@pytest.fixture(autouse=True, scope="session")
def asked_one_by_one() -> Iterator[None]:
    """Tensors that are said to be like others are so, and plain memory, in a plain state."""
    torch: Any = pytest.importorskip("torch", reason="torch is not installed")
    kernels, pytorch = [
        import_module(f"tensorad.interop.torch.{n}") for n in ("kernels", "pytorch")
    ]
    made = kernels.all_like

    def all_like(tensors: Sequence[Any]) -> Callable[..., bool]:
        fits = made(tensors)
        kinds = [(t.dtype, t.shape, t.requires_grad) for t in tensors]

        def fits_indeed(*given: Any) -> bool:
            found: bool = fits(*given)
            if found:
                assert [(t.dtype, t.shape, t.requires_grad) for t in given] == kinds
                assert all(type(t) in pytorch.PLAIN and t.is_contiguous() for t in given)
                assert all(pytorch.key_of(t) in pytorch.MEMORY_KEYS for t in given)
                assert torch._C._functorch.peek_interpreter_stack() is None
                assert torch._C._get_tracing_state() is None
            return found

        return fits_indeed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "all_like", all_like)
        yield
