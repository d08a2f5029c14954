"""Small programs for the tests of lowering and schedules, each with a NumPy reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tensorad import te
from tensorad.ir.arrays.prefix import prefix_scan
from tensorad.ir.combiner import max_combiner, sum_combiner
from tensorad.ir.dtypes import FLOAT64, INT64
from tensorad.ir.expr import Axis, Expr, axis, call, const, read, select
from tensorad.ir.tensor import Scatter, Tensor, Update, outputs

Array = np.ndarray
ZERO = const(0.0, FLOAT64)


@dataclass
class Case:
    """Outputs over inputs; `reference` computes them from the inputs' arrays."""

    outputs: list[Tensor]
    inputs: list[Tensor]
    reference: Callable[..., list[Array]] | None = None
    unguarded: bool = False
    """Whether no loop may hold an If or a Select after scheduling."""

    def arrays(self) -> dict[Tensor, Array]:
        rng = np.random.default_rng(7)
        return {t: _random(t, rng) for t in self.inputs}


def _random(t: Tensor, rng: np.random.Generator) -> Array:
    if t.dtype.is_integer:
        return rng.integers(0, 4, t.shape)
    return rng.uniform(-2, 2, t.shape)


def float_input(name: str, *shape: int) -> Tensor:
    return te.placeholder(shape, dtype="float64", name=name)


def total(source: Expr, *axes: Axis, where: Expr | None = None) -> Expr:
    return te.sum(source, axis=list(axes), where=where)


def index(value: int) -> Expr:
    return const(value, INT64)


def dense(m: int, n: int, depth: int) -> Case:
    x, w, b, h = (
        float_input("X", m, depth),
        float_input("W", n, depth),
        float_input("B", n),
        float_input("H", m, n),
    )
    k, i, j, i2 = axis("k", 0, depth), axis("i", 0, m), axis("j", 0, n), axis("i", 0, m)
    y = te.compute((m, n), lambda i, j: total(x[i, k] * w[j, k], k) + b[j], name="Y")
    dw = te.compute((n, depth), lambda j, k: total(h[i, j] * x[i, k], i), name="dW")
    dx = te.compute((m, depth), lambda i, k: total(h[i, j] * w[j, k], j), name="dX")
    db = te.compute((n,), lambda j: total(h[i2, j], i2), name="dB")

    def reference(x: Array, w: Array, b: Array, h: Array) -> list[Array]:
        return [x @ w.T + b, h.T @ x, h @ w, h.sum(0)]

    return Case([y, dw, dx, db], [x, w, b, h], reference, unguarded=True)


def conv2d(n: int, ci: int, height: int, width: int, co: int, size: int) -> Case:
    """Forward, input gradient with its bounds, weight gradient."""
    oh, ow = height - size + 1, width - size + 1
    x, w, h = (
        float_input("X", n, ci, height, width),
        float_input("W", co, ci, size, size),
        float_input("H", n, co, oh, ow),
    )
    c, u, v = axis("c", 0, ci), axis("u", 0, size), axis("v", 0, size)
    y = te.compute(
        (n, co, oh, ow),
        lambda b, o, i, j: total(x[b, c, i + u, j + v] * w[o, c, u, v], c, u, v),
        name="Y",
    )

    def gradient(b: Axis, c: Axis, i: Axis, j: Axis) -> Expr:
        o = axis("o", 0, co)
        u, v = (
            axis(
                name,
                call("maximum", index(0), p - (extent - 1)),
                call("minimum", index(size), p + 1),
            )
            for name, p, extent in (("u", i, oh), ("v", j, ow))
        )
        return total(h[b, o, i - u, j - v] * w[o, c, u, v], o, u, v)

    dx = te.compute(x.shape, gradient, name="dX")
    b, i, j = axis("b", 0, n), axis("i", 0, oh), axis("j", 0, ow)
    dw = te.compute(
        w.shape,
        lambda o, c, u, v: total(h[b, o, i, j] * x[b, c, i + u, j + v], b, i, j),
        name="dW",
    )

    def reference(x: Array, w: Array, h: Array) -> list[Array]:
        windows = np.lib.stride_tricks.sliding_window_view(x, (size, size), (2, 3))
        back = np.zeros_like(x)
        for u, v in np.ndindex(size, size):
            back[:, :, u : u + oh, v : v + ow] += np.einsum("bohw,oc->bchw", h, w[:, :, u, v])
        return [
            np.einsum("bchwuv,ocuv->bohw", windows, w),
            back,
            np.einsum("bohw,bchwuv->ocuv", h, windows),
        ]

    return Case([y, dx, dw], [x, w, h], reference, unguarded=True)


