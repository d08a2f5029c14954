"""Loops that store some of their states, mapped: as many are stored, and the bits stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.ir.analysis.blocks import inner_ops
from tensorad.ir.tensor import Loop
from tensorad.ir.visit import topological_ops

ROWS, WIDTH, STEPS = 4, 16, 60
STATE = WIDTH * 8
X = np.random.default_rng(0).standard_normal((ROWS, WIDTH))
W = np.linspace(0.5, 1.0, WIDTH)


def swung(x: Any, w: Any, **way: Any) -> Any:
    return ta.for_loop(0, STEPS, lambda t, h: ta.sin(h * w) + x * 0.1, x, **way).sum()


def gradient(**way: Any) -> Any:
    rows = ta.vmap(lambda x, w: swung(x, w, **way), (0, None))
    return ta.function(ta.grad(lambda x, w: rows(x, w).sum(), (0, 1)))


@pytest.mark.slow
def test_states_of_all_rows_are_stored_where_those_of_one_are() -> None:
    plain, stored = gradient(), gradient(memory=5 * STATE)
    wanted, found = plain(X, W), stored(X, W)
    for a, b in zip(found, wanted, strict=True):
        assert (a == b).all()
    whole = STEPS * ROWS * STATE
    assert plain.memory(X, W).temporaries > whole
    assert stored.memory(X, W).temporaries < 20 * ROWS * STATE < whole
    one = ta.vmap(ta.grad(lambda x: swung(x, W, memory=5 * STATE)))
    assert (one(X) == wanted[0]).all()


def test_a_mapped_loop_tests_what_it_carries() -> None:
    """Stacks have their places first in the test, too."""
    x = ta.placeholder((WIDTH,), "float64", name="x")
    xs = ta.placeholder((ROWS, WIDTH), "float64", name="xs")
    start = (np.int64(0), x)
    _, y = ta.while_loop(
        lambda c: c[0] < 7, lambda c: (c[0] + 1, ta.sin(c[1])), start, memory=3 * (STATE + 8)
    )
    (made,) = ta.batched(y, {x: xs})
    (loop,) = [o for o in topological_ops([made]) if isinstance(o, Loop)]
    assert loop.replay is not None and len(loop.blocks) == 2
    given = [t.shape for t in loop.operands]
    assert [[p.shape for p in b.params] for b in loop.blocks] == [given, given]
    one = ta.interpret(y, {x: X[1]})
    np.testing.assert_allclose(ta.interpret(made, {xs: X})[1], one)


def test_a_mapped_loop_has_its_replay() -> None:
    x = ta.placeholder((WIDTH,), "float64", name="x")
    xs = ta.placeholder((ROWS, WIDTH), "float64", name="xs")
    (made,) = ta.batched(swung(x, ta.const(W), memory=5 * STATE), {x: xs})
    ops = topological_ops([made])
    (loop,) = [o for o in (*ops, *inner_ops(ops)) if isinstance(o, Loop) and o.replay is not None]
    assert loop.operands[1].shape == (5, ROWS, WIDTH)
    one = ta.interpret(swung(x, ta.const(W)), {x: X[1]})
    np.testing.assert_allclose(ta.interpret(made, {xs: X})[1], one)
