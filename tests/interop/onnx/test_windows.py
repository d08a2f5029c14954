"""Means of windows: what counts, beside ONNX Runtime, and by a formula of any kernel."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

onnx: Any = pytest.importorskip("onnx", reason="onnx is not installed")
runtime: Any = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
from tensorad.errors import UserError  # noqa: E402
from tensorad.interop.onnx import load  # noqa: E402

pytestmark = [pytest.mark.interop, pytest.mark.slow]


def model_of(shape: tuple[int, ...], **attributes: Any) -> Any:
    floats = onnx.TensorProto.FLOAT
    node = onnx.helper.make_node("AveragePool", ["x"], ["y"], **attributes)
    x = onnx.helper.make_tensor_value_info("x", floats, shape)
    y = onnx.helper.make_tensor_value_info("y", floats, [None] * len(shape))
    graph = onnx.helper.make_graph([node], "mean", [x], [y])
    sets = [onnx.helper.make_opsetid("", 19)]
    return onnx.helper.make_model(graph, opset_imports=sets, ir_version=9)


@pytest.mark.parametrize(("kernel", "step"), [(2, 1), (3, 2), (4, 3)])
def test_means_are_those_of_the_runtime(kernel: int, step: int) -> None:
    x = np.random.default_rng(0).normal(size=(1, 2, 8)).astype("float32")
    for pads, spread, ceil, padded in product(((0, 0), (1, 0), (1, 1)), (1, 2), (0, 1), (0, 1)):
        model = model_of(
            x.shape, kernel_shape=[kernel], strides=[step], dilations=[spread], pads=pads,
            ceil_mode=ceil, count_include_pad=padded,
        )  # fmt: skip
        session = runtime.InferenceSession(model.SerializeToString())
        (expected,) = session.run(None, {"x": x})
        np.testing.assert_allclose(load(model).build()({"x": x})["y"], expected, atol=1e-6)


def test_what_counts_takes_no_longer_for_longer_windows() -> None:
    """The text of the formula does not grow with the kernel."""
    counts = []
    for kernel in (3, 300):
        model = model_of((1, 1, 1000), kernel_shape=[kernel], pads=[1, 1])
        made = load(model).outputs["y"]
        counts.append(len(str(made.op.bodies)))
    assert counts[1] < 2 * counts[0]
    with pytest.raises(UserError):
        load(model_of((1, 4, 7, 6), kernel_shape=[2, 2**31 - 1], ceil_mode=1))
