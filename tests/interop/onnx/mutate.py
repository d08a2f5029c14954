"""Mutated ONNX files: each is refused in words, or a model that verifies.

`python -m tests.interop.onnx.mutate --seed 1 --count 1000`; children with 2 GB of memory load them.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import resource
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import onnx

from tensorad.errors import UserError
from tensorad.interop.onnx import load
from tensorad.interop.onnx.packages import DecodeError
from tensorad.ir.reference.verify import verify
from tests.interop.onnx.graphs import Graph
from tests.interop.onnx.networks import NETWORKS

SECONDS: Final = 60
"""For one file."""
MEMORY: Final = 2 * 2**30
_BATCH: Final = 200
_NUMBERS: Final = (0, 1, -1, 2, 3, 7, 64, 255, -5, 2**31 - 1, 2**31, -(2**31), 2**62, -(2**62))


def seeds() -> list[bytes]:
    """Files that are mutated: the networks, and small graphs of many operators."""
    models = [make().model for make in NETWORKS.values()]
    models += [_shapes(), _folds(), _windows(), _branches(), _states(), _samples()]
    return [m.SerializeToString() for m in models]


def _shapes() -> Any:
    g = Graph(18)
    x = g.input("x", ("n", 4, 6))
    y = g.op("Pad", x, g.const(np.array([0, 1, 0, 0, 0, 2])))
    y = g.op("Slice", y, g.const(np.array([1])), g.const(np.array([4])), g.const(np.array([2])))
    y = g.op("Tile", y, g.const(np.array([1, 2, 1])))
    y = g.op("Concat", *g.op("Split", y, g.const(np.array([4, 6])), outputs=2, axis=1), axis=1)
    y = g.op("CumSum", y, g.const(np.array(1)))
    y = g.op("Squeeze", g.op("Unsqueeze", y, g.const(np.array([0]))), g.const(np.array([0])))
    g.output(g.op("Expand", g.op("ReduceMax", y, g.const(np.array([1]))), g.op("Shape", y)))
    return g.model()


def _folds() -> Any:
    g = Graph(18)
    x = g.input("x", ("n", 4))
    n = g.op("Gather", g.op("Shape", x), g.const(np.array(0)))
    rows = g.op("Range", g.const(np.array(0)), g.const(np.array(4)), g.const(np.array(1)))
    rows = g.op("Mod", g.op("Add", rows, g.const(np.array(5))), g.const(np.array(3)))
    table = g.op("ConstantOfShape", g.const(np.array([4, 4])))
    table = g.op("Add", table, g.op("Cast", rows, to=1))
    even = g.op("Less", rows, g.const(np.array(2)))
    y = g.op(
        "Where", even, g.op("MatMul", x, table), g.op("Einsum", x, table, equation="ij,jk->ik")
    )
    y = g.op("Reshape", y, g.op("Concat", g.op("Unsqueeze", n, g.const(np.array([0]))),
                                g.const(np.array([2, -1])), axis=0))  # fmt: skip
    g.output(g.op("ReduceSum", y, g.const(np.array([1])), keepdims=0))
    return g.model()


def _windows() -> Any:
    g = Graph(19)
    x = g.input("x", (1, 4, 7, 6))
    y = g.op("Conv", x, g.weight(4, 2, 3, 3), g.weight(4), group=2, dilations=[2, 1],
             pads=[2, 1, 2, 1], strides=[1, 2])  # fmt: skip
    y = g.op("AveragePool", y, kernel_shape=[2, 2], ceil_mode=1, auto_pad="SAME_UPPER")
    y = g.op("MaxPool", g.op("LRN", y, size=3), kernel_shape=[2, 1], dilations=[2, 1])
    y = g.op("LayerNormalization", g.op("LeakyRelu", y), g.weight(3), axis=-1)
    g.output(g.op("ArgMax", g.op("LogSoftmax", y, axis=1), axis=2), "int64")
    return g.model()


def _branches() -> Any:
    g = Graph(18)
    x = g.input("x", (3,))
    arms = []
    for k in range(2):
        inner = Graph(18)
        inner.output(
            inner.op("Mul" if k else "Add", x, inner.const(np.float32([k, 2, 3]), f"c{k}"))
        )
        arms.append(inner.model().graph)
    condition = g.op("Greater", g.op("Size", x), g.const(np.array(2)))
    made = g.op("If", condition, then_branch=arms[0], else_branch=arms[1])
    g.output(g.op("Clip", made, g.const(np.float32(-1)), g.const(np.float32(1))))
    return g.model()


def _states() -> Any:
    g = Graph(20)
    x = g.input("x", ("n", 2, 3))
    told = {"hidden_size": 4, "direction": "bidirectional"}
    weights = [g.weight(2, 16, 3), g.weight(2, 16, 4), g.weight(2, 32)]
    y, state, _ = g.op("LSTM", x, *weights, outputs=3, clip=3.0, **told)
    weights = [g.weight(1, 12, 4), g.weight(1, 12, 4)]
    lengths = g.const(np.array([2, 2], np.int32))
    _, other = g.op("GRU", state, *weights, "", lengths, outputs=2, hidden_size=4,
                    activations=["HardSigmoid", "Elu"], activation_alpha=[0.3, 0.5])  # fmt: skip
    values, _ = g.op("TopK", other, g.const(np.array([2])), outputs=2, axis=2)
    moved = g.op("ReverseSequence", values, g.const(np.array([1, 1])), time_axis=0, batch_axis=1)
    g.output(g.op("Add", moved, g.op("ReduceMax", y, keepdims=0)))
    return g.model()


def _samples() -> Any:
    g = Graph(20)
    x = g.input("x", (1, 2, 6, 6))
    y, places = g.op("MaxPool", x, outputs=2, kernel_shape=[2, 2], strides=[2, 2])
    y = g.op("MaxUnpool", y, places, kernel_shape=[2, 2], strides=[2, 2])
    y = g.op("GridSample", y, g.weight(1, 4, 5, 2), mode="cubic", padding_mode="reflection")
    y = g.op("DeformConv", y, g.weight(2, 2, 2, 2), g.weight(1, 8, 3, 4))
    y = g.op("RoiAlign", y, g.weight(2, 4), g.const(np.array([0, 0])), sampling_ratio=2,
             output_height=2, output_width=2)  # fmt: skip
    y = g.op("DFT", g.op("Unsqueeze", y, g.const(np.array([4]))), "", g.const(np.array(2)))
    y = g.op("Det", g.op("LpPool", g.op("ReduceSum", y, g.const(np.array([4])), keepdims=0),
                         kernel_shape=[1, 1], p=3))  # fmt: skip
    bits = g.op("BitwiseXor", g.op("Cast", y, to=6), g.const(np.array(5, np.int32)))
    g.output(g.op("BitShift", g.op("Cast", bits, to=2), g.const(np.array(1, np.uint8)),
                  direction="LEFT"), "uint8")  # fmt: skip
    return g.model()


# mutations


def _bits(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _cut(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] if rng.random() < 0.5 else data[:at] + data[at + rng.randrange(1, 40) :]


def _splice(data: bytes, rng: random.Random) -> bytes:
    a, b = rng.randrange(len(data)), rng.randrange(len(data))
    return data[:a] + data[b : b + rng.randrange(1, 60)] + data[a:]


def _of_nodes(data: bytes, rng: random.Random) -> bytes:
    model = onnx.ModelProto()
    model.ParseFromString(data)
    nodes = model.graph.node
    n = rng.randrange(len(nodes))
    kind = rng.randrange(4)
    if kind == 0:
        del nodes[n]
    elif kind == 1:
        nodes.append(nodes[n])
    elif kind == 2:
        other = rng.choice(nodes)
        nodes[n].op_type = other.op_type
        if rng.random() < 0.5:
            del nodes[n].attribute[:]
            nodes[n].attribute.extend(other.attribute)
    else:
        other = rng.choice(nodes)
        names = [*other.input, *other.output, ""]
        for side in (nodes[n].input, nodes[n].output):
            if len(side) and rng.random() < 0.7:
                side[rng.randrange(len(side))] = rng.choice(names)
    return bytes(model.SerializeToString())


def _of_attributes(data: bytes, rng: random.Random) -> bytes:
    model = onnx.ModelProto()
    model.ParseFromString(data)
    own = [a for n in model.graph.node for a in n.attribute]
    a = rng.choice(own)
    kind = rng.randrange(5)
    if kind == 0:
        a.type = rng.randrange(16)
    elif kind == 1 and len(a.ints):
        a.ints[rng.randrange(len(a.ints))] = rng.choice(_NUMBERS)
    elif kind == 2:
        a.i = rng.choice(_NUMBERS)
    elif kind == 3:
        a.f = rng.choice((0.0, -1.0, 1e38, float("nan"), float("inf")))
    else:
        a.name = rng.choice(own).name
    return bytes(model.SerializeToString())


def _of_values(data: bytes, rng: random.Random) -> bytes:
    model = onnx.ModelProto()
    model.ParseFromString(data)
    graph = model.graph
    if rng.random() < 0.3:
        info = rng.choice(graph.input).type.tensor_type
        if rng.random() < 0.4:
            info.elem_type = rng.randrange(27)
        elif len(info.shape.dim):
            rng.choice(info.shape.dim).dim_value = rng.choice(_NUMBERS)
        return bytes(model.SerializeToString())
    t = rng.choice(graph.initializer)
    kind = rng.randrange(4)
    if kind == 0:
        t.data_type = rng.randrange(27)
    elif kind == 1 and len(t.dims):
        t.dims[rng.randrange(len(t.dims))] = rng.choice(_NUMBERS)
    elif kind == 2 and t.data_type == 7 and len(t.raw_data) >= 8:
        values = np.frombuffer(t.raw_data, np.int64).copy()
        values[rng.randrange(len(values))] = rng.choice(_NUMBERS)
        t.raw_data = values.tobytes()
    else:
        t.name = rng.choice(graph.initializer).name
    return bytes(model.SerializeToString())


MUTATIONS: Final[tuple[Callable[[bytes, random.Random], bytes], ...]] = (
    _bits, _cut, _splice, _of_nodes, _of_attributes, _of_values,
)  # fmt: skip


def mutated(files: list[bytes], seed: int, number: int) -> bytes:
    """The file of a number, by a seed."""
    rng = random.Random(f"{seed} {number}")
    data = rng.choice(files)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        try:
            data = rng.choice(MUTATIONS)(data, rng)
        except (DecodeError, IndexError, ValueError):  # no file any more, or nothing to change
            break
    return data


def outcome(data: bytes) -> str:
    """ "refused", or "model" if it verifies."""
    try:
        made = load(data)
    except UserError:
        return "refused"
    verify(made.outputs.values())
    return "model"


def _child(seed: int, numbers: range, results: Any) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    files = seeds()
    for number in numbers:
        results.put((number, "began"))
        signal.alarm(SECONDS)
        results.put((number, outcome(mutated(files, seed, number))))
        signal.alarm(0)


def campaign(seed: int, count: int) -> tuple[Counter[str], list[int]]:
    """Outcomes of many files, and the numbers of those that ended a child."""
    found: Counter[str] = Counter()
    wrong: list[int] = []
    context = multiprocessing.get_context("fork")
    start = 0
    while start < count:
        results = context.Queue()
        child = context.Process(
            target=_child, args=(seed, range(start, min(count, start + _BATCH)), results)
        )
        child.start()
        last = start
        for number, what in _drained(child, results):
            last = number
            if what != "began":
                found[what] += 1
        child.join()
        start = min(count, start + _BATCH)
        if child.exitcode:
            found["died"] += 1
            wrong.append(last)
            start = last + 1
    return found, wrong


def _drained(child: Any, results: Any) -> Iterator[tuple[int, str]]:
    while child.is_alive() or not results.empty():
        if results.empty():
            time.sleep(0.01)
            continue
        yield results.get()


def main() -> None:
    """Run a campaign and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--only", type=int)
    given = parser.parse_args()
    if given.only is not None:
        print(outcome(mutated(seeds(), given.seed, given.only)))
        return
    found, wrong = campaign(given.seed, given.count)
    print(dict(found), "wrong:", wrong)


if __name__ == "__main__":
    main()
