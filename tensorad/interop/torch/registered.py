"""`torch.ops.tensorad.<name>`: the kernel, shapes of traces, derivatives, autocast."""

from __future__ import annotations

from typing import Any, Final

from tensorad.interop.torch.arguments import check_traced
from tensorad.interop.torch.functions import Own
from tensorad.interop.torch.pytorch import NAMESPACE, TORCH_DTYPES, fw, torch

_library: Final[Any] = torch.library.Library(NAMESPACE, "FRAGMENT")
_AUTOCAST: Final[Any] = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)


def is_free(name: str) -> bool:
    """Whether an operator of PyTorch can get this name."""
    own = getattr(torch.ops, NAMESPACE)
    return name.isascii() and not name.startswith("__") and not hasattr(own, name)


def register(own: Own, name: str) -> Any:
    """The overload of an operator that PyTorch knows from now on by this name."""
    operator, qualified = own.operator, f"{NAMESPACE}::{name}"
    arguments = ", ".join([f"Tensor x{n}" for n in range(len(operator.inputs))])
    kinds = ["Tensor"] * len(operator.outputs)
    results = kinds[0] if len(kinds) == 1 else f"({', '.join(kinds)})"
    _library.define(f"{name}({arguments}) -> {results}")

    def fake(*tensors: Any) -> Any:
        check_traced(operator, tensors)
        shapes = operator.output_shapes([tuple(t.shape) for t in tensors])
        device = tensors[0].device if tensors else "cpu"
        made = [
            torch.empty(s, dtype=TORCH_DTYPES[t.dtype], device=device)
            for s, t in zip(shapes, operator.outputs, strict=True)
        ]
        return made[0] if len(made) == 1 else tuple(made)

    def differentiable(*tensors: Any) -> Any:
        moves = torch._C._is_fwd_grad_enabled() and fw._current_level >= 0
        if moves or (torch.is_grad_enabled() and any(t.requires_grad for t in tensors)):
            return own.differentiated(*tensors)
        with torch._C._AutoDispatchBelowAutograd():
            return overload(*tensors)

    def cast(*tensors: Any) -> Any:
        pairs = zip(tensors, operator.inputs, strict=True)
        given = [
            t.to(TORCH_DTYPES[own.dtype]) if t.is_floating_point() and own.dtype.is_float else t
            for t, own in pairs
        ]
        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
            return overload(*given)

    where = "CPU" if operator.inputs else "BackendSelect"  # which tensors alone would tell
    _library.impl(name, lambda *tensors: own.compute_dense(*own.kernel.fitted(tensors)), where)
    _library.impl(name, cast, "AutocastCPU")
    torch.library.register_fake(qualified, fake, lib=_library)
    _library.impl(name, differentiable, "Autograd")
    _library.impl(name, own.differentiated, "FuncTorchDynamicLayerFrontMode")
    overload = getattr(getattr(torch.ops, NAMESPACE), name).default
    return overload
