"""Each rule of well-formed IR: accepted programs, and one that breaks it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tensorad.errors import InternalError
from tensorad.ir.arrays.prefix import prefix_scan
from tensorad.ir.combiner import Combiner, arg_combiner, sum_combiner
from tensorad.ir.dtypes import BOOL, FLOAT32, FLOAT64, INT64
from tensorad.ir.expr import (
    ONE,
    TRUE,
    Call,
    Cast,
    Const,
    Expr,
    Read,
    Reduce,
    Select,
    axis,
    cast,
    const,
    int_const,
    local_size,
    param,
    reduce_expr,
    size_var,
)
from tensorad.ir.reference.verify import verify, verify_expr
from tensorad.ir.tensor import (
    Block,
    Branch,
    Compute,
    Constant,
    FunctionCall,
    Loop,
    Placeholder,
    Scatter,
    Tensor,
    Update,
    outputs,
    saved,
)
from tests.random.generators import random_program, random_symbolic_program

X = outputs(Placeholder("X", (4, 5), FLOAT32))[0]
i, j, k = axis("i", 0, 4), axis("j", 0, 5), axis("k", 0, 5)
SUM = sum_combiner(FLOAT32)


def total(source: Expr, *axes: Expr, condition: Expr = TRUE) -> Expr:
    return Reduce(source.dtype, sum_combiner(source.dtype), (source,), axes, condition, 0)


@pytest.mark.parametrize("seed", range(20))
def test_random_programs_are_well_formed(seed: int) -> None:
    verify(random_program(seed).outputs)
    verify(random_symbolic_program(seed).outputs)


def test_components_of_one_fold_share_axes() -> None:
    fold = arg_combiner("maximum", FLOAT32)
    best, where = (reduce_expr(fold, (X[i, k], k), (k,), index=n) for n in (0, 1))
    verify(outputs(Compute("Y", (i,), (best, where), "")))
    verify(outputs(Compute("Y", (i,), (best + cast(where, FLOAT32),), "")))


def test_dependent_bounds_are_in_scope() -> None:
    low, high = axis("low", i, 5), axis("high", 0, 0)
    high = axis("high", low, size_var("n"))
    verify(outputs(Compute("Y", (i,), (total(X[i, high], low, high),), "")))


FLOAT_ONE = const(1.0, FLOAT32)
SELF = axis("self", 0, 5)
LATER = axis("later", 0, SELF)


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (Call(FLOAT32, "add", (X[i, j], const(1.0, FLOAT64))), "add mixes dtypes"),
        (Call(FLOAT32, "add", (X[i, j],)), "add takes 2 operands"),
        (Call(FLOAT32, "frob", (X[i, j],)), "'frob' is no operation"),
        (Call(FLOAT32, "lt", (X[i, j], X[i, j])), "lt gives float32"),
        (Call(INT64, "exp", (i,)), "exp gives int64"),
        (Call(FLOAT32, "mod", (X[i, j], X[i, j])), "mod gives float32"),
        (Select(FLOAT32, i, X[i, j], X[i, j]), "a condition is not boolean"),
        (Select(FLOAT32, TRUE, X[i, j], i), "a select mixes dtypes"),
        (Cast(FLOAT32, X[i, j]), "a cast changes nothing"),
        (Read(FLOAT32, X, (i,)), "a read has another rank than its tensor"),
        (Read(FLOAT64, X, (i, j)), "a read has another dtype than its tensor"),
        (Read(FLOAT32, X, (i, FLOAT_ONE)), "an index is not int64"),
        (Const(FLOAT32, 1), "a constant of dtype float32 is 1"),
        (X[i, k], "k is used outside its scope"),
        (param("x", FLOAT32), "x is used outside its scope"),
        (total(X[i, j], j), "axis j is bound by two reductions, or by a reduction and its tensor"),
        (total(X[i, k], k) + total(X[i, k] * 2.0, k), "axis k is bound by two reductions"),
        (total(total(X[i, k], k), k), "axis k is bound by two reductions"),
        (total(X[i, k], k, k), "an axis is listed twice"),
        (total(X[i, LATER], LATER, SELF), "a bound of later uses an axis not yet bound"),
        (total(X[i, k], k, condition=i), "a condition is not boolean"),
        (Reduce(FLOAT32, SUM, (i,), (k,), TRUE, 0), "a source is int64, not float32"),
        (Reduce(FLOAT32, SUM, (X[i, k],), (k,), TRUE, 1), "a reduction has no component 1"),
        (Reduce(FLOAT32, SUM, (X[i, k], X[i, k]), (k,), TRUE, 0), "sources do not fit"),
        (total(X[i, 0], axis("z", 0, 5, 0)), "the step of z is not positive"),
    ],
)
def test_broken_expressions_are_named(body: Expr, rule: str) -> None:
    with pytest.raises(InternalError) as caught:
        verify(outputs(Compute("Y", (i, j), (body,), "")))
    assert str(caught.value).startswith(rule)
    assert "tensor Y : " in str(caught.value)
    with pytest.raises(InternalError, match=rule):
        verify_expr(body, (i, j))


def test_compute_axes_count_from_zero() -> None:
    for a in (axis("a", 1, 5), axis("a", 0, 5, 2)):
        with pytest.raises(InternalError, match="compute axis a is not 0, 1, 2"):
            verify(outputs(Compute("Y", (a,), (FLOAT_ONE,), "")))
    with pytest.raises(InternalError, match="an extent uses more than sizes"):
        verify(outputs(Compute("Y", (i, axis("a", 0, i)), (FLOAT_ONE,), "")))
    with pytest.raises(InternalError, match="an axis is listed twice"):
        verify(outputs(Compute("Y", (i, i), (FLOAT_ONE,), "")))


def test_combiners_fit_their_operands() -> None:
    x, y, other = (param(n, FLOAT32) for n in "xyz")
    broken = Combiner("odd", (x,), (y,), (x + other,), (const(0.0, FLOAT32),))
    with pytest.raises(InternalError, match="combiner odd uses z"):
        verify_expr(Reduce(FLOAT32, broken, (X[i, k],), (k,), TRUE, 0), (i,))
    mixed = Combiner("mixed", (x,), (y,), (x + y,), (const(0.0, FLOAT64),))
    with pytest.raises(InternalError, match="combiner mixed mixes dtypes"):
        verify_expr(Reduce(FLOAT64, mixed, (cast(X[i, k], FLOAT64),), (k,), TRUE, 0), (i,))


def test_scatters_and_scans() -> None:
    good = Scatter("S", (4,), FLOAT32, (i, j), (Update((i,), X[i, j]),), SUM)
    verify(outputs(good))
    for op, rule in [
        (Scatter("S", (4,), FLOAT32, (i, j), (Update((i, j), X[i, j]),), SUM), "another number"),
        (Scatter("S", (4,), FLOAT32, (i, j), (Update((i,), i),), SUM), "an update has another dt"),
        (Scatter("S", (4,), FLOAT32, (i, j), (Update((i,), X[i, j], i),), SUM), "not boolean"),
        (Scatter("S", (4,), FLOAT64, (i, j), (), SUM), "the combiner folds another dtype"),
        (Scatter("S", (4,), FLOAT32, (i, j), (), SUM, X), "init X has another shape or dtype"),
        (replace(prefix_scan("C", (X,), 1, SUM), indices=(i,)), "indices do not fit its shape"),
        (
            prefix_scan("C", (X, X), 0, SUM, False, False),
            "a scan's sources do not fit its combiner",
        ),
        (
            prefix_scan("C", (X,), 0, sum_combiner(FLOAT64), False, False),
            "a scan's sources do not fit its combiner",
        ),
        (Constant("T", np.zeros(3), FLOAT32), "the array's dtype is float64"),
        (Placeholder("P", (-1,), FLOAT32), "an extent is negative: -1"),
    ]:
        with pytest.raises(InternalError, match=rule):
            verify(outputs(op))


def test_deep_expressions_are_verified() -> None:
    e: Expr = X[i, 0]
    for _ in range(20_000):
        e = e + 1.0
    verify(outputs(Compute("Y", (i,), (e,), "")))
    assert ONE.dtype is INT64 and TRUE.dtype is BOOL and int_const(1) is ONE


def loop_of(body: Tensor, first: Tensor, *params: Tensor, **other: object) -> Tensor:
    """A loop of four iterations with one carry."""
    four = int_const(4)
    counter = local_size("t", four)
    given: dict[str, object] = {"counter": counter, "trips": four, "carries": 1, **other}
    op = Loop(("y",), (first, *params[1:]), (Block(params, (body,)),), **given)  # type: ignore[arg-type]  # of any kind
    return outputs(op)[0]


def test_loops_keep_the_types_of_carries() -> None:
    s, x = (outputs(Placeholder(name, (4,), FLOAT32))[0] for name in "sx")
    r = outputs(Placeholder("r", (), FLOAT32))[0]
    body = outputs(Compute("b", (i,), (s[i] + x[i],), ""))[0]
    verify([loop_of(body, x, s, x)])
    with pytest.raises(InternalError, match="r has another shape or dtype than s"):
        verify([loop_of(r, x, s)])
    with pytest.raises(InternalError, match="x is read in a block that is not given it"):
        verify([loop_of(body, x, s)])
    with pytest.raises(InternalError, match="a loop has no carry"):
        verify([loop_of(body, x, s, x, carries=0)])
    with pytest.raises(InternalError, match="X has not a part for each iteration"):
        wide = outputs(Placeholder("X", (5, 4), FLOAT32))[0]
        part = outputs(Placeholder("part", (4,), FLOAT32))[0]
        op = loop_of(body, x, s, part, x).op
        assert isinstance(op, Loop)
        verify(outputs(replace(op, operands=(x, wide, x), scanned=1)))


def test_counters_are_read_inside_of_their_loops() -> None:
    s = outputs(Placeholder("s", (), FLOAT32))[0]
    t = local_size("t", int_const(4))
    body = outputs(Compute("b", (), (s[()] + cast(t, FLOAT32),), ""))[0]
    verify([loop_of(body, s, s, counter=t)])
    with pytest.raises(InternalError, match="counter t is read outside of its loop"):
        verify([body])


def test_branches_are_chosen_by_one_number() -> None:
    x = outputs(Placeholder("x", (4,), FLOAT32))[0]
    with pytest.raises(InternalError, match="a branch is chosen by an array"):
        verify(outputs(Branch(("y",), (x, x), (Block((x,), (x,)),))))


def test_what_is_saved_is_read_where_it_runs() -> None:
    p, x = (outputs(Placeholder(name, (4,), FLOAT32))[0] for name in "px")
    inner = outputs(Compute("b", (i,), (p[i] + 1.0,), ""))[0]
    call = FunctionCall(("y",), (x,), (Block((p,), (inner,)),), function="f")
    (y,) = outputs(call)
    seen = saved(call, inner)
    verify([seen, y])
    outside = FunctionCall(("z",), (y,), (Block((y,), (seen,)),), function="g")
    with pytest.raises(InternalError, match="b is read where y does not run"):
        verify(outputs(outside))
