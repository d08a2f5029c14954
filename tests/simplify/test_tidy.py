"""Gradients as a person would write them: formulas, counts, and that values stay."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

import tensorad as ta
from tensorad import te, topi
from tensorad.autodiff import sweep, vjp
from tensorad.bound import bound
from tensorad.counting import work
from tensorad.ir.combiner import arg_combiner, sum_combiner
from tensorad.ir.dtypes import FLOAT32
from tensorad.ir.expr import TRUE, Axis, Expr, axis, reduce_expr, select, size_var
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Compute, Tensor, outputs
from tensorad.ir.visit import op_inputs, postorder, topological_ops
from tensorad.simplify.formula.choose import tidy
from tensorad.simplify.formula.costs import cost, visits
from tensorad.simplify.formula.factors import factored
from tensorad.simplify.formula.laurent import Ring, Sum
from tensorad.simplify.formula.normal_form import Interned, Normal
from tests.random.generators import random_program

N, M = 6, 20


def tensor(*shape: object, name: str = "X", dtype: str = "float32") -> Tensor:
    made: Tensor = te.placeholder(shape, dtype=dtype, name=name)
    return made


def gradient(y: Tensor, *wrt: Tensor) -> list[Tensor]:
    return vjp(y, list(wrt), tensor(*y.shape, name="H", dtype=str(y.dtype)))


def formula(t: Tensor) -> str:
    assert isinstance(t.op, Compute)
    return str(t.op.bodies[0])


def stages(*tensors: Tensor) -> dict[str, str]:
    """name -> formula of the operations behind some tensors."""
    found = {}
    for op in topological_ops(tensors):
        if isinstance(op, Compute):
            found[op.name] = str(op.bodies[0])
    return found


# -- what comes out ------------------------------------------------------------------------------


def test_softmax() -> None:
    x = tensor(N, M)
    (dx,) = gradient(topi.nn.softmax(x), x)
    assert stages(dx) == {
        "max": "max(X[i0, k], axes (k : [0, 19]))",
        "exps": "exp(X[i0, i1] - max[i0, 0])",
        "sum": "sum(exps[i0, k], axes (k : [0, 19]))",
        "inverse": "1.0/sum[i0, i1]",
        "dinverse": "sum(H[i0, i1]*exps[i0, i1], axes (i1 : [0, 19]))",
        "dexps.factor": "inverse[i0, 0]*dinverse[i0, 0]/sum[i0, 0]",
        "dX": "(H[i0, i1]*inverse[i0, 0] - dexps.factor[i0])*exps[i0, i1]",
    }


def test_log_softmax() -> None:
    x = tensor(N, M)
    (dx,) = gradient(topi.nn.log_softmax(x), x)
    assert formula(dx) == "H[i0, i1] - exps[i0, i1]*dX.factor[i0]"
    assert stages(dx)["dX.factor"] == "sum(H[i0, i1], axes (i1 : [0, 19]))/sum[i0, 0]"


def test_layer_norm() -> None:
    x = tensor(N, M)
    (dx,) = gradient(topi.nn.layer_norm(x), x)
    assert formula(dx) == (
        "H[i0, i1]*dX.factor[i0] - (X[i0, i1] - mean[i0, 0])*dX.factor_1[i0] - dX.factor_2[i0]"
    )


def per_element(tensors: list[Tensor]) -> tuple[Fraction, Fraction]:
    """Iterations and multiplications for each element, as the rows grow long."""
    counts = work(tensors, {"n": 7, "m": 10_000})
    return (
        round(Fraction(counts.iterations, 70_000), 2),
        round(Fraction(counts.multiplications, 70_000), 2),
    )


BY_HAND: dict[str, tuple[Callable[[Tensor], Tensor], float, float]] = {
    "softmax": (topi.nn.softmax, 5, 4),
    "log_softmax": (topi.nn.log_softmax, 5, 2),
    "logsumexp": (lambda x: topi.logsumexp(x, 1), 4, 2),
    "layer_norm": (topi.nn.layer_norm, 5, 4),
    "rms_norm": (topi.nn.rms_norm, 4, 4),
    "l2_normalize": (topi.nn.l2_normalize, 4, 4),
}
"""operator -> points and multiplications an element, forward values included."""


@pytest.mark.parametrize("name", BY_HAND)
def test_counts_of_the_backward_pass_by_hand(name: str) -> None:
    f, iterations, multiplications = BY_HAND[name]
    x = tensor(te.size("n"), te.size("m"))
    found = per_element(gradient(f(x), x))
    assert found[0] <= iterations
    assert found[1] <= multiplications


def test_softmax_counts_exactly() -> None:
    for n, m in ((1, 2), (2, 1), (3, 50), (60, 200)):
        x = tensor(n, m)
        counts = work(gradient(topi.nn.softmax(x), x))
        assert counts.iterations == 5 * n * m + 2 * n
        assert counts.multiplications <= 4 * n * m + 3 * n


def test_invariant_factors_leave_sums() -> None:
    a, b, x = tensor(N, name="A"), tensor(N, name="B"), tensor(N, M)
    k = te.reduce_axis(M, name="k")
    y = te.compute((N,), lambda i: te.sum(x[i, k] * a[i] / b[i], axis=k))
    da, db = gradient(y, a, b)
    assert stages(da, db)["dA"] == "H[i]*dA.sum[i]/B[i]"
    assert stages(da, db)["dB"] == "-(H[i]*A[i]*dA.sum[i])/B[i]/B[i]"  # the same sum of X
    assert work([da, db]).iterations == N * M + 2 * N


def test_a_sum_of_the_forward_program_is_read() -> None:
    x, c = tensor(N, M), tensor(N, name="C")
    s = topi.sum(x, axis=1)
    y = te.compute((N, M), lambda i, j: x[i, j] * c[i] * s[i], name="Y")
    (dc,) = gradient(y, c)
    k = te.reduce_axis(M)
    z = te.compute((N,), lambda i: te.sum(c[i] * x[i, k], axis=k), name="Z")
    (dz,) = gradient(te.compute((N,), lambda i: z[i] * s[i]), c)
    assert formula(dz) == "H[i]*sum[i]*sum[i]"
    assert "sum" in stages(dc)


def test_gradients_read_those_that_are_sums() -> None:
    x, b, g = tensor(N, M), tensor(N, name="B"), tensor(N, name="G")
    mean = topi.sum(x, axis=1)
    y = te.compute((N, M), lambda i, j: (x[i, j] - mean[i] / M) * g[i] + b[i], name="Y")
    dx, db, dg = gradient(y, x, b, g)
    assert stages(dx, db, dg)["dsum"] == "G[i]*dB[i]*-0.05"
    assert work([dx, db]).iterations == 2 * N * M + N  # the heads are added up once


def test_a_factor_over_fewer_axes_is_stored_unless_that_adds_points() -> None:
    x, v = tensor(N, M), tensor(N, name="V")
    y = te.compute((N, M), lambda i, j: x[i, j] * te.exp(v[i] * v[i]))
    (dx,) = gradient(y, x)
    assert formula(dx) == "H[i, j]*exp(V[i]*V[i])"
    (dn,) = gradient(topi.nn.layer_norm(x), x)  # here other stages over the rows are gone
    assert stages(dn)["dX.factor"].count("rsqrt") + formula(dn).count("rsqrt") <= 1


def test_a_function_is_not_stored_for_a_sum_behind_a_condition_if_that_adds_points() -> None:
    x, v = tensor(4), tensor(M, name="V")
    k = te.reduce_axis(4)
    s = te.compute((), lambda: te.min(x[k], axis=k), name="S")
    y = te.compute((N, M), lambda i, j: te.tanh(te.exp(v[j]) * te.minimum(s[()], 3.0)))
    (ds,) = gradient(y, s)
    assert formula(ds).startswith("select(not (3.0 < S[]")
    assert work(ds).iterations == 4 + N * M == bound(y, [s])


def test_a_sum_is_stored_once_though_its_multiple_is_read_and_summed() -> None:
    a, b, w = tensor(1, name="A"), tensor(3, name="B"), tensor(N, M, name="W")
    places = tensor(N, name="P", dtype="int64")
    t = te.compute((N,), lambda i: a[0] - b[places[i]], name="T")
    j = te.reduce_axis(M, name="j")
    y = te.compute((N - 1,), lambda i: te.sum(w[i, j] * t[i] ** 3.0, axis=j))
    da, db = gradient(y, a, b)  # db scatters dT
    assert stages(da, db)["dA"] == "sum(dT[i], axes (i : [0, 5]))"
    assert work([da, db]).iterations == bound(y, [a, b]) == (N - 1) * M + 3 * N + 3


def test_symbolic_factors_are_not_stored_if_that_adds_points_at_small_sizes() -> None:
    n = te.size("n")
    x, k, j = tensor(n), te.reduce_axis(n, name="k"), te.reduce_axis(n, name="j")
    y = te.compute((n,), lambda i: te.tanh(te.sum(x[n - 1 - i] + 0.0, axis=[k, j]) * 3.0))
    (dx,) = gradient(y, x)
    assert "dX.factor" not in stages(dx)  # n * n * 3.0
    assert work(dx, {"n": 0}).iterations == 0


def test_a_sum_for_one_index_is_no_stage_for_all() -> None:
    n, m = te.size("n"), te.size("m")
    x, k = tensor(n, m), te.reduce_axis(n, name="k")
    s = te.compute((m,), lambda i: te.sum(x[k, te.maximum(i - 2, 0)], axis=k), name="S")
    y = te.compute((m, n + 1), lambda i, j: te.tanh(s[i]))
    (dx,) = gradient(y, x)
    assert "dX.sum" not in stages(dx)  # over the three i that read x[:, 0]
    assert work(dx, {"n": 16, "m": 12}).iterations <= bound(y, [x], {"n": 16, "m": 12})


def test_how_often_an_axis_repeats_a_value_is_a_number() -> None:
    x, i = tensor(N), axis("i", 0, N)
    for lower, upper, count in ((1, 4, 3), (2, 1, 0)):
        repeated = reduce_expr(sum_combiner(FLOAT32), (x[i],), (axis("k", lower, upper),), TRUE)
        form = Normal(Interned()).form(repeated)
        assert list(form.terms.items()) == [(((x[i], 1),), count)] * (count > 0)


def test_visits_are_points_of_loops() -> None:
    x, (i, k) = tensor(4, 5), (axis("i", 0, 4), axis("k", 0, 5))
    total = reduce_expr(sum_combiner(FLOAT32), (x[i, k],), (k,), TRUE)
    assert visits(Compute("T", (i,), (select(i < 2, total, 0.0 * total),))) == 4 * 5
    assert visits(Compute("T", (i,), (x[i, 0],))) == 4
    n = axis("n", 0, size_var("n"))
    assert [visits(Compute("T", (n,), (x[0, 0],)), m) for m in (0, 7)] == [0, 7]
    best = arg_combiner("maximum", FLOAT32)
    first = reduce_expr(sum_combiner(FLOAT32), (x[i, k],), (k,), i == 2)
    assert visits(Compute("T", (i,), (first,))) == 5
    both = [reduce_expr(best, (x[i, k], k), (k,), TRUE, n) for n in (0, 1)]
    assert visits(Compute("T", (i,), tuple(both))) == 4 * 5


def test_axes_of_one_value_are_no_axes_of_stages() -> None:
    x = tensor(4)
    i, j, k = (axis(n, 0, m) for n, m in zip("ijk", (2, 3, 1), strict=True))
    made = outputs(Compute("T", (i, j, k), (x[j + k] * 2.0,)))[0]
    both = te.compute((2, 3), lambda i, j: made[i, j, 0] * made[1 - i, j, 0], name="U")
    (tidied,) = tidy([both], [made, both], [])
    stage = next(op for op in topological_ops([tidied]) if op.name == "T")
    assert isinstance(stage, Compute)
    assert str(stage.bodies[0]) == "X[j]*2.0"
    assert work(tidied).iterations == 3 + 2 * 3


K = te.reduce_axis(M, name="k")


def test_stages_used_once_are_written_into_their_reader() -> None:
    x = tensor(N, M)
    y = x
    for f in (topi.exp, topi.tanh, topi.sigmoid):
        y = f(y)
    (dx,) = gradient(y, x)
    assert [op.name for op in topological_ops([dx]) if op.name.startswith("d")] == ["dX"]


def test_unused_axes_are_dropped() -> None:
    x, w = tensor(N, M), tensor(5, M, name="W")
    (dx,) = vjp(topi.nn.dense(x, w), [x], 1.0)
    assert dx.shape == (N, M)
    assert work(dx).iterations == 5 * M + N * M  # the sum over W once, not for every row


@pytest.mark.parametrize("head", [1.0, np.ones((N, 5), "float32"), topi.full((N, 5), 1.0)], ids=str)
def test_constant_heads_are_numbers(head: object) -> None:
    x, w = tensor(N, M), tensor(5, M, name="W")
    (dx,) = vjp(topi.nn.dense(x, w), [x], head)
    assert formula(dx) == "dX.sum[k]"


def test_identity_heads_are_deltas() -> None:
    x, w = tensor(2, 3), tensor(4, 3, name="W")
    y = topi.nn.dense(x, w)
    eye = np.eye(8, dtype="float32").reshape(2, 4, 2, 4)
    (full,) = vjp(y, [x])
    (given,) = vjp(y, [x], eye)
    (scaled,) = vjp(y, [x], 3 * eye)
    i, j, p, q = (axis(n, 0, m) for n, m in zip("ijpq", (2, 4, 2, 4), strict=True))
    delta = te.select(te.all_of(i == p, j == q), 1.0, 0.0)
    (made,) = vjp(y, [x], outputs(Compute("eye", (i, j, p, q), (delta,)))[0])
    assert formula(full) == formula(given) == formula(made) == "select(i == b0, W[b1, k], 0.0)"
    assert formula(scaled) == "select(i == b0, 3.0*W[b1, k], 0.0)"
    other = np.eye(8, dtype="float32")[::-1].reshape(2, 4, 2, 4)
    assert "head" in formula(vjp(y, [x], other)[0])


def test_equal_stages_are_one() -> None:
    x, s, t = tensor(N, M), tensor(N, name="S"), tensor(N, name="T")
    k = te.reduce_axis(M, name="k")

    def weighted(v: Tensor) -> Tensor:
        return te.compute((N,), lambda i: te.sum(x[i, k] * v[i], axis=k), name="Y")

    weighted_s, weighted_t = weighted(s), weighted(t)
    total = te.compute((N,), lambda i: weighted_s[i] + weighted_t[i])
    ds, dt = gradient(total, s, t)
    assert work([ds, dt]).iterations == N * M + 2 * N


# -- values stay ---------------------------------------------------------------------------------


def untidied(monkeypatch: pytest.MonkeyPatch, y: Tensor, wrt: list[Tensor], h: Tensor) -> list:
    with monkeypatch.context() as m:
        m.setattr(sweep, "tidy", lambda results, *_: list(results))
        return vjp(y, wrt, h)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(12))
def test_random_gradients_keep_their_values(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    program = random_program(seed, computes=4)
    y = program.outputs[-1]
    h = tensor(*y.shape, name="H", dtype="float64")
    arrays = program.arrays()
    arrays[h] = np.random.default_rng(seed).standard_normal([int(n) for n in y.shape])
    before = untidied(monkeypatch, y, program.float_inputs, h)
    after = vjp(y, program.float_inputs, h)
    assert work(after).multiplications <= work(before).multiplications
    for a, b in zip(before, after, strict=True):
        assert a.shape == b.shape and a.name == b.name
        np.testing.assert_allclose(
            interpret(b, arrays), interpret(a, arrays), rtol=1e-9, atol=1e-9, equal_nan=True
        )


def test_nothing_to_gain_changes_nothing() -> None:
    x, w = tensor(N, M), tensor(5, M, name="W")
    (dx,) = gradient(topi.nn.dense(x, w), x)
    assert tidy([dx], [dx], []) == [dx]
    (ds,) = gradient(topi.nn.softmax(x), x)
    assert tidy([ds], [ds], []) == [ds]


def test_differences_stay_exact() -> None:
    """x - mean is not expanded: rows far from zero keep their digits."""
    x = tensor(3, 64)
    h = tensor(3, 64, name="H")
    (dx,) = vjp(topi.nn.layer_norm(x), [x], h)
    rng = np.random.default_rng(0)
    values = (1e4 + rng.standard_normal((3, 64))).astype("float32")
    head = rng.standard_normal((3, 64)).astype("float32")
    found = ta.evaluate(dx, {x: values, h: head})
    exact = values.astype("float64")
    exact = exact - exact.mean(1, keepdims=True)
    spread = np.sqrt((exact**2).mean(1, keepdims=True) + 1e-5)
    unit = exact / spread
    expected = (
        head - head.mean(1, keepdims=True) - unit * (head * unit).mean(1, keepdims=True)
    ) / spread
    np.testing.assert_allclose(found, expected, atol=3e-3)


def test_long_chains_take_linear_time() -> None:
    """The forward program is read once; each stage is looked at once."""
    x = t = tensor(8)
    for n in range(150):
        t = te.compute((8,), lambda i, t=t, n=n: te.tanh(t[i]) * t[7 - i] + float(n))
    (dx,) = gradient(t, x)
    sizes = [len(postorder(*op.bodies)) for op in topological_ops([dx]) if op_inputs(op)]
    assert max(sizes) <= 100


# -- the parts -----------------------------------------------------------------------------------


def scalar(name: str) -> Expr:
    return te.placeholder((), name=name).as_scalar()


A, B, C, D = (scalar(n) for n in "ABCD")


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (A * B + A * C, "A[]*(B[] + C[])"),
        (A / B - C / B, "(A[] - C[])/B[]"),
        (A * B / C - D * B / C, "B[]*(A[] - D[])/C[]"),
        (A + B - A, "B[]"),
        (A * 2.0 - A, "A[]"),
        (-A - B, "-A[] - B[]"),
        (A * 0.5 + B * 0.25, "A[]*0.5 + B[]*0.25"),
        (A * A * B + A * B * B + C, "A[]*B[]*(A[] + B[]) + C[]"),
        (A * B / (A * B), "1.0"),
        (A - A, "0.0"),
    ],
    ids=str,
)
def test_common_factors_are_written_once(e: Expr, text: str) -> None:
    assert str(factored(Normal(Interned()).form(e), A.dtype)) == text


def test_a_sum_kept_whole() -> None:
    normal = Normal(Interned(), keep=lambda e: True)
    form = normal.form((A - B) * (A - B) * C + (A - B + (A - B)) * D)
    assert str(factored(form, A.dtype)) == "(A[] - B[])*((A[] - B[])*C[] + D[]*2.0)"


def test_terms_cancel_exactly() -> None:
    ring = Ring()
    third = Sum({((A, 1),): Fraction(1, 3)})
    assert third.plus(third).plus(third).plus(ring.atom(A), -1).terms == {}


def test_costs_do_not_depend_on_extents() -> None:
    def total(n: int) -> float:
        i = axis("i", 0, n)
        k = te.reduce_axis(n)
        x = tensor(n, n)
        body = te.compute((n,), lambda i: te.sum(x[i, k] * 2.0, axis=k)).op.bodies[0]
        return cost((i,), body)

    assert total(2) == total(7) == total(1_000) > total(1)


def test_sums_with_other_domains_are_other_sums() -> None:
    x = tensor(9)
    interned = Interned()

    def form(lower: int, upper: int, where: Callable[[Axis], Expr] | None = None) -> Sum:
        k = te.reduce_axis((lower, upper), name="k")
        condition = {} if where is None else {"where": where(k)}
        y = te.compute((), lambda: te.sum(x[k], axis=k, **condition))
        return Normal(interned).form(y.op.bodies[0])

    forms = [form(0, 9), form(1, 9), form(0, 8), form(0, 9, lambda k: k < 5)]
    assert len({next(iter(f.terms)) for f in forms}) == len(forms)
    assert form(0, 9).terms == form(0, 9).terms


def test_one_loop_does_not_become_two() -> None:
    """sum(f*a + g*b) stays one sum, although a and b could leave it."""
    x, a, b = tensor(N, M), tensor(N, name="A"), tensor(N, name="B")
    k = te.reduce_axis(M, name="k")
    y = te.compute(
        (N, M), lambda i, j: te.exp(x[i, j]) * a[i] + te.sin(x[i, j]) * a[i] * b[i], name="Y"
    )
    z = te.compute((N,), lambda i: te.sum(y[i, k], axis=k), name="Z")
    (da,) = gradient(z, a)
    assert work(da).iterations <= N * M + N


def test_sums_without_points_are_left_alone() -> None:
    x, a = tensor(N, 0), tensor(N, name="A")
    k = te.reduce_axis(0, name="k")
    y = te.compute((N,), lambda i: te.sum(x[i, k] * te.exp(a[i]), axis=k))
    (da,) = gradient(y, a)
    assert work(da).multiplications == 0
