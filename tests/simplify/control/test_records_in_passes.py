"""Passes over programs with records and calls of definitions."""

from __future__ import annotations

import numpy as np

import tensorad as ta
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.lower import lower_program
from tensorad.ir.analysis.blocks import inner_ops, ops_between
from tensorad.ir.dtypes import FLOAT64, INT64
from tensorad.ir.expr import Expr, int_const, local_size
from tensorad.ir.records import (
    Definition,
    Field,
    Fields,
    Inject,
    Recursion,
    Tag,
    fields_of,
    inject,
    recursion,
    tag_of,
)
from tensorad.ir.reference.records import handle
from tensorad.ir.reference.verify import verify
from tensorad.ir.tensor import Block, Branch, Loop, Op, Saved, Tensor, outputs, saved
from tensorad.simplify.control.passes import simplified
from tests.support.programs.build import loop
from tests.support.programs.recursive import branch, given, number, power, total
from tests.support.records import List, list_of


def operations(results: list[Tensor], kind: type[Op]) -> int:
    ops = ops_between(results, {})
    return sum([isinstance(op, kind) for op in {*ops, *inner_ops(ops)}])


def test_equal_records_are_one_and_others_are_not() -> None:
    x, xs = given(("x", (), FLOAT64), ("xs", (), List))
    empty = [inject(List, 0, ()), inject(List, 0, ())]
    made = [inject(List, 1, (x, xs)), inject(List, 1, (x, xs)), inject(List, 1, (x * 2.0, xs))]
    found = simplified([*empty, *made], [x, xs])
    assert found[0] is found[1] and found[2] is found[3]
    assert len({found[0], found[2], found[4]}) == 3


def test_equal_calls_are_one() -> None:
    x, n = given(("x", (), FLOAT64), ("n", (), INT64))
    one, two = power(), power()
    found = simplified([*recursion(one, (x, n)), *recursion(one, (x, n)), *recursion(two, (x, n))],
                       [x, n])  # fmt: skip
    assert found[0] is found[1] and found[2] is not found[0]


def test_operands_of_calls_and_records_stay() -> None:
    x, n, unused = given(("x", (), FLOAT64), ("n", (), INT64), ("u", (), FLOAT64))
    made = Definition("f", (x, n, unused), [Field("y", (), FLOAT64)])
    made.complete([x * 2.0])
    (y,) = recursion(made, (x + 1.0, n, unused * 3.0))
    (found,) = simplified([y], [x, n, unused])
    verify([found])
    assert isinstance(found.op, Recursion) and len(found.op.operands) == 3


def test_what_a_record_is_made_of_is_known() -> None:
    x, xs = given(("x", (), FLOAT64), ("xs", (), List))
    made = inject(List, 1, (x, xs))
    head, _ = fields_of(made, 1)
    arms = [number(0.0), head * 2.0]
    (y,) = simplified([branch(tag_of(made), arms, (made, x))], [x, xs])
    assert not operations([y], Inject) and not operations([y], Tag) and not operations([y], Branch)
    assert ta.interpret(y, {x: 4.0, xs: list_of([])}) == 8.0
    (wrong,) = simplified(
        [fields_of(made, 1)[0], fields_of(inject(List, 0, ()), 1)[0]][:1], [x, xs]
    )
    assert wrong is x


def test_fields_stay_in_their_arm() -> None:
    xs, n = given(("xs", (), List), ("n", (), INT64))
    c, ys = given(("c", (), FLOAT64), ("ys", (), List))
    head, _ = fields_of(ys, 1)
    after = c + branch(tag_of(ys), [number(1.0), head], (ys,))
    trips = local_size("n")
    loop = Loop(
        ("sum",), (number(0.0), xs), (Block((c, ys), (after,)),),
        counter=local_size("t", trips), trips=trips, carries=1, count=n,
    )  # fmt: skip
    (found,) = simplified([outputs(loop)[0]], [xs, n])
    verify([found])
    outside = ops_between([found], {})
    assert not any(isinstance(op, Fields) for op in outside) and operations([found], Fields) == 1
    assert [float(ta.interpret(found, {xs: list_of(v), n: 3})) for v in ([], [0.5])] == [3.0, 1.5]


def test_calls_leave_a_loop_only_if_it_surely_runs() -> None:
    xs, n, w = given(("xs", (), List), ("n", (), INT64), ("w", (), FLOAT64))
    c, ys, v = given(("c", (), FLOAT64), ("ys", (), List), ("v", (), FLOAT64))
    body = Block((c, ys, v), (c + recursion(total(), (ys, v))[0],))

    def outside(trips: object, count: Tensor | None) -> bool:
        loop = Loop(
            ("sum",), (number(0.0), xs, w), (body,), counter=local_size("t", trips),  # type: ignore[arg-type]
            trips=trips, carries=1, count=count,  # type: ignore[arg-type]
        )  # fmt: skip
        (found,) = simplified([outputs(loop)[0]], [xs, n, w])
        return any(isinstance(op, Recursion) for op in ops_between([found], {}))

    assert not outside(local_size("n"), n)
    assert outside(int_const(4), None)


def test_a_record_that_each_iteration_makes_alike_has_rows() -> None:
    """The rows of what is made before the loop instead, which another loop goes through."""
    x, xs = given(("x", (), FLOAT64), ("xs", (), List))
    made: list[Tensor] = []

    def first(t: Expr, c: Tensor) -> list[Tensor]:
        made.append(inject(List, 1, (x, xs)))
        return [c + branch(tag_of(made[0]), [number(1.0), number(2.0)], ())]

    one = loop(first, [number(0.0)], fixed=[x, xs], trips=3)
    rows = saved(one, made[0])
    two = loop(lambda t, c, row: [c * 2.0 + fields_of(row, 1)[0]], [*outputs(one)], [rows], trips=3)
    values = {x: 5.0, xs: list_of([1.0])}
    before, after = [*outputs(two), rows], simplified([*outputs(two), rows], [x, xs])
    verify(after)
    assert not isinstance(after[1].op, Saved)
    for results in (before, after):
        total, lists = ta.interpret(results, values)
        assert total == 6.0 * 8 + 5.0 * 7 and [r.tag for r in lists] == [1, 1, 1]
    found = ta.build(after[:1], [x, xs])(5.0, list_of([1.0]))
    assert found == 6.0 * 8 + 5.0 * 7
    arrays = {x: np.array(5.0), xs: handle(list_of([1.0]))}
    looped = interpret_loops(lower_program(after[:1], [x, xs], schedule=False), arrays)[0]
    assert looped[0] == found
