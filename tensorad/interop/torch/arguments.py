"""What arguments must be, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorad.errors import BindError, DTypeError
from tensorad.interop.operators import Operator
from tensorad.interop.torch.pytorch import TORCH_DTYPES, torch


def check_tensors(operator: Operator, tensors: Sequence[Any]) -> None:
    """There are as many tensors as inputs.

    Raises:
        BindError: there are not, or something is no tensor.
    """
    name, inputs = operator.name, operator.inputs
    if len(tensors) != len(inputs):
        raise BindError(
            f"{name} takes {len(inputs)} tensors, got {len(tensors)}.",
            where=_call(operator),
            hint="pass one tensor for each input, in this order.",
        )
    for own, t in zip(inputs, tensors, strict=True):
        if not isinstance(t, torch.Tensor):
            raise BindError(
                f"argument {own.name} of {name} must be a torch.Tensor, got {type(t).__name__}.",
                where=_call(operator),
                hint=f"pass torch.as_tensor({own.name}).",
            )


def check_kinds(operator: Operator, tensors: Sequence[Any]) -> None:
    """The tensors are arrays, of the CPU.

    Raises:
        BindError: one is sparse, quantised or nested, or on another device.
    """
    for own, t in zip(operator.inputs, tensors, strict=True):
        kind = _kind(t)
        if kind:
            how = {"quantised": "dequantize()", "nested": "to_padded_tensor(0.0)"}
            raise BindError(
                f"argument {own.name} of {operator.name} is {kind}: its elements lie otherwise "
                "than those of an array.",
                where=_call(operator),
                hint=f"pass {own.name}.{how.get(kind, 'to_dense()')}.",
            )


def _kind(t: Any) -> str:
    """What a tensor is that is no array, or ""."""
    if t.is_quantized:
        return "quantised"
    if t.is_nested:
        return "nested"
    return "" if t.layout is torch.strided else str(t.layout).removeprefix("torch.")


def check_traced(operator: Operator, tensors: Sequence[Any]) -> None:
    """What stands for arrays in a trace stands for such ones as the operator takes.

    Raises:
        BindError: one is no array, or of a device that has elements elsewhere.
        DTypeError: one has another dtype.
    """
    check_kinds(operator, tensors)
    for n, t in enumerate(tensors):
        if t.device.type != "meta":
            _check_device(operator, n, t)
        _check_dtype(operator, n, t)


def fitted(operator: Operator, n: int, t: Any) -> Any:
    """The tensor as native code reads it: copied if its elements lie otherwise.

    Raises:
        BindError: it is on another device.
        DTypeError: it has another dtype.
    """
    _check_device(operator, n, t)
    _check_dtype(operator, n, t)
    made = t.resolve_conj().resolve_neg().contiguous()
    if made._is_zerotensor():
        made = torch.zeros(t.shape, dtype=t.dtype, device="cpu")
    return made


def _check_device(operator: Operator, n: int, t: Any) -> None:
    if t.device.type != "cpu":
        name, kind = operator.inputs[n].name, t.device.type
        has_none = "pass a tensor with elements: there are none on the device meta."
        raise BindError(
            f"argument {name} of {operator.name} is on the device {t.device}; operators run on "
            "the CPU.",
            where=_call(operator),
            hint=has_none if kind == "meta" else f"pass {name}.cpu().",
        )


def _check_dtype(operator: Operator, n: int, t: Any) -> None:
    own = operator.inputs[n]
    if t.dtype is not TORCH_DTYPES[own.dtype]:
        given = str(t.dtype).removeprefix("torch.")
        raise DTypeError(
            f"argument {own.name} of {operator.name} has dtype {given}, expected {own.dtype}.",
            where=_call(operator),
            hint=f"pass {own.name}.to(torch.{own.dtype}).",
        )


def _call(operator: Operator) -> str:
    return f"{operator.name}({', '.join([t.name for t in operator.inputs])})"
