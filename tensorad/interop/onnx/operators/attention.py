"""What attention needs beside products: triangles of masks, and rotations by positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from tensorad import topi
from tensorad.errors import OnnxError
from tensorad.interop.onnx.calls import Call
from tensorad.interop.onnx.operators.folding import Handler
from tensorad.interop.onnx.values import Known, Value, count_of


def trilu(call: Call) -> Value:
    """The upper or lower triangle of the last two axes."""
    upper = call.flag("upper", True)
    if call.has(1) and count_of(call.shape(1)) != 1:
        raise OnnxError("its diagonal must be one integer.")
    told = call.setting(1) if call.has(1) else 0
    value = call.value(0)
    if isinstance(value, Known) and not value.is_symbolic and told is not None:
        if value.array.ndim < 2:
            raise OnnxError("its input must have two axes or more.")
        return Known((np.triu if upper else np.tril)(value.array, int(told)), value.dtype)
    k = topi.reshape(call.tensor(1), ()) if told is None else int(told)
    return topi.trilu(call.tensor(0), k, upper)


def rotary_embedding(call: Call) -> Value:
    """Pairs of elements of each head turned by angles of their positions."""
    return topi.nn.rotary_embedding(
        call.tensor(0),
        call.tensor(1),
        call.tensor(2),
        call.optional(3),
        call.flag("interleaved", False),
        call.integer("num_heads", 0),
        call.integer("rotary_embedding_dim", 0),
    )


HANDLERS: Final[Mapping[str, Handler]] = {"Trilu": trilu, "RotaryEmbedding": rotary_embedding}
