"""Jacobians of intermediate tensors are stored as the window in which they can be nonzero."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tensorad import te, topi
from tensorad.autodiff import jacobian, vjp
from tensorad.counting import work
from tensorad.ir.analysis.facts import forget_facts
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Tensor, outputs
from tensorad.ir.visit import topological_ops
from tensorad.simplify.zeros.band import band
from tests.support.oracles import box


def _chain(n: int | te.Dim, dtype: str = "float64") -> tuple[Tensor, Tensor, Tensor]:
    """Two convolutions of three taps with tanh between."""
    x, w = te.placeholder((n,), dtype=dtype, name="X"), te.placeholder((3,), dtype=dtype, name="W")
    k, m = te.reduce_axis(3), te.reduce_axis(3)
    t = te.compute((n - 2,), lambda i: te.tanh(te.sum(x[i + k] * w[k], axis=k)), name="T")
    y = te.compute((n - 4,), lambda i: te.tanh(te.sum(t[i + m] * w[m], axis=m)), name="Y")
    return x, w, y


def _shapes(t: Tensor) -> list[tuple[object, ...]]:
    return [u.shape for op in topological_ops([t]) for u in outputs(op) if u.ndim == 2]


def test_chain_of_convolutions_stores_three_diagonals() -> None:
    x, _, y = _chain(12)
    (j,) = vjp(y, [x])
    assert _shapes(j) == [(8, 3), (8, 12)]


@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_work_grows_with_the_band_not_with_the_square(mode: str) -> None:
    counts = []
    for n in (20, 40, 80):
        x, _, y = _chain(n)
        visited = work(jacobian(y, x, mode=mode)).iterations
        assert isinstance(visited, int)
        counts.append(visited)
    elements = 76 * 80 if mode == "forward" else 0  # dY has a factor outside its sum
    assert counts[2] - elements < 25 * 80
    if mode == "reverse":
        assert counts[2] - counts[1] == 2 * (counts[1] - counts[0])


def _dense(y: Tensor, x: Tensor, values: dict[Tensor, np.ndarray]) -> np.ndarray:
    """Column by column from the gradient with unit heads."""
    h = te.placeholder(y.shape, dtype="float64", name="H")
    (dx,) = vjp(y, [x], h)
    rows = []
    for i in range(int(np.prod(y.shape))):
        head = np.zeros(y.shape)
        head.flat[i] = 1
        rows.append(interpret(dx, {**values, h: head}))
    return np.array(rows).reshape(*y.shape, *x.shape)


def test_values_of_a_chain() -> None:
    x, w, y = _chain(11)
    rng = np.random.default_rng(0)
    values = {x: rng.standard_normal(11), w: rng.standard_normal(3)}
    dense = _dense(y, x, values)
    for mode in ("reverse", "forward"):
        j = jacobian(y, x, mode=mode)
        np.testing.assert_allclose(interpret(j, values), dense, rtol=1e-12, atol=1e-14)


def test_values_in_two_dimensions_with_strides_and_padding() -> None:
    x = te.placeholder((1, 1, 5, 4), dtype="float64", name="X")
    w = te.placeholder((1, 1, 3, 3), dtype="float64", name="W")
    t = topi.tanh(topi.nn.conv2d(x, w, 1, 1))
    y = topi.tanh(topi.nn.pool(t, 3, 2, 1, "avg"))
    rng = np.random.default_rng(0)
    values = {x: rng.standard_normal((1, 1, 5, 4)), w: rng.standard_normal((1, 1, 3, 3))}
    (j,) = vjp(y, [x])
    np.testing.assert_allclose(interpret(j, values), _dense(y, x, values), rtol=1e-12, atol=1e-14)


@pytest.fixture
def facts() -> Iterator[None]:
    """What a test assumes about sizes, forgotten after it."""
    yield
    forget_facts()


def test_symbolic_extents(facts: None) -> None:
    n = te.size("n")
    te.assume(n >= 5)
    x, w, y = _chain(n)
    (j,) = vjp(y, [x])
    assert next(s[1] for s in _shapes(j)) == 3
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal(7), rng.standard_normal(3)
    x7, w7, y7 = _chain(7)
    (j7,) = vjp(y7, [x7])
    np.testing.assert_allclose(interpret(j, {x: a, w: b}), interpret(j7, {x7: a, w7: b}))


def test_dense_dependence_stays_dense() -> None:
    x = te.placeholder((6,), name="X")
    k, m = te.reduce_axis(6), te.reduce_axis(6)
    t = te.compute((6,), lambda i: te.tanh(te.sum(x[k] * (i + k + 1), axis=k)), name="T")
    y = te.compute((6,), lambda i: te.tanh(te.sum(t[m] * (i - m), axis=m)), name="Y")
    (j,) = vjp(y, [x])
    assert all(s == (6, 6) for s in _shapes(j))


@pytest.mark.parametrize(("condition", "width"), [("diagonal", 1), ("window", 3), ("all", None)])
def test_windows(condition: str, width: int | None) -> None:
    (o, t) = box(o=9, t=9)
    h = te.placeholder((9, 9), name="H")
    cases = {"diagonal": t == o, "window": (t >= o - 1) & (t <= o + 1), "all": t >= 0}
    body = te.select(cases[condition], h[o, t], 0.0)
    windows = band([o], [t], body)
    assert (None if windows is None else windows[0].width) == width
