"""The package onnx, imported in one place; it is no dependency of tensorad."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tensorad.interop.packages import imported

onnx: Any
defs: Any
onnx, defs = imported("onnx", "defs")
DecodeError: type[Exception] = import_module("google.protobuf.message").DecodeError
"""What protobuf, which onnx brings along, raises for bytes that are no message."""
