"""Costly terms that several sums have in common are computed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import tensorad as ta
from tensorad import te
from tensorad.codegen.common_terms import with_common_terms
from tensorad.codegen.model import MODEL
from tensorad.ir.expr import Call, Expr
from tensorad.ir.order import postorder
from tensorad.ir.tensor import Dim, Op, Tensor
from tensorad.ir.visit import op_expressions, op_inputs, topological_ops

N, K = 16, 24
A = te.placeholder((N, K), name="A")
B = te.placeholder((K, N), name="B")
G = te.placeholder((N, N), name="G")


def sums(
    term: Callable[[Expr, Expr, Expr], Expr], sizes: tuple[int, int, int] = (N, N, K)
) -> list[Tensor]:
    """Sums over either of two axes of term(i, j, k)."""
    n, m, last = sizes
    j, i = te.reduce_axis(m, name="j"), te.reduce_axis(n, name="i")
    first = te.compute((n, last), lambda i, k: te.sum(term(i, j, k), axis=j), name="first")
    second = te.compute((last, m), lambda k, j: te.sum(term(i, j, k), axis=i), name="second")
    return [first, second]


def weight(i: Expr, j: Expr, k: Expr) -> Expr:
    return G[i, j] * te.exp(A[i, k] + B[k, j])


def exps(results: Sequence[Tensor], may_share: Callable[[Op], bool] = lambda op: True) -> int:
    """In how many formulas exponentials are computed, afterwards."""
    found = with_common_terms(results, [A, B, G], may_share, MODEL)
    bodies = [op_expressions(op) for op in topological_ops(found)]
    return sum([any(isinstance(e, Call) and e.op == "exp" for e in postorder(*b)) for b in bodies])


def test_a_term_of_two_sums_is_a_compute_of_its_own() -> None:
    results = sums(weight)
    found = with_common_terms(results, [A, B, G], lambda op: True, MODEL)
    assert exps(results) == 1
    (first,), (second,) = (op_inputs(t.op) for t in found)
    assert first is second and first.name == "first_term"
    assert first.shape == (N, K, N), "G and B are contiguous along j"
    rng = np.random.default_rng(0)
    given = {t: rng.standard_normal((N, K) if t is A else (K, N)) for t in (A, B)}
    given[G] = rng.standard_normal((N, N))
    for made, wanted in zip(ta.interpret(found, given), ta.interpret(results, given), strict=True):
        np.testing.assert_allclose(made, wanted, rtol=1e-12)


def test_the_largest_term_is_shared_and_smaller_ones_by_others() -> None:
    def other(i: Expr, j: Expr, k: Expr) -> Expr:
        return te.exp(A[i, k] + B[k, j]) * 2.0

    three = [*sums(weight), sums(other)[0]]
    assert exps(three) == 2, "what is left for one sum stays in it"
    assert exps([*sums(weight), *sums(other)]) == 2, "a product and a doubled exponential"


@pytest.mark.parametrize("case", [
    ("cheap", sums(lambda i, j, k: G[i, j] * (A[i, k] + B[k, j])), 0),
    ("not along all loops", sums(lambda i, j, k: te.exp(G[i, j]) * A[i, k]), 2),
    ("chosen", sums(lambda i, j, k: te.select(G[i, j] > 0, weight(i, j, k), 0.0)), 2),
    ("few points", sums(weight, (2, 2, 2)), 2),
    ("one sum", sums(weight)[:1], 1),
], ids=lambda c: c[0])  # fmt: skip
def test_other_terms_stay(case: tuple[str, list[Tensor], int]) -> None:
    _, results, wanted = case
    assert exps(results) == wanted
    assert with_common_terms(results, [A, B, G], lambda op: True, MODEL) == results


def test_large_terms_symbolic_ones_and_guarded_sums_stay() -> None:
    n = te.size("n")
    x, y = te.placeholder((n, 8), name="x"), te.placeholder((8, n), name="y")
    s, wide = (te.placeholder((m, m), name="s") for m in (64, 512))

    def results(size: Dim, source: Callable[[Expr, Expr], Expr], guarded: bool) -> list[Tensor]:
        k, m = te.reduce_axis(size, name="k"), te.reduce_axis(size, name="m")
        condition = [k >= 1, m >= 1] if guarded else [None, None]
        return [
            te.compute((size,), lambda i: te.sum(source(i, k), axis=k, where=condition[0])),
            te.compute((size,), lambda i: te.sum(source(m, i), axis=m, where=condition[1])),
        ]

    for case in (
        results(n, lambda i, k: te.exp(x[i, 0] + y[0, k]), False),
        results(512, lambda i, k: te.exp(wide[i, k]), False),
        results(64, lambda i, k: te.exp(s[i, k]), True),
    ):
        assert with_common_terms(case, [x, y, s, wide], lambda op: True, MODEL) == case
    case = results(64, lambda i, k: te.exp(s[i, k]), False)
    assert with_common_terms(case, [s], lambda op: True, MODEL) != case


def test_gradients_of_a_sum_share_its_terms_unless_told_not_to() -> None:
    i = te.reduce_axis(K, name="i")
    total = te.compute((N, N), lambda a, b: te.sum(te.exp(A[a, i] + B[i, b]), axis=i), name="total")
    results, inputs = ta.vjp(total, [A, B], G), [A, B, G]
    text = str(ta.lower(results, inputs))
    assert text.count("exp(") == 1
    apart = ta.build(results, inputs, schedule=ta.Schedule(terms=False))
    assert str(ta.lower(results, inputs, schedule=ta.Schedule(terms=False))).count("exp(") > 1
    reasons = str(ta.lower(results, inputs, schedule=True))
    assert "#   reads dA_term: computed once for dA and dB" in reasons
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal((N, K)), rng.standard_normal((K, N)), rng.standard_normal((N, N))]
    arrays = [a.astype(np.float32) for a in arrays]
    for found, wanted in zip(ta.build(results, inputs)(*arrays), apart(*arrays), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-5)
