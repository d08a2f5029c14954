"""Programs of records and definitions as nodes, and as machine code beside the interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad import config
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.ir import Activate, Inside, Make
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.lower import lower_program
from tensorad.counting import work
from tensorad.errors import BoundsError
from tensorad.ir.dtypes import FLOAT64, INT64
from tensorad.ir.expr import local_size, size_var
from tensorad.ir.records import Definition, Field, fields_of, inject, recursion, tag_of
from tensorad.ir.tensor import Block, Branch, Loop, Tensor, outputs, saved
from tests.random.records.compare import assert_same
from tests.support.programs.loops import newton
from tests.support.programs.recursive import (
    Tree,
    balanced,
    branch,
    counted_down,
    doubled,
    even_and_odd,
    fibonacci,
    given,
    number,
    power,
    total,
)
from tests.support.records import List, list_of

N = size_var("n")
ROW = ((N,), FLOAT64)


def check(wanted: Sequence[Tensor], values: Mapping[Tensor, Any]) -> list[Any]:
    """What the compiled program gives is what both interpreters say."""
    found = ta.build(list(wanted), list(values))(*values.values())
    have = found if len(wanted) > 1 else [found]
    for a, b in zip(have, ta.interpret(list(wanted), values), strict=True):
        assert_same(a, b)
    if not any(t.dtype is d for t in (*values, *wanted) for d in (List, Tree)):
        program = lower_program(list(wanted), list(values))
        verify_loops(program)
        arrays = {t: np.asarray(v) for t, v in values.items()}
        for a, b in zip(have, interpret_loops(program, arrays)[0], strict=True):
            assert_same(a, b)
    return have


def branch_of(index: Tensor, blocks: tuple[Block, ...], operands: tuple[Tensor, ...]) -> Branch:
    """Several results of one of the blocks."""
    names = tuple([t.name for t in blocks[0].results])
    return Branch(names, (index, *operands), blocks)


def test_the_text_of_a_recursive_program() -> None:
    xs, w = given(("xs", (), List), ("w", (), FLOAT64))
    longer = inject(List, 1, (w, xs))
    program = ta.lower(recursion(total(), (longer, w)), [xs, w])
    assert str(program) == (
        "cons = Cons(w, xs)\n"
        "sum = total(cons, w)\n"
        "define total(xs_1, w_1) -> chosen:\n"
        "  xs.tag lies in xs_1.tag\n"
        "  arm 0 of xs.tag:\n"
        "    number lies in chosen\n"
        "    # number : float64 []\n"
        "    number[] = 0.0\n"
        "  arm 1 of xs.tag:\n"
        "    add lies in chosen\n"
        "    head lies in xs_1.head\n"
        "    tail lies in xs_1.tail\n"
        "    # mul : float64 []\n"
        "    mul[] = head[]*w_1[]\n"
        "    sum_1 = total(tail, w_1)\n"
        "    # add : float64 []\n"
        "    add[] = mul[] + sum_1[]\n"
    )


def test_a_definition_is_lowered_once() -> None:
    n, m = given(("n", (), INT64), ("m", (), INT64))
    fib = fibonacci()
    program = lower_program([*recursion(fib, (n,)), *recursion(fib, (m,))], [n, m])
    assert [r.definition for r in program.routines] == [fib]
    kinds = [type(k) for k in program.all_nodes]
    assert kinds.count(Activate) == 4 and Make not in kinds and Inside not in kinds


@pytest.mark.parametrize("n", [0, 1, 9])
def test_numbers(n: int) -> None:
    x, k = given(("x", (), FLOAT64), ("k", (), INT64))
    check([*recursion(power(), (x, k)), *recursion(fibonacci(), (k,))], {x: 1.5, k: n})


def test_definitions_that_call_each_other() -> None:
    (n,) = given(("n", (), INT64))
    even, odd = even_and_odd()
    for k in (0, 1, 6, 7):
        found = check([*recursion(even, (n,)), *recursion(odd, (n,))], {n: k})
        assert [bool(a) for a in found] == [k % 2 == 0, k % 2 == 1]


def test_lists_and_trees() -> None:
    xs, w, t, n = given(("xs", (), List), ("w", (), FLOAT64), ("t", (), Tree), ("n", (), INT64))
    wanted = [
        *recursion(total(), (xs, w)),
        *recursion(doubled(), (t,)),
        *recursion(counted_down(), (n, w)),
    ]
    check(wanted, {xs: list_of([1.0, 2.0, 4.0]), w: 0.5, t: balanced(3), n: 4})


def test_rows_of_a_symbolic_size_and_loops_inside() -> None:
    """y = sum of tanh(x)**k over 3 turns, then the same of y with less."""
    x, k = given(("x", *ROW), ("k", (), INT64))
    made = Definition("rolled", (x, k), [Field("y", *ROW), Field("norm", (), FLOAT64)])
    c, p = given(("c", *ROW), ("p", *ROW))
    trips = local_size("n")
    loop = Loop(
        ("r",), (x, x), (Block((c, p), (ta.tanh(c) + p * 0.5,)),),
        counter=local_size("t", trips), trips=trips, carries=1, count=k,
    )  # fmt: skip
    (y, norm) = recursion(made, (outputs(loop)[0], k - 1))
    i = ta.reduce_axis((0, N), name="i")
    square = ta.compute((), lambda: ta.sum(x[i] * x[i], axis=i), name="square")
    blocks = Block((x, k), (x * 2.0, square)), Block((x, k), (y + x, norm + square))
    made.complete(outputs(branch_of(k > 0, blocks, (x, k))))
    check(recursion(made, (x, k)), {x: np.linspace(-1, 1, 7), k: 3})


def test_rows_that_grow_inside_of_a_definition() -> None:
    """Newton's steps are stored until the condition holds; each activation has rows of its own."""
    a, k = given(("a", (), FLOAT64), ("k", (), INT64))
    made = Definition("roots", (a, k), [Field("y", (), FLOAT64)])
    root, op = newton(a)
    rows = saved(op, op.blocks[0].results[0])
    c, row = given(("c", (), FLOAT64), ("row", (), FLOAT64))
    back = Loop(
        ("back",), (number(0.0), rows), (Block((c, row), (c * 0.5 + row,)),),
        counter=local_size("u", op.trips), trips=op.trips, carries=1, scanned=1, reverse=True,
    )  # fmt: skip
    (rest,) = recursion(made, (root + 1.0, k - 1))
    made.complete([branch(k > 0, [a * 1.0, outputs(back)[0] + rest + root], (a, k))])
    check(recursion(made, (a, k)), {a: 7.0, k: 5})


