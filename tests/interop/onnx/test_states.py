"""Layers with a state, samples of images and more: onnxruntime's values, and gradients."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx: Any = pytest.importorskip("onnx", reason="onnx is not installed")
from tensorad.checking import gradcheck  # noqa: E402
from tensorad.errors import OnnxError  # noqa: E402
from tensorad.interop.onnx import arrays, load  # noqa: E402
from tests.interop.onnx.graphs import Graph, single  # noqa: E402
from tests.interop.onnx.test_edges import check, external  # noqa: E402

pytestmark = pytest.mark.interop
rng = np.random.default_rng(5)
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
TWO_OUTPUTS = ("TopK", "LinearAttention", "CausalConvWithState")


def drawn(*shape: int, dtype: str = "float32") -> Any:
    return (rng.standard_normal(shape) * 0.5).astype(dtype)


def layer(operator: str, directions: int, dtype: str = "float32", n: int = 5) -> dict[str, Any]:
    """Inputs of a recurrent layer: time 4, batch 3, features 2, n units."""
    g = GATES[operator]
    made = {
        "X": drawn(4, 3, 2, dtype=dtype), "W": drawn(directions, g * n, 2, dtype=dtype),
        "R": drawn(directions, g * n, n, dtype=dtype),
        "B": drawn(directions, 2 * g * n, dtype=dtype),
        "lens": np.array([4, 1, 3], np.int32), "h": drawn(directions, 3, n, dtype=dtype),
    }  # fmt: skip
    if operator == "LSTM":
        made |= {
            "c": drawn(directions, 3, n, dtype=dtype),
            "P": drawn(directions, 3 * n, dtype=dtype),
        }
    return made


@pytest.mark.parametrize("way", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("operator", GATES)
def test_recurrent_layers_of_sequences_of_several_lengths(operator: str, way: str) -> None:
    values = layer(operator, 1 + (way == "bidirectional"))
    told = {"linear_before_reset": 1} if operator == "GRU" else {}
    model = single(operator, values, 3 if operator == "LSTM" else 2, 14, hidden_size=5,
                   direction=way, clip=0.7, **told)  # fmt: skip
    check(model, values)


@pytest.mark.slow
@pytest.mark.parametrize("operator", GATES)
def test_gradients_of_recurrent_layers(operator: str) -> None:
    values = layer(operator, 1, "float64", 2)
    model = load(single(operator, values, opset=14, hidden_size=2, direction="reverse"))
    wrt = [model.inputs[n] for n in ("X", "R", "h")]
    given = {t: values[n] for n, t in model.inputs.items()}
    (y,) = model.outputs.values()
    gradcheck(y, wrt, arrays=given)


def test_a_recurrent_layer_of_any_length() -> None:
    g = Graph(14)
    values = layer("LSTM", 1)
    x = g.input("X", ("time", "batch", 2))
    y, _ = g.op("LSTM", x, g.const(values["W"]), g.const(values["R"]), outputs=2, hidden_size=5,
                activations=["HardSigmoid", "Affine", "LeakyRelu"], activation_alpha=[0.3, 0.5],
                activation_beta=[0.4, 0.1], input_forget=1)  # fmt: skip
    g.output(y)
    for time in (1, 9):
        check(g.model(), {"X": drawn(time, 3, 2)})


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_samples_by_a_grid(mode: str, padding: str, corners: int) -> None:
    values = {"x": drawn(2, 3, 4, 5), "grid": drawn(2, 3, 2, 2) * 3}
    told = {"mode": mode, "padding_mode": padding, "align_corners": corners}
    check(single("GridSample", values, opset=16, **told), values)


@pytest.mark.parametrize("points", [2, 0])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_regions_of_images(mode: str, points: int) -> None:
    """Without a number of points, each region has as many as it is long: data tell it."""
    regions = np.array([[0, 0, 5, 4], [-2, 1, 3, 9], [2, 2, 2, 2]], np.float32)
    values = {"x": np.abs(drawn(2, 3, 6, 7)), "r": regions, "b": np.array([0, 1, 1])}
    told = {"mode": mode, "output_height": 3, "output_width": 2, "sampling_ratio": points}
    check(single("RoiAlign", values, opset=16, spatial_scale=0.8, **told), values)


def test_deformable_convolutions() -> None:
    values = {"x": drawn(2, 4, 6, 5), "w": drawn(6, 2, 3, 2), "o": drawn(2, 24, 6, 4) * 2,
              "b": drawn(6), "m": drawn(2, 12, 6, 4)}  # fmt: skip
    check(
        single("DeformConv", values, opset=19, group=2, offset_group=2, pads=[1, 0, 1, 0]), values
    )


UNPROVED = ("regions by data", "r")
"""The adjoint of an input whose elimination is right and has no certificate: two sums with bounds
from data, one inside of the other."""
REGIONS = np.array([[0.3, 0.4, 4.1, 3.3], [1.2, 0.7, 3.1, 2.9]])
GRADIENTS: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "grid": ("GridSample", {"x": drawn(1, 2, 4, 5, dtype="float64"),
                            "g": drawn(1, 3, 2, 2, dtype="float64")}, {}, {"mode": "linear"}),
    "cubic grid": ("GridSample", {"x": drawn(1, 1, 4, 5, dtype="float64"),
                                  "g": drawn(1, 3, 2, 2, dtype="float64")},
                   {}, {"mode": "cubic", "padding_mode": "border"}),
    "transform": ("DFT", {"x": drawn(2, 6, 2, dtype="float64")}, {}, {}),
    "half transform": ("DFT", {"x": drawn(2, 6, 1, dtype="float64")}, {}, {"onesided": 1}),
    "back": ("DFT", {"x": drawn(2, 4, 2, dtype="float64")}, {}, {"onesided": 1, "inverse": 1}),
    "determinant": ("Det", {"x": drawn(2, 4, 4, dtype="float64")}, {}, {}),
    "columns": ("Col2Im", {"x": drawn(1, 8, 6, dtype="float64")},
                {"i": [3, 4], "k": [2, 2]}, {}),
    "top": ("TopK", {"x": drawn(2, 5, dtype="float64")}, {"k": [2]}, {}),
    "pool": ("LpPool", {"x": drawn(1, 1, 4, 4, dtype="float64")}, {},
             {"kernel_shape": [2, 2], "p": 3}),
    "global pool": ("GlobalLpPool", {"x": drawn(2, 2, 3, dtype="float64")}, {}, {}),
    "gates": ("SwiGLU", {"a": drawn(2, 3, dtype="float64"), "b": drawn(2, 3, dtype="float64")},
              {}, {"alpha": 1.5}),
    "deformable": ("DeformConv", {"x": drawn(1, 2, 4, 4, dtype="float64"),
                                  "w": drawn(2, 1, 2, 2, dtype="float64"),
                                  "o": drawn(1, 8, 3, 3, dtype="float64"),
                                  "b": drawn(2, dtype="float64"),
                                  "m": drawn(1, 4, 3, 3, dtype="float64")}, {}, {"group": 2}),
    "regions": ("RoiAlign", {"x": drawn(2, 2, 5, 6, dtype="float64"), "r": REGIONS,
                             "b": np.array([0, 1])}, {},
                {"output_height": 2, "output_width": 2, "sampling_ratio": 2}),
    "regions by data": ("RoiAlign", {"x": drawn(2, 2, 5, 6, dtype="float64"), "r": REGIONS,
                                     "b": np.array([0, 1])}, {},
                        {"output_height": 2, "output_width": 2}),
    "largest of regions": ("RoiAlign", {"x": drawn(2, 1, 5, 6, dtype="float64"), "r": REGIONS,
                                        "b": np.array([0, 1])}, {},
                           {"output_height": 2, "output_width": 2, "mode": "max"}),
    "places of maxima": ("MaxUnpool", {"x": drawn(1, 1, 2, 2, dtype="float64"),
                                       "i": np.array([[[[5, 3], [8, 14]]]])}, {},
                         {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "causal": ("CausalConvWithState", {"x": drawn(2, 3, 5),
                                       "w": drawn(3, 1, 3),
                                       "b": drawn(3),
                                       "p": drawn(2, 3, 2)},
               {}, {"activation": "silu"}),
    "attention": ("LinearAttention", {"q": drawn(1, 3, 8),
                                      "k": drawn(1, 3, 4),
                                      "v": drawn(1, 3, 6)},
                  {}, {"q_num_heads": 4, "kv_num_heads": 2, "update_rule": "linear"}),
}  # fmt: skip


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_operators(name: str) -> None:
    operator, values, constants, told = GRADIENTS[name]
    fixed = {n: np.array(v) for n, v in constants.items()}
    outputs = 2 if operator in TWO_OUTPUTS else 1
    made = single(operator, values, outputs, 28, fixed, **told)
    model = load(made)
    y = next(iter(model.outputs.values()))
    wrt = [t for n, t in model.inputs.items() if t.dtype.is_float and (name, n) != UNPROVED]
    gradcheck(y, wrt, arrays={t: values[n] for n, t in model.inputs.items()})


def test_positions_of_maxima_go_back() -> None:
    x = drawn(2, 3, 7, 6)
    told = {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1], "dilations": [1, 2]}
    model = single("MaxPool", {"x": x}, 2, storage_order=1, **told)
    model.graph.output[1].type.tensor_type.elem_type = 7
    check(model, {"x": x})


X23 = np.ones((2, 3), np.float32)
IMAGE = np.ones((1, 2, 4, 4), np.float32)
WRONG: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, Any], str]] = {
    "way of bits": ("BitShift", {"a": np.ones(3, np.uint8), "b": np.ones(3, np.uint8)}, {},
                    {"direction": "UP"}, "attribute 'direction' is 'UP', not one of LEFT, RIGHT"),
    "bits of floats": ("BitCast", {"a": X23}, {}, {"to": 6}, "no formula reads them"),
    "bits of other widths": ("BitCast", {"a": X23}, {}, {"to": 7}, "not the same number of bits"),
    "too many": ("TopK", {"x": X23}, {"k": [4]}, {}, "has 3 elements, not 4"),
    "less than none": ("TopK", {"x": X23}, {"k": [-1]}, {}, "extent"),
    "several counts": ("TopK", {"x": X23}, {"k": [1, 2]}, {}, "has 2 elements, not one"),
    "power": ("LpPool", {"x": IMAGE}, {}, {"kernel_shape": [2, 2], "p": 0}, "p must be an integer"),
    "no square": ("Det", {"x": X23}, {}, {}, "no square matrices"),
    "grid": ("GridSample", {"x": IMAGE, "g": X23}, {}, {}, "has no places in"),
    "mode of a grid": ("GridSample", {"x": IMAGE, "g": np.ones((1, 2, 2, 2), np.float32)}, {},
                       {"mode": "quintic"}, "attribute 'mode' is 'quintic'"),
    "length": ("DFT", {"x": IMAGE[..., :1]}, {"n": 0}, {}, "is not one integer from 1 to"),
    "parts": ("DFT", {"x": IMAGE}, {}, {}, "one or two parts"),
    "frames": ("STFT", {"x": np.ones((1, 8, 1), np.float32)}, {"s": 2, "w": None, "n": 9}, {},
               "a window or a length of 1 to 8"),
    "columns": ("Col2Im", {"x": np.ones((1, 5, 5), np.float32)}, {"i": [5, 5], "k": [2, 2]}, {},
                "are no columns of blocks"),
    "negative image": ("Col2Im", {"x": np.ones((1, 5, 5), np.float32)}, {"i": [5, -5], "k": [1, 5]},
                       {}, "do not belong together"),
    "places": ("MaxUnpool", {"x": IMAGE, "i": np.ones((1, 2, 4, 3), np.int64)}, {},
               {"kernel_shape": [2, 2]}, "are not one for each"),
    "small output": ("MaxUnpool", {"x": IMAGE, "i": np.ones((1, 2, 4, 4), np.int64)},
                     {"s": [1, 2, 3, 3]}, {"kernel_shape": [2, 2]}, "has no place for"),
    "units": ("RNN", {n: v for n, v in layer("RNN", 1).items() if n in "XWR"}, {},
              {"hidden_size": 7}, "hidden_size is not the extent 5"),
    "directions": ("GRU", {n: v for n, v in layer("GRU", 2).items() if n in "XWR"}, {}, {},
                   "its input 1 has shape"),
    "activation": ("RNN", {n: v for n, v in layer("RNN", 1).items() if n in "XWR"}, {},
                   {"activations": ["Sine"]}, "there is no activation 'Sine'"),
    "activations": ("LSTM", {n: v for n, v in layer("LSTM", 1).items() if n in "XWR"}, {},
                    {"activations": ["Tanh"]}, "1 activations are not 3 for each direction"),
    "points": ("RoiAlign", {"x": IMAGE, "r": np.ones((1, 4), np.float32), "b": np.zeros(1, int)},
               {}, {"sampling_ratio": -1}, "there are no .* cells of -1 points"),
    "offsets": ("DeformConv", {"x": IMAGE, "w": np.ones((2, 2, 2, 2), np.float32),
                               "o": np.ones((1, 7, 3, 3), np.float32)}, {}, {}, "are not two of 4"),
    "axes": ("ReverseSequence", {"x": X23, "n": np.ones(2, np.int64)}, {}, {"time_axis": 2},
             "are not those of time and batch"),
    "cache": ("TensorScatter", {"x": IMAGE, "u": IMAGE[:, :1]}, {}, {}, "do not fit into"),
    "state": ("CausalConvWithState", {"x": IMAGE[0], "w": np.ones((3, 1, 2), np.float32)}, {}, {},
              "is not one row for each channel"),
    "heads": ("LinearAttention", {n: np.ones((1, 2, 6), np.float32) for n in "qkv"}, {},
              {"q_num_heads": 3, "kv_num_heads": 2, "update_rule": "linear"},
              "do not read 2 heads"),
    "rule": ("LinearAttention", {n: np.ones((1, 2, 6), np.float32) for n in "qkv"}, {},
             {"q_num_heads": 2, "kv_num_heads": 2}, "does not take the inputs 4 and 5"),
    "bands": ("MelWeightMatrix", {}, {"n": 8, "k": 16, "r": 8192, "a": np.float32(5000),
                                      "b": np.float32(100)}, {}, "bands of 9 frequencies"),
    "gates": ("SwiGLU", {"a": X23, "b": X23[:1]}, {}, {}, "differ"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_settings_are_refused_in_words(name: str) -> None:
    operator, values, constants, told, said = WRONG[name]
    fixed = {n: v if v is None else np.asarray(v) for n, v in constants.items()}
    model = single(operator, values, 2 if operator in TWO_OUTPUTS else 1, 28, fixed, **told)
    with pytest.raises(OnnxError, match=said):
        load(model)


@pytest.mark.parametrize("code, dtype", [(6, "int32"), (1, "float32")])
@pytest.mark.parametrize("shape", [(), (2, 3)])
def test_bits_of_known_floats_are_folded(code: int, dtype: str, shape: tuple[int, ...]) -> None:
    own = np.float32 if code == 6 else np.int32
    bits = (rng.standard_normal(shape) * 1e6).astype(own)
    g = Graph(26)
    x = g.input("x", shape, dtype)
    g.output(g.op("Add", x, g.op("BitCast", g.const(bits, "bits"), to=code)), dtype)
    model = load(g.model())
    assert "bits" not in model.parameters
    given = np.ones(shape, dtype)
    [found] = model.build()({"x": given}).values()
    np.testing.assert_array_equal(found, given + bits.view(dtype))


def test_bits_of_an_input_that_is_given_while_importing() -> None:
    one = single("BitCast", {"a": X23}, 1, 26, to=6)
    one.graph.output[0].type.tensor_type.elem_type = 6
    [found] = load(one, constants={"a": X23}).build()({}).values()
    np.testing.assert_array_equal(found, X23.view(np.int32))


@pytest.mark.parametrize("operator", ["Scatter", "Upsample"])
def test_operators_that_onnx_gave_up_are_old(operator: str) -> None:
    third = {"u": X23} if operator == "Scatter" else {}
    index = {"i": np.zeros((2, 3), np.int64)} if operator == "Scatter" else {"s": X23[0, :2]}
    model = single(operator, {"x": X23, **index, **third}, opset=9)
    with pytest.raises(OnnxError, match="its version 9 is older than those that are imported"):
        load(model)


def test_numbers_of_extents_stay_in_int64() -> None:
    g = Graph(18)
    x = g.input("x", (2**20, 2**20, "n"))
    wide = g.op("Concat", *[g.op("Shape", x)] * 3, axis=0)
    y = g.op("Expand", g.fixed(np.float32(0)), wide)
    g.output(g.op("Size", y), "int64")
    with pytest.raises(OnnxError, match=r"its output of shape .* has more than 2\^40 elements"):
        load(g.model())
    huge = Graph(18)
    n = huge.op("Gather", huge.op("Shape", huge.input("x", ("n", 3))), huge.fixed(np.array([1])))
    both = huge.op("Concat", huge.op("Shape", "x"), huge.fixed(np.array([2**62])), axis=0)
    huge.output(huge.op("Mul", both, huge.op("Add", n, huge.fixed(np.array([5])))), "int64")
    with pytest.raises(
        OnnxError, match="36893488147419103232, computed from extents, is no number"
    ):
        load(huge.model())


def test_a_folder_above_external_data_that_is_exchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "inside"
    for place in (outside, folder / "below"):
        place.mkdir(parents=True)
        (place / "data").write_bytes(bytes(8))
    found = arrays._inside

    def exchanging(*told: Any) -> Any:
        checked = found(*told)
        os.rename(folder / "below", folder / "moved")
        os.symlink(outside, folder / "below")
        return checked

    assert external(folder, (2,), "below/data").outputs
    monkeypatch.setattr(arrays, "_inside", exchanging)
    with pytest.raises(OnnxError, match="cannot be read"):
        external(folder, (2,), "below/data")


def test_first_states_of_a_layer_whose_batch_comes_first() -> None:
    values = layer("GRU", 2)
    told = {"opset": 14, "hidden_size": 5, "direction": "bidirectional"}
    wanted = load(single("GRU", values, 2, **told)).build()(values)
    turned = {n: a.swapaxes(0, 1) if n in ("X", "h") else a for n, a in values.items()}
    found = load(single("GRU", turned, 2, layout=1, **told)).build()(turned)
    (y, last), (other, after) = wanted.values(), found.values()
    np.testing.assert_allclose(other, y.transpose(2, 0, 1, 3), rtol=1e-5)
    np.testing.assert_allclose(after, last.transpose(1, 0, 2), rtol=1e-5)
