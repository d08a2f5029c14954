"""Convolutions and poolings: windows over the axes behind batch and channels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tensorad import te, topi
from tensorad.errors import OnnxError
from tensorad.interop.onnx.calls import Call
from tensorad.interop.onnx.operators.folding import Handler
from tensorad.interop.onnx.values import Value
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Shape, Tensor, dim_expr, format_shape
from tensorad.topi.definition import define
from tensorad.topi.nn.windows import Windows, slide

_CONVOLUTIONS: Final = {1: topi.nn.conv1d, 2: topi.nn.conv2d, 3: topi.nn.conv3d}
_FAR: Final = 2**31
"""Strides, kernels and padding are less."""
Sides = list[tuple[int, int]]


def per_axis(call: Call, name: str, rank: int, default: int = 1) -> tuple[int, ...]:
    """An attribute with an integer >= 1 for each axis of windows."""
    given = call.integers(name) or (default,) * rank
    if len(given) != rank or not 1 <= min(given) <= max(given) < _FAR:
        raise OnnxError(f"{name} {given} are not {rank} integers >= 1.")
    return given


def padding(
    call: Call, extents: Shape, kernel: Sequence[int], step: Sequence[int], spread: Sequence[int]
) -> Sides:
    """Elements around each axis, told or by the rule of `auto_pad`."""
    rank = len(kernel)
    rule = call.word("auto_pad", "NOTSET", ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"))
    if rule == "NOTSET":
        given = call.integers("pads") or (0,) * (2 * rank)
        if len(given) != 2 * rank or not 0 <= min(given) <= max(given) < _FAR:
            raise OnnxError(f"pads {given} are not {2 * rank} integers >= 0.")
        return list(zip(given[:rank], given[rank:], strict=True))
    if rule == "VALID":
        return [(0, 0)] * rank
    sides: Sides = []
    for n, k, s, d in zip(extents, kernel, step, spread, strict=True):
        if not isinstance(n, int):
            if s != 1:
                raise OnnxError(f"auto_pad {rule} needs an extent that is a number, not {n}.")
            total = (k - 1) * d
        else:
            total = max(0, (-(-n // s) - 1) * s + (k - 1) * d + 1 - n)
        less = total // 2
        sides.append((less, total - less) if rule == "SAME_UPPER" else (total - less, less))
    return sides


def numbers(shape: Shape, what: str) -> tuple[int, ...]:
    """Extents that have to be numbers."""
    found = tuple([n for n in shape if isinstance(n, int)])
    if len(found) < len(shape):
        raise OnnxError(f"{what} {format_shape(shape)} must be numbers.")
    return found


def kernel_of(call: Call, x: Tensor, weight: Tensor) -> tuple[int, ...]:
    """The extents of the kernel of a convolution over one, two or three axes."""
    if x.ndim not in (3, 4, 5) or weight.ndim != x.ndim:
        raise OnnxError(
            f"inputs {format_shape(x.shape)} and {format_shape(weight.shape)} have no one, two or "
            "three axes for windows."
        )
    kernel = numbers(weight.shape[2:], "the extents of its kernel")
    told = call.integers("kernel_shape")
    if told is not None and told != kernel:
        raise OnnxError(f"kernel_shape {told} is not that of its weight, {kernel}.")
    return kernel


def conv(call: Call) -> Value:
    """A convolution over one, two or three axes."""
    x, weight = call.tensor(0), call.tensor(1)
    rank = x.ndim - 2
    kernel = kernel_of(call, x, weight)
    step, spread = per_axis(call, "strides", rank), per_axis(call, "dilations", rank)
    sides = padding(call, x.shape[2:], kernel, step, spread)
    around = (*[a for a, _ in sides], *[b for _, b in sides])
    made = _CONVOLUTIONS[rank](x, weight, step, around, spread, call.integer("group", 1))
    return topi.nn.bias_add(made, call.tensor(2), 1) if call.has(2) else made


class _Pooling:
    """Windows of a pooling node."""

    def __init__(self, call: Call) -> None:
        self.x: Tensor = call.tensor(0)
        rank = self.x.ndim - 2
        if rank < 1:
            raise OnnxError(f"its input {format_shape(self.x.shape)} has no axes for windows.")
        if call.attribute("kernel_shape") is None:
            raise OnnxError("it needs the attribute 'kernel_shape'.")
        self.kernel = per_axis(call, "kernel_shape", rank)
        self.step = per_axis(call, "strides", rank)
        self.spread = per_axis(call, "dilations", rank)
        own = self.x.shape[2:]
        self.sides = padding(call, own, self.kernel, self.step, self.spread)
        for k, pads in zip(self.kernel, self.sides, strict=True):
            if max(pads) > (k - 1) * max(self.spread):
                raise OnnxError(f"pads {pads} are not smaller than the kernel {k}.")
        self.over = [0] * rank
        if call.flag("ceil_mode", False):
            extents = numbers(own, "with ceil_mode the extents of its input")
            self.over = [self._overhang(d, n) for d, n in enumerate(extents)]
        wider = [(a, b + o) for (a, b), o in zip(self.sides, self.over, strict=True)]
        self.windows: Windows = slide("pool", own, self.kernel, self.step, self.spread, wider)
        self.shape = (*self.x.shape[:2], *self.windows.shape)
        self.taps = self.windows.taps() if rank <= 3 else []
        if rank > 3:
            raise OnnxError(f"its windows have {rank} axes, not one, two or three.")

    def _overhang(self, d: int, n: int) -> int:
        """By how many elements the last window passes the padded end."""
        low, high = self.sides[d]
        s = self.step[d]
        rest = n + low + high - (self.kernel[d] - 1) * self.spread[d] - 1
        count = -(-rest // s) + 1
        if (count - 1) * s >= n + low:
            count -= 1
        return max(0, (count - 1) * s - rest)

    def read(self, n: Expr, c: Expr, position: Sequence[Expr]) -> tuple[Expr, Expr | None]:
        """The element under a tap, and the condition that it is inside."""
        indices = self.windows.indices(position, self.taps)
        inside = self.windows.inside(indices)
        return self.x[(n, c, *indices)], te.all_of(*inside) if inside else None


def max_pool(call: Call) -> list[Value]:
    """The largest element of each window, and its position among all elements."""
    own = _Pooling(call)

    def body(n: Expr, c: Expr, *position: Expr) -> Expr:
        value, where = own.read(n, c, position)
        return te.max(value, axis=own.taps, where=where)

    made: list[Value] = [define(own.shape, body, "max_pool")]
    if call.wants(1):
        made.append(_positions(own, call.flag("storage_order", False)))
    return made


def _positions(own: _Pooling, columns_first: bool) -> Tensor:
    """Where maxima lie: positions in x, of whose last axes the first may run fastest."""
    extents = [dim_expr(n) for n in own.x.shape]

    def tap(n: Expr, c: Expr, *position: Expr) -> Expr:
        value, where = own.read(n, c, position)
        return te.argmax(value, axis=own.taps, where=where)

    taps = define(own.shape, tap, "tap")

    def body(n: Expr, c: Expr, *position: Expr) -> Expr:
        left, indices = taps[(n, c, *position)], []
        for d in reversed(range(len(position))):
            k = left % own.kernel[d]
            left = left // own.kernel[d]
            indices.append(position[d] * own.step[d] - own.sides[d][0] + k * own.spread[d])
        order = list(range(len(position)))
        found = n * extents[1] + c
        for d in order if not columns_first else order[::-1]:
            found = found * extents[d + 2] + indices[len(position) - 1 - d]
        return found

    return define(own.shape, body, "positions")


def lp_pool(call: Call) -> Value:
    """The root of the sum of powers of each window."""
    own = _Pooling(call)
    p = _power_of(call)

    def body(n: Expr, c: Expr, *position: Expr) -> Expr:
        value, where = own.read(n, c, position)
        return _root(te.sum(_power(value, p), axis=own.taps, where=where), p)

    return define(own.shape, body, "lp_pool")


def global_lp_pool(call: Call) -> Value:
    """All axes of windows as one window, of which the root of the sum of powers."""
    x, p = call.tensor(0), _power_of(call)
    if x.ndim < 3:
        raise OnnxError(f"its input {format_shape(x.shape)} has no axes for windows.")

    def body(n: Expr, c: Expr, *_: Expr) -> Expr:
        taps = [te.reduce_axis(e, name=f"k{d}") for d, e in enumerate(x.shape[2:])]
        return _root(te.sum(_power(x[(n, c, *taps)], p), axis=taps), p)

    return define((*x.shape[:2], *(1,) * (x.ndim - 2)), body, "lp_pool")


def _power_of(call: Call) -> int:
    p = call.integer("p", 2)
    if not 1 <= p <= 64:
        raise OnnxError(f"p must be an integer from 1 to 64, not {p}.")
    return p


def _power(value: Expr, p: int) -> Expr:
    return value * value if p == 2 else te.abs(value) if p == 1 else te.pow(te.abs(value), p)


def _root(total: Expr, p: int) -> Expr:
    return te.sqrt(total) if p == 2 else total if p == 1 else te.pow(total, 1.0 / p)


def average_pool(call: Call) -> Value:
    """The mean of each window, of the elements inside or with those of the padding."""
    own = _Pooling(call)
    padded = call.flag("count_include_pad", False)

    def counted(d: int, p: Expr) -> Expr | int:
        """How many taps of a window count on one axis."""
        low, high = own.sides[d]
        if not (own.over[d] or (not padded and (low or high))):
            return own.kernel[d]
        n = dim_expr(own.windows.extents[d])
        first = -low if padded else 0
        last = n + high if padded else n
        start, spread = p * own.step[d] - low, own.spread[d]
        before = te.maximum(0, (first - start + (spread - 1)) // spread)
        until = te.minimum(own.kernel[d], (last - 1 - start) // spread + 1)
        return te.maximum(0, until - before)

    def body(n: Expr, c: Expr, *position: Expr) -> Expr:
        value, where = own.read(n, c, position)
        total = te.sum(value, axis=own.taps, where=where)
        counts = [counted(d, p) for d, p in enumerate(position)]
        scale = 1.0
        for count in counts:
            if isinstance(count, int):
                scale = scale / count
            else:
                total = total / count.astype(own.x.dtype)
        return total * scale

    return define(own.shape, body, "avg_pool")


def global_pool(call: Call) -> Value:
    """All axes of windows as one window."""
    return topi.nn.global_pool(call.tensor(0), "max" if "Max" in call.node.operator else "avg")


HANDLERS: Final[Mapping[str, Handler]] = {
    "Conv": conv,
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "LpPool": lp_pool,
    "GlobalLpPool": global_lp_pool,
    "GlobalMaxPool": global_pool,
    "GlobalAveragePool": global_pool,
}
