"""Operators along time, beside recurrent layers: reversed sequences, caches, states."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any, Final

from tensorad import te, topi
from tensorad.errors import OnnxError
from tensorad.interop.onnx.calls import Call, axis_of
from tensorad.interop.onnx.operators.convolution import numbers
from tensorad.interop.onnx.operators.folding import Handler
from tensorad.interop.onnx.operators.shapes import Cut, cut
from tensorad.interop.onnx.values import Value
from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor, dim_expr, dim_of, format_shape
from tensorad.program.loops import scan
from tensorad.topi.definition import define

_RULES: Final = ("linear", "gated", "delta", "gated_delta")


def reverse_sequence(call: Call) -> Value:
    """The first elements of each sequence in the opposite order, as many as are told."""
    x, lengths = call.tensor(0), call.tensor(1)
    time, batch = call.integer("time_axis", 0), call.integer("batch_axis", 1)
    if x.ndim < 2 or {time, batch} != {0, 1}:
        raise OnnxError(f"axes {time} and {batch} are not those of time and batch, 0 and 1.")
    if lengths.ndim != 1 or not same_dim(lengths.shape[0], x.shape[batch]):
        raise OnnxError(f"lengths {format_shape(lengths.shape)} are not one for each sequence.")

    def body(*i: Expr) -> Expr:
        count, t = lengths[i[batch]], i[time]
        at: Expr = te.select(t < count, count - 1 - t, t)
        return x[(at, i[1], *i[2:])] if time == 0 else x[(i[0], at, *i[2:])]

    return define(x.shape, body, "reverse_sequence")


def tensor_scatter(call: Call) -> Value:
    """Updates written into a cache along an axis, from a place of each batch on."""
    cache, update = call.tensor(0), call.tensor(1)
    axis = axis_of(call.integer("axis", -2), cache.ndim)
    circular = call.word("mode", "linear", ("linear", "circular")) == "circular"
    fits = axis > 0 and update.ndim == cache.ndim and all(
        same_dim(m, n)
        for d, (m, n) in enumerate(zip(cache.shape, update.shape, strict=True))
        if d != axis
    )  # fmt: skip
    extents = (cache.shape[axis], update.shape[axis]) if fits else (0, 1)
    if all(isinstance(n, int) for n in extents) and extents[0] < extents[1]:
        fits = False
    if not fits:
        raise OnnxError(
            f"updates {format_shape(update.shape)} do not fit into {format_shape(cache.shape)} "
            f"along axis {axis}."
        )
    starts = call.optional(2)
    if starts is not None and (starts.ndim != 1 or not same_dim(starts.shape[0], cache.shape[0])):
        raise OnnxError(f"places {format_shape(starts.shape)} are not one for each batch.")

    def place(*i: Expr) -> tuple[tuple[Expr, ...], Expr]:
        at = i[axis] if starts is None else starts[i[0]].astype(INT64) + i[axis]
        if circular:
            at = at % dim_expr(cache.shape[axis])
        return (*i[:axis], at, *i[axis + 1 :]), update[i]

    indices = define(update.shape, lambda *i: place(*i)[0][axis], "places")
    return topi.scatter_elements(cache, indices, update, axis, "set")


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
    "ReverseSequence": reverse_sequence,
    "TensorScatter": tensor_scatter,
    "CausalConvWithState": causal_convolution,
    "LinearAttention": linear_attention,
}
