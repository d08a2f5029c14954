"""Adjoints that are 0 except at a few indices: branches give these parts, loops save them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.autodiff.control.rows import from_parts, further_parts, parts_of, rows_of
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.lower import lower_program
from tensorad.ir.expr import LocalSize, int_const, local_size
from tensorad.ir.tensor import Loop, outputs
from tensorad.ir.visit import topological_ops
from tests.support.programs.oracles import check_both_modes

RNG = np.random.default_rng(0)
M = 3
H = ta.placeholder((M,), "float64", name="h")


def _counter(name: str, n: int) -> LocalSize:
    return local_size(name, int_const(n))


def test_terms_at_indices_of_sizes_are_parts() -> None:
    t = _counter("t", 4)
    made = ta.compute(
        (4, M), lambda i, j: ta.select(i == t, H[j], 0.0) + ta.select(i + t == 3, 1.0, 0.0), "made"
    )
    one, other = parts_of(made, (), {})
    assert [d for part in (one, other) for d, _ in part.at] == [0, 0]
    assert one.value.shape == other.value.shape == (M,)
    (whole,) = parts_of(made, (), {t: None})
    assert whole.at == () and whole.value is made, "t has no value outside"


def test_what_else_there_is_of_an_adjoint_is_a_part_at_all_indices() -> None:
    made = ta.compute((4, M), lambda i, j: ta.select(i == 2, H[j], 0.0) + H[j], name="made")
    one, rest = parts_of(made, (), {})
    assert one.value.shape == (M,) and rest.at == () and rest.value.shape == (4, M)
    (scattered,) = parts_of(ta.scatter((4,), (M,), lambda i: (i % 2, H[i])), (), {})
    assert scattered.at == ()


def test_parts_put_together_are_the_adjoint() -> None:
    made = ta.compute((4, M), lambda i, j: ta.select((i == 2) & (j == 1), H[j], 0.0), name="made")
    (part,) = parts_of(made, (), {})
    assert part.value.shape == ()
    again = from_parts(part.value, part.at, (), made)
    found = ta.interpret([made, again], {H: [4.0, 5.0, 6.0]})
    assert found[1][2, 1] == 5.0 and np.array_equal(*found)


def test_a_part_is_0_where_the_tensor_has_no_such_element() -> None:
    n = ta.size("n")
    made = ta.compute((M,), lambda i: ta.select(i == n - 2, H[i], 0.0), name="made")
    (part,) = parts_of(made, (), {})
    for value, want in ((1, 0.0), (3, 5.0), (5, 0.0)):
        assert ta.interpret(part.value, {H: [4.0, 5.0, 6.0]}, sizes={"n": value}) == want


def test_rows_have_no_axes_of_which_another_loop_tells_the_index() -> None:
    t, u = _counter("t", 4), _counter("u", M)
    made = ta.compute((4, M), lambda i, j: ta.select((i == t) & (j == u), 2.0, 0.0), name="made")
    ((row,), rest) = rows_of(made, (), u, M)
    assert row.dim == 1 and row.value.shape == (4,) and rest is None
    less = further_parts(row, (), {u: None})
    assert less.value.shape == () and [d for d, _ in less.at] == [0]
    assert further_parts(row, (), {t: None, u: None}).at == ()


def _in_a_branch(x: Any, c: Any) -> Any:
    def step(t: Any, c: Any) -> Any:
        return ta.cond(c.sum() > 0, lambda: ta.sin(c) * x[t], lambda: c + x[t])

    return ta.for_loop(0, x.shape[0], step, c)


def _in_branches_of_branches(x: Any, c: Any) -> Any:
    n = x.shape[0]

    def step(t: Any, c: Any) -> Any:
        def inner() -> Any:
            return ta.cond(c[0] > 0, lambda: ta.sin(c) * x[t], lambda: c * x[n - 1 - t])

        return ta.switch(t % 3, [inner, lambda: c * 0.9, lambda: c + x[n - 1 - t]])

    return ta.for_loop(0, n, step, c)


def _at_two_counters(x: Any, c: Any) -> Any:
    def step(t: Any, c: Any) -> Any:
        return ta.for_loop(0, M, lambda u, c: ta.sin(c) * x[t, u], c)

    return ta.for_loop(0, x.shape[0], step, c)


def _in_a_branch_and_outside(x: Any, c: Any) -> Any:
    n = x.shape[0]

    def step(t: Any, c: Any) -> Any:
        return ta.cond(c.sum() > 0, lambda: ta.sin(c) * x[t], lambda: c) * x[n - 1 - t]

    return ta.for_loop(0, n, step, c)


CASES: list[Callable[[Any, Any], Any]] = [
    _in_a_branch, _in_branches_of_branches, _at_two_counters, _in_a_branch_and_outside,
]  # fmt: skip


@pytest.mark.parametrize("f", CASES)
def test_an_iteration_changes_no_more_of_an_adjoint_than_it_reads(f: Callable[..., Any]) -> None:
    def both(x: Any, c: Any) -> Any:
        return ta.grad(lambda x, c: f(x, c).sum(), argnums=(0, 1))(x, c)

    visits = []
    for n in (6, 12, 24):
        trace = ta.function(both).trace(np.zeros((n, M)), np.zeros(M))
        p = lower_program(list(trace.results), list(trace.parameters), schedule=False)
        at = (RNG.uniform(0.5, 1, (n, M)), RNG.uniform(0.5, 1, M))
        visits.append(interpret_loops(p, dict(zip(trace.parameters, at, strict=True)))[1])
    assert abs(visits[2] - 3 * visits[1] + 2 * visits[0]) <= 12 * M, visits


@pytest.mark.sampled(3)
@pytest.mark.parametrize("f", CASES)
@pytest.mark.parametrize("sign", [-1, 1])
def test_modes_agree(f: Callable[..., Any], sign: int) -> None:
    x, c = (ta.placeholder(s, "float64", name=n) for n, s in (("x", (5, M)), ("c", (M,))))
    y = f(x, c)
    at = {x: RNG.uniform(-1, 1, (5, M)), c: sign * RNG.uniform(0.3, 1, M)}
    check_both_modes(y, [x, c], at)
    direction = {x: np.ones((5, M))}
    check_both_modes(ta.jvp(y, direction), [x, c], at)


def test_rows_that_branches_give_are_saved_and_not_carried() -> None:
    x, c = (ta.placeholder(s, "float64", name=n) for n, s in (("x", (5, M)), ("c", (M,))))
    dx = ta.grad(_in_a_branch(x, c).sum(), x)
    (reverse,) = [o for o in topological_ops([dx]) if isinstance(o, Loop) and o.reverse]
    assert [t.shape for t in outputs(reverse)] == [(M,)]
