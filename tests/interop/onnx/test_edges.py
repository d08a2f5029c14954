"""Edges of operators, equal to onnxruntime's; and models at the edge of what there can be."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx: Any = pytest.importorskip("onnx", reason="onnx is not installed")
from onnx import helper  # noqa: E402

from tensorad.errors import BindError, OnnxError  # noqa: E402
from tensorad.interop.onnx import load  # noqa: E402
from tests.interop.onnx.graphs import Graph, single  # noqa: E402

pytestmark = pytest.mark.interop


def check(model: Any, values: dict[str, Any]) -> None:
    """The model gives what onnxruntime gives."""
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    session = runtime.InferenceSession(model.SerializeToString())
    found = load(model).build()(values)
    for name, wanted in zip(found, session.run(None, values), strict=True):
        np.testing.assert_allclose(found[name], wanted, rtol=1e-5, atol=1e-6)


def one_size(operator: str, *rest: int) -> Any:
    """A function of a size, which has no axes, as the output."""
    g = Graph()
    size = g.op("Gather", g.op("Shape", g.input("x", ("n", 3))), g.fixed(0))
    g.output(g.op(operator, size, *map(g.fixed, rest)), "int64")
    return g.model()


@pytest.mark.parametrize("operator", ["Add", "Sub", "Mul", "Div", "Mod", "Max", "Min"])
def test_arithmetic_of_one_size(operator: str) -> None:
    check(one_size(operator, 3), {"x": np.zeros((7, 3), np.float32)})


@pytest.mark.parametrize("divisor", [2, -2, 3])
@pytest.mark.parametrize("operator", ["Div", "Mod"])
def test_quotients_of_sizes_go_towards_0(operator: str, divisor: int) -> None:
    g = Graph()
    size = g.op("Gather", g.op("Shape", g.input("x", ("n", 3))), g.fixed(0))
    told = {"fmod": 1} if operator == "Mod" else {}
    g.output(g.op(operator, g.op("Sub", size, g.fixed(5)), g.fixed(divisor), **told), "int64")
    for n in (2, 4, 5, 8):
        check(g.model(), {"x": np.zeros((n, 3), np.float32)})


@pytest.mark.parametrize("step", [3, -3])
def test_the_last_step_along_a_size_need_not_be_whole(step: int) -> None:
    g = Graph()
    x = g.input("x", ("n", 3))
    size = g.op("Gather", g.op("Shape", x), g.fixed(0))
    ends = [g.fixed(0), size] if step > 0 else [size, g.fixed(0)]
    numbers = g.op("Range", *ends, g.fixed(step))
    slices = [np.array([k]) for k in ((0, 2**31) if step > 0 else (-1, -(2**31)))]
    told = [g.fixed(v) for v in (*slices, np.array([0]), np.array([step]))]
    g.output(numbers, "int64")
    g.output(g.op("Slice", x, *told), "float32")
    for n in (6, 7, 8):
        check(g.model(), {"x": np.arange(3.0 * n, dtype=np.float32).reshape(n, 3)})


def test_the_opposite_of_one_size() -> None:
    check(one_size("Neg"), {"x": np.zeros((7, 3), np.float32)})


@pytest.mark.parametrize("operator", ["Less", "Greater", "LessOrEqual", "GreaterOrEqual"])
def test_comparisons_of_constants_with_nan(operator: str) -> None:
    g = Graph()
    left, right = ([np.nan, 1, 2, 3], [2, np.nan, 2, 1])
    g.output(g.op(operator, *[g.fixed(np.array(v, np.float32)) for v in (left, right)]), "bool")
    check(g.model(), {})


@pytest.mark.parametrize(
    "bounds",
    [(-10, -20), (-6, -6), (10, -20), (-1, -6), (4, -7), (4, -5), (2, 2), (0, 9), (3, -(2**63))],
)
def test_slices_backwards_begin_inside(bounds: tuple[int, int]) -> None:
    x = np.arange(5, dtype=np.float32)
    start, end = bounds
    told = {"starts": [start], "ends": [end], "axes": [0], "steps": [-1]}
    check(single("Slice", {"x": x}, constants=dict(told)), {"x": x})


@pytest.mark.parametrize(("extent", "count"), [(5, 3), (5, 4), (7, 5), (9, 7), (6, 3)])
def test_the_last_parts_of_a_split_may_have_no_elements(extent: int, count: int) -> None:
    """onnxruntime refuses to run such a split; ONNX's own evaluation has empty parts."""
    reference = pytest.importorskip("onnx.reference", reason="onnx is not installed")
    x = np.arange(extent, dtype=np.float32)
    model = single("Split", {"x": x}, outputs=count, num_outputs=count)
    found = list(load(model).build()({"x": x}).values())
    for own, wanted in zip(
        found, reference.ReferenceEvaluator(model).run(None, {"x": x}), strict=True
    ):
        np.testing.assert_array_equal(own, wanted)


