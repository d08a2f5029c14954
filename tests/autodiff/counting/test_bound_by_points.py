"""The yardstick of gradients beside one that goes through every point of the forward program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest

from benchmarks.suites import work_table
from tensorad import te
from tensorad.autodiff import vjp
from tensorad.bound import bound
from tensorad.counting import work
from tensorad.ir.expr import call
from tensorad.ir.tensor import Tensor
from tests.random import generator_combiners
from tests.random.generators import random_program, random_symbolic_program
from tests.support.program_checks import like
from tests.support.yardstick.brute import brute_bound
from tests.support.yardstick.calculus import PLAIN

ROWS: Final = [
    (case, second)
    for case in work_table.CASES
    for second in ((False, True) if case.second else (False,))
]
BINARY: Final = (
    "add", "sub", "mul", "div", "minimum", "maximum", "pow", "atan2", "fmod",
)  # fmt: skip
NOT_FLOATS: Final = (
    "floordiv", "mod", "lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not", "isnan", "isfinite",
)  # fmt: skip
UNARY: Final = tuple([name for name in PLAIN if name not in (*BINARY, *NOT_FLOATS)])


def check(y: Tensor, wrt: Sequence[Tensor], sizes: Mapping[str, int] | None = None) -> None:
    found = brute_bound(y, wrt, sizes)
    assert bound(y, wrt, sizes) == found.total, found


def check_rows(rows: Sequence[Any]) -> None:
    for case, second in rows:
        p = work_table.made(case, second)
        check(p.y, p.wrt, p.sizes)


def check_programs(first: int, count: int) -> int:
    """All float results of random programs: how many."""
    checked = 0
    for seed in range(first, first + count):
        program = random_program(seed)
        floats = [y for y in program.outputs if y.dtype.is_float and program.float_inputs]
        for y in floats:
            check(y, program.float_inputs)
        checked += len(floats)
    return checked


def check_symbolic(first: int, count: int) -> None:
    for seed in range(first, first + count):
        program = random_symbolic_program(seed)
        y = program.outputs[-1]
        if y.dtype.is_float and program.float_inputs:
            for sizes in ({"n": 0, "m": 3}, {"n": 4, "m": 5}):
                check(y, program.float_inputs, sizes)


def check_gradients(first: int, count: int) -> int:
    """Gradients, as programs to be differentiated: how many."""
    checked = 0
    for seed in range(first, first + count):
        program = random_program(seed, computes=3)
        y, wrt = program.outputs[-1], program.float_inputs
        if y.dtype.is_float and wrt:
            h = like(y, "H")
            check(vjp(y, wrt, h)[0], [*wrt, h])
            checked += 1
    return checked


def test_rows_of_the_work_table() -> None:
    check_rows(ROWS[::8])


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1, 8))
def test_all_rows_of_the_work_table(start: int) -> None:
    check_rows(ROWS[start::8])


def test_random_programs() -> None:
    assert check_programs(0, 20) >= 30
    check_symbolic(0, 5)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(20, 120, 20))
def test_more_random_programs(first: int) -> None:
    assert check_programs(first, 20) >= 30
    check_symbolic(first, 20)


def test_gradients_of_random_programs() -> None:
    assert check_gradients(0, 4) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("first", range(4, 84, 20))
def test_more_gradients_of_random_programs(first: int) -> None:
    assert check_gradients(first, 20) >= 8


def computed(count: int, extent: int = 6) -> tuple[list[Tensor], list[Tensor]]:
    """Inputs and as many tensors computed from one each."""
    xs = [te.placeholder((4,), "float64", name=f"x{n}") for n in range(count)]
    made = [
        te.compute((extent + n,), lambda i, x=x: te.exp(x[i % 4]), name=f"t{n}")
        for n, x in enumerate(xs)
    ]
    return xs, made


@pytest.mark.parametrize("op", [*UNARY, *BINARY])
def test_operations_mention_what_their_slopes_change_with(op: str) -> None:
    """And gradients visit no more."""
    count = 1 + (op in BINARY)
    xs, ts = computed(count)
    y = te.compute((7,), lambda i: call(op, *[t[i % 6] for t in ts]), name="y")
    for wrt in ([xs[0]], [xs[-1]], xs):
        check(y, wrt)
        assert int(str(work(vjp(y, wrt, like(y, "H"))).iterations)) <= bound(y, wrt)


@pytest.mark.parametrize("fold", generator_combiners.CUSTOM, ids=lambda f: str(f.name))
def test_folds_flow_add_and_select_as_their_values_say(fold: generator_combiners.Fold) -> None:
    xs, ts = computed(len(fold.magnitudes(1.0, 1)))
    k = te.reduce_axis(6, name="k")
    sources = tuple([t[k] for t in ts])
    made = te.compute(
        (), lambda: fold.reducer(sources if len(sources) > 1 else sources[0], axis=k), name="y"
    )
    for y in made if isinstance(made, tuple) else (made,):
        for x in xs if y.dtype.is_float else ():
            check(y, [x])


def test_terms_counted_by_hand() -> None:
    x = te.placeholder((6, 8), "float64", name="x")
    k, m = te.reduce_axis(8, "k"), te.reduce_axis(8, "m")
    log = te.compute((6,), lambda i: te.log(te.sum(x[i, k], axis=k)), name="log")
    assert brute_bound(log, [x]) == (48, 48, 0)
    largest = te.compute((6,), lambda i: te.max(x[i, m], axis=m, where=m <= i), name="largest")
    assert brute_bound(largest, [x]) == (48, 0, 48)
    triangle = te.compute((6, 8), lambda i, j: te.select(j <= i, x[i, j], x[i, 0]), name="t")
    assert brute_bound(triangle, [x]) == (21 + 27, 0, 0)
