"""Networks of ONNX: equal to onnxruntime, differentiated, of sizes that calls tell."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnxruntime

from tensorad.interop.onnx import Imported, load
from tests.interop.onnx.networks import NETWORKS, Network

pytestmark = pytest.mark.interop


def reference(net: Network, inputs: Any = None) -> list[Any]:
    """What onnxruntime computes."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(net.model.SerializeToString(), options)
    return list(session.run(None, inputs or net.inputs))


@cache
def imported(name: str) -> tuple[Network, Imported]:
    """A network with the extents that its inputs have."""
    net = NETWORKS[name]()
    model = load(net.model)
    sizes = {
        str(n): m
        for input_name, t in model.inputs.items()
        for n, m in zip(t.shape, net.inputs[input_name].shape, strict=True)
        if not isinstance(n, int)
    }
    return net, load(net.model, sizes=sizes)


@pytest.mark.parametrize("name", NETWORKS)
def test_it_computes_what_onnxruntime_does(name: str) -> None:
    net, model = imported(name)
    found = model.build()(net.inputs)
    for own, want in zip(found.values(), reference(net), strict=True):
        np.testing.assert_allclose(own, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["vit", "gpt2"])
def test_one_function_serves_all_sizes(name: str) -> None:
    net = NETWORKS[name]()
    f = load(net.model).build()
    (key,) = net.inputs
    for batch in (1, 3):
        inputs = {key: np.repeat(net.inputs[key][:1], batch, 0)}
        (own,) = f(inputs).values()
        np.testing.assert_allclose(own, reference(net, inputs)[0], rtol=1e-5, atol=1e-5)


def test_gradients_by_name_follow_their_cotangents() -> None:
    net, model = imported("mobilenet_v2")
    f = model.build(["fc", "x"])
    (output,) = model.outputs
    cotangent = np.float32([[1.0, 0.0, -2.0, 0.5, 3.0]])
    values, gradients = f(net.inputs, cotangents={output: cotangent})
    assert list(gradients) == ["fc", "x"] and gradients["x"].shape == (1, 3, 16, 16)
    step = np.float32(1e-2) * np.random.default_rng(0).normal(size=(5, 6)).astype("float32")
    moved = f({**net.inputs, "fc": model.parameters["fc"] + step}, cotangents={output: cotangent})
    slope = ((moved[0][output] - values[output]) * cotangent).sum()
    np.testing.assert_allclose((gradients["fc"] * step).sum(), slope, rtol=1e-3)
