"""Convolutions: stride x dilation x kernel, padding, groups, transposed, symbolic."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

from benchmarks.work_cases.case import Case, Problem, by, inputs
from tensorad import te, topi

Make = Callable[[int], Problem]


def _conv(
    which: str, kernel: int, stride: int = 1, dilation: int = 1, padding: Any = 0, groups: int = 1
) -> Make:
    def make(g: int) -> Problem:
        ci, co = (4, 4) if groups > 1 else (2, 3)
        n = 8 + g
        x, w = inputs((2, ci, n, n), (co, ci // groups, kernel, kernel))
        y = topi.nn.conv2d(x, w, stride, padding, dilation, groups)
        return by(y, *[{"X": x, "W": w}[c] for c in which])

    return make


def _grid() -> list[Case]:
    cases = []
    for k, s, d in product((1, 2, 3), repeat=3):
        padding = (k - 1) * d // 2
        for which in "XW":
            name = f"conv k{k} s{s} d{d} p{padding} d{which}"
            cases.append(Case(name, _conv(which, k, s, d, padding)))
    return cases


def _plain_2d(stride: int) -> Make:
    """The convolution as a formula of its own, one padded read guarded by a select."""

    def make(g: int) -> Problem:
        n = 7 + g
        m = (n - 1) // stride + 1
        x, w = inputs((n, n), (3, 3))
        ky, kx = te.reduce_axis(3), te.reduce_axis(3)

        def entry(i: Any, j: Any) -> Any:
            a, b = i * stride + ky - 1, j * stride + kx - 1
            inside = te.all_of(a >= 0, a < n, b >= 0, b < n)
            return te.sum(te.select(inside, x[a, b], 0.0) * w[ky, kx], axis=[ky, kx])

        return by(te.compute((m, m), entry), x, w)

    return make


def _transposed(which: str, stride: int, padding: int, k: int = 3) -> Make:
    def make(g: int) -> Problem:
        x, w = inputs((2, 2, 5 + g, 5 + g), (2, 3, k, k))
        y = topi.nn.conv2d_transpose(x, w, stride, padding)
        return by(y, *[{"X": x, "W": w}[c] for c in which])

    return make


def _symbolic(which: str, **names: str) -> Make:
    """Symbolic batch `n`, height `h` or kernel `k` of a strided convolution."""

    def make(g: int) -> Problem:
        stride = 1 if "k" in names else 2
        batch = te.size("n") if "n" in names else 2
        height = te.size("h") if "h" in names else 8
        kernel = te.size("k") if "k" in names else 3
        sizes = {"n": 2, "h": 8 + g, "k": 3}
        out = (height - kernel) // stride + 1
        x, w = inputs((batch, 2, height), (3, 2, kernel))
        c, t = te.reduce_axis(2), te.reduce_axis(kernel)
        te.assume(kernel <= height) if "k" in names or "h" in names else None

        def entry(b: Any, o: Any, i: Any) -> Any:
            return te.sum(x[b, c, i * stride + t] * w[o, c, t], axis=[c, t])

        y = te.compute((batch, 3, out), entry)
        used = {s: v for s, v in sizes.items() if s in names}
        return by(y, *[{"X": x, "W": w}[c] for c in which], **used)

    return make


def _symbolic_output(g: int) -> Problem:
    """Rows h and output rows o of their own, with 2o - 1 <= h <= 2o."""
    h, o = te.size("h"), te.size("o")
    te.assume(2 * o - 1 <= h)
    te.assume(h <= 2 * o)
    x, w = inputs((h,), (3,))
    t = te.reduce_axis(3)

    def entry(i: Any) -> Any:
        inside = te.all_of(2 * i + t >= 1, 2 * i + t <= h)
        return te.sum(te.select(inside, x[2 * i + t - 1], 0.0) * w[t], axis=t)

    return by(te.compute((o,), entry), x, w, h=8 + g, o=4 + g // 2)


def _one_dimensional(g: int) -> Problem:
    x, w = inputs((2, 3, 9 + g), (4, 3, 3))
    return by(topi.nn.conv1d(x, w, 2, 1), x, w)


def _three_dimensional(g: int) -> Problem:
    x, w = inputs((1, 2, 4 + g, 5, 5), (2, 2, 2, 3, 3))
    return by(topi.nn.conv3d(x, w, (1, 2, 1), 1), x, w)


def _full_correlation(g: int) -> Problem:
    """y[a] = sum of x[i] * x[j] * x[k] with i + j + k = a."""
    n = 4 + g
    (x,) = inputs((n,))
    i, j, k = te.reduce_axis(n), te.reduce_axis(n), te.reduce_axis(n)

    def entry(a: Any) -> Any:
        return te.sum(x[i] * x[j] * x[k], axis=[i, j, k], where=te.all_of(i + j + k >= a))

    return by(te.compute((3 * n,), entry), x)


def _autocorrelation(g: int) -> Problem:
    n = 6 + g
    (x,) = inputs((n,))
    k = te.reduce_axis(n)
    return by(te.compute((n,), lambda a: te.sum(x[k] * x[k + a], axis=k, where=k + a < n)), x)


CASES = [
    *_grid(),
    Case("conv k3 s1 p1 dX dW", _conv("XW", 3, 1, 1, 1), second=True),
    Case("conv k3 s2 p1 dX dW", _conv("XW", 3, 2, 1, 1), second=True),
    Case("conv k3 s2 p2 d3 dX", _conv("X", 3, 2, 3, 2)),
    Case("conv k2 s3 p1 dX", _conv("X", 2, 3, 1, 1)),
    Case("conv k3 p0 1 dX", _conv("X", 3, 1, 1, (0, 1))),
    Case("conv groups 2 s2 p1 dX", _conv("X", 3, 2, 1, 1, 2)),
    Case("conv groups 2 s2 p1 dW", _conv("W", 3, 2, 1, 1, 2)),
    Case("conv groups 2 s1 d2 dX", _conv("X", 3, 1, 2, 2, 2)),
    Case("conv depthwise dX", _conv("X", 3, 1, 1, 1, 4)),
    Case("conv depthwise dW", _conv("W", 3, 1, 1, 1, 4)),
    Case("conv depthwise s2 dX dW", _conv("XW", 3, 2, 1, 1, 4)),
    Case("conv formula s1", _plain_2d(1)),
    Case("conv formula s2", _plain_2d(2), second=True),
    Case("conv formula s3", _plain_2d(3)),
    *[
        Case(f"transposed conv s{s} p{p} d{which}", _transposed(which, s, p))
        for s, p, which in product((1, 2, 3), (0, 1), "XW")
    ],
    Case("conv1d s2 p1", _one_dimensional),
    Case("conv3d s121 p1", _three_dimensional),
    Case("conv symbolic batch dX", _symbolic("X", n="n")),
    Case("conv symbolic batch dW", _symbolic("W", n="n")),
    Case("conv symbolic height dX", _symbolic("X", h="h")),
    Case("conv symbolic height dW", _symbolic("W", h="h")),
    Case("conv symbolic kernel dX", _symbolic("X", k="k")),
    Case("conv symbolic batch, height, kernel dX dW", _symbolic("XW", n="", h="", k="")),
    Case("conv symbolic height and output", _symbolic_output),
    Case("autocorrelation", _autocorrelation, second=True),
    Case("cubic sums above a", _full_correlation),
]
