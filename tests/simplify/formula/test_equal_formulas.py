"""Equal reductions of a program are computed once where it is built."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tensorad import te
from tensorad.autodiff.derivatives import hvp
from tensorad.autodiff.forward import jvp
from tensorad.autodiff.reverse import vjp
from tensorad.building import build
from tensorad.codegen.directives import Schedule
from tensorad.codegen.lower import lower_program
from tensorad.ir.combiner import sum_combiner
from tensorad.ir.dtypes import FLOAT64
from tensorad.ir.expr import TRUE, Expr, Reduce, axis, read, reduce_expr
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Tensor
from tensorad.ir.visit import free_leaves, topological_ops
from tensorad.simplify.formula.common_reductions import computed_once
from tensorad.simplify.formula.normal_form import Interned
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


def test_sums_with_exchanged_indices_are_two() -> None:
    """Of an index and a sum's axis with equal bounds each is told apart from the other."""
    n = 3
    a, q, d = (
        te.placeholder(s, "float64", name=m) for s, m in (((n, n), "A"), ((n,), "q"), ((n,), "d"))
    )
    k, m = te.reduce_axis(n, name="k"), te.reduce_axis(n, name="m")
    y = te.compute(
        (n,),
        lambda j: te.sum(a[j, k] * (q[j] - q[k]), axis=k) - te.sum(a[m, j] * (q[m] - q[j]), axis=m),
    )
    rng = np.random.default_rng(0)
    at = {t: rng.standard_normal(t.shape) for t in (a, q, d)}
    found = interpret(jvp(y, {q: d}), at)
    np.testing.assert_allclose(found, interpret(y, {**at, q: at[d]}), rtol=1e-12)


@pytest.mark.slow
def test_curvature_of_an_energy_of_pairs() -> None:
    n = 3
    q, d = (te.placeholder((n, 2), "float64", name=m) for m in ("q", "d"))
    k = te.reduce_axis(n, name="k")
    near = te.compute(
        (n, n), lambda i, j: (q[i, 0] - q[j, 0]) ** 2 + (q[i, 1] - q[j, 1]) ** 2 + 0.1
    )
    force = te.compute(
        (n, 2), lambda i, c: te.sum((q[k, c] - q[i, c]) * near[i, k] ** -1.5, axis=k)
    )
    y = (force * force).sum()
    rng = np.random.default_rng(0)
    at = {t: rng.standard_normal((n, 2)) for t in (q, d)}
    (g,) = vjp(y, [q])
    h = 1e-6
    ahead, behind = (interpret(g, {q: at[q] + s * h * at[d]}) for s in (1, -1))
    np.testing.assert_allclose(interpret(hvp(y, q, d), at), (ahead - behind) / (2 * h), rtol=1e-6)


def test_an_axis_that_stands_for_others_is_not_taken_twice() -> None:
    """Of sum over i of exp(sum over j of A[i, j]) the outer sum may have its standing axis before
    the inner one."""
    a = te.placeholder((3, 3), "float64", name="A")
    total, i, j = sum_combiner(FLOAT64), axis("i", 0, 3), axis("j", 0, 3)

    def standing(by_rows: bool) -> Expr:
        inner = reduce_expr(total, (read(a, (i, j) if by_rows else (j, i)),), (j,))
        interned = known.sum_of(total, (i,), ((te.exp(inner), 1),), TRUE)
        return known.closed(interned)

    known = Interned()
    rows, columns = standing(True), standing(False)
    assert rows is not columns and known.closed(rows) is rows
    assert isinstance(rows, Reduce) and not free_leaves(rows)
    inner = rows.sources[0].args[0]
    assert [str(x) for x in free_leaves(inner)] == [str(x) for x in rows.axes]


def test_equal_sums_whose_bounds_come_from_data() -> None:
    """Which of them are one is left open; none is lost."""
    x, n = te.placeholder((6,), "float64", name="x"), te.placeholder((3,), "int64", name="n")

    def rows(a: Expr) -> Expr:
        k = te.reduce_axis((0, te.minimum(te.maximum(n[a], 0), 6)), name="k")
        return te.sum(x[k] * x[k], axis=k)

    one, other = te.compute((3,), rows), te.compute((3,), rows)
    along = jvp(one * other, {x: x})
    found = build(along, [x, n])(np.arange(6.0), np.array([2, 6, 0]))
    assert found.tolist() == [4.0, 4 * 55.0**2, 0.0]
