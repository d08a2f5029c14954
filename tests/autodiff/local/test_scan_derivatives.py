"""Scans by themselves: tangents beside the states, adjoints backwards, beside slopes."""

from __future__ import annotations

import numpy as np

from tensorad import te
from tensorad.autodiff import jacobian, jvp
from tensorad.autodiff.local.scans import Heads, reverse_sweep, tangent_scan
from tensorad.ir.arrays.scan_outputs import last_states, states_after, states_before
from tensorad.ir.combiner import make_combiner
from tensorad.ir.dtypes import FLOAT64
from tensorad.ir.expr import axis, const, read
from tensorad.ir.reference.interpret import interpret
from tensorad.ir.tensor import Scan

N = 4
X = te.placeholder((N,), "float64", name="X")
V = te.placeholder((N,), "float64", name="V")
START = 2.0
VALUES, MOVED = np.array([0.5, 2.0, -1.0, 1.5]), np.array([1.0, -2.0, 0.5, 3.0])


def scan() -> Scan:
    """s -> s * s + x, from 2."""
    c = make_combiner("square", lambda x, y: (x[0] * x[0] + y[0],), (const(0.0, FLOAT64),))
    k = axis("k", 0, N)
    one = const(START, FLOAT64)
    return Scan("S", (), (k,), (read(X, (k,)),), c, (one,), (N,), (k,))


def states(values: np.ndarray, start: float = START) -> np.ndarray:
    found = []
    for v in values:
        start = start * start + v
        found.append(start)
    return np.array(found)


def slopes_by_element() -> np.ndarray:
    """[m, k]: of state m by element k."""
    step = 1e-6
    columns = [
        (states(VALUES + step * e) - states(VALUES - step * e)) / (2 * step) for e in np.eye(N)
    ]
    return np.array(columns).T


def slopes_by_start() -> np.ndarray:
    return (states(VALUES, START + 1e-7) - states(VALUES, START - 1e-7)) / 2e-7


def test_tangents_are_carried_beside_the_states() -> None:
    op = scan()
    (k,) = op.along
    made = tangent_scan(op, [const(1.0, FLOAT64)], [read(V, (k,))])
    expected = slopes_by_element() @ MOVED + slopes_by_start()
    (after,), (before,), (last,) = (f(op) for f in (states_after, states_before, last_states))
    found = interpret([made[after], made[before], made[last]], {X: VALUES, V: MOVED})
    np.testing.assert_allclose(found[0], expected, rtol=1e-5)
    np.testing.assert_allclose(found[1], [1.0, *expected[:-1]], rtol=1e-5)
    np.testing.assert_allclose(found[2], expected[-1], rtol=1e-5)


def test_nothing_moves_without_tangents() -> None:
    assert tangent_scan(scan(), [None], [None]) == {}


def test_a_start_that_does_not_move_has_no_tangent() -> None:
    op = scan()
    made = tangent_scan(op, [None], [read(V, op.along)])
    (after,) = states_after(op)
    (found,) = interpret([made[after]], {X: VALUES, V: MOVED})
    np.testing.assert_allclose(found, slopes_by_element() @ MOVED, rtol=1e-5)


def test_a_start_that_does_not_move_meets_no_infinite_partial() -> None:
    """sqrt(s) + x, from 0: the first step's partial by its state is infinite."""
    roots = te.comm_reducer(lambda s, x: te.sqrt(s) + x, lambda t: 0.0, name="roots")
    y = te.scan(X, 0, roots)
    given = {X: np.array([4.0, 1.0, 2.25, 0.5]), V: MOVED}
    (moved,) = interpret([jvp(y, {X: V})], given)
    (by_element,) = interpret([jacobian(y, X)], given)
    assert np.isfinite(moved).all()
    np.testing.assert_allclose(moved, by_element @ MOVED)


def test_adjoints_go_backwards_for_every_seed_at_once() -> None:
    op = scan()
    (after,), (last,) = states_after(op), last_states(op)
    ends = Heads.of(op, {last: lambda _: const(1.0, FLOAT64)}, 1)
    each = Heads.of(op, {after: lambda i: read(V, tuple(i))}, 1)
    assert (ends.after, ends.before) == ([None], [None])
    swept = reverse_sweep(op, [ends, each], [0])
    by_element, by_start = slopes_by_element(), slopes_by_start()
    for n, head in enumerate((np.eye(N)[-1], MOVED)):
        made = [swept.elements[n][0], swept.starts[n][0]]
        elements, start = interpret(made, {X: VALUES, V: MOVED})
        np.testing.assert_allclose(elements, head @ by_element, rtol=1e-5)
        np.testing.assert_allclose(start, head @ by_start, rtol=1e-5)


def test_without_heads_nothing_is_swept() -> None:
    op = scan()
    swept = reverse_sweep(op, [Heads.of(op, {}, 1)], [0])
    assert swept.elements == [{}]
    assert swept.starts == [{}]