def pools(n: int, height: int, width: int) -> Case:
    """Average and max pooling 2x2 and the gradient of the average."""
    x, h = float_input("X", n, height, width), float_input("H", n, height // 2, width // 2)
    u, v, u2, v2 = axis("u", 0, 2), axis("v", 0, 2), axis("u", 0, 2), axis("v", 0, 2)
    mean = te.compute(
        h.shape, lambda b, i, j: total(x[b, 2 * i + u, 2 * j + v], u, v) / 4.0, name="A"
    )
    top = te.compute(
        h.shape, lambda b, i, j: te.max(x[b, 2 * i + u2, 2 * j + v2], axis=[u2, v2]), name="M"
    )
    back = te.compute(
        (n, height // 2 * 2, width // 2 * 2), lambda b, i, j: h[b, i // 2, j // 2] * 0.25, name="dA"
    )

    def reference(x: Array, h: Array) -> list[Array]:
        even = x[:, : height // 2 * 2, : width // 2 * 2]
        blocks = even.reshape(n, height // 2, 2, width // 2, 2)
        spread = np.repeat(np.repeat(h, 2, 1), 2, 2) * 0.25
        return [blocks.mean((2, 4)), blocks.max((2, 4)), spread]

    return Case([mean, top, back], [x, h], reference, unguarded=True)


def flatten(n: int, c: int, height: int, width: int) -> Case:
    x, h = float_input("X", n, c, height, width), float_input("H", n, c * height * width)
    flat = te.compute(
        h.shape,
        lambda b, f: x[b, f // (height * width), f // width % height, f % width],
        name="F",
    )
    back = te.compute(x.shape, lambda b, c, i, j: h[b, (c * height + i) * width + j], name="dF")

    def reference(x: Array, h: Array) -> list[Array]:
        return [x.reshape(n, -1), h.reshape(x.shape)]

    return Case([flat, back], [x, h], reference, unguarded=True)


def softmax(m: int, n: int) -> Case:
    """Written in one body: maximum and sum are stages."""
    x = float_input("X", m, n)
    k, k2 = axis("k", 0, n), axis("k", 0, n)
    shifted = te.compute((m, n), lambda i, j: call("exp", x[i, j] - te.max(x[i, k], axis=k)))
    y = te.compute((m, n), lambda i, j: shifted[i, j] / total(shifted[i, k2], k2), name="Y")

    def reference(x: Array) -> list[Array]:
        e = np.exp(x - x.max(1, keepdims=True))
        return [e / e.sum(1, keepdims=True)]

    return Case([y], [x], reference, unguarded=True)


def padding(height: int, width: int) -> Case:
    """A border of zeros, and a convolution that guards its reads itself."""
    x, w = float_input("X", height, width), float_input("W", 3, 3)

    def guarded(i: Expr, j: Expr) -> Expr:
        inside = (i >= 1) & (i < height + 1) & (j >= 1) & (j < width + 1)
        return select(inside, x[i - 1, j - 1], ZERO)

    padded = te.compute((height + 2, width + 2), guarded, name="P")
    u, v = axis("u", 0, 3), axis("v", 0, 3)
    y = te.compute(
        (height, width), lambda i, j: total(guarded(i + u, j + v) * w[u, v], u, v), name="Y"
    )

    def reference(x: Array, w: Array) -> list[Array]:
        p = np.pad(x, 1)
        windows = np.lib.stride_tricks.sliding_window_view(p, (3, 3))
        return [p, np.einsum("ijuv,uv->ij", windows, w)]

    return Case([padded, y], [x, w], reference, unguarded=True)


def lazy_reductions() -> Case:
    """Reductions under branches whose reads are out of bounds elsewhere."""
    x, v = float_input("X", 6, 5), float_input("V", 6)
    k, k2 = axis("k", 0, 5), axis("k", 0, 5)

    def body(i: Axis, j: Axis) -> Expr:
        deeper = select(v[i] > 0, total(x[i, k2], k2), ZERO)
        return select(i >= 2, total(x[i - 2, k] * v[j], k), deeper)

    y = te.compute((6, 5), body, name="Y")

    def reference(x: Array, v: Array) -> list[Array]:
        result = np.zeros((6, 5))
        for i in range(6):
            here = x[i].sum() if v[i] > 0 else 0.0
            result[i] = x[i - 2].sum() * v[:5] if i >= 2 else here
        return [result]

    return Case([y], [x, v], reference)


def nested_reductions() -> Case:
    """One that is a stage, one that depends on everything around it."""
    x, v = float_input("X", 6, 5), float_input("V", 6)
    k, s, k2, s2 = axis("k", 0, 5), axis("s", 0, 6), axis("k", 0, 5), axis("s", 0, 6)
    y = te.compute((6,), lambda i: total(x[i, k] * total(v[s] * 2.0, s), k), name="Y")
    z = te.compute(
        (6,), lambda i: total(x[i, k2] * te.max(v[s2] * x[i, k2], axis=s2), k2), name="Z"
    )

    def reference(x: Array, v: Array) -> list[Array]:
        best = (v[None, None, :] * x[:, :, None]).max(2)
        return [x.sum(1) * (2 * v).sum(), (x * best).sum(1)]

    return Case([y, z], [x, v], reference)


def triangles() -> Case:
    """Conditions and bounds that follow an output axis, and a guard over it alone."""
    v = float_input("V", 7)
    k, g = axis("k", 0, 7), axis("g", 0, 7)

    def bounded(i: Axis) -> Expr:
        inner = axis("k", 0, i + 1, 2)
        return total(v[inner], inner)

    y = te.compute((7,), lambda i: total(v[k], k, where=k <= i), name="Y")
    z = te.compute((7,), bounded, name="Z")
    w = te.compute((7,), lambda i: total(v[g], g, where=(i >= 3) & (g != i)), name="G")

    def reference(v: Array) -> list[Array]:
        steps = np.array([v[: i + 1 : 2].sum() for i in range(7)])
        others = np.where(np.arange(7) >= 3, v.sum() - v, 0)
        return [v.cumsum(), steps, others]

    return Case([y, z, w], [v], reference)


def gathers() -> Case:
    """Data-dependent reads, and the scatters that transpose them."""
    x, where = float_input("X", 6, 5), te.placeholder((4,), dtype="int64", name="I")
    k = axis("k", 0, 4)
    taken = te.compute((4, 5), lambda i, j: x[where[i], j], name="T")
    summed = te.compute((5,), lambda j: total(x[where[k], j], k), name="S")
    a, b = axis("a", 0, 4), axis("b", 0, 5)
    update = Update((read(where, (a,)), b), read(x, (a, b)))
    best = Update((read(where, (a,)), b), read(x, (a, b)), a > 1)
    added = outputs(Scatter("A", (6, 5), FLOAT64, (a, b), (update,), sum_combiner(FLOAT64)))[0]
    raised = outputs(Scatter("M", (6, 5), FLOAT64, (a, b), (best,), max_combiner(FLOAT64), x))[0]

    def reference(x: Array, where: Array) -> list[Array]:
        sums, tops = np.zeros((6, 5)), x.copy()
        np.add.at(sums, where, x[:4])
        np.maximum.at(tops, where[2:], x[2:4])
        return [x[where], x[where].sum(0), sums, tops]

    return Case([taken, summed, added, raised], [x, where], reference)


def scans() -> Case:
    x = float_input("X", 4, 5)
    made = [
        outputs(prefix_scan("S", (x,), a, sum_combiner(FLOAT64), exclusive, reverse))[0]
        for a in (0, 1)
        for exclusive in (False, True)
        for reverse in (False, True)
    ]

    def reference(x: Array) -> list[Array]:
        result = []
        for a in (0, 1):
            for exclusive in (False, True):
                for reverse in (False, True):
                    y = np.flip(x, a) if reverse else x
                    s = y.cumsum(a) - (y if exclusive else 0)
                    result.append(np.flip(s, a) if reverse else s)
        return result

    return Case(made, [x], reference)


def folds() -> Case:
    """argmax, an order-dependent combiner, two folds in a body, a concatenated contraction."""
    x, v = float_input("X", 6, 5), float_input("V", 6)
    k, a, b = axis("k", 0, 5), axis("a", 0, 6), axis("b", 0, 5)
    p, q, e = axis("p", 0, 5), axis("q", 0, 5), axis("e", 0, 11)
    fade = te.comm_reducer(lambda x, y: x * 0.5 + y, lambda d: 0.0, name="fade")
    best = te.compute((6,), lambda i: te.argmax(x[i, k], axis=k), name="best")
    faded = te.compute((), lambda: fade(x[a, b], axis=[a, b]), name="faded")
    ratio = te.compute((6,), lambda i: total(x[i, p], p) / total(x[i, q] * x[i, q], q), name="R")
    joined = te.compute((5,), lambda j: total(select(e < 6, v[e], x[e - 6, j]), e), name="joined")

    def reference(x: Array, v: Array) -> list[Array]:
        state = 0.0
        for value in x.ravel():
            state = state * 0.5 + value
        squares = (x * x).sum(1)
        return [x.argmax(1), np.array(state), x.sum(1) / squares, v.sum() + x[:5].sum(0)]

    return Case([best, faded, ratio, joined], [x, v], reference)


def elementwise() -> Case:
    """Broadcasting, a transpose, a copy of an input, an empty tensor and a scalar."""
    x, b = float_input("X", 3, 17), float_input("B", 17)
    empty = float_input("E", 0, 4)
    turned = te.compute((17, 3), lambda i, j: x[j, i], name="T")
    one = te.compute((), lambda: x[0, 1] * 2.0, name="one")
    k = axis("k", 0, 0)
    nothing = te.compute((4,), lambda j: total(empty[k, j], k), name="nothing")

    def reference(x: Array, b: Array, e: Array) -> list[Array]:
        return [x * 2 + b, x, x.T, np.array(x[0, 1] * 2), e * 2, np.zeros(4)]

    return Case([x * 2.0 + b, x, turned, one, empty * 2.0, nothing], [x, b, empty], reference)


CASES: dict[str, Callable[[], Case]] = {
    "dense": lambda: dense(5, 7, 9),
    "dense_wide": lambda: dense(9, 6, 37),
    "conv2d": lambda: conv2d(1, 2, 7, 8, 5, 3),
    "conv2d_large_kernel": lambda: conv2d(1, 2, 9, 8, 2, 5),
    "pools": lambda: pools(2, 6, 8),
    "pools_odd": lambda: pools(2, 7, 9),
    "flatten": lambda: flatten(2, 3, 4, 5),
    "softmax": lambda: softmax(4, 9),
    "padding": lambda: padding(6, 7),
    "lazy_reductions": lazy_reductions,
    "nested_reductions": nested_reductions,
    "triangles": triangles,
    "gathers": gathers,
    "scans": scans,
    "folds": folds,
    "elementwise": elementwise,
}
