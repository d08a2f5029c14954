"""Recurrent layers: a loop over time of the program layer, with matrices multiplied before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tensorad import te, topi
from tensorad.errors import OnnxError
from tensorad.interop.onnx.calls import Call
from tensorad.interop.onnx.operators.folding import Handler
from tensorad.interop.onnx.values import Value
from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor, format_shape
from tensorad.program.loops import scan
from tensorad.topi.definition import define

Activation = Callable[[Expr], Expr]
_Function = Callable[[Any, float, float], Any]
_GATES: Final = {"RNN": 1, "GRU": 3, "LSTM": 4}
_DEFAULTS: Final = {
    "RNN": ("Tanh",),
    "GRU": ("Sigmoid", "Tanh"),
    "LSTM": ("Sigmoid", "Tanh", "Tanh"),
}
_FUNCTIONS: Final[Mapping[str, tuple[_Function, float | None, float | None]]] = {
    "relu": (lambda v, a, b: te.maximum(v, 0.0), None, None),
    "tanh": (lambda v, a, b: te.tanh(v), None, None),
    "sigmoid": (lambda v, a, b: te.sigmoid(v), None, None),
    "affine": (lambda v, a, b: v * a + b, 1.0, 0.0),
    "leakyrelu": (lambda v, a, b: te.select(v >= 0, v, v * a), 0.01, None),
    "thresholdedrelu": (lambda v, a, b: te.select(v >= a, v, v * 0.0), 1.0, None),
    "scaledtanh": (lambda v, a, b: te.tanh(v * b) * a, 1.0, 1.0),
    "hardsigmoid": (lambda v, a, b: te.minimum(te.maximum(v * a + b, 0.0), 1.0), 0.2, 0.5),
    "elu": (lambda v, a, b: te.select(v >= 0, v, te.expm1(v) * a), 1.0, None),
    "softsign": (lambda v, a, b: v / (te.abs(v) + 1.0), None, None),
    "softplus": (
        lambda v, a, b: te.maximum(v, 0.0) + te.log1p(te.exp(-te.abs(v))), None, None,
    ),
}  # fmt: skip
"""By name: a function with two coefficients, and these where none are told; None: it takes none."""


def _activations(call: Call, directions: int) -> list[list[Activation]]:
    """The functions of each direction."""
    default = _DEFAULTS[call.node.operator]
    names = call.attribute("activations") or default * directions
    if len(names) != len(default) * directions:
        raise OnnxError(f"{len(names)} activations are not {len(default)} for each direction.")
    numbers = [iter(call.attribute(f"activation_{k}") or ()) for k in ("alpha", "beta")]
    made: list[Activation] = []
    for name in names:
        if name.lower() not in _FUNCTIONS:
            raise OnnxError(f"there is no activation {name[:40]!r}.")
        function, *own = _FUNCTIONS[name.lower()]
        chosen = [
            0.0 if c is None else float(next(n, c)) for n, c in zip(numbers, own, strict=True)
        ]
        made.append(lambda v, f=function, a=chosen[0], b=chosen[1]: f(v, a, b))  # type: ignore[misc]
    return [made[d * len(default) :][: len(default)] for d in range(directions)]


class _Layer:
    """A recurrent layer of one or two directions.

    Attributes:
        x: shape (time, batch, features); `units`: of the state.
    """

    def __init__(self, call: Call) -> None:
        self.call = call
        self.batch_first = call.flag("layout", False)
        way = call.word("direction", "forward", ("forward", "reverse", "bidirectional"))
        self.reverse = {"forward": (False,), "reverse": (True,)}.get(way, (False, True))
        x, self.w, self.r = (call.tensor(n) for n in range(3))
        if x.ndim != 3 or self.w.ndim != 3 or self.r.ndim != 3:
            raise OnnxError("its input and weights must have three axes each.")
        self.x = topi.transpose(x, (1, 0, 2)) if self.batch_first else x
        directions, gates = len(self.reverse), _GATES[call.node.operator]
        units = self.r.shape[2]
        if not isinstance(units, int) or call.integer("hidden_size", units) != units or not units:
            raise OnnxError(f"hidden_size is not the extent {units} of its weight.")
        self.units = units
        self._fits(self.w, 1, (directions, gates * units, self.x.shape[2]))
        self._fits(self.r, 2, (directions, gates * units, units))
        self.bias = call.optional(3)
        if self.bias is not None:
            self._fits(self.bias, 3, (directions, 2 * gates * units))
        self.lengths = call.optional(4)
        if self.lengths is not None:
            self._fits(self.lengths, 4, (self.x.shape[1],))
        self.functions = _activations(call, directions)
        clip = call.attribute("clip")
        self.clip = None if clip is None else abs(float(clip))

    def _fits(self, t: Tensor, n: int, wanted: Sequence[Any]) -> None:
        if len(wanted) != t.ndim or not all(map(same_dim, t.shape, wanted)):
            raise OnnxError(
                f"its input {n} has shape {format_shape(t.shape)}, not "
                f"{format_shape(tuple(wanted))}."
            )

    def start(self, n: int, direction: int) -> Tensor:
        """A state at the beginning: input n, or 0."""
        shape = (self.x.shape[1], self.units)
        if not self.call.has(n):
            return topi.full(shape, 0.0, self.x.dtype)
        t = self.call.tensor(n)
        if self.batch_first and t.ndim == 3:
            t = topi.transpose(t, (1, 0, 2))
        self._fits(t, n, (len(self.reverse), *shape))
        return define(shape, lambda b, j: t[direction, b, j], "start")

    def part(self, t: Tensor, direction: int, first: int = 0, count: int | None = None) -> Tensor:
        """Rows of a weight of one direction."""
        rows = t.shape[1] if count is None else count
        return define((rows, *t.shape[2:]), lambda g, *k: t[(direction, g + first, *k)], "part")

    def gate(self, function: Activation, value: Expr) -> Expr:
        """A function of what is clipped."""
        if self.clip is not None:
            value = te.minimum(te.maximum(value, -self.clip), self.clip)
        return function(value)

    def run(
        self, direction: int, step: Callable[..., tuple[Tensor, ...]], states: Sequence[Tensor],
        added: Tensor | None,
    ) -> tuple[Tensor, list[Tensor]]:  # fmt: skip
        """All outputs (time, batch, units) and the last states of one direction."""
        inputs = topi.matmul(self.x, topi.transpose(self.part(self.w, direction), (1, 0)))
        if added is not None:
            inputs = topi.add(inputs, added)
        lengths = self.lengths
        times = define((self.x.shape[0],), lambda t: t.astype(INT64), "time")

        def once(state: tuple[Tensor, ...], x: tuple[Tensor, ...]) -> tuple[Any, Tensor]:
            new = step(x[0], *state)
            if lengths is None:
                return new, new[0]
            runs = topi.less(x[1], topi.expand_dims(lengths.astype("int64"), -1))
            kept = tuple(topi.where(runs, a, b) for a, b in zip(new, state, strict=True))
            return kept, topi.where(runs, new[0], topi.full(new[0].shape, 0.0, new[0].dtype))

        xs = (inputs,) if lengths is None else (inputs, times)
        last, outputs = scan(once, tuple(states), xs, reverse=self.reverse[direction])
        return outputs, list(last)

    def outputs(self, runs: Sequence[tuple[Tensor, list[Tensor]]]) -> list[Value]:
        """Outputs of all directions, as the node has them."""
        y = topi.stack([r[0] for r in runs], 1)
        states = [topi.stack(list(s), 0) for s in zip(*[r[1] for r in runs], strict=True)]
        if self.batch_first:
            y = topi.transpose(y, (2, 0, 1, 3))
            states = [topi.transpose(s, (1, 0, 2)) for s in states]
        return [y, *states]

    def summed_bias(self, direction: int) -> Tensor | None:
        """The two biases of all gates together."""
        if self.bias is None:
            return None
        half = _GATES[self.call.node.operator] * self.units
        b = self.bias
        return define((half,), lambda g: b[direction, g] + b[direction, g + half], "bias")


def rnn(call: Call) -> list[Value]:
    """h = f(W x + R h + b)."""
    layer = _Layer(call)

    def one(direction: int) -> tuple[Tensor, list[Tensor]]:
        (f,) = layer.functions[direction]
        again = topi.transpose(layer.part(layer.r, direction), (1, 0))

        def step(x: Tensor, h: Tensor) -> tuple[Tensor, ...]:
            sums = topi.add(x, topi.matmul(h, again))
            return (define(sums.shape, lambda b, j: layer.gate(f, sums[b, j]), "hidden"),)

        start = [layer.start(5, direction)]
        return layer.run(direction, step, start, layer.summed_bias(direction))

    return layer.outputs([one(d) for d in range(len(layer.reverse))])


def gru(call: Call) -> list[Value]:
    """h = (1 - z) h' + z h, with gates z and r; h' takes r h, or r times what comes from h."""
    layer = _Layer(call)
    n, linear = layer.units, call.flag("linear_before_reset", False)

    def one(direction: int) -> tuple[Tensor, list[Tensor]]:
        f, g = layer.functions[direction]
        gates = topi.transpose(layer.part(layer.r, direction, 0, 2 * n), (1, 0))
        own = topi.transpose(layer.part(layer.r, direction, 2 * n, n), (1, 0))
        bias = layer.bias

        def added(k: Expr) -> Expr:
            assert bias is not None, "asked for with a bias"
            both = bias[direction, k] + bias[direction, k + 3 * n]
            alone: Expr = te.select(k < 2 * n, both, bias[direction, k])
            return alone if linear else both

        def step(x: Tensor, h: Tensor) -> tuple[Tensor, ...]:
            from_h = topi.matmul(h, gates)

            def gate(k: int, b: Expr, j: Expr) -> Expr:
                return layer.gate(f, x[b, j + k * n] + from_h[b, j + k * n])

            if linear:
                proposed = topi.matmul(h, own)
                if bias is not None:
                    proposed = topi.add(proposed, layer.part(bias, direction, 5 * n, n))
                value = define(h.shape, lambda b, j: gate(1, b, j) * proposed[b, j], "reset")
            else:
                reset = define(h.shape, lambda b, j: gate(1, b, j) * h[b, j], "reset")
                value = topi.matmul(reset, own)

            def new(b: Expr, j: Expr) -> Expr:
                z = gate(0, b, j)
                return (1.0 - z) * layer.gate(g, x[b, j + 2 * n] + value[b, j]) + z * h[b, j]

            return (define(h.shape, new, "hidden"),)

        more = None if bias is None else define((3 * n,), added, "bias")
        return layer.run(direction, step, [layer.start(5, direction)], more)

    return layer.outputs([one(d) for d in range(len(layer.reverse))])


def lstm(call: Call) -> list[Value]:
    """A memory with gates i, o and f, which may look at it."""
    layer = _Layer(call)
    n, coupled = layer.units, call.flag("input_forget", False)
    looks = call.optional(7)
    if looks is not None and looks.shape != (len(layer.reverse), 3 * n):
        raise OnnxError(f"its input 7 has shape {format_shape(looks.shape)}.")

    def one(direction: int) -> tuple[Tensor, list[Tensor]]:
        f, g, last = layer.functions[direction]
        again = topi.transpose(layer.part(layer.r, direction), (1, 0))

        def step(x: Tensor, h: Tensor, memory: Tensor) -> tuple[Tensor, ...]:
            sums = topi.add(x, topi.matmul(h, again))

            def gate(k: int, look: int, seen: Tensor, b: Expr, j: Expr) -> Expr:
                value = sums[b, j + k * n]
                if looks is not None:
                    value = value + looks[direction, j + look * n] * seen[b, j]
                return layer.gate(f, value)

            def kept(b: Expr, j: Expr) -> Expr:
                entering = gate(0, 0, memory, b, j)
                staying = 1.0 - entering if coupled else gate(2, 2, memory, b, j)
                return staying * memory[b, j] + entering * layer.gate(g, sums[b, j + 3 * n])

            new = define(h.shape, kept, "memory")
            hidden = define(h.shape, lambda b, j: gate(1, 1, new, b, j) * last(new[b, j]), "hidden")
            return hidden, new

        start = [layer.start(5, direction), layer.start(6, direction)]
        return layer.run(direction, step, start, layer.summed_bias(direction))

    return layer.outputs([one(d) for d in range(len(layer.reverse))])


HANDLERS: Final[Mapping[str, Handler]] = {"RNN": rnn, "GRU": gru, "LSTM": lstm}
