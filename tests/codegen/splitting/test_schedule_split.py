"""Pieces of a nest: how many there are, and that they give the same values."""

from __future__ import annotations

import numpy as np
import pytest

from tensorad import te, topi
from tensorad.autodiff import vjp
from tensorad.building import build
from tensorad.codegen.nest import access as accesses
from tensorad.codegen.nest.access import unsafe_reads
from tensorad.codegen.nest.ir import Nest, nest_of
from tensorad.codegen.schedule.plan import plan_nest
from tensorad.codegen.splitting import index_sets
from tensorad.codegen.splitting.nest_passes import pieces_of
from tensorad.ir import visit
from tensorad.ir.expr import Expr
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Compute, Tensor
from tensorad.ir.visit import postorder
from tests.codegen.schedule.test_planning import count_calls


def bilateral(n: int, taps: int) -> tuple[Tensor, Tensor]:
    """(input, output): neighbours within a window, weighted by how near their values are."""
    x = te.placeholder((n, n), name="X")
    p, q = te.reduce_axis(taps, name="p"), te.reduce_axis(taps, name="q")
    half = taps // 2

    def total(i: Expr, j: Expr) -> Expr:
        y, z = i + p - half, j + q - half
        value = te.exp(-((x[y, z] - x[i, j]) * (x[y, z] - x[i, j])))
        return te.sum(value, axis=[p, q], where=te.all_of(y >= 0, y < n, z >= 0, z < n))

    return x, te.compute((n, n), total, "B")


def whole(y: Tensor) -> Nest:
    """The nest that stores y."""
    assert isinstance(y.op, Compute)
    nest = nest_of(y.op.axes, (y,), y.op.bodies)
    assert nest is not None
    return nest


def pieces(y: Tensor) -> int:
    return len(pieces_of(whole(y)))


def test_small_borders_are_few_pieces() -> None:
    assert pieces(bilateral(256, 5)[1]) == 7  # 21 if rows and columns of the border were pieces
    assert pieces(bilateral(12, 5)[1]) == 21  # here the border is most of the work


@pytest.mark.slow
def test_borders_of_any_share_have_the_same_values() -> None:
    for n, taps in ((3, 5), (12, 5), (40, 3), (90, 3)):
        x, y = bilateral(n, taps)
        values = np.random.default_rng(n).random((n, n), np.float32)
        expected = interpret(y, {x: values}) if n < 20 else naive(values, taps)
        np.testing.assert_allclose(build(y, [x])(values), expected, rtol=1e-5)


def naive(x: np.ndarray, taps: int) -> np.ndarray:
    half, n = taps // 2, len(x)
    padded = np.pad(x, half, constant_values=np.nan)
    total = np.zeros_like(x)
    for p in range(taps):
        for q in range(taps):
            near = np.exp(-((padded[p : p + n, q : q + n] - x) ** 2))
            total += np.nan_to_num(near, nan=0.0)
    return total


def test_parts_of_a_fold_go_on_in_order() -> None:
    """x*y0 + y1 over (k, l), cut at k == 1: the parts run over the same axis l."""
    x = te.placeholder((2, 4), "float64", name="X")
    k, m = te.reduce_axis(2, name="k"), te.reduce_axis(4, name="l")
    decayed = te.comm_reducer(lambda a, b: a * 0.5 + b, lambda t: te.const(0, t), "decayed")

    def formula() -> Expr:
        total: Expr = decayed(te.select(k < 1, x[k, m], -x[k, m]), axis=[k, m])
        return total

    y = te.compute((), formula, name="Y")
    array = np.random.default_rng(0).normal(size=(2, 4))
    np.testing.assert_allclose(build(y, [x])(array), interpret(y, {x: array}), rtol=1e-14)


def test_a_guard_that_uses_no_reduce_axis_is_tested_outside_of_lanes() -> None:
    """dot(a[i], b[i - w]) where i >= w: b is never read in front of its first row."""
    n, d, band = 40, 32, 8
    a, b = (te.placeholder((n, d), name=name) for name in "AB")
    c = te.reduce_axis(d, name="c")
    y = te.compute(
        (n, band),
        lambda i, w: te.select(i >= w, te.sum(a[i, c] * b[i - w, c], axis=c), 0.0),
        name="Y",
    )
    assert isinstance(y.op, Compute)
    nest = nest_of(y.op.axes, (y,), y.op.bodies)
    assert nest is not None and unsafe_reads(nest)
    parts = pieces_of(nest)
    assert [p.axes[0].extent for p in parts] == [band - 1, n - band + 1]
    for part in parts:
        plan = plan_nest(part)
        assert plan.vector is part.folds[0].axes[0]
        assert not unsafe_reads(part, plan.vector)
    border = parts[0]
    assert unsafe_reads(border, border.axes[1])  # lanes along w would read in front
    x, z = np.random.default_rng(0).normal(size=(2, n, d)).astype(np.float32)
    shifted = np.concatenate([np.zeros((band, d), np.float32), z])
    expected = np.stack([(x * shifted[band - w : band - w + n]).sum(1) for w in range(band)], 1)
    np.testing.assert_allclose(build(y, [a, b])(x, z), expected, rtol=1e-4, atol=1e-5)


def test_the_rest_of_a_stride_is_few_pieces() -> None:
    x, w = te.placeholder((2, 3, 227, 227), name="X"), te.placeholder((64, 3, 11, 11), name="W")
    y = topi.nn.conv2d(x, w, 4, 2)
    (dx,) = vjp(y, [x], te.placeholder(y.shape, name="head"))
    assert pieces(dx) <= 48  # 75 if the rests of both axes were cut as the whole strides are


def neighbours(n: int) -> Tensor:
    """Four neighbours of each point, those outside left out."""
    x = te.placeholder((n, n), name="X")

    def at(i: Expr, j: Expr) -> Expr:
        value: Expr = te.select(te.all_of(i >= 0, i < n, j >= 0, j < n), x[i, j], 0.0)
        return value

    def total(i: Expr, j: Expr) -> Expr:
        return at(i - 1, j) + at(i + 1, j) + at(i, j - 1) + at(i, j + 1) - 4.0 * x[i, j]

    return te.compute((n, n), total, name="Y")


def test_parts_are_written_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their axes are put in as they are folded: few nodes are built that are in no piece."""
    nest = whole(neighbours(32))
    built = count_calls(monkeypatch, visit, "rebuild")
    parts = pieces_of(nest)
    assert len(parts) == 9
    nodes = sum([len(postorder(*p.expressions())) for p in parts])
    assert len(built) <= 3.5 * nodes  # 4.9 where each part was written two or three times


def test_the_axis_for_lanes_is_asked_for_where_axes_compete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = count_calls(monkeypatch, index_sets, "preferred_axis")
    assert pieces(neighbours(32)) == 9 and not asked
    assert pieces(banded(32)) > 1 and asked


def banded(n: int) -> Tensor:
    """Points within a band along the diagonal: both axes are in one switch."""
    x = te.placeholder((n, n), name="X")
    return te.compute((n, n), lambda i, j: te.select(i < j + 30, x[i, j], 0.0), name="Y")


def test_what_guards_no_read_is_not_looked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads under no select are in bounds: pieces without borders have no other."""
    nest = whole(neighbours(32))
    parts = pieces_of(nest)
    looked = count_calls(monkeypatch, accesses, "needs")
    assert not any(unsafe_reads(p) for p in parts) and not looked
    assert unsafe_reads(nest) and looked
