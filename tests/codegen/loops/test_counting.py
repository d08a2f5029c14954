"""`work`: hand counts, the loop interpreter's counts on random programs, polynomials."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tensorad import te
from tensorad.codegen.loops.interpret import Elements, _Run
from tensorad.codegen.lower import lower_program
from tensorad.counting import Innermost, Work, innermost, work
from tensorad.errors import UserError
from tensorad.ir.analysis.points import count_points, depends_on_data, evaluate
from tensorad.ir.analysis.polynomial import Polynomial
from tensorad.ir.analysis.symbolic_points import Count
from tensorad.ir.expr import (
    FUNCTIONS,
    Axis,
    Call,
    Expr,
    Select,
    axis,
    call,
    const,
    int_const,
    select,
    size_var,
)
from tensorad.ir.reference.formulas import Steps
from tensorad.ir.visit import postorder
from tests.random.generators import random_program, random_symbolic_program
from tests.support.oracles import points

X = te.placeholder((6, 5), name="X")
N = te.size("n")
A = te.placeholder((N, N), name="A")


def test_each_operation_counts_once() -> None:
    y = te.compute((6, 5), lambda i, j: te.exp(X[i, j]) * 2.0, name="Y")
    k = te.reduce_axis(5, name="k")
    z = te.compute((6,), lambda i: te.sum(y[i, k] * y[i, k], axis=k), name="Z")
    assert work(z) == Work(30 + 30, 60 + 30, 30 + 6)
    assert work([z, y, z]) == work(z)


def test_dependent_bounds_and_steps() -> None:
    def banded(i: Axis) -> Expr:
        k = axis("k", call("maximum", int_const(0), i - 1), call("minimum", int_const(5), i + 2))
        return te.sum(X[i, k], axis=k)

    assert work(te.compute((6,), banded)).iterations == sum(
        min(5, i + 2) - max(0, i - 1) for i in range(6)
    )

    def strided(i: Axis) -> Expr:
        k = axis("k", i % 2, 5, 2)
        return te.sum(X[i, k], axis=k)

    assert work(te.compute((6,), strided)).iterations == 3 * 3 + 3 * 2


def test_conditions_inside_count_and_guards_outside_switch_off() -> None:
    k = te.reduce_axis(5, name="k")
    inside = te.compute((6,), lambda i: te.sum(X[i, k] * X[i, k], axis=k, where=k <= i))
    assert work(inside) == Work(30, 1 + 2 + 3 + 4 + 5 + 5, 6)
    r = te.reduce_axis(5, name="r")
    outside = te.compute((6,), lambda i: te.sum(X[i, r], axis=r, where=i % 3 == 0))
    assert work(outside) == Work(10, 6, 6)


def test_selects_evaluate_the_chosen_side() -> None:
    y = te.compute((6,), lambda i: select(i < 2, X[i, 0] * X[i, 0], const(0.0, X.dtype)))
    assert work(y) == Work(6, 2, 6)
    relu = te.compute((6,), lambda i: select(X[i, 0] > 0, X[i, 0] * 2.0, X[i, 0] * 3.0))
    assert work(relu) == Work(6, 12, 6)


def test_scatters_count_fill_and_domain_scans_their_points() -> None:
    p = te.placeholder((4,), dtype="int64", name="P")
    s = te.scatter((7,), (4,), lambda i: (p[i], X[i, 0] * 2.0))
    assert work(s) == Work(7 + 4, 4, 7 + 4)
    plus = te.comm_reducer(lambda x, y: x + y, lambda t: const(0, t), name="plus")
    assert work(te.scan(X, 1, plus)) == Work(30, 0, 30)


def test_full_size_counts_are_products() -> None:
    big = te.placeholder((32, 17, 280, 280), name="B")
    y = te.compute(
        (32, 17, 280, 280),
        lambda n, c, y, x: select((c + y * 3) % 7 < 2, big[n, c, y, x] * 2.0, big[n, c, y, x]),
    )
    chosen = sum((c + r * 3) % 7 < 2 for c in range(17) for r in range(280))
    size = 32 * 17 * 280 * 280
    assert work(y) == Work(size, 2 * size + 32 * 280 * chosen, size)


def test_points_are_enumerated_piecewise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensorad.ir.analysis.points._MOST_ROWS", 7)
    i = axis("i", 0, 9)
    j = axis("j", i // 2, 6)
    k = axis("k", 0, 30)
    items = (i, j, k, (i * 7 + j * 5 + k) % 4 == 1)
    wanted = sum(bool((p[i] * 7 + p[j] * 5 + p[k]) % 4 == 1) for p in points((i, j, k)))
    assert count_points(items, {}) == wanted


def test_polynomials() -> None:
    k = te.reduce_axis(N, name="k")
    y = te.compute((32, N), lambda i, j: te.sum(A[i, k] * A[k, j], axis=k))
    assert str(work(y)) == "Work(iterations=32*n**2, multiplications=32*n**2, elements=32*n)"
    assert work(y, {"n": 8}) == Work(2048, 2048, 256)

    def triangle(i: Axis) -> Expr:
        k = axis("k", 0, i + 1)
        return te.sum(A[i, k], axis=k)

    assert str(work(te.compute((N,), triangle)).iterations) == "n/2 + n**2/2"
    m = te.size("m")
    half = te.compute((m // 2 + 1, N * 2), lambda i, j: A[0, 0])
    assert str(work(half).elements) == "2*n + 2*(m//2)*n"
    padded = te.compute(
        (N + 2,), lambda i: select((i >= 1) & (i < N + 1), A[0, i - 1] * 2.0, const(0, A.dtype))
    )
    assert str(work(padded).multiplications) == "n"


def test_power_sums_are_exact() -> None:
    i, j = axis("i", 0, N), axis("j", 0, 1)
    for power in range(6):
        p = Polynomial.constant(1)
        for _ in range(power):
            p = p * Polynomial.symbol(i)
        total = p.sum_over(i, Polynomial.constant(2), Polynomial.symbol(N))
        for n in (2, 3, 9):
            assert _at(total, {"n": n}) == sum(v**power for v in range(2, n))
    assert Polynomial.symbol(j) - Polynomial.symbol(j) == 0
    assert str(Polynomial.symbol(N) * Fraction(-3, 2) + 1) == "1 - 3*n/2"


def test_a_count_without_polynomial_asks_for_sizes() -> None:
    y = te.compute((N,), lambda i: select(i % 3 < 1, A[0, i] * 2.0, const(0.0, A.dtype)))
    with pytest.raises(UserError) as caught:
        work(y)
    assert str(caught.value) == (
        "the count is no polynomial of the symbolic sizes.\n"
        "  in: i % 3\n"
        '  hint: give the sizes\' values: work(..., sizes={"n": 8}).'
    )
    assert work(y, {"n": 7}).multiplications == 7 + 3


def _at(c: Count, sizes: dict[str, int]) -> int:
    """The count where sizes have values."""
    if isinstance(c, int):
        return c
    known = {size_var(name): n for name, n in sizes.items()}
    total = Fraction(0)
    for monomial, coefficient in c.terms.items():
        for symbol, power in monomial:
            coefficient *= int(evaluate((symbol,), {}, known)[0]) ** power
        total += coefficient
    return int(total)


class _Executed(_Run):
    """Counts multiplications while running; the expressions of one statement share nodes."""

    def __init__(self) -> None:
        super().__init__({})
        self.multiplications = 0
        self.choices_on_data = False
        self.formulas: list[Elements] = [_Counted(self, eager) for eager in (False, True)]


class _Counted(Elements):
    run: _Executed

    def of(self, roots: Sequence[Expr]) -> Steps:
        self.run.choices_on_data |= any(
            isinstance(e, Select) and depends_on_data(e.cond) for e in postorder(*roots)
        )
        return super().of(roots)

    def calling(self, e: Call) -> Callable[..., Any]:
        function = super().calling(e)

        def counted(*args: Any) -> Any:
            self.run.multiplications += 1
            return function(*args)

        costly = ("mul", "div", "floordiv", "mod", "pow", *FUNCTIONS)
        return counted if e.op in costly else function


@pytest.mark.slow
def test_random_programs_multiply_as_often_as_counted() -> None:
    compared = 0
    for seed in range(60):
        p = random_program(seed, computes=4, data_conditions=False)
        run = _Executed()
        run.buffers.update({t: np.asarray(a) for t, a in p.arrays().items()})
        for kernel in lower_program(p.outputs, p.inputs, schedule=False).kernels:
            if not kernel.name.endswith(".check"):
                run.kernel(kernel)
        counted = work(p.outputs)
        assert run.visits == counted.iterations, f"seed {seed}"
        if run.choices_on_data:
            assert run.multiplications <= counted.multiplications, f"seed {seed}"
        else:
            assert run.multiplications == counted.multiplications, f"seed {seed}"
            compared += 1
    assert compared >= 30


def test_conditions_counted_together_and_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def body(i: Axis, j: Axis) -> Expr:
        e: Expr = X[i, j]
        for n in range(12):
            e = select((i * n + j) % 5 < 3, e * 2.0, e * X[i, 0]) if n % 2 else e + 1.0
            e = select(i <= n, e, e * X[0, j])
        return e

    nested = te.compute((6, 5), body)
    programs = [random_program(seed) for seed in range(15)]
    before = [work(nested), *[work(p.outputs) for p in programs]]
    monkeypatch.setattr("tensorad.counting._FEW", 0)
    monkeypatch.setattr("tensorad.ir.analysis.points._MOST_VALUES", 1)
    assert [work(nested), *[work(p.outputs) for p in programs]] == before


def test_polynomials_agree_with_counts_at_given_sizes() -> None:
    polynomials = 0
    for seed in range(20):
        p = random_symbolic_program(seed, computes=3)
        try:
            general = work(p.outputs)
        except UserError:
            continue
        polynomials += 1
        for n, m in ((0, 3), (1, 1), (4, 2), (5, 3)):
            sizes = {"n": n, "m": m}
            found = (general.iterations, general.multiplications, general.elements)
            at_sizes = Work(*[_at(c, sizes) for c in found])
            assert at_sizes == work(p.outputs, sizes), f"seed {seed}"
    assert polynomials >= 8


def test_counts_are_python_integers() -> None:
    counted = work(te.compute((2, 3), lambda i, j: X[i, j]))
    assert all(type(v) is int for v in (counted.iterations, counted.elements))
    assert not isinstance(counted.iterations, np.integer)


def test_innermost_loops_are_looked_into() -> None:
    plain = te.compute((6, 5), lambda i, j: X[i, j] * 2.0)
    assert innermost(plain) == Innermost(0, 0)
    digits = te.compute((30,), lambda i: X[i // 5, i % 5])
    assert innermost(digits) == Innermost(0, 60)
    k = te.reduce_axis(5)
    rows = te.compute((3,), lambda i: te.sum(X[i * 2, k], axis=k, where=k != i), name="rows")
    assert innermost(rows) == Innermost(15, 12)  # i * 2 where k != i
    edge = te.compute((6, 5), lambda i, j: te.select(i < j, X[i, j], 0.0))
    assert innermost([edge, edge]) == Innermost(30, 0)
    table = te.compute((N,), lambda i: A[i, i // 2])
    assert str(innermost(table).index_multiplications) == "n"


def test_stores_beside_inner_loops_are_not_innermost() -> None:
    k = te.reduce_axis(5)
    y = te.compute((6,), lambda i: te.select(i < 3, te.sum(X[i, k], axis=k), 0.0), name="Y")
    assert innermost(y) == Innermost(0, 0)
