"""Convolutions and pools in one to three dimensions against their definitions, and refusals."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tensorad import te, topi
from tensorad.checking import gradcheck
from tensorad.errors import DefinitionError, ShapeError
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Tensor
from tests.support.refusals import Case, Refusals, check

rng = np.random.default_rng(4)


def tensor(*shape: int, name: str = "X") -> tuple[Tensor, np.ndarray]:
    return te.placeholder(shape, "float64", name=name), rng.standard_normal(shape)


def windows(
    x: np.ndarray, kernel: list[int], strides: list[int], dilation: list[int]
) -> list[tuple[tuple[int, ...], np.ndarray]]:
    """(output position, the input's elements under the window) of an already padded input."""
    counts = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(x.shape[2:], kernel, strides, dilation, strict=True)
    ]
    found = []
    for position in product(*map(range, counts)):
        cut = [
            slice(p * s, p * s + d * (k - 1) + 1, d)
            for p, k, s, d in zip(position, kernel, strides, dilation, strict=True)
        ]
        found.append((position, x[(slice(None), slice(None), *cut)]))
    return found


def convolve(
    x: np.ndarray, w: np.ndarray, strides: list[int], dilation: list[int], groups: int
) -> np.ndarray:
    out, per_group, *kernel = w.shape
    parts = windows(x, kernel, strides, dilation)
    shape = [max(p[d] for p, _ in parts) + 1 for d in range(len(kernel))]
    y = np.zeros((x.shape[0], out, *shape))
    for o in range(out):
        first = o // (out // groups) * per_group
        for position, window in parts:
            terms = window[:, first : first + per_group] * w[o]
            y[(slice(None), o, *position)] = terms.reshape(len(x), -1).sum(1)
    return y


def test_conv1d() -> None:
    (x, xs), (w, ws) = tensor(2, 4, 7), tensor(6, 2, 3, name="W")
    y = topi.nn.conv1d(x, w, strides=2, padding=(1, 2), dilation=2, groups=2)
    padded = np.pad(xs, ((0, 0), (0, 0), (1, 2)))
    np.testing.assert_allclose(
        interpret(y, {x: xs, w: ws}), convolve(padded, ws, [2], [2], 2), atol=1e-12
    )
    gradcheck(y, [x, w])


def test_conv3d() -> None:
    (x, xs), (w, ws) = tensor(1, 1, 3, 4, 3), tensor(2, 1, 2, 2, 3, name="W")
    y = topi.nn.conv3d(x, w, strides=(1, 2, 1), padding=(1, 0, 1))
    padded = np.pad(xs, ((0, 0), (0, 0), (1, 1), (0, 0), (1, 1)))
    np.testing.assert_allclose(
        interpret(y, {x: xs, w: ws}), convolve(padded, ws, [1, 2, 1], [1, 1, 1], 1), atol=1e-12
    )
    gradcheck(y, [x, w])


TRANSPOSED = [
    # strides, padding, output padding, dilation, groups
    (1, 0, 0, 1, 1),
    (2, 1, 1, 1, 2),
    ((3, 1), (1, 0), 0, (1, 2), 1),
]