def test_calls_inside_of_loops_carry_records() -> None:
    n, w = given(("n", (), INT64), ("w", (), FLOAT64))
    xs, s, v = given(("xs", (), List), ("s", (), FLOAT64), ("v", (), FLOAT64))
    (sum_of_all,) = recursion(total(), (xs, v))
    trips = local_size("n")
    loop = Loop(
        ("list", "sum"), (inject(List, 0, ()), w, w),
        (Block((xs, s, v), (inject(List, 1, (s, xs)), s * 0.5 + sum_of_all)),),
        counter=local_size("t", trips), trips=trips, carries=2, count=n,
    )  # fmt: skip
    last, sums = outputs(loop)
    rows = saved(loop, loop.blocks[0].params[0])
    c, row = given(("c", (), INT64), ("row", (), List))
    tags = Loop(
        ("tags",), (number(0, "int64"), rows), (Block((c, row), (c * 2 + tag_of(row),)),),
        counter=local_size("u", loop.trips), trips=loop.trips, carries=1, scanned=1,
    )  # fmt: skip
    found = check([last, sums, outputs(tags)[0]], {n: 6, w: 0.25})
    assert int(found[2]) == 31, "the first list is empty, the five others are not"


def test_calls_of_which_nobody_reads_the_results_go() -> None:
    x, n = given(("x", (), FLOAT64), ("n", (), INT64))
    s, k = given(("s", (), FLOAT64), ("k", (), INT64))
    trips = local_size("n")
    loop = Loop(
        ("first", "next"), (x, x, n), (Block((s, x, k), (s * 2.0, recursion(power(), (s, k))[0])),),
        counter=local_size("t", trips), trips=trips, carries=2, count=n,
    )  # fmt: skip
    program = lower_program([outputs(loop)[0]], [x, n])
    assert not any(isinstance(n, Activate) for n in program.all_nodes), "nobody reads the other one"
    check([outputs(loop)[0]], {x: 1.25, n: 3})


def test_indices_inside_of_definitions_are_checked() -> None:
    x, k = given(("x", (5,), FLOAT64), ("k", (), INT64))
    made = Definition("walk", (x, k), [Field("y", (), FLOAT64)])
    (rest,) = recursion(made, (x, k - 2))
    here = ta.compute((), lambda: x[k()], name="here")
    made.complete([branch(k > 0, [here, here + rest], (x, k))])
    f = ta.build(recursion(made, (x, k))[0], [x, k])
    values = np.arange(5.0)
    assert f(values, 4) == 6.0
    for wrong in (3, 8):
        with pytest.raises(BoundsError) as caught:
            f(values, wrong)
        index = -1 if wrong == 3 else 8
        assert f"x is read at index {index} of axis 0, which has extent 5" in str(caught.value)
    assert f(values, 4) == 6.0


