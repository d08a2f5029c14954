"""Index algebra of the schedules against values at every point of small domains."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tensorad import te
from tensorad.building import evaluate as evaluate_tensor
from tensorad.codegen.loops.index_ranges import Ranges, comparison, fold_by_ranges, linear_form
from tensorad.codegen.nest.access import access, in_bounds, strides
from tensorad.ir.dtypes import FLOAT32, INT64
from tensorad.ir.expr import FALSE, TRUE, Axis, Call, Expr, axis, call, int_const, param, size_var
from tensorad.ir.tensor import Placeholder, outputs
from tests.support.oracles import evaluate, points


def random_index(rng: random.Random, axes: list[Axis], depth: int) -> Expr:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([*axes, int_const(rng.randint(-3, 6))])
    left = random_index(rng, axes, depth - 1)
    match rng.choice(("add", "sub", "mul", "floordiv", "mod", "minimum", "maximum")):
        case "mul":
            return left * rng.randint(-3, 4)
        case "floordiv":
            return left // rng.choice((1, 2, 3, 4, 6))
        case "mod":
            return left % rng.choice((1, 2, 3, 4, 6))
        case op:
            return call(op, left, random_index(rng, axes, depth - 1))


def small_axes() -> list[Axis]:
    i = axis("i", 1, 5)
    j = axis("j", 0, 4)
    return [i, j, axis("k", call("maximum", int_const(0), i - 2), call("minimum", j + 2, i + 1))]


@pytest.mark.parametrize("seed", range(150))
def test_folding_by_ranges_keeps_every_value(seed: int) -> None:
    rng = random.Random(seed)
    axes = small_axes()
    e = random_index(rng, axes, 4)
    if seed % 2:
        e = call(rng.choice(("lt", "ge", "eq", "ne")), e, random_index(rng, axes, 2))
    ranges = Ranges(axes)
    folded = fold_by_ranges(e, ranges, {})
    low, high = ranges.of(e) if not seed % 2 else (0, 1)
    for point in points(axes):
        value = evaluate(e, point)
        assert evaluate(folded, point) == value
        assert low <= value <= high


@pytest.mark.parametrize("seed", range(60))
def test_linear_forms_and_comparisons_keep_their_meaning(seed: int) -> None:
    rng = random.Random(seed)
    axes = small_axes()
    a, b = random_index(rng, axes, 3), random_index(rng, axes, 3)
    condition = call(rng.choice(("lt", "le", "gt", "ge", "eq", "ne")), a, b)
    form, found = linear_form(a).to_expr(), comparison(condition)
    for point in points(axes):
        assert evaluate(form, point) == evaluate(a, point)
        if found is not None:
            d = evaluate(found[1].to_expr(), point)
            holds = {"ge": d >= 0, "eq": d == 0, "ne": d != 0}[found[0]]
            assert holds == evaluate(condition, point)


def test_quotients_of_split_axes_disappear() -> None:
    outer, inner = axis("o", 0, 10), axis("r", 0, 4)
    position = outer * 4 + inner

    def fold(e: Expr) -> Expr:
        return fold_by_ranges(e, Ranges([outer, inner]), {})

    assert fold(position // 4) is outer
    assert fold(position % 4) is inner
    assert fold(position // 8) is outer // 2
    assert fold((position + 2) // 4) is (position + 2) // 4
    assert fold(position < 40) is TRUE
    assert fold(position >= 41) is FALSE


def test_strides_of_accesses() -> None:
    assert strides((3, 4, 5)) == [20, 5, 1]
    (x,) = outputs(Placeholder("X", (3, 8), FLOAT32))
    i, j = axis("i", 0, 3), axis("j", 0, 4)
    affine = access(x, (i, j * 2 + 1))
    assert (affine.stride(i), affine.stride(j)) == (8, 2)
    assert access(x, (i, i + j)).stride(i) == 9
    assert access(x, (i, (i + j) // 2)).stride(j) is None
    assert affine.stride(axis("k", 0, 2)) == 0


def test_reads_are_in_bounds_only_where_that_is_proved() -> None:
    n = size_var("n")
    i, j = axis("i", 0, n), axis("j", 1, n - 1)
    ranges = Ranges([i, j])
    assert in_bounds(i, n, ranges)
    assert in_bounds(j + 1, n, ranges)
    assert in_bounds(j - 1, n, ranges)
    assert not in_bounds(i + 1, n, ranges)
    assert not in_bounds(i - 1, n, ranges)
    assert isinstance(i % 3, Call) and in_bounds(i % 3, int_const(3), ranges)


def test_data_of_a_known_range_is_compared_unless_it_may_wrap_around() -> None:
    p, most = param("p", INT64), int_const(2**63 - 3)
    ranges = Ranges(known={p: (0, 5)})
    for e, folded in (
        (p < 0, FALSE),
        ((p + 3) // 9, int_const(0)),
        (call("maximum", p, int_const(-1)), p),
    ):
        assert fold_by_ranges(e, ranges, {}) is folded
    for e in (call("gt", p + most, p), (p + most) // 4, call("maximum", p + most, int_const(0))):
        assert fold_by_ranges(e, ranges, {}) is e


@pytest.mark.parametrize("op", ["maximum", "minimum"])
def test_an_extremum_of_data_that_wrap_is_not_settled(op: str) -> None:
    """4 * q is above -1 for every q from 0 on, but not modulo 2**64."""
    data = te.placeholder((3,), "int64", name="I")

    def element(i: Expr) -> Expr:
        return call(op, int_const(-1), te.minimum(te.maximum(data[i], 0), 2**62) * 4)

    y = te.compute((3,), element, name="Y")
    found = evaluate_tensor(y, {data: np.array([1, 2**61, 2**61 + 5])}).tolist()
    wrapped = [4, -(2**63), 20 - 2**63]
    assert found == [(max if op == "maximum" else min)(-1, n) for n in wrapped]
