"""Carries of which an iteration changes some elements: only these are stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import tensorad as ta
from tensorad.codegen.control.in_place import (
    find_updates,
    in_order,
    inputs_of,
    stored_in_place,
    without_self_copies,
)
from tensorad.codegen.control.windows import updates_of
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.loops.ir import ButLast, Exchange, For, Kernel, Repeat, Store
from tensorad.codegen.loops.verify import verify_loops
from tensorad.codegen.loops.visit import statements
from tensorad.codegen.lower import lower_program
from tensorad.errors import BoundsError
from tensorad.ir.combiner import sum_combiner
from tensorad.ir.expr import axis, read
from tensorad.ir.tensor import Scatter, Tensor, Update, outputs
from tests.support.programs.linear import adjoint_of_rows, loop_of, row_from_row_before

N, M = 6, 5
X, S, W = (ta.placeholder(s, name=n) for s, n in (((N, M), "x"), ((N, M), "s"), ((M, M), "w")))
RNG = np.random.default_rng(0)
select, table = ta.select, ta.compute
Carry = Callable[..., Sequence[Tensor]]


def _dense(t: ta.Expr, c: Tensor) -> list[Tensor]:
    k = ta.reduce_axis((0, M), name="k")
    before = ta.maximum(t - 1, 0)
    new = table((M,), lambda j: ta.tanh(ta.sum(c[before, k] * W[k, j], axis=k) + X[t, j]))
    return [table((N, M), lambda r, j: select(r == t, new[j], c[r, j]))]


def _two(t: ta.Expr, a: Tensor, b: Tensor) -> list[Tensor]:
    def before(c: Tensor, j: ta.Expr) -> ta.Expr:
        return select(t > 0, c[ta.maximum(t - 1, 0), j], 0.0)

    return [
        table((N, M), lambda r, j: select(r == t, before(b, j) + X[t, j], a[r, j])),
        table((N, M), lambda r, j: select(r == t, before(a, j) - X[t, j], b[r, j])),
    ]


def _exchanged(t: ta.Expr, a: Tensor, b: Tensor) -> list[Tensor]:
    return [
        table((N, M), lambda r, j: select(r == t, b[t, j], a[r, j])),
        table((N, M), lambda r, j: select(r == t, a[t, j], b[r, j])),
    ]


def _doubled(t: ta.Expr, c: Tensor) -> Tensor:
    return table((N, M), lambda r, j: select(r == t, c[r, j] * 2.0 + X[r, j], c[r, j]))


def _old_and_new(t: ta.Expr, c: Tensor, d: Tensor) -> list[Tensor]:
    after = _doubled(t, c)
    return [after, table((M,), lambda j: d[j] + after[t, j] - c[t, j])]


def _new(t: ta.Expr, c: Tensor, d: Tensor) -> list[Tensor]:
    after = _doubled(t, c)
    return [after, table((M,), lambda j: d[j] + after[t, j])]


def _old(t: ta.Expr, c: Tensor, d: Tensor) -> list[Tensor]:
    return [_doubled(t, c), table((M,), lambda j: d[j] + c[t, j])]


def _one(formula: Callable[[ta.Expr, Tensor, ta.Expr, ta.Expr], ta.Expr]) -> Carry:
    return lambda t, c: [table((N, M), lambda r, j: formula(t, c, r, j))]


def _before(t: ta.Expr, c: Tensor, j: ta.Expr) -> ta.Expr:
    return c[ta.maximum(t - 1, 0), j] * 0.5 + X[t, j]


ROW = table((M,), lambda j: 0.0, name="row")
CASES: dict[str, tuple[Carry, tuple[Tensor, ...], int]] = {
    "a row": (_one(lambda t, c, r, j: select(r == t, _before(t, c, j), c[r, j])), (S,), 0),
    "a column": (_one(lambda t, c, r, j: select(j == t, X[r, t], c[r, j])), (S,), 0),
    "added to": (_one(lambda t, c, r, j: c[r, j] + select(r == t, X[t, j], 0.0)), (S,), 0),
    "in two rows": (
        _one(
            lambda t, c, r, j: c[r, j] + select(r == t, X[t, j], 0.0) - select(r == 0, X[t, j], 0.0)
        ),
        (S,), 0,
    ),
    "a growing part": (_one(lambda t, c, r, j: select(r < t, c[r, j] + X[t, j], c[r, j])), (S,), 0),
    "a sum": (_dense, (S,), 0),
    "two together": (_two, (S, X), 0),
    "read afterwards": (_new, (S, ROW), 1),
    "read before": (_old, (S, ROW), 1),
    "read before and afterwards": (_old_and_new, (S, ROW), 2),
    "exchanged rows": (_exchanged, (S, X), 1),
    "a row turned": (_one(lambda t, c, r, j: select(r == t, c[t, M - 1 - j], c[r, j])), (S,), 1),
    "shifted": (
        _one(lambda t, c, r, j: select((r <= t) & (r > 0), c[ta.maximum(r - 1, 0), j], c[r, j])),
        (S,), 1,
    ),
    "data decides": (_one(lambda t, c, r, j: select(X[t, j] > 0, X[t, j], c[r, j])), (S,), 1),
}  # fmt: skip


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", CASES)
def test_carries_changed_in_place_hold_what_the_formulas_say(name: str) -> None:
    body, first, exchanged = CASES[name]
    trips = M if name == "a column" else N
    op = loop_of(trips, first, [X, W], body)
    given = [X, S, W]
    arrays = {t: RNG.standard_normal([int(str(n)) for n in t.shape]) for t in given}
    wanted = list(outputs(op))
    reference = ta.interpret(wanted, arrays)
    for schedule in (False, True):
        program = lower_program(wanted, given, schedule=schedule)
        verify_loops(program)
        found, _ = interpret_loops(program, arrays)
        for value, expected in zip(found, reference, strict=True):
            np.testing.assert_allclose(value, expected, rtol=1e-12)
        moves = _repeat(wanted, given).moves
        assert len([m for m in moves if isinstance(m, Exchange)]) == exchanged
    f = ta.build(wanted, given)
    made = f(*[arrays[t].astype(np.float32) for t in given])
    for value, expected in zip(made if len(wanted) > 1 else [made], reference, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-5)


def _repeat(wanted: Sequence[Tensor], given: Sequence[Tensor]) -> Repeat:
    (found,) = [n for n in lower_program(wanted, given).nodes if isinstance(n, Repeat)]
    return found


def _points(repeat: Repeat) -> int:
    """Iterations of the innermost loops that one run of the body takes."""
    total = 0
    nodes = [i for n in repeat.body for i in (n.nodes if isinstance(n, ButLast) else (n,))]
    for k in [n for n in nodes if isinstance(n, Kernel)]:
        stack = [(s, 1) for s in k.body]
        while stack:
            s, around = stack.pop()
            if isinstance(s, For):
                assert s.axis.extent is not None
                stack += [(i, around * s.axis.extent) for i in s.body]
            elif isinstance(s, Store):
                total += around
    return total


def test_an_iteration_stores_as_much_whatever_the_size_of_the_carry() -> None:
    rows, sums = set(), set()
    for n in (10, 1000, 100_000):
        x, start = ta.placeholder((n, 4), name="x"), ta.placeholder((n, 4), name="start")
        last, _ = row_from_row_before(x, start)
        rows.add(_points(_repeat([last], [x, start])))
        total, _ = adjoint_of_rows(x)
        sums.add(_points(_repeat([total], [x])))
    assert rows == {4} and sums == {8}


def test_a_scatter_onto_a_carry_goes_on_in_its_buffer() -> None:
    places = ta.placeholder((N,), "int64", name="places")

    def body(t: ta.Expr, c: Tensor) -> list[Tensor]:
        k = axis("k", 0, M)
        update = Update((read(places, (t,)), k), read(X, (t, k)))
        return list(
            outputs(Scatter("after", c.shape, c.dtype, (k,), (update,), sum_combiner(c.dtype), c))
        )

    op = loop_of(N, [S], [X, places], body)
    f = ta.build(outputs(op), [S, X, places])
    s, x = (RNG.standard_normal((N, M)).astype(np.float32) for _ in range(2))
    at = np.array([2, 2, 0, 5, 1, 2])
    expected = s.copy()
    np.add.at(expected, at, x)
    np.testing.assert_allclose(f(s, x, at), expected, rtol=1e-6)
    assert not _repeat(outputs(op), [S, X, places]).moves
    with pytest.raises(BoundsError):
        f(s, x, np.array([2, 2, 9, 5, 1, 2]))


@pytest.mark.parametrize("reads_between", [False, True])
def test_scatters_one_after_the_other_go_on_in_the_carrys_buffer(reads_between: bool) -> None:
    places = ta.placeholder((N,), "int64", name="places")

    def body(t: ta.Expr, c: Tensor) -> Tensor:
        one, other = places[t], places[N - 1 - t]
        once = c.at[one].set(c[other])
        return once.at[other].add((once if reads_between else c)[one])

    last = ta.for_loop(0, N, body, S)
    f = ta.build(last, [S, places])
    expected, at = RNG.standard_normal((N, M)).astype(np.float32), np.array([2, 2, 0, 5, 1, 4])
    found = f(expected, at)
    for t in range(N):
        old, one, other = expected.copy(), at[t], at[N - 1 - t]
        expected[one] = old[other]
        expected[other] += (expected if reads_between else old)[one].copy()
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert bool(_repeat([last], [S, places]).moves) == reads_between


def test_updates_run_after_what_does_not_need_them() -> None:
    c, d = ta.placeholder((N, M), name="c"), ta.placeholder((M,), name="d")
    op = loop_of(N, [S, ROW], [X], _old)
    block = op.blocks[0]
    (old, other), (result, sums) = block.params[:2], block.results
    given = dict.fromkeys((*block.params, c, d))
    found = find_updates([(old, result), (other, sums)], list(block.results), given)
    assert list(found) == [result.op]
    assert list(in_order(block.results, given, found)) == [sums.op, result.op]
    assert X in inputs_of(result.op, found)
    program = lower_program([found[result.op].made], [old, X], schedule=False)
    (kernel,) = stored_in_place(program.kernels, found[result.op])
    assert kernel.writes == (old,)
    assert len([s for s in statements(kernel.body) if isinstance(s, Store)]) == 1


def test_only_elements_that_may_differ_are_updates() -> None:
    c = ta.placeholder((N, M), name="c")
    whole = ta.compute((N, M), lambda r, j: c[r, j] * 2.0)
    assert updates_of(whole, c, {}, before=False) is None
    part = ta.compute((N, M), lambda r, j: select(r >= 4, c[r, j] * 2.0, c[r, j]))
    made = updates_of(part, c, {}, before=False)
    assert made is not None and isinstance(made.op, Scatter) and made.op.init is c
    assert [a.extent for a in made.op.axes] == [2, M]
    same = Store((c,), made.op.axes, (read(c, made.op.axes),))
    assert without_self_copies((For(made.op.axes[0], (For(made.op.axes[1], (same,)),)),)) == ()


def test_what_reads_elements_that_change_is_computed_before_them() -> None:
    def body(t: ta.Expr, c: Tensor) -> list[Tensor]:
        row = ta.compute((M,), lambda k: c[t + 1, k] * 2.0, name="row")
        moved = ta.compute(
            c.shape,
            lambda i, k: (
                ta.select((i > t) & (i < t + 2), 0.0, c[i, k])
                + ta.select(ta.all_of(i == t), row[k], 0.0)
            ),
            name="moved",
        )
        return [moved]

    op = loop_of(N - 1, [S], [], body)
    repeat = _repeat(outputs(op), [S])
    assert not repeat.moves
    s = RNG.standard_normal((N, M)).astype(np.float32)
    expected = s.copy()
    for t in range(N - 1):
        row = expected[t + 1] * 2
        expected[t + 1] = 0
        expected[t] += row
    np.testing.assert_allclose(ta.build(outputs(op), [S])(s), expected, rtol=1e-6)


def test_formulas_from_outside_of_a_loop_are_not_made_again_inside() -> None:
    shared = ta.compute((N, M), lambda i, k: S[i, k] * 3.0, name="shared")
    first = ta.compute((N, M), lambda i, k: shared[i, k] + 1.0, name="first")
    second = ta.compute((N, M), lambda i, k: shared[i, k] - 1.0, name="second")

    def body(t: ta.Expr, c: Tensor) -> list[Tensor]:
        part = ta.compute(
            c.shape, lambda i, k: ta.select(ta.all_of(i == t), second[i, k], c[i, k]), name="part"
        )
        return [part]

    op = loop_of(N, [first], [second], body)
    program = lower_program(list(outputs(op)), [S], schedule=False)
    verify_loops(program)
    written = [t for k in program.kernels for t in k.writes if t.name == "shared"]
    assert len(written) == 1
    s = RNG.standard_normal((N, M)).astype(np.float32)
    np.testing.assert_allclose(ta.build(outputs(op), [S])(s), s * 3 - 1, rtol=1e-6)


def test_a_first_value_that_others_read_is_computed_once() -> None:
    first = ta.compute((N, M), lambda i, k: S[i, k] * 3.0, name="first")

    def body(t: ta.Expr, c: Tensor) -> list[Tensor]:
        return [ta.compute((N, M), lambda i, k: select(i == t, c[i, k] * 2.0, c[i, k]))]

    last = outputs(loop_of(N, [first], [], body))[0]
    alone, shared = (
        ta.work(ta.compute((N, M), lambda i, k: last[i, k] + other[i, k])) for other in (X, first)
    )
    assert alone.multiplications == shared.multiplications == N * M + N * M


def test_a_first_value_is_that_of_the_carry_before_its_update() -> None:
    """The inner loop runs after the update, which it reads; it begins from what was there."""

    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        def step(t: ta.Expr, carry: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            c, _ = carry
            before = ta.compute((N, M), lambda i, k: c[i, k] * 0.5)
            new = c.at[t].set(c[t] + 1.0)
            return new, ta.for_loop(0, 2, lambda s, v: v + new, before)

        return ta.for_loop(0, N, step, (x, x))

    x = RNG.standard_normal((N, M))
    for a, b in zip(ta.function(f)(x), ta.interpret(f, x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def _stepped(x: Tensor, at: Tensor) -> Tensor:
    step = ta.function(lambda x, t, c: ta.tanh(c) + x[t])
    return ta.for_loop(0, x.shape[0], lambda t, c: step(x, t, c), np.ones(3)).sum()


def _gathered_and_added(x: Tensor, at: Tensor) -> Tensor:
    def step(t: ta.Expr, c: Tensor) -> Tensor:
        return c.at[at[t]].add(ta.tanh(x[t]) * c[at[t]])

    return (ta.for_loop(0, x.shape[0], step, x) ** 2).sum()


def _changed_by_a_call(x: Tensor, at: Tensor) -> Tensor:
    step = ta.function(lambda c, t: c.at[t].add(c[t - 1]))
    return (ta.for_loop(1, x.shape[0], lambda t, c: step(c, t), x) ** 2).sum()


@pytest.mark.parametrize("function", [_stepped, _gathered_and_added, _changed_by_a_call])
def test_an_iteration_of_a_gradient_stores_what_it_changes(
    function: Callable[[Tensor, Tensor], Tensor],
) -> None:
    gradient = ta.value_and_grad(function)

    def elements(n: int) -> int:
        at = np.arange(n) * 7 % n
        return int(ta.work(gradient, np.full((n, 3), 0.1), at).elements)

    few, some, more, many = map(elements, (5, 16, 40, 64))  # the first in numbers, then with a size
    assert few < some and many - more == more - some
    x, at = RNG.normal(size=(6, 3)), np.array([5, 0, 3, 3, 1, 5])
    assert ta.gradcheck(function, x, at)


@pytest.mark.parametrize("trips", [0, 1, 2])
def test_a_carry_that_an_inner_loop_gives_by_a_call_is_not_changed_before_it_is_read(
    trips: int,
) -> None:
    first = ta.function(lambda a, b: (a, b * 2.0))

    def f(x: Tensor, y: Tensor, n: Tensor) -> Tensor:
        def step(t: ta.Expr, carry: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            c, d = carry
            old = ta.for_loop(0, n, lambda s, v: first(c, v)[0], y)
            new = c.at[t].set(d[0] * 0.5)
            return new, old + new * 2.0

        return ta.for_loop(0, N, step, (x, y))

    x, y = RNG.standard_normal((2, N, M))
    found = ta.function(f)(x, y, trips)
    for a, b in zip(found, ta.interpret(f, x, y, trips), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_data_that_choose_between_a_changed_part_and_others_leave_the_rest_as_it_was() -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        def step(t: ta.Expr, c: Tensor) -> Tensor:
            def element(r: ta.Expr, j: ta.Expr) -> ta.Expr:
                part = select(r == t, y[t, j], c[r, j])
                return select(r <= t, select(y[r, j] > 0, part, c[r, j] * 0.5), c[r, j])

            return table((N, M), element)

        return ta.for_loop(0, N, step, x)

    x, y = RNG.standard_normal((2, N, M))
    np.testing.assert_allclose(ta.function(f)(x, y), ta.interpret(f, x, y), rtol=1e-12)


def test_an_update_that_reads_what_another_one_of_its_point_has_stored() -> None:
    def body(t: ta.Expr, c: Tensor) -> list[Tensor]:
        r, k = axis("r", 0, N), axis("k", 0, M)
        added = Update((r, k), read(X, (r, k)))
        doubled = Update((r, k), read(c, (r, k)))
        op = Scatter("after", (N, M), c.dtype, (r, k), (added, doubled), sum_combiner(c.dtype), c)
        return list(outputs(op))

    op = loop_of(2, [S], [X], body)
    s, x = (RNG.standard_normal((N, M)).astype(np.float32) for _ in range(2))
    found = ta.build(outputs(op), [S, X])(s, x)
    np.testing.assert_allclose(found, 2 * (2 * s + x) + x, rtol=1e-5)
