"""Equal reductions of a program are computed once where it is built."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tensorad import te
from tensorad.autodiff.reverse import vjp
from tensorad.building import build
from tensorad.codegen.directives import Schedule
from tensorad.codegen.lower import lower_program
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import topological_ops
from tensorad.simplify.formula.common_reductions import computed_once
from tests.support.machines import described


def layer(x: Tensor, w: Tensor, name: str, of: Callable[[Expr], Expr] = te.tanh) -> Tensor:
    k = te.reduce_axis(x.shape[1], name="k")
    shape = (x.shape[0], w.shape[1])
    body = lambda i, j: of(te.sum(x[i, k] * w[k, j], axis=k))  # noqa: E731
    return te.compute(shape, body, name=name)


def two_layers(of: Callable[[Expr], Expr]) -> tuple[list[Tensor], list[Tensor]]:
    x, w = te.placeholder((6, 5), "float64", name="X"), te.placeholder((5, 5), "float64", name="W")
    y = layer(layer(x, w, "A", of), w, "Y", of)
    head = te.placeholder(y.shape, "float64", name="H")
    return [y, *vjp(y, [x, w], head)], [x, w, head]


def swish(e: Expr) -> Expr:
    return e * te.sigmoid(e)


@described()
@pytest.mark.parametrize("of", [te.tanh, te.sigmoid, swish])
def test_a_gradient_beside_its_program_computes_no_layer_again(of: Callable[[Expr], Expr]) -> None:
    results, inputs = two_layers(of)
    kernels = lower_program(results, inputs).kernels
    written = [[t.name for t in k.writes] for k in kernels]
    assert len(written) == 5 and ["Y", "dY.sum"] in written, written
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(-1, 1, t.shape) for t in inputs]
    together = build(results, inputs)(*arrays)
    for t, got in zip(results, together, strict=True):
        np.testing.assert_allclose(got, build(t, inputs)(*arrays), rtol=1e-12)


def test_the_same_formula_twice_is_one() -> None:
    x, w = te.placeholder((6, 5), name="X"), te.placeholder((5, 5), name="W")
    a, b = layer(x, w, "A"), layer(x, w, "B")
    y = te.compute((6, 5), lambda i, j: a[i, j] - b[i, j], name="Y")
    (found,) = computed_once([y], [x, w])
    assert [op.name for op in topological_ops([found])] == ["X", "W", "A", "Y"]
    assert [t.op.name for t in computed_once([a, b], [x, w])] == ["A", "B"], "both are wanted"


def test_what_differs_stays_apart() -> None:
    x, w = te.placeholder((6, 5), name="X"), te.placeholder((5, 5), name="W")
    v = te.placeholder((5, 5), name="V")
    others = [layer(x, v, "B"), layer(x, w, "C", te.sigmoid), layer(x, w, "D", lambda e: e * 2.0)]
    a = layer(x, w, "A")
    y = te.compute((6, 5), lambda i, j: sum([t[i, j] for t in others], a[i, j]), name="Y")
    assert computed_once([y], [x, w, v]) == [y]


def test_what_the_caller_gives_is_not_what_it_was_made_of() -> None:
    x, w = te.placeholder((6, 5), name="X"), te.placeholder((5, 5), name="W")
    a, b = layer(x, w, "A"), layer(x, w, "B")
    y = te.compute((6, 5), lambda i, j: a[i, j] - b[i, j], name="Y")
    assert computed_once([y], [x, w, a]) == [y]
    arrays = [np.ones((6, 5), "f4"), np.ones((5, 5), "f4"), np.zeros((6, 5), "f4")]
    assert (build(y, [x, w, a])(*arrays) < -0.9).all()


def test_a_tensor_that_the_schedule_names_is_computed() -> None:
    x, w = te.placeholder((6, 5), name="X"), te.placeholder((5, 5), name="W")
    a, b = layer(x, w, "A"), layer(x, w, "B")
    y = te.compute(a.shape, lambda i, j: a[i, j] * b[5 - i, j], name="Y")
    for name in ("A", "B"):
        f = build(y, [x, w], schedule={name: Schedule(vector="j")})
        given = np.full((6, 5), 0.1, "float32"), np.full((5, 5), 0.2, "float32")
        np.testing.assert_allclose(f(*given), np.tanh(0.1) ** 2, rtol=1e-5)