def test_arms_of_many_variants_have_a_table() -> None:
    n, x = given(("n", (), INT64), ("x", (), FLOAT64))
    arms = [x * float(k) for k in range(7)]
    y = branch(n, arms, (x,))
    f = ta.build(y, [n, x])
    assert [float(f(k, 2.0)) for k in (-3, 0, 1, 5, 6, 9)] == [0.0, 0.0, 2.0, 10.0, 12.0, 12.0]


def test_work_of_definitions_is_told_by_how_often_they_are_called() -> None:
    (n,) = given(("n", (), INT64))
    (y,) = recursion(fibonacci(), (n,))
    assert str(work(y).iterations) == "5*fib_calls"
    assert work(y, {"fib_calls": 177}).elements == 885
    even, _ = even_and_odd()
    both = [*recursion(even, (n,)), *recursion(even_and_odd()[0], (n,))]
    names = "even_calls", "odd_calls", "even_calls_1", "odd_calls_1"
    assert [n for n in names if n not in str(work(both).elements)] == [], work(both)
    x, k = given(("x", *ROW), ("k", (), INT64))
    made = Definition("f", (x, k), [Field("y", *ROW)])
    made.complete([branch(k > 0, [x * 2.0, recursion(made, (x * 3.0, k - 1))[0]], (x, k))])
    found = work(recursion(made, (x, k)), {"f_calls": 10, "n": 100})
    assert found.multiplications == 1000


def test_loops_and_debug_flags_see_records() -> None:
    xs, w = given(("xs", (), List), ("w", (), FLOAT64))
    head, tail = fields_of(inject(List, 1, (w, xs)), 1)
    with config.override(debug=("verify", "check")):
        f = ta.build([head + 1.0, *recursion(total(), (tail, w))], [xs, w])
    assert [float(a) for a in f(list_of([2.0]), 3.0)] == [4.0, 6.0]


def test_rows_of_a_loop_are_passed_to_a_definition() -> None:
    """Only the run tells how many rows there are; each call has as many as the loop had."""
    n, x = given(("n", (), INT64), ("x", (), FLOAT64))
    c, v = given(("c", (), FLOAT64), ("v", (), FLOAT64))
    trips = local_size("n")
    loop = Loop(
        ("last",), (x, x), (Block((c, v), (c * 0.5 + v,)),),
        counter=local_size("t", trips), trips=trips, carries=1, count=n,
    )  # fmt: skip
    rows = saved(loop, loop.blocks[0].results[0])
    p, k = given(("p", rows.shape, FLOAT64), ("k", (), INT64))
    own = [Field("y", rows.shape, FLOAT64), Field("s", (), FLOAT64)]
    made = Definition("halved", (p, k), own, sizes=(trips,))
    y, s = recursion(made, (p * 0.5, k - 1), sizes=(trips,))
    i = ta.reduce_axis((0, trips), name="i")
    total_of = ta.compute((), lambda: ta.sum(p[i], axis=i), name="total")
    blocks = Block((p, k), (p + 1.0, total_of)), Block((p, k), (y + p, s + total_of))
    made.complete(outputs(branch_of(k > 0, blocks, (p, k))))
    z, total_sum = recursion(made, (rows, n), sizes=(trips,))
    back = ta.compute((), lambda: ta.sum(z[i], axis=i), name="back")
    for turns in (0, 1, 5, 2):
        check([total_sum, back + outputs(loop)[0]], {n: turns, x: 0.75})


def test_small_definitions() -> None:
    (x,) = given(("x", (), FLOAT64))
    two = Definition("two", (), [Field("y", (), FLOAT64)]).complete([number(2.0)])
    same = Definition("same", (x,), [Field("y", (), FLOAT64)] * 2).complete([x, x])
    table = ta.const(np.arange(3.0))
    fixed = Definition("fixed", (), [Field("y", (3,), FLOAT64)]).complete([table])
    wanted = [*recursion(two, ()), *recursion(same, (x,)), *recursion(fixed, ())]
    found = check(wanted, {x: 5.0})
    assert [float(a) for a in found[:3]] == [2.0, 5.0, 5.0] and found[3].tolist() == [0, 1, 2]
