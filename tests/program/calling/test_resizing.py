"""Functions that call themselves with arrays of other extents: one definition, whose sizes calls
give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import BoundsError
from tensorad.ir.expr import local_size
from tensorad.ir.reference.verify import verify
from tensorad.ir.text.parser import parse_program
from tensorad.program.calling.resizing import Resizing
from tests.support.programs.higher.kit import F64, PYTHON, TRACED, check, same
from tests.support.programs.higher.resized import RESIZED, SMOOTH, X

SLOW = [n for n in RESIZED if n not in ("sums", "counters_without_arrays")]


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in RESIZED]
)
def test_values(name: str) -> None:
    """The interpreter, the compiled program and Python agree."""
    check(RESIZED[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", SMOOTH)
def test_gradients(name: str) -> None:
    """Reverse, forward and the interpreter agree, and differences of plain Python."""
    case = RESIZED[name]
    f, plain = ta.function(case.make(TRACED)), case.make(PYTHON)
    for arguments in case.arguments:
        x, *rest = arguments
        along = np.cos(np.arange(x.size)).reshape(x.shape)
        got = ta.grad(f)(*arguments)
        assert np.allclose(got, ta.interpret(ta.grad(f), *arguments), 1e-10, 1e-10)
        _, tangent = ta.jvp(lambda y, r=rest: f(y, *r), (x,), (along,))
        assert np.allclose(tangent, (got * along).sum(), 1e-10, 1e-10)
        ends = [plain(x + h * along, *rest) for h in (1e-6, -1e-6)]
        assert np.allclose(tangent, (ends[0] - ends[1]) / 2e-6, 1e-6, 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sums", "in_turn"])
def test_second_order(name: str) -> None:
    f = RESIZED[name].make(TRACED)
    assert ta.gradcheck(f, X[:3], order=2)


def test_all_extents_are_one_definition() -> None:
    traced: list[int] = []

    @ta.function
    def f(x: Any) -> Any:
        n = x.shape[0]
        traced.append(1)
        return ta.cond(n < 2, lambda: x.sum(), lambda: f(x[: n // 2]) + f(x[n // 2 :]))

    program = f.trace(np.ones(1000))
    (call,) = [t.op for t in program.results]
    assert call.definition is program.definition and [int(e.value) for e in call.sizes] == [1000]
    assert [str(n) for n in program.definition.params[0].shape] == [str(call.definition.sizes[0])]
    assert len(traced) == 3  # with numbers; with sizes, for the type, and then for the calls


def test_extents_that_a_python_if_asks_for_unfold() -> None:
    @ta.function
    def f(x: Any) -> Any:
        n = x.shape[0]
        return f(x[: n // 2]) * f(x[n // 2 :]) if n > 1 else x[0]

    assert f.trace(X[:4]).definition is None
    assert np.allclose(f(X[:4]), X[:4].prod()) and np.allclose(f(X[:3]), X[:3].prod())


def test_other_extents_around() -> None:
    """The second call of another shape has sizes outside, too."""
    f = RESIZED["sums"].make(TRACED)
    for x in (X, X[:3], X[:5]):
        same(f(x), RESIZED["sums"].make(PYTHON)(x))


def test_a_read_outside_is_refused_where_it_happens() -> None:
    @ta.function
    def f(x: Any) -> Any:
        return ta.cond(x.shape[0] < 2, lambda: x.sum(), lambda: f(x[1:]) + x[4])

    with pytest.raises(BoundsError, match="index 4 of axis 0, which has extent 4"):
        f(X)


@pytest.mark.slow
def test_texts_are_read_back() -> None:
    made = [(ta.function(RESIZED[n].make(TRACED)), n) for n in ("rows", "counters_around")]
    for g, name in [*made, (ta.function(ta.grad(made[0][0])), "rows")]:
        arguments = RESIZED[name].arguments[0]
        program = g.trace(*arguments)
        again = parse_program(str(program))
        assert str(again) == str(program)
        assert " at [x_0](" in str(program) or " at [y_0, t](" in str(program)
        last = again.functions[-1]
        verify(list(last.results) if isinstance(last.results, tuple) else [last.results])
        given = dict(zip([t for _, t in last.params], arguments, strict=True))
        assert np.array_equal(ta.interpret(last.results, given), ta.interpret(g, *arguments))


def test_sizes_split_where_extents_differ() -> None:
    shapes = Resizing([(4, 3), (4,)])
    assert shapes.values([(4, 3), (4,)]) == {} and shapes.values([(2, 3), (2,)]) is None
    one = shapes.widened([(2, 3), (2,)], ["x", "y"])
    (n,) = one.sizes
    assert one.shapes == ((n, 3), (n,)) and n.label == "x_0"
    assert one.values([(5, 3), (5,)])[n].value == 5 and one.values([(5, 3), (4,)]) is None
    two = one.widened([(5, 3), (4,)], ["x", "y"])
    assert two.sizes[0] is n and two.shapes == ((n, 3), (two.sizes[1],))
    assert two.values([(local_size("m"), 3), (1,)])[two.sizes[1]].value == 1


def test_work_counts_sizes_of_calls() -> None:
    f = RESIZED["sums"].make(TRACED)
    assert ta.work(f, X, sizes={"f_calls": 10, "x_0": 7}).iterations > 70


def _suffixes(x: Any, loop: Any, cond: Any, again: Any) -> Any:
    """Sums over suffixes of arrays, of calls on some of them."""
    n = x.shape[0]

    def calls() -> Any:
        return loop(n, lambda i, c: c + again(x[i + 1 :]) * x[i:].sum()) + x.sum()

    return cond(x.sum() > 1.0, calls, lambda: (x * x).sum())


def test_parts_from_a_counter_on() -> None:
    """Their extents are as large as the counter leaves, in memory of the call."""

    @ta.function
    def f(x: Any) -> Any:
        return _suffixes(x, lambda n, body: ta.for_loop(0, n, body, 0.0), ta.cond, f)

    def plain(x: Any) -> Any:
        def loop(n: int, body: Any) -> Any:
            c = 0.0
            for i in range(n):
                c = body(i, c)
            return c

        return _suffixes(x, loop, lambda c, yes, no: yes() if c else no(), plain)

    x, v = np.array([1.0, 0.5, 0.25, 0.625]), np.array([1.0, -0.5, 2.0, 0.25])
    h = 1e-6 * v
    assert f(x) == pytest.approx(plain(x), rel=1e-14)
    assert f(x[:0]) == 0.0
    slope = (plain(x + h) - plain(x - h)) / 2e-6
    assert ta.grad(f)(x) @ v == pytest.approx(slope, rel=1e-7)
    assert ta.jvp(f, (x,), (v,))[1] == pytest.approx(slope, rel=1e-7)


@pytest.mark.slow
def test_derivative_of_another_recursion_inside() -> None:
    @ta.function
    def power(x: Any, n: Any) -> Any:
        return ta.cond(n > 0, lambda: x * power(x, n - 1), lambda: 1.0)

    @ta.function
    def newton(x: Any, a: Any, n: Any) -> Any:
        def step() -> Any:
            return newton(x - (power(x, 3) - a) / ta.grad(power)(x, 3), a, n - 1)

        return ta.cond(n > 0, step, lambda: x)

    root = lambda a: newton(F64(1.5), a, 8)  # noqa: E731  # differentiated below
    a = F64(2.0)
    found = [f(a) for f in (ta.function(root), ta.grad(root))]
    assert np.allclose(found, [2 ** (1 / 3), 2 ** (-2 / 3) / 3])


def test_calls_with_arrays_of_other_ranks_are_of_other_kinds() -> None:
    @ta.function
    def wrapped(x: Any) -> Any:
        def inside() -> Any:
            return wrapped(x[None] - 1 if x.ndim < 2 else x - 1)

        return ta.cond(x.sum() > 0, inside, lambda: x.sum())

    assert (wrapped(np.float64(3.5)), ta.grad(wrapped)(np.float64(3.5))) == (-0.5, 1.0)
