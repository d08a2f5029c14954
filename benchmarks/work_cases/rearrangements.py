"""Reshapes, pads, slices, tiles, gathers by constant tables, and chains of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.work_cases.case import Case, Problem, by, inputs
from tensorad import te, topi
from tensorad.ir.tensor import Tensor

Make = Callable[[int], Problem]


def _unary(shape: tuple[int, ...], f: Callable[[Tensor, int], Any]) -> Make:
    """f(X, growth) where the first extent of X grows."""

    def make(g: int) -> Problem:
        (x,) = inputs((shape[0] + g, *shape[1:]))
        return by(f(x, g), x)

    return make


def _flatten_symbolic(g: int) -> Problem:
    n = te.size("n")
    (x,) = inputs((n, 3, 4, 5))
    return by(topi.flatten(x), x, n=3 + g)


def _flatten_all_symbolic(g: int) -> Problem:
    n, c, h, w = (te.size(s) for s in "nchw")
    (x,) = inputs((n, c, h, w))
    return by(topi.flatten(x), x, n=2 + g, c=3, h=4, w=5)


def _regroup_symbolic(g: int) -> Problem:
    """Columns of 4 laid out as rows of 4: both sides have other radices."""
    n, h = te.size("n"), te.size("h")
    (x,) = inputs((n, 4, h))
    return by(topi.reshape(x, (n * h, 4)), x, n=2 + g, h=5)


def _tile_symbolic(g: int) -> Problem:
    n, r = te.size("n"), te.size("r")
    (x,) = inputs((n,))
    return by(te.compute((n * r,), lambda i: x[i % n]), x, n=4 + g, r=3)


def _concat_symbolic(g: int) -> Problem:
    n, m = te.size("n"), te.size("m")
    x, w = inputs((n,), (m,))
    return by(topi.concatenate([x, w]), x, w, n=4 + g, m=3)


def _pixel_shuffle(x: Tensor, g: int) -> Any:
    """(c*4, h, w) -> (c, 2h, 2w)."""
    c, h, w = (int(n) for n in x.shape)
    return te.compute(
        (c // 4, 2 * h, 2 * w),
        lambda i, j, k: x[i * 4 + j % 2 * 2 + k % 2, j // 2, k // 2],
    )


def _raw_im2col(g: int) -> Problem:
    """Rows of windows, the window's positions as one digit string."""
    n = 6 + g
    (x,) = inputs((2, n, n))
    m = n - 2

    def entry(p: Any, q: Any) -> Any:
        return x[q // 9, p // m + q // 3 % 3, p % m + q % 3]

    return by(te.compute((m * m, 18), entry), x)


def _im2col_product(g: int) -> Problem:
    n = 6 + g
    m = n - 2
    x, w = inputs((2, n, n), (4, 18))
    k = te.reduce_axis(18)

    def entry(o: Any, p: Any) -> Any:
        return te.sum(x[k // 9, p // m + k // 3 % 3, p % m + k % 3] * w[o, k], axis=k)

    return by(te.compute((4, m * m), entry), x, w)


def _im2col_digits(g: int) -> Problem:
    n = 6 + g
    (x,) = inputs((2, n, n))
    m = n - 2

    def windows(c: Any, i: Any, j: Any, a: Any, b: Any) -> Any:
        return x[c, i + a, j + b]

    patches = te.compute((2, m, m, 3, 3), windows)
    return by(topi.reshape(topi.transpose(patches, (1, 2, 0, 3, 4)), (m * m, 18)), x)


def _resize_nearest(x: Tensor, g: int) -> Any:
    n = int(x.shape[0])
    return te.compute((n // 7 * 10,), lambda i: x[i * 7 // 10])


def _table(values: list[int]) -> Make:
    def make(g: int) -> Problem:
        (x,) = inputs((10, 3 + g))
        t = te.const(np.array(values))
        return by(te.compute((len(values), 3 + g), lambda i, j: x[t[i], j]), x)

    return make


def _bit_reversal(g: int) -> Problem:
    (x,) = inputs((35,))
    return by(te.compute((35,), lambda i: x[i * 12 % 35]), x)


def _strided_chain(x: Tensor, g: int) -> Any:
    return topi.flip(topi.strided_slice(topi.pad(x, 2), (1, 0), (9, 9), (2, 3)))


def _split_and_concat(x: Tensor, g: int) -> Any:
    a, b, c = topi.split(x, 3, axis=1)
    return topi.concatenate([c, topi.flip(a), b], axis=0)


def _reshape_chain(x: Tensor, g: int) -> Any:
    n = int(x.shape[0])
    once = topi.transpose(topi.reshape(x, (n, 4, 3)), (1, 0, 2))
    return topi.reshape(once, (n * 2, 6))


def _clamp(x: Tensor, g: int) -> Any:
    n = int(x.shape[0])

    def clamped(i: Any) -> Any:
        return te.minimum(te.maximum(i, 0), n - 1)

    return te.compute((n,), lambda i: x[clamped(i - 1)] + x[clamped(i + 1)] - 2.0 * x[i])


def _periodic(x: Tensor, g: int) -> Any:
    n = int(x.shape[0])
    return te.compute((n,), lambda i: x[(i + n - 1) % n] + x[(i + 1) % n] - 2.0 * x[i])


def _powers_of_two(x: Tensor, g: int) -> Any:
    return te.compute((4,), lambda i: x[i * (i + 1) // 2])


def _triangular_rows(g: int) -> Problem:
    """The lower triangle out of its packed rows."""
    n = 5 + g
    (x,) = inputs((n * (n + 1) // 2,))

    def entry(i: Any, j: Any) -> Any:
        return te.select(j <= i, x[te.minimum(i * (i + 1) // 2 + j, n * (n + 1) // 2 - 1)], 0.0)

    return by(te.compute((n, n), entry), x)


def _overlapping_slices(x: Tensor, g: int) -> Tensor:
    n = int(x.shape[0])
    parts = [topi.strided_slice(x, (k,), (n - 2 + k,), (1,)) for k in range(3)]
    return topi.concatenate(parts, axis=0)


def _tile_flip_slice(x: Tensor, g: int) -> Tensor:
    n = int(x.shape[0])
    return topi.strided_slice(topi.flip(topi.tile(x, (2, 1)), 0), (1, 0), (2 * n, 5), (3, 2))


def _repeat_and_roll(x: Tensor, g: int) -> Tensor:
    return topi.roll(topi.repeat(x, 2, 1), 3, 1) * topi.repeat(x, 2, 1)


def _reflect_and_filter(x: Tensor, g: int) -> Any:
    padded = topi.pad(x, 1, mode="reflect")
    n, m = (int(e) for e in x.shape)
    a, b = te.reduce_axis(3), te.reduce_axis(3)
    return te.compute((n, m), lambda i, j: te.sum(padded[i + a, j + b], axis=[a, b]))


def _transpose_of_flat(x: Tensor, g: int) -> Tensor:
    return topi.transpose(topi.reshape(topi.flip(x, 1), (-1, 6)))


def _square_of_views(g: int) -> Problem:
    (x,) = inputs((5 + g, 5 + g))
    views = topi.concatenate([x, topi.roll(x, 1, 0), topi.transpose(x)], axis=1)
    return by(topi.square(views), x)


CASES = [
    Case("flatten 4d", _unary((3, 4, 5, 2), lambda x, g: topi.flatten(x))),
    Case("flatten, symbolic batch", _flatten_symbolic),
    Case("flatten, all sizes symbolic", _flatten_all_symbolic),
    Case("rows and columns regrouped, symbolic", _regroup_symbolic),
    Case(
        "reshape (6,20) -> (8,15)",
        _unary((6, 20), lambda x, g: topi.reshape(x, (-1, 15))),
    ),
    Case(
        "reshape (12,35) -> (4,7,15)",
        _unary((12, 35), lambda x, g: topi.reshape(x, (-1, 7, 15))),
    ),
    Case("unflatten", _unary((60,), lambda x, g: topi.reshape(x, (-1, 4, 5))), growth=(20, 40)),
    Case("transpose", _unary((4, 5, 6), lambda x, g: topi.transpose(x, (2, 0, 1)))),
    Case("slice 3:17:2", _unary((20,), lambda x, g: topi.strided_slice(x, (3,), (17 + g,), (2,)))),
    Case("flip", _unary((20,), lambda x, g: topi.flip(x))),
    Case("roll", _unary((8, 5), lambda x, g: topi.roll(x, 3, 0))),
    Case("pad constant", _unary((5, 8), lambda x, g: topi.pad(x, (2, 3), (1, 0)))),
    Case("pad reflect", _unary((10,), lambda x, g: topi.pad(x, 3, mode="reflect"))),
    Case("pad reflect 2d", _unary((6, 5), lambda x, g: topi.pad(x, 2, mode="reflect"))),
    Case("pad edge", _unary((10,), lambda x, g: topi.pad(x, 3, mode="edge"))),
    Case("pad edge 2d", _unary((6, 5), lambda x, g: topi.pad(x, 2, mode="edge"))),
    Case("pad wrap", _unary((10,), lambda x, g: topi.pad(x, 3, mode="wrap"))),
    Case("pad wrap 2d", _unary((6, 5), lambda x, g: topi.pad(x, 2, mode="wrap"))),
    Case("tile", _unary((4, 5), lambda x, g: topi.tile(x, (2, 3)))),
    Case("tile, symbolic count", _tile_symbolic),
    Case("repeat x3", _unary((10,), lambda x, g: topi.repeat(x, 3, 0))),
    Case(
        "upsample nearest x2", _unary((5, 6), lambda x, g: topi.repeat(topi.repeat(x, 2, 0), 2, 1))
    ),
    Case("resize nearest 7 -> 10", _unary((7,), _resize_nearest), growth=(7, 14)),
    Case("resize nearest 2d", _unary((1, 2, 7, 5), lambda x, g: topi.resize(x, (10, 8)))),
    Case(
        "resize linear to the corners",
        _unary(
            (7, 3),
            lambda x, g: topi.interpolate(
                x, 10, axes=0, mode="linear", coordinates="align_corners"
            ),
        ),
        growth=(5, 10),  # ratios without a common divisor, between 1 and 2
    ),
    Case(
        "resize cubic 3:2",
        _unary((8, 3), lambda x, g: topi.interpolate(x, scales=1.5, axes=0, mode="cubic")),
    ),
    Case("triangle", _unary((6, 7), lambda x, g: topi.triu(x, 1))),
    Case("resize bilinear", _unary((1, 2, 5, 6), lambda x, g: topi.resize(x, (8, 9), "bilinear"))),
    Case("pixel shuffle 2", _unary((8, 3, 5), _pixel_shuffle), growth=(4, 8)),
    Case("space to depth", _unary((2, 3, 4, 6), lambda x, g: topi.space_to_depth(x, 2))),
    Case("depth to space", _unary((2, 8, 3, 4), lambda x, g: topi.depth_to_space(x, 2))),
    Case("im2col, raw", _raw_im2col),
    Case("im2col, digits", _im2col_digits),
    Case("im2col product", _im2col_product),
    Case("gather by table", _table([5, 0, 9, 2, 2, 7])),
    Case("gather by a permutation", _table([3, 1, 4, 0, 5, 9, 2, 6, 8, 7])),
    Case("bit reversal modulo 35", _bit_reversal),
    Case("triangular packing", _unary((10,), _powers_of_two)),
    Case("concatenate", _concat_symbolic),
    Case("pad, slice, flip", _unary((7, 6), _strided_chain)),
    Case("split, flip, concatenate", _unary((4, 6), _split_and_concat)),
    Case("reshape, transpose, reshape", _unary((3, 12), _reshape_chain)),
    Case("clamped stencil", _unary((9,), _clamp)),
    Case("periodic stencil", _unary((9,), _periodic)),
    Case(
        "expand, squeeze", _unary((4, 5), lambda x, g: topi.squeeze(topi.expand_dims(x * x, 1), 1))
    ),
    Case("stack of three", _unary((4, 5), lambda x, g: topi.stack([x, x * 2.0, topi.flip(x)], 1))),
    Case("triangular packing of rows", _triangular_rows),
    Case("overlapping slices, concatenated", _unary((8,), _overlapping_slices)),
    Case("tile, flip, slice", _unary((4, 5), _tile_flip_slice)),
    Case("repeat, roll, multiply", _unary((4, 5), _repeat_and_roll), second=True),
    Case("pad reflect, filter", _unary((6, 7), _reflect_and_filter)),
    Case("flip, reshape, transpose", _unary((3, 12), _transpose_of_flat)),
    Case("concatenate three views, square", _square_of_views, second=True),
]