@pytest.mark.parametrize("code", [2, 3, 6, 7])
def test_constants_are_cast_as_data_are(code: int) -> None:
    x = np.array([1e30, -1e30, 2.7, -2.7, np.inf, -np.inf, 3e9], np.float32)
    dtype = str(helper.tensor_dtype_to_np_dtype(code))
    g = Graph()
    g.output(g.op("Cast", g.fixed(x), to=code), dtype)
    g.output(g.op("Cast", g.input("x", (7,)), to=code), dtype)
    known, computed = load(g.model()).build()({"x": x}).values()
    assert known.tolist() == computed.tolist()
    assert known.max() == np.iinfo(dtype).max


def test_a_branch_in_a_function_has_the_function_s_attributes() -> None:
    leaky = helper.make_node("LeakyRelu", ["a"], ["t"])
    leaky.attribute.add(name="alpha", type=1, ref_attr_name="slope")
    plain = helper.make_node("Identity", ["a"], ["e"])
    then, other = (
        helper.make_graph([n], n.output[0], [], [onnx.ValueInfoProto(name=n.output[0])])
        for n in (leaky, plain)
    )
    chosen = helper.make_node("If", ["c"], ["b"], then_branch=then, else_branch=other)
    opsets = [helper.make_opsetid("", 18)]
    function = helper.make_function("own", "F", ["a", "c"], ["b"], [chosen], opsets, ["slope"])
    g = Graph()
    g.output(g.op("F", g.input("x", (3,)), g.const(True), domain="own", slope=0.5))
    model = g.model()
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid("own", 1))
    check(model, {"x": np.array([-1, 2, 3], np.float32)})


@pytest.mark.parametrize("operator", ["LeakyRelu", "If"])
def test_attributes_of_a_function_around_nothing_are_refused(operator: str) -> None:
    name, code = ("alpha", 1) if operator == "LeakyRelu" else ("then_branch", 5)
    g = Graph()
    g.output(g.op(operator, g.input("x", (3,))))
    model = g.model()
    node = model.graph.node[0]
    node.attribute.add(name=name, type=code, ref_attr_name="told")
    if operator == "If":
        branch = helper.make_graph([], "b", [], [onnx.ValueInfoProto(name="x")])
        node.attribute.append(helper.make_attribute("else_branch", branch))
        node.input[0] = "c"
        model.graph.input.append(helper.make_tensor_value_info("c", 9, []))
    with pytest.raises(OnnxError, match=f"'{name}' is that of a function, 'told', but the node is"):
        load(model)


@pytest.mark.parametrize("version", [-1, 0, 10**6, 2**40])
def test_functions_of_unknown_versions_are_refused(version: int) -> None:
    relu = helper.make_node("Relu", ["a"], ["b"])
    opsets = [helper.make_opsetid("", version)]
    g = Graph()
    g.output(g.op("F", g.input("x", (3,)), domain="own"))
    model = g.model()
    model.functions.append(helper.make_function("own", "F", ["a"], ["b"], [relu], opsets))
    model.opset_import.append(helper.make_opsetid("own", 1))
    with pytest.raises(OnnxError, match=f"ONNX has no such operator in version {version}"):
        load(model)


def test_long_bodies_of_functions_are_refused_in_time() -> None:
    dead = [helper.make_node("Relu", ["a"], [f"d{n}"]) for n in range(5000)]
    body = [*dead, helper.make_node("Relu", ["a"], ["b"])]
    opsets = [helper.make_opsetid("", 18)]
    g = Graph()
    at = g.input("x", (3,))
    for _ in range(1000):
        at = g.op("F", at, domain="own")
    g.output(at)
    model = g.model()
    model.functions.append(helper.make_function("own", "F", ["a"], ["b"], body, opsets))
    model.opset_import.append(helper.make_opsetid("own", 1))
    with pytest.raises(OnnxError, match="calls of functions stand for more than 2,097,152 nodes"):
        load(model)


