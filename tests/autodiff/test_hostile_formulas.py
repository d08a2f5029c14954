"""Formulas made to exhaust isl: every one ends soon, in a plan that is right."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tensorad import config, te, topi
from tensorad.autodiff import jvp, vjp
from tensorad.ir.expr import Axis, Expr, call, int_const, logical_and, logical_or
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Scatter, Tensor
from tensorad.simplify.domain import listed_points
from tensorad.simplify.zeros.eliminate import eliminate
from tests.support.oracles import box, check_solution

Problem = tuple[list[Axis], list[Axis], Expr]


def _deep(depth: int) -> Problem:
    (x,), v = box(x=30), box(i=5, j=6)
    e = v[0] + v[1]
    for n in range(depth):
        e = (e * 3 + v[n % 2]) // 2 % 97
    return [x], v, x == e


def _quotients_and_remainders(depth: int) -> Problem:
    (x,), v = box(x=60), box(i=12, j=3)
    e: Expr = v[0]
    for _ in range(depth):
        e = e // 2 + e % 3 * 2 + v[1]
    return [x], v, x == e


def _alternatives(count: int) -> Problem:
    (x,), v = box(x=9), box(i=9, k=9)
    i, k = v
    parts = [
        i * (n % 5 + 1) + k * (n % 3) >= 7 * n if n % 2 else (i + n * k) % (n + 2) == 1
        for n in range(1, count)
    ]
    return [x], v, logical_and(x == k, logical_or(*parts))


def _holes(count: int) -> Problem:
    (x,), v = box(x=9), box(i=9, k=9)
    holes = [v[0] != v[1] * n % 8 + n % 7 for n in range(count)]
    return [x], v, logical_and(x == v[1], *holes)


def _strides(count: int) -> Problem:
    (x,), v = box(x=50), box(**dict.fromkeys("abcdefg"[:count], 2))
    total: Expr = int_const(0)
    for stride, a in zip((6, 10, 15, 7, 11, 13, 17), v, strict=False):
        total = total + stride * a
    return [x], v, x == total


def _clamps(count: int) -> Problem:
    (x,), v = box(x=20), box(i=12, k=5)
    e: Expr = v[0]
    for n in range(count):
        upper = call("minimum", e * 2 - v[1] * n, int_const(40 - n))
        e = call("maximum", upper, int_const(n - 20))
    return [x], v, x == e % 20


def _remainders(count: int) -> Problem:
    (x,), v = box(x=30), box(i=6, j=5, k=2)
    total: Expr = int_const(0)
    for n in range(2, 2 + count):
        total = total + (v[0] * n + v[1] * (n + 1) + v[2]) % (2 * n + 1)
    return [x], v, x == total % 30


CASES: dict[str, tuple[Callable[[int], Problem], int]] = {
    "division in division": (_deep, 4),
    "many divisions": (_deep, 12),
    "quotients and remainders": (_quotients_and_remainders, 3),
    "deeper quotients": (_quotients_and_remainders, 8),
    "alternatives": (_alternatives, 8),
    "dozens of alternatives": (_alternatives, 40),
    "holes": (_holes, 5),
    "dozens of holes": (_holes, 30),
    "five strides": (_strides, 5),
    "clamps": (_clamps, 3),
    "a dozen clamps": (_clamps, 12),
    "remainders": (_remainders, 3),
    "many remainders": (_remainders, 8),
}


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", CASES)
def test_the_plan_is_right(name: str) -> None:
    make, size = CASES[name]
    outer, inner, condition = make(size)
    with config.override(isl_operations=60_000):
        solution = eliminate(outer, inner, condition)
    visited, wanted = check_solution(outer, inner, condition, solution)
    assert solution.exact
    assert visited <= wanted


@pytest.mark.parametrize("name", ["many divisions", "five strides", "dozens of holes"])
def test_without_a_list_of_points_the_domain_stays(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listed_points, "MAX_ROWS", 10)
    make, size = CASES[name]
    outer, inner, condition = make(size)
    with config.override(isl_operations=3_000):
        solution = eliminate(outer, inner, condition)
    check_solution(outer, inner, condition, solution)
    assert not solution.exact
    assert solution.reason


def test_what_cannot_be_inverted_scatters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listed_points, "MAX_ROWS", 10)
    x = te.placeholder((97,), name="X")

    def index(i: Expr, j: Expr) -> Expr:
        e = i + j
        for n in range(12):
            e = (e * 3 + (i if n % 2 else j)) // 2 % 97
        return e

    y = te.compute((20, 20), lambda i, j: x[index(i, j)], name="Y")
    (dx,) = vjp(y, [x], te.placeholder((20, 20), name="H"))
    assert isinstance(dx.op, Scatter)


def _programs() -> dict[str, Callable[[Tensor], Tensor]]:
    k = te.reduce_axis(3)
    return {
        "concatenate": lambda x: topi.concatenate([x, x * x], 0),
        "convolution": lambda x: te.compute(
            (3, 4), lambda i, j: te.sum(te.sin(x[i + 1, 2 * j + k - 1]), axis=k,
                                        where=te.all_of(2 * j + k >= 1, 2 * j + k < 8))
        ),
        "reshape": lambda x: topi.reshape(x, (4, 7)),
        "pad": lambda x: topi.pad(x, (1, 2)) * 2.0,
        "reflect": lambda x: te.compute((4, 9), lambda i, j: x[i, te.select(j < 7, j, 12 - j)]),
        "triangle": lambda x: te.compute(
            (4, 4), lambda i, j: te.sum(x[i, k] * x[j, k], axis=k, where=k <= te.minimum(i, j))
        ),
        "tile": lambda x: te.compute((8, 14), lambda i, j: te.exp(x[i % 4, j % 7])),
        "max pool": lambda x: te.compute((4, 5), lambda i, j: te.max(x[i, j + k], axis=k)),
        "diagonals": lambda x: te.compute((4,), lambda i: x[i, i] * x[3 - i, i + 3]),
        "softmax": lambda x: topi.nn.softmax(x),
    }  # fmt: skip


PROGRAMS = _programs()


@pytest.mark.sampled(5)
@pytest.mark.parametrize("operations", [30, 300, 1000])
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_on_a_small_budget_are_right(name: str, operations: int) -> None:
    x = te.placeholder((4, 7), dtype="float64", name="X")
    y = PROGRAMS[name](x)
    h = te.placeholder(y.shape, dtype="float64", name="H")
    rng = np.random.default_rng(3)
    shape = [int(str(n)) for n in y.shape]
    values = {x: rng.standard_normal((4, 7)), h: rng.standard_normal(shape)}
    expected = interpret(vjp(y, [x], h)[0], values)
    with config.override(isl_operations=operations):
        (dx,) = vjp(y, [x], h)
        tangent = jvp(y, {x: te.placeholder((4, 7), dtype="float64", name="D")})
        assert tangent.shape == y.shape
    np.testing.assert_allclose(interpret(dx, values), expected, rtol=1e-12, atol=1e-14)
