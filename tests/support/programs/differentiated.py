"""Programs with loops whose numbers of iterations are given, each with a scalar result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

import tensorad as ta
from tensorad.ir.tensor import Tensor

Written = tuple[Tensor, list[Tensor]]
"""A 0-d tensor, and what it is differentiated by."""
PROGRAMS: Final[dict[str, Callable[[int], Written]]] = {}
M: Final = 3
"""The extent of what does not depend on the number of iterations."""


def program(f: Callable[[int], Written]) -> Callable[[int], Written]:
    PROGRAMS[f.__name__] = f
    return f


def given(name: str, *shape: int) -> Tensor:
    return ta.placeholder(shape, "float64", name=name)


def zeros(*shape: int) -> Tensor:
    return ta.compute(shape, lambda *at: ta.const(0.0, "float64"), name="zeros")


def squares(*tensors: Tensor) -> Tensor:
    """The sum of the squares of all elements."""
    return sum((t * t).sum() for t in tensors[1:]) + (tensors[0] * tensors[0]).sum()


# -- one carry --------------------------------------------------------------------------------


@program
def running_sum(n: int) -> Written:
    x = given("x", n, M)
    return squares(ta.scan(lambda s, row: (s + row, None), zeros(M), x)[0]), [x]


@program
def running_sum_from_a_start(n: int) -> Written:
    x, start = given("x", n, M), given("start", M)
    return squares(ta.scan(lambda s, row: (s + row, None), start, x)[0]), [x, start]


@program
def decayed_sum(n: int) -> Written:
    x, a = given("x", n), given("a")
    return squares(ta.for_loop(0, n, lambda t, s: s * a + x[t], 0.0)), [x, a]


@program
def decayed_rows(n: int) -> Written:
    x, a = given("x", n, M), given("a", M)
    return squares(ta.for_loop(0, n, lambda t, s: s * a + x[t], zeros(M))), [x, a]


@program
def powers(n: int) -> Written:
    x = given("x", M)
    return squares(ta.for_loop(0, n, lambda t, p: p * x, np.ones(M))), [x]


@program
def squared_again(n: int) -> Written:
    x = given("x", M)
    return squares(ta.for_loop(0, n, lambda t, p: p * p, x)), [x]


@program
def sines(n: int) -> Written:
    x = given("x", M)
    return squares(ta.for_loop(0, n, lambda t, p: ta.topi.sin(p), x)), [x]


@program
def logistic_map(n: int) -> Written:
    r, x = given("r"), given("x", M)
    return squares(ta.for_loop(0, n, lambda t, p: r * p * (1.0 - p), x)), [r, x]


@program
def euler_steps(n: int) -> Written:
    w, y = given("w", M, M), given("y", M)
    return squares(ta.for_loop(0, n, lambda t, y: y + 0.1 * ta.topi.tanh(w @ y), y)), [w, y]


@program
def matrix_powers(n: int) -> Written:
    w, y = given("w", M, M), given("y", M)
    return squares(ta.for_loop(0, n, lambda t, y: w @ y, y)), [w, y]


@program
def recurrent_cell(n: int) -> Written:
    x, w, h = given("x", n, M), given("w", M, M), given("h", M)

    def cell(h: Tensor, row: Tensor) -> tuple[Tensor, None]:
        return ta.topi.tanh(w @ h + row), None

    return squares(ta.scan(cell, h, x)[0]), [x, w, h]


@program
def recurrent_cell_from_zero(n: int) -> Written:
    x, w = given("x", n, M), given("w", M, M)

    def cell(h: Tensor, row: Tensor) -> tuple[Tensor, None]:
        return ta.topi.tanh(w @ h + row), None

    return squares(ta.scan(cell, zeros(M), x)[0]), [x, w]


@program
def recurrent_cell_backwards(n: int) -> Written:
    x, w, h = given("x", n, M), given("w", M, M), given("h", M)

    def cell(h: Tensor, row: Tensor) -> tuple[Tensor, None]:
        return ta.topi.tanh(w @ h + row), None

    return squares(ta.scan(cell, h, x, reverse=True)[0]), [x, w, h]


@program
def residual_layers(n: int) -> Written:
    w, y = given("w", n, M, M), given("y", M)
    return squares(ta.scan(lambda y, v: (y + ta.topi.tanh(v @ y), None), y, w)[0]), [w, y]


@program
def layers_with_biases(n: int) -> Written:
    w, b, y = given("w", n, M, M), given("b", n, M), given("y", M)

    def layer(y: Tensor, own: tuple[Tensor, Tensor]) -> tuple[Tensor, None]:
        return ta.topi.nn.relu(own[0] @ y + own[1]), None

    return squares(ta.scan(layer, y, (w, b))[0]), [w, b, y]


# -- rows that are collected ------------------------------------------------------------------


@program
def every_hidden_row(n: int) -> Written:
    x, w, h = given("x", n, M), given("w", M, M), given("h", M)

    def cell(h: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        new = ta.topi.tanh(w @ h + row)
        return new, new

    return squares(ta.scan(cell, h, x)[1]), [x, w, h]


@program
def mapped_rows(n: int) -> Written:
    x = given("x", n, M)
    return squares(ta.scan(lambda c, row: (c, ta.topi.sin(row)), None, x)[1]), [x]


@program
def rows_and_last(n: int) -> Written:
    x, a = given("x", n, M), given("a", M)
    last, rows = ta.scan(lambda s, row: (s * a + row, s * row), zeros(M), x)
    return squares(last, rows), [x, a]


@program
def rows_before_the_step(n: int) -> Written:
    x, start = given("x", n, M), given("start", M)
    _, rows = ta.scan(lambda s, row: (ta.topi.sin(s) + row, s), start, x)
    return squares(rows), [x, start]


# -- several carries --------------------------------------------------------------------------


@program
def two_carries(n: int) -> Written:
    x, v = given("x", M), given("v", M)

    def step(t: ta.Expr, c: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return c[0] + 0.1 * c[1], c[1] - 0.1 * ta.topi.sin(c[0])

    return squares(*ta.for_loop(0, n, step, (x, v))), [x, v]


@program
def two_carries_exchanged(n: int) -> Written:
    x, y = given("x", M), given("y", M)
    return squares(*ta.for_loop(0, n, lambda t, c: (c[1], c[0] * c[1]), (x, y))), [x, y]


@program
def fibonacci(n: int) -> Written:
    x, y = given("x", M), given("y", M)
    return squares(*ta.for_loop(0, n, lambda t, c: (c[1], c[0] + c[1]), (x, y))), [x, y]


@program
def long_short_term_memory(n: int) -> Written:
    x, w, u = given("x", n, M), given("w", 4 * M, M), given("u", 4 * M, M)

    def cell(state: tuple[Tensor, Tensor], row: Tensor) -> tuple[tuple[Tensor, Tensor], None]:
        h, c = state
        z = w @ row + u @ h
        i, f, o = [ta.topi.sigmoid(z[k * M : (k + 1) * M]) for k in range(3)]
        c = f * c + i * ta.topi.tanh(z[3 * M :])
        return (o * ta.topi.tanh(c), c), None

    return squares(ta.scan(cell, (zeros(M), zeros(M)), x)[0][0]), [x, w, u]


@program
def momentum(n: int) -> Written:
    x, a = given("x", M), given("a", M)

    def step(t: ta.Expr, c: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        v = 0.9 * c[1] - a * c[0]
        return c[0] + v, v

    return squares(ta.for_loop(0, n, step, (x, zeros(M)))[0]), [x, a]


@program
def a_carry_that_only_counts(n: int) -> Written:
    x = given("x", M)
    made = ta.for_loop(0, n, lambda t, c: (c[0] * x, c[1] + 1), (np.ones(M), 0))
    return squares(made[0]), [x]


# -- forms in forms ---------------------------------------------------------------------------


@program
def loops_in_loops(n: int) -> Written:
    x, a = given("x", n, 2), given("a")

    def row(i: ta.Expr, s: Tensor) -> Tensor:
        return ta.for_loop(0, 2, lambda j, u: ta.topi.sin(u * a) + x[i, j], s)

    return squares(ta.for_loop(0, n, row, zeros())), [x, a]


@program
def triangular_loops(n: int) -> Written:
    x, a = given("x", n), given("a")

    def row(i: ta.Expr, s: Tensor) -> Tensor:
        return ta.for_loop(0, i + 1, lambda j, u: u * a + x[j], s)

    return squares(ta.for_loop(0, n, row, zeros())), [x, a]


@program
def an_inner_loop_of_its_own(n: int) -> Written:
    x, a = given("x", M), given("a")

    def outer(i: ta.Expr, s: Tensor) -> Tensor:
        return s * a + ta.for_loop(0, 3, lambda j, u: ta.topi.sin(u), s)

    return squares(ta.for_loop(0, n, outer, x)), [x, a]


@program
def branches_on_data(n: int) -> Written:
    x, a = given("x", n, M), given("a", M)

    def step(s: Tensor, row: Tensor) -> tuple[Tensor, None]:
        return ta.cond(s.sum() > 0.3, lambda: s * a + row, lambda: s + row * row), None

    return squares(ta.scan(step, zeros(M), x)[0]), [x, a]


@program
def branches_of_three(n: int) -> Written:
    x, which = given("x", M), ta.placeholder((n,), "int64", name="which")

    def step(s: Tensor, k: Tensor) -> tuple[Tensor, None]:
        ways = [lambda: s * x, lambda: ta.topi.sin(s), lambda: s + x]
        return ta.switch(k, ways), None

    return squares(ta.scan(step, np.ones(M), which)[0]), [x]


@program
def newton_by_while(n: int) -> Written:
    a = given("a")

    def step(c: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return (c[0] + a / c[0]) * 0.5, c[1] + 1

    return squares(ta.while_loop(lambda c: c[1] < n, step, (1.0, 0))[0]), [a]


@program
def a_while_over_a_vector(n: int) -> Written:
    x, a = given("x", M), given("a", M)

    def step(c: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return ta.topi.sin(c[0]) * a, c[1] + 1

    return squares(ta.while_loop(lambda c: c[1] < n, step, (x, 0))[0]), [x, a]


@program
def a_count_from_data(n: int) -> Written:
    x, a, times = given("x", M), given("a", M), ta.placeholder((), "int64", name="times")
    return squares(ta.for_loop(0, times, lambda t, s: s * a + x, zeros(M))), [x, a]


# -- parts of carries -------------------------------------------------------------------------


@program
def rows_set_one_by_one(n: int) -> Written:
    x, a = given("x", n, M), given("a", M)

    def step(t: ta.Expr, c: Tensor) -> Tensor:
        return c.at[t].set(ta.topi.sin(x[t]) * a)

    return squares(ta.for_loop(0, n, step, zeros(n, M))), [x, a]


@program
def rows_from_rows_before(n: int) -> Written:
    x, start = given("x", n, M), given("start", n + 1, M)

    def step(t: ta.Expr, c: Tensor) -> Tensor:
        return c.at[t + 1].set(ta.topi.sin(c[t]) + x[t])

    return squares(ta.for_loop(0, n, step, start)), [x, start]


@program
def rows_added_to(n: int) -> Written:
    x, start = given("x", n, M), given("start", n, M)
    return squares(ta.for_loop(0, n, lambda t, c: c.at[t].add(x[t] * x[t]), start)), [x, start]


@program
def gathered_rows(n: int) -> Written:
    x, a, at = given("x", 4, M), given("a", M), ta.placeholder((n,), "int64", name="at")
    return squares(ta.scan(lambda s, k: (s * a + x[k], None), zeros(M), at)[0]), [x, a]


@program
def scattered_elements(n: int) -> Written:
    x, at = given("x", n), ta.placeholder((n,), "int64", name="at")

    def step(c: Tensor, part: tuple[Tensor, Tensor]) -> tuple[Tensor, None]:
        k, v = part
        return c.at[k].add(ta.topi.sin(v)), None

    return squares(ta.scan(step, zeros(4), (at, x))[0]), [x]


# -- folds ------------------------------------------------------------------------------------


@program
def forward_algorithm(n: int) -> Written:
    e, w = given("e", n, M), given("w", M, M)

    def step(alpha: Tensor, row: Tensor) -> tuple[Tensor, None]:
        j, k = ta.reduce_axis(M, name="j"), M
        return ta.compute((k,), lambda i: ta.logsumexp(alpha[j] + w[j, i], axis=j) + row[i]), None

    return squares(ta.scan(step, zeros(M), e)[0]), [e, w]


@program
def a_combiner_of_its_own(n: int) -> Written:
    x, a = given("x", n, M), given("a", M)
    both = ta.comm_reducer(lambda p, q: p + q + p * q, lambda dtype: ta.const(0, dtype))

    def step(s: Tensor, row: Tensor) -> tuple[Tensor, None]:
        j = ta.reduce_axis(M, name="j")
        total = ta.compute((), lambda: both(s[j] * 0.3 + row[j], axis=j))
        return s * a + total, None

    return squares(ta.scan(step, zeros(M), x)[0]), [x, a]


@program
def largest_of_each_step(n: int) -> Written:
    x, a = given("x", n, M), given("a", M)

    def step(s: Tensor, row: Tensor) -> tuple[Tensor, None]:
        return s * a + (s * row).max(), None

    return squares(ta.scan(step, np.ones(M), x)[0]), [x, a]


@program
def softmax_again(n: int) -> Written:
    x, w = given("x", M), given("w", M, M)
    return squares(ta.for_loop(0, n, lambda t, p: ta.topi.nn.softmax(w @ p), x)), [x, w]
