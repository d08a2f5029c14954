"""Elements put around a tensor, or cut off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tensorad import te, topi
from tensorad.errors import OnnxError
from tensorad.interop.onnx.calls import Call, axis_of
from tensorad.interop.onnx.operators.folding import Handler
from tensorad.interop.onnx.operators.shapes import Cut, cut
from tensorad.interop.onnx.values import Value, as_tensor, check_extents, count_of
from tensorad.ir.arrays.elementwise import same_dim
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Dim, Tensor, dim_expr, dim_of
from tensorad.topi.definition import define

_MODES: Final = ("constant", "reflect", "edge", "wrap")


def pad(call: Call) -> Value:
    """Elements at the beginnings and ends of axes, by a mode; negative numbers cut."""
    own = call.shape(0)
    given = call.whole(1)
    axes = call.whole(3) if call.has(3) else tuple(range(len(own)))
    axes = tuple([axis_of(a, len(own)) for a in axes])
    if len(given) != 2 * len(axes) or len(set(axes)) < len(axes):
        raise OnnxError(f"pads {given} are not two for each axis of {axes}.")
    before, after = [0] * len(own), [0] * len(own)
    for k, a in enumerate(axes):
        before[a], after[a] = given[k], given[k + len(axes)]
    mode = call.word("mode", "constant", _MODES)
    value = _cut_off(call.value(0), before, after)
    x = as_tensor(value)
    front, back = ([max(0, n) for n in side] for side in (before, after))
    if not any(front) and not any(back):
        return value
    new = [dim_of(dim_expr(n) + b + a) for n, b, a in zip(x.shape, front, back, strict=True)]
    check_extents("its output", tuple(new))
    if mode != "constant":
        return _mirrored(x, front, back, mode)
    if not call.has(2):
        return topi.pad(x, front, back) if x.dtype.bits > 1 else _filled(x, front, new, None)
    if count_of(call.shape(2)) != 1:
        raise OnnxError("its value must be one element.")
    return _filled(x, front, new, call.tensor(2))


def _cut_off(value: Value, before: list[int], after: list[int]) -> Value:
    """Without what negative numbers of padding cut off."""
    cuts = {}
    for d, (b, a) in enumerate(zip(before, after, strict=True)):
        if b < 0 or a < 0:
            n = value.shape[d]
            stop = dim_of(dim_expr(n) + min(0, a))
            if isinstance(stop, int) and stop < max(0, -b):
                raise OnnxError(f"pads {b} and {a} leave nothing of the extent {n}.")
            cuts[d] = Cut(n, max(0, -b), stop, 1)
    return cut(value, cuts) if cuts else value


def _filled(x: Tensor, front: list[int], new: list[Dim], filler: Tensor | None) -> Tensor:
    """x in the middle of one value, which is data."""
    zero = te.const(False if x.dtype.bits == 1 else 0, x.dtype)

    def body(*i: Expr) -> Expr:
        inside = []
        for k, n, m, b in zip(i, x.shape, new, front, strict=True):
            if not same_dim(n, m):
                inside += [k >= b, k < dim_expr(n) + b]
        around = zero if filler is None else filler[(0,) * filler.ndim]
        element = x[tuple([k - b if b else k for k, b in zip(i, front, strict=True)])]
        chosen: Expr = te.select(te.all_of(*inside), element, around)
        return chosen

    return define(tuple(new), body, "pad")


def _mirrored(x: Tensor, front: list[int], back: list[int], mode: str) -> Tensor:
    """x with copies of its own elements around it; also further than it is wide."""
    for n, b, a in zip(x.shape, front, back, strict=True):
        if same_dim(n, 0) and (b or a):
            raise OnnxError(f"an axis without elements has none to {mode}.")

    def place(k: Expr, n: Dim, b: int, a: int) -> Expr:
        if not (b or a):
            return k
        extent, at = dim_expr(n), k - b
        if mode == "edge":
            return te.minimum(te.maximum(at, 0), extent - 1)
        if mode == "wrap":
            return at % extent
        if same_dim(n, 1):
            return at * 0
        period = 2 * (extent - 1)
        turned = at % period
        chosen: Expr = te.select(turned >= extent, period - turned, turned)
        return chosen

    new = [dim_of(dim_expr(n) + b + a) for n, b, a in zip(x.shape, front, back, strict=True)]
    return define(
        tuple(new),
        lambda *i: x[tuple(map(place, i, x.shape, front, back))],
        "pad",
    )


HANDLERS: Final[Mapping[str, Handler]] = {"Pad": pad}
