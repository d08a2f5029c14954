"""Checkpoints where they meet axes of many examples, functions that call themselves, records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import DefinitionError
from tests.support.programs.higher.data import Cons, Nil

STORING: list[dict[str, Any]] = [{"checkpoint": "sqrt"}, {"checkpoint": 2}, {"memory": 100}]
ROWS = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
WEIGHTS = np.random.default_rng(1).normal(size=(4, 4)).astype(np.float32)


def layers(w: Any, x: Any) -> Any:
    return ta.tanh(w @ ta.tanh(w @ x)).sum()


def repeated(**how: Any) -> Any:
    def run(w: Any, x: Any) -> Any:
        return ta.scan(lambda c, _: (ta.tanh(w @ c), None), x, None, length=9, **how)[0].sum()

    return run


def gradients(f: Any) -> list[Any]:
    """Derivatives of rows, and derivatives for each row."""
    each = ta.vmap(f, in_axes=(None, 0))
    return [
        ta.grad(lambda w, x: each(w, x).sum())(WEIGHTS, ROWS),
        ta.vmap(ta.grad(f), in_axes=(None, 0))(WEIGHTS, ROWS),
        ta.vmap(ta.grad(f, argnums=1), in_axes=(None, 0))(WEIGHTS, ROWS),
    ]


def test_rows_go_through_a_checkpoint() -> None:
    for one, other in zip(gradients(layers), gradients(ta.checkpoint(layers)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("how", STORING, ids=str)
def test_rows_go_through_loops_that_store_little(how: dict[str, Any]) -> None:
    for one, other in zip(gradients(repeated()), gradients(repeated(**how)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def both_modes(f: Any) -> tuple[Any, Any]:
    x = np.float64(0.7)
    return ta.grad(f)(x), ta.jvp(f, (x,), (1.0,))[1]


@ta.function
def power(x: Any, n: Any) -> Any:
    return ta.cond(n > 0, lambda: ta.sin(x) * power(x, n - 1), lambda: 1.0)


def test_a_function_that_calls_itself_in_a_checkpoint_and_around_one() -> None:
    @ta.function
    def inner(x: Any, n: Any) -> Any:
        part = ta.checkpoint(ta.sin)
        return ta.cond(n > 0, lambda: part(x) * inner(x, n - 1), lambda: 1.0)

    expected = both_modes(lambda x: power(x, 3))
    np.testing.assert_allclose(both_modes(ta.checkpoint(lambda x: power(x, 3))), expected)
    np.testing.assert_allclose(both_modes(lambda x: inner(x, 3)), expected)


@pytest.mark.parametrize("how", STORING[::2], ids=str)
def test_a_function_that_calls_itself_in_loops_that_store_little(how: dict[str, Any]) -> None:
    def loop(x: Any, **how: Any) -> Any:
        return ta.scan(lambda c, _: (ta.sin(c * power(x, 2)), None), x, None, length=7, **how)[0]

    np.testing.assert_allclose(both_modes(lambda x: loop(x, **how)), both_modes(loop))


def of_records(x: Any, n: Any, **how: Any) -> Any:
    """The head of a list of one number that goes round."""

    def step(c: Any, _: Any) -> Any:
        none, some = lambda: Cons(ta.sin(x), Nil()), lambda h, _: Cons(ta.sin(h * x), Nil())
        return ta.match(c, none, some), None

    start = ta.cond(n > 0, lambda: Cons(x * x, Nil()), lambda: Nil())
    last = ta.scan(step, start, None, length=7, **how)[0]
    return ta.match(last, lambda: 0.0 * x, lambda head, tail: head)


def test_records_that_go_round_are_stored_by_segments_alone() -> None:
    n = np.int64(1)
    expected = both_modes(lambda x: of_records(x, n))
    found = both_modes(lambda x: of_records(x, n, checkpoint="sqrt"))
    np.testing.assert_allclose(found, expected)
    with pytest.raises(DefinitionError, match="data of several kinds"):
        both_modes(lambda x: of_records(x, n, memory=1000))


@pytest.mark.parametrize("segments", ["sqrt", pytest.param(2, marks=pytest.mark.slow)])
def test_what_checkpoints_write_in_references_are_their_results(segments: Any) -> None:
    def program(x: Any) -> Any:
        count, held = ta.ref(0, "count"), ta.ref(x, "held")
        f = ta.ref(ta.topi.sin, "f")

        def body(i: Any, c: Any) -> Any:
            count.add(1)
            held.mul(ta.sin(x))
            f.set(lambda z: z * c)
            return x / (1.0 + c * c)

        last = ta.for_loop(0, 5, body, x, checkpoint=segments)
        step = ta.checkpoint(lambda y: (held.add(y), lambda z: z * y * x)[1])
        scaled = step(x)(0.5)
        return last + held.get() * scaled + f.get()(x), count.get()

    def by_hand(x: float) -> float:
        c, held, before = x, x, x
        for _ in range(5):
            held, before, c = held * np.sin(x), c, x / (1.0 + c * c)
        return c + (held + x) * 0.5 * x * x + x * before

    x = np.float64(0.75)
    value, count = ta.function(program)(x)
    assert count == 5 and np.isclose(value, by_hand(0.75), rtol=1e-12)
    slope = (by_hand(0.75 + 1e-6) - by_hand(0.75 - 1e-6)) / 2e-6
    gradient = ta.grad(lambda x: program(x)[0])
    forward = ta.jvp(lambda x: program(x)[0], (x,), (np.float64(1.0),))[1]
    np.testing.assert_allclose([gradient(x), forward], slope, rtol=1e-8)
    assert "checkpoint" in str(ta.function(program).trace(x)) and "recompute" in str(
        ta.function(gradient).trace(x)
    )
