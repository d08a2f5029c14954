"""topi.nn against plain NumPy loops, with gradients and refusals."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tensorad import te, topi
from tensorad.checking import gradcheck
from tensorad.errors import DefinitionError, DTypeError, ShapeError
from tensorad.ir.expr import Select
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import op_expressions, postorder
from tests.support.refusals import Case, Refusals, check

rng = np.random.default_rng(8)
Pair = tuple[int, int]
Four = tuple[int, int, int, int]


def tensor(*shape: int, name: str = "X") -> tuple[Tensor, np.ndarray]:
    return te.placeholder(shape, "float64", name=name), rng.standard_normal(shape)


def test_dense() -> None:
    (x, xs), (w, ws), (b, bs) = tensor(3, 4), tensor(2, 4, name="W"), tensor(2, name="B")
    y = topi.nn.dense(x, w, b)
    values = {x: xs, w: ws, b: bs}
    np.testing.assert_allclose(interpret(y, values), xs @ ws.T + bs)
    np.testing.assert_allclose(interpret(topi.nn.dense(x, w), values), xs @ ws.T)
    gradcheck(y, [x, w, b])


def test_bias_add_along_any_axis() -> None:
    (x, xs), (b, bs) = tensor(2, 3, 4), tensor(3, name="B")
    y = topi.nn.bias_add(x, b, -2)
    np.testing.assert_allclose(interpret(y, {x: xs, b: bs}), xs + bs[:, None])
    gradcheck(y, [x, b])


def convolve(
    x: np.ndarray, w: np.ndarray, stride: Pair, pads: Four, dilation: Pair, groups: int
) -> np.ndarray:
    """The definition, one window at a time."""
    top, left, bottom, right = pads
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    out, per_group, kh, kw = w.shape
    reach = (dilation[0] * (kh - 1) + 1, dilation[1] * (kw - 1) + 1)
    rows, columns = ((x.shape[2 + d] - reach[d]) // stride[d] + 1 for d in (0, 1))
    y = np.zeros((x.shape[0], out, rows, columns))
    for o, r, c in product(range(out), range(rows), range(columns)):
        first = o // (out // groups) * per_group
        r0, c0 = r * stride[0], c * stride[1]
        window = x[
            :,
            first : first + per_group,
            r0 : r0 + reach[0] : dilation[0],
            c0 : c0 + reach[1] : dilation[1],
        ]
        y[:, o, r, c] = (window * w[o]).sum((1, 2, 3))
    return y


CONVOLUTIONS = [
    # channels, kernel (o, i, h, w), strides, padding, dilation, groups
    (2, (3, 2, 3, 3), 1, 0, 1, 1),
    (2, (1, 2, 2, 3), 2, 0, 1, 1),
    (2, (2, 2, 3, 2), 1, 1, 1, 1),
    (1, (2, 1, 3, 2), (2, 1), (1, 0), (1, 2), 1),
    (4, (4, 2, 2, 2), 1, 0, 1, 2),
    (3, (3, 1, 3, 3), 2, 2, 1, 3),
    (1, (1, 1, 3, 3), 1, (0, 1, 2, 0), 1, 1),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("channels", "kernel", "strides", "padding", "dilation", "groups"),
                         CONVOLUTIONS)  # fmt: skip
def test_conv2d(
    channels: int,
    kernel: Four,
    strides: int | Pair,
    padding: int | Pair | Four,
    dilation: int | Pair,
    groups: int,
) -> None:
    (x, xs), (w, ws) = tensor(1, channels, 4, 5), tensor(*kernel, name="W")
    y = topi.nn.conv2d(x, w, strides, padding, dilation, groups)
    stride = strides if isinstance(strides, tuple) else (strides, strides)
    spread = dilation if isinstance(dilation, tuple) else (dilation, dilation)
    expected = convolve(xs, ws, stride, four(padding), spread, groups)
    assert y.shape == expected.shape
    np.testing.assert_allclose(interpret(y, {x: xs, w: ws}), expected, atol=1e-12)
    gradcheck(y, [x, w])


def four(padding: int | Pair | Four) -> Four:
    if isinstance(padding, int):
        return (padding,) * 4
    return (*padding, *padding) if len(padding) == 2 else padding


def test_an_unpadded_convolution_tests_nothing() -> None:
    (x, _), (w, _) = tensor(1, 1, 5, 5), tensor(1, 1, 3, 3, name="W")
    y = topi.nn.conv2d(x, w)
    assert not any(isinstance(e, Select) for e in postorder(*op_expressions(y.op)))
    assert "condition True" in str(y)


@pytest.mark.slow
def test_conv2d_agrees_with_torch() -> None:
    torch = pytest.importorskip("torch", reason="compares with PyTorch, of the extra bench")
    (x, xs), (w, ws) = tensor(2, 4, 9, 8), tensor(6, 2, 3, 3, name="W")
    y = topi.nn.conv2d(x, w, (2, 1), (1, 2), (1, 2), groups=2)
    expected = torch.nn.functional.conv2d(
        torch.tensor(xs), torch.tensor(ws), None, (2, 1), (1, 2), (1, 2), 2
    )
    np.testing.assert_allclose(interpret(y, {x: xs, w: ws}), expected.numpy(), atol=1e-12)


def pool_by_hand(
    x: np.ndarray, kernel: Pair, stride: Pair, pads: Four, kind: str, count_pad: bool
) -> np.ndarray:
    """The definition, one window at a time."""
    top, left, bottom, right = pads
    n, c, height, width = x.shape
    rows = (height + top + bottom - kernel[0]) // stride[0] + 1
    columns = (width + left + right - kernel[1]) // stride[1] + 1
    y = np.zeros((n, c, rows, columns))
    for r, q in product(range(rows), range(columns)):
        r0, c0 = r * stride[0] - top, q * stride[1] - left
        window = x[:, :, max(r0, 0) : r0 + kernel[0], max(c0, 0) : c0 + kernel[1]]
        size = kernel[0] * kernel[1] if count_pad else window.shape[2] * window.shape[3]
        y[:, :, r, q] = window.max((2, 3)) if kind == "max" else window.sum((2, 3)) / size
    return y


POOLS = [
    (2, 2, 0),
    (3, 1, 0),
    ((2, 3), (1, 2), 0),
    (3, 2, 1),
    (2, 1, (0, 1, 1, 0)),
]


@pytest.mark.sampled(9)
@pytest.mark.parametrize("kind", ["avg", "max"])
@pytest.mark.parametrize(("kernel", "stride", "padding"), POOLS)
def test_pool(
    kernel: int | Pair, stride: int | Pair, padding: int | Pair | Four, kind: str
) -> None:
    x, xs = tensor(2, 2, 5, 6)
    size = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    step = stride if isinstance(stride, tuple) else (stride, stride)
    for count_pad in (True, False):
        y = topi.nn.pool(x, kernel, stride, padding, kind, count_include_pad=count_pad)
        expected = pool_by_hand(xs, size, step, four(padding), kind, count_pad)
        np.testing.assert_allclose(interpret(y, {x: xs}), expected, atol=1e-12)
    gradcheck(y, x)


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_softmax(axis: int) -> None:
    x, xs = tensor(2, 3, 4)
    exps = np.exp(xs - xs.max(axis, keepdims=True))
    expected = exps / exps.sum(axis, keepdims=True)
    np.testing.assert_allclose(interpret(topi.nn.softmax(x, axis), {x: xs}), expected)
    logs = topi.nn.log_softmax(x, axis)
    np.testing.assert_allclose(interpret(logs, {x: xs}), np.log(expected), atol=1e-12)
    gradcheck(topi.nn.softmax(x, axis), x)
    gradcheck(logs, x)


def test_softmax_of_large_numbers_stays_finite() -> None:
    x, _ = tensor(2, 3)
    value = interpret(topi.nn.softmax(x), {x: np.array([[1e4, 1e4, 0], [-1e4, -1e4, -1e4]])})
    np.testing.assert_allclose(value, [[0.5, 0.5, 0], [1 / 3] * 3])


def test_activations() -> None:
    x, xs = tensor(3, 4)
    s, ss = tensor(4, name="S")
    for y, expected in (
        (topi.nn.relu(x), np.maximum(xs, 0)),
        (topi.nn.leaky_relu(x, 0.1), np.where(xs > 0, xs, 0.1 * xs)),
        (topi.nn.prelu(x, s), np.where(xs > 0, xs, ss * xs)),
        (topi.nn.sigmoid(x), 1 / (1 + np.exp(-xs))),
        (topi.nn.tanh(x), np.tanh(xs)),
        (topi.nn.flatten(x), xs),
    ):
        np.testing.assert_allclose(interpret(y, {x: xs, s: ss}), expected)
        gradcheck(y, x, arrays={s: ss})


def test_relu_has_slope_zero_at_zero() -> None:
    from tensorad.autodiff import vjp

    x, _ = tensor(3)
    head = te.placeholder((3,), "float64", name="H")
    (dx,) = vjp(topi.nn.relu(x), [x], head)
    value = interpret(dx, {x: np.array([-1.0, 0, 1]), head: np.ones(3)})
    assert value.tolist() == [0, 0, 1]


def test_losses() -> None:
    x, xs = tensor(3, 4)
    t = te.placeholder((3,), "int64", name="T")
    targets = np.array([0, 3, 1])
    logs = xs - np.log(np.exp(xs).sum(1, keepdims=True))
    loss = topi.nn.cross_entropy(x, t)
    assert loss.shape == ()
    np.testing.assert_allclose(
        interpret(loss, {x: xs, t: targets}), -logs[np.arange(3), targets].mean()
    )
    gradcheck(loss, x, arrays={t: targets})


def test_symbolic_batches() -> None:
    n = te.size("n")
    x = te.placeholder((n, 1, 4, 4), "float64", name="X")
    w, ws = tensor(2, 1, 3, 3, name="W")
    y = topi.nn.softmax(topi.flatten(topi.nn.conv2d(x, w, padding=1)))
    for batch in (0, 1, 3):
        value = interpret(y, {x: rng.random((batch, 1, 4, 4)), w: ws})
        assert value.shape == (batch, 32)
        np.testing.assert_allclose(value.sum(1), 1)


CASES = Refusals()
X = te.placeholder((2, 4, 5, 5), name="X")
W = te.placeholder((4, 3, 3, 3), name="W")
M = te.placeholder((2, 6), name="M")


@CASES.refused(
    ShapeError,
    "dense: x must have 2 axes, but X has shape (2, 4, 5, 5).",
    "  hint: reshape or expand_dims it first.",
)
def a_dense_layer_of_images() -> None:
    topi.nn.dense(X, M)


@CASES.refused(
    ShapeError,
    "dense: the last axes of M and V differ: 6 and 5.",
    "  hint: change the shape of one of them.",
)
def a_dense_layer_of_other_width() -> None:
    topi.nn.dense(M, te.placeholder((3, 5), name="V"))


@CASES.refused(
    ShapeError,
    "conv2d: X has 4 channels, but W of shape (4, 3, 3, 3) with groups=1 needs 3.",
    "  hint: weights have shape (out, channels / groups, height, width).",
)
def channels_that_do_not_fit() -> None:
    topi.nn.conv2d(X, W)


@CASES.refused(
    ShapeError,
    "conv2d: 4 output channels do not divide into 3 groups.",
    "  hint: every group makes equally many output channels.",
)
def groups_that_do_not_divide() -> None:
    topi.nn.conv2d(X, W, groups=3)


@CASES.refused(
    DefinitionError,
    "conv2d: groups must be a positive integer, got 0.",
    "  hint: groups=1 connects all channels.",
)
def no_groups() -> None:
    topi.nn.conv2d(X, W, groups=0)


@CASES.refused(
    DefinitionError,
    "conv2d: strides must be an integer or a pair of integers >= 1, got (1, 0).",
    "  hint: e.g. strides=2 or strides=(2, 1).",
)
def a_stride_of_zero() -> None:
    topi.nn.conv2d(X, W, (1, 0))


@CASES.refused(
    DefinitionError,
    "conv2d: padding must be integers >= 0, got (1, 1, -1, 1).",
    "  hint: pad with an integer, (height, width) or (top, left, bottom, right).",
)
def negative_padding() -> None:
    topi.nn.conv2d(X, W, 1, (1, 1, -1, 1))


@CASES.refused(
    ShapeError,
    "pool: the window (6, dilation 1) is larger than the padded input (5 + 0).",
    "  hint: use a smaller window or more padding.",
)
def a_window_larger_than_the_input() -> None:
    topi.nn.pool(X, 6, 1)


@CASES.refused(
    DefinitionError,
    "pool: pool_type must be 'avg' or 'max', got 'sum'.",
    "  hint: write another reduction with compute.",
)
def a_pool_that_sums() -> None:
    topi.nn.pool(X, 2, 2, 0, "sum")


@CASES.refused(
    DefinitionError,
    "softmax: axis 2 is out of range for a tensor with 2 axes.",
    "  hint: use an axis from -2 to 1.",
)
def a_softmax_along_no_axis() -> None:
    topi.nn.softmax(M, 2)


@CASES.refused(
    DTypeError,
    "index 1 of M must be an integer, got float32.",
    "  in: M[..., T[i], ...]",
    "  hint: use // for integer division, or .astype('int64').",
)
def float_targets() -> None:
    topi.nn.nll_loss(M, te.placeholder((2,), name="T"))


@pytest.mark.parametrize("case", CASES, ids=[c.attempt.__name__ for c in CASES])
def test_the_whole_text(case: Case) -> None:
    check(case)
