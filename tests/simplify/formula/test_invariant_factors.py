"""Factors moved out of sums: a gradient is 0 where a sum has no elements, whatever they are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import tensorad as ta
from tensorad import te, topi
from tensorad.autodiff import jvp, vjp
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Compute, Tensor
from tensorad.ir.visit import postorder, topological_ops

Ends = Callable[[Expr], object]
ONLINE = te.comm_reducer(
    lambda a, b: (
        te.maximum(a[0], b[0]),
        a[1] * te.exp(a[0] - te.maximum(a[0], b[0])) + b[1] * te.exp(b[0] - te.maximum(a[0], b[0])),
    ),
    lambda *_: (float("-inf"), 0.0),
    "online",
)


def tensor(*shape: object, name: str) -> Tensor:
    return te.placeholder(shape, dtype="float64", name=name)


def attention(q: Tensor, keys: Tensor, values: Tensor, end: Ends) -> Tensor:
    """Row a weighs the values before `end(a)`; 0 where there are none."""

    def summed(a: Expr, f: Callable[[Expr], Expr]) -> Expr:
        k = te.reduce_axis((0, end(a)), "k")
        return te.sum(f(k), axis=k)

    def scores(a: Expr) -> Expr:
        return summed(a, lambda k: te.exp(q[a] * keys[k]))

    total = te.compute(q.shape, scores, name="S")

    def weighed(a: Expr) -> Expr:
        return summed(a, lambda k: te.exp(q[a] * keys[k]) / total[a] * values[k])

    return te.compute(q.shape, weighed, name="Y")


def both_modes(y: Tensor, x: Tensor, arrays: dict[Tensor, np.ndarray]) -> list[np.ndarray]:
    """The gradient of sum(y), and dy where all of x moves alike."""
    head, d = tensor(*y.shape, name="H"), tensor(*x.shape, name="D")
    f = ta.build([*vjp(y, [x], head), jvp(y, {x: d})], [*arrays, head, d])
    rows = np.ones(y.shape)
    return f(*arrays.values(), rows, np.ones_like(arrays[x]))


def guards(*tensors: Tensor) -> int:
    ops = [op for op in topological_ops(tensors) if isinstance(op, Compute)]
    return sum(type(e).__name__ == "Select" for op in ops for e in postorder(*op.bodies))


def test_a_row_that_attends_to_no_key_moves_nothing() -> None:
    q, keys, values = tensor(4, name="Q"), tensor(4, name="K"), tensor(4, name="V")
    y = attention(q, keys, values, lambda a: a)
    rng = np.random.default_rng(3)
    reverse, forward = both_modes(y, q, {t: rng.standard_normal(4) for t in (q, keys, values)})
    np.testing.assert_allclose(reverse, forward, atol=1e-14)  # row a of y reads q[a] alone
    assert reverse[0] == 0
    assert ta.gradcheck(y, [q, keys, values], order=2)


def test_no_keys_at_all() -> None:
    n = te.size("n")
    q, keys, values = tensor(3, name="Q"), tensor(n, name="K"), tensor(n, name="V")
    y = attention(q, keys, values, lambda a: n)
    for size in (0, 1, 4):
        rng = np.random.default_rng(size)
        arrays = {q: rng.standard_normal(3)}
        arrays |= {t: rng.standard_normal(size) for t in (keys, values)}
        reverse, forward = both_modes(y, q, arrays)
        np.testing.assert_allclose(reverse, forward, atol=1e-14)
        assert size or not reverse.any()


def test_a_maximum_of_nothing_scales_no_sum() -> None:
    n, x = te.size("n"), tensor(3, name="X")

    def folded(i: Expr) -> tuple[Expr, Expr]:
        return ONLINE((x[i], te.const(1, "float64")), axis=te.reduce_axis(n, "k"))

    _, total = te.compute((3,), folded, name="T")
    length = tensor(n, name="L")  # tells n
    for size in (0, 1, 2):
        arrays = {x: np.array([0.5, -1, 2]), length: np.zeros(size)}
        for found in both_modes(total, x, arrays):
            np.testing.assert_array_equal(found, np.zeros(3))


def test_a_condition_that_holds_nowhere() -> None:
    x, c = tensor(5, name="X"), tensor(3, name="C")
    of = te.placeholder((5,), dtype="int64", name="of")
    k = te.reduce_axis(5, "k")
    y = te.compute((3,), lambda i: te.sum(x[k] / c[i], axis=k, where=of[k] == i), name="Y")
    arrays = {x: np.arange(5.0), c: np.array([2.0, 0.0, 4.0]), of: np.array([0, 0, 2, 2, 2])}
    for found in both_modes(y, c, arrays):
        np.testing.assert_allclose(found, [-1 / 4, 0, -9 / 16])


def test_nothing_is_asked_where_every_element_of_the_gradient_has_a_sum() -> None:
    x = tensor(te.size("n"), te.size("m"), name="X")
    assert guards(*vjp(topi.nn.softmax(x), [x], tensor(*x.shape, name="H"))) == 0


def test_what_is_known_about_sizes_spares_the_question() -> None:
    n = te.size("columns")
    q, keys, values = tensor(3, name="Q"), tensor(n, name="K"), tensor(n, name="V")
    y = attention(q, keys, values, lambda a: n)
    assert guards(*vjp(y, [q], tensor(3, name="H"))) > 0
    te.assume(n >= 1)
    y = attention(q, keys, values, lambda a: n)
    assert guards(*vjp(y, [q], tensor(3, name="H"))) == 0


def test_bounds_that_always_leave_an_element() -> None:
    x, w, c = tensor(12, 4, name="X"), tensor(3, name="W"), tensor(4, name="C")
    k = te.reduce_axis(3, "k")
    y = te.compute((10, 4), lambda i, j: te.sum(x[i + k, j] * w[k] / c[j], axis=k), name="Y")
    (dx,) = vjp(y, [x], tensor(10, 4, name="H"))
    assert isinstance(dx.op, Compute)
    assert str(dx.op.bodies[0]) == (
        "sum(H[x0 - k, j]*W[k], axes (k : [max(0, x0 - 9), min(2, x0)]))/C[j]"
    )
