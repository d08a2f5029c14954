"""Adjoints of scatters that overwrite: what is stored for them, and what they visit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.autodiff.adjoints.adjoint import whole
from tensorad.autodiff.adjoints.overwritten import last_writers, overwrites_once, to_first_values
from tensorad.autodiff.local.scan_forms import scatter_scan
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.lower import lower_program
from tensorad.ir.tensor import Compute, Scatter, Tensor, outputs
from tests.support.programs.oracles import check_both_modes

RNG = np.random.default_rng(0)
OLD = ta.placeholder((5, 2), "float64", name="old")
ROWS = ta.placeholder((3, 2), "float64", name="rows")
PLACES = ta.placeholder((3,), "int64", name="places")
VALUES = {OLD: RNG.standard_normal((5, 2)), ROWS: RNG.standard_normal((3, 2))}


def scatter(t: Tensor) -> Scatter:
    assert isinstance(t.op, Scatter)
    return t.op


def test_points_that_have_an_index_of_their_own_update_an_element_once() -> None:
    i = ta.placeholder((), "int64", name="i")
    row = ta.placeholder((2,), "float64", name="row")
    assert overwrites_once(scatter(OLD.at[i].set(row)))
    assert not overwrites_once(scatter(OLD.at[PLACES].set(ROWS)))
    assert not overwrites_once(scatter(OLD.at[i].add(row)))


def test_the_last_writers_of_a_set_do_not_depend_on_values() -> None:
    writers = last_writers(scatter_scan(scatter(OLD.at[PLACES].set(ROWS))))
    assert writers is not None
    assert ta.interpret(writers, {PLACES: [3, 0, 3]}).tolist() == [
        [2, 3], [6, 6], [6, 6], [4, 5], [6, 6],
    ]  # fmt: skip
    assert last_writers(scatter_scan(scatter(OLD.at[PLACES].add(ROWS)))) is None


def test_what_no_update_took_the_place_of_goes_on() -> None:
    op, head = scatter(OLD.at[PLACES].set(ROWS)), ta.placeholder((5, 2), "float64", name="head")
    made = to_first_values(op, OLD, whole(head), None, (), {})
    kept = outputs(Compute("kept", made.axes, (made.weight(()),)))[0]
    found = ta.interpret(kept, {head: VALUES[OLD], PLACES: [3, 0, 3]})
    np.testing.assert_array_equal(found, VALUES[OLD] * np.array([[0, 1, 1, 0, 1]]).T)


@pytest.mark.parametrize("places", [(3, 0, 1), (3, 0, 3)])
def test_both_modes_agree(places: tuple[int, ...]) -> None:
    y = (OLD.at[PLACES].set(ROWS * ROWS) * np.arange(10.0).reshape(5, 2)).sum()
    check_both_modes(y, [OLD, ROWS], {**VALUES, PLACES: np.array(places)})


def test_elements_that_are_overwritten_stay_apart_from_poles() -> None:
    i, x = ta.placeholder((), "int64", name="i"), ta.placeholder((3,), "float64", name="x")
    y = ta.topi.sqrt(x).at[i].set(x[0]).sum()
    found = ta.interpret(ta.grad(y, x), {x: [4.0, 0.0, 1.0], i: 1})
    assert found.tolist() == [1.25, 0.0, 0.5]


def test_rows_that_a_loop_sets_by_data_are_neither_stored_whole_nor_visited_whole() -> None:
    def f(x: Any, order: Any) -> Any:
        return ta.for_loop(
            0, x.shape[0], lambda t, y: y.at[order[t]].set(ta.sin(x[t]) * y[order[t]]), x
        ).sum()

    gradient = ta.function(ta.grad(f))
    visits = []
    for n in (4, 8, 16):
        x, order = RNG.standard_normal((n, 3)), RNG.permutation(n)
        trace = gradient.trace(x, order)
        p = lower_program(list(trace.results), list(trace.parameters), schedule=False)
        visits.append(interpret_loops(p, dict(zip(trace.parameters, (x, order), strict=True)))[1])
        found, s = gradient(x, order), x[order]
        inverse = np.argsort(order)
        wanted = np.cos(x) * s + np.sin(x[inverse])
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
        assert f"[{n}, {n}, 3]" not in str(trace)
    assert visits[2] - visits[1] == 2 * (visits[1] - visits[0])