@pytest.mark.parametrize(
    ("dims", "said"),
    [([0, 2**62], "has more than 2\\^40 elements"), ([1] * 65, "has 65 axes, more than 32")],
)
def test_shapes_that_no_array_has_are_refused(dims: list[int], said: str) -> None:
    g = Graph()
    g.output(g.op("Relu", "w"))
    model = g.model()
    data = bytes(0 if 0 in dims else 4)
    model.graph.initializer.add(name="w", data_type=1, dims=dims, raw_data=data)
    with pytest.raises(OnnxError, match=said):
        load(model)


def test_extents_of_several_names_are_several_sizes() -> None:
    g = Graph()
    for name, extent in (("a", "p q"), ("b", "p_q"), ("c", "p q")):
        g.output(g.op("Relu", g.input(name, (extent,))))
    model = load(g.model())
    a, b, c = [model.inputs[n].shape[0] for n in "abc"]
    assert [str(n) for n in (a, b, c)] == ["p_q", "p_q_2", "p_q"]
    assert load(g.model(), sizes={"p q": 3}).inputs["a"].shape == (3,)


@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("padded", [0, 1])
def test_means_count_the_elements_of_their_windows(padded: int, dilation: int) -> None:
    x = np.random.default_rng(0).normal(size=(1, 2, 7, 6)).astype(np.float32)
    told = {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 1, 2, 0], "ceil_mode": 1}
    settings = {**told, "count_include_pad": padded, "dilations": [dilation, 1]}
    check(single("AveragePool", {"x": x}, opset=19, **settings), {"x": x})


def test_a_mean_over_an_enormous_window() -> None:
    x = np.ones((1, 1, 3, 1), np.float32)
    model = single("AveragePool", {"x": x}, kernel_shape=[2**31 - 1, 1], pads=[2**31 - 2, 0, 0, 0])
    assert load(model).outputs


def external(folder: Path, shape: tuple[int, ...], place: str = "data") -> Any:
    g = Graph()
    g.output(g.op("Relu", "w"))
    model = g.model()
    proto = model.graph.initializer.add(name="w", data_type=1, dims=shape, data_location=1)
    proto.external_data.add(key="location", value=place)
    return load(model, external_data=folder)


def test_pipes_are_no_external_data(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "data")
    with pytest.raises(OnnxError, match="lies in 'data', which is no file"):
        external(tmp_path, (2,))


def test_external_data_are_not_read_where_they_are_too_many(tmp_path: Path) -> None:
    with open(tmp_path / "data", "wb") as file:
        file.truncate(2**40)
    with pytest.raises(OnnxError, match="needs 8 bytes, but has 1099511627776"):
        external(tmp_path, (2,))


def test_moments_of_layers_have_the_type_that_is_told() -> None:
    x, scale = np.random.default_rng(0).normal(size=(2, 6)), np.ones(6)
    model = single("LayerNormalization", {"x": x, "w": scale}, outputs=3)
    for info, code in zip(model.graph.output, (11, 1, 1), strict=True):
        info.type.tensor_type.elem_type = code
    found = load(model).build()({"x": x, "w": scale})
    assert [str(a.dtype) for a in found.values()] == ["float64", "float32", "float32"]
    check(model, {"x": x, "w": scale})


def test_large_gathers_of_constants_are_computed_in_calls() -> None:
    g = Graph()
    rows = g.op("Gather", g.fixed(np.zeros((1, 2**16), np.int64)), g.fixed(np.zeros(2**14, int)))
    g.output(g.op("ReduceMax", rows, keepdims=0), "int64")
    assert load(g.model()).outputs


def test_arrays_by_name_in_a_dict_or_as_keywords() -> None:
    x = np.array([[1.0, -2.0]], np.float32)
    f = load(single("Relu", {"x": x})).build()
    (name,) = f.model.outputs
    for found in (f({"x": x}), f(x=x), f({}, x=x)):
        np.testing.assert_array_equal(found[name], [[1.0, 0.0]])
    assert repr(f).startswith("<ImportedFunction of <Imported (x : float32 (1, 2)), 0 parameters")
    calls: list[tuple[Any, str]] = [
        (lambda: f(x), "values must be a dict of arrays by name, got ndarray"),
        (lambda: f({"x": x}, cotangents=x), "cotangents must be a dict of arrays by name"),
        (lambda: f({"x": x}, x=x), "'x' is given twice"),
        (lambda: f(y=x), "values has 'y', which is none"),
    ]
    for call, text in calls:
        with pytest.raises(BindError, match=text):
            call()
