"""Bad ONNX models, loaded in a process with little memory: `python -m tests.interop.onnx.bad`.

It prints, as JSON, what each case that is named says.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper

from tensorad.errors import UserError
from tensorad.interop.onnx import load
from tests.interop.onnx.graphs import Graph, single

MEMORY: Final = 2 * 2**30


def relu() -> Any:
    """A good model."""
    g = Graph()
    g.output(g.op("Relu", g.input("x", (2, 3))))
    return g.model()


def truncated() -> object:
    return load(relu().SerializeToString()[:-7])


def not_a_protobuf() -> object:
    return load(b"PK\x03\x04 this is an archive")


def empty() -> object:
    return load(b"")


def missing_file() -> object:
    return load("no/such/model.onnx")


def another_object() -> object:
    return load(3)


def no_text() -> object:
    data = relu().SerializeToString().replace(b"Relu", b"R\xff\xfeu")
    return load(data)


def cycle() -> object:
    g = Graph()
    x = g.input("x", (2,))
    g.nodes.append(helper.make_node("Add", [x, "b"], ["a"], name="first"))
    g.nodes.append(helper.make_node("Relu", ["a"], ["b"], name="second"))
    g.output("b")
    return load(g.model())


def missing_initialiser() -> object:
    g = Graph()
    g.output(g.op("MatMul", g.input("x", (2, 3)), "weight"))
    return load(g.model())


def duplicate_name() -> object:
    g = Graph()
    x = g.input("x", (2,))
    g.nodes.append(helper.make_node("Relu", [x], ["y"], name="first"))
    g.nodes.append(helper.make_node("Abs", [x], ["y"], name="second"))
    g.output("y")
    return load(g.model())


def duplicate_initialiser() -> object:
    g = Graph()
    g.const(np.float32(1), "w")
    g.const(np.float32(2), "w")
    g.output(g.op("Add", g.input("x", (2,)), "w"))
    return load(g.model())


def nothing_makes_output() -> object:
    g = Graph()
    g.op("Relu", g.input("x", (2,)))
    g.output("logits")
    return load(g.model())


def negative_extent() -> object:
    g = Graph()
    g.output(g.op("Relu", g.input("x", (2, -3))))
    return load(g.model())


def enormous_extent() -> object:
    g = Graph()
    g.output(g.op("Relu", g.input("x", (2**62, 4))))
    return load(g.model())


def enormous_initialiser() -> object:
    g = Graph()
    g.initialisers.append(TensorProto(name="w", data_type=1, dims=[2**62], raw_data=b"abcd"))
    g.output(g.op("Add", g.input("x", (2,)), "w"))
    return load(g.model())


def short_initialiser() -> object:
    g = Graph()
    g.initialisers.append(TensorProto(name="w", data_type=1, dims=[3], raw_data=b"abcd"))
    g.output(g.op("Add", g.input("x", (3,)), "w"))
    return load(g.model())


def million_nodes() -> object:
    g = Graph()
    name = g.input("x", (2,))
    model = g.model()
    node = helper.make_node("Relu", [name], ["y"])
    model.graph.node.extend([node] * 1_000_000)
    data = model.SerializeToString()
    del model
    return load(data)


def many_nodes() -> object:
    """Many nodes are imported in linear time."""
    g = Graph()
    x = g.input("x", (2,))
    for _ in range(10_000):
        x = g.op("Relu", x)
    g.output(x)
    made = load(g.model())
    return f"a model with {len(made.outputs)} output"


def long_name() -> object:
    """A file of 1 GB, all of it one name."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        name = 2**30

        def varint(n: int) -> bytes:
            out = b""
            while n > 127:
                out += bytes([n & 127 | 128])
                n >>= 7
            return out + bytes([n])

        head = b"\x0a" + varint(name)  # input 0 of a node
        node = b"\x0a" + varint(len(head) + name) + head  # node 0 of a graph
        with open(path, "wb") as file:
            file.write(b"\x08\x08\x3a" + varint(len(node) + name) + node)
            for _ in range(name >> 20):
                file.write(b"x" * 2**20)
        return load(path)


