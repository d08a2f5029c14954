"""Networks as PyTorch exports them, of small widths and random weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from tests.interop.onnx.graphs import Array, Graph


class Network(NamedTuple):
    """A model, with arrays for its inputs.

    Attributes:
        wrt: names of inputs and parameters whose gradients are tested.
    """

    model: Any
    inputs: dict[str, Array]
    wrt: tuple[str, ...]


def _image(g: Graph, size: int = 16) -> dict[str, Array]:
    return {"x": g.rng.normal(size=(1, 3, size, size)).astype(g.dtype)}


def _batch_norm(g: Graph, x: str, channels: int) -> str:
    return str(g.op("BatchNormalization", x, g.weight(channels, shift=1.0), g.weight(channels),
                    g.weight(channels), g.const(g.rng.uniform(0.5, 1.5, channels).astype(g.dtype)),
                    epsilon=1e-5))  # fmt: skip


def _conv(g: Graph, x: str, into: int, out: int, kernel: int, stride: int = 1, groups: int = 1,
          name: str = "") -> str:  # fmt: skip
    weight = g.weight(out, into // groups, kernel, kernel, name=name)
    return str(g.op("Conv", x, weight, kernel_shape=[kernel] * 2, strides=[stride] * 2,
                    pads=[kernel // 2] * 4, group=groups, dilations=[1, 1]))  # fmt: skip


def resnet(dtype: str = "float32") -> Network:
    """ResNet-50: bottleneck blocks with projections."""
    g = Graph(17, 1, dtype)
    inputs = _image(g)
    x = g.input("x", ("batch", 3, 16, 16))
    x = g.op("Relu", _batch_norm(g, _conv(g, x, 3, 4, 7, 2, name="stem"), 4))
    x = g.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    into = 4
    for stage, width in enumerate((4, 6)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            y = g.op("Relu", _batch_norm(g, _conv(g, x, into, width, 1), width))
            y = g.op("Relu", _batch_norm(g, _conv(g, y, width, width, 3, stride), width))
            y = _batch_norm(g, _conv(g, y, width, 2 * width, 1), 2 * width)
            if into != 2 * width or stride > 1:
                x = _batch_norm(g, _conv(g, x, into, 2 * width, 1, stride), 2 * width)
            x = g.op("Relu", g.op("Add", y, x))
            into = 2 * width
    x = g.op("Flatten", g.op("GlobalAveragePool", x), axis=1)
    g.output(
        g.op("Gemm", x, g.weight(5, into, name="fc"), g.weight(5), transB=1, alpha=1.0, beta=1.0)
    )
    return Network(g.model(), inputs, ("x", "stem", "fc"))


def mobilenet_v2(dtype: str = "float32") -> Network:
    """MobileNetV2: inverted residuals with clipped activations."""
    g = Graph(13, 2, dtype)
    inputs = _image(g)
    x = g.input("x", (1, 3, 16, 16))
    low, high = g.const(np.array(0.0, dtype)), g.const(np.array(6.0, dtype))
    x = g.op("Clip", _batch_norm(g, _conv(g, x, 3, 4, 3, 2, name="stem"), 4), low, high)
    into = 4
    for out, stride, expansion in ((4, 1, 1), (6, 2, 3), (6, 1, 3)):
        y, wide = x, into * expansion
        if expansion > 1:
            y = g.op("Clip", _batch_norm(g, _conv(g, x, into, wide, 1), wide), low, high)
        y = g.op("Clip", _batch_norm(g, _conv(g, y, wide, wide, 3, stride, wide), wide), low, high)
        y = _batch_norm(g, _conv(g, y, wide, out, 1), out)
        x = g.op("Add", x, y) if stride == 1 and into == out else y
        into = out
    x = g.op("ReduceMean", x, axes=[2, 3], keepdims=0)
    g.output(g.op("Gemm", x, g.weight(5, into, name="fc"), g.weight(5), transB=1))
    return Network(g.model(), inputs, ("x", "stem", "fc"))


def mobilenet_v3(dtype: str = "float32") -> Network:
    """MobileNetV3: squeeze and excitation, hard activations."""
    g = Graph(14, 3, dtype)
    inputs = _image(g)
    x = g.input("x", (1, 3, 16, 16))
    x = g.op("HardSwish", _batch_norm(g, _conv(g, x, 3, 4, 3, 2, name="stem"), 4))
    for kernel, wide, swish in ((3, 8, False), (5, 12, True)):
        act = "HardSwish" if swish else "Relu"
        y = g.op(act, _batch_norm(g, _conv(g, x, 4, wide, 1), wide))
        y = g.op(act, _batch_norm(g, _conv(g, y, wide, wide, kernel, 1, wide), wide))
        s = g.op("GlobalAveragePool", y)
        s = g.op("Relu", g.op("Conv", s, g.weight(2, wide, 1, 1), g.weight(2)))
        s = g.op("HardSigmoid", g.op("Conv", s, g.weight(wide, 2, 1, 1), g.weight(wide)),
                 alpha=1 / 6)  # fmt: skip
        y = _batch_norm(g, _conv(g, g.op("Mul", s, y), wide, 4, 1), 4)
        x = g.op("Add", x, y)
    x = g.op("Flatten", g.op("GlobalAveragePool", x), axis=1)
    x = g.op("HardSwish", g.op("Gemm", x, g.weight(6, 4, name="fc"), g.weight(6), transB=1))
    g.output(g.op("Gemm", x, g.weight(5, 6), g.weight(5), transB=1))
    return Network(g.model(), inputs, ("x", "stem", "fc"))


def _layer_norm(g: Graph, x: str, width: int) -> str:
    """LayerNormalization as exports before version 17 have it."""
    distance = g.op("Sub", x, g.op("ReduceMean", x, axes=[-1]))
    square = g.op("Pow", distance, g.const(np.array(2.0, g.dtype)))
    variance = g.op("ReduceMean", square, axes=[-1])
    root = g.op("Sqrt", g.op("Add", variance, g.const(np.array(1e-5, g.dtype))))
    scaled = g.op("Mul", g.op("Div", distance, root), g.weight(width, shift=1.0))
    return str(g.op("Add", scaled, g.weight(width)))


def _heads(g: Graph, x: str, like: str, heads: int, width: int) -> str:
    """(batch, rows, width) -> (batch, heads, rows, width / heads), by the shape of `like`."""
    shape = g.op("Shape", like)
    extents = [
        g.op("Unsqueeze", g.op("Gather", shape, g.fixed(np.array(d)), axis=0),
             g.fixed(np.array([0])))
        for d in (0, 1)
    ]  # fmt: skip
    rest = [g.fixed(np.array([n])) for n in (heads, width // heads)]
    split = g.op("Reshape", x, g.op("Concat", *extents, *rest, axis=0))
    return str(g.op("Transpose", split, perm=[0, 2, 1, 3]))


def _joined(g: Graph, x: str, width: int) -> str:
    turned = g.op("Transpose", x, perm=[0, 2, 1, 3])
    return str(g.op("Reshape", turned, g.fixed(np.array([0, 0, width]))))


def _dense(g: Graph, x: str, into: int, out: int, name: str = "") -> str:
    return str(g.op("Add", g.op("MatMul", x, g.weight(into, out, name=name)), g.weight(out)))


def _gelu(g: Graph, x: str) -> str:
    """Gelu by Erf, as exports before version 20 have it."""
    root = g.op("Div", x, g.const(np.array(np.sqrt(2.0), g.dtype)))
    one = g.op("Add", g.op("Erf", root), g.const(np.array(1.0, g.dtype)))
    return str(g.op("Mul", g.op("Mul", x, one), g.const(np.array(0.5, g.dtype))))


def bert(dtype: str = "float32") -> Network:
    """BERT: embeddings of words, positions and types, a mask, layers of attention, a pooler."""
    g = Graph(14, 4, dtype)
    width, heads, words = 8, 2, 11
    ids = g.input("input_ids", ("batch", "rows"), "int64")
    mask = g.input("attention_mask", ("batch", "rows"), "int64")
    kinds = g.input("token_type_ids", ("batch", "rows"), "int64")
    inputs = {
        "input_ids": np.array([[1, 4, 9, 2, 0], [3, 3, 10, 5, 7]]),
        "attention_mask": np.array([[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]),
        "token_type_ids": np.array([[0, 0, 1, 1, 1], [0, 1, 1, 0, 0]]),
    }
    rows = g.op("Unsqueeze", g.op("Gather", g.op("Shape", ids), g.fixed(np.array(1)), axis=0),
                g.fixed(np.array([0])))  # fmt: skip
    places = g.op("Slice", g.const(np.arange(16)[None]), g.fixed(np.array([0])), rows,
                  g.fixed(np.array([1])), g.fixed(np.array([1])))  # fmt: skip
    x = g.op("Gather", g.weight(words, width, name="words"), ids)
    x = g.op("Add", x, g.op("Gather", g.weight(2, width), kinds))
    x = g.op("Add", x, g.op("Gather", g.weight(16, width, name="places"), places))
    x = _layer_norm(g, x, width)
    wide = g.op(
        "Unsqueeze", g.op("Unsqueeze", mask, g.fixed(np.array([1]))), g.fixed(np.array([2]))
    )
    away = g.op(
        "Sub", g.const(np.array(1.0, dtype)), g.op("Cast", wide, to=11 if dtype == "float64" else 1)
    )
    away = g.op("Mul", away, g.const(np.array(-10000.0, dtype)))
    for layer in range(2):
        q, k, v = (_dense(g, x, width, width, f"{n}_{layer}") for n in "qkv")
        q, v = _heads(g, q, x, heads, width), _heads(g, v, x, heads, width)
        k = g.op("Transpose", _heads(g, k, x, heads, width), perm=[0, 1, 3, 2])
        score = g.op("Div", g.op("MatMul", q, k), g.const(np.array(2.0, dtype)))
        weights = g.op("Softmax", g.op("Add", score, away), axis=-1)
        y = _joined(g, g.op("MatMul", weights, v), width)
        x = _layer_norm(g, g.op("Add", _dense(g, y, width, width), x), width)
        y = _dense(g, _gelu(g, _dense(g, x, width, 12)), 12, width)
        x = _layer_norm(g, g.op("Add", y, x), width)
    first = g.op("Gather", x, g.fixed(np.array(0)), axis=1)
    pooled = g.op("Tanh", g.op("Gemm", first, g.weight(width, width), g.weight(width), transB=1))
    g.output(x)
    g.output(pooled)
    return Network(g.model(), inputs, ("words", "q_0", "places"))


def vit(dtype: str = "float32") -> Network:
    """ViT: patches by a convolution, a class token, LayerNormalization and Gelu as operators."""
    g = Graph(20, 5, dtype)
    width, heads = 8, 2
    inputs = {"x": g.rng.normal(size=(2, 3, 8, 8)).astype(dtype)}
    x = g.input("x", ("batch", 3, 8, 8))
    patches = g.op("Conv", x, g.weight(width, 3, 4, 4, name="patches"), g.weight(width),
                   kernel_shape=[4, 4], strides=[4, 4])  # fmt: skip
    batch = g.op("Slice", g.op("Shape", x), g.fixed(np.array([0])), g.fixed(np.array([1])))
    target = g.op("Concat", batch, g.fixed(np.array([width, -1])), axis=0)
    rows = g.op("Transpose", g.op("Reshape", patches, target), perm=[0, 2, 1])
    token = g.op("Expand", g.weight(1, 1, width, name="token"),
                 g.op("Concat", batch, g.fixed(np.array([1, 1])), axis=0))  # fmt: skip
    x = g.op("Add", g.op("Concat", token, rows, axis=1), g.weight(1, 5, width))
    for _ in range(2):
        y = g.op("LayerNormalization", x, g.weight(width, shift=1.0), g.weight(width), epsilon=1e-6)
        parts = g.op("Split", _dense(g, y, width, 3 * width), outputs=3, axis=-1, num_outputs=3)
        q, k, v = (_heads(g, p, x, heads, width) for p in parts)
        score = g.op("Mul", g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 3, 2])),
                     g.const(np.array(0.5, dtype)))  # fmt: skip
        y = _joined(g, g.op("MatMul", g.op("Softmax", score), v), width)
        x = g.op("Add", x, _dense(g, y, width, width))
        y = g.op("LayerNormalization", x, g.weight(width, shift=1.0), g.weight(width), epsilon=1e-6)
        y = _dense(g, g.op("Gelu", _dense(g, y, width, 12)), 12, width)
        x = g.op("Add", x, y)
    x = g.op("LayerNormalization", x, g.weight(width, shift=1.0), g.weight(width))
    x = g.op("Gather", x, g.fixed(np.array(0)), axis=1)
    g.output(g.op("Gemm", x, g.weight(5, width, name="fc"), g.weight(5), transB=1))
    return Network(g.model(), inputs, ("x", "patches", "token", "fc"))


def gpt2(dtype: str = "float32") -> Network:
    """GPT-2: a causal mask by Where, products by Gemm of rows, Gelu by Tanh, tied weights."""
    g = Graph(13, 6, dtype)
    width, heads, words = 8, 2, 11
    ids = g.input("input_ids", ("batch", "rows"), "int64")
    inputs = {"input_ids": np.array([[1, 4, 9, 2], [3, 3, 10, 5]])}
    rows = g.op("Gather", g.op("Shape", ids), g.fixed(np.array(1)), axis=0)
    places = g.op("Range", g.fixed(np.array(0)), rows, g.fixed(np.array(1)))
    table = g.weight(words, width, name="words")
    x = g.op("Add", g.op("Gather", table, ids), g.op("Gather", g.weight(16, width), places))
    down = g.op("Unsqueeze", places, g.fixed(np.array([1])))
    across = g.op("Unsqueeze", places, g.fixed(np.array([0])))
    seen = g.op("Not", g.op("Less", down, across))
    for _ in range(2):
        y = _rows(g, _layer_norm(g, x, width), width, 3 * width)
        q, k, v = (_heads(g, p, x, heads, width) for p in g.op("Split", y, outputs=3, axis=2))
        score = g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 3, 2]))
        score = g.op("Div", score, g.const(np.array(2.0, dtype)))
        score = g.op("Where", seen, score, g.const(np.array(np.finfo(dtype).min, dtype)))
        y = _joined(g, g.op("MatMul", g.op("Softmax", score, axis=-1), v), width)
        x = g.op("Add", x, _rows(g, y, width, width))
        y = _rows(g, _gelu_tanh(g, _rows(g, _layer_norm(g, x, width), width, 12)), 12, width)
        x = g.op("Add", x, y)
    x = _layer_norm(g, x, width)
    g.output(g.op("MatMul", x, g.op("Transpose", table, perm=[1, 0])))
    return Network(g.model(), inputs, ("words",))


def _rows(g: Graph, x: str, into: int, out: int) -> str:
    """A product of all rows as one matrix, as GPT-2's layers are exported."""
    shape = g.op("Shape", x)
    flat = g.op("Reshape", x, g.fixed(np.array([-1, into])))
    made = g.op("Gemm", flat, g.weight(into, out), g.weight(out))
    lead = g.op("Slice", shape, g.fixed(np.array([0])), g.fixed(np.array([2])))
    return str(g.op("Reshape", made, g.op("Concat", lead, g.fixed(np.array([out])), axis=0)))


def _gelu_tanh(g: Graph, x: str) -> str:
    cube = g.op("Pow", x, g.const(np.array(3.0, g.dtype)))
    inner = g.op("Add", x, g.op("Mul", cube, g.const(np.array(0.044715, g.dtype))))
    inner = g.op("Mul", inner, g.const(np.array(0.7978845608, g.dtype)))
    one = g.op("Add", g.op("Tanh", inner), g.const(np.array(1.0, g.dtype)))
    return str(g.op("Mul", g.op("Mul", x, g.const(np.array(0.5, g.dtype))), one))


NETWORKS: Final[dict[str, Callable[..., Network]]] = {
    f.__name__: f for f in (resnet, mobilenet_v2, mobilenet_v3, bert, vit, gpt2)
}