@pytest.mark.parametrize(("strides", "padding", "extra", "dilation", "groups"), TRANSPOSED)
def test_conv2d_transpose_is_the_transposed_map(
    strides: object, padding: object, extra: object, dilation: object, groups: int
) -> None:
    """<conv(u), v> = <u, conv_transpose(v)> for all u, v, with the same weight."""
    (v, vs), (w, ws) = tensor(1, 2, 2, 3, name="V"), tensor(2, 4 // groups, 3, 2, name="W")
    back = topi.nn.conv2d_transpose(v, w, strides, padding, extra, dilation, groups)
    (u, us) = tensor(*[int(str(n)) for n in back.shape], name="U")
    there = topi.nn.conv2d(u, w, strides, padding, dilation, groups)
    assert there.shape == v.shape
    left = (interpret(there, {u: us, w: ws}) * vs).sum()
    right = (us * interpret(back, {v: vs, w: ws})).sum()
    np.testing.assert_allclose(left, right, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("strides", "padding", "extra", "dilation", "groups"), TRANSPOSED)
def test_conv2d_transpose_is_differentiated(
    strides: object, padding: object, extra: object, dilation: object, groups: int
) -> None:
    v, w = tensor(1, 2, 2, 3, name="V")[0], tensor(2, 4 // groups, 3, 2, name="W")[0]
    gradcheck(topi.nn.conv2d_transpose(v, w, strides, padding, extra, dilation, groups), [v, w])


@pytest.mark.slow
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("rank", [1, 3])
def test_transposed_maps_of_other_ranks(rank: int, groups: int) -> None:
    forward = (topi.nn.conv1d, None, topi.nn.conv3d)[rank - 1]
    backward = (topi.nn.conv1d_transpose, None, topi.nn.conv3d_transpose)[rank - 1]
    assert forward is not None and backward is not None
    extents, kernel = (3, 2, 2)[:rank], (2, 1, 3)[:rank]
    (v, vs), (w, ws) = tensor(1, 2, *extents, name="V"), tensor(2, 4 // groups, *kernel, name="W")
    stride, pads, spread = (2, 1, 3)[:rank], (1, 0, 1, 0, 0, 2)[: 2 * rank], (1, 2, 1)[:rank]
    back = backward(v, w, stride, pads, (1, 0, 0)[:rank], spread, groups)
    (u, us) = tensor(*[int(str(n)) for n in back.shape], name="U")
    there = forward(u, w, stride, pads, spread, groups)
    assert there.shape == v.shape
    left = (interpret(there, {u: us, w: ws}) * vs).sum()
    right = (us * interpret(back, {v: vs, w: ws})).sum()
    np.testing.assert_allclose(left, right, rtol=1e-12)
    gradcheck(back, [v, w], arrays={v: vs, w: ws})


@pytest.mark.parametrize(
    ("word", "around", "kernel"),
    [("same_upper", (1, 1), 4), ("same_upper", (0, 1), 3), ("same_lower", (1, 0), 3)],
)
def test_padding_that_multiplies_the_extents(
    word: str, around: tuple[int, int], kernel: int
) -> None:
    (v, vs), (w, ws) = tensor(1, 1, 3, name="V"), tensor(1, 1, kernel, name="W")
    y, z = (topi.nn.conv1d_transpose(v, w, 2, p) for p in (word, around))
    assert y.shape == (1, 1, 6)
    np.testing.assert_array_equal(*[interpret(t, {v: vs, w: ws}) for t in (y, z)])


def test_padding_of_a_kernel_narrower_than_the_stride() -> None:
    (v, vs), (w, ws) = tensor(1, 1, 2, name="V"), tensor(1, 1, 1, name="W")
    y = topi.nn.conv1d_transpose(v, w, 3, "same_upper")
    assert y.shape == (1, 1, 6)
    expected = [vs[0, 0, 0] * ws[0, 0, 0], 0, 0, vs[0, 0, 1] * ws[0, 0, 0], 0, 0]
    np.testing.assert_allclose(interpret(y, {v: vs, w: ws})[0, 0], expected)


def test_padding_of_a_kernel_with_gaps() -> None:
    (v, vs), (w, ws) = tensor(1, 1, 3, name="V"), tensor(1, 1, 3, name="W")
    y = topi.nn.conv1d_transpose(v, w, 2, "same_upper", dilation=2)
    whole = topi.nn.conv1d_transpose(v, w, 2, dilation=2)
    assert y.shape == (1, 1, 6) and whole.shape == (1, 1, 9)
    values = {v: vs, w: ws}
    np.testing.assert_allclose(interpret(y, values), interpret(whole, values)[:, :, 1:7])


CEILING = [
    # extent, kernel, stride, (before, after), windows
    (6, 3, 2, (0, 0), 3),
    (6, 2, 3, (1, 1), 3),
    (7, 2, 2, (0, 0), 4),
    (5, 2, 4, (0, 0), 2),
    (4, 1, 3, (0, 1), 2),  # a third window would begin in the padding
    (3, 2, 3, (0, 1), 1),  # and so would a second one here, at its first element
]


@pytest.mark.parametrize(("extent", "kernel", "stride", "around", "count"), CEILING)
@pytest.mark.parametrize("kind", ["max", "avg"])
def test_ceil_mode_lets_the_last_window_hang_over(
    extent: int, kernel: int, stride: int, around: tuple[int, int], count: int, kind: str
) -> None:
    x, xs = tensor(1, 2, extent)
    for count_pad in (True, False):
        y = topi.nn.pool1d(x, kernel, stride, around, kind, count_pad, ceil_mode=True)
        assert y.shape == (1, 2, count)
        expected = np.zeros((1, 2, count))
        for p in range(count):
            start = p * stride - around[0]
            stop = start + kernel
            inside = xs[:, :, max(start, 0) : max(stop, 0)]
            size = min(stop, extent + around[1]) - start if count_pad else inside.shape[2]
            value = inside.max(2) if kind == "max" else inside.sum(2) / max(size, 1)
            expected[:, :, p] = value
        np.testing.assert_allclose(interpret(y, {x: xs}), expected, atol=1e-12)
    gradcheck(y, x)


def test_pool3d() -> None:
    x, xs = tensor(1, 2, 3, 4, 3)
    expected = np.zeros((1, 2, 2, 2, 2))
    for position, window in windows(xs, [2, 2, 2], [1, 2, 1], [1, 1, 1]):
        expected[(slice(None), slice(None), *position)] = window.max((2, 3, 4))
    y = topi.nn.pool3d(x, 2, (1, 2, 1))
    np.testing.assert_allclose(interpret(y, {x: xs}), expected)
    gradcheck(y, x)


def test_global_pool() -> None:
    x, xs = tensor(2, 3, 4, 5)
    for kind, expected in (("avg", xs.mean((2, 3))), ("max", xs.max((2, 3)))):
        y = topi.nn.global_pool(x, kind)
        np.testing.assert_allclose(interpret(y, {x: xs})[..., 0, 0], expected)
        gradcheck(y, x)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ["avg", "max"])
@pytest.mark.parametrize("size", [(4, 3), (3, 7), (1, 5)])
def test_adaptive_pool(size: tuple[int, int], kind: str) -> None:
    x, xs = tensor(1, 2, 6, 7)
    expected = np.zeros((1, 2, *size))
    for i, j in product(range(size[0]), range(size[1])):
        rows = slice(i * 6 // size[0], -(-(i + 1) * 6 // size[0]))
        columns = slice(j * 7 // size[1], -(-(j + 1) * 7 // size[1]))
        window = xs[:, :, rows, columns]
        expected[:, :, i, j] = window.max((2, 3)) if kind == "max" else window.mean((2, 3))
    y = topi.nn.adaptive_pool(x, size, kind)
    np.testing.assert_allclose(interpret(y, {x: xs}), expected, atol=1e-12)
    gradcheck(y, x)


CASES = Refusals()
X = te.placeholder((2, 4, 5, 5), name="X")
LINE = te.placeholder((2, 4, 5), name="L")


@CASES.refused(
    DefinitionError,
    "conv1d: strides must be an integer >= 1, got (1, 2).",
    "  hint: e.g. strides=2.",
)
def two_strides_of_one_axis() -> None:
    topi.nn.conv1d(LINE, te.placeholder((4, 4, 3), name="W"), (1, 2))


@CASES.refused(
    ShapeError,
    "conv1d: L has 4 channels, but W of shape (4, 3, 3) with groups=1 needs 3.",
    "  hint: weights have shape (out, channels / groups, kernel...).",
)
def channels_that_do_not_fit() -> None:
    topi.nn.conv1d(LINE, te.placeholder((4, 3, 3), name="W"))


@CASES.refused(
    ShapeError,
    "conv2d_transpose: X has 4 channels, but W of shape (3, 2, 2, 2) with groups=1 needs 3.",
    "  hint: weights have shape (channels, out / groups, height, width).",
)
def transposed_channels_that_do_not_fit() -> None:
    topi.nn.conv2d_transpose(X, te.placeholder((3, 2, 2, 2), name="W"))


@CASES.refused(
    ShapeError,
    "conv1d_transpose: padding 'same_upper' of the symbolic kernel (2, 1, k).",
    "  hint: give the padding as integers.",
)
def words_for_a_symbolic_kernel() -> None:
    kernel = te.placeholder((2, 1, te.size("k")), name="W")
    topi.nn.conv1d_transpose(te.placeholder((1, 2, 3), name="X"), kernel, padding="same_upper")


@CASES.refused(
    ShapeError,
    "conv2d_transpose: the padding leaves -4 elements of an axis of the output.",
    "  hint: use less padding.",
)
def a_transposed_output_padded_away() -> None:
    topi.nn.conv2d_transpose(X, te.placeholder((4, 2, 2, 2), name="W"), padding=(5, 4))


@CASES.refused(
    ShapeError,
    "pool1d: ceil_mode needs extents that are numbers, but S has n.",
    "  hint: pad the input instead.",
)
def a_symbolic_ceiling() -> None:
    x = te.placeholder((1, 1, te.size("n")), name="S")
    topi.nn.pool1d(x, 2, 2, ceil_mode=True)


@CASES.refused(
    ShapeError,
    "global_pool: M with 2 axes has no spatial axis.",
    "  hint: axes are (batch, channels, spatial...).",
)
def a_global_pool_of_a_matrix() -> None:
    topi.nn.global_pool(te.placeholder((2, 3), name="M"))


@CASES.refused(
    ShapeError,
    "adaptive_pool: axis 3 of S has extent n.",
    "  hint: windows are cut from constant extents of at least 1.",
)
def a_symbolic_adaptive_pool() -> None:
    topi.nn.adaptive_pool(te.placeholder((1, 1, 4, te.size("n")), name="S"), 2)


@pytest.mark.parametrize("case", CASES, ids=[c.attempt.__name__ for c in CASES])
def test_the_whole_text(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_a_window_of_a_pool_has_an_element(kind: str) -> None:
    n = te.size("n")
    x, rows = te.placeholder((1, 1, 4), name="X"), te.placeholder((1, 1, n), name="R")
    assert topi.pool1d(x, 1, 3, (0, 1), kind).shape == (1, 1, 2)  # no window begins at the end
    assert topi.pool1d(x, 3, 1, 2, kind).shape == (1, 1, 6)
    for y, k, padding in ((x, 1, (0, 3)), (x, 2, (2, 0)), (rows, 1, (0, 1))):
        with pytest.raises(ShapeError, match="would lie in a padding"):
            topi.pool1d(y, k, 1, padding, kind)
