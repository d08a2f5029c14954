"""Graphs of ONNX as tensors, with gradients. The package onnx is imported with this one."""

from tensorad.interop.onnx.loading import load as load
from tensorad.interop.onnx.models import Imported as Imported
from tensorad.interop.onnx.models import ImportedFunction as ImportedFunction
