"""Models as files: read, and parsed, within limits."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from tensorad.errors import OnnxError
from tensorad.interop.onnx.packages import DecodeError, onnx
from tensorad.topi.arguments import shown

MAX_BYTES: Final = 2**31 - 1
"""Bytes of a message of protobuf."""


def model_of(source: object) -> tuple[Any, str]:
    """The model of a path, of bytes, or a `ModelProto`; and what errors call it.

    Raises:
        OnnxError: it cannot be read, is too large, or is no model.
    """
    if isinstance(source, onnx.ModelProto):
        return _checked(source, "the model")
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _checked(_parsed(bytes(source), "the bytes"), "the model")
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        what = f"the file {shown(path)}"
        return _checked(_parsed(_bytes_of(path, what), what), what)
    raise OnnxError(
        f"a model is a path, bytes or a ModelProto, got {type(source).__name__}.",
        hint='write load("model.onnx").',
    )


def _bytes_of(path: str | bytes, what: str) -> bytes:
    try:
        size = os.stat(path).st_size
        if size > MAX_BYTES:
            raise OnnxError(
                f"{what} has {size} bytes, more than a message of protobuf can have.",
                hint="keep weights in files beside it (external data).",
            )
        return Path(os.fsdecode(path)).read_bytes()
    except (OSError, ValueError) as error:
        raise OnnxError(f"{what} cannot be read: {error}.") from error
    except MemoryError as error:
        raise OnnxError(f"there is no memory for {what}.") from error


def _parsed(data: bytes, what: str) -> Any:
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except (DecodeError, MemoryError) as error:
        raise OnnxError(
            f"{what} cannot be parsed: {_line(error)}.",
            hint="it is damaged, cut off, too large for the memory there is, or no ONNX model.",
        ) from error
    return model


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__


def _checked(model: Any, what: str) -> tuple[Any, str]:
    if not model.HasField("graph"):
        raise OnnxError(f"{what} has no graph.", hint="it is damaged, or no ONNX model.")
    return model, what