def types_that_differ() -> object:
    g = Graph()
    x, y = g.input("x", (2,)), g.input("y", (2,), "float64")
    g.output(g.op("Add", x, y))
    return load(g.model())


def type_not_taken() -> object:
    return load(single("Erf", {"x": np.zeros(2, bool)}))


def wrong_number_of_inputs() -> object:
    return load(single("Add", {"x": np.zeros(2, "float32")}))


def unknown_attribute() -> object:
    return load(single("Relu", {"x": np.zeros(2, "float32")}, slope=3))


def wrong_kind_of_attribute() -> object:
    return load(single("Softmax", {"x": np.zeros((2, 2), "float32")}, axis=1.5))


def missing_attribute() -> object:
    return load(single("Concat", {"x": np.zeros((2, 2), "float32")}))


def wrong_shapes() -> object:
    a, b = np.zeros((2, 3), "float32"), np.zeros((4, 5), "float32")
    return load(single("MatMul", {"a": a, "b": b}))


def unknown_domain() -> object:
    g = Graph()
    x = g.input("x", (2,))
    g.output(g.op("FusedConv", x, domain="com.example"))
    model = g.model()
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    return load(model)


def unknown_operator() -> object:
    return load(single("Frobnicate", {"x": np.zeros(2, "float32")}))


def future() -> object:
    return load(single("Relu", {"x": np.zeros(2, "float32")}, opset=999))


def old_softmax() -> object:
    return load(single("Softmax", {"x": np.zeros((2, 2), "float32")}, opset=11))


def all_at_once() -> object:
    g = Graph()
    x = g.input("x", (4,))
    a, _, _ = g.op("DynamicQuantizeLinear", x, outputs=3)
    g.nodes[-1].name = "quantise"
    b = g.op("Unique", x)
    c = g.op("StringSplit", "s", outputs=2)[0]
    g.input("s", (2,), "float32")
    for name in (a, b, c):
        g.output(name)
    g.opset = 20
    return load(g.model())


def half_precision() -> object:
    g = Graph()
    x = g.input("x", (4,), "float16")
    y = g.op("Mul", g.op("Relu", x), g.const(np.float16([2.0])))
    g.output(g.op("Cast", y, to=TensorProto.FLOAT))
    return load(g.model())


def a_sequence() -> object:
    g = Graph()
    info = onnx.ValueInfoProto(name="many")
    info.type.sequence_type.elem_type.tensor_type.elem_type = 1
    g.inputs.append(info)
    g.output(g.op("Relu", "many"))
    return load(g.model())


def shape_from_data() -> object:
    g = Graph()
    x, s = g.input("x", (6,)), g.input("s", (2,), "int64")
    g.output(g.op("Reshape", x, s))
    return load(g.model())


def nonzero_of_data() -> object:
    return load(single("NonZero", {"x": np.zeros(4, "float32")}))


def branch_on_data() -> object:
    g = Graph()
    c = g.input("c", (), "bool")
    arms = []
    for _ in range(2):
        inner = Graph()
        inner.output(inner.op("Constant", value_float=1.0))
        arms.append(inner.model().graph)
    g.output(g.op("If", c, then_branch=arms[0], else_branch=arms[1]))
    return load(g.model())


def loop() -> object:
    g = Graph()
    g.input("x", (2,))
    inner = Graph()
    inner.input("i", (), "int64")
    inner.input("go", (), "bool")
    inner.output(inner.op("Identity", "go"), "bool")
    g.nodes.append(helper.make_node("Loop", ["n", ""], [], body=inner.model().graph, name="loop"))
    g.const(np.array(3), "n")
    g.nodes[-1].output.append("y")
    g.output("y")
    return load(g.model())


def calls_itself() -> object:
    g = Graph()
    g.output(g.op("f", g.input("x", (2,)), domain="own"))
    model = g.model()
    body = [helper.make_node("f", ["a"], ["b"], domain="own")] * 1
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    model.functions.append(helper.make_function("own", "f", ["a"], ["b"], body, opsets))
    model.opset_import.append(helper.make_opsetid("own", 1))
    return load(model)


