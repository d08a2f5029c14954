"""Gradients of networks of ONNX, compared with differences."""

from __future__ import annotations

import pytest

pytest.importorskip("onnx")

import tensorad as ta
from tensorad.interop.onnx import load
from tests.interop.onnx.networks import NETWORKS

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_are_those_of_differences(name: str) -> None:
    net = NETWORKS[name]("float64")
    sizes = {
        str(n): m
        for key, t in load(net.model).inputs.items()
        for n, m in zip(t.shape, net.inputs[key].shape, strict=True)
        if not isinstance(n, int)
    }
    model = load(net.model, sizes=sizes)
    output = list(model.outputs.values())[-1]
    arrays = {model.placeholders[n]: a for n, a in {**model.parameters, **net.inputs}.items()}
    wrt = [model.placeholders[n] for n in net.wrt]
    assert ta.gradcheck(output, wrt, arrays=arrays, modes=["reverse"], fast=True)
