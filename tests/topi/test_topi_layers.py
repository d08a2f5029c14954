"""Activations, normalisations, losses and recurrent cells against NumPy, with gradients."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from tensorad import te, topi
from tensorad.checking import gradcheck
from tensorad.errors import DefinitionError, ShapeError
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Tensor
from tests.support.refusals import Case, Refusals, check

rng = np.random.default_rng(5)
Array = np.ndarray
nn = topi.nn


def tensor(*shape: int, name: str = "X") -> tuple[Tensor, np.ndarray]:
    return te.placeholder(shape, "float64", name=name), rng.standard_normal(shape)


def expect(y: Tensor, values: dict[Tensor, Array], expected: object) -> None:
    """The value, and the derivatives with respect to every float input."""
    np.testing.assert_allclose(interpret(y, values), expected, rtol=1e-10, atol=1e-12)
    gradcheck(y, [t for t in values if t.dtype.is_float], arrays=values)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def normal(x: Array) -> Array:
    return np.vectorize(lambda v: 0.5 * (1 + math.erf(v / math.sqrt(2))))(x)


ACTIVATIONS: list[tuple[Callable[[Tensor], Tensor], Callable[[Array], Array]]] = [
    (nn.relu6, lambda x: np.clip(x, 0, 6)),
    (lambda x: nn.elu(x, 0.7), lambda x: np.where(x > 0, x, 0.7 * np.expm1(x))),
    (nn.selu, lambda x: 1.0507009873554805
     * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x))),
    (nn.gelu, lambda x: x * normal(x)),
    (lambda x: nn.gelu(x, approximate=True),
     lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
    (nn.silu, lambda x: x * sigmoid(x)),
    (lambda x: nn.softplus(x, 2.0), lambda x: np.log1p(np.exp(2 * x)) / 2),
    (nn.log_sigmoid, lambda x: np.log(sigmoid(x))),
    (nn.hard_sigmoid, lambda x: np.clip(x / 6 + 0.5, 0, 1)),
    (lambda x: nn.hard_sigmoid(x, 0.2, 0.4), lambda x: np.clip(0.2 * x + 0.4, 0, 1)),
    (nn.hard_swish, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    (nn.mish, lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    (lambda x: nn.celu(x, 2.0), lambda x: np.where(x > 0, x, 2 * np.expm1(x / 2))),
]  # fmt: skip


@pytest.mark.parametrize("n", range(len(ACTIVATIONS)))
def test_activation(n: int) -> None:
    function, expected = ACTIVATIONS[n]
    x, xs = tensor(3, 4)
    expect(function(x), {x: 4 * xs}, expected(4 * xs))


def test_activations_do_not_overflow() -> None:
    x, _ = tensor(2)
    for function, expected in ((nn.softplus, [0, 1e4]), (nn.log_sigmoid, [-1e4, 0])):
        with np.errstate(over="raise"):
            value = interpret(function(x), {x: np.array([-1e4, 1e4])})
        np.testing.assert_allclose(value, expected)


def test_dropout() -> None:
    x, xs = tensor(3, 4)
    mask = te.placeholder((3, 4), "bool", name="M")
    kept = rng.random((3, 4)) > 0.4
    expect(nn.dropout(x, mask, 0.4), {x: xs, mask: kept}, xs * kept / 0.6)
    numbers = te.placeholder((3, 4), "int8", name="M")
    value = interpret(nn.dropout(x, numbers, 0.4), {x: xs, numbers: kept.astype("int8")})
    np.testing.assert_allclose(value, xs * kept / 0.6)


def moments(x: Array, axis: tuple[int, ...]) -> Array:
    return (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + 1e-5)


def test_layer_norm() -> None:
    (x, xs), (s, ss), (b, bs) = tensor(2, 3, 4), tensor(4, name="S"), tensor(4, name="B")
    expect(nn.layer_norm(x, s, b), {x: xs, s: ss, b: bs}, moments(xs, (2,)) * ss + bs)
    wide, ws = tensor(3, 4, name="S")
    both = nn.layer_norm(x, wide, axis=(1, 2))
    expect(both, {x: xs, wide: ws}, moments(xs, (1, 2)) * ws)


def test_rms_norm() -> None:
    (x, xs), (s, ss) = tensor(2, 4), tensor(4, name="S")
    expected = xs / np.sqrt((xs**2).mean(1, keepdims=True) + 1e-5) * ss
    expect(nn.rms_norm(x, s), {x: xs, s: ss}, expected)


def test_batch_norm_of_this_batch_and_of_given_moments() -> None:
    (x, xs), (s, ss), (b, bs) = tensor(2, 3, 4), tensor(3, name="S"), tensor(3, name="B")
    own = moments(xs, (0, 2)) * ss[:, None] + bs[:, None]
    expect(nn.batch_norm(x, s, b), {x: xs, s: ss, b: bs}, own)
    (m, ms), (v, vs) = tensor(3, name="M"), tensor(3, name="V")
    vs = vs**2 + 0.1
    given = (xs - ms[:, None]) / np.sqrt(vs[:, None] + 1e-5)
    expect(nn.batch_norm(x, mean=m, variance=v), {x: xs, m: ms, v: vs}, given)


def test_group_norm() -> None:
    (x, xs), (s, ss) = tensor(2, 4, 3), tensor(4, name="S")
    expected = moments(xs.reshape(2, 2, 2, 3), (2, 3)).reshape(2, 4, 3) * ss[:, None]
    expect(nn.group_norm(x, 2, s), {x: xs, s: ss}, expected)


@pytest.mark.slow
def test_instance_norm() -> None:
    (x, xs), (s, ss) = tensor(2, 3, 4), tensor(3, name="S")
    expected = moments(xs, (2,)) * ss[:, None] + 2 * ss[:, None]
    expect(nn.instance_norm(x, s, s * 2), {x: xs, s: ss}, expected)


def rotated(x: Array, cos: Array, sin: Array, interleaved: bool) -> Array:
    """The last axis as complex numbers (its halves, or neighbours) times cos + i sin."""
    half = cos.shape[-1]
    first, second = (slice(0, 2 * half, 2), slice(1, 2 * half, 2))
    if not interleaved:
        first, second = slice(0, half), slice(half, 2 * half)
    turned = (x[..., first] + 1j * x[..., second]) * (cos + 1j * sin)
    y = x.copy()
    y[..., first], y[..., second] = turned.real, turned.imag
    return y


@pytest.mark.slow
@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_embedding(interleaved: bool) -> None:
    (x, xs), (c, cs), (s, ss) = (
        tensor(1, 2, 3, 4),
        tensor(1, 3, 2, name="C"),
        tensor(1, 3, 2, name="S"),
    )
    expected = rotated(xs, cs[:, None], ss[:, None], interleaved)
    expect(nn.rotary_embedding(x, c, s, None, interleaved), {x: xs, c: cs, s: ss}, expected)


@pytest.mark.parametrize("interleaved", [False, True])
def test_what_a_rotary_embedding_does_not_turn_stays(interleaved: bool) -> None:
    (x, xs), (c, cs), (s, ss) = tensor(1, 2, 3, 5), tensor(1, 3, 1, name="C"), tensor(1, 3, 1)
    y = nn.rotary_embedding(x, c, s, None, interleaved, dimension=2)
    expected = rotated(xs, cs[:, None], ss[:, None], interleaved)
    np.testing.assert_allclose(interpret(y, {x: xs, c: cs, s: ss}), expected)


@pytest.mark.slow
@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_embedding_of_a_part_at_positions(interleaved: bool) -> None:
    """Heads side by side, of which the first four elements are turned."""
    (x, xs), (c, cs), (s, ss) = tensor(2, 3, 10), tensor(4, 2, name="C"), tensor(4, 2, name="S")
    p, at = te.placeholder((2, 3), "int64", name="P"), np.array([[3, 0, 3], [1, 2, 0]])
    heads = xs.reshape(2, 3, 2, 5)
    expected = rotated(heads, cs[at][:, :, None], ss[at][:, :, None], interleaved)
    y = nn.rotary_embedding(x, c, s, p, interleaved, heads=2, dimension=4)
    expect(y, {x: xs, c: cs, s: ss, p: at}, expected.reshape(2, 3, 10))


def test_l2_normalize_and_lrn() -> None:
    x, xs = tensor(2, 5)
    lengths = np.sqrt((xs**2).sum(1, keepdims=True))
    expect(nn.l2_normalize(x), {x: xs}, xs / lengths)
    least = float(lengths.mean())
    expect(nn.l2_normalize(x, epsilon=least**2), {x: xs}, xs / np.maximum(lengths, least))
    padded = np.pad(xs**2, ((0, 0), (1, 1)))
    sums = padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]
    expected = xs / (1.5 + 0.3 / 3 * sums) ** 0.75
    expect(nn.lrn(x, 3, axis=1, bias=1.5, alpha=0.3), {x: xs}, expected)


def test_losses() -> None:
    (x, xs), (y, ys), (z, zs) = tensor(3, 4), tensor(3, 4, name="Y"), tensor(3, 4, name="Z")
    d = xs - ys
    values = {x: xs, y: ys}
    expect(nn.mse_loss(x, y), values, (d**2).mean())
    expect(nn.l1_loss(x, y), values, abs(d).mean())
    smooth = np.where(abs(d) < 0.7, d**2 / 1.4, abs(d) - 0.35)
    expect(nn.smooth_l1_loss(x, y, 0.7), values, smooth.mean())

    def distance(a: Array, b: Array) -> Array:
        shifted: Array = a - b + 1e-6
        return np.sqrt((shifted**2).sum(1))

    hinge = np.maximum(0, distance(xs, ys) - distance(xs, zs) + 1)
    expect(nn.triplet_margin_loss(x, y, z), {**values, z: zs}, hinge.mean())
    q = np.exp(ys) / np.exp(ys).sum(1, keepdims=True)
    expect(nn.kl_div(x, y), {x: xs, y: q}, (q * (np.log(q) - xs)).sum() / 3)


def test_losses_have_the_dtype_of_what_is_judged() -> None:
    x, y = te.placeholder((3, 4), "float32", name="X"), te.placeholder((3, 4), "float64", name="Y")
    for loss in (nn.mse_loss, nn.l1_loss, nn.smooth_l1_loss, nn.binary_cross_entropy, nn.kl_div):
        assert loss(x, y).dtype == "float32"


def test_losses_of_two_classes() -> None:
    (x, xs), t = tensor(3, 4), te.placeholder((3, 4), "int64", name="T")
    targets = (rng.random((3, 4)) > 0.5).astype(int)
    p = np.where(targets, sigmoid(xs), 1 - sigmoid(xs))
    expect(nn.binary_cross_entropy(x, t), {x: xs, t: targets}, -np.log(p).mean())
    weight = np.where(targets, 0.25, 0.75)
    focal = weight * (1 - p) ** 2 * -np.log(p)
    expect(nn.focal_loss(x, t), {x: xs, t: targets}, focal.mean())
    broadcast = nn.mse_loss(x, te.const(np.ones(4)))
    np.testing.assert_allclose(interpret(broadcast, {x: xs}), ((xs - 1) ** 2).mean())


def test_lstm_cell() -> None:
    (x, xs), (h, hs), (c, cs) = tensor(2, 3), tensor(2, 2, name="Hd"), tensor(2, 2, name="C")
    (wi, wis), (wh, whs) = tensor(8, 3, name="WI"), tensor(8, 2, name="WH")
    b, bs = tensor(8, name="B")
    gates = xs @ wis.T + hs @ whs.T + bs
    i, f, g, o = (gates[:, 2 * n : 2 * n + 2] for n in range(4))
    cell = sigmoid(f) * cs + sigmoid(i) * np.tanh(g)
    hidden, memory = nn.lstm_cell(x, h, c, wi, wh, b)
    values = {x: xs, h: hs, c: cs, wi: wis, wh: whs, b: bs}
    expect(memory, values, cell)
    expect(hidden, values, sigmoid(o) * np.tanh(cell))


def test_rnn_cell() -> None:
    (x, xs), (h, hs) = tensor(2, 3), tensor(2, 4, name="Hd")
    (wi, wis), (wh, whs) = tensor(4, 3, name="WI"), tensor(4, 4, name="WH")
    expected = np.tanh(xs @ wis.T + hs @ whs.T)
    expect(nn.rnn_cell(x, h, wi, wh), {x: xs, h: hs, wi: wis, wh: whs}, expected)


@pytest.mark.slow
def test_layers_agree_with_torch() -> None:
    torch = pytest.importorskip("torch", reason="compares with PyTorch, of the extra bench")
    F = torch.nn.functional
    (x, xs), (y, ys) = tensor(3, 8), tensor(3, 8, name="Y")
    a, b = torch.tensor(xs), torch.tensor(ys)
    pairs = [
        (nn.elu(x), F.elu(a)),
        (nn.selu(x), F.selu(a)),
        (nn.gelu(x), F.gelu(a)),
        (nn.gelu(x, True), F.gelu(a, approximate="tanh")),
        (nn.silu(x), F.silu(a)),
        (nn.softplus(x), F.softplus(a)),
        (nn.log_sigmoid(x), F.logsigmoid(a)),
        (nn.hard_sigmoid(x), F.hardsigmoid(a)),
        (nn.layer_norm(x), F.layer_norm(a, (8,))),
        (nn.batch_norm(x), F.batch_norm(a, None, None, training=True)),
        (nn.group_norm(x, 2), F.group_norm(a, 2)),
        (nn.lrn(x, 3), F.local_response_norm(a[..., None], 3, k=2.0)[..., 0]),
        (nn.smooth_l1_loss(x, y), F.smooth_l1_loss(a, b)),
        (nn.triplet_margin_loss(x, y, x), F.triplet_margin_loss(a, b, a)),
    ]
    for made, expected in pairs:
        value = interpret(made, {x: xs, y: ys})
        np.testing.assert_allclose(value, expected.numpy(), rtol=1e-6, err_msg=made.name)


CASES = Refusals()
X = te.placeholder((2, 6), name="X")


HEADS = te.placeholder((1, 2, 3, 4), name="H")
ANGLES = te.placeholder((1, 3, 2), name="A")


@CASES.refused(
    ShapeError,
    "instance_norm: A (2, 6) has no spatial axis.",
    "  hint: x has a batch axis, channels and at least one more axis.",
)
def an_instance_without_space() -> None:
    nn.instance_norm(te.placeholder((2, 6), name="A"))


@CASES.refused(DefinitionError, "celu: alpha must be positive, got 0.", "  hint: use alpha=1.")
def a_celu_without_a_slope() -> None:
    nn.celu(HEADS, 0)


@CASES.refused(
    ShapeError,
    "rotary_embedding: A must have 3 or 4 axes, but has shape (2, 6).",
    "  hint: shape (batch, heads, sequence, size) or (batch, sequence, heads * size).",
)
def a_rotation_of_a_matrix() -> None:
    nn.rotary_embedding(te.placeholder((2, 6), name="A"), ANGLES, ANGLES)


@CASES.refused(
    ShapeError,
    "rotary_embedding: A (1, 3, 2) does not divide into 0 heads.",
    "  hint: give heads=, which divides the last extent of x.",
)
def heads_that_nobody_counts() -> None:
    nn.rotary_embedding(ANGLES, ANGLES, ANGLES)


@CASES.refused(
    ShapeError,
    "rotary_embedding: 3 of the 4 elements of a head of H cannot be turned in pairs.",
    "  hint: dimension is even and at most the size of a head, which is a number.",
)
def an_odd_dimension() -> None:
    nn.rotary_embedding(HEADS, ANGLES, ANGLES, dimension=3)


@CASES.refused(
    ShapeError,
    "rotary_embedding: half the turned elements and axis 2 of A differ: 1 and 2.",
    "  hint: change the shape of one of them.",
)
def angles_of_more_pairs() -> None:
    nn.rotary_embedding(HEADS, ANGLES, ANGLES, dimension=2)


@CASES.refused(
    ShapeError,
    "rnn_cell: the batches of X and A differ: 2 and 3.",
    "  hint: change the shape of one of them.",
)
def a_state_of_another_batch() -> None:
    states, weights = te.placeholder((3, 4), name="A"), te.placeholder((4, 4), name="W")
    nn.rnn_cell(X, states, te.placeholder((4, 6), name="V"), weights, te.placeholder((4,)))


@CASES.refused(DefinitionError, "softplus: beta must be positive, got 0.", "  hint: use beta=1.")
def a_softplus_without_slope() -> None:
    nn.softplus(X, 0)


@CASES.refused(
    DefinitionError,
    "dropout: rate must be in [0, 1), got 1.0.",
    "  hint: it is the share of elements that are dropped.",
)
def dropping_everything() -> None:
    nn.dropout(X, te.placeholder((2, 6), "bool", name="M"), 1.0)


@CASES.refused(
    ShapeError,
    "layer_norm: axis 1 of X and S differ: 6 and 2.",
    "  hint: change the shape of one of them.",
)
def a_scale_of_other_width() -> None:
    nn.layer_norm(X, te.placeholder((2,), name="S"))


@CASES.refused(
    DefinitionError,
    "batch_norm: mean and variance come together.",
    "  hint: give both (inference), or neither (moments of this batch).",
)
def a_mean_without_variance() -> None:
    nn.batch_norm(X, mean=te.placeholder((6,), name="M"))


@CASES.refused(
    ShapeError,
    "group_norm: 6 channels of X do not divide into 4 groups.",
    "  hint: axis 1 holds the channels; every group has equally many.",
)
def groups_that_do_not_divide() -> None:
    nn.group_norm(X, 4)


@CASES.refused(DefinitionError, "lrn: size must be odd and positive, got 4.", "  hint: size=5.")
def an_even_neighbourhood() -> None:
    nn.lrn(X, 4)


@CASES.refused(
    ShapeError,
    "lstm_cell: W (6, 6) must have 8 rows for 2 units.",
    "  hint: 4 gates are stacked along the first axis.",
)
def too_few_gates() -> None:
    h = te.placeholder((2, 2), name="Hd")
    nn.lstm_cell(X, h, h, te.placeholder((6, 6), name="W"), te.placeholder((8, 2), name="V"))


@pytest.mark.parametrize("case", CASES, ids=[c.attempt.__name__ for c in CASES])
def test_the_whole_text(case: Case) -> None:
    check(case)
