"""Operators take arrays wherever they take tensors: as constants."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import tensorad as ta
from tensorad.ir.tensor import Tensor
from tensorad.ir.text.printer import format_tensor_recursively
from tests.support.topi_calls import CALLS
from tests.topi.test_odd_arguments import call


def replaced(value: Any, made: Any) -> Any:
    """The tensors of a value, in lists too, as what is made of arrays."""
    if isinstance(value, (list, tuple)):
        return type(value)([replaced(v, made) for v in value])
    return made(np.ones(value.shape, str(value.dtype))) if isinstance(value, Tensor) else value


def listed(value: Any) -> Any:
    return value if isinstance(value, (list, tuple)) else [value]


WITH_TENSORS: Final = [
    name
    for name, arguments in CALLS.items()
    if any(isinstance(t, Tensor) for v in arguments.values() for t in listed(v))
]


def texts(found: Any) -> list[str]:
    return [format_tensor_recursively(t) for t in listed(found)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", WITH_TENSORS)
def test_arrays_are_constants(name: str) -> None:
    arguments = CALLS[name]
    tensors = {n: replaced(v, ta.const) for n, v in arguments.items()}
    arrays = {n: replaced(v, lambda a: a) for n, v in arguments.items()}
    assert texts(call(name, arrays)) == texts(call(name, tensors))
    for n, v in arrays.items():  # one array among tensors
        assert texts(call(name, {**tensors, n: v})) == texts(call(name, tensors))
