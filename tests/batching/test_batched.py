"""`batched`: what gets an axis, what stays, and what is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.lower import lower_program
from tensorad.errors import DefinitionError
from tensorad.ir.analysis.blocks import inner_ops
from tensorad.ir.reference.verify import verify
from tensorad.ir.tensor import Block, Control, FunctionCall, Tensor, outputs
from tensorad.ir.visit import topological_ops

Array = np.ndarray[Any, np.dtype[Any]]


def given(name: str, shape: Sequence[Any], dtype: str = "float64") -> Tensor:
    return ta.placeholder(tuple(shape), dtype, name=name)


def root(a: Any) -> Any:
    return ta.while_loop(lambda x: abs(x * x - a) > 1e-12 * a, lambda x: (x + a / x) / 2, a)


def doubled_until(x: Any, n: Any) -> Any:
    return ta.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 1.5), (0, x))[1]


def test_what_does_not_depend_on_rows_stays_as_it_is() -> None:
    x, w = given("x", (4,)), given("w", (4, 4))
    own = w @ w
    y = own @ x
    xs = given("xs", (7, 4))
    shared, rows = ta.batched([own, y], {x: xs})
    assert shared is own
    assert rows.shape == (7, 4)
    assert own in [t for op in topological_ops([rows]) for t in outputs(op)]
    a, b = np.arange(28.0).reshape(7, 4), np.arange(16.0).reshape(4, 4)
    np.testing.assert_allclose(ta.evaluate(rows, {xs: a, w: b}), a @ (b @ b).T)


def test_an_intermediate_may_have_rows() -> None:
    x = given("x", (3,))
    y = x * 2.0
    z = y + x
    ys = given("ys", (5, 3))
    (rows,) = ta.batched(z, {y: ys})
    a, b = np.arange(3.0), np.arange(15.0).reshape(5, 3)
    np.testing.assert_allclose(ta.evaluate(rows, {x: a, ys: b}), a + b)


def test_sizes_may_count_rows() -> None:
    n, m = ta.size("n"), ta.size("m")
    x, xs = given("x", (m,)), given("xs", (n, m))
    y = ta.scan(x, 0)
    (rows,) = ta.batched(root(y[0] * y[0] + 1.0) * y, {x: xs})
    assert rows.shape == (n, m)
    a = np.random.default_rng(0).standard_normal((6, 3))
    s = np.cumsum(a, 1)
    found = ta.evaluate(rows, {xs: a})
    np.testing.assert_allclose(found, np.sqrt(s[:, :1] ** 2 + 1) * s)


def mixed(x: Any, n: Any) -> Any:
    """Everything that may differ."""
    y = ta.cond(n > 2, lambda: ta.scan(x, 0), lambda: x * x)
    z = ta.switch(n, [lambda: doubled_until(y, n), lambda: root(y[0] * y[0] + 1.0) * x, lambda: y])
    return ta.for_loop(0, n, lambda i, c: ta.tanh(c) * (i + 1.0), z).sum()


def test_how_many_operations_there_are_does_not_depend_on_the_rows() -> None:
    x, n = given("x", (3,)), given("n", (), "int64")
    y = ta.function(mixed)(x, n)
    (slope,) = ta.vjp(y, x)
    counts = []
    for rows in (2, 300):
        given_rows = {x: given("xs", (rows, 3)), n: given("ns", (rows,), "int64")}
        made = ta.batched([y, slope], given_rows)
        verify(made)
        ops = topological_ops(made)
        counts.append(len(ops) + len(inner_ops(ops)))
    assert counts[0] == counts[1]


def test_a_function_is_mapped_once_for_each_pattern() -> None:
    @ta.function
    def product(a: Any, b: Any) -> Any:
        return (a * b).sum()

    x, w = given("x", (3,)), given("w", (3,))
    y = product(x, w) + product(x * 2.0, w) + product(x, x)
    (rows,) = ta.batched(y, {x: given("xs", (4, 3))})
    calls = [op for op in topological_ops([rows]) if isinstance(op, FunctionCall)]
    assert len(calls) == 3
    assert len({id(op.blocks[0]) for op in calls}) == 2


def visits(tensors: Sequence[Tensor], arrays: dict[Tensor, Array]) -> int:
    """How many points loops visit, as written."""
    loops = lower_program(list(tensors), list(arrays), schedule=False)
    return interpret_loops(loops, arrays)[1]


@pytest.mark.parametrize("known", [True, False], ids=["counts", "conditions"])
def test_a_loop_works_for_the_sum_of_the_numbers_of_iterations(known: bool) -> None:
    """So much for a row, an iteration of all, and an iteration of a row; never rows x most."""
    rows = 20
    x, n = given("x", ()), given("n", (), "int64")
    f = (lambda x, n: ta.for_loop(0, n, lambda i, c: c * 1.5, x)) if known else doubled_until
    xs, ns = given("xs", (rows,)), given("ns", (rows,), "int64")
    (made,) = ta.batched(f(x, n), {x: xs, n: ns})
    table, found = [], []
    rng = np.random.default_rng(1)
    samples = [
        np.full(rows, 1), np.r_[60, np.ones(rows - 1, int)], rng.integers(1, 61, rows),
        np.full(rows, 60), np.r_[60, 60, np.zeros(rows - 2, int)],
    ]  # fmt: skip
    for counts in samples:
        table.append([1, counts.max(), counts.sum()])
        found.append(visits([made], {xs: np.ones(rows), ns: counts}))
    fitted, *_ = np.linalg.lstsq(np.array(table[:3], float), np.array(found[:3], float), rcond=None)
    np.testing.assert_allclose(np.array(table) @ fitted, found)
    assert fitted[2] < 16


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False], ids=["counts", "conditions"])
def test_rows_of_rows_work_for_the_sum_of_the_numbers_of_iterations(known: bool) -> None:
    shape = (4, 5)
    x, n = given("x", ()), given("n", (), "int64")
    f = (lambda x, n: ta.for_loop(0, n, lambda i, c: c * 1.5, x)) if known else doubled_until
    xs, ns = given("xs", (5,)), given("ns", (5,), "int64")
    whole = {xs: given("xss", shape), ns: given("nss", shape, "int64")}
    (made,) = ta.batched(ta.batched(f(x, n), {x: xs, n: ns}), whole)
    rng = np.random.default_rng(1)
    table, found = [], []
    ends = [np.full(20, 1), np.r_[60, np.ones(19, int)], np.full(20, 60)]
    for counts in (*ends[:2], rng.integers(1, 61, 20), ends[2]):
        table.append([1, counts.max(), counts.sum()])
        arrays = {whole[xs]: np.ones(shape), whole[ns]: counts.reshape(shape)}
        found.append(visits([made], arrays))
    fitted, *_ = np.linalg.lstsq(np.array(table[:3], float), np.array(found[:3], float), rcond=None)
    np.testing.assert_allclose(np.array(table) @ fitted, found)
    assert fitted[1] < 5
    assert fitted[2] < 16


def squared_until(x: Any, n: Any) -> Any:
    return ta.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, ta.sin(c[1]) * c[1]), (0, x))[1]


@pytest.mark.slow
@pytest.mark.parametrize("inside", [True, False], ids=["of rows", "of the sum"])
@pytest.mark.parametrize("known", [True, False], ids=["counts", "conditions"])
def test_a_reverse_works_for_the_rows_that_go_on(known: bool, inside: bool) -> None:
    """What an iteration costs beside its rows does not depend on how many rows there are."""
    beside = []
    for rows in (10, 20):
        x, n = given("x", ()), given("n", (), "int64")
        y = squared_until(x, n)
        if known:
            y = ta.for_loop(0, n, lambda i, c: ta.sin(c) * c, x)
        xs, ns = given("xs", (rows,)), given("ns", (rows,), "int64")
        if inside:
            made = ta.batched(ta.vjp(y, x), {x: xs, n: ns})
        else:
            made = ta.vjp(ta.batched(y, {x: xs, n: ns}), xs, [np.ones(rows)])
        found = []
        for most in (20, 40):
            counts = np.r_[most, np.ones(rows - 1, int)]
            found.append(visits(made, {xs: np.ones(rows) / 2, ns: counts}))
        beside.append((found[1] - found[0]) / 20)
    assert beside[1] - beside[0] < 1
    assert beside[0] < 40


def test_an_arm_works_for_the_rows_that_take_it() -> None:
    rows = 20
    x, n = given("x", (6, 6)), given("n", (), "bool")
    xs, ns = given("xs", (rows, 6, 6)), given("ns", (rows,), "bool")
    y = ta.cond(n, lambda: x @ x @ x, lambda: x)
    (made,) = ta.batched(y, {x: xs, n: ns})
    found = []
    for taken in (0, 1, 5, 20):
        arrays = {xs: np.ones((rows, 6, 6)), ns: np.arange(rows) < taken}
        found.append(visits([made], arrays))
    steps = np.diff(found) / np.diff([0, 1, 5, 20])
    assert steps[0] == steps[1] == steps[2]
    assert steps[0] >= 2 * 6**3


def test_a_short_arm_is_a_choice_by_element() -> None:
    x, xs = given("x", ()), given("xs", (20,))
    y = ta.cond(x > 0, lambda: ta.log(x), lambda: x * x)
    (made,) = ta.batched(y, {x: xs})
    assert ta.work(made).iterations == 3 * 20
    a = np.linspace(-1, 1, 20)
    (slope,) = ta.vjp(made, xs, np.ones(20))
    np.testing.assert_allclose(ta.evaluate(slope, {xs: a}), np.where(a > 0, 1 / a, 2 * a))


@dataclass(frozen=True, eq=False)
class Strange(Control):
    """A kind of operation that nobody knows."""


def test_an_unknown_kind_of_operation_is_refused_where_it_is_mapped() -> None:
    def strange(operand: Tensor) -> Tensor:
        param = given("p", ())
        return outputs(Strange(("odd",), (operand,), (Block((param,), (param,)),), source="x:1"))[0]

    x, y = given("x", ()), given("y", ())
    shared, rows = strange(y), {x: given("xs", (3,))}
    assert ta.batched(shared + x, rows)[0].shape == (3,)
    inside = ta.for_loop(0, 3, lambda i, c: strange(c) * x, x)
    for tensor in (strange(x), inside):
        with pytest.raises(DefinitionError) as caught:
            ta.batched(tensor, rows)
        assert str(caught.value) == (
            "vmap cannot map odd, an operation of kind Strange.\n"
            "  in: odd : float64 () at x:1\n"
            "  hint: compute it for one example at a time, outside of vmap."
        )
