"""Gradients of loops take no more points than those of the programs written out without loops."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import pytest

import tensorad as ta
from tensorad.bound import bound
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.lower import lower_program
from tensorad.ir.analysis.blocks import ops_between
from tensorad.ir.analysis.sizes import size_value
from tensorad.ir.expr import Expr
from tensorad.ir.reference.unroll import iteration_sizes
from tensorad.ir.tensor import Compute, Loop, Tensor
from tensorad.ir.visit import op_inputs, placeholders
from tests.support.programs.differentiated import PROGRAMS

COUNTS = (1, 2, 3, 4, 5)
SHORT = ("loops_in_loops", "triangular_loops")
"""Inner loops add to their own sums, which outer loops add up."""


def _beside(tensors: Sequence[Tensor], sizes: dict[Expr, int], given: Sequence[Tensor] = ()) -> int:
    """Points of what the programs without loops have not: sums begun with zeros, and conditions."""
    total = 0
    for op in ops_between(tensors, dict.fromkeys(given)):
        if not isinstance(op, Loop):
            continue
        trips = size_value(op.trips, sizes)
        for x in op.operands[: op.carries]:
            if isinstance(x.op, Compute) and not op_inputs(x.op):
                total += prod(map(int, x.shape))
        for test in op.blocks[1:]:
            total += (trips + 1) * len(ops_between(test.results, dict.fromkeys(test.params)))
        body = op.blocks[0]
        for t in range(trips):
            total += _beside(body.results, {**sizes, op.counter: t}, body.params)
    return total


def _gradient(name: str, n: int) -> tuple[Tensor, list[Tensor], list[Tensor], dict[Expr, int]]:
    """(y, by what, gradient, the numbers of iterations that only a run tells)"""
    y, wrt = PROGRAMS[name](n)
    found = ta.vjp(y, wrt)
    own = dict.fromkeys(iteration_sizes([y, *found]), n)
    return y, wrt, found, own


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", [n for n in PROGRAMS if n not in SHORT])
def test_no_more_points_than_without_loops(name: str) -> None:
    for n in COUNTS:
        y, wrt, found, own = _gradient(name, n)
        names = {str(s): n for s in iteration_sizes([y, *found]).values()}
        limit = bound(y, wrt, {str(s): n for s in iteration_sizes([y]).values()})
        points = ta.work(found, names).iterations
        assert int(points) <= limit + _beside(found, dict(own)), (n, points, limit)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_counted_is_what_runs(name: str) -> None:
    n = 3
    rng = np.random.default_rng(1)
    _, _, found, _ = _gradient(name, n)
    given = placeholders(found)
    values = {
        p: rng.integers(0, 2, p.shape) if p.dtype.is_integer else rng.uniform(0.2, 0.9, p.shape)
        for p in given
    }
    values.update({p: np.array(n) for p in given if p.name == "times"})
    made, visits = interpret_loops(lower_program(found, given, schedule=False), values)
    for value, reference in zip(made, ta.interpret(found, values), strict=True):
        np.testing.assert_allclose(value, reference, rtol=1e-10, atol=1e-12)
    names = {str(s): n for s in iteration_sizes(found).values()}
    counted = int(ta.work(found, names).iterations)
    upper = "branch" in name or "triangular" in name  # most expensive blocks, counts unknown
    assert visits <= counted if upper else visits == counted


def test_forty_programs() -> None:
    assert len(PROGRAMS) - len(SHORT) >= 40
