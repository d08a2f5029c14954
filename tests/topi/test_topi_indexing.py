"""Repeating, reversing, gathering, scattering, resampling and prefix folds against NumPy."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from tensorad import te, topi
from tensorad.autodiff import jvp, vjp
from tensorad.checking import gradcheck
from tensorad.errors import BoundsError, DefinitionError, DTypeError, ShapeError
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Tensor
from tests.support.refusals import Case, Refusals, check

rng = np.random.default_rng(6)
Array = np.ndarray


def tensor(*shape: int, name: str = "X") -> tuple[Tensor, Array]:
    return te.placeholder(shape, "float64", name=name), rng.standard_normal(shape)


def integers(*shape: int, below: int, name: str = "I") -> tuple[Tensor, Array]:
    return te.placeholder(shape, "int64", name=name), rng.integers(0, below, shape)


def expect(y: Tensor, values: dict[Tensor, Array], expected: object) -> None:
    """The value, and the derivatives with respect to every float input."""
    np.testing.assert_allclose(interpret(y, values), expected, rtol=1e-10, atol=1e-12)
    gradcheck(y, [t for t in values if t.dtype.is_float], arrays=values)


def test_repeating() -> None:
    x, xs = tensor(3, 4)
    expect(topi.tile(x, (2, 1, 3)), {x: xs}, np.tile(xs, (2, 1, 3)))
    expect(topi.tile(x, 2), {x: xs}, np.tile(xs, 2))
    assert topi.tile(x, (0, 1)).shape == (0, 4)
    expect(topi.repeat(x, 3, axis=-1), {x: xs}, np.repeat(xs, 3, -1))


def test_reversing_and_shifting() -> None:
    x, xs = tensor(3, 4)
    expect(topi.flip(x), {x: xs}, np.flip(xs))
    expect(topi.flip(x, 1), {x: xs}, np.flip(xs, 1))
    for shift in (5, -1, 0):
        expect(topi.roll(x, shift, 1), {x: xs}, np.roll(xs, shift, 1))


SLICES = [
    ((0, 1), (3, 4), None),
    ((2, -1), (-10, 0), (-1, -2)),
    ((1,), (100,), (2,)),
    ((3,), (1,), None),
]


@pytest.mark.parametrize(("begin", "end", "steps"), SLICES)
def test_strided_slice(
    begin: tuple[int, ...], end: tuple[int, ...], steps: tuple[int, ...] | None
) -> None:
    x, xs = tensor(3, 4)
    strides = steps or (1,) * len(begin)
    cut = xs[tuple(slice(*s) for s in zip(begin, end, strides, strict=True))]
    y = topi.strided_slice(x, begin, end, steps)
    assert y.shape == cut.shape
    if cut.size:
        expect(y, {x: xs}, cut)


SYMBOLIC = [
    ((1,), (None,), None),
    ((None,), (-2,), (2,)),
    ((None,), (None,), (-1,)),
    ((-1,), (1,), (-2,)),
    ((1, 3), (4, None), (2, -1)),
]


@pytest.mark.parametrize(("begin", "end", "steps"), SYMBOLIC)
def test_strided_slice_of_a_symbolic_axis(begin: Any, end: Any, steps: Any) -> None:
    x = te.placeholder((te.size("n"), 4), "float64", name="X")
    y = topi.strided_slice(x, begin, end, steps)
    strides = steps or (1,) * len(begin)
    for n in (4, 7):
        xs = rng.standard_normal((n, 4))
        cut = xs[tuple(slice(*s) for s in zip(begin, end, strides, strict=True))]
        np.testing.assert_array_equal(interpret(y, {x: xs}), cut)
    gradcheck(y, [x], arrays={x: rng.standard_normal((5, 4))})


def test_strided_slice_by_sizes() -> None:
    n = te.size("n")
    x, xs = te.placeholder((2 * n,), "float64", name="X"), rng.standard_normal(6)
    y = topi.strided_slice(x, n, (None,))
    np.testing.assert_array_equal(interpret(y, {x: xs}, sizes={"n": 3}), xs[3:])


def test_a_slice_that_sizes_leave_nothing_of() -> None:
    x = te.placeholder((te.size("n"),), name="X")
    with pytest.raises(ShapeError) as refused:
        interpret(topi.strided_slice(x, (3,), (None,)), {x: np.zeros(2)})
    assert str(refused.value) == (
        "strided_slice would have the shape (-1,) at n = 2.\n"
        "  in: strided_slice : float32 (n - 3,)\n"
        "  hint: pass larger arrays, or state the smallest size with ta.assume."
    )


@pytest.mark.parametrize("k", [-4, -1, 0, 2, 9])
def test_triangles(k: int) -> None:
    x, xs = tensor(2, 3, 4)
    diagonal = te.placeholder((), "int64", name="K")
    for upper, function, of in ((True, topi.triu, np.triu), (False, topi.tril, np.tril)):
        for y in (function(x, k), topi.trilu(x, k, upper), topi.trilu(x, diagonal, upper)):
            np.testing.assert_array_equal(interpret(y, {x: xs, diagonal: np.array(k)}), of(xs, k))
    gradcheck(topi.tril(x, k), [x], arrays={x: xs})


def test_triangles_of_integers_are_integers() -> None:
    x, xs = te.placeholder((2, 3), "int8", name="X"), np.arange(1, 7, dtype="int8").reshape(2, 3)
    for y, of in ((topi.triu(x), np.triu), (topi.tril(x), np.tril)):
        assert y.dtype == "int8"
        np.testing.assert_array_equal(interpret(y, {x: xs}), of(xs))


def test_space_to_depth_and_back() -> None:
    x, xs = tensor(2, 3, 4, 6)
    deep = topi.space_to_depth(x, 2)
    blocks = xs.reshape(2, 3, 2, 2, 3, 2).transpose(0, 3, 5, 1, 2, 4).reshape(2, 12, 2, 3)
    expect(deep, {x: xs}, blocks)
    expect(topi.depth_to_space(deep, 2), {x: xs}, xs)


def test_arange_and_meshgrid() -> None:
    for arguments in ((4,), (2, 11, 3), (5, 0, -2), (3, 3)):
        np.testing.assert_array_equal(interpret(topi.arange(*arguments), {}), range(*arguments))
    assert topi.arange(3, dtype="float32").dtype.is_float
    values = dict([tensor(3, name="A"), tensor(2, name="B"), tensor(4, name="C")])
    for count, indexing in product((1, 2, 3), ("xy", "ij")):
        own = [*values][:count]
        expected = np.meshgrid(*[values[t] for t in own], indexing=indexing)  # type: ignore[call-overload]
        for made, array in zip(topi.meshgrid(*own, indexing=indexing), expected, strict=True):
            np.testing.assert_array_equal(interpret(made, values), array)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
@pytest.mark.parametrize(("before", "after"), [((2, 1), (1, 3)), ((0, 3), (2, 0)), (0, 1)])
def test_pad_with_elements(
    before: tuple[int, int] | int, after: tuple[int, int] | int, mode: str
) -> None:
    x, xs = tensor(3, 4)
    low = (before, before) if isinstance(before, int) else before
    high = (after, after) if isinstance(after, int) else after
    widths = list(zip(low, high, strict=True))
    expected = np.pad(xs, widths, mode=mode)  # type: ignore[call-overload]
    expect(topi.pad(x, before, after, mode=mode), {x: xs}, expected)


def test_gathering() -> None:
    x, xs = tensor(3, 4)
    i, iv = integers(3, 2, below=4)
    expect(topi.gather(x, i, 1), {x: xs, i: iv}, np.take_along_axis(xs, iv, 1))
    j, jv = integers(2, 5, below=3)
    expect(topi.gather_nd(x, j), {x: xs, j: jv}, xs[jv[0], jv[1]])
    k, kv = integers(1, 5, below=3)
    expect(topi.gather_nd(x, k), {x: xs, k: kv}, xs[kv[0]])
    w, wv = integers(2, 3, below=3)
    expect(topi.embedding(w, x), {x: xs, w: wv}, xs[wv])


def test_one_hot() -> None:
    i, iv = integers(2, 3, below=4)
    made = topi.one_hot(i, 4)
    np.testing.assert_array_equal(interpret(made, {i: iv}), np.eye(4)[iv])
    outside = interpret(made, {i: np.full((2, 3), 9)})
    assert not outside.any()


def test_scattering_adds_duplicates() -> None:
    x, xs = tensor(3, 4)
    i, iv = integers(3, 3, below=4)
    u, uv = tensor(3, 3, name="U")
    expected = xs.copy()
    np.add.at(expected, (np.arange(3)[:, None], iv), uv)
    expect(topi.scatter_add(x, i, u, axis=1), {x: xs, i: iv, u: uv}, expected)
    s = te.placeholder((3,), "int64", name="S")
    segments = np.array([1, 0, 1])
    sums = np.zeros((2, 4))
    np.add.at(sums, segments, xs)
    expect(topi.segment_sum(x, s, 2), {x: xs, s: segments}, sums)


def test_a_segment_that_does_not_exist() -> None:
    x, xs = tensor(3, 4)
    s = te.placeholder((3,), "int64", name="S")
    with pytest.raises(BoundsError):
        interpret(topi.segment_sum(x, s, 2), {x: xs, s: np.array([0, 2, 1])})


def test_sequence_mask() -> None:
    x, xs = tensor(3, 4, 2)
    lengths = te.placeholder((3,), "int64", name="L")
    counts = np.array([1, 4, 0])
    kept = np.arange(4)[None, :, None] < counts[:, None, None]
    y = topi.sequence_mask(x, lengths, value=-1.0)
    expect(y, {x: xs, lengths: counts}, np.where(kept, xs, -1))
    along = topi.sequence_mask(topi.transpose(x, (1, 0, 2)), lengths, axis=0)
    expected = np.where(kept, xs, 0).transpose(1, 0, 2)
    expect(along, {x: xs, lengths: counts}, expected)


def resample(x: Array, size: tuple[int, int], linear: bool) -> Array:
    """One sampling matrix per axis, written down point by point."""
    maps = []
    for n, m in zip(x.shape[2:], size, strict=True):
        weights = np.zeros((m, n))
        for i in range(m):
            if not linear:
                weights[i, i * n // m] = 1
                continue
            at = (i + 0.5) * n / m - 0.5
            low = int(np.floor(at + 1e-12))
            weights[i, min(max(low, 0), n - 1)] += 1 - (at - low)
            weights[i, min(max(low + 1, 0), n - 1)] += at - low
        maps.append(weights)
    return np.einsum("ncyx,ry,sx->ncrs", x, *maps)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("method", ["nearest", "bilinear"])
@pytest.mark.parametrize("size", [(5, 2), (6, 8), (3, 4)])
def test_resize(size: tuple[int, int], method: str) -> None:
    x, xs = tensor(1, 2, 3, 4)
    expect(topi.resize(x, size, method), {x: xs}, resample(xs, size, method == "bilinear"))


def test_upsampling() -> None:
    x, xs = tensor(1, 1, 2, 3)
    nearest = xs.repeat(2, 2).repeat(3, 3)
    expect(topi.upsampling(x, (2, 3)), {x: xs}, nearest)
    expect(topi.upsampling(x, 2, "bilinear"), {x: xs}, resample(xs, (4, 6), True))


def test_prefix_folds() -> None:
    x, xs = tensor(3, 4)
    expect(topi.cumsum(x), {x: xs}, xs.cumsum(1))
    expect(topi.cumsum(x, 0, reverse=True), {x: xs}, xs[::-1].cumsum(0)[::-1])
    shifted = np.concatenate([np.zeros((3, 1)), xs.cumsum(1)[:, :-1]], 1)
    expect(topi.cumsum(x, exclusive=True), {x: xs}, shifted)
    expect(topi.cumprod(x, 0), {x: xs}, xs.cumprod(0))
    expect(topi.cummax(x), {x: xs}, np.maximum.accumulate(xs, 1))
    expect(topi.cummin(x, reverse=True), {x: xs}, np.minimum.accumulate(xs[:, ::-1], 1)[:, ::-1])


def test_variance_and_logsumexp() -> None:
    x, xs = tensor(3, 4)
    expect(topi.variance(x, 1), {x: xs}, xs.var(1))
    exps = np.exp(xs)
    expect(topi.logsumexp(x), {x: xs}, np.log(exps.sum()))
    expect(topi.logsumexp(x, 0, keepdims=True), {x: xs}, np.log(exps.sum(0, keepdims=True)))
    edges = np.array([[-np.inf, -np.inf], [1e4, 1e4], [np.inf, 0], [-np.inf, 2]])
    y, _ = tensor(4, 2, name="Y")
    for made in (topi.logsumexp(y, 1), topi.einsum("ij->i", y, reduce=te.logsumexp)):
        expected = [-np.inf, 1e4 + np.log(2), np.inf, 2]
        np.testing.assert_allclose(interpret(made, {y: edges}), expected)


def test_logsumexp_of_nothing_has_no_slope() -> None:
    x, xs = tensor(3, 4)
    k = te.reduce_axis(4, name="k")
    y = te.compute((3,), lambda i: te.logsumexp(x[i, k], axis=k, where=k < i))
    with np.errstate(divide="ignore"):
        expected = np.log([np.exp(xs[i, :i]).sum() for i in range(3)])
    np.testing.assert_allclose(interpret(y, {x: xs}), expected)
    direction = np.ones((3, 4))
    slope = interpret(jvp(y, {x: te.const(direction)}), {x: xs})
    (dx,) = vjp(y, [x], np.ones(3))
    np.testing.assert_allclose(slope, [0, 1, 1])
    np.testing.assert_allclose(interpret(dx, {x: xs}).sum(1), [0, 1, 1])


CASES = Refusals()
X = te.placeholder((2, 6), name="X")
IMAGE = te.placeholder((1, 3, 4, 6), name="P")
FLOATS = te.placeholder((2, 6), name="F")


@CASES.refused(
    DefinitionError, "tile: repeats must be integers >= 0, got (2, -1).", "  hint: e.g. (2, 1)."
)
def negative_tiles() -> None:
    topi.tile(X, (2, -1))


@CASES.refused(
    DefinitionError, "repeat: repeats must be a positive integer, got 0.", "  hint: e.g. 2."
)
def no_repeats() -> None:
    topi.repeat(X, 0, 0)


@CASES.refused(
    DefinitionError,
    "strided_slice: begin (0,), end (3, 2) and strides (1,) do not cut X with 2 axes.",
    "  hint: give one begin, end and nonzero stride for each axis to be cut.",
)
def a_slice_without_begin() -> None:
    topi.strided_slice(X, (0,), (3, 2))


@CASES.refused(
    ShapeError,
    "triu: V (6,) is no matrix.",
    "  hint: x has rows and columns as its last two axes.",
)
def a_triangle_of_a_vector() -> None:
    topi.triu(te.placeholder((6,), name="V"))


@CASES.refused(
    DefinitionError,
    "trilu: k must be an integer, got float32.",
    "  hint: 0 is the main diagonal.",
)
def a_diagonal_between_others() -> None:
    topi.trilu(X, te.placeholder((), name="K"))


@CASES.refused(
    ShapeError,
    "space_to_depth: P (1, 3, 4, 6) does not divide into blocks of 4.",
    "  hint: extents must be numbers and multiples of the block.",
)
def blocks_that_do_not_divide() -> None:
    topi.space_to_depth(IMAGE, 4)


@CASES.refused(
    DefinitionError,
    "meshgrid: indexing must be 'xy' or 'ij', got 'ji'.",
    "  hint: 'ij' is matrix order.",
)
def another_order() -> None:
    topi.meshgrid(indexing="ji")


@CASES.refused(
    DefinitionError,
    "pad: mode must be 'constant', 'edge', 'reflect' or 'wrap', got 'mirror'.",
    "  hint: write another rule with compute.",
)
def another_padding() -> None:
    topi.pad(X, 1, mode="mirror")


@CASES.refused(
    ShapeError,
    "pad: axis 0 of X with extent 2 is too short to reflect by 2.",
    "  hint: it needs 3 elements.",
)
def a_mirror_wider_than_the_axis() -> None:
    topi.pad(X, 2, mode="reflect")


@CASES.refused(
    DTypeError,
    "gather: indices must be integers, but F has dtype float32.",
    "  hint: convert them: F.astype('int64').",
)
def float_positions() -> None:
    topi.gather(X, FLOATS, 0)


@CASES.refused(
    ShapeError,
    "gather_nd: I (3, 2) cannot index X with 2 axes.",
    "  hint: its first extent is the number of leading indices of x.",
)
def too_many_leading_indices() -> None:
    topi.gather_nd(X, te.placeholder((3, 2), "int64", name="I"))


@CASES.refused(
    ShapeError,
    "segment_sum: X (2, 6) has no 3 rows, one for each of S.",
    "  hint: segments are numbered per row, along axis 0.",
)
def segments_of_other_rows() -> None:
    topi.segment_sum(X, te.placeholder((3,), "int64", name="S"), 2)


@CASES.refused(
    DefinitionError,
    "resize: method must be 'nearest' or 'bilinear', got 'cubic'.",
    "  hint: interpolate has other ones.",
)
def another_interpolation() -> None:
    topi.resize(IMAGE, 8, "cubic")


@CASES.refused(
    ShapeError,
    "upsampling: the images of S have the extents n x 4.",
    "  hint: images are resampled from constant extents of at least 1.",
)
def a_symbolic_image() -> None:
    topi.upsampling(te.placeholder((1, 1, te.size("n"), 4), name="S"))


@pytest.mark.parametrize("case", CASES, ids=[c.attempt.__name__ for c in CASES])
def test_the_whole_text(case: Case) -> None:
    check(case)
