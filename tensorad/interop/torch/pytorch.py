"""PyTorch itself, and what its state says of tensors and of calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tensorad.interop.packages import imported
from tensorad.ir.dtypes import DTYPES

torch: Any
fw: Any
torch, fw = imported("torch", "autograd.forward_ad")

NAMESPACE: Final = "tensorad"
"""Of the operators that are registered: `torch.ops.tensorad.<name>`."""
TORCH_DTYPES: Final = {d: getattr(torch, str(d)) for d in DTYPES}
PLAIN: Final = (torch.Tensor, torch.nn.Parameter)
"""Types of tensors that nobody has changed."""


def key_of(t: Any) -> int:
    """Who is asked, in which order, when an operator is called with this tensor."""
    return int(torch._C._dispatch_keys(t).raw_repr())


def _memory_keys() -> frozenset[int]:
    usual = torch.empty(0, device="cpu")
    with torch.inference_mode():
        return frozenset((key_of(usual), key_of(torch.empty(0, device="cpu"))))


MEMORY_KEYS: Final = _memory_keys()
"""The keys of strided tensors of the CPU, which stand for nothing but their elements."""


def all_like(tensors: Sequence[Any]) -> Any:
    """A function of as many tensors, all others: whether they are like these, in a state like this.

    One question of PyTorch for the types, keys, dtypes, shapes, strides and `requires_grad` of all.
    The keys are those that a call with the tensor would see now, so they also tell transforms and
    traces, the mode of inference and autocast; modes of calls and forward mode they do not tell.
    No tensors tell nothing of the state, so they are like no others; without PyTorch's guards,
    which are not in what it promises, none are. They end the process where a tensor has no strides
    to tell: the function is asked of plain strided tensors that are not nested, and under no
    transform, which has nested ones that do not say so.
    """
    guards = getattr(torch._C._dynamo.guards, "TensorGuards", None)
    if not tensors or guards is None:
        return unlike
    return guards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None).check


def unlike(*_: Any) -> bool:
    """That tensors are like no others."""
    return False


def is_memory(t: Any) -> bool:
    """Whether a tensor is itself where its elements lie, not what stands for one in a trace."""
    return type(t) in PLAIN and bool(torch._C._has_storage(t)) and not t._is_zerotensor()


def stands_for_tensor(t: Any) -> bool:
    """Whether something that is no tensor takes calls in its place, as proxies of `torch.fx` do."""
    return not isinstance(t, torch.Tensor) and bool(torch.overrides.is_tensor_like(t))


def is_transformed() -> bool:
    """Whether functions are transformed, forward mode is on, or modes or a trace see calls."""
    return bool(
        torch._C._functorch.peek_interpreter_stack() is not None
        or fw._current_level >= 0
        or torch._C._len_torch_dispatch_stack()
        or torch._C._len_torch_function_stack()
        or torch._C._get_tracing_state() is not None
    )


def is_functionalized() -> bool:
    """Whether `torch.func.functionalize` is the innermost transform."""
    functorch = torch._C._functorch
    top = functorch.peek_interpreter_stack()
    return top is not None and top.key() == functorch.TransformType.Functionalize


def functionalized(call: Any, tensors: Sequence[Any]) -> Any:
    """The results of a call that changes nothing in place, below `torch.func.functionalize`."""
    functorch = torch._C._functorch
    interpreter = torch._functorch.pyfunctorch.retrieve_current_functorch_interpreter()
    level = interpreter.level()
    own = [functorch._unwrap_functional_tensor(t, True) if _is_own(t) else t for t in tensors]
    with interpreter.lower():
        results = call(*own)
    several = results if isinstance(results, tuple) else (results,)
    made = tuple([functorch._wrap_functional_tensor(t, level) for t in several])
    return made if isinstance(results, tuple) else made[0]


def _is_own(t: Any) -> bool:
    return bool(torch._C._functorch.is_functionaltensor(t))
