"""Attention: triangles of masks, rotations by positions, and forms of it with a state."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any, Final

import numpy as np

from tensorad import te, topi
from tensorad.errors import OnnxError
from tensorad.interop.onnx.calls import Call
from tensorad.interop.onnx.operators.convolution import numbers
from tensorad.interop.onnx.operators.folding import Handler
from tensorad.interop.onnx.operators.shapes import Cut, cut
from tensorad.interop.onnx.values import Known, Value, count_of
from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor, dim_expr, dim_of, format_shape
from tensorad.program.loops import scan
from tensorad.topi.definition import define


def trilu(call: Call) -> Value:
    """The upper or lower triangle of the last two axes."""
    upper = call.flag("upper", True)
    if call.has(1) and count_of(call.shape(1)) != 1:
        raise OnnxError("its diagonal must be one integer.")
    told = call.setting(1) if call.has(1) else 0
    value = call.value(0)
    if isinstance(value, Known) and not value.is_symbolic and told is not None:
        if value.array.ndim < 2:
            raise OnnxError("its input must have two axes or more.")
        return Known((np.triu if upper else np.tril)(value.array, int(told)), value.dtype)
    k = topi.reshape(call.tensor(1), ()) if told is None else int(told)
    return topi.trilu(call.tensor(0), k, upper)


def rotary_embedding(call: Call) -> Value:
    """Pairs of elements of each head turned by angles of their positions."""
    return topi.nn.rotary_embedding(
        call.tensor(0),
        call.tensor(1),
        call.tensor(2),
        call.optional(3),
        call.flag("interleaved", False),
        call.integer("num_heads", 0),
        call.integer("rotary_embedding_dim", 0),
    )


_RULES: Final = ("linear", "gated", "delta", "gated_delta")


def causal_convolution(call: Call) -> list[Value]:
    """A convolution of each channel with what came before, and what comes before the next one."""
    x, weight = call.tensor(0), call.tensor(1)
    channels = x.shape[1] if x.ndim == 3 else None
    if weight.ndim != 3 or not isinstance(channels, int) or weight.shape[:2] != (channels, 1):
        raise OnnxError(
            f"a weight {format_shape(weight.shape)} is not one row for each channel of "
            f"{format_shape(x.shape)}."
        )
    (taps,) = numbers(weight.shape[2:], "the taps of its weight")
    activation = call.word("activation", "none", ("none", "silu", "swish"))
    if taps < 1:
        raise OnnxError("its weight has no taps.")
    wanted = (x.shape[0], channels, taps - 1)
    past = call.tensor(3) if call.has(3) else topi.full(wanted, 0.0, x.dtype)
    if past.ndim != 3 or not all(map(same_dim, past.shape, wanted)):
        raise OnnxError(f"its state {format_shape(past.shape)} is not {format_shape(wanted)}.")
    padded = topi.concatenate([past, x], 2) if taps > 1 else x

    def body(n: Expr, c: Expr, t: Expr) -> Expr:
        k = te.reduce_axis(taps, name="k")
        return te.sum(padded[n, c, t + k] * weight[c, 0, k], axis=k)

    made = define(x.shape, body, "causal_convolution")
    if call.has(2):
        made = topi.nn.bias_add(made, call.tensor(2), 1)
    if activation != "none":
        made = topi.nn.silu(made)
    end = padded.shape[2]
    state = cut(padded, {2: Cut(end, dim_of(dim_expr(end) - (taps - 1)), end, 1)})
    return [made, state]


class _Heads:
    """Inputs of linear attention by time, batch and head."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.readers, self.heads = call.integer("q_num_heads", 0), call.integer("kv_num_heads", 0)
        if self.heads < 1 or self.readers < 1 or self.readers % self.heads:
            raise OnnxError(f"{self.readers} heads do not read {self.heads} heads.")
        self.query = self.split(0, self.readers)
        self.key, self.value = self.split(1, self.heads), self.split(2, self.heads)
        self.depth, self.width = self.key.shape[-1], self.value.shape[-1]
        if self.query.shape[-1] != self.depth:
            raise OnnxError(f"queries of {self.query.shape[-1]} do not fit keys of {self.depth}.")

    def split(self, n: int, heads: int) -> Tensor:
        """Input n, of shape (time, batch, heads, what is left)."""
        t = self.call.tensor(n)
        width = t.shape[2] if t.ndim == 3 else None
        if not isinstance(width, int) or not width or width % heads:
            raise OnnxError(f"its input {n} {format_shape(t.shape)} has no {heads} heads.")
        each = width // heads
        shape = (t.shape[1], t.shape[0], heads, each)
        return define(shape, lambda s, b, h, d: t[b, s, h * each + d], "heads")


