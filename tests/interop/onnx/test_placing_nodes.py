"""ONNX's own cases of single nodes: places, triangles, resampling, rotations and remainders."""

from __future__ import annotations

import warnings
from functools import cache
from importlib import import_module
from typing import Any, Final

import numpy as np
import pytest

onnx: Any = pytest.importorskip("onnx", reason="onnx is not installed")
from tensorad.errors import OnnxError  # noqa: E402
from tensorad.interop.onnx import load  # noqa: E402
from tests.interop.onnx.graphs import Graph  # noqa: E402

pytestmark = [pytest.mark.interop, pytest.mark.slow]

MODULES: Final = {
    "Celu": "celu",
    "ConvTranspose": "convtranspose",
    "Gather": "gather",
    "GatherElements": "gatherelements",
    "GatherND": "gathernd",
    "HardSigmoid": "hardsigmoid",
    "HardSwish": "hardswish",
    "InstanceNormalization": "instance_normalization",
    "Mish": "mish",
    "Mod": "mod",
    "Resize": "resize",
    "RotaryEmbedding": "rotaryembedding",
    "ScatterElements": "scatterelements",
    "ScatterND": "scatternd",
    "Trilu": "trilu",
    "Xor": "xor",
}
"""Operators, and the modules of ONNX that hold their cases."""
REASONS: Final = {
    "bfloat16": "it reads bfloat16, of which there is no arithmetic here",
    "float16": "it reads float16, of which there is no arithmetic here",
    "uint16": "it reads uint16, of which there is no arithmetic here",
    "uint32": "it reads uint32, of which there is no arithmetic here",
    "uint64": "it reads uint64, of which there is no arithmetic here",
}
"""What is refused, by a part of a case's name."""


@cache
def cases(operator: str) -> list[Any]:
    """The cases of one operator."""
    nodes = import_module("onnx.backend.test.case.node")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import_module(f"onnx.backend.test.case.node.{MODULES[operator]}")
    return [
        c
        for c in nodes._NodeTestCases
        if c.model is not None and [n.op_type for n in c.model.graph.node] == [operator]
    ]


def imported(case: Any) -> Any:
    """The model; inputs that have to be known are constants."""
    names = [v.name for v in case.model.graph.input]
    values = dict(zip(names, case.data_sets[0][0], strict=True))
    known = {n: a for n, a in values.items() if n in ("roi", "scales", "sizes")}
    return load(case.model, constants=known), {n: a for n, a in values.items() if n not in known}


def refusal(name: str) -> str | None:
    """Why a case is refused."""
    return next((why for part, why in REASONS.items() if part in name), None)


@pytest.mark.parametrize("operator", MODULES)
def test_the_cases_of_an_operator(operator: str) -> None:
    found = cases(operator)
    assert found
    wrong = []
    for case in found:
        why = refusal(case.name)
        if why is not None:
            with pytest.raises(OnnxError) as refused:
                imported(case)
            assert why in str(refused.value)
            continue
        try:
            model, values = imported(case)
            made = model.build()(values)
        except Exception as e:  # noqa: BLE001  # all are reported at once
            wrong.append(f"{case.name}: {type(e).__name__}: {e}")
            continue
        for array, expected in zip(made.values(), case.data_sets[0][1], strict=True):
            if array.shape != expected.shape or array.dtype != expected.dtype:
                wrong.append(f"{case.name}: {array.shape} of {array.dtype}")
            elif not np.allclose(array, expected, 1e-4, 1e-5, equal_nan=True):
                wrong.append(f"{case.name}: {array} is not {expected}")
    assert wrong == [], "\n".join(wrong)


def refused(operator: str, *inputs: Any, **settings: Any) -> str:
    """What is said of one node of constants."""
    graph = Graph()
    names = [graph.input("x", (1, 2, 4), "float32"), *[graph.fixed(a) for a in inputs]]
    graph.output(graph.op(operator, *names, **settings))
    with pytest.raises(OnnxError) as found:
        load(graph.model())
    first = str(found.value).splitlines()[1]
    return first.partition(f"({operator}): ")[2]


NOTHING: Final = np.zeros(0, np.float32)


def test_what_is_refused() -> None:
    twice, sizes = np.full(3, 2, np.float32), np.array([1, 2, 8])
    assert refused("Resize", NOTHING, twice, sizes) == (
        "it needs either scales or sizes, one for each of 3 axes."
    )
    assert refused("Resize", NOTHING, twice, mode="area") == (
        "attribute 'mode' is 'area', not one of nearest, linear, cubic."
    )
    weight = np.ones((2, 1, 3), np.float32)
    assert refused("ConvTranspose", weight, output_padding=[1, 1]) == (
        "output_padding (1, 1) are not 1 integers >= 0."
    )
    assert refused("ConvTranspose", weight, kernel_shape=[2]) == (
        "kernel_shape (2,) is not that of its weight, (3,)."
    )
    assert refused("Trilu", np.array([1, 2])) == "its diagonal must be one integer."
    assert refused("ScatterND", np.array([[0]]), np.ones((1, 2, 4), np.float32), reduction="x") == (
        "attribute 'reduction' is 'x', not one of none, add, mul, max, min."
    )
