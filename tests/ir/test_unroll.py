"""Programs with their blocks written out: the same values, gradients and yardstick."""

from __future__ import annotations

import numpy as np
import pytest

import tensorad as ta
from tensorad.bound import bound
from tensorad.errors import BindError, LimitError
from tensorad.ir.reference.unroll import iteration_sizes, unrolled
from tensorad.ir.tensor import Control, Saved, Tensor, saved
from tensorad.ir.visit import topological_ops
from tests.support.programs.loops import (
    absolute_steps,
    cumulative,
    newton,
    scanned_cell,
    swapped,
    triangle,
)

RNG = np.random.default_rng(0)


def _cumulative() -> tuple[list[Tensor], dict[Tensor, np.ndarray], dict[str, int]]:
    n = ta.size("n")
    x = ta.placeholder((n, 3), name="x")
    total, loop = cumulative(x, reverse=True)
    rows = saved(loop, loop.blocks[0].results[0])
    return [total, rows * 2.0], {x: RNG.standard_normal((5, 3))}, {"n": 5}


def _newton() -> tuple[list[Tensor], dict[Tensor, np.ndarray], dict[str, int]]:
    a = ta.placeholder((), "float64", name="a")
    root, loop = newton(a)
    trail = saved(loop, loop.blocks[0].params[0])
    k = ta.reduce_axis(loop.trips, name="k")
    mean = ta.compute((), lambda: ta.sum(trail[k], axis=k), name="mean")
    return [root, mean], {a: np.array(2.0)}, {"n": len(ta.interpret(trail, {a: 2.0}))}


def _cell() -> tuple[list[Tensor], dict[Tensor, np.ndarray], dict[str, int]]:
    x, w = ta.placeholder((6, 4), name="x"), ta.placeholder((4, 4), name="w")
    last, every, _ = scanned_cell(x, w)
    return [last, every], {x: RNG.standard_normal((6, 4)), w: RNG.standard_normal((4, 4))}, {}


def _triangle() -> tuple[list[Tensor], dict[Tensor, np.ndarray], dict[str, int]]:
    n, x = ta.placeholder((), "int64", name="n"), ta.placeholder((), name="x")
    last, every, _ = triangle(n, x)
    return [last, every], {n: np.array(4), x: np.array(0.5)}, {"rounds": 4}


def _branches() -> tuple[list[Tensor], dict[Tensor, np.ndarray], dict[str, int]]:
    x = ta.placeholder((3,), name="x")
    return [absolute_steps(x, 9)[0]], {x: np.array([3.0, -1.0, 2.0])}, {}


PROGRAMS = {f.__name__[1:]: f for f in (_cumulative, _newton, _cell, _triangle, _branches)}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_are_those_of_the_program(name: str) -> None:
    tensors, arrays, sizes = PROGRAMS[name]()
    plain = unrolled(tensors, sizes)
    assert not any(isinstance(op, (Control, Saved)) for op in topological_ops(plain))
    wrt = [t for t in arrays if t.dtype.is_float]
    gradients, of_plain = ta.vjp(tensors[0], wrt), ta.vjp(plain[0], wrt)
    wanted = ta.interpret([*tensors, *gradients], arrays)
    for made in ([*plain, *of_plain], unrolled([*tensors, *gradients], sizes)):
        for a, b in zip(ta.interpret(made, arrays), wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_yardstick_is_that_of_the_blocks_written_out(name: str) -> None:
    (y, *_), arrays, sizes = PROGRAMS[name]()
    wrt = [t for t in arrays if t.dtype.is_float]
    (plain,) = unrolled([y], sizes)
    most = bound(y, wrt, sizes)
    assert most == bound(plain, wrt, sizes)
    head = ta.placeholder(y.shape, str(y.dtype), name="head")
    assert int(ta.work(ta.vjp(plain, wrt, head), sizes).iterations) <= most


def test_sizes_of_iterations_have_names_of_their_own() -> None:
    n = ta.size("n")
    a = ta.placeholder((n,), "float64", name="a")
    (root, loop), (other, second) = (
        newton(ta.compute((), lambda: a[0])),
        newton(ta.compute((), lambda: a[1])),
    )
    named = iteration_sizes([root, other])
    assert {s: str(e) for s, e in named.items()} == {loop.trips: "n_1", second.trips: "n_2"}


def test_unknown_numbers_of_iterations_are_asked_for() -> None:
    a = ta.placeholder((), "float64", name="a")
    root, loop = newton(a)
    with pytest.raises(BindError) as caught:
        bound(root, [a])
    assert str(caught.value) == (
        "how often the loop of root runs is not known: n has no value.\n"
        f"  in: {loop.source}\n"
        '  hint: give it: sizes={"n": 8}.'
    )


def test_long_loops_are_not_written_out() -> None:
    x, y = ta.placeholder((2,), name="x"), ta.placeholder((2,), name="y")
    made, loop = swapped(x, y, 10_001)
    with pytest.raises(LimitError) as caught:
        unrolled(made)
    assert str(caught.value) == (
        "the loop of a_last runs too often for its block to be copied 10001 times.\n"
        f"  in: {loop.source}\n"
        "  hint: use sizes for which all loops together run 10,000 times."
    )
