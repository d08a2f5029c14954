"""Which params of definitions have one value in all calls."""

from __future__ import annotations

from tensorad.ir.analysis.passed_on import passed_on
from tensorad.ir.dtypes import FLOAT64, INT64
from tensorad.ir.expr import int_const, local_size
from tensorad.ir.records import Definition, Field, recursion
from tensorad.ir.tensor import Block, FunctionCall, Loop, Tensor, outputs, saved
from tests.support.programs.recursive import branch, given, number, power

OF = (("x", (), FLOAT64), ("n", (), INT64))


def called(inner: Definition, x: Tensor, n: Tensor) -> Tensor:
    return recursion(inner, (x, n))[0]


def test_params_that_calls_change_are_not_handed_on() -> None:
    assert passed_on(power()) == (0,)
    x, n = given(*OF)
    made = Definition("f", (x, n), [Field("y", (), FLOAT64)])
    made.complete([branch(n > 0, [x, called(made, x, n - 1) + called(made, x * 2.0, n)], (x, n))])
    assert passed_on(made) == ()
    alone = Definition("g", (x, n), [Field("y", (), FLOAT64)]).complete([called(power(), x, n)])
    assert passed_on(alone) == (0, 1), "it is called once"


def test_definitions_that_call_each_other() -> None:
    def pair(back: float) -> tuple[Definition, Definition]:
        (x, n), (a, k) = given(*OF), given(*OF)
        f, g = [
            Definition(s, p, [Field("y", (), FLOAT64)]) for s, p in (("f", (x, n)), ("g", (a, k)))
        ]
        g.complete([called(f, a * back if back != 1.0 else a, k)])
        f.complete([branch(n > 0, [x, called(g, x, n - 1)], (x, n))])
        return f, g

    assert [passed_on(d) for d in pair(1.0)] == [(0,), (0,)]
    assert [passed_on(d) for d in pair(2.0)] == [(), ()]


def test_calls_in_blocks_and_behind_what_is_saved() -> None:
    x, n = given(*OF)
    made = Definition("f", (x, n), [Field("y", (), FLOAT64)])
    a, k = given(*OF)
    inner = called(made, a * 1.0, k)
    op = FunctionCall(("z",), (x, n), (Block((a, k), (number(1.0),)),), function="g")
    assert isinstance(op, FunctionCall)
    made.complete([saved(op, inner)])
    assert passed_on(made) == (1,), "only what is saved of the block calls"


def test_the_carries_of_a_loop_change() -> None:
    x, n = given(*OF)
    made = Definition("f", (x, n), [Field("y", (), FLOAT64)])
    u, v = given(("u", (), FLOAT64), ("v", (), FLOAT64))
    i, m = local_size("i"), given(("m", (), INT64))[0]
    body = Block((u, v, m), (called(made, v, m) + called(made, u, m),))
    (y,) = outputs(Loop(("u",), (x, x, n), (body,), counter=i, trips=int_const(3), carries=1))
    made.complete([branch(n > 0, [x, y], (x, n))])
    assert passed_on(made) == (1,)


def test_nothing_is_known_of_what_is_being_written() -> None:
    x, n = given(*OF)
    made = Definition("f", (x, n), [Field("y", (), FLOAT64)])
    assert not made.is_complete and passed_on(made) == ()
    outer = Definition("g", (x, n), [Field("y", (), FLOAT64)]).complete([called(made, x, n)])
    assert outer.is_complete and passed_on(outer) == ()
    later = Definition("df", (x, n), [Field("y", (), FLOAT64)]).later(
        lambda: made.block.results, made
    )
    assert not later.is_complete and passed_on(later) == (), "it is made of one that is not"
    made.complete([x])
    assert later.is_complete and passed_on(later) == (0, 1)
