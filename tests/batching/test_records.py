"""vmap of recursion and of values of data types: each row by itself, in one loop over the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.batching.together import components
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.lower import lower_program
from tensorad.errors import DefinitionError, DTypeError
from tensorad.ir.analysis.blocks import inner_ops
from tensorad.ir.records import Recursion
from tensorad.ir.tensor import Loop, Tensor
from tensorad.ir.visit import op_inputs, topological_ops
from tests.random.records.mapped import Mapped
from tests.support.programs.higher.data import List


@ta.function
def pushed(x: Any, n: Any) -> Any:
    return ta.for_loop(0, n, lambda i, rest: List.Cons(x * (i + 1.0), rest), List.Nil())


@ta.function
def squares(values: Any) -> Any:
    return ta.match(
        values, {List.Nil: lambda: 0.0, List.Cons: lambda head, tail: head * head + squares(tail)}
    )


def of_list(x: Any, n: Any) -> Any:
    return squares(pushed(x, n))


def walked(x: Any, n: Any) -> Any:
    """A loop by a condition that carries a list."""

    def step(c: Any) -> Any:
        total, rest = c
        return ta.match(
            rest,
            {List.Nil: lambda: c, List.Cons: lambda head, tail: (total * 0.5 + head, tail)},
        )

    def goes_on(c: Any) -> Any:
        return ta.match(c[1], {List.Nil: lambda: False, List.Cons: lambda head, tail: True})

    return ta.while_loop(goes_on, step, (0.0, pushed(x, n)))[0] * x


def chosen(x: Any, n: Any) -> Any:
    """Functions that data choose, and one that is composed as often as data say."""
    f = ta.switch(n, [lambda: lambda y: y * x, lambda: ta.sin, lambda: lambda y: y * y + x])
    g = ta.for_loop(0, n, lambda i, g: lambda y: g(y) * x + 1.0, ta.fn(lambda y: y))
    return f(x) + g(x)


def in_iterations(x: Any, n: Any) -> Any:
    """Recursion inside of a loop and a branch of which rows go different ways."""

    def step(c: Any) -> Any:
        k, y = c
        return k + 1, ta.cond(y > 0.6, lambda: y + 0.01 * of_list(y, k), lambda: ta.sin(y))

    return ta.while_loop(lambda c: c[0] < n, step, (0, x))[1]


FUNCTIONS = [of_list, walked, chosen, in_iterations]
X, N = np.linspace(0.5, 1.2, 6).reshape(2, 3), np.array([[0, 3, 1], [2, 0, 4]])


def each(f: Callable[..., Any]) -> Any:
    return np.array([[f(x, n) for x, n in zip(*rows, strict=True)] for rows in zip(X, N)])


@pytest.mark.slow
@pytest.mark.parametrize("f", FUNCTIONS)
def test_every_row_has_its_own_depth_and_its_own_bits(f: Any) -> None:
    rows = ta.vmap(f)
    slopes = each(ta.grad(f))
    assert (rows(X[0], N[0]) == each(ta.function(f))[0]).all()
    assert (ta.vmap(ta.grad(f))(X[0], N[0]) == slopes[0]).all()
    every = ta.vmap(rows)
    assert (every(X, N) == each(ta.function(f))).all()
    of_sum = ta.grad(lambda x: every(x, N).sum())
    np.testing.assert_allclose(of_sum(X), slopes, 1e-13)
    inside = ta.vmap(ta.grad(lambda x, n: rows(x, n).sum()))
    np.testing.assert_allclose(inside(X, N), slopes, 1e-13)
    along = ta.jvp(lambda x: every(x, N), (X,), (np.ones_like(X),))[1]
    np.testing.assert_allclose(along, slopes, 1e-12)


def test_lists_go_in_and_out_as_arrays_of_values() -> None:
    made = ta.vmap(pushed)(X[0], N[0])
    assert [repr(v) for v in made[[0, 2]]] == ["Nil()", f"Cons(head={X[0, 2]}, tail=Nil())"]
    assert (ta.vmap(squares)(made) == [squares(v) for v in made]).all()
    with pytest.raises(DTypeError) as caught:
        ta.vmap(squares)(np.array([List.Nil(), 1.0], object))
    assert str(caught.value) == (
        "values has dtype object, which tensors cannot have.\n"
        "  hint: convert it to bool, an integer, float32 or float64; a string or a function is "
        "passed as it is."
    )


@pytest.mark.slow
def test_derivatives_go_through_arrays_of_values_and_through_their_axes() -> None:
    def total(x: Any) -> Any:
        lists = ta.vmap(ta.vmap(pushed), out_axes=1)(x, N)  # (3, 2)
        return (ta.vmap(ta.vmap(squares), in_axes=1)(lists) * 2.0 + shared(lists)).sum()

    def shared(lists: Any) -> Any:
        return ta.vmap(ta.vmap(squares), in_axes=1, out_axes=0)(lists)

    slopes = 3 * each(ta.grad(of_list))
    np.testing.assert_allclose(ta.grad(total)(X), slopes)
    ones = np.ones_like(X)
    np.testing.assert_allclose(ta.jvp(total, (X,), (ones,))[1], slopes.sum())

    def captured(x: Any) -> Any:
        lists = np.array(
            [List.Cons(x[0], List.Nil()), List.Cons(x[1], List.Cons(x[2], List.Nil()))]
        )
        return ta.vmap(squares)(lists).sum()

    np.testing.assert_allclose(ta.grad(captured)(X[0]), 2 * X[0])


def in_an_arm(x: Any, n: Any) -> Any:
    """A list of as many numbers as a loop outside of the arm had iterations."""
    _, ys = ta.scan(lambda c, _: (c * x, c), x, length=n)

    def listed() -> Any:
        return squares(ta.scan(lambda rest, y: (List.Cons(y, rest), y), List.Nil(), ys)[0])

    return ta.cond(x > 0.6, listed, lambda: x)


def test_a_size_from_outside_of_the_loop_over_rows_is_refused() -> None:
    with pytest.raises(DefinitionError) as caught:
        ta.vmap(in_an_arm)(X[0], N[0])
    message = str(caught.value)
    assert message.startswith("vmap cannot map rest: it is computed with values of data types or")
    assert "and has an extent, trips, that differs from example to example." in message
    assert "hint: compute it in the same branch or loop as what has the extent." in message


def test_recursion_on_arrays_alone() -> None:
    @ta.function
    def halved(x: Any, n: Any) -> Any:
        return ta.cond(n > 0, lambda: halved(x * 0.5, n - 1), lambda: x)

    np.testing.assert_array_equal(ta.vmap(halved)(X[0], N[0]), X[0] * 0.5 ** N[0])


def given(name: str, shape: tuple[int, ...], dtype: str = "float64") -> Tensor:
    made: Tensor = ta.placeholder(shape, dtype, name=name)
    return made


def test_work_is_the_sum_of_the_depths() -> None:
    x, n = given("x", ()), given("n", (), "int64")
    rows = 12
    xs, ns = given("xs", (rows,)), given("ns", (rows,), "int64")
    (made,) = ta.batched(of_list(x, n), {x: xs, n: ns})
    program = lower_program([made], [xs, ns], schedule=False)
    table, found = [], []
    for counts in ([1] * 12, [30] + [1] * 11, [5, 0] * 6, [30] * 12):
        table.append([1, sum(counts)])
        arrays = {xs: np.ones(rows), ns: np.array(counts)}
        found.append(interpret_loops(program, arrays)[1])
    fitted, *_ = np.linalg.lstsq(np.array(table, float), np.array(found, float), rcond=None)
    np.testing.assert_allclose(np.array(table) @ fitted, found)
    assert fitted[1] < 20


@pytest.mark.slow
def test_what_lies_beside_recursion_has_an_axis() -> None:
    """One loop over rows for each recursion; the products of matrices are outside of them."""
    x, w, n = given("x", (4,)), given("w", (4, 4)), given("n", (), "int64")
    y = of_list((w @ x).sum(), n)
    z = of_list((w @ (x * y)).sum(), n + 1)
    xs, ns = given("xs", (7, 4)), given("ns", (7,), "int64")
    (made,) = ta.batched(z, {x: xs, n: ns})
    ops = topological_ops([made])
    loops = [op for op in ops if isinstance(op, Loop)]
    assert len(loops) == 2
    assert not any(isinstance(op, Recursion) for op in ops)
    assert not any(t is w for op in inner_ops(loops) for t in op_inputs(op))
    assert not any(w in op.operands for op in loops)
    values = {xs: np.ones((7, 4)) / 9, w: np.eye(4), ns: np.arange(7)}
    one = [ta.interpret(z, {x: np.ones(4) / 9, w: np.eye(4), n: np.array(k)}) for k in range(7)]
    np.testing.assert_allclose(ta.evaluate(made, values), one)


def test_components_come_in_the_order_of_their_inputs() -> None:
    a, b, c, d = [given(n, ()).op for n in "abcd"]
    found = components({a: [b], b: [c, d], c: [b], d: []})
    assert [sorted(op.name for op in group) for group in found] == [["d"], ["b", "c"], ["a"]]


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "seeds"), [((3,), range(10)), ((2, 3), [*range(12, 16), 1003])])
def test_random_programs_of_records(shape: tuple[int, ...], seeds: Iterable[int]) -> None:
    depends = 0
    for seed in seeds:
        mapped = Mapped(seed, shape)
        mapped.check(mapped.program.outputs, native=seed % 3 == 0)
        depends += mapped.check_derivatives()
    assert depends
