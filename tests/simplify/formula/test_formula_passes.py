"""Passes over formulas, one by one: what they ensure, and that values stay."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tensorad import te
from tensorad.ir.expr import Read, Reduce, Select
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Tensor, outputs
from tensorad.ir.visit import reads, topological_ops
from tensorad.simplify.formula.dataflow import (
    count_uses,
    is_pointwise,
    loops_around,
    nest,
    over_inputs,
    unfold,
)
from tensorad.simplify.formula.hoist import guard_outside, narrow_functions
from tensorad.simplify.formula.inline import inline_non_reductions, inline_reads
from tensorad.simplify.formula.joined import inner_reductions, joined
from tensorad.simplify.formula.tidy import Task, Tidy
from tensorad.simplify.formula.unused_axes import drop_unused_axes
from tests.support.loops.small_loops import arrays_for, op_of, with_bodies

X = te.placeholder((4, 5), "float64", name="X")
V = te.placeholder((5,), "float64", name="V")
Make = Callable[[], Tensor]


def check_equal(before: Sequence[Tensor], after: Sequence[Tensor]) -> None:
    arrays = arrays_for(X, V)
    given = interpret(list(before), arrays)
    for a, b in zip(given, interpret(list(after), arrays), strict=True):
        np.testing.assert_array_equal(a, b)


def test_uses_loops_and_points_of_reads() -> None:
    k = te.reduce_axis(5, name="k")
    d = te.compute((4, 5), lambda i, j: X[i, j] * 2.0, name="D")
    y = te.compute((4,), lambda i: te.sum(d[i, k] * V[k], axis=k) + X[i, 0], name="Y")
    uses = count_uses([op for op in topological_ops([y]) if op is d.op or op is y.op])
    assert uses == {X: 2, V: 1, d: 1}
    assert count_uses(topological_ops([te.scan(V, 0)]))[V] == 2  # a scan needs a tensor
    op = op_of(y)
    loops = loops_around(op.axes, op.bodies[0])
    once = {e.tensor.name: is_pointwise(e, loops) for e in loops if isinstance(e, Read)}
    assert once == {"D": True, "V": False, "X": True}


def test_formulas_are_put_in_and_renewed() -> None:
    k = te.reduce_axis(5, name="k")
    s = te.compute((4,), lambda i: te.sum(X[i, k], axis=k), name="S")
    op = op_of(s)
    one, two = (unfold((op.axes, op.bodies[0]), [op.axes[0]]) for _ in range(2))
    assert isinstance(one, Reduce)
    assert isinstance(two, Reduce)
    assert one.axes[0] is not two.axes[0]
    other = te.placeholder((4, 5), "float64", name="O")
    renewed = over_inputs(op, {X: other})
    assert [t.name for t in [r.tensor for r in reads(*op_of(outputs(renewed)[0]).bodies)]] == ["O"]
    assert over_inputs(op, {V: other}) is op
    assert over_inputs(op, {X: X}) is op, "the same tensor is no other"


def test_stages_read_once_are_written_into_their_reader() -> None:
    k = te.reduce_axis(5, name="k")
    s = te.compute((4,), lambda i: te.sum(X[i, k], axis=k), name="S")
    y = te.compute((4,), lambda i: s[i] * 2.0, name="Y")
    (made,) = nest([y], {s: None})
    assert s.op not in topological_ops([made])
    check_equal([y], [made])
    assert nest([y], {}) == [y]
    wide = te.compute((4, 5), lambda i, j: s[i] * V[j], name="W")
    (kept,) = nest([wide], {s: None})
    assert s.op in topological_ops([kept])  # it would be added up for each j


def test_computes_are_inlined_but_not_reductions() -> None:
    k = te.reduce_axis(5, name="k")
    d = te.compute((4, 5), lambda i, j: X[i, 4 - j] * 2.0, name="D")
    s = te.compute((4,), lambda i: te.sum(d[i, k], axis=k), name="S")
    y = te.compute((4, 5), lambda i, j: d[i, j] - s[i], name="Y")
    (made,) = [inline_non_reductions(y, [d, s])]
    assert [t.name for t in [e.tensor for e in reads(*op_of(made).bodies)]] == ["X", "S"]
    check_equal([y], [made])
    body = op_of(y).bodies[0]
    assert inline_reads(body, []) is body
    check_equal([y], with_bodies(op_of(y), (inline_reads(body, [d, s]),)))


def guarded(outer: bool) -> Tensor:
    k = te.reduce_axis(5, name="k")
    return te.compute(
        (4,),
        lambda i: te.sum(te.select((i if outer else k) > 1, X[i, k], 0.0), axis=k),
        name="Y",
    )


@pytest.mark.parametrize("outer", [True, False])
def test_a_guard_of_the_whole_sum_goes_outside(outer: bool) -> None:
    y = guarded(outer)
    body = op_of(y).bodies[0]
    made = guard_outside(body)
    assert isinstance(made, Select) == outer
    assert outer or made is body
    check_equal([y], with_bodies(op_of(y), (made,)))


def test_functions_of_fewer_axes_are_found() -> None:
    k = te.reduce_axis(5, name="k")
    narrow = op_of(te.compute((4,), lambda i: te.sum(te.exp(V[k]) * X[i, k], axis=k)))
    wide = op_of(te.compute((4,), lambda i: te.sum(te.exp(X[i, k]), axis=k)))
    (found,) = narrow_functions(narrow.axes, narrow.bodies)
    assert str(found) == "exp(V[k])"
    assert narrow_functions(wide.axes, wide.bodies) == {}


def test_axes_that_formulas_do_not_use_are_dropped() -> None:
    d = te.compute((4, 5), lambda i, j: V[j] * 2.0, name="D")
    y = te.compute((4, 5), lambda i, j: d[i, j] + X[i, j], name="Y")
    (made,) = drop_unused_axes([y])
    assert {t.op.shape for t in [r.tensor for r in reads(*op_of(made).bodies)]} == {(5,), (4, 5)}
    assert made.shape == y.shape
    check_equal([y], [made])
    used = te.compute((4, 5), lambda i, j: X[i, j] * 2.0, name="D")
    z = te.compute((4, 5), lambda i, j: used[i, j] + 1.0, name="Z")
    assert drop_unused_axes([z]) == [z]


def test_reductions_inside_of_formulas_are_computed_once() -> None:
    k = te.reduce_axis(5, name="k")
    y = te.compute((4,), lambda i: te.exp(te.sum(X[i, k], axis=k)), name="Y")
    bare = te.compute((4,), lambda i: te.sum(X[i, k], axis=k), name="S")
    inner = inner_reductions([y.op])
    assert set(inner.values()) == {y.op}
    assert inner_reductions([bare.op]) == {}
    made = joined([y], [y.op], inner, [])
    check_equal([y], made)


def test_a_pass_of_tidying_shortens_and_keeps_the_value() -> None:
    d = te.compute((4, 5), lambda i, j: X[i, j] * 1.0, name="D")
    k = te.reduce_axis(5, name="k")
    y = te.compute((4,), lambda i: te.sum(d[i, k] * V[k] + d[i, k] * V[k], axis=k), name="Y")
    own = dict.fromkeys([d.op, y.op])
    (made,) = Tidy(Task([y], own, [], hoist=False), {}).run().results
    assert d.op not in topological_ops([made])
    assert made is not y
    check_equal([y], [made])