def linear_attention(call: Call) -> list[Value]:
    """Queries read a matrix of each head, to which keys and values are added over time."""
    rule = call.word("update_rule", "gated_delta", _RULES)
    gated, corrected = rule.startswith("gated"), rule.endswith("delta")
    if call.has(4) is not gated or call.has(5) is not corrected:
        raise OnnxError(f"update_rule {rule!r} does not take the inputs 4 and 5 that are there.")
    own = _Heads(call)
    heads, group = own.heads, own.readers // own.heads
    batch = own.key.shape[1]
    shape = (batch, heads, own.depth, own.width)
    state = call.tensor(3) if call.has(3) else topi.full(shape, 0.0, own.query.dtype)
    if state.ndim != 4 or not all(map(same_dim, state.shape, shape)):
        raise OnnxError(f"its state {format_shape(state.shape)} is not {format_shape(shape)}.")
    told = call.number("scale", 0.0)
    scale = told or 1.0 / sqrt(own.depth if isinstance(own.depth, int) else 1)
    xs = {"query": own.query, "key": own.key, "value": own.value}
    if gated:
        wide = call.shape(4)[-1] != heads
        xs["decay"] = own.split(4, heads)
        if wide and not same_dim(xs["decay"].shape[-1], own.depth):
            raise OnnxError(f"its input 4 {format_shape(call.shape(4))} fits no heads.")
    if corrected:
        xs["beta"] = own.split(5, heads if call.shape(5)[-1] == heads else 1)
        if not same_dim(xs["beta"].shape[-1], 1):
            raise OnnxError(f"its input 5 {format_shape(call.shape(5))} fits no heads.")

    def once(memory: Tensor, x: dict[str, Tensor]) -> tuple[Any, Tensor]:
        if gated:
            decay = topi.exp(topi.expand_dims(x["decay"], -1))
            memory = topi.multiply(memory, decay)
        value = x["value"]
        if corrected:
            seen = topi.einsum("bhdm,bhd->bhm", memory, x["key"])
            value = topi.multiply(topi.subtract(value, seen), x["beta"])
        written = topi.multiply(topi.expand_dims(x["key"], -1), topi.expand_dims(value, -2))
        memory = topi.add(memory, written)
        query = x["query"]

        def read(b: Expr, h: Expr, m: Expr) -> Expr:
            d = te.reduce_axis(own.depth, name="d")
            return te.sum(query[b, h, d] * memory[b, h // group, d, m], axis=d) * scale

        return memory, define((batch, own.readers, own.width), read, "read")

    last, rows = scan(once, state, xs)
    time, width = rows.shape[0], numbers((own.width,), "the extent of values")[0]
    total = own.readers * width
    made = define(
        (batch, time, total), lambda b, s, k: rows[s, b, k // width, k % width], "attention"
    )
    return [made, last]


HANDLERS: Final[Mapping[str, Handler]] = {
    "Trilu": trilu,
    "RotaryEmbedding": rotary_embedding,
    "CausalConvWithState": causal_convolution,
    "LinearAttention": linear_attention,
}