def grows_without_end() -> object:
    """Functions that call the next one twice, 30 deep: 2^30 nodes."""
    g = Graph()
    g.output(g.op("f0", g.input("x", (2,)), domain="own"))
    model = g.model()
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    for n in range(30):
        operator, domain = (f"f{n + 1}", "own") if n < 29 else ("Relu", "")
        body = [
            helper.make_node(operator, ["a"], ["t"], domain=domain),
            helper.make_node(operator, ["t"], ["b"], domain=domain),
        ]
        model.functions.append(helper.make_function("own", f"f{n}", ["a"], ["b"], body, opsets))
    model.opset_import.append(helper.make_opsetid("own", 1))
    return load(model)


def _folding(build: Callable[[Graph], str]) -> object:
    g = Graph()
    x = g.input("x", (1,))
    g.output(g.op("Add", x, g.op("Cast", build(g), to=1)))
    return load(g.model())


def huge_constant_of_shape() -> object:
    return _folding(lambda g: str(g.op("ConstantOfShape", g.const(np.array([2**31, 2**31])))))


def huge_expand() -> object:
    return _folding(
        lambda g: str(g.op("Expand", g.const(np.array([1])), g.const(np.array([2**45]))))
    )


def huge_range() -> object:
    return _folding(lambda g: str(g.op("Range", *[g.const(np.array(n)) for n in (0, 2**50, 1)])))


def huge_tile() -> object:
    return _folding(
        lambda g: str(g.op("Tile", g.const(np.array([1, 2])), g.const(np.array([2**62]))))
    )


def folds_without_end() -> object:
    def build(g: Graph) -> str:
        made = g.op("ConstantOfShape", g.const(np.array([2**20])))
        for _ in range(200):
            made = g.op("Add", made, made)
        return str(made)

    return _folding(build)


def _outside(location: str, folder: bool = True, **more: str) -> object:
    with tempfile.TemporaryDirectory() as root:
        inside = Path(root) / "weights"
        inside.mkdir()
        (Path(root) / "secret").write_bytes(b"12345678")
        (inside / "good.bin").write_bytes(np.float32([1, 2]).tobytes())
        os.symlink(Path(root) / "secret", inside / "link.bin")
        os.symlink(root, inside / "up")
        g = Graph()
        t = TensorProto(name="w", data_type=1, dims=[2], data_location=TensorProto.EXTERNAL)
        place = location.replace("ROOT", root)
        for key, value in {"location": place, **more}.items():
            t.external_data.add(key=key, value=value)
        g.initialisers.append(t)
        g.output(g.op("Add", g.input("x", (2,)), "w"))
        try:
            made = load(g.model(), external_data=inside if folder else None)
        except UserError as error:
            raise type(error)(str(error).replace(root, "ROOT")) from error
        return f"parameters {made.parameters['w'].tolist()}"


def external_good() -> object:
    return _outside("good.bin")


def external_not_asked_for() -> object:
    return _outside("good.bin", folder=False)


def external_parent() -> object:
    return _outside("../secret")


def external_absolute() -> object:
    return _outside("ROOT/secret")


def external_link() -> object:
    return _outside("link.bin")


def external_linked_folder() -> object:
    return _outside("up/secret")


def external_folder() -> object:
    return _outside(".")


def external_missing() -> object:
    return _outside("none.bin")


def external_past_the_end() -> object:
    return _outside("good.bin", offset="4", length="8")


def external_negative() -> object:
    return _outside("good.bin", offset="-4")


CASES: Final[dict[str, Callable[[], object]]] = {
    name: f
    for name, f in list(globals().items())
    if callable(f) and getattr(f, "__module__", "") == __name__ and not name.startswith("_")
    and name not in ("relu", "main")
}  # fmt: skip
HEAVY: Final = ("million_nodes", "many_nodes", "long_name", "grows_without_end")
"""Cases that have a process of their own."""


def main(names: list[str]) -> None:
    """Load each case and print what came of it."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    said = {}
    for name in names:
        try:
            said[name] = f"loaded: {CASES[name]()}"
        except UserError as error:
            said[name] = f"{type(error).__name__}: {error}"
    print(json.dumps(said))


if __name__ == "__main__":
    main(sys.argv[1:])
