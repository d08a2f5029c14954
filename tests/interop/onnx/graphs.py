"""Graphs of ONNX for tests, written node by node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]
FLOAT: Final = TensorProto.FLOAT
INT64: Final = TensorProto.INT64
_CODES: Final = {
    "float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9, "float16": 10,
    "float64": 11,
}  # fmt: skip


class Graph:
    """A graph that grows.

    Attributes:
        opset: the version of ONNX's operators; `dtype`: of weights.
    """

    def __init__(self, opset: int = 18, seed: int = 0, dtype: str = "float32") -> None:
        self.opset = opset
        self.dtype = dtype
        self.nodes: list[Any] = []
        self.initialisers: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.rng = np.random.default_rng(seed)
        self._count = 0

    def name(self) -> str:
        """A name that is not taken."""
        self._count += 1
        return f"v{self._count}"

    def input(self, name: str, shape: Sequence[Any], dtype: str = "") -> str:
        """An input."""
        code = _CODES[dtype or self.dtype]
        self.inputs.append(helper.make_tensor_value_info(name, code, list(shape)))
        return name

    def const(self, value: object, name: str = "") -> str:
        """An initialiser."""
        name = name or self.name()
        self.initialisers.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def weight(self, *shape: int, scale: float = 0.3, name: str = "", shift: float = 0.0) -> str:
        """An initialiser of random numbers."""
        drawn = self.rng.normal(size=shape) * scale + shift
        return self.const(drawn.astype(self.dtype), name)

    def fixed(self, value: object) -> str:
        """A node that is a constant."""
        return self.op("Constant", value=numpy_helper.from_array(np.asarray(value)))

    def op(
        self, operator: str, *inputs: str, outputs: int = 1, domain: str = "", **settings: Any
    ) -> Any:
        """A node; its output, or several."""
        names = [self.name() for _ in range(outputs)]
        node = helper.make_node(operator, list(inputs), names, domain=domain, **settings)
        self.nodes.append(node)
        return names[0] if outputs == 1 else names

    def output(self, name: str, dtype: str = "") -> None:
        """Make a name an output."""
        info = onnx.ValueInfoProto(name=name)
        info.type.tensor_type.elem_type = _CODES[dtype or self.dtype]
        self.outputs.append(info)

    def model(self) -> Any:
        """The model."""
        graph = helper.make_graph(self.nodes, "graph", self.inputs, self.outputs, self.initialisers)
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def single(operator: str, inputs: dict[str, Array], outputs: int = 1, opset: int = 18,
           constants: dict[str, object] | None = None, **settings: Any) -> Any:  # fmt: skip
    """A model of one node; `constants` are initialisers that come after the inputs."""
    g = Graph(opset)
    names = [g.input(n, a.shape, str(a.dtype)) for n, a in inputs.items()]
    names += [g.const(v, n) if v is not None else "" for n, v in (constants or {}).items()]
    made = g.op(operator, *names, outputs=outputs, **settings)
    for name in [made] if outputs == 1 else made:
        g.output(name)
    return g.model()
